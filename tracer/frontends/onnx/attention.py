"""Converters of attention and of rotary positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir.errors import LoopwrightValueError
from ... import nn
from ...nn.attention import attend
from ...numpy.creation import arange
from .indexing import gathered
from .table import Node, Value, converter


def heads_of(x: Value, count: int | None) -> Value:
    """Returns (batch, length, heads * size) as (batch, heads, length, size)."""
    if x.ndim == 4:
        return x
    if not count or x.shape[-1] % count:
        raise LoopwrightValueError(f"{x.shape[-1]} elements do not divide into {count} heads")
    batch, length, width = x.shape
    return np.transpose(np.reshape(x, (batch, length, count, width // count)), (0, 2, 1, 3))


def joined_heads(x: Value) -> Value:
    """Returns (batch, heads, length, size) as (batch, length, heads * size)."""
    batch, heads, length, size = x.shape
    return np.reshape(np.transpose(x, (0, 2, 1, 3)), (batch, length, heads * size))


def _both(left: Value, right: Value) -> Value:
    """Returns where both masks allow a key; None is a mask that allows all."""
    if left is None or right is None:
        return right if left is None else left
    return np.logical_and(left, right)


def visible(queries: int, keys: int, offset: Value, is_causal: int, left: int, right: int) -> Value:
    """Returns which keys a query sees, by its place: ``offset`` + its index; None: all.

    ``offset`` is an int, or one per batch, (batch, 1, 1, 1).
    """
    bounds = [(-left if left >= 0 else None), (right if right >= 0 else None)]
    if is_causal:
        bounds[1] = 0 if bounds[1] is None else min(0, bounds[1])
    # How far a key stands in front of the place of a query.
    ahead = arange(keys)[None, :] - arange(queries)[:, None] - offset
    seen = None
    if bounds[0] is not None:
        seen = ahead >= bounds[0]
    if bounds[1] is not None:
        seen = _both(seen, ahead <= bounds[1])
    return seen


# softmax_precision: a lower bound, which float32 meets.
@converter("Attention", since=23, ignores=("softmax_precision",))
def _attention(
    node: Node,
    q: Value,
    k: Value,
    v: Value,
    attn_mask: Value = None,
    past_key: Value = None,
    past_value: Value = None,
    nonpad_kv_seqlen: Value = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
) -> Any:
    flat = q.ndim == 3
    q, k, v = heads_of(q, q_num_heads), heads_of(k, kv_num_heads), heads_of(v, kv_num_heads)
    offset: Value = 0
    if past_key is not None:
        offset = past_key.shape[2]
        k, v = np.concatenate([past_key, k], axis=2), np.concatenate([past_value, v], axis=2)
    queries, keys = q.shape[2], k.shape[2]
    allowed = None
    if nonpad_kv_seqlen is not None:
        count = np.reshape(nonpad_kv_seqlen, (-1, 1, 1, 1))
        offset = count - queries
        allowed = np.less(arange(keys), count)
    seen = visible(queries, keys, offset, is_causal, left_window_size, right_window_size)
    allowed = _both(allowed, seen)
    bias = None
    if attn_mask is not None:
        is_bool = attn_mask.dtype == np.bool_
        missing = keys - attn_mask.shape[-1]
        if missing > 0:
            widths = [(0, 0)] * (attn_mask.ndim - 1) + [(0, missing)]
            outside = False if is_bool else -np.inf
            attn_mask = np.pad(attn_mask, widths, constant_values=outside)
        if is_bool:
            allowed = _both(allowed, attn_mask)
        else:
            bias = attn_mask.astype(q.dtype)
    parts = attend(q, k, v, allowed, bias, scale, softcap)
    modes = (parts.scores, parts.capped, parts.masked, parts.weights)
    result = joined_heads(parts.result) if flat else parts.result
    intermediate = modes[qk_matmul_output_mode] if node.wants(3) else None
    return result, k, v, intermediate


@converter("RotaryEmbedding", since=23)
def _rotary_embedding(
    x: Value,
    cos_cache: Value,
    sin_cache: Value,
    position_ids: Value = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Value:
    flat = x.ndim == 3
    x = heads_of(x, num_heads)
    if position_ids is not None:
        cos_cache, sin_cache = (gathered(t, position_ids) for t in (cos_cache, sin_cache))
    half = (rotary_embedding_dim or x.shape[-1]) // 2
    cosines, sines = (np.expand_dims(t[..., :half], 1) for t in (cos_cache, sin_cache))
    rotated = nn.rotary_embedding(x, cosines, sines, bool(interleaved), rotary_embedding_dim)
    return joined_heads(rotated) if flat else rotated
