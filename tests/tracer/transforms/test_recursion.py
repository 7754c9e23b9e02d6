"""Derivatives and rows of functions that call themselves."""

import loopwright as lw
import numpy as np
import pytest
from loopwright.ir.errors import LoopwrightTypeError

POINT = np.array([1.5, -2.0, 0.3])
STEP = 1e-6


@lw.function
def power(x, n):
    return lw.cond(n == 0, lambda: np.ones_like(x), lambda: x * power(x, n - 1))


@lw.function
def tree(x, depth):
    return lw.cond(
        depth == 0,
        lambda: np.sin(x),
        lambda: tree(0.9 * x, depth - 1) * tree(x + 0.1, depth - 1),
    )


@lw.function
def even(x, n):
    return lw.cond(n == 0, lambda: 1.0 * x, lambda: np.sin(odd(x, n - 1)))


@lw.function
def odd(x, n):
    return lw.cond(n == 0, lambda: 2.0 * x, lambda: np.cos(x * even(x, n - 1)))


@lw.function
def pair(x, y, n):
    """Two results, of which one is an integer, and an operand that stays."""
    return lw.cond(
        n == 0,
        lambda: (x, y, n),
        lambda: (lambda a, b, k: (a * y, b + a, k + 1))(*pair(x + y, y, n - 1)),
    )


@lw.function
def falling(x):
    return lw.cond(x <= 1, lambda: x * x, lambda: x * falling(x - 1))


def powers(x, n):
    return power(x, n).sum()


def test_both_modes_and_both_orders():
    for transform in (lw.grad(powers), lw.compile(lw.grad(powers))):
        np.testing.assert_allclose(transform(POINT, 5), 5 * POINT**4, rtol=1e-12)
    _, tangent = lw.jvp(lambda x: power(x, 4), (POINT,), (np.ones(3),))
    np.testing.assert_allclose(tangent, 4 * POINT**3, rtol=1e-12)
    curvature = lw.hessian(powers)(POINT, 5)
    np.testing.assert_allclose(curvature, np.diag(20 * POINT**3), rtol=1e-12)


@pytest.mark.parametrize("function", [tree, even, lambda x, n: pair(x, 1.1 * x, n)[1]])
def test_programs_agree_with_differences(function):
    at = lw.compile(lw.value_and_grad(lambda x: function(x, 3)))
    second = lw.compile(lw.grad(lw.grad(lambda x: function(x, 3))))
    (high, slope_above), (low, slope_below) = at(0.7 + STEP), at(0.7 - STEP)
    np.testing.assert_allclose(at(0.7)[1], (high - low) / (2 * STEP), rtol=1e-7)
    np.testing.assert_allclose(second(0.7), (slope_above - slope_below) / (2 * STEP), rtol=1e-7)


def test_calls_in_a_loop_that_is_differentiated():
    rows = np.arange(6.0).reshape(2, 3)

    def total(p):
        return lw.scan(lambda c, row: (c + powers(p * row, 3), None), 0.0, rows)[0]

    expected = 3 * POINT**2 * (rows**3).sum(0)
    np.testing.assert_allclose(lw.grad(total)(POINT), expected, rtol=1e-12)


def test_gradients_of_many_rows():
    rows = np.arange(6.0).reshape(2, 3)
    slopes = lw.vmap(lambda row: lw.grad(powers)(row, 4))(rows)
    np.testing.assert_allclose(slopes, 4 * rows**3, rtol=1e-12)


def test_the_depth_may_differ_from_row_to_row():
    depths = np.array([3.5, 1.0, 5.0])
    np.testing.assert_allclose(lw.vmap(falling)(depths), [falling(x) for x in depths])


def test_rows_that_do_not_take_part_are_not_given_to_it():
    def endless(x):
        return lw.cond(x == 0, lambda: 0.0 * x, lambda: 1 + counted(x - 1))

    counted = lw.function(endless)
    rows = lw.vmap(lambda x: lw.cond(x >= 0, lambda: counted(x), lambda: -x))
    np.testing.assert_array_equal(rows(np.array([3.0, -0.5, 0.0])), [3.0, 0.5, 0.0])


def test_a_function_that_needs_its_own_derivative_is_refused():
    @lw.function
    def climbing(x, n):
        return lw.cond(n == 0, lambda: x, lambda: lw.grad(lambda y: climbing(y, n - 1))(x))

    with pytest.raises(LoopwrightTypeError, match="climbing"):
        lw.compile(climbing)(2.0, 3)
