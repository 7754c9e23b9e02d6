"""Loops that test before them whether all places that they walk over are in range."""

import re

import loopwright as lw
import numpy as np
import pytest
from loopwright.ir.errors import LoopwrightIndexError


def _places(function, *args) -> list[str]:
    text = lw.compile(function).lower(*args).as_text("program")
    noted = ", ".join(re.findall(r" places (.*) \{", text))
    return re.findall(r"(\S.*? < \d+)(?:, |$)", noted)


def walked(x, first, count, step):
    total = 0.0
    for i in range(count):
        total += x[first + i * step]
    return total


def forwards(x, first, count):
    for i in range(count):
        x[first + i] = x[first + i - 1] + 1
    return x


def backwards(x, first, count):
    for i in range(count):
        x[first - 2 * i] += i
    return x


def rows(x, row, first, count):
    for i in range(count):
        x[row, first + i] += x[row - 1, first]
    return x


def guarded(x, first, count):
    for i in range(count):
        if first + i < 50:
            x[first + i] = 0.5 * i
    return x


def carried(x, first, count):
    at, total = first, 0.0
    for _ in range(count):
        total += x[at]
        at = at * 5 % 50
    return total


X = np.arange(50.0)
SQUARE = np.arange(25.0).reshape(5, 5)


def test_what_moves_from_a_scalar_is_noted():
    assert _places(forwards, X, 3, 10) == [
        "((%first + %i) - 1) < 50",
        "(%first + %i) < 50",
    ]


def test_a_place_that_stays_is_noted():
    assert "%row < 5" in _places(rows, SQUARE, 1, 0, 4)


def test_what_a_branch_alone_uses_is_not_noted():
    assert _places(guarded, X, 3, 10) == []


def test_what_the_loop_computes_from_a_carried_scalar_is_not_noted():
    assert _places(carried, X, 3, 10) == []


def test_steps_that_a_scalar_says_are_noted():
    assert _places(walked, X, 3, 10, 2) == ["(%first + (%i * %step)) < 50"]


@pytest.mark.parametrize(
    ("function", "x", "starts"),
    [
        (forwards, X, [(1, 49), (-49, 49), (-3, 3), (-1, 20), (40, 10), (5, 0), (49, 1)]),
        (backwards, X, [(49, 25), (0, 1), (0, 20), (-1, 25), (10, 30), (20, 0)]),
        (rows, SQUARE, [(1, 0, 5), (-1, 0, 5), (0, 1, 4), (4, -5, 5), (1, -2, 4)]),
        (guarded, X, [(0, 50), (40, 30), (-50, 100), (60, 10)]),
        (carried, X, [(1, 40), (0, 3)]),
        (
            walked,
            X,
            [(0, 50, 1), (49, 50, -1), (-50, 20, 5), (9, 3, 0), (0, 1, 1 << 60), (2, 5, -9)],
        ),
    ],
)
def test_both_copies_do_what_python_does(function, x, starts):
    compiled = lw.compile(function)
    for start in starts:
        np.testing.assert_array_equal(compiled(x.copy(), *start), function(x.copy(), *start))


@pytest.mark.parametrize(
    ("function", "x", "start"),
    [
        (forwards, X, (1, 50)),
        (forwards, X, (-51, 1)),
        (forwards, X, (51, 1)),
        (forwards, X, ((1 << 63) - 3, 6)),
        (backwards, X, (0, 30)),
        (backwards, X, (60, 5)),
        (backwards, X, (-(1 << 63) + 2, 5)),
        (walked, X, (0, 5, 13)),
        (walked, X, (0, 3, 1 << 62)),
        (walked, X, (1, 17, 1 << 60)),
        (rows, SQUARE, (5, 0, 3)),
        (rows, SQUARE, (1, 3, 3)),
        (rows, SQUARE, (1, -6, 3)),
    ],
)
def test_what_is_out_of_range_is_an_error(function, x, start):
    compiled = lw.compile(function)
    with pytest.raises(LoopwrightIndexError):
        compiled(x.copy(), *start)
    # Nothing runs, and nothing fails, in a loop without iterations.
    np.testing.assert_array_equal(compiled(x.copy(), *start[:-1], 0), function(x, *start[:-1], 0))


def chased(x, y, at, count):
    total = 0
    while count > 0:
        at = x[at]
        total += y[x[at] + 1] * x[y[at]]
        count -= 1
    return total


NEXT = np.roll(np.arange(20), 3)
LONGER = np.append(NEXT[::-1], 0)


def test_a_check_computes_what_it_leaves_behind_a_branch():
    f = lw.compile(chased)
    assert f(NEXT, LONGER, -3, 18) == chased(NEXT, LONGER, -3, 18)
    lines = f.lower(NEXT, NEXT, 0, 5).as_text("llvm").splitlines()
    calls = [n for n, line in enumerate(lines) if " call i64 @lw_failed(" in line]
    assert calls and all(lines[n - 1].startswith("rare") for n in calls)


@pytest.mark.parametrize(
    ("at", "wrong", "message"),
    [
        (25, {}, "index 25 is out of bounds for axis 0 with size 20"),
        (-21, {}, "index -21 is out of bounds for axis 0 with size 20"),
        (4, {"x": 20}, "index 21 is out of bounds for axis 0 with size 21"),
        (4, {"y": 77}, "index 77 is out of bounds for axis 0 with size 20"),
        (4, {"x": -40, "y": 77}, "index -39 is out of bounds for axis 0 with size 21"),
    ],
)
def test_of_several_checks_that_fail_the_first_one_is_told(at, wrong, message):
    x, y = NEXT.copy(), LONGER.copy()
    x[x[4]], y[x[4]] = wrong.get("x", x[x[4]]), wrong.get("y", y[x[4]])
    with pytest.raises(LoopwrightIndexError, match=message):
        lw.compile(chased)(x, y, at, 1)
    with pytest.raises(IndexError):
        chased(x, y, at, 1)
