"""Errors that tracing raises are not for the handlers in traced functions, and those that come when
compiled code runs would not reach them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest

X = np.arange(4.0)


def _caught(compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def program(x: Any) -> Any:
        try:
            return x + compute(x)
        except Exception:
            return x - 1

    return program


NONE_OF_NUMPYS: dict[str, Callable[[Any], Any]] = {
    "a number": lambda x: float(x[0]),
    "a list": lambda x: x.tolist()[0],
    "a branch": lambda x: 1 if x[0] > 0 else 2,
    "a method": lambda x: x.tofile("/dev/null") or 1,
    "a function": lambda x: np.histogram2d(x, x)[0].sum(),
}


@pytest.mark.parametrize("name", NONE_OF_NUMPYS)
def test_an_error_that_numpy_does_not_raise_is_not_swallowed(name: str) -> None:
    with pytest.raises(lw.LoopwrightError):
        lw.compile(_caught(NONE_OF_NUMPYS[name]))(X)


def writes_into_numpys_array(x: Any) -> Any:
    total = 0.0
    try:
        q = np.zeros(4)
        q[0] = x[1]
    except ValueError:  # NumPy makes one of the error that a number is not known
        total = 5.0
    return q.sum() + total


def test_a_handler_of_an_error_that_numpy_makes_of_ours_does_not_run() -> None:
    assert lw.compile(lambda x: writes_into_numpys_array(x))(X) == 1.0


NUMPYS: dict[str, Callable[[Any], Any]] = {
    "shapes": lambda x: x + np.ones(3),
    "an axis": lambda x: x.sum(axis=3),
    "an attribute": lambda x: x.no_such_thing,
    "a scalar's length": lambda x: len(x[0]),
    "a hash": lambda x: hash(x),
    "an index": lambda x: x[9],
}


@pytest.mark.parametrize("name", NUMPYS)
def test_an_error_of_numpys_is_caught(name: str) -> None:
    program = _caught(NUMPYS[name])
    np.testing.assert_array_equal(lw.compile(program)(X), program(X))


def test_an_error_that_compiled_code_would_raise_is_refused_at_its_line() -> None:
    program = _caught(lambda x: x[x > 100].max())
    with pytest.raises(lw.UnsupportedError, match="would never run") as caught:
        lw.compile(program)(X)
    assert "return x + compute(x)" in str(caught.value) or "x[x > 100].max()" in str(caught.value)


def test_suppress_is_a_handler() -> None:
    def program(x: Any) -> Any:
        with contextlib.suppress(ValueError):
            x = x + x[x > 100].max()
        return x

    assert program(X) is X
    with pytest.raises(lw.UnsupportedError, match="would never run"):
        lw.compile(program)(X)


def test_a_handler_around_the_call_is_no_matter() -> None:
    try:
        result = lw.compile(lambda x: x[x > 1].max())(X)
    except ValueError:
        result = None
    assert result == 3
