"""Arrays for samples: random values in a range, and the special values of each dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["SPECIAL_FLOATS", "extremes", "floats", "ints", "specials", "truths"]

Array = np.ndarray[Any, Any]
SPECIAL_FLOATS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5)


def floats(
    rng: np.random.Generator,
    shape: Sequence[int],
    dtype: str = "float32",
    low: float = -2.0,
    high: float = 2.0,
) -> Array:
    """Uniform floats in [low, high)."""
    return rng.uniform(low, high, tuple(shape)).astype(dtype)


def ints(
    rng: np.random.Generator,
    shape: Sequence[int],
    dtype: str = "int32",
    low: int = -9,
    high: int = 9,
) -> Array:
    """Uniform integers in [low, high], converted as ``astype`` does."""
    return rng.integers(low, high + 1, tuple(shape)).astype(dtype)


def truths(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    """Random bools."""
    return rng.integers(0, 2, tuple(shape)).astype(bool)


def specials(dtype: str, *, finite: bool = False, largest: bool = True) -> Array:
    """NaN, infinities, signed zeros, denormals and extreme values of a float dtype."""
    info = np.finfo(dtype)
    edges = [info.tiny, -info.tiny, info.smallest_subnormal, -info.smallest_subnormal, info.eps]
    if largest:
        edges += [info.max, info.min]
    values = np.array([*SPECIAL_FLOATS, *edges], dtype)
    return values[np.isfinite(values)] if finite else values


def extremes(dtype: str) -> Array:
    """Zero, small values and both ends of an integer dtype, or both bools."""
    if dtype == "bool":
        return np.array([False, True])
    info = np.iinfo(dtype)
    values = {info.min, info.min + 1, -3, -1, 0, 1, 2, 3, 7, info.max - 1, info.max}
    return np.array(sorted(v for v in values if v >= info.min), dtype)
