"""``lw.debug.callback``: when compiled code calls Python, with what, and what ends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.ir.errors import LoopwrightTypeError, LoopwrightValueError

Seen = list[tuple[Any, ...]]


def both(function: Callable[..., Any], seen: Seen, *args: Any) -> Seen:
    """Returns the calls that compiled code makes, which are those of plain Python."""
    result, expected = function(*args), [*seen]
    seen.clear()
    compiled = lw.compile(function)
    for _ in range(2):  # those of a call, not of the trace
        np.testing.assert_allclose(compiled(*args), result)
        assert len(seen) == len(expected)
        for one, other in zip(seen, expected):
            assert len(one) == len(other)
            for a, b in zip(one, other):
                np.testing.assert_allclose(a, b)
        seen.clear()
    return expected


@pytest.mark.parametrize("steps", [0, 1, 5, 100])
def test_a_loop_tells_of_every_nth_iteration(steps: int) -> None:
    seen: Seen = []

    def decay(x: Any, steps: Any) -> Any:
        for i in range(steps):
            x = x * 0.9
            lw.debug.callback(lambda *v: seen.append(v), i, x, every=7)
        return x

    calls = both(decay, seen, np.arange(3.0), np.int64(steps))
    assert [call[0] for call in calls] == [*range(0, steps, 7)]


def test_calls_are_made_in_order_as_often_as_python_makes_them() -> None:
    seen: Seen = []

    def note(*values: Any) -> None:
        seen.append(values)

    def total(n: Any) -> Any:
        s = 0
        lw.debug.callback(note)  # without values: neither merged nor moved before the loop
        for i in range(n):
            s += i
            lw.debug.callback(note)
            lw.debug.callback(note, s, 2.5)
            if s > 100:
                lw.debug.callback(note, i)
        while s > 3:
            s //= 2
            lw.debug.callback(note, s)
        lw.debug.callback(note)
        return s

    assert both(total, seen, np.int64(40))[0] == ()


def test_what_it_gets_may_be_kept() -> None:
    kept: list[Any] = []

    @lw.compile
    def grow(x: Any) -> Any:
        for i in range(40):
            x[...] = x + i
            lw.debug.callback(kept.append, x)
        return x

    grow(np.zeros(2))
    assert [int(x[0]) for x in kept] == np.cumsum(range(40)).tolist()


def test_no_call_is_made_behind_an_error() -> None:
    seen: Seen = []

    @lw.compile
    def pick(x: Any, i: Any) -> Any:
        lw.debug.callback(lambda *v: seen.append(v), 1)
        y = x[i]
        lw.debug.callback(lambda *v: seen.append(v), y)
        return y

    assert pick(np.arange(3), np.int64(2)) == 2 and seen == [(1,), (2,)]
    with pytest.raises(IndexError):
        pick(np.arange(3), np.int64(3))
    assert seen == [(1,), (2,), (1,)]


@pytest.mark.parametrize("error", [KeyboardInterrupt, StopIteration, ZeroDivisionError])
def test_its_exceptions_end_the_call(error: type[BaseException]) -> None:
    def stop(i: Any) -> None:
        if i >= 30:
            raise error

    @lw.compile
    def count(n: Any) -> Any:
        i = 0
        while i < n:
            i += 1
            lw.debug.callback(stop, i, every=10)
        return i

    assert count(25) == 25
    with pytest.raises(error):
        count(1_000_000_000)


def test_values_and_intervals_that_are_none_are_refused() -> None:
    with pytest.raises(LoopwrightTypeError, match="value 0 is a str, not an array or a number"):
        lw.compile(lambda x: lw.debug.callback(print, "x", x))(1.0)
    for values, every in (((), 2), ((np.ones(2),), 2), ((1,), 0)):
        with pytest.raises(LoopwrightValueError, match="whose number is the first value"):
            lw.debug.callback(print, *values, every=every)
