"""Loops that write arrays which then swap their names, as double buffers do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest

X = np.random.default_rng(0).random(9)


def _step(old, new):
    new[1:-1] = old[1:-1] + 0.1 * (old[:-2] - old[2:])


def buffers(x, steps):
    old, new = x.copy(), x.copy()
    for _ in range(steps):
        _step(old, new)
        old, new = new, old
    return old, new


def nested(x, steps):
    old, new = x.copy(), x.copy()
    for _ in range(steps):
        for _ in range(steps):
            _step(old, new)
            old, new = new, old
    return old


def elements(x, steps):
    old, new = x.copy(), x.copy()
    for _ in range(steps):
        for i in range(1, len(x) - 1):
            new[i] = old[i - 1] + old[i + 1] - old[i]
        old, new = new, old
    return old


def three(x, steps):
    a, b, c = x.copy(), x.copy(), np.zeros_like(x)
    for _ in range(steps):
        c[1:-1] = 2 * b[1:-1] - a[1:-1] + 0.1 * (b[:-2] - b[2:])
        a, b, c = b, c, a
    return b


def until_small(x, steps):
    old, new = x.copy(), x.copy()
    change = 1.0
    while change > 1e-3 and steps > 0:
        _step(old, new)
        change = np.abs(old - new).max()
        old, new = new, old
        steps -= 1
    return old, change


def chosen(x, steps):
    old, new = x.copy(), x.copy()
    for _ in range(steps):
        _step(old, new)
        if new[2] > 0.5:
            old, new = new, old
    return old


NATIVE = [buffers, nested, elements, three, until_small]


def another_name(x, steps):
    old, new = x.copy(), x.copy()
    name = old
    for _ in range(steps):
        _step(old, new)
        old, new = new, old
    return name + old


def another_view(x, steps):
    old, new = x.copy(), x.copy()
    view = old[1:-1]
    total = 0.0
    for _ in range(steps):
        total += view.sum()
        _step(old, new)
        old, new = new, old
    return total


def one_array(x, steps):
    old = x.copy()
    new = old
    for _ in range(steps):
        _step(old, new)
        old, new = new, old
    return old


def become_one(x, steps):
    old, new = x.copy(), x.copy()
    for _ in range(steps):
        _step(old, new)
        old = new
    return old, new


def views(x, steps):
    u = x.copy()
    v = u[::-1]
    for _ in range(steps):
        u[1:] += 0.1 * v[:-1]
        u, v = v, u
    return u


def its_arguments(x, steps):
    other = x[::2]
    x = x[1::2]
    for _ in range(steps):
        x[:4] += other[:4]
        other, x = x, other
    return x


OTHERS = [chosen, another_name, another_view, one_array, become_one, views, its_arguments]


@pytest.mark.parametrize("steps", [0, 1, 7, 40])
@pytest.mark.parametrize("function", NATIVE + OTHERS)
def test_swapped(function: Callable[..., Any], steps: int) -> None:
    theirs, ours = X.copy(), X.copy()
    expected, result = function(theirs, steps), lw.compile(function)(ours, steps)
    pairs = zip(result, expected) if isinstance(expected, tuple) else [(result, expected)]
    for got, wanted in pairs:
        np.testing.assert_allclose(got, wanted, rtol=1e-12)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("function", NATIVE)
def test_loops_that_swap_are_native(function: Callable[..., Any]) -> None:
    text = lw.compile(function).lower(X, np.int64(7)).as_text("graph")
    assert "for (" in text or "while (" in text


@pytest.mark.parametrize("late", [False, True])
def test_what_loops_inside_of_loops_name_anew_may_be_the_array_of_before(late: bool) -> None:
    def turns(x: Any, a: Any) -> Any:
        z = x[1:5]
        for _ in range(20):
            for _ in range(6):
                x = x[::-1]
        if late and a > 100:
            return z.sum()
        x[1:] -= 1
        return z.sum() + (a if a > 3 else 0)

    with pytest.raises(lw.UnsupportedError, match="values decide which other names"):
        lw.compile(turns)(np.arange(6.0), 1.0)
