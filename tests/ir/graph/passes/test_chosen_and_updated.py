"""What masks choose is reduced in place, what is written to an array is read from there, and
elements are not read by way of a column."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest

X = np.random.default_rng(0).normal(size=500)
Y = np.random.default_rng(1).random((500, 3))


def sums(x, y):
    m = x > 0.3
    return x[m].sum(), x[m].mean(), x[m].max(), (x[m] > 1).any(), (x[m] > 0.3).all(), x[m].prod()


def centred(x, y):
    v = x[x > 0.3]
    return ((v - v.mean()) ** 2).sum(), v.std(), np.exp(v).sum()


def rows(x, y):
    m = x < 0
    return y[m].sum(0), y[m].mean(axis=0), y[m, 1].sum(), (x[m] * y[m, 0]).sum(), y[y > 0.5].sum()


def nothing(x, y):
    m = x > 99
    return x[m].sum(), (x[m] * 2).prod(), y[m].sum(0)


def two_masks(x, y):
    return x[x > 0].sum() + x[x < 0.5].sum(), np.median(x[x > 0]), x[x > 0].argmax()


@pytest.mark.parametrize("function", [sums, centred, rows, nothing, two_masks])
def test_reductions_of_what_masks_choose(function: Any) -> None:
    for found, expected in zip(lw.compile(function)(X, Y), function(X, Y), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_nothing_is_gathered_for_a_sum() -> None:
    program = lw.compile(lambda x: ((x[x > 0] - 1) ** 2).mean()).lower(X).as_text("program")
    assert "true_places" not in program


def stencil(a, b):
    for _ in range(40):
        b[1:-1] = 0.25 * (a[:-2] + 2 * a[1:-1] + a[2:])
        a[1:-1] = 0.25 * (b[:-2] + 2 * b[1:-1] + b[2:])


def test_a_stencil_is_computed_where_it_is_written() -> None:
    ours, theirs = (X.copy(), np.zeros(500)), (X.copy(), np.zeros(500))
    compiled = lw.compile(stencil)
    compiled(*ours)
    stencil(*theirs)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    loop = compiled.lower(*ours).as_text("program").partition("for ")[2]
    assert "alloc float64[498]" not in loop


def swapped(a, i, k):
    for j in range(a.shape[1]):
        t = a[i, j]
        a[i, j] = a[k, j]
        a[k, j] = t


def test_two_elements_of_a_column_are_no_copy_of_it() -> None:
    ours, theirs = Y.copy().T.repeat(20, 1), Y.copy().T.repeat(20, 1)
    compiled = lw.compile(swapped)
    compiled(ours, 0, 2)
    swapped(theirs, 0, 2)
    np.testing.assert_array_equal(ours, theirs)
    loop = compiled.lower(ours, 0, 2).as_text("program").partition("for ")[2]
    assert "alloc float64[3]" not in loop
