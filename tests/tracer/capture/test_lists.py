"""Lists that loops grow: native with the results of Python's, or unrolled as before."""

# pyright: basic
from __future__ import annotations

import math
from typing import Any

import loopwright as lw
import numpy as np
import pytest

X = np.random.default_rng(0).random(30)
WEIGHTS = [1.0, 2.5, 3.0] * 10
MOVES = [(0, 1), (1, 0), (0, -1), (-1, 0)]


def appended(x):
    out = []
    for i in range(len(x)):
        out.append(x[i] * i)
    return np.array(out), out[-1], out[3], len(out), np.stack(out).sum(), out


def appended_twice(x):
    out = [x[0], x[1]]
    for v in x:
        out.append(v)
        for _ in range(3):
            out.append(2 * v)
    return np.array(out), len(out)


def in_one_branch(x):
    out = []
    for v in x:
        if v > 0.5:
            out.append(v)
    return out, len(out), np.array(out)


def until_break(x):
    out = []
    for i in range(len(x)):
        if x[i] > 0.9:
            break
        out.append(i)
    return out


def tuples(x):
    out = []
    i = 0
    while i < len(x):
        if x[i] > 0.5:
            out.append((i, 1))
            i += 2
        else:
            out.append((0, i))
            i += 1
    return np.array(out), out[-1], len(out)


