"""Decisions, and what random programs decide all the time: operands, axes, arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from random_programs import Array

__all__ = [
    "DTYPES",
    "Draw",
    "RandomDraw",
    "any_axis",
    "any_value",
    "partner",
    "random_array",
    "random_input",
]

T = TypeVar("T")
SIZES = (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 33, 64, 65)
FLOATS = ("float32",) * 4 + ("float64",)
INTS = ("int32", "int64", "int8", "uint8", "int16", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS, *FLOATS, *INTS[:4], "int32", "int64", *INTS[4:], "bool", "bool")


class Draw(Protocol):
    """Where decisions come from."""

    def pick(self, choices: Sequence[T]) -> T: ...
    def between(self, low: int, high: int) -> int: ...


class RandomDraw:
    """Decisions by a seeded generator."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def pick(self, choices: Sequence[T]) -> T:
        return choices[int(self.rng.integers(len(choices)))]

    def between(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))


def random_input(draw: Draw, rng: np.random.Generator, sizes: Sequence[int]) -> Array:
    rank = draw.pick((0, 1, 1, 2, 2, 2, 3, 3, 4))
    shape = [draw.pick(sizes) for _ in range(rank)]
    while np.prod(shape) > 6000:
        shape[int(np.argmax(shape))] = draw.pick((1, 2, 3))
    dtype = np.dtype(draw.pick(DTYPES))
    return random_array(rng, tuple(shape), dtype)


def random_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Floats around 0, ints from -8 or 0 to 8, and exact numbers among the floats at times."""
    if dtype.kind == "f":
        if rng.random() < 0.2:
            return rng.integers(-3, 4, shape).astype(dtype)
        return np.asarray(rng.standard_normal(shape)).astype(dtype)
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    return rng.integers(0 if dtype.kind == "u" else -8, 9, shape).astype(dtype)


def any_value(
    draw: Draw, values: Sequence[Array], kinds: str = "fiub", rank: int = 0
) -> int | None:
    """The number of a value of these kinds; mostly a late one, so that programs are deep."""
    fits = [i for i, v in enumerate(values) if v.dtype.kind in kinds and v.ndim >= rank]
    if not fits:
        return None
    return fits[-1] if draw.between(0, 1) else draw.pick(fits)


def partner(draw: Draw, values: Sequence[Array], i: int, kinds: str) -> int | None:
    """Another value that broadcasts against value ``i``."""
    shape = values[i].shape
    fits = [
        j
        for j, v in enumerate(values)
        if v.dtype.kind in kinds
        and all(x == y or 1 in (x, y) for x, y in zip(shape[::-1], v.shape[::-1]))
    ]
    return draw.pick(fits) if fits else None


def any_axis(draw: Draw, rank: int) -> int:
    axis = draw.between(0, rank - 1)
    return axis - rank if draw.between(0, 2) == 0 else axis
