"""Programs as users of JAX write them, where that differs from ours: pure, or vectorised.

``None`` stands for recursion, which JAX does not have. Imported in JAX's process only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .program import PROGRAMS

__all__ = ["IN_JAX"]


def mandelbrot(xs: Any, ys: Any) -> Any:
    def escape(x: Any, y: Any) -> Any:
        def inside(state: Any) -> Any:
            real, imaginary, count = state
            return (real * real + imaginary * imaginary < 4.0) & (count < 100)

        def step(state: Any) -> Any:
            real, imaginary, count = state
            following = real * real - imaginary * imaginary + x
            return following, 2.0 * real * imaginary + y, count + 1

        return lax.while_loop(inside, step, (0.0, 0.0, 0))[2]

    return jax.vmap(lambda y: jax.vmap(lambda x: escape(x, y))(xs))(ys)


def binary_search(values: Any, keys: Any) -> Any:
    def place(key: Any) -> Any:
        def halve(interval: Any) -> Any:
            low, high = interval
            middle = (low + high) // 2
            right = values[middle] < key
            return jnp.where(right, middle + 1, low), jnp.where(right, high, middle)

        return lax.while_loop(lambda s: s[0] < s[1], halve, (0, len(values)))[0]

    return jax.vmap(place)(keys)


def factorial(count: Any) -> Any:
    def add(i: Any, total: Any) -> Any:
        return total + lax.fori_loop(1, i % 15 + 1, lambda k, product: product * k, 1)

    return lax.fori_loop(0, count, add, 0)


def parity(count: Any) -> Any:
    def is_even(n: Any) -> Any:
        step = lambda s: (s[0] - 1, ~s[1])  # noqa: E731
        return lax.while_loop(lambda s: s[0] != 0, step, (n, jnp.array(True)))[1]

    return lax.fori_loop(0, count, lambda i, total: total + is_even(i), 0)


def beam_search(step: Any, empty: Any) -> Any:
    words, beams = len(step), 4

    def extend(t: Any, state: Any) -> Any:
        lines, scores, last = state
        scores, best = lax.top_k((scores[:, None] + step[last]).reshape(-1), beams)
        best = best.astype(jnp.int64)
        lines = lines[best // words].at[:, t].set(best % words)
        return lines, scores, best % words

    start = jnp.array([0.0] + [-jnp.inf] * (beams - 1))
    lines = jnp.zeros((beams, len(empty)), jnp.int64)
    state = lines, start, jnp.zeros(beams, jnp.int64)
    return lax.fori_loop(0, len(empty), extend, state)[:2]


def breadth_first(walls: Any) -> Any:
    n = len(walls)

    def visit(state: Any) -> Any:
        distance, queue, head, tail = state
        i, j = queue[head]
        for di, dj in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            y, x = i + di, j + dj
            inside = (y >= 0) & (y < n) & (x >= 0) & (x < n)
            new = inside & ~walls[y, x] & (distance[y, x] < 0)
            row = jnp.where(new, y, n)  # what is out of range is dropped
            distance = distance.at[row, x].set(distance[i, j] + 1, mode="drop")
            queue = queue.at[jnp.where(new, tail, n * n)].set(jnp.stack([y, x]), mode="drop")
            tail = tail + new
        return distance, queue, head + 1, tail

    distance = jnp.full((n, n), -1).at[0, 0].set(0)
    start = distance, jnp.zeros((n * n, 2), jnp.int64), 0, 1
    return lax.while_loop(lambda state: state[2] < state[3], visit, start)[0]


def partition(values: Any) -> Any:
    pivot = values[-1]

    def swapped(values: Any, i: Any, j: Any) -> Any:
        at_i, at_j = values[i], values[j]
        return values.at[i].set(at_j).at[j].set(at_i)

    def step(j: Any, state: Any) -> Any:
        values, place = state
        smaller = values[j] < pivot
        return swapped(values, jnp.where(smaller, place, j), j), place + smaller

    values, place = lax.fori_loop(0, len(values) - 1, step, (values, 0))
    return swapped(values, place, len(values) - 1), place


def insertion_sort(values: Any) -> Any:
    def insert(i: Any, values: Any) -> Any:
        value = values[i]

        def higher(state: Any) -> Any:
            values, j = state
            return (j > 0) & (values[j - 1] > value)

        def shift(state: Any) -> Any:
            values, j = state
            return values.at[j].set(values[j - 1]), j - 1

        values, j = lax.while_loop(higher, shift, (values, i))
        return values.at[j].set(value)

    return lax.fori_loop(1, len(values), insert, values)


def sieve(flags: Any) -> Any:
    n = len(flags)

    def strike(state: Any) -> Any:
        p, flags = state

        def multiple(q: Any, flags: Any) -> Any:
            return flags.at[q * p].set(False)

        last = jnp.where(flags[p], (n + p - 1) // p, p)
        return p + 1, lax.fori_loop(p, last, multiple, flags)

    _, flags = lax.while_loop(lambda state: state[0] * state[0] < n, strike, (2, flags))
    return jnp.sum(flags[2:])


def histogram(buckets: Any, weights: Any) -> Any:
    return jnp.zeros(64).at[buckets].add(weights)


def heat(plate: Any, steps: Any) -> Any:
    def step(_: Any, plate: Any) -> Any:
        around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
        return plate.at[1:-1, 1:-1].add(0.2 * (around - 4.0 * plate[1:-1, 1:-1]))

    return lax.fori_loop(0, steps, step, plate)


def decode(embedding: Any, along: Any, out: Any, empty: Any) -> Any:
    def going(state: Any) -> Any:
        letters, _, letter, count = state
        return (letter != 0) & (count < len(letters))

    def step(state: Any) -> Any:
        letters, hidden, letter, count = state
        hidden = jnp.tanh(embedding[letter] + hidden @ along)
        letter = jnp.argmax(hidden @ out)
        return letters.at[count].set(letter), hidden, letter, count + 1

    start = empty, jnp.zeros(len(along), jnp.float32), 1, 0
    letters, _, _, count = lax.while_loop(going, step, start)
    return letters, count


IN_JAX: dict[str, Callable[..., Any] | None] = {
    **{name: globals()[name] for name in PROGRAMS if callable(globals().get(name))},
    **dict.fromkeys(("fibonacci", "ackermann", "tree_sum", "simpson")),
}
"""Programs that differ from ours, by name."""
