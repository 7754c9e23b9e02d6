"""Searches of sorted rows, short and long, and what is made of them, against NumPy."""

import loopwright as lw
import numpy as np
import pytest
from loopwright import nn
from loopwright.codegen.target import Target

SIZES = [0, 1, 2, 3, 32, 33, 1000, 4097]


def _searched(dtype, size, rng):
    """A sorted row, some of whose elements are equal or nan, and values to search for."""
    row, values = rng.standard_normal(size) * 30, rng.standard_normal(1031) * 30
    if np.dtype(dtype).kind == "f":
        row = np.where(rng.random(size) < 0.1, np.nan, row)
        values[::50], values[7], values[8] = np.nan, np.inf, -np.inf
    if dtype == "bool":
        return np.sort(row > 10), values > 10
    row = np.sort(np.rint(np.abs(row) if dtype.startswith("u") else row).astype(dtype))
    near = np.resize(row, 400) if size else values[:400]
    values = np.rint(np.abs(values) if dtype.startswith("u") else values)
    return row, np.concatenate([values.astype(dtype), near.astype(dtype)])


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64"]
)
def test_searches_of_any_size_are_numpys(dtype, size, side):
    row, values = _searched(dtype, size, np.random.default_rng(size))
    f = lw.compile(lambda x, v: np.searchsorted(x, v, side=side))
    # How many values there are decides about the loop around a search, and not about the search.
    for count in (0, 1, 3, len(values)) if size in (1, 33) else (len(values),):
        expected = np.searchsorted(row, values[:count], side=side)
        np.testing.assert_array_equal(f(row, values[:count]), expected)


@pytest.mark.parametrize("isa", ["x86-64", "x86-64-v3"])
@pytest.mark.parametrize("size", [2, 32, 1000])
@pytest.mark.parametrize("dtype", ["int8", "float32", "float64"])
def test_searches_on_other_machines_are_numpys(dtype, size, isa):
    row, values = _searched(dtype, size, np.random.default_rng(size))
    for side in ("left", "right"):
        f = lw.compile(
            lambda x, v, side=side: np.searchsorted(x, v, side), target=Target.host().with_isa(isa)
        )
        np.testing.assert_array_equal(f(row, values), np.searchsorted(row, values, side))


@pytest.mark.parametrize("size", [5, 70])
def test_rows_are_searched_each_for_its_own_values(size):
    rng = np.random.default_rng(size)
    rows, values = np.sort(rng.standard_normal((3, 4, size))), rng.standard_normal((3, 4, 300))
    found = lw.compile(lambda r, v: nn.searchsorted(r, v, right=True))(rows, values)
    for place in np.ndindex(3, 4):
        expected = np.searchsorted(rows[place], values[place], "right")
        np.testing.assert_array_equal(found[place], expected)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, s: np.digitize(x, s),
        lambda x, s: np.histogram(x, s)[0],
        lambda x, s: np.interp(x, s, s * 2),
        lambda x, s: np.isin(x, s),
        lambda x, s: s.searchsorted(x) * 2 + 1,
    ],
)
@pytest.mark.parametrize("size", [20, 100_000])
def test_functions_that_search_long_rows_are_numpys(function, size):
    rng = np.random.default_rng(size)
    row, values = np.sort(rng.standard_normal(size)), rng.standard_normal(100_000)
    values[::3] = np.resize(row, values[::3].size)
    expected = function(values, row)
    np.testing.assert_allclose(lw.compile(function)(values, row), expected, rtol=1e-12)
