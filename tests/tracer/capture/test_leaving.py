"""``return`` and ``raise`` where values decide, ``assert``, and loops over arrays."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest

X = np.arange(60.0)
TABLE = np.random.default_rng(3).random((40, 5))


def first_above(x, v):
    for i in range(x.shape[0]):
        if x[i] > v:
            return i
    return -1


def twice_the_first(x, v):
    i = 0
    while i < x.shape[0]:
        if x[i] > v:
            return x[i] * 2
        i += 1
    return 0.0


def place_in_table(x, v):
    for i in range(TABLE.shape[0]):
        for j in range(5):
            if x[i] * TABLE[i, j] > v:
                return i, j
    return -1, -1


def bisected(x, v):
    low, high = 0, x.shape[0]
    while low < high:
        middle = (low + high) // 2
        if x[middle] == v:
            return middle
        if x[middle] < v:
            low = middle + 1
        else:
            high = middle
    return -1


def is_prime(x, v):
    n = int(v)
    if n < 2:
        return False
    i = 2
    while i * i <= n:
        if n % i == 0:
            return False
        i += 1
    return True


def in_nested_loops(x, v):
    for i in range(x.shape[0]):
        y = x[i]
        if y < v:
            continue
        for j in range(i):
            if x[j] + y > 2 * v:
                return i * 100 + j
            if x[j] > v + 5:
                break
    else:
        return -7
    return -8


def in_one_branch(x, v):
    if v > 3:
        for i in range(30):
            if x[i] > v:
                return i
        return 1000
    elif v < 0:
        return -5
    return 7


def refuses_negative(x, v):
    if v < 0:
        raise ValueError(f"negative {len(x)} {{}}")
    return x * v


def raises_in_a_loop(x, v):
    total = 0.0
    for i in range(x.shape[0]):
        if x[i] > v:
            raise IndexError("too large")
        total += x[i]
    return total


def raises_behind_a_loop(x, v):
    for i in range(x.shape[0]):
        if x[i] == v:
            return i
    raise KeyError("not there")


def ends_though_it_raises(x, v):
    if v < 0:
        raise RuntimeError("no")
    elif v > 100:
        raise ZeroDivisionError("big")
    while v != 1.0:
        v = v / 2 if v > 1 else 1.0
    return v


def asserts(x, v):
    assert v > 0, "positive please"
    return np.sqrt(v) + x


def asks_all(x, v):
    return any(x > v), all(x < v), sum(x), any(u > v for u in x[:5])


def out_of_a_with(x, v):
    with np.errstate(all="ignore"):
        if v > 3:
            return x * v
        x[0] = 5
        return x - 1


def out_of_a_with_or_behind_it(x, v):
    with np.errstate(all="ignore"), contextlib.nullcontext():
        with contextlib.nullcontext():
            if v > 3:
                return x[1]
        x[0] = v
        for i in range(30):
            if x[i] > 2 * v + 50:
                return x[i]
    return x.sum()


def out_of_a_with_in_a_loop(x, v):
    for i in range(x.shape[0]):
        with np.errstate(all="ignore"):
            if x[i] > v:
                return i
            x[i] = 5
    return -1


def breaks_in_a_with(x, v):
    total = 0.0
    for i in range(40):
        with np.errstate(all="ignore"):
            if x[i] > 2 * v + 20:
                break
            if x[i] < v:
                total += 1
                continue
            total += x[i]
        x[i] += 0.5
    else:
        total = -1.0
    return total


def in_a_with_of_two_loops(x, v):
    for j in range(3):
        with np.errstate(all="ignore"):
            for i in range(30):
                with contextlib.nullcontext():
                    if x[i] > v + 25:
                        return i * 10 + j
                    if x[i] > v + 20:
                        break
                x[i] += j
            else:
                x[0] += 100
    return -1


def sums_lists(x, v):
    return sum([1.0, 2.5]) + (sum([v, 1.0]) if v > 0 else sum([2, 3], v))


def chosen_items(x, v):
    pairs = sum(x[i] * x[j] for i in range(3) for j in range(3) if x[i] > v - j)
    some = any(u > v + 1 for u in x[:9] if u > v), all(u > 2 for u in x[:9] if u > v if u != 7)
    return sum([u * 2 for u in x[:9] if u < v]), pairs, *some, sum(u for u in (1, 2) if u > 1)


EVERY = (
    *(first_above, twice_the_first, place_in_table, bisected, is_prime, in_nested_loops),
    *(in_one_branch, refuses_negative, raises_in_a_loop, raises_behind_a_loop),
    *(ends_though_it_raises, asserts, asks_all, out_of_a_with, out_of_a_with_or_behind_it),
    *(out_of_a_with_in_a_loop, breaks_in_a_with, in_a_with_of_two_loops, sums_lists),
    chosen_items,
)


@pytest.mark.parametrize("function", EVERY)
def test_leaving_early(function: Callable[..., Any]) -> None:
    compiled = lw.compile(function)
    for value in map(np.float64, (-1, 0, 3, 10.5, 41, 1000)):
        _same(function, compiled, X, value)


def _same(function: Callable[..., Any], compiled: Callable[..., Any], *args: Any) -> None:
    theirs, ours = copy.deepcopy(args), copy.deepcopy(args)
    try:
        expected = function(*theirs)
    except Exception as error:
        with pytest.raises(type(error)) as caught:
            compiled(*ours)
        assert isinstance(caught.value, lw.LoopwrightError)
        message = str(*error.args).partition("\n")[0]  # pytest adds lines to those of ``assert``
        assert caught.value.args == (message,)
        assert "raise" in str(caught.value) or "assert" in str(caught.value)
        return
    for one, other in zip((*_leaves(compiled(*ours)), *ours), (*_leaves(expected), *theirs)):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def _leaves(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _by_key(x):
    return {n: v for n, v in enumerate(x) if v > 0}


def _with_a_sum_of_ones_own(x):
    def sum(values):
        return [*values]

    return sum(v for v in x if v > 0)


@pytest.mark.parametrize("f", [_by_key, _with_a_sum_of_ones_own])
def test_values_do_not_choose_the_items_of_a_list(f: Callable[..., Any]) -> None:
    with pytest.raises(lw.LoopwrightTypeError, match="values choose the items of this") as caught:
        lw.compile(f)(X[:3] + 1)
    assert "try: a mask, x[x > 0], or a loop with an if" in str(caught.value)


def test_an_error_that_compiled_code_cannot_raise_is_refused() -> None:
    class OurError(ValueError):
        pass

    def f(x):
        if x.sum() < 0:
            raise OurError("no")
        return x

    with pytest.raises(lw.UnsupportedError, match="OurError") as caught:
        lw.compile(f)(X)
    assert 'raise OurError("no")' in str(caught.value)


# -- loops over arrays ---------------------------------------------------------------------------


def over_rows(x, v):
    total = np.zeros(5)
    for row in v:
        total += row
        row *= 2
    return total


def enumerated(x, v):
    best, where = -1.0, 0
    for i, row in enumerate(v):
        if sum(row) > best:
            best, where = sum(row), i
    return where, best


def zipped(x, v):
    total = 0.0
    for a, b in zip(x, x[::-1]):
        total = total * 0.5 + a * b
    return total


def backwards(x, v):
    for i in reversed(range(x.shape[0] - 1)):
        x[i] += x[i + 1]
    total = 0.0
    for y in reversed(x):
        total = total * 0.5 + y
    return total


def zipped_ranges(x, v):
    n, total = int(x[30]), 0
    for i, j in zip(range(n), range(3, 3 + 2 * n, 2)):
        total += i * j
    return total


def with_an_else(x, v):
    n = 0
    for y in x:
        if y % 3 == 0:
            continue
        n += int(y)
    else:
        n += 1000
    return n


@pytest.mark.parametrize(
    "function", [over_rows, enumerated, zipped, backwards, zipped_ranges, with_an_else]
)
def test_loops_over_arrays(function: Callable[..., Any]) -> None:
    compiled = lw.compile(function)
    _same(function, compiled, X, TABLE)
    assert "for (" in compiled.lower(X, TABLE).as_text("graph")


def short_loops_around_one_another(x):
    for i in range(6):
        for j in range(6):
            for k in range(6):
                x[i, j] += x[j, k] * x[k, i]
    return x.sum()


def test_short_loops_are_native_where_they_are_many_together() -> None:
    x = TABLE[:6, :1] @ TABLE[6:7, :].repeat(2, 1)[:, :6]
    compiled = lw.compile(short_loops_around_one_another)
    _same(short_loops_around_one_another, compiled, x)
    assert compiled.lower(x).as_text("graph").count("for (") >= 2


def deep(x):
    total = 0.0
    for a in range(20):
        for b in range(20):
            for c in range(2):
                for d in range(20):
                    for e in range(20):
                        for f in range(20):
                            if total < 1e9:
                                x[a] += x[(b + c + d + e + f) % 60]
                                total = total + 1
        if total > 40:
            break
    return total


def test_a_body_is_traced_few_times_however_deep_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    emitted = lw.compile(deep).lower(X).as_text("graph").count("\n")
    calls = []
    original = lw.tracer.core.trace.Trace.emit

    def counting(self: Any, *args: Any) -> Any:
        calls.append(1)
        return original(self, *args)

    monkeypatch.setattr(lw.tracer.core.trace.Trace, "emit", counting)
    lw.compile(deep).lower(X)
    assert len(calls) < 12 * emitted


def test_imported_names_of_functions_that_make_arrays() -> None:
    from numpy import asarray, zeros

    def helper(n):
        return zeros(n)

    def f(x):
        y = helper(5)
        z = np.ndarray(3, dtype=np.float64)
        for i in range(20):
            y[i % 5] += x[i]
        z[:] = y[:3]
        return asarray(y) + z.sum()

    _same(f, lw.compile(f), X)


def returns_from_an_else(x, v):
    for i in range(x.shape[0]):
        if x[i] > v:
            break
    else:
        if v > 100:
            return -1.0
        v = v + 1
    return v * 2


def breaks_and_returns(x, v):
    for i in range(30):
        if x[i] * 2 > v:
            break
        if x[i] > v - 3:
            return i
    else:
        return x[:5].sum()
    return v


def an_int_where_it_began_as_a_float(x, v):
    total = 0.5
    while total < v:
        total = int(total) + 2 if total > 3 else 7
    return total


@pytest.mark.parametrize(
    "function", [returns_from_an_else, breaks_and_returns, an_int_where_it_began_as_a_float]
)
def test_the_else_of_a_loop_and_numbers_of_two_types(function: Callable[..., Any]) -> None:
    compiled = lw.compile(function)
    for value in map(np.float64, (-1, 0, 3, 10.5, 41, 75, 1000)):
        _same(function, compiled, X, value)


def test_a_variable_that_values_may_leave_unbound_is_named_with_a_way_out() -> None:
    def first_above(x):
        for i in range(len(x)):
            if x[i] > 2:
                found = True
                break
        else:
            found = False
        return found

    assert first_above(np.arange(5.0))
    with pytest.raises(UnboundLocalError) as raised:
        lw.compile(first_above)(np.arange(40.0))
    assert raised.value.__notes__ == [
        "values decide whether found is bound here: give it a value before the branch or loop"
    ]


def test_a_loop_that_is_left_counts_as_it_was_written() -> None:
    def pair(x, begin, v):
        for i in range(begin, x.shape[0]):
            for j in range(i + 1, x.shape[0]):
                if x[i] + x[j] > v:
                    return i, j
        return -1, -1

    compiled = lw.compile(pair)
    for begin in (0, 7, 59, 60, 99):
        for v in (-1.0, 0.5, 20.0, 117.0, 118.0):
            assert compiled(X, begin, v) == pair(X, begin, v)
    program = lw.compile(lambda x, v: pair(x, 0, v)).lower(X, 20.0).as_text("program")
    assert "in [1, 59]" in program  # what the inner loop's index is
