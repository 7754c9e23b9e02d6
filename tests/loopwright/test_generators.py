"""Generators and other iterators, as arguments, inside and as results."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import loopwright as lw
import numpy as np
import pytest

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@lw.compile
def powers(x: Any, count: int) -> Iterator[Any]:
    y = x
    for _ in range(count):
        yield y
        y = y * x


@lw.compile
def total(rows: Any, scale: Any = 1) -> Any:
    return sum(row.sum() * scale for row in rows)


def test_a_generator_function_gives_an_iterator() -> None:
    for count in (3, 2, 3):
        results = powers(X, count)
        assert next(results).tolist() == X.tolist()
        assert [r.tolist() for r in results] == [(X**n).tolist() for n in range(2, count + 1)]
    assert powers.cache_info().misses == 2


def test_results_that_are_iterators() -> None:
    f = lw.compile(lambda x: map(np.negative, [x, x + 1]))
    for _ in range(3):
        assert [r.tolist() for r in f(X)] == [(-X).tolist(), (-X - 1).tolist()]
    g = lw.compile(lambda x: zip([x], ["name"], [1]))
    ((array, name, number),) = g(X)
    assert (array.tolist(), name, number) == (X.tolist(), "name", 1)


def test_arguments_that_are_iterators() -> None:
    for _ in range(3):
        assert total(X + i for i in range(3)) == 3 * X.sum() + 18
        assert total(map(np.abs, [X, -X]), scale=2.0) == 4 * X.sum()
        assert total(iter([X])) == X.sum()
        assert total([X]) == X.sum()
    assert total.cache_info().misses == 4


def test_what_does_not_end_is_refused() -> None:
    with pytest.raises(lw.LoopwrightValueError, match="more than 10000 items"):
        total(itertools.repeat(X))
    with pytest.raises(lw.LoopwrightValueError, match="islice"):
        lw.compile(lambda x: itertools.repeat(x))(X)


def test_a_range_is_static() -> None:
    f = lw.compile(lambda x, steps: [x + i for i in steps])
    for steps in (range(2), range(1, 4)):
        assert [r.tolist() for r in f(X, steps)] == [(X + i).tolist() for i in steps]
