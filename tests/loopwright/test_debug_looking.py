"""``lw.debug.print``, ``check``, ``breakpoint`` and ``find_nan``."""

from __future__ import annotations

import bdb
import io
import sys
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
