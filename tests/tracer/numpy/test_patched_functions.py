"""Arrays that a traced function makes with NumPy's functions, and writes traced values into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest


def filled(x: Any) -> Any:
    out = np.zeros(4)
    out[0] = x
    out[1:3] = x * 2
    return out


def at_a_traced_index(x: Any) -> Any:
    out = np.ones((3, 2), np.float32)

    def body(i: Any, _: Any) -> None:
        out[i] = x * i

    lw.fori_loop(0, 2, body, None)
    return out, np.zeros_like(out)


def added_to(x: Any) -> Any:
    out = np.empty(3)
    out[:] = 1
    out += x
    return out


def a_copy(x: Any) -> Any:
    out = START.copy()
    made = np.array([1.0, 2.0])
    made[1] = x
    out[1] = x
    return out + made.sum()


def added_at(x: Any) -> Any:
    out = np.zeros(3)
    np.add.at(out, [0, 2, 2], x)
    places = np.sum(x > np.zeros(1)) - np.array([0, 1])
    np.subtract.at(out, (places,), 1.0)
    np.fill_diagonal(square := np.eye(2), x)
    np.copyto(copied := np.ones(2), x)
    return out, square, copied


START = np.arange(3.0)


@pytest.mark.parametrize("function", [filled, added_to, a_copy])
def test_they_take_traced_values(function: Callable[[Any], Any]) -> None:
    wanted = function(2.5)
    np.testing.assert_array_equal(lw.compile(function)(2.5), wanted)
    assert np.zeros(1).__class__ is np.ndarray and START.tolist() == [0, 1, 2]


def test_functions_that_write_take_them() -> None:
    for one, other in zip(lw.compile(added_at)(3.0), added_at(3.0), strict=True):
        np.testing.assert_array_equal(one, other)


def test_they_take_traced_indices() -> None:
    for one, other in zip(lw.compile(at_a_traced_index)(3.0), at_a_traced_index(3.0), strict=True):
        np.testing.assert_array_equal(one, other)


def test_arrays_from_outside_stay_constants() -> None:
    def f(x: Any) -> Any:
        START[0] = x
        return START

    with pytest.raises(lw.LoopwrightTypeError):
        lw.compile(f)(1.0)
    assert START[0] == 0
