"""Attention as PyTorch's kernels for the CPU have it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .... import nn
from ..derivatives import pulled_back
from ..table import Value, aten
from .creation import filled


def _each_head(x: Value, like: Value) -> Value:
    """Returns keys or values for each head of ``like``: several heads may share them."""
    batch, heads, length, width = x.shape
    if heads == like.shape[1]:
        return x
    groups = like.shape[1] // heads
    wide = np.broadcast_to(x[:, :, None], (batch, heads, groups, length, width))
    return np.reshape(wide, (batch, heads * groups, length, width))


def _scores(
    query: Value, key: Value, is_causal: bool, attn_mask: Value | None, scale: float | None
) -> Value:
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = np.matmul(query, np.swapaxes(key, -1, -2)) * factor
    if is_causal:
        allowed = np.tril(filled(scores.shape[-2:], True))
        scores = np.where(allowed, scores, -np.inf)
    if attn_mask is None:
        return scores
    if attn_mask.dtype == np.bool_:
        return np.where(attn_mask, scores, -np.inf)
    return scores + attn_mask


@aten("_scaled_dot_product_flash_attention_for_cpu.default")
def _attention(
    query: Value,
    key: Value,
    value: Value,
    is_causal: bool = False,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, Value]:
    """The second result is the logarithm of the sum of exponentials of each row of scores."""
    key, value = _each_head(key, query), _each_head(value, query)
    scores = _scores(query, key, is_causal, attn_mask, scale)
    top = np.max(scores, axis=-1)
    total = np.log(np.sum(np.exp(scores - top[..., None]), axis=-1)) + top
    return np.matmul(nn.softmax(scores, -1), value), total


@aten(
    "_scaled_dot_product_flash_attention_for_cpu_backward.default",
    ignores=("out", "logsumexp", "dropout_p"),  # computed again; refused on the way forward
)
def _attention_backward(
    grad_out: Value,
    query: Value,
    key: Value,
    value: Value,
    is_causal: bool,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> Sequence[Value]:
    def attended(*parts: Value) -> Value:
        return _attention(*parts, is_causal, attn_mask=attn_mask, scale=scale)[0]

    return pulled_back(attended, grad_out, query, key, value)


def _linear(x: Value, weight: Value, bias: Value) -> Value:
    return np.matmul(x, np.transpose(weight)) + bias


@aten("_native_multi_head_attention.default")
def _multi_head_attention(
    query: Value,
    key: Value,
    value: Value,
    embed_dim: int,
    num_head: int,
    qkv_weight: Value,
    qkv_bias: Value,
    proj_weight: Value,
    proj_bias: Value,
    mask: Value | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Value, Value]:
    """Computes nn.MultiheadAttention, as PyTorch does without gradients. What is not 0 in a mask is
    masked out: of pairs of positions (type 0), of keys (1), or of each head (2)."""
    parts = [
        _linear(x, qkv_weight[n * embed_dim : (n + 1) * embed_dim], bias)
        for n, (x, bias) in enumerate(zip((query, key, value), np.split(qkv_bias, 3), strict=True))
    ]
    width = embed_dim // num_head
    heads = [np.swapaxes(np.reshape(x, (*x.shape[:2], num_head, width)), 1, 2) for x in parts]
    scores = _scores(heads[0], heads[1], False, None, None)
    if mask is not None:
        out = mask.astype(np.bool_)
        scores = np.where(out[:, None, None] if mask_type == 1 else out, -np.inf, scores)
    weights = nn.softmax(scores, -1)
    mixed = np.swapaxes(np.matmul(weights, heads[2]), 1, 2)
    result = _linear(np.reshape(mixed, (*query.shape[:2], embed_dim)), proj_weight, proj_bias)
    if not need_weights:
        return result, np.zeros((), query.dtype)
    return result, np.mean(weights, axis=1) if average_attn_weights else weights


@aten("_transformer_encoder_layer_fwd.default")
def _encoder_layer(
    src: Value,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Value,
    qkv_bias: Value,
    proj_weight: Value,
    proj_bias: Value,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Value,
    norm_bias_1: Value,
    norm_weight_2: Value,
    norm_bias_2: Value,
    ffn_weight_1: Value,
    ffn_bias_1: Value,
    ffn_weight_2: Value,
    ffn_bias_2: Value,
    mask: Value | None = None,
    mask_type: int | None = None,
) -> Value:
    """Computes nn.TransformerEncoderLayer, as PyTorch does without gradients."""

    def attended(x: Value) -> Value:
        weights = (qkv_weight, qkv_bias, proj_weight, proj_bias)
        options = (mask, False, True, mask_type)
        return _multi_head_attention(x, x, x, embed_dim, num_heads, *weights, *options)[0]

    def fed(x: Value) -> Value:
        hidden = _linear(x, ffn_weight_1, ffn_bias_1)
        active = nn.gelu(hidden) if use_gelu else np.maximum(hidden, 0)
        return _linear(active, ffn_weight_2, ffn_bias_2)

    norms = ((norm_weight_1, norm_bias_1), (norm_weight_2, norm_bias_2))
    for step, (gain, shift) in zip((attended, fed), norms, strict=True):
        if norm_first:
            src = src + step(nn.layer_norm(src, gain, shift, epsilon=eps))
        else:
            src = nn.layer_norm(src + step(src), gain, shift, epsilon=eps)
    return src
