"""Random programs, by Python and compiled, and what such programs have found."""

from __future__ import annotations

import linecache
from typing import Any

import loopwright as lw
import numpy as np
import pytest
import random_captured
import random_constructs
import random_side_effects
import random_user_code
from python_against_compiled import BAD, run

FUZZERS = {
    "constructs": (random_constructs.program, 30),
    "captured": (random_captured.program, 10),
    "user code": (random_user_code.program, 10),
    "side effects": (random_side_effects.program, 20),
}
"""Random programs, and how many of them are a test."""


@pytest.mark.parametrize(
    ("name", "seed"),
    [(name, seed) for name, (_, count) in FUZZERS.items() for seed in range(count)],
)
def test_random_programs(name: str, seed: int) -> None:
    source, args = FUZZERS[name][0](seed)
    outcome = run(seed, source, args)
    assert outcome.kind not in BAD, f"{outcome}\n{source}"


def test_every_kind_of_the_grammar_is_drawn() -> None:
    drawn: set[str] = set()
    for seed in range(400):
        writer = random_constructs.Writer(seed)
        writer.source()
        drawn |= writer.drawn
    assert {each for rules in random_constructs.RULES.values() for each in rules} == drawn


def binds_behind_a_return(x, n):
    if x[0] > 0:
        x[2] = 1
        if x[1] > n:
            return -1
    left = n
    while left:
        left -= 1
        x[0] += 1
    return left + x[0]


def asks_among(x, n):
    hits = 0
    for i in range(n):
        if i in (1, 5, n):
            hits += 1
        if i not in [2, 4] and x[i % 6] not in {0.5}:
            hits += 10
    return hits, n in (3, n), 2 in (n, 2)


def converts(x, n):
    small = np.float32(x[0] / 3)
    if x[0] > 0:
        small = np.float32(x[1]) + small
    return small * 2, np.int32(n) + np.int32(1), np.float64(small) / 3, np.int8(x[2])


def asks_and_binds(x, n):
    at = 0
    while (at := at + 1) < n:
        x[at % 6] += 1
    else:
        x[0] += at
    return at


def any_and_max_of_items(x, n):
    greatest = max(x), min(x[1:]), max(v * n for v in x), min([*x, n])
    return any(v > n for v in x), all(v < 9 for v in [*x[:3], n]), any(iter([0, n])), *greatest


@pytest.mark.parametrize(
    "function", [binds_behind_a_return, asks_among, asks_and_binds, converts, any_and_max_of_items]
)
@pytest.mark.parametrize("n", [0, 3, 20])
@pytest.mark.parametrize("first", [-1.0, 2.0])
def test_found_programs(function: Any, n: int, first: float) -> None:
    x = np.array([first, 4.0, -3.5, 0.5, 1.0, 2.0])
    expected = function(x.copy(), n)
    np.testing.assert_allclose(lw.compile(function)(x, n), expected, rtol=1e-12)


def binds_inside(x, n):
    for i in range(n):
        with np.errstate(all="ignore"):
            each = x[i % 6]
            x[0] += each * 0.5
        if i == 0:
            first = 5.0
        else:
            first = first + x[i % 6]
        x[1] += first
    return x


def binds_in_some(x, n):
    for i in range(n):
        if x[i % 6] > 100:
            found = i
    return found


def binds_behind_a_break(x, n):
    for i in range(n):
        if x[0] < 1e9:
            break
        found = i
    return found


@pytest.mark.parametrize("function", [binds_in_some, binds_behind_a_break])
@pytest.mark.parametrize("n", [0, 3, 20])
def test_a_variable_that_no_iteration_binds_has_no_value(function: Any, n: int) -> None:
    for run_it in (function, lw.compile(function)):
        with pytest.raises(UnboundLocalError):
            run_it(np.arange(6.0), np.int64(n))


@pytest.mark.parametrize("n", [0, 3, 20])
def test_a_variable_of_each_iteration(n: int) -> None:
    expected = binds_inside(np.arange(6.0), n)
    np.testing.assert_allclose(lw.compile(binds_inside)(np.arange(6.0), np.int64(n)), expected)


def pieces(counts):
    for i in range(9):
        counts[0] += 1
        yield i


def takes_from_a_list(x, counts):
    items = iter([1, 2, 3])
    for item in items:
        if x[item] > 0:
            break
    return next(items, 9)


def takes_from_rows(x, counts):
    rows = enumerate([*x])
    for _, row in rows:
        if row > 0:
            return row, next(rows)[0]
    return 0.0, 0


def takes_from_a_generator(x, counts):
    for item in pieces(counts):
        if x[item % 6] > 0:
            break
    return 0


def asks_a_generator(x, counts):
    return any(x[item % 6] > 0 for item in pieces(counts))


def asks_with_an_effect(x, counts):
    def counted(v):
        counts[0] += 1
        return v

    return any(counted(v) > 0 for v in x)


@pytest.mark.parametrize(
    "function",
    [
        takes_from_a_list,
        takes_from_rows,
        takes_from_a_generator,
        asks_a_generator,
        asks_with_an_effect,
    ],
)
def test_a_break_by_value_does_not_take_more_from_an_iterator(function: Any) -> None:
    line = function.__code__.co_firstlineno
    with pytest.raises(lw.UnsupportedError, match="compiled code") as refused:
        lw.compile(function)(np.arange(6.0) - 2, [0])
    assert refused.value.span is not None and refused.value.span.line >= line


def test_a_known_break_takes_what_python_takes() -> None:
    def f(x, n):
        items = iter([1, 2, 3, 4])
        for item in items:
            if item == 2:
                break
            if x[0] > n:
                x[0] = n
        return x[0] + next(items)

    assert lw.compile(f)(np.array([5.0, 1.0]), 3) == 6


def test_equal_functions_of_two_files_have_lines_of_their_own() -> None:
    source = "def f(x):\n    if x[0] > 0:\n        x = x[1:]\n    return x\n"
    for file in ("<one>", "<other>"):
        linecache.cache[file] = (len(source), None, source.splitlines(True), file)
        space: dict[str, Any] = {}
        exec(compile(source, file, "exec"), space)
        with pytest.raises(lw.LoopwrightTypeError) as error:
            lw.compile(space["f"], dynamic=False)(np.ones(3))
        assert error.value.span is not None and error.value.span.file == file
