"""Loops over scalars."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np

from ..program import program

__all__: list[str] = []


def _size(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return (size,)


def collatz_plain(limit: Any) -> Any:
    best = 0
    for start in range(1, limit):
        n, count = start, 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            count += 1
        best = max(best, count)
    return best


@program(collatz_plain, _size, small=60, large=50_000)
def collatz(limit: Any) -> Any:
    """Most steps to 1 of a start below ``limit``."""

    def steps(start: Any) -> Any:
        def step(state: Any) -> Any:
            n, count = state
            return np.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1

        return lw.while_loop(lambda state: state[0] != 1, step, (start, 0))[1]

    return lw.fori_loop(1, limit, lambda start, best: np.maximum(best, steps(start)), 0)


def gcd_plain(limit: Any) -> Any:
    total = 0
    for i in range(1, limit):
        a, b = limit, i
        while b != 0:
            a, b = b, a % b
        total += a
    return total


@program(gcd_plain, _size, small=84, large=100_000)
def gcd(limit: Any) -> Any:
    """Sum of the greatest common divisors of ``limit`` and each smaller number."""

    def add(i: Any, total: Any) -> Any:
        a, _ = lw.while_loop(lambda s: s[1] != 0, lambda s: (s[1], s[0] % s[1]), (limit, i))
        return total + a

    return lw.fori_loop(1, limit, add, 0)


def bisection_plain(count: Any) -> Any:
    total = 0.0
    for k in range(count):
        low, high = 0.0, 1.0 + k
        while high - low > 1e-9:
            middle = 0.5 * (low + high)
            if middle * middle * middle + middle < k:
                low = middle
            else:
                high = middle
        total += low
    return total


@program(bisection_plain, _size, small=12, large=20_000, tolerance=1e-12)
def bisection(count: Any) -> Any:
    """Sum of the roots of ``x**3 + x - k`` for each ``k`` below ``count``."""

    def root(k: Any) -> Any:
        def halve(interval: Any) -> Any:
            low, high = interval
            middle = 0.5 * (low + high)
            left = middle * middle * middle + middle < k
            return np.where(left, middle, low), np.where(left, high, middle)

        return lw.while_loop(lambda s: s[1] - s[0] > 1e-9, halve, (0.0, 1.0 + k))[0]

    return lw.fori_loop(0, count, lambda k, total: total + root(k), 0.0)


def newton_plain(count: Any) -> Any:
    total = 0.0
    for k in range(1, count):
        x, change = float(k), 1.0
        while abs(change) > 1e-12 * x:
            change = (x * x * x - k) / (3.0 * x * x)
            x -= change
        total += x
    return total


@program(newton_plain, _size, small=30, large=50_000, tolerance=1e-12)
def newton(count: Any) -> Any:
    """Sum of cube roots by Newton's method."""

    def root(k: Any) -> Any:
        def step(state: Any) -> Any:
            x, _ = state
            change = (x * x * x - k) / (3.0 * x * x)
            return x - change, change

        return lw.while_loop(lambda s: np.abs(s[1]) > 1e-12 * s[0], step, (1.0 * k, 1.0))[0]

    return lw.fori_loop(1, count, lambda k, total: total + root(k), 0.0)


ITERATIONS = 100


