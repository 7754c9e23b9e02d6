"""Scans, sorts and searches in traced functions, against NumPy."""

import loopwright as lw
import numpy as np
import pytest
from loopwright.codegen.target import Target

RNG = np.random.default_rng(12)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.cumsum(x, axis=0),
        lambda x: np.cumsum(x),
        lambda x: x.cumsum(axis=-1),
        lambda x: np.cumprod(x, axis=1),
        lambda x: x.cumprod(axis=0, dtype=np.float64),
        lambda x: np.nancumsum(np.where(x > 1, np.nan, x), axis=1),
        lambda x: np.nancumprod(np.where(x > 1, np.nan, x)),
        lambda x: np.cumulative_sum(x, axis=1, include_initial=True),
        lambda x: np.cumulative_prod(x, axis=0),
        lambda x: np.cumsum((x * 10).astype(np.int8), axis=1),
        lambda x: np.cumsum(x > 0, axis=0),
        lambda x: np.cumsum(x.T, axis=0)[::-1] * 2 + np.cumsum(x, axis=1).T,
    ],
)
@pytest.mark.parametrize("shape", [(5, 7), (33, 40)])
def test_scans_are_numpys(function, shape):
    x = RNG.standard_normal(shape).astype(np.float32)
    expected, result = function(x), lw.compile(function)(x)
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_scans_are_tuned_like_any_kernel(tmp_path):
    f = lw.compile(lambda x: np.cumsum(x, axis=0), log=tmp_path / "log.jsonl")
    x = RNG.standard_normal((50, 70)).astype(np.float32)
    f.tune(x, budget="2s")
    records = (tmp_path / "log.jsonl").read_text()
    assert "procedure" in records
    np.testing.assert_allclose(f(x), np.cumsum(x, axis=0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("side", ["left", "right"])
def test_searches_are_numpys(side):
    x, values = np.sort(RNG.standard_normal(100)), RNG.standard_normal((5, 9))
    f = lw.compile(lambda x, v: np.searchsorted(x, v, side=side))
    np.testing.assert_array_equal(f(x, values), np.searchsorted(x, values, side=side))
    f = lw.compile(lambda v: np.digitize(v, x, right=side == "left"))
    np.testing.assert_array_equal(f(values), np.digitize(values, x, right=side == "left"))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.sort(x),
        lambda x: np.sort(x, axis=0),
        lambda x: np.sort(x, axis=None),
        lambda x: np.argsort(x, axis=1, kind="stable"),
        lambda x: x.argsort(axis=0, kind="stable"),
        lambda x: np.sort((x * 3).astype(np.int8), axis=1),
        lambda x: np.take_along_axis(x, np.argsort(x, axis=0), axis=0) * 2,
        lambda x: np.sort(np.where(x > 1, np.nan, x), axis=1),
    ],
)
@pytest.mark.parametrize("shape", [(5, 7), (33, 40), (2, 5000)])
def test_sorts_are_numpys(function, shape):
    x = RNG.standard_normal(shape).astype(np.float32)
    expected, result = function(x), lw.compile(function)(x)
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("size", [2, 3, 8, 16])
def test_short_rows_are_sorted_in_lanes(size):
    def f(x):
        return np.sort(x, axis=1), np.median(x, axis=1), np.argsort(x, axis=1, kind="stable")

    rng, g = np.random.default_rng(size), lw.compile(f)
    x = rng.choice([*rng.standard_normal(9), np.nan, -np.nan, np.inf, 0, -0.0], (3, size, 40))
    for dtype in ("float32", "float64", "int16"):
        given = (x if dtype[0] == "f" else np.nan_to_num(x, posinf=9)).astype(dtype)
        for ours, right in zip(g(given), f(given), strict=True):
            np.testing.assert_array_equal(ours, right)
    # One vector of each element: more would not stay in registers.
    text = g.lower(given).as_text("loops")
    assert "@sort_columns" in text and "sort_rows" not in text
    assert size < 8 or f"vectorize r.1 in {Target.host().lanes(4)}:" in text


def test_partitions_are_sorted():
    x = RNG.standard_normal((5, 30))
    f = lw.compile(lambda x: (np.partition(x, 7), np.argpartition(x, 7), x.argpartition(3)))
    values, *places = f(x)
    np.testing.assert_array_equal(values, np.sort(x))
    for each in places:
        np.testing.assert_array_equal(np.take_along_axis(x, each, 1), np.sort(x))


@pytest.mark.parametrize(("k", "axis", "largest"), [(3, -1, True), (3, 0, False), (40, 1, True)])
def test_the_greatest_elements(k, axis, largest):
    x = RNG.integers(0, 9, (50, 60)).astype(np.float32)
    values, places = lw.compile(lambda x: lw.nn.top_k(x, k, axis, largest))(x)
    order = np.argsort(-x if largest else x, axis=axis, kind="stable")
    np.testing.assert_array_equal(places, np.take(order, np.arange(k), axis))
    np.testing.assert_array_equal(values, np.take_along_axis(x, places, axis))
    at_once = lw.nn.top_k(x, k, axis, largest)
    np.testing.assert_array_equal(values, at_once[0])
    np.testing.assert_array_equal(places, at_once[1])
