"""``lw.debug.print``, ``check``, ``breakpoint`` and ``find_nan``."""

from __future__ import annotations

import bdb
import io
import sys
from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest


@lw.compile
def doubled(x: Any, most: Any) -> Any:
    while x.sum() < most:
        before = x
        x = x * 2
        lw.debug.print("{:.1f} of {most}, {kind}", x[0], most=most, kind="f64")
        lw.debug.print("before", before)
        lw.debug.check(x < 50, "{} is too large", x.max())
        if x[0] > 6:
            lw.debug.breakpoint(step=before + 1)
    return x


def _typed(monkeypatch: pytest.MonkeyPatch, *commands: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join([*commands, ""])))


def test_values_are_printed_in_loops(capsys: pytest.CaptureFixture[str]) -> None:
    doubled(np.ones(2), 7)
    printed = capsys.readouterr().out
    assert printed == "2.0 of 7, f64\nbefore [1. 1.]\n4.0 of 7, f64\nbefore [2. 2.]\n"


def test_a_check_names_line_index_and_values() -> None:
    with pytest.raises(AssertionError) as error:
        doubled(np.array([1.0, 30.0]), 1000)
    assert "60.0 is too large, at index 1" in str(error.value)
    assert "lw.debug.check(x < 50" in str(error.value)
    doubled.function(np.ones(2), 7)  # Python's own values
    with pytest.raises(AssertionError, match="no"):
        lw.debug.check(False, "no")


def test_a_check_cannot_be_caught_inside() -> None:
    @lw.compile
    def caught(x: Any) -> Any:
        try:
            lw.debug.check(x > 0)
        except AssertionError:
            return -x
        return x

    with pytest.raises(lw.UnsupportedError, match="would never run"):
        caught(np.ones(2))


def test_the_debugger_sees_the_variables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _typed(monkeypatch, "p x, most, step", "c", "q")
    with pytest.raises(bdb.BdbQuit):
        doubled(np.array([2.0, 0.5]), 1000)
    shown = capsys.readouterr().out
    assert "(array([8., 2.]), np.int64(1000), array([5., 2.]))" in shown
    assert "lw.debug.breakpoint(step=before + 1)" in shown and "doubled()" in shown


def test_the_first_nan_has_its_line_operands_and_iteration() -> None:
    def falling(x: Any) -> Any:
        for _ in range(10):
            x = x - 1
            y = np.sqrt(x)
        return y

    found = lw.debug.find_nan(falling, np.array([9.0, 3.0]))
    assert found is not None
    assert (found.operator, found.index, found.count) == ("sqrt", (1,), 1)
    assert found.operands[0].endswith("float64[2], -1.0 there")
    assert "np.sqrt(x)" in str(found)
    assert lw.debug.find_nan(falling, np.array([90.0, 30.0])) is None


def test_infinities_count_if_asked_for() -> None:
    def inverse(x: Any) -> Any:
        return 1 / x

    zero = np.array([[1, 0]], np.float32)
    assert lw.debug.find_nan(inverse, zero) is None
    found = lw.debug.find_nan(inverse, zero, infinite=True)
    assert found is not None and found.operator == "divide" and found.index == (0, 1)
    with pytest.raises(lw.LoopwrightTypeError, match="not specs"):
        lw.debug.find_nan(inverse, lw.f32[3])


FLOAT_ERRORS: dict[str, tuple[Callable[[Any], Any], Any, dict[str, Any]]] = {
    "divide": (lambda x: 1 / x, [1.0, 0.0], {"divide": "raise"}),
    "no error": (lambda x: 1 / x, [1.0, 3.0], {"all": "raise"}),
    "another error": (lambda x: x / x, [1.0, 0.0], {"divide": "raise", "invalid": "ignore"}),
    "invalid": (lambda x: np.log(x), [1.0, -1.0], {"invalid": "raise"}),
    "overflow": (lambda x: np.exp(x), [1.0, 1e3], {"over": "raise"}),
    "underflow": (lambda x: x * x, [1.0, 1e-200], {"under": "raise"}),
    "integers": (lambda x: 7 // x, [1, 0], {"divide": "raise"}),
    "a sum": (lambda x: x.sum(), [1e308, 1e308], {"over": "raise"}),
    "infinite operands": (lambda x: 1 / (x + 1), [np.inf, np.nan], {"all": "raise"}),
    "warnings": (lambda x: 1 / x, [1.0, 0.0], {"divide": "ignore", "invalid": "warn"}),
}


@pytest.mark.parametrize("name", FLOAT_ERRORS)
def test_errors_of_floats_are_raised_as_numpy_raises_them(name: str) -> None:
    operation, values, setting = FLOAT_ERRORS[name]

    def f(x: Any) -> Any:
        with np.errstate(**setting):
            return operation(x)

    x = np.array(values)
    try:
        wanted = f(x)
    except FloatingPointError as error:
        with pytest.raises(FloatingPointError) as caught:
            lw.compile(f)(x)
        assert str(caught.value).startswith(str(error).replace("reduce", "sum"))
    else:
        np.testing.assert_array_equal(lw.compile(f)(x), wanted)


def test_an_error_of_floats_names_line_values_and_iteration() -> None:
    @lw.compile
    def steps(x: Any) -> Any:
        y = x
        with np.errstate(divide="raise"):
            while y.max() < 5:
                x = x - 1
                y = 1 / x
        return y

    with pytest.raises(FloatingPointError) as caught:
        steps(np.array([3.0, 4.0]))
    assert str(caught.value).splitlines()[0] == (
        "divide by zero encountered in divide of 1.0 and 0.0, at index 0"
    )
    assert "y = 1 / x" in str(caught.value)
    with np.errstate(divide="raise"), pytest.raises(lw.UnsupportedError) as refused:
        lw.compile(lambda x: 1 / x)(np.zeros(2))
    assert "where the function itself says so" in str(refused.value)
