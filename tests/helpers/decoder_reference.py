"""Llama in float64, which keeps no cache."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["attention", "heads_of", "llama", "softmax"]

Array = np.ndarray[Any, Any]


def softmax(x: Array) -> Array:
    """Returns weights along the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q: Array, k: Array, v: Array) -> Array:
    """(heads, n, size) queries, (groups, n, size) keys and values -> (n, heads * size)."""
    n, parts = q.shape[1], []
    for number, query in enumerate(q):
        group = number * len(k) // len(q)
        scores = query @ k[group].T / np.sqrt(q.shape[2])
        parts.append(softmax(np.where(np.tri(n), scores, -np.inf)) @ v[group])
    return np.concatenate(parts, axis=1)


def heads_of(x: Array, size: int) -> Array:
    """Returns (n, heads * size) as (heads, n, size)."""
    return x.reshape(len(x), -1, size).swapaxes(0, 1)


def llama(
    w: dict[str, Array],
    sizes: Any,
    tokens: list[int],
    base: float = 10000.0,
    epsilon: float = 1e-5,
) -> Array:
    """Returns the scores of what follows the tokens."""

    def norm(x, name):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * w[f"{name}.weight"]

    def rotated(x):  # as complex numbers: pairs are the two halves of a head
        half = sizes.head // 2
        angles = np.outer(np.arange(len(tokens)), base ** (-np.arange(half) / half))
        z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)
        return np.concatenate([z.real, z.imag], axis=-1)

    x = w["model.embed_tokens.weight"][tokens]
    for layer in range(sizes.layers):
        p = {n: w[f"model.layers.{layer}.{n}.weight"].T for n in _PARTS}
        h = norm(x, f"model.layers.{layer}.input_layernorm")
        q, k, v = (heads_of(h @ p[f"self_attn.{n}_proj"], sizes.head) for n in "qkv")
        x = x + attention(rotated(q), rotated(k), v) @ p["self_attn.o_proj"]
        h = norm(x, f"model.layers.{layer}.post_attention_layernorm")
        gate = h @ p["mlp.gate_proj"]
        x = x + (gate / (1 + np.exp(-gate)) * (h @ p["mlp.up_proj"])) @ p["mlp.down_proj"]
    return norm(x, "model.norm")[-1] @ w["lm_head.weight"].T


_PARTS = [f"self_attn.{n}_proj" for n in "qkvo"] + [f"mlp.{n}_proj" for n in ("gate", "up", "down")]