def _plane(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return np.linspace(-2.0, 0.6, size), np.linspace(-1.2, 1.2, size)


def mandelbrot_plain(xs: Any, ys: Any) -> Any:
    counts = np.zeros((len(ys), len(xs)), np.int64)
    for row in range(len(ys)):
        for column in range(len(xs)):
            real, imaginary, count = 0.0, 0.0, 0
            while real * real + imaginary * imaginary < 4.0 and count < ITERATIONS:
                real, imaginary = (
                    real * real - imaginary * imaginary + xs[column],
                    2.0 * real * imaginary + ys[row],
                )
                count += 1
            counts[row, column] = count
    return counts


@program(mandelbrot_plain, _plane, small=9, large=160)
def mandelbrot(xs: Any, ys: Any) -> Any:
    """Iterations until a point leaves the circle of radius 2."""

    def escape(x: Any, y: Any) -> Any:
        def inside(state: Any) -> Any:
            real, imaginary, count = state
            return (real * real + imaginary * imaginary < 4.0) & (count < ITERATIONS)

        def step(state: Any) -> Any:
            real, imaginary, count = state
            return (
                real * real - imaginary * imaginary + x,
                2.0 * real * imaginary + y,
                count + 1,
            )

        return lw.while_loop(inside, step, (0.0, 0.0, 0))[2]

    return lw.map(lambda y: lw.map(lambda x: escape(x, y), xs), ys)


def _pairs(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    values = rng.integers(0, 1 << 40, size) * 2
    values[-size // 4], values[-2] = 7, 12
    return values, 19


def first_pair_plain(values: Any, target: Any) -> Any:
    n = len(values)
    for i in range(n):
        for j in range(i + 1, n):
            if values[i] + values[j] == target:
                return i, j
    return n, n


@program(first_pair_plain, _pairs, small=24, large=3000)
def first_pair(values: Any, target: Any) -> Any:
    """The first pair with a given sum: two loops, both left where it is found."""
    n = len(values)

    def row(state: Any) -> Any:
        i, _, _ = state

        def column(inner: Any) -> Any:
            j, _ = inner
            return j + 1, values[i] + values[j] == target

        j, found = lw.while_loop(
            lambda s: (s[0] < n) & np.logical_not(s[1]), column, (i + 1, False)
        )
        return np.where(found, i, i + 1), j, found

    i, j, found = lw.while_loop(lambda s: (s[0] < n) & np.logical_not(s[2]), row, (0, 0, False))
    return i, np.where(found, j - 1, n)


def _sorted_keys(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return np.sort(rng.integers(0, 8 * size, size)), rng.integers(0, 8 * size, size)


def binary_search_plain(values: Any, keys: Any) -> Any:
    places = np.zeros(len(keys), np.int64)
    for k in range(len(keys)):
        low, high = 0, len(values)
        while low < high:
            middle = (low + high) // 2
            if values[middle] < keys[k]:
                low = middle + 1
            else:
                high = middle
        places[k] = low
    return places


@program(binary_search_plain, _sorted_keys, small=20, large=50_000)
def binary_search(values: Any, keys: Any) -> Any:
    """Where each key belongs in sorted values."""

    def place(key: Any) -> Any:
        def halve(interval: Any) -> Any:
            low, high = interval
            middle = (low + high) // 2
            right = values[middle] < key
            return np.where(right, middle + 1, low), np.where(right, high, middle)

        return lw.while_loop(lambda s: s[0] < s[1], halve, (0, len(values)))[0]

    return lw.map(place, keys)


MULTIPLIER, INCREMENT, MODULUS = 1103515245, 12345, 1 << 31
"""The linear congruential generator of ANSI C's example; in int64, its products do not overflow."""


def metropolis_plain(count: Any) -> Any:
    seed, x, accepted, total = 42, 0.0, 0, 0.0
    for _ in range(count):
        seed = (seed * MULTIPLIER + INCREMENT) % MODULUS
        proposal = x + 2.0 * (seed / MODULUS) - 1.0
        seed = (seed * MULTIPLIER + INCREMENT) % MODULUS
        if seed / MODULUS < np.exp(0.5 * (x * x - proposal * proposal)):
            x = proposal
            accepted += 1
        total += x * x
    return accepted, total / count


@program(metropolis_plain, _size, small=100, large=100_000, tolerance=1e-9)
def metropolis(count: Any) -> Any:
    """Samples of a normal distribution: how many proposals were accepted, and the variance."""

    def uniform(seed: Any) -> Any:
        seed = (seed * MULTIPLIER + INCREMENT) % MODULUS
        return seed, seed / MODULUS

    def sample(_: Any, state: Any) -> Any:
        seed, x, accepted, total = state
        seed, step = uniform(seed)
        seed, chance = uniform(seed)
        proposal = x + 2.0 * step - 1.0
        accept = chance < np.exp(0.5 * (x * x - proposal * proposal))
        x = np.where(accept, proposal, x)
        return seed, x, accepted + accept, total + x * x

    _, _, accepted, total = lw.fori_loop(0, count, sample, (42, 0.0, 0, 0.0))
    return accepted, total / count


def euler_plain(count: Any) -> Any:
    x, y, z = 1.0, 1.0, 1.0
    for _ in range(count):
        x, y, z = (
            x + 1e-3 * 10.0 * (y - x),
            y + 1e-3 * (x * (28.0 - z) - y),
            z + 1e-3 * (x * y - 8.0 / 3.0 * z),
        )
    return x, y, z


@program(euler_plain, _size, small=50, large=10_000, tolerance=1e-2)
def euler(count: Any) -> Any:
    """Lorenz's equations by Euler's method; what differs by a rounding grows."""

    def step(_: Any, state: Any) -> Any:
        x, y, z = state
        return (
            x + 1e-3 * 10.0 * (y - x),
            y + 1e-3 * (x * (28.0 - z) - y),
            z + 1e-3 * (x * y - 8.0 / 3.0 * z),
        )

    return lw.fori_loop(0, count, step, (1.0, 1.0, 1.0))
