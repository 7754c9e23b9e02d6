"""Integers of one to four bytes in full vectors: maps, reductions, and divisions through floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright.codegen.target import ISA_LEVELS, Target

HOST = Target.host()
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]
DIVISIONS: dict[str, Callable[..., Any]] = {
    "floor_divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "fmod": lambda a, b: np.fmod(a, b),
}


def pairs(dtype: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of one byte; else many of all sizes, and all pairs of extremes."""
    info = np.iinfo(dtype)
    if info.bits == 8:
        every = np.arange(info.min, info.max + 1).astype(dtype)
        a, b = np.meshgrid(every, every)
        return a.ravel(), b.ravel()
    edges = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, info.max // 3]
    edge = np.array(edges, dtype)
    a, b = (rng.integers(info.min, info.max, 20_000, dtype, endpoint=True) for _ in range(2))
    b = b >> rng.integers(0, info.bits, len(b)).astype(dtype)
    return (
        np.concatenate([a, np.repeat(edge, len(edge))]),
        np.concatenate([b, np.tile(edge, len(edge))]),
    )


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("name", DIVISIONS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_divisions_are_exact(dtype: str, name: str, isa: str, rng: np.random.Generator) -> None:
    a, b = pairs(dtype, rng)
    function, target = DIVISIONS[name], HOST.with_isa(isa)
    with np.errstate(all="ignore"):
        wanted, by_seven = function(a, b), function(a, np.array(7, dtype))
    found = lw.compile(lambda a, b: function(a, b), target=target)(a, b)
    np.testing.assert_array_equal(found, wanted)
    found = lw.compile(lambda a: function(a, np.array(7, dtype)), target=target)(a)
    np.testing.assert_array_equal(found, by_seven)


def mixed(x: Any, y: Any, row: Any) -> tuple[Any, ...]:
    """Maps of one width and of two, with a row for all rows, a column, and neighbours."""
    more = np.maximum(x, y) + row
    return (
        more,
        x < y,
        np.where(x < y, x, y[:, :1]),
        more.astype(np.int32) * 3,
        x[:, 1:] - y[:, :-1],
    )


@settings(max_examples=24, deadline=None)
@given(
    isa=st.sampled_from(LEVELS),
    rows=st.integers(1, 9),
    n=st.integers(2, 400),
    dtype=st.sampled_from(["int8", "uint8", "int16"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_maps_of_narrow_elements(isa: str, rows: int, n: int, dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    info = np.iinfo(dtype)
    x, y = (rng.integers(info.min, info.max, (rows, n), dtype, endpoint=True) for _ in range(2))
    found = lw.compile(mixed, target=HOST.with_isa(isa))(x, y, x[0])
    for got, wanted in zip(found, mixed(x, y, x[0]), strict=True):
        np.testing.assert_array_equal(got, wanted, strict=True)


@settings(max_examples=24, deadline=None)
@given(
    isa=st.sampled_from(LEVELS),
    shape=st.tuples(st.integers(1, 6), st.integers(1, 70), st.integers(1, 150)),
    axis=st.sampled_from([0, 1, 2, (0, 1), (1, 2), (0, 2), None]),
    seed=st.integers(0, 2**32 - 1),
)
def test_reductions_of_narrow_elements(
    isa: str, shape: tuple[int, int, int], axis: Any, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 127, shape, np.int8, endpoint=True)
    truth = rng.random(shape) < 0.01

    def reduced(x: Any, t: Any) -> tuple[Any, ...]:
        return np.max(x, axis=axis), np.sum(x, axis=axis, dtype=np.int8), np.any(t, axis=axis)

    found = lw.compile(reduced, target=HOST.with_isa(isa))(x, truth)
    for got, wanted in zip(found, reduced(x, truth), strict=True):
        np.testing.assert_array_equal(got, wanted)
