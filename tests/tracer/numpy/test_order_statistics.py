"""Quantiles, histograms, counts and what has a size of its own, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.tracer.numpy.order_statistics import PLACES

RNG = np.random.default_rng(14)
X = RNG.standard_normal((5, 6, 7)) * 40
GAPS = np.where(X > 30, np.nan, X)
PICKS = RNG.integers(0, 9, (6, 7))


def check(function: Callable[..., Any], *args: Any, tolerance: float = 0) -> None:
    """Compare a function with its compiled form: dtypes, shapes and values."""
    expected, result = function(*args), lw.compile(function)(*args)
    if not isinstance(expected, tuple):
        expected, result = (expected,), (result,)
    for right, ours in zip(expected, result, strict=True):
        assert (ours.dtype, ours.shape) == (np.asarray(right).dtype, np.shape(right))
        np.testing.assert_allclose(ours, right, tolerance, tolerance)


@pytest.mark.parametrize("method", PLACES)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_quantiles_of_every_method(method: str, dtype: str) -> None:
    x = X.astype(dtype)
    check(lambda x: np.quantile(x, 0.3, axis=(0, 2), method=method), x, tolerance=1e-6)
    check(lambda x: np.quantile(x, [0, 0.25, 1.0], axis=1, method=method), x, tolerance=1e-6)


@pytest.mark.parametrize("axis", [None, 0, (1, 2)])
@pytest.mark.parametrize("keep", [False, True])
def test_medians_and_percentiles_with_nan(axis: Any, keep: bool) -> None:
    for x in (GAPS, GAPS.astype(np.float32)):
        check(lambda x: np.median(x, axis=axis, keepdims=keep), x)
        check(lambda x: np.nanmedian(x, axis=axis, keepdims=keep), x)
        check(lambda x: np.percentile(x, [5, 95], axis=axis, keepdims=keep), x, tolerance=1e-6)
        check(lambda x: np.nanpercentile(x, 30, axis=axis, keepdims=keep), x, tolerance=1e-6)


def test_quantiles_may_be_traced() -> None:
    check(lambda x, q: np.quantile(x, q, axis=1), X, np.array([[0.2, 0.4]]), tolerance=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize(
    "bins",
    [
        {"bins": 10, "range": (-2.0, 2.0)},
        {"bins": 7, "range": (0, 5), "density": True},
        {"bins": 5, "range": (1, 1)},
        {"bins": 6},
        {"bins": [-3, -1, 0, 0.5, 2]},
        {"bins": np.array([0, 1, 1])},
    ],
)
def test_histograms(dtype: str, bins: dict[str, Any]) -> None:
    x, weights = (RNG.standard_normal(3000) * 3).astype(dtype), RNG.standard_normal(3000)
    check(lambda x: np.histogram(x, **bins), x, tolerance=1e-6)
    check(lambda x, w: np.histogram(x, weights=w, **bins), x, weights, tolerance=1e-6)


def test_counts() -> None:
    i = RNG.integers(0, 20, 1000)
    check(lambda i: np.bincount(i, minlength=20), i)
    check(lambda i, w: np.bincount(i, w, 20), i, RNG.standard_normal(1000), tolerance=1e-12)
    with pytest.raises(lw.UnsupportedError, match="as long as the values say"):
        lw.compile(lambda i: np.bincount(i))(i)
    counted = lw.compile(lambda i: np.bincount(i, minlength=19) * 2)
    with pytest.raises(ValueError, match="the value 19 has no count for minlength=19"):
        counted(i)
    with pytest.raises(ValueError, match="no negative elements"):
        counted(i - 1)
    assert counted(np.minimum(i, 18)).tolist() == (2 * np.bincount(np.minimum(i, 18))).tolist()


@pytest.mark.parametrize("ufunc", [np.maximum, np.minimum, np.add, np.multiply])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_accumulations(ufunc: np.ufunc, dtype: str) -> None:
    x = PICKS.astype(dtype)
    check(lambda x: ufunc.accumulate(x), x)
    check(lambda x: ufunc.accumulate(x, axis=1), x)


def test_sorts_by_several_keys_and_in_place() -> None:
    check(lambda a, b: np.lexsort((a, b)), PICKS[0], PICKS[1])
    check(lambda a: np.lexsort(a), PICKS)

    def sorted_copy(x):
        x = x.copy()
        x.sort(axis=0)
        return x

    check(sorted_copy, PICKS)


@pytest.mark.parametrize("size", [5, 60])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, size: lw.nonzero(x, size=size),
        lambda x, size: lw.argwhere(x, size=size, fill_value=-1),
        lambda x, size: lw.flatnonzero(x > 3, size=size, fill_value=-1),
        lambda x, size: lw.unique(
            x, size=size, return_index=True, return_inverse=True, return_counts=True
        ),
        lambda x, size: lw.unique(
            np.where(x > 5, np.nan, x), size=size, fill_value=7.5, return_counts=True
        ),
    ],
)
def test_what_has_a_size(function: Callable[..., Any], size: int) -> None:
    check(lambda x: function(x, size), PICKS)


def test_distinct_elements_are_numpys() -> None:
    options: dict[str, Any] = dict.fromkeys(
        ("return_index", "return_inverse", "return_counts"), True
    )
    expected = np.unique(PICKS, **options)
    size = expected[0].size
    for right, ours in zip(expected, lw.unique(PICKS, size=size, **options), strict=True):
        np.testing.assert_array_equal(ours, right)
