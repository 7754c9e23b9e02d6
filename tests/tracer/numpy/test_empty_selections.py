"""What NumPy does with selections of nothing: an error where it raises one, its value otherwise."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.ir.errors import LoopwrightError

from tools.numpy_table.uses import assert_same

X = np.array([3.0, -1, 4, -1, 5, -9, 2, 6])

RAISING = (
    "v.max()",
    "np.min(v)",
    "np.amax(v)",
    "v.argmax()",
    "np.argmin(v)",
    "np.ptp(v)",
    "np.nanmax(v)",
    "np.nanmin(v)",
    "np.nanargmax(v)",
    "np.nanargmin(v)",
    "np.maximum.reduce(v)",
    "np.minimum.reduce(v)",
    "np.quantile(v, 0.5)",
    "np.percentile(v, [10, 50])",
    "np.quantile(v.astype(int), 0.5)",
    "np.stack([v, v]).max(1)",
    "np.stack([v, v]).argmin(1)",
    "np.stack([v, v], 1).max(0, keepdims=True)",
    "v[0]",
    "v[-1]",
    "v[2]",
    "v[-3]",
    "v[np.array([0, -1])]",
    "np.take(v, 0)",
    "np.take(v, [0, 1], mode='clip')",
    "v.take(np.flatnonzero(x > 0), mode='wrap')",
    "np.stack([v, v], 1)[0]",
    "np.stack([v, v], 1)[-1, 1]",
    "np.nonzero(x > k)[0][0]",
    "np.flatnonzero(x > k)[-1]",
    "np.argwhere(x > k)[0]",
    "x[np.argmax(v)]",
    "np.full(3, v.max())",
    "v - v.min()",
)
FINE = (
    "np.take(v, np.flatnonzero(x > k), mode='wrap')",
    "v.sum()",
    "v.prod()",
    "v.max(initial=0)",
    "v.any(), v.all()",
    "v.mean()",
    "np.median(v)",
    "np.median(v.astype(int))",
    "np.median(np.stack([v, v * 2]), axis=1)",
    "np.nanmedian(v)",
    "np.nanquantile(v, 0.25)",
    "np.nanmedian(np.where(v > 3, np.nan, v))",
    "np.median(np.where(v > 4, np.nan, v))",
    "np.stack([v, v]).max(0)",
    "np.sort(v)",
    "np.histogram(v, 3)[0]",
    "np.histogram(v.astype(int), 3)[1]",
    "v[:2]",
    "v[::-1]",
    "np.unique(x)[-1], np.unique(x)[0]",
)


def _function(text: str) -> Callable[..., Any]:
    space: dict[str, Any] = {"np": np}
    exec(f"def f(x, k):\n    v = x[x > k]\n    return {text}", space)
    return space["f"]


@pytest.mark.parametrize("text", RAISING + FINE)
def test_selections_of_few_elements_and_of_none(text: str) -> None:
    function = _function(text)
    compiled = lw.compile(function)
    raised: list[Any] = []
    for k in (100.0, 5.5, 4.5, 3.5, 0.0, -100.0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                expected = function(X, k)
            except (ValueError, IndexError) as error:
                family = IndexError if isinstance(error, IndexError) else ValueError
                with pytest.raises(family) as info:
                    compiled(X, k)
                assert isinstance(info.value, LoopwrightError)
                assert "in f" in str(info.value), "the error names the line"
                raised.append((error, info.value))
                continue
        result = compiled(X, k)
        for one, other in zip(*map(_results, (result, expected)), strict=True):
            assert_same(one, other)
    assert bool(raised) == (text in RAISING)
    named = "nan" not in text and "take" not in text and "quantile" not in text
    for theirs, mine in raised if named else ():
        assert str(mine).splitlines()[0] == str(theirs)


def _results(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


PLACES: dict[str, Callable[[Any, Any], Any]] = {
    "loop": lambda x, k: lw.fori_loop(0, 3, lambda i, c: c + x[x > k + i].max(), 0.0),
    "scan": lambda x, k: lw.scan(lambda c, y: (c + x[x > y + k].min(), c), 0.0, x[:2]),
    "function": lambda x, k: lw.function(lambda x, k: x[x > k].max())(x, k),
    "map": lambda x, k: lw.map(lambda y: x[x > k + y * 0].argmax(), x),
    "branch": lambda x, k: lw.cond(k > -200, lambda: x[x > k].max(), lambda: 0.0),
    "while": lambda x, k: lw.while_loop(lambda c: c < 9, lambda c: c + 1 + x[x > k].max() * 0, 0.0),
}


@pytest.mark.parametrize("place", PLACES)
def test_nothing_has_no_greatest_element_anywhere(place: str) -> None:
    compiled = lw.compile(PLACES[place])
    assert_same(compiled(X, -100.0), PLACES[place](X, -100.0))
    with pytest.raises(ValueError):
        compiled(X, 100.0)


def test_a_branch_that_is_not_taken_raises_nothing() -> None:
    def f(x, k):
        v = x[x > k]
        return lw.cond((x > k).any(), lambda: v.max() + v[0], lambda: -1.0)

    for k in (100.0, 3.0):
        assert_same(lw.compile(f)(X, k), f(X, k))


def test_slices_that_hold_nothing() -> None:
    def f(x, i, j):
        return x[i:j].max()

    for i, j in ((0, 3), (2, 3), (3, 3), (5, 2)):
        i, j = np.int64(i), np.int64(j)
        if i < j:
            assert_same(lw.compile(f)(X, i, j), f(X, i, j))
            continue
        with pytest.raises(ValueError, match="zero-size array to reduction operation maximum"):
            lw.compile(f)(X, i, j)


def test_an_element_at_a_size_that_data_decides() -> None:
    def program(x: Any, k: Any) -> Any:
        return np.take(x, x[k[0] :].shape[0] - 1, axis=0)

    for k in range(4):
        arguments = np.arange(4.0), np.array([k])
        assert lw.compile(program)(*arguments) == program(*arguments)
