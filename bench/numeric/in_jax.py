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


IN_JAX: dict[str, Callable[..., Any] | None] = {
    function.__name__: function for function in (bellman_ford, heat_equation, hough, pagerank)
}
"""By name; None for what JAX cannot express."""
