"""Attention as models have it: packed projections, masks in every spelling, rotary embedding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..workload import Input
from .program import program

__all__: list[str] = []

_HEADS, _LENGTH, _DEPTH = 12, 128, 64
_WIDTH = _HEADS * _DEPTH
_LONG = (8, 512, 64)
_ATTENTION = 4 * 12 * 128 * 128 * 64
_CAUSAL = 2 * 8 * 512 * 512 * 64  # only half of the scores count
_EXACT = {"reduction": 64, "scale": 1.0}


def _softmax(scores: Any) -> Any:
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _weight(*shape: int) -> Input:
    return Input(shape, constant=True)


@program((12, 128, 64), flops=_ATTENTION, **_EXACT, qkv=(3, 12, 128, 64))
def attention_stacked(qkv: Any) -> Any:
    q, k, v = qkv
    return _softmax(q @ k.transpose(0, 2, 1) / math.sqrt(_DEPTH)) @ v


@program((1, 128, _WIDTH), flops=_ATTENTION, **_EXACT, qkv=(1, 128, 3 * _WIDTH))
def attention_packed(qkv: Any) -> Any:
    batch, length, _ = qkv.shape
    parts = qkv.reshape(batch, length, 3, _HEADS, _DEPTH).transpose(2, 0, 3, 1, 4)
    q, k, v = parts[0], parts[1], parts[2]
    out = _softmax(q @ k.swapaxes(-1, -2) * _DEPTH**-0.5) @ v
    return out.transpose(0, 2, 1, 3).reshape(batch, length, _WIDTH)


@program((1, 128, _WIDTH), flops=_ATTENTION, **_EXACT, qkv=(1, 128, 3 * _WIDTH))
def attention_split(qkv: Any) -> Any:
    q, k, v = (
        part.reshape(1, 128, _HEADS, _DEPTH).transpose(0, 2, 1, 3)
        for part in np.split(qkv, 3, axis=-1)
    )
    out = _softmax(np.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(_DEPTH))
    return np.einsum("bhqk,bhkd->bqhd", out, v).reshape(1, 128, _WIDTH)


@program(
    (128, _WIDTH),
    flops=_ATTENTION + 2 * 128 * _WIDTH * 4 * _WIDTH,
    reduction=_WIDTH,
    scale=30.0,
    x=(128, _WIDTH),
    w=_weight(_WIDTH, 3 * _WIDTH),
    b=_weight(3 * _WIDTH),
    wo=_weight(_WIDTH, _WIDTH),
)
def self_attention(x: Any, w: Any, b: Any, wo: Any) -> Any:
    qkv = (x @ (w / 28) + b).reshape(128, 3, _HEADS, _DEPTH).transpose(1, 2, 0, 3)
    q, k, v = qkv[0], qkv[1], qkv[2]
    out = _softmax(q @ k.transpose(0, 2, 1) / math.sqrt(_DEPTH)) @ v
    return out.transpose(1, 0, 2).reshape(128, _WIDTH) @ wo


def _layer_norm(x: Any, g: Any, b: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5) * g + b


@program(
    (128, _WIDTH),
    flops=_ATTENTION + 2 * 128 * _WIDTH * 12 * _WIDTH,
    reduction=4 * _WIDTH,
    scale=30.0,
    x=(128, _WIDTH),
    g1=_weight(_WIDTH),
    b1=_weight(_WIDTH),
    wqkv=_weight(_WIDTH, 3 * _WIDTH),
    wo=_weight(_WIDTH, _WIDTH),
    g2=_weight(_WIDTH),
    b2=_weight(_WIDTH),
    wi=_weight(_WIDTH, 4 * _WIDTH),
    wd=_weight(4 * _WIDTH, _WIDTH),
)
def gpt2_block(
    x: Any, g1: Any, b1: Any, wqkv: Any, wo: Any, g2: Any, b2: Any, wi: Any, wd: Any
) -> Any:
    n = x.shape[0]
    qkv = _layer_norm(x, g1, b1) @ (wqkv / 28)
    q, k, v = (p.reshape(n, _HEADS, _DEPTH).swapaxes(0, 1) for p in np.split(qkv, 3, axis=-1))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(_DEPTH) + (1 - np.tri(n, dtype=x.dtype)) * -1e10
    out = (_softmax(scores) @ v).swapaxes(0, 1).reshape(n, _WIDTH)
    x = x + out @ (wo / 28)
    h = _layer_norm(x, g2, b2) @ (wi / 28)
    h = 0.5 * h * (1 + np.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h * h * h)))
    return x + h @ (wd / 55)


def _causal(name: str) -> Any:
    """Declare a causal attention of three arrays, with what the function does to the scores."""

    def declare(masked: Any) -> Any:
        def attention(q: Any, k: Any, v: Any) -> Any:
            scores = masked(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]), q.shape[-2])
            return _softmax(scores) @ v

        attention.__name__ = f"causal_{name}"
        return program(_LONG, flops=_CAUSAL, **_EXACT, q=_LONG, k=_LONG, v=_LONG)(attention)

    return declare


@_causal("tril_inf")
def _(scores: Any, n: int) -> Any:
    return np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)


@_causal("tril_1e9")
def _(scores: Any, n: int) -> Any:
    return np.where(np.tril(np.ones((n, n), dtype=bool)), scores, -1e9)


@_causal("finfo_min")
def _(scores: Any, n: int) -> Any:
    return np.where(np.tri(n, dtype=bool), scores, np.finfo(np.float32).min)


@_causal("arange")
def _(scores: Any, n: int) -> Any:
    i = np.arange(n)
    return np.where(i[:, None] >= i[None, :], scores, -np.inf)


@_causal("arange_1e9")
def _(scores: Any, n: int) -> Any:
    i = np.arange(n)
    return np.where(i > i[:, None], np.float32(-1e9), scores)


@_causal("add_triu_inf")
def _(scores: Any, n: int) -> Any:
    return scores + np.triu(np.full((n, n), -np.inf, np.float32), k=1)


@_causal("add_times_1e9")
def _(scores: Any, n: int) -> Any:
    return scores + (1 - np.tril(np.ones((n, n), np.float32))) * -1e9


@_causal("blend_1e10")
def _(scores: Any, n: int) -> Any:
    mask = np.tri(n, dtype=np.float32)
    return scores * mask - 1e10 * (1 - mask)


@program(
    (8, 128, 64),
    flops=4 * 8 * 128 * 128 * 64,
    **_EXACT,
    q=(8, 128, 64),
    k=(8, 128, 64),
    v=(8, 128, 64),
    keep=Input((128,), "int32", below=2),
)
def attention_padding_mask(q: Any, k: Any, v: Any, keep: Any) -> Any:
    scores = q @ k.transpose(0, 2, 1) / 8 + np.where(keep > 0, 0, -1e9)[None, None, :]
    return _softmax(scores.astype(q.dtype)) @ v


@program((12, 256, 64), reduction=4, x=(12, 256, 64))
def rotary_embedding(x: Any) -> Any:
    length, depth = x.shape[-2:]
    frequency = 1.0 / 10000 ** (np.arange(0, depth, 2) / depth)
    angle = np.arange(length)[:, None] * frequency
    cos = np.concatenate([np.cos(angle)] * 2, axis=-1).astype(x.dtype)
    sin = np.concatenate([np.sin(angle)] * 2, axis=-1).astype(x.dtype)
    left, right = x[..., : depth // 2], x[..., depth // 2 :]
    return x * cos + np.concatenate([-right, left], axis=-1) * sin


@program(
    (12, 256, 64),
    flops=4 * 12 * 256 * 256 * 64,
    **_EXACT,
    q=(12, 256, 64),
    k=(4, 256, 64),
    v=(4, 256, 64),
)
def grouped_query_attention(q: Any, k: Any, v: Any) -> Any:
    k, v = np.repeat(k, 3, axis=0), np.repeat(v, 3, axis=0)
    return _softmax(q @ k.transpose(0, 2, 1) / 8) @ v


@program(
    (8, 128, 64),
    flops=4 * 8 * 128 * 128 * 64,
    **_EXACT,
    q=(8, 128, 64),
    k=(8, 128, 64),
    v=(8, 128, 64),
    slope=_weight(8),
)
def attention_alibi(q: Any, k: Any, v: Any, slope: Any) -> Any:
    i = np.arange(128, dtype=np.float32)
    bias = -np.abs(i[:, None] - i) * np.abs(slope)[:, None, None]
    return _softmax(q @ k.transpose(0, 2, 1) / 8 + bias) @ v
