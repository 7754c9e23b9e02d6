"""Ints among the arguments: traced, until Python needs the value of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest

X = np.arange(12, dtype=np.float32).reshape(3, 4)

USES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]] = {
    "axis": (lambda x, axis: x.sum(axis=axis), (0,), (1,)),
    "axes": (lambda x, axes: x.transpose(axes), ((0, 1),), ((1, 0),)),
    "shape": (lambda x, shape: x.reshape(shape), ((4, 3),), ([2, 6],)),
    "sizes": (lambda x, *sizes: x.reshape(*sizes), (4, 3), (2, 6)),
    "size from two": (lambda x, n, m: np.zeros(n * m + 1) + x[0, 0], (2, 3), (3, 2)),
    "range": (lambda x, n: sum(x * i for i in range(n)), (3,), (2,)),
    "flag": (lambda x, flag: x if flag else -x, (1,), (0,)),
    "np.bool flag": (lambda x, flag: x if flag else -x, (np.True_,), (np.False_,)),
    "comparison": (lambda x, n: x if 1 < n <= 3 else -x, (2,), (4,)),
    "choice from a list": (lambda x, n: [x, -x][n], (0,), (1,)),
    "in a dict": (
        lambda x, s: x.sum(axis=s["axis"]) * s["n"],
        ({"axis": 0, "n": 2},),
        ({"axis": 1, "n": 3},),
    ),
}


@pytest.mark.parametrize("name", USES)
def test_values_that_are_needed_are_static(name: str) -> None:
    function, first, second = USES[name]
    f = lw.compile(function)
    for _ in range(3):
        for args in (first, second):
            expected = function(X, *args)
            np.testing.assert_allclose(f(X, *args), expected, rtol=1e-6)
            assert f(X, *args).shape == expected.shape
    assert f.cache_info().misses == 2
    assert str(first[0]) in f.cache_info().signatures[0] or name in (
        "sizes",
        "in a dict",
        "axes",
        "shape",
    )
    np.testing.assert_allclose(f.lower(X, *first)(X, *first), function(X, *first), rtol=1e-6)


def test_other_ints_stay_traced() -> None:
    f = lw.compile(lambda x, axis, scale: (x * scale).sum(axis))
    for scale in range(5):
        np.testing.assert_array_equal(f(X, 1, scale), (X * scale).sum(1))
    assert f.cache_info().misses == 1
    assert f.cache_info().signatures == ("x: float32[3, 4], axis: 1, scale: int",)


def test_a_long_loop_is_not_unrolled() -> None:
    f = lw.compile(lambda x, n: [x := x + i for i in range(n)][-1])
    assert f(X, 3).tolist() == (X + 3).tolist()

    @lw.compile
    def g(x: Any, n: int) -> Any:
        for i in range(n):
            x = x + i
        return x

    assert g(X, 3).tolist() == (X + 3).tolist()
    assert g(X, 1000).tolist() == (X + 499500).tolist()
    assert g.cache_info().currsize == 1
    with pytest.raises(lw.LoopwrightTypeError, match="fori_loop"):
        lw.compile(g.function, capture=False)(X, 1000)


def test_loops_and_arrays_are_refused_as_before() -> None:
    @lw.compile(capture=False)
    def halved(n: int) -> Any:
        while n > 1:
            n = n // 2
        return n

    with pytest.raises(lw.LoopwrightTypeError, match="while_loop"):
        halved(9)
    f = lw.compile(lambda x, axis: x.sum(axis=axis))
    for given in (np.array(1), lw.i64):
        with pytest.raises(lw.LoopwrightTypeError, match="axis must be an int"):
            f.trace(X, given)
    with pytest.raises(lw.LoopwrightValueError, match="axis 5 does not exist"):
        f(X, 5)


def test_methods_may_have_settings() -> None:
    class Model:
        def __init__(self) -> None:
            self.w, self.axis = np.ones(4, np.float32), 0

        @lw.compile
        def __call__(self, x: Any) -> Any:
            return (x * self.w).sum(self.axis)

    model = Model()
    for axis in (0, 1, 0, 1):
        model.axis = axis
        assert model(X).tolist() == X.sum(axis).tolist()
    assert Model.__call__.cache_info().misses == 2


def test_numpys_functions_make_arrays_of_numbers() -> None:
    """A Python number takes the dtype of what it meets; what np.transpose made of one does not."""
    bytes_ = np.ones(3, np.int8)
    for function in (np.transpose, np.squeeze, np.copy, np.round, np.real, np.abs, np.sum):
        for array in (X, bytes_):
            for number in (3, 2.5):
                use = lambda x, n, f=function: x * f(n)  # noqa: E731
                assert lw.compile(use)(array, number).dtype == use(array, number).dtype
