"""Nested lists of traced scalars and Python numbers as arrays: each number where it was written."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

NUMBERS = st.one_of(st.booleans(), st.integers(-9, 9), st.floats(-2, 2, width=16))
PLACES = st.integers(0, 3).map(lambda place: f"x[{place}]")
"""Texts, so that each call makes its numbers anew, as the user's code may."""

X = np.array([0.5, -1.25, 3.75, 8.0])


@st.composite
def literals(draw: Any) -> list[Any]:
    """A list of lists of one length."""
    width = draw(st.integers(1, 4))
    row = st.lists(st.one_of(NUMBERS, PLACES), min_size=width, max_size=width)
    return draw(st.lists(row, min_size=1, max_size=5))


def valued(rows: list[Any], x: Any) -> list[Any]:
    """Returns the rows with new number objects, and elements of ``x`` in the places of texts."""
    return [
        [x[int(e[2])] if isinstance(e, str) else type(e)(repr_of(e)) for e in row] for row in rows
    ]


def repr_of(number: Any) -> Any:
    return number if isinstance(number, bool) else repr(number)


@settings(max_examples=150, deadline=None)
@given(literals())
def test_arrays_of_numbers_and_scalars(rows: list[Any]) -> None:
    def together(x: Any) -> Any:
        return np.array(valued(rows, x)) * 1.0, np.stack([np.stack(r) for r in valued(rows, x)])

    if not any(isinstance(e, str) for row in rows for e in row):
        rows = [*rows, ["x[0]"] * len(rows[0])]
    for result, expected in zip(lw.compile(together)(X), together(X), strict=True):
        np.testing.assert_array_equal(result, expected)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-99, 99), min_size=2, max_size=30))
def test_each_number_of_a_long_sum_counts(numbers: list[int]) -> None:
    def weighted(x: Any) -> Any:
        total = x * 0
        for n in numbers:
            total = (
                total * 2 + np.float32(1) * (x + int(repr(n))) + np.where(x > 0, int(repr(n)), n)
            )
        return total

    x = X.astype(np.float32)
    np.testing.assert_allclose(lw.compile(weighted)(x), weighted(x), rtol=1e-5)
