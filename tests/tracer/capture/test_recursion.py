"""Recursive functions that write their arrays: right, and without copies of these arrays."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from in_place_programs import same
from loopwright.ir.program.analysis import regions, scopes, walk
from loopwright.ir.program.nodes import Copy
from loopwright.ir.program.parser import parse_program
from loopwright.ir.program.verify import MOST_REGISTER_BYTES

RNG = np.random.default_rng(5)


def quicksort(a, lo, hi):
    if lo < hi:
        pivot = a[hi]
        i = lo
        for j in range(lo, hi):
            if a[j] < pivot:
                a[i], a[j] = a[j], a[i]
                i += 1
        a[i], a[hi] = a[hi], a[i]
        quicksort(a, lo, i - 1)
        quicksort(a, i + 1, hi)


def sort(a):
    quicksort(a, 0, len(a) - 1)
    return a


def queens(n, row, columns, rising, falling):
    if row == n:
        return 1
    count = 0
    for c in range(n):
        if not columns[c] and not rising[row + c] and not falling[row - c + n - 1]:
            columns[c] = rising[row + c] = falling[row - c + n - 1] = True
            count += queens(n, row + 1, columns, rising, falling)
            columns[c] = rising[row + c] = falling[row - c + n - 1] = False
    return count


def n_queens(columns, rising, falling, n):
    return queens(n, 0, columns, rising, falling)


def insert(key, left, right, node, value, free):
    if value < key[node]:
        if left[node] < 0:
            left[node] = free
            key[free] = value
        else:
            insert(key, left, right, left[node], value, free)
    else:
        if right[node] < 0:
            right[node] = free
            key[free] = value
        else:
            insert(key, left, right, right[node], value, free)


def visit(key, left, right, node, out, count):
    if node < 0:
        return count
    count = visit(key, left, right, left[node], out, count)
    out[count] = key[node]
    return visit(key, left, right, right[node], out, count + 1)


def tree(values):
    n = len(values)
    key, out = np.zeros(n, np.int64), np.zeros(n, np.int64)
    left, right = np.full(n, -1), np.full(n, -1)
    key[0] = values[0]
    for i in range(1, n):
        insert(key, left, right, 0, values[i], i)
    visit(key, left, right, 0, out, 0)
    return out, left, right


def find(parent, x):
    if parent[x] != x:
        parent[x] = find(parent, parent[x])
    return parent[x]


def union_find(pairs, parent):
    for a, b in pairs:
        x, y = find(parent, a), find(parent, b)
        if x != y:
            parent[x] = y
    return parent


def heap(a, k, out, count):
    if k == 1:
        out[count] = a
        return count + 1
    count = heap(a, k - 1, out, count)
    for i in range(k - 1):
        if k % 2 == 0:
            a[i], a[k - 1] = a[k - 1], a[i]
        else:
            a[0], a[k - 1] = a[k - 1], a[0]
        count = heap(a, k - 1, out, count)
    return count


def permutations(a, k, out):
    heap(a, k, out, 0)
    return out


def fill(grid, y, x, old, new):
    if 0 <= y < grid.shape[0] and 0 <= x < grid.shape[1] and grid[y, x] == old:
        grid[y, x] = new
        fill(grid, y + 1, x, old, new)
        fill(grid, y - 1, x, old, new)
        fill(grid, y, x + 1, old, new)
        fill(grid, y, x - 1, old, new)


def flood(grid, y, x):
    fill(grid, y, x, grid[y, x], 9)
    return grid


def merge_sort(a, b, lo, hi):
    if hi - lo < 2:
        return
    middle = (lo + hi) // 2
    merge_sort(a, b, lo, middle)
    merge_sort(a, b, middle, hi)
    i, j = lo, middle
    for k in range(lo, hi):
        if i < middle and (j >= hi or a[i] <= a[j]):
            b[k] = a[i]
            i += 1
        else:
            b[k] = a[j]
            j += 1
    for k in range(lo, hi):
        a[k] = b[k]


def merged(a, b, n):
    merge_sort(a, b, 0, n)
    return a


def hanoi(n, a, b, c, pegs):
    if n == 0:
        return 0
    moves = hanoi(n - 1, a, c, b, pegs)
    pegs[n - 1] = c
    return moves + 1 + hanoi(n - 1, b, a, c, pegs)


def tower(pegs, n):
    moves = hanoi(n, 0, 1, 2, pegs)
    return moves, pegs


PROGRAMS: dict[Callable[..., Any], tuple[Any, ...]] = {
    sort: (RNG.permutation(200),),
    n_queens: (np.zeros(90, bool), np.zeros(90, bool), np.zeros(90, bool), np.int64(6)),
    tree: (RNG.permutation(100),),
    union_find: (RNG.integers(0, 60, (80, 2)), np.arange(60)),
    permutations: (np.arange(12), np.int64(5), np.zeros((120, 12), np.int64)),
    flood: (RNG.integers(0, 3, (12, 14)), np.int64(4), np.int64(5)),
    merged: (RNG.permutation(100), np.zeros(100, np.int64), np.int64(100)),
    tower: (np.zeros(12, np.int64), np.int64(7)),
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_recursion_in_place_is_right(program: Callable[..., Any]) -> None:
    theirs, ours = copy.deepcopy(PROGRAMS[program]), copy.deepcopy(PROGRAMS[program])
    expected = program(*theirs)
    same(expected, lw.compile(program)(*ours))
    same(theirs, ours)


def _copies(text: str) -> list[int]:
    """Returns the bytes of the copies in the functions of a program, small ones left out."""
    program = parse_program(re.sub(r"library .*", "", text))
    copies: list[int] = []
    for scope in scopes(program)[1:]:
        nbytes = {name: region.nbytes for name, region in regions(scope).items()}
        copies += [nbytes[i.source] for i in walk(scope.body) if isinstance(i, Copy)]
    return [n for n in copies if n > MOST_REGISTER_BYTES]


def test_many_calls_on_known_numbers_are_calls_of_compiled_code() -> None:
    def sorted_by(a, b):
        merge_sort(a, b, 0, len(a))
        return a

    a = RNG.permutation(100)
    f = lw.compile(sorted_by)
    same(np.sort(a), f(a.copy(), a.copy()))
    assert "function program @merge_sort" in f.lower(a, a).as_text("program")


def test_many_calls_that_have_to_be_of_python_stay_so() -> None:
    def halves(x, n):
        if n == 0:
            return [x]
        return [*halves(x + n, n - 1), *halves(x * 0.5 if x[0] > n else x, n - 1)]

    def total(x):
        parts = halves(x, 5)
        return sum(parts), len(parts)

    x = RNG.random(5)
    same(total(x), lw.compile(total)(x))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_recursion_copies_no_array(program: Callable[..., Any]) -> None:
    text = lw.compile(program).lower(*PROGRAMS[program]).as_text("program")
    assert "@inout" in text.partition("function program")[2]
    assert not _copies(text)


def test_a_recursion_that_cannot_be_compiled_says_why() -> None:
    def walk(x, n, names):
        if n <= 0:
            return x[0]
        names.append("here")
        return walk(x, n - 1, names)

    with pytest.raises(lw.LoopwrightError, match=r"walk.* calls itself"):
        lw.compile(lambda x, n: walk(x, n, []))(RNG.random(9), np.int64(3))
