"""Programs as users of JAX write them, where that differs from ours. Imported in JAX's process
only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

__all__ = ["IN_JAX"]


def bellman_ford(source: Any, target: Any, length: Any, start: Any) -> Any:
    def relax(state: Any) -> Any:
        distance, _, rounds = state
        shorter = distance.at[target].min(distance[source] + length)
        return shorter, (shorter < distance).any(), rounds + 1

    distance, _, rounds = lax.while_loop(lambda s: s[1], relax, (start, True, 0))
    return distance, rounds


def bootstrap(x: Any, y: Any, chosen: Any) -> Any:
    def correlation(x: Any, y: Any) -> Any:
        x, y = x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True)
        return (x * y).sum(axis=-1) / jnp.sqrt((x**2).sum(axis=-1) * (y**2).sum(axis=-1))

    samples = correlation(x[chosen], y[chosen])
    return correlation(x, y), jnp.percentile(samples, jnp.array([2.5, 97.5]))


def convolution(images: Any, filters: Any) -> Any:
    order = ("NHWC", "HWIO", "NHWC")
    features = lax.conv_general_dilated(images, filters, (1, 1), "VALID", dimension_numbers=order)
    n, h, w, d = features.shape
    return jnp.maximum(features, 0).reshape(n, h // 2, 2, w // 2, 2, d).max(axis=(2, 4))


def equalisation(image: Any) -> Any:
    counts = jnp.bincount(image.ravel(), length=256)
    levels = jnp.round(255 * (jnp.cumsum(counts) / image.size)).astype(jnp.uint8)
    return levels[image]


def heat_equation(u: Any) -> Any:
    def step(_: Any, u: Any) -> Any:
        inner = u[1:-1, 1:-1]
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return u.at[1:-1, 1:-1].set(inner + 0.2 * (around - 4 * inner))

    return lax.fori_loop(0, 200, step, u)


def hough(x: Any, y: Any, angles: Any) -> Any:
    distances = jnp.outer(jnp.cos(angles), x) + jnp.outer(jnp.sin(angles), y)
    distances = jnp.round(distances).astype(int)
    votes = jnp.zeros((len(angles), 401), jnp.int64)
    return votes.at[jnp.arange(len(angles))[:, None], distances + 200].add(1)


def pagerank(source: Any, target: Any, start: Any) -> Any:
    n = len(start)
    out = jnp.zeros(n).at[source].add(1.0)

    def step(_: Any, ranks: Any) -> Any:
        following = jnp.zeros(n).at[target].add((ranks / jnp.maximum(out, 1))[source])
        lost = jnp.where(out == 0, ranks, 0).sum()
        return 0.15 / n + 0.85 * (following + lost / n)

    return lax.fori_loop(0, 50, step, start)


def permutation_test(values: Any, count: Any, orders: Any) -> Any:
    first = jnp.arange(len(values)) < count

    def difference(values: Any) -> Any:
        a = jnp.where(first, values, jnp.nan)
        b = jnp.where(first, jnp.nan, values)
        return jnp.nanmedian(a, axis=-1) - jnp.nanmedian(b, axis=-1)

    seen = difference(values)
    shuffled = jnp.abs(difference(values[orders]))
    return seen, (shuffled >= jnp.abs(seen)).mean(dtype=float)


def welch(signal: Any) -> Any:
    size, rate = 256, 1000
    taper = jnp.hanning(size)
    starts = jnp.arange(0, len(signal) - size + 1, size // 2)
    windows = signal[starts[:, None] + jnp.arange(size)]
    windows = windows - windows.mean(axis=1, keepdims=True)
    spectra = jnp.fft.rfft(windows * taper, axis=1)
    return (jnp.abs(spectra) ** 2).mean(axis=0) / (rate * (taper**2).sum())


_FUNCTIONS: tuple[Callable[..., Any], ...] = (
    *(bellman_ford, bootstrap, convolution, equalisation, heat_equation, hough),
    *(pagerank, permutation_test, welch),
)
IN_JAX: dict[str, Callable[..., Any] | None] = {f.__name__: f for f in _FUNCTIONS}
"""By name; None for what JAX cannot express."""
