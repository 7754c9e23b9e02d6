"""Samples: arrays of random values in a range, and of the special values of each dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtype import Array
from ..graph.operator import Sample

FLOAT_DTYPES = ("float32", "float64")
SPECIAL_FLOATS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5)


def sample(*args: Array, **attrs: Any) -> Sample:
    """Returns one use of an operator: its operands and attributes."""
    return Sample(args, attrs)


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


def elementwise_samples(
    rng: np.random.Generator,
    kinds: str,
    domain: tuple[float, float] = (-4.0, 4.0),
    *,
    integers: Sequence[str] = ("int8", "uint8", "int32"),
    largest: bool = False,
) -> list[Sample]:
    """Returns samples of an elementwise operator of one operand whose dtype has one of ``kinds``.

    Random floats lie in ``domain``; ``largest`` adds the greatest floats to the special values.
    """
    samples: list[Sample] = []
    if "f" in kinds:
        for dtype in FLOAT_DTYPES:
            drawn = floats(rng, (50,), dtype, *domain)
            samples.append(sample(np.concatenate([specials(dtype, largest=largest), drawn])))
        samples.append(sample(floats(rng, (3, 1, 5), "float32", *domain)))
        samples.append(sample(floats(rng, (), "float32", *domain)))
        samples.append(sample(floats(rng, (2, 0), "float64", *domain)))
    if "i" in kinds:
        samples += [sample(extremes(dtype)) for dtype in integers]
    if "b" in kinds:
        samples.append(sample(truths(rng, (3, 7))))
    if kinds == "u":
        samples += [sample(specials(d).view(f"u{np.dtype(d).itemsize}")) for d in FLOAT_DTYPES]
        samples += [sample(floats(rng, s, "float32").view("uint32")) for s in ((3, 1, 5), (2, 0))]
        samples.append(sample(np.array(1 << 30, "uint32")))
    return samples
