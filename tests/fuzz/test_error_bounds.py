"""``f.error_bound``: results lie within it, and it is not far from what they are off by."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from error_bound_trial import trial

RNG = np.random.default_rng(7)


def _array(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x: Any) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)


def dense(x: Any, w: Any) -> Any:
    return np.maximum(x @ w, 0)


def chosen(x: Any) -> Any:
    return np.where(x > 0, np.log(np.abs(x)), np.sin(3 * x))


@pytest.mark.parametrize(
    ("function", "arrays", "most"),
    [
        (softmax, (_array(16, 100),), 60),
        (layer_norm, (_array(16, 100),), 60),
        (dense, (_array(16, 300), _array(300, 40)), 200),
        (chosen, (_array(1000),), 30),
    ],
)
def test_results_lie_within_their_bounds(
    function: Callable[..., Any], arrays: tuple[Any, ...], most: float
) -> None:
    compiled = lw.compile(function)
    bound = compiled.error_bound(*arrays)
    exact = function(*(a.astype(np.float64) for a in arrays))
    error = np.abs(compiled(*arrays) - exact)
    assert np.all(error <= bound)
    assert bound.max() <= most * error.max()


def test_what_rounding_decides_has_the_difference_of_both_sides() -> None:
    def step(x: Any) -> Any:
        return np.where((x + 1) * 3 > 6, 10.0, -10.0)

    bound = lw.compile(step).error_bound(np.float32([0, 1, 2]))
    assert bound[1] >= 20 and bound[0] < 1 and bound[2] < 1


def test_sums_and_products_of_sums_have_the_same_unit() -> None:
    bound = lw.compile(lambda x: x.prod(axis=0)).error_bound(_array(5, 3))
    assert np.all((bound > 0) & (bound < 1e-4))
    both = lw.compile(lambda x: (x + 1, {"y": x * 2})).error_bound(_array(4))
    assert both[0].shape == (4,) and not both[1]["y"].any()  # doubled exactly


def test_what_has_no_bound_is_an_error() -> None:
    with pytest.raises(lw.UnsupportedError, match="no error bound"):
        lw.compile(lambda x: np.sort(x * 3)).error_bound(_array(8))

    def halved(x: Any) -> Any:
        while x.max() > 1:
            x = x / 2
        return x

    with pytest.raises(lw.UnsupportedError, match="no error bound for loops"):
        lw.compile(halved).error_bound(_array(8))


@pytest.mark.parametrize("seed", range(2))
def test_random_programs_lie_within_their_bounds(seed: int) -> None:
    warnings.simplefilter("ignore")
    for each in range(10 * seed, 10 * seed + 4):
        assert not trial(each)[0].startswith("wrong")
