"""Attention of the domain ``com.microsoft``, which the optimisers of exporters write.

The meaning is that of ONNX Runtime's ``ContribOperators.md`` and, where that is silent, of its CPU
kernels. Buffers that a past and a present state share, and beams, are not supported.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir.errors import LoopwrightValueError, UnsupportedError
from ... import nn
from ...nn.attention import attend
from ...numpy.creation import arange
from .attention import heads_of, joined_heads, visible
from .indexing import gathered
from .quantised import dequantised
from .table import Node, Value, converter, is_known, known_ints

Ints = tuple[int, ...]

_DOMAIN = "com.microsoft"


# rotary_embedding_dim: of do_rotary only, which is refused.
@converter("Attention", since=1, domain=_DOMAIN, ignores=("rotary_embedding_dim",))
def _attention(
    node: Node,
    x: Value,
    weights: Value,
    bias: Value = None,
    mask: Value = None,
    past: Value = None,
    added: Value = None,
    *,
    num_heads: int,
    unidirectional: int = 0,
    qkv_hidden_sizes: Ints | None = None,
    scale: float = 0.0,
    mask_filter_value: float = -10000.0,
    past_present_share_buffer: int = 0,
    do_rotary: int = 0,
) -> Value:
    if do_rotary or past_present_share_buffer:
        raise UnsupportedError("rotary embeddings and shared buffers inside it are not supported")
    projected = np.matmul(x, weights)
    projected = projected if bias is None else projected + bias
    sizes = qkv_hidden_sizes or (weights.shape[1] // 3,) * 3
    parts = np.split(projected, [sizes[0], sizes[0] + sizes[1]], -1)
    q, k, v = (heads_of(each, num_heads) for each in parts)
    if past is not None:
        k, v = np.concatenate((past[0], k), 2), np.concatenate((past[1], v), 2)
    y = _attended(q, k, v, mask, added, unidirectional, scale, mask_filter_value)
    return (y, np.stack((k, v))) if node.wants(1) else y


@converter("QAttention", since=1, domain=_DOMAIN, options_of=_attention)
def _quantised_attention(
    node: Node,
    x: Value,
    weights: Value,
    bias: Value,
    x_scale: Value,
    scales: Value,
    mask: Value = None,
    x_zero: Value = None,
    zeros: Value = None,
    past: Value = None,
    **options: Any,
) -> Value:
    x, weights = dequantised(x, x_scale, x_zero), dequantised(weights, scales, zeros)
    return _attention(node, x, weights, bias, mask, past, **options)


@converter("MultiHeadAttention", since=1, domain=_DOMAIN)
def _multi_head_attention(
    node: Node,
    q: Value,
    k: Value = None,
    v: Value = None,
    bias: Value = None,
    mask: Value = None,
    added: Value = None,
    past_key: Value = None,
    past_value: Value = None,
    *,
    num_heads: int,
    unidirectional: int = 0,
    scale: float = 0.0,
    mask_filter_value: float = -10000.0,
) -> Value:
    if node.wants(3):
        raise UnsupportedError("its output qk is not supported")
    if q.ndim == 5:
        q, k, v = _unpacked(q)
    elif k is not None and k.ndim == 5:
        k, v = _unpacked(k)
    elif k is None:
        raise LoopwrightValueError("its keys are missing")
    if bias is not None:
        if k.ndim != q.ndim:
            raise UnsupportedError("a bias of keys that are given by heads is not supported")
        biases = np.split(bias, [q.shape[-1], q.shape[-1] + k.shape[-1]])
        q, k, v = (each + its for each, its in zip((q, k, v), biases, strict=True))
    q, k, v = (heads_of(each, num_heads) for each in (q, k, v))
    if past_key is not None:
        k, v = np.concatenate((past_key, k), 2), np.concatenate((past_value, v), 2)
    return _attended(q, k, v, mask, added, unidirectional, scale, mask_filter_value), k, v


def _unpacked(x: Value) -> list[Value]:
    """Returns adjacent heads, (batch, length, heads, 2 or 3, size), one by one."""
    return [np.swapaxes(x[:, :, :, n], 1, 2) for n in range(x.shape[3])]


def _attended(
    q: Value,
    k: Value,
    v: Value,
    mask: Value,
    added: Value,
    unidirectional: int,
    scale: float,
    masked: float,
) -> Value:
    """Returns (batch, length, heads * size) of attention of heads, (batch, heads, length, size).

    Scores of keys that ``mask`` hides get ``masked`` added, so that a query that sees none looks
    at all; the later keys, of ``unidirectional``, are never seen.
    """
    batch, _, length, _ = q.shape
    whole = k.shape[2]
    if mask is not None:
        hidden = _mask(mask, batch, whole, masked, q.dtype)
        added = hidden if added is None else hidden + added
    seen = visible(length, whole, whole - length, unidirectional, -1, -1)
    return joined_heads(attend(q, k, v, seen, added, scale or None).result)


def _mask(mask: Value, n: int, length: int, masked: float, dtype: np.dtype[Any]) -> Value:
    """Returns what is added to scores: ``masked`` where a token is not to be seen."""
    if mask.ndim == 1:  # how many tokens of each row are real, and where they begin
        positions = arange(length)
        real = positions < mask[:n, None]
        if mask.shape[0] == 2 * n:
            real = real & (positions >= mask[n:, None])
        elif mask.shape[0] != n:
            raise UnsupportedError(f"a mask of {mask.shape[0]} integers for {n} rows")
        seen = real[:, None, None, :]
    elif mask.ndim == 2:
        seen = (mask != 0)[:, None, None, :]
    elif mask.ndim == 3:
        seen = (mask != 0)[:, None]
    else:
        raise UnsupportedError(f"a mask of {mask.ndim} axes is not supported")
    return np.where(seen, dtype.type(0), dtype.type(masked))


@converter("GroupQueryAttention", since=1, domain=_DOMAIN)
def _group_query_attention(
    node: Node,
    q: Value,
    k: Value = None,
    v: Value = None,
    past_key: Value = None,
    past_value: Value = None,
    last: Value = None,
    total: Value = None,
    cosines: Value = None,
    sines: Value = None,
    positions: Value = None,
    added: Value = None,
    sink: Value = None,
    *,
    num_heads: int,
    kv_num_heads: int,
    scale: float = 0.0,
    softcap: float = 0.0,
    causal: int = 1,
    local_window_size: int = -1,
    do_rotary: int = 0,
    rotary_interleaved: int = 0,
    smooth_softmax: int = 0,
) -> Value:
    if node.wants(3):
        raise UnsupportedError("its output output_qk is not supported")
    if k is None:
        width = q.shape[-1] // (num_heads + 2 * kv_num_heads)
        q, k, v = np.split(q, [num_heads * width, (num_heads + kv_num_heads) * width], -1)
    q, k, v = heads_of(q, num_heads), heads_of(k, kv_num_heads), heads_of(v, kv_num_heads)
    length = q.shape[2]
    # A first step writes from the start, whatever of its rows is padding.
    before = np.maximum(np.reshape(last, -1) + 1 - length, 0)
    if do_rotary:
        if positions is None:
            positions = before[:, None] + arange(length)
        cos, sin = (gathered(each, positions)[:, None] for each in (cosines, sines))
        dim = 2 * cosines.shape[-1]
        q, k = (nn.rotary_embedding(x, cos, sin, bool(rotary_interleaved), dim) for x in (q, k))
    if past_key is not None:
        k, v = (_appended(*each, total, before) for each in ((past_key, k), (past_value, v)))
    keys = k.shape[2]
    first = before[:, None, None, None]
    if causal:
        seen = visible(length, keys, first, causal, local_window_size - 1, -1)
    else:
        seen = arange(keys) < first + length
    if added is not None and added.shape[-1] != keys:  # there is room for more
        added = np.pad(added, [(0, 0)] * 3 + [(0, keys - added.shape[-1])])
    states = (k, v)
    if smooth_softmax or sink is not None:
        # A key of zeros, which all see: its score is the sink, and it adds nothing.
        k, v = (np.pad(each, [(0, 0), (0, 0), (0, 1), (0, 0)]) for each in states)
        seen = np.pad(seen, [(0, 0), (0, 0), (0, 0), (0, 1)], constant_values=True)
        added = np.zeros((1, 1, 1, keys), q.dtype) if added is None else added
        level = np.zeros((1, 1, 1), q.dtype) if sink is None else sink[:, None, None]
        shape = (added.shape[0], num_heads, added.shape[2])
        both = (np.broadcast_to(each, (*shape, each.shape[-1])) for each in (added, level))
        added = np.concatenate(list(both), -1)
    y = attend(q, k, v, seen, added, scale or None, softcap).result
    return joined_heads(y), *states


def _appended(past: Value, new: Value, total: Value, before: Value) -> Value:
    """Returns (batch, heads, keys, size) of a state with new rows behind the first ``before``.

    It has as many rows as the past, if the model says that there is room for ``total`` in it, else
    as many as both, which ``total`` is then.
    """
    room, length = past.shape[2], new.shape[2]
    fits = is_known(total) and type(room) is int and known_ints(total, "total")[0] <= room
    keys = room if fits else room + length
    rows = arange(keys) - before[:, None]  # (batch, keys): which new row stands there
    is_new = np.logical_and(rows >= 0, rows < length)[:, None, :, None]
    taken = np.take_along_axis(new, np.clip(rows, 0, length - 1)[:, None, :, None], 2)
    return np.where(is_new, taken, np.pad(past, [(0, 0), (0, 0), (0, keys - room), (0, 0)]))


@converter("RotaryEmbedding", since=1, domain=_DOMAIN, ignores=("is_packed_batching",))
def _rotary_embedding(
    x: Value,
    positions: Value,
    cosines: Value,
    sines: Value,
    *,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    interleaved: int = 0,
    scale: float = 1.0,
) -> Value:
    if scale != 1:
        raise UnsupportedError(f"its scale {scale} is not supported")
    rotated = rotary_embedding_dim or 2 * cosines.shape[-1]
    flat = x.ndim == 3
    count = num_heads or (x.shape[-1] // rotated if flat else 0)
    x = heads_of(x, count)
    if positions.ndim == 1:  # the first one of all rows
        positions = np.reshape(positions, (1, 1)) + arange(x.shape[2])
    cos, sin = (gathered(each, positions)[:, None] for each in (cosines, sines))
    y = nn.rotary_embedding(x, cos, sin, bool(interleaved), rotated)
    return joined_heads(y) if flat else y
