"""Iterations over vectors and matrices, until they converge."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np

from ..program import program

__all__: list[str] = []

CLOSE = 1e-10


def _symmetric(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    matrix = rng.random((size, size))
    return (matrix @ matrix.T, np.ones(size))


def power_iteration_plain(matrix: Any, start: Any) -> Any:
    vector, change = start / np.sqrt(np.sum(start * start)), 1.0
    while change > CLOSE:
        product = matrix @ vector
        product = product / np.sqrt(np.sum(product * product))
        change = np.max(np.abs(product - vector))
        vector = product
    return np.sum(vector * (matrix @ vector))


@program(power_iteration_plain, _symmetric, small=6, large=128, tolerance=1e-9, arrays=16_384)
def power_iteration(matrix: Any, start: Any) -> Any:
    """The largest eigenvalue."""

    def step(state: Any) -> Any:
        vector, _ = state
        product = matrix @ vector
        product = product / np.sqrt(np.sum(product * product))
        return product, np.max(np.abs(product - vector))

    vector, _ = lw.while_loop(
        lambda state: state[1] > CLOSE, step, (start / np.sqrt(np.sum(start * start)), 1.0)
    )
    return np.sum(vector * (matrix @ vector))


def _definite(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    matrix = rng.random((size, size))
    return matrix @ matrix.T + size * np.eye(size), rng.random(size)


def conjugate_gradients_plain(matrix: Any, b: Any) -> Any:
    x, residual, direction = np.zeros_like(b), b, b
    squared = np.sum(residual * residual)
    while squared > CLOSE * CLOSE:
        product = matrix @ direction
        step = squared / np.sum(direction * product)
        x = x + step * direction
        residual = residual - step * product
        previous, squared = squared, np.sum(residual * residual)
        direction = residual + squared / previous * direction
    return x


@program(conjugate_gradients_plain, _definite, small=6, large=128, tolerance=1e-9, arrays=16_384)
def conjugate_gradients(matrix: Any, b: Any) -> Any:
    """Solves a symmetric system by the method of conjugate gradients."""

    def improve(state: Any) -> Any:
        x, residual, direction, squared = state
        product = matrix @ direction
        step = squared / np.sum(direction * product)
        residual = residual - step * product
        following = np.sum(residual * residual)
        return x + step * direction, residual, residual + following / squared * direction, following

    start = np.zeros_like(b), b, b, np.sum(b * b)
    return lw.while_loop(lambda state: state[3] > CLOSE * CLOSE, improve, start)[0]


def _links(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    links = (rng.random((size, size)) < 0.1).astype(np.float64) + np.eye(size)
    return (links / links.sum(axis=0),)


def pagerank_plain(links: Any) -> Any:
    n = len(links)
    ranks, change = np.full(n, 1.0 / n), 1.0
    while change > CLOSE:
        following = 0.15 / n + 0.85 * (links @ ranks)
        change = np.sum(np.abs(following - ranks))
        ranks = following
    return ranks


@program(pagerank_plain, _links, small=8, large=256, tolerance=1e-9, arrays=65_536)
def pagerank(links: Any) -> Any:
    """Ranks of pages that link to each other."""
    n = len(links)

    def step(state: Any) -> Any:
        ranks, _ = state
        following = 0.15 / n + 0.85 * (links @ ranks)
        return following, np.sum(np.abs(following - ranks))

    return lw.while_loop(lambda state: state[1] > CLOSE, step, (np.full(n, 1.0 / n), 1.0))[0]


def _points(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    points = rng.normal(size=(size, 2)) + 6.0 * rng.integers(0, 3, (size, 1))
    return points, points[:4].copy()


def k_means_plain(points: Any, start: Any) -> Any:
    centres, moved = start, 1.0
    while moved > CLOSE:
        sums, counts = np.zeros_like(centres), np.zeros(len(centres))
        for p in range(len(points)):
            nearest, least = 0, np.inf
            for c in range(len(centres)):
                across, along = points[p, 0] - centres[c, 0], points[p, 1] - centres[c, 1]
                distance = across * across + along * along
                if distance < least:
                    nearest, least = c, distance
            sums[nearest, 0] += points[p, 0]
            sums[nearest, 1] += points[p, 1]
            counts[nearest] += 1
        following = centres.copy()
        for c in range(len(centres)):
            if counts[c] > 0:
                following[c] = sums[c] / counts[c]
        moved = np.max(np.abs(following - centres))
        centres = following
    return centres


@program(k_means_plain, _points, small=15, large=2000, tolerance=1e-9, arrays=8000)
def k_means(points: Any, start: Any) -> Any:
    """Centres of clusters, until they move no more."""
    numbers = np.arange(len(start))

    def step(state: Any) -> Any:
        centres, _ = state
        distances = np.sum((points[:, None] - centres[None]) ** 2, axis=2)
        member = (np.argmin(distances, axis=1)[:, None] == numbers).astype(np.float64)
        counts = np.sum(member, axis=0)[:, None]
        following = np.where(counts > 0, (member.T @ points) / np.maximum(counts, 1.0), centres)
        return following, np.max(np.abs(following - centres))

    return lw.while_loop(lambda state: state[1] > CLOSE, step, (start, 1.0))[0]


def _exponent(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    matrix = rng.random((8, 8))
    return matrix / np.abs(np.linalg.eigvals(matrix)).max(), size


def matrix_power_plain(matrix: Any, exponent: Any) -> Any:
    result = np.eye(len(matrix))
    while exponent > 0:
        if exponent % 2 == 1:
            result = result @ matrix
        matrix = matrix @ matrix
        exponent //= 2
    return result


@program(matrix_power_plain, _exponent, small=13, large=1_000_003, tolerance=1e-4, arrays=64)
def matrix_power(matrix: Any, exponent: Any) -> Any:
    """A power of a small matrix by repeated squaring; what is off by a rounding is squared."""

    def step(state: Any) -> Any:
        result, square, exponent = state
        result = lw.cond(exponent % 2 == 1, lambda: result @ square, lambda: result)
        return result, square @ square, exponent // 2

    return lw.while_loop(lambda s: s[2] > 0, step, (np.eye(len(matrix)), matrix, exponent))[0]


def _tridiagonal(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    lower, upper = rng.random(size), rng.random(size)
    return lower, 2.0 + rng.random(size), upper, rng.random(size)


def thomas_plain(lower: Any, diagonal: Any, upper: Any, right: Any) -> Any:
    n = len(right)
    ratios, values, x = np.zeros(n), np.zeros(n), np.zeros(n)
    ratio, value = 0.0, 0.0
    for i in range(n):
        pivot = diagonal[i] - lower[i] * ratio
        ratio, value = upper[i] / pivot, (right[i] - lower[i] * value) / pivot
        ratios[i], values[i] = ratio, value
    following = 0.0
    for i in range(n - 1, -1, -1):
        following = values[i] - ratios[i] * following
        x[i] = following
    return x


@program(thomas_plain, _tridiagonal, small=9, large=100_000, tolerance=1e-12)
def thomas(lower: Any, diagonal: Any, upper: Any, right: Any) -> Any:
    """Solves a tridiagonal system: a scan forward, and one back."""

    def eliminate(carry: Any, row: Any) -> Any:
        ratio, value = carry
        below, middle, above, b = row
        pivot = middle - below * ratio
        following = above / pivot, (b - below * value) / pivot
        return following, following

    def substitute(x: Any, row: Any) -> Any:
        ratio, value = row
        x = value - ratio * x
        return x, x

    _, rows = lw.scan(eliminate, (0.0, 0.0), (lower, diagonal, upper, right))
    return lw.scan(substitute, 0.0, rows, reverse=True)[1]


def _batches(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    samples = rng.normal(size=(size, 16, 12)).astype(np.float32)
    return samples, (samples[:, :, 0] + samples[:, :, 3] > 0.2).astype(np.float32)


RATE = np.float32(0.05)


def regression_plain(samples: Any, labels: Any) -> Any:
    weights = np.zeros(samples.shape[2], np.float32)
    for batch in range(len(samples)):
        gradient = np.zeros_like(weights)
        for s in range(samples.shape[1]):
            total = np.float32(0)
            for i in range(len(weights)):
                total += samples[batch, s, i] * weights[i]
            off = np.float32(1) / (np.float32(1) + np.exp(-total)) - labels[batch, s]
            for i in range(len(weights)):
                gradient[i] += samples[batch, s, i] * off
        for i in range(len(weights)):
            weights[i] -= RATE * gradient[i]
    return weights


@program(regression_plain, _batches, small=5, large=2000, tolerance=1e-4, arrays=192)
def regression(samples: Any, labels: Any) -> Any:
    """Logistic regression by stochastic gradient descent, a batch per iteration."""

    def step(weights: Any, batch: Any) -> Any:
        x, y = batch
        guess = 1 / (1 + np.exp(-(x @ weights)))
        return weights - RATE * ((guess - y) @ x), None

    return lw.scan(step, np.zeros(samples.shape[2], np.float32), (samples, labels))[0]