def stack(x, n):
    todo = [n]
    total = 0
    while todo:
        value = todo.pop()
        total += value
        if value > 1:
            todo.append(value // 2)
            todo.append(value // 3)
    return total, len(todo)


def walked(x):
    out = []
    for v in x:
        out.append(v * v)
    total = 0.0
    for k, v in enumerate(out):
        total += k * v
    return total, sum(out), max(out), out[::-1], out[2:5]


def two_names(x):
    out = []
    other = out
    for v in x:
        out.append(v)
        other.append(-v)
    return np.array(other), len(out)


def path_of_arrays(x):
    state = x[:3]
    path = [state]
    for i in range(20):
        state = state * 0.5 + x[i]
        path.append(state)
    return np.stack(path), path[-1]


def trajectory(x):
    state = x[:3]
    path = []
    for i in range(len(x)):
        state = state * 0.5 + x[i]
        path.append(state)
    return np.stack(path)


def written_in_place(x):
    state = x[:3].copy()
    path = []
    for i in range(20):
        state[0] += x[i]
        path.append(state)
    return np.stack(path)


def written_later(x):
    state = x[:3] * 2
    path = []
    for i in range(20):
        state = state * 0.5 + x[i]
        path.append(state)
    state[0] = 7.0
    return np.stack(path)


def row_written(x):
    path = []
    for i in range(20):
        path.append(x[:3] * i)
    path[2][0] = 7.0
    return np.stack(path)


def replaced(x):
    out = [0.0] * 3 + [1.0]
    seen = [0.0]
    for v in x:
        seen.append(v + seen[-1])
        seen[0] = v
    return np.array(seen), out


def of_lists(x):
    rows = []
    for i in range(20):
        rows.append([x[i], x[i] * 2])
    return np.array(rows), rows[3][1]


def mixed(x):
    out = []
    for i in range(20):
        out.append(x[i])
    out.append("end")
    return len(out), out[-1]


def ints_and_floats(x):
    out = [1]
    for i in range(20):
        out.append(x[i])
    return out


def comprehensions(x):
    def f(v):
        return v * v if v > 0.5 else -v

    return (
        [f(v) for v in x],
        np.array([math.sin(i) * v for i, v in enumerate(x)]),
        sum(v * v for v in x),
        max(f(v) for v in x),
        any(v > 2 for v in x),
        [a - b for a, b in zip(x, x)],
        np.array([[a * b for a in x] for b in x]),
    )


def chosen(x):
    above = [v for v in x if v > 0.3 if v < 0.9]
    pairs = sum([u for u in x[:5] for v in x[:5] if u < v])
    few = [[i, v] for i, v in enumerate(x[:4]) if i != 1]
    most = max(v for v in x[:5] if v < 2), max([v for v in x if v > 0.1])
    return above, len(above), len([v for v in x[:6] if v > 0.5]), pairs, few, most


def lists_of_numbers(x):
    total = 0.0
    for i in range(30):
        dx, dy = MOVES[i % 4]
        total += x[i] * WEIGHTS[i] + dx - 2 * dy
    return total


def grown_while_walked(x):
    out = [x[0]]
    for v in out:
        if len(out) < 20:
            out.append(v * 0.5)
    return np.array(out)


def inner_lists(x):
    total = 0.0
    for i in range(20):
        near = [x[i]]
        for k in range(20):
            if abs(x[i] - x[k]) < 0.1:
                near.append(x[k])
        total += sum(near) / len(near)
    return total


def row_changed_later(x):
    rows = []
    for i in range(20):
        row = [x[i], x[i]]
        rows.append(row)
        row[0] = 7.0
    rows[3][1] = 5.0
    return np.array(rows)


def array_without_axes(x):
    total = np.zeros(())
    out = []
    for i in range(20):
        total += x[i]
        out.append(total)
    return np.array(out)


def array_of_numpy(x):
    row = np.zeros(3)
    rows = []
    for _ in range(20):
        rows.append(row)
    row[0] = 5.0
    return np.array(rows)


def joined(x):
    low, high = [], []
    for v in x:
        if v > 0.5:
            high.append(v)
        else:
            low.append(v)
    both = low[:-1] + high[::-1]
    return both, len(both), both[3], max(both), low[1:]


def compared(x):
    one, other = [], []
    for _ in x:
        one.append(1)
        other.append(1)
    return one == other, one is other, str(one)


def reversed_path(x):
    path = [0]
    for i in range(1, 30):
        path.append(i * 2)
    path.reverse()
    return np.array(path), path[0]


PROGRAMS = (
    *(appended, appended_twice, in_one_branch, until_break, tuples, walked, two_names),
    *(
        path_of_arrays,
        trajectory,
        written_in_place,
        written_later,
        row_written,
        replaced,
        of_lists,
        mixed,
    ),
    *(ints_and_floats, comprehensions, chosen, lists_of_numbers, grown_while_walked, inner_lists),
    *(reversed_path, row_changed_later, array_without_axes, array_of_numpy, joined, compared),
)


def _same(one: Any, other: Any) -> None:
    if isinstance(other, tuple | list):
        assert type(one) is type(other) and len(one) == len(other)
        for each, theirs in zip(one, other):
            _same(each, theirs)
        return
    assert isinstance(one, type(other)) or isinstance(other, np.generic)
    assert np.asarray(one).dtype == np.asarray(other).dtype
    if isinstance(other, str):
        assert one == other
    else:
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_lists_are_those_of_python(program: Any) -> None:
    ours, theirs = X.copy(), X.copy()
    _same(lw.compile(program)(ours), program(theirs))
    np.testing.assert_array_equal(ours, theirs)


def test_a_stack_without_a_known_bound() -> None:
    _same(lw.compile(stack)(X, 50), stack(X, 50))


LONG = np.random.default_rng(1).random(400)
NATIVE = (appended, in_one_branch, until_break, tuples, walked, stack, two_names, trajectory)


@pytest.mark.parametrize("program", NATIVE, ids=lambda p: p.__name__)
def test_they_grow_in_native_loops(program: Any) -> None:
    args = (LONG, 50) if program is stack else (LONG,)
    said = lw.compile(program).trace(*args).loops
    assert said and all("native" in line for line in said)


def test_an_index_out_of_range_and_an_empty_stack_are_errors() -> None:
    def taken(x, k):
        out = []
        for v in x:
            if v > 0.5:
                out.append(v)
        return out[k]

    def popped(x):
        out = []
        for v in x:
            if v > 2:
                out.append(v)
        return out.pop()

    f = lw.compile(taken)
    assert f(X, 2) == taken(X, 2) and f(X, -1) == taken(X, -1)
    for k in (30, -30):
        with pytest.raises(IndexError, match="list index out of range"):
            f(X, k)
    with pytest.raises(IndexError, match="pop from empty list"):
        lw.compile(popped)(X)


def test_an_index_that_is_no_integer_is_refused() -> None:
    def taken(x):
        out = []
        for v in x:
            out.append(v)
        return out[x[0] * 3]

    with pytest.raises(TypeError):
        lw.compile(taken)(X)


def test_an_array_that_values_choose_is_not_written_behind_its_back() -> None:
    def chosen_by_a_value(x):
        a, b = x[:3].copy(), x[3:6].copy()
        w = a if x[0] > 0.5 else b
        a[0] = 7.0
        return w

    with pytest.raises(lw.UnsupportedError, match="values decide which other names"):
        lw.compile(chosen_by_a_value)(X)


def test_a_list_that_grows_without_end_is_an_error() -> None:
    def endless(x):
        out = [0.0]
        while out[-1] < x[0]:
            out.append(out[-1] + 1e-9)
        return len(out)

    with pytest.raises(MemoryError, match="in a loop of unknown length"):
        lw.compile(endless)(X)


@pytest.mark.parametrize("k", [40, -40])
def test_what_a_list_has_no_element_for_counts_nothing(k: int) -> None:
    def repeated(n, k):
        out = [3]
        i = 0
        while i < n:
            out.append(1 << 62)
            i += 1
        while len(out) > n - 4:
            out.pop()
        count = 0
        for j in range(out[k]):
            count += j
        return count

    f = lw.compile(repeated)
    assert f(5, 0) == repeated(5, 0)
    with pytest.raises(IndexError, match="list index out of range"):
        f(20, k)  # the room there has elements of before, or none


def rooms(x):
    """Two lists of one type, and one that each iteration begins anew."""
    values, counts, ends = [], [], []
    for v in x:
        if v > 0.3:
            values.append(v)
            counts.append(2 * v)
        todo = [v]
        while len(todo) > 0:
            t = todo.pop()
            if t > 0.1:
                todo.append(t / 2)
                todo.append(t / 3)
        ends.append(t)
    return np.array(values), np.array(counts), np.array(ends)


def test_each_list_has_room_of_its_own_which_nobody_fills() -> None:
    f = lw.compile(rooms)
    _same(f(LONG), rooms(LONG))
    program = f.lower(LONG).as_text("program")
    assert "@full" not in program
    copied = [line for line in program.splitlines() if line.strip().startswith("copy")]
    assert not any("[" in line for line in copied if "float64" in line)
    assert program.count("@empty") >= 4


def next_greater(x):
    found = np.full(len(x), -1)
    todo = []
    for i in range(len(x)):
        while todo and x[todo[-1]] < x[i]:
            found[todo.pop()] = i
        todo.append(i)
    return found, len(todo)


def both_and_none(x):
    low, high = [], []
    k = 0
    for v in x:
        if v > 0.5:
            high.append(v)
        else:
            low.append(v)
        if low and high and v > 0.7:
            k += len(high)
        if not (low or high):
            k += 1000
        k += 1 if (high and not low) or v > 0.9 else 2
    while high and (not low or high[-1] > low[-1]):
        high.pop()
        k += 1
    return k, len(low), len(high)


@pytest.mark.parametrize("scale", [1.0, 0.4, 0.0])
@pytest.mark.parametrize("program", [next_greater, both_and_none], ids=lambda p: p.__name__)
def test_the_truth_of_lists_beside_other_conditions(program: Any, scale: float) -> None:
    _same(lw.compile(program)(scale * LONG), program(scale * LONG))
    said = lw.compile(program).trace(LONG).loops
    assert said and all("native" in line for line in said)
