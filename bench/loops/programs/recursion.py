"""Functions that call themselves and each other."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np

from ..program import program

__all__: list[str] = []


def _size(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return (size,)


def factorial_of(n: Any) -> Any:
    return n * factorial_of(n - 1) if n > 1 else 1


def factorial_plain(count: Any) -> Any:
    total = 0
    for i in range(count):
        total += factorial_of(i % 15)
    return total


@lw.function
def _factorial(n: Any) -> Any:
    return lw.cond(n > 1, lambda: n * _factorial(n - 1), lambda: 1)


@program(factorial_plain, _size, small=40, large=100_000)
def factorial(count: Any) -> Any:
    """Sum of factorials, each by recursion."""
    return lw.fori_loop(0, count, lambda i, total: total + _factorial(i % 15), 0)


def fibonacci_plain(n: Any) -> Any:
    return n if n < 2 else fibonacci_plain(n - 1) + fibonacci_plain(n - 2)


@lw.function
def _fibonacci(n: Any) -> Any:
    return lw.cond(n < 2, lambda: n, lambda: _fibonacci(n - 1) + _fibonacci(n - 2))


@program(fibonacci_plain, _size, small=10, large=24)
def fibonacci(n: Any) -> Any:
    """Fibonacci's numbers by two calls each."""
    return _fibonacci(n)


def ackermann_plain(m: Any, n: Any) -> Any:
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann_plain(m - 1, 1)
    return ackermann_plain(m - 1, ackermann_plain(m, n - 1))


@lw.function
def _ackermann(m: Any, n: Any) -> Any:
    return lw.cond(
        m == 0,
        lambda: n + 1,
        lambda: lw.cond(
            n == 0,
            lambda: _ackermann(m - 1, 1),
            lambda: _ackermann(m - 1, _ackermann(m, n - 1)),
        ),
    )


def _two_and(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return 2, size


@program(ackermann_plain, _two_and, small=3, large=300)
def ackermann(m: Any, n: Any) -> Any:
    """Ackermann's function, whose argument is a call of itself."""
    return _ackermann(m, n)


def is_even_plain(n: Any) -> Any:
    return True if n == 0 else is_odd_plain(n - 1)


def is_odd_plain(n: Any) -> Any:
    return False if n == 0 else is_even_plain(n - 1)


def parity_plain(count: Any) -> Any:
    total = 0
    for i in range(count):
        if is_even_plain(i):
            total += 1
    return total


@lw.function
def _is_even(n: Any) -> Any:
    return lw.cond(n == 0, lambda: True, lambda: _is_odd(n - 1))


@lw.function
def _is_odd(n: Any) -> Any:
    return lw.cond(n == 0, lambda: False, lambda: _is_even(n - 1))


@program(parity_plain, _size, small=21, large=2_000)
def parity(count: Any) -> Any:
    """Even numbers counted by two functions that call each other."""
    return lw.fori_loop(0, count, lambda i, total: total + _is_even(i), 0)


def _tree(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    """A random search tree of ``size`` nodes as arrays: children by number, -1 for none."""
    keys = rng.permutation(size)
    left, right = np.full(size, -1), np.full(size, -1)
    for node in range(1, size):
        place = 0
        while True:
            side = left if keys[node] < keys[place] else right
            if side[place] < 0:
                side[place] = node
                break
            place = side[place]
    return left, right, rng.integers(-100, 100, size)


def tree_sum_below(node: Any, left: Any, right: Any, values: Any) -> Any:
    if node < 0:
        return 0
    first = tree_sum_below(left[node], left, right, values)
    return values[node] + first + tree_sum_below(right[node], left, right, values)


def tree_sum_plain(left: Any, right: Any, values: Any) -> Any:
    return tree_sum_below(0, left, right, values)


@program(tree_sum_plain, _tree, small=25, large=20_000)
def tree_sum(left: Any, right: Any, values: Any) -> Any:
    """Sum of a tree whose children are numbers in arrays."""

    @lw.function
    def below(node: Any) -> Any:
        return lw.cond(
            node < 0, lambda: 0, lambda: values[node] + below(left[node]) + below(right[node])
        )

    return below(0)


def simpson_between(a: Any, b: Any, whole: Any) -> Any:
    middle = 0.5 * (a + b)
    left = simpson_rule(a, middle)
    right = simpson_rule(middle, b)
    if abs(left + right - whole) < 1e-12:
        return left + right
    return simpson_between(a, middle, left) + simpson_between(middle, b, right)


def simpson_rule(a: Any, b: Any) -> Any:
    middle = 0.5 * (a + b)
    ends = 1.0 / (1e-4 + a * a) + 1.0 / (1e-4 + b * b)
    return (b - a) / 6.0 * (ends + 4.0 / (1e-4 + middle * middle))


def simpson_plain(high: Any) -> Any:
    return simpson_between(-1.0, high, simpson_rule(-1.0, high))


def _end(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return (0.1 * size - 0.9,)


@lw.function
def _simpson(a: Any, b: Any, whole: Any) -> Any:
    middle = 0.5 * (a + b)
    left, right = simpson_rule(a, middle), simpson_rule(middle, b)
    return lw.cond(
        np.abs(left + right - whole) < 1e-12,
        lambda: left + right,
        lambda: _simpson(a, middle, left) + _simpson(middle, b, right),
    )


@program(simpson_plain, _end, small=1, large=20, tolerance=1e-9)
def simpson(high: Any) -> Any:
    """A peak's integral by Simpson's rule, where it is inexact on each half."""
    return _simpson(-1.0, high, simpson_rule(-1.0, high))
