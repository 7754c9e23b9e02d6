"""Attention, written so that the compiler makes one kernel of it, and rotary positions."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...ir.dtype import float_for
from ...ir.errors import LoopwrightTypeError
from ..core.argument_conversion import by_numpy, checked
from ..core.emitting import common_dtype
from ..core.proxy import Proxy
from .apply import apply


class Attended(NamedTuple):
    """The result of attention, and what it is computed from, (..., heads, queries, keys)."""

    result: Any
    scores: Any
    capped: Any
    masked: Any
    weights: Any


@checked
def scaled_dot_product_attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    *,
    causal: bool = False,
    scale: float | None = None,
    softcap: float = 0.0,
) -> Any:
    """``softmax(q @ k.T * scale + mask) @ v`` for each head.

    ``q`` is ``(..., heads, queries, size)``, ``k`` is ``(..., heads, keys, size)`` and ``v`` is
    ``(..., heads, keys, values)``; ``k`` and ``v`` may have fewer heads, each of which then serves
    as many neighbouring heads of ``q`` (grouped queries). ``mask`` broadcasts to
    ``(..., heads, queries, keys)``: bool, True where a query may see a key, or floats, which are
    added. ``causal`` lets query ``i`` see the keys up to ``i``. ``scale`` is ``1 / sqrt(size)`` by
    default. ``softcap``, unless it is 0, bounds scores: ``softcap * tanh(score / softcap)``. The
    result, ``(..., heads, queries, values)``, is zero for a query that sees no key. Vaswani and
    others, "Attention Is All You Need" (2017). Raises LoopwrightTypeError where shapes do not fit.

    >>> import numpy as np
    >>> from loopwright import nn
    >>> q, v = np.float32([[[2, 0], [0, 2]]]), np.float32([[[1], [5]]])
    >>> np.round(nn.scaled_dot_product_attention(q, q, v, causal=True), 1).tolist()
    [[[1.0], [4.800000190734863]]]
    """
    dtype = float_for(common_dtype(q, k, v)).numpy
    q, k, v = (_as(each, dtype) for each in (q, k, v))
    allowed = None
    if causal:
        allowed = np.tri(np.shape(q)[-2], np.shape(k)[-2], dtype=bool)
    bias = None
    if mask is not None and _dtype(mask) == np.bool_:
        allowed = mask if allowed is None else np.logical_and(mask, allowed)
    elif mask is not None:
        bias = _as(mask, dtype)
    return attend(q, k, v, allowed, bias, scale, softcap).result


def _dtype(value: Any) -> Any:
    return value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype


def _as(value: Any, dtype: Any) -> Any:
    return value.astype(dtype) if type(value) is Proxy else np.asarray(value, dtype)


def attend(
    q: Any,
    k: Any,
    v: Any,
    allowed: Any = None,
    bias: Any = None,
    scale: float | None = None,
    softcap: float = 0.0,
) -> Attended:
    """Returns attention and its parts; ``allowed`` are bools, ``bias`` floats, as in a mask."""
    ranks = {np.ndim(each) for each in (q, k, v)}
    if len(ranks) != 1 or min(ranks) < 2:
        raise LoopwrightTypeError(
            "scaled_dot_product_attention: q, k and v have different ranks, "
            f"{tuple(np.shape(q))}, {tuple(np.shape(k))} and {tuple(np.shape(v))}"
        )
    pairs = ((np.shape(q)[-1], np.shape(k)[-1]), (np.shape(k)[-2], np.shape(v)[-2]))
    if any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs):
        raise LoopwrightTypeError(
            "scaled_dot_product_attention: q and k have vectors of one size, and k and v as many "
            f"keys, not {tuple(np.shape(q))}, {tuple(np.shape(k))} and {tuple(np.shape(v))}"
        )
    factor = 1 / math.sqrt(np.shape(q)[-1]) if scale is None else scale
    heads, groups = (np.shape(q)[-3], np.shape(k)[-3]) if min(ranks) > 2 else (1, 1)
    grouped = heads != groups
    if grouped:
        if not groups or heads % groups:
            raise LoopwrightTypeError(
                f"scaled_dot_product_attention: {heads} heads of q for {groups} of k"
            )
        q = _split_heads(q, groups)
        k, v = np.expand_dims(k, -3), np.expand_dims(v, -3)
        allowed, bias = _split_mask(allowed, heads, groups), _split_mask(bias, heads, groups)
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * q.dtype.type(factor)
    capped = scores
    if softcap:
        cap = q.dtype.type(softcap)
        capped = np.tanh(scores / cap) * cap
    masked = capped if bias is None else capped + bias
    if allowed is not None:
        masked = np.where(allowed, masked, q.dtype.type(-np.inf))
    weights = apply("nn.softmax", masked, axis=-1)
    result = np.matmul(weights, v)
    sees = _sees(allowed, bias)
    if sees is not None:
        weights = np.where(sees, weights, q.dtype.type(0))
        result = np.where(sees, result, q.dtype.type(0))
    parts = (result, scores, capped, masked, weights)
    return Attended(*(_join_heads(part) if grouped else part for part in parts))


def _sees(allowed: Any, bias: Any) -> Any:
    """Returns True for each query that sees a key; None if all are known to."""
    seen = allowed
    if bias is not None:
        finite = np.greater(bias, bias.dtype.type(-np.inf))
        seen = finite if seen is None else np.logical_and(seen, finite)
    if seen is None:
        return None
    some = np.any(seen, axis=-1, keepdims=True)
    return None if type(some) is not Proxy and np.all(some) else some


def _split_heads(x: Any, groups: int) -> Any:
    *batch, heads, length, size = x.shape
    return np.reshape(x, (*batch, groups, heads // groups, length, size))


def _split_mask(mask: Any, heads: int, groups: int) -> Any:
    if mask is None or np.ndim(mask) < 3:
        return mask
    return _split_heads(mask, groups) if mask.shape[-3] == heads else np.expand_dims(mask, -3)


def _join_heads(x: Any) -> Any:
    *batch, groups, each, length, size = x.shape
    return np.reshape(x, (*batch, groups * each, length, size))


@checked
def rotary_embedding(
    x: Any, cosines: Any, sines: Any, interleaved: bool = False, rotary_dim: int = 0
) -> Any:
    """Rotates pairs of elements of the last axis by angles that depend on the position.

    ``cosines`` and ``sines`` broadcast to half of the rotated elements, the first ``rotary_dim``
    (0: all) of the last axis of ``x``. A pair is element ``i`` of each half, or, ``interleaved``,
    two neighbours. Su and others, "RoFormer" (2021).

    >>> import numpy as np
    >>> from loopwright import nn
    >>> nn.rotary_embedding(np.float32([[1, 2, 3, 4]]), np.zeros(2), np.ones(2)).tolist()
    [[-3.0, -4.0, 1.0, 2.0]]
    """
    dtype = float_for(common_dtype(x)).numpy
    x, cosines, sines = (_as(each, dtype) for each in (x, cosines, sines))
    size = np.shape(x)[-1] if np.ndim(x) else 0
    rotated = rotary_dim or size
    if rotated > size or rotated < 2 or rotated % 2:
        raise LoopwrightTypeError(f"rotary_embedding: {rotated} of {size} elements are not pairs")
    head, tail = x[..., :rotated], x[..., rotated:]
    half = rotated // 2
    first, second = (
        (head[..., 0::2], head[..., 1::2]) if interleaved else (head[..., :half], head[..., half:])
    )
    real, imaginary = by_numpy(
        lambda: (first * cosines - second * sines, first * sines + second * cosines)
    )
    if interleaved:
        head = np.reshape(np.stack([real, imaginary], axis=-1), (*real.shape[:-1], rotated))
    else:
        head = np.concatenate([real, imaginary], axis=-1)
    return head if rotated == size else np.concatenate([head, tail], axis=-1)
