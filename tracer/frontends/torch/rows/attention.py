"""Attention as PyTorch's kernels for the CPU have it."""

from __future__ import annotations

import math

import numpy as np

from .... import nn
from ..table import Value, aten
from .creation import filled

__all__: list[str] = []


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
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, Value]:
    """The second result is the logarithm of the sum of exponentials of each row of scores."""
    scores = _scores(query, key, is_causal, attn_mask, scale)
    top = np.max(scores, axis=-1)
    total = np.log(np.sum(np.exp(scores - top[..., None]), axis=-1)) + top
    return np.matmul(nn.softmax(scores, -1), value), total


@aten("_scaled_dot_product_flash_attention_for_cpu_backward.default")
def _attention_backward(
    grad_out: Value,
    query: Value,
    key: Value,
    value: Value,
    out: Value,
    logsumexp: Value,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, Value, Value]:
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = _scores(query, key, is_causal, attn_mask, scale)
    weights = np.exp(scores - logsumexp[..., None])
    grad_value = np.matmul(np.swapaxes(weights, -1, -2), grad_out)
    grad_weights = np.matmul(grad_out, np.swapaxes(value, -1, -2))
    along = np.sum(grad_out * out, axis=-1, keepdims=True)
    grad_scores = weights * (grad_weights - along) * factor
    grad_query = np.matmul(grad_scores, key)
    grad_key = np.matmul(np.swapaxes(grad_scores, -1, -2), query)
    return grad_query, grad_key, grad_value
