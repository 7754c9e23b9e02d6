"""Converters of the domain ``com.microsoft``: what ONNX Runtime's optimisers and quantisers write.

Their meaning is that of its document ``ContribOperators.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....ir.errors import UnsupportedError
from ... import nn
from .conv import convolution
from .quantised import dequantised, dynamically_quantised, quantised
from .table import Node, Value, converter

Ints = tuple[int, ...]

_DOMAIN = "com.microsoft"

_ACTIVATIONS: dict[str, Callable[..., Value]] = {
    "": lambda x: x,
    "Clip": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5: np.minimum(np.maximum(x * alpha + beta, 0), 1),
    "LeakyRelu": lambda x, alpha=0.01: np.where(x >= 0, x, x * alpha),
    "Relu": nn.relu,
    "Sigmoid": nn.sigmoid,
    "Tanh": np.tanh,
}
"""Activations behind a fused operator; their parameters are its ``activation_params``."""


def _activated(x: Value, activation: str, params: tuple[float, ...]) -> Value:
    if activation not in _ACTIVATIONS:
        raise UnsupportedError(f"its activation {activation!r} is not supported")
    return _ACTIVATIONS[activation](x, *params)


# Products.


@converter("FusedMatMul", since=1, domain=_DOMAIN)
def _fused_matmul(
    a: Value,
    b: Value,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Value:
    left = _transposed(a, transA, transBatchA)
    product = np.matmul(left, _transposed(b, transB, transBatchB))
    return product if alpha == 1 else product * alpha


def _transposed(x: Value, last: int, batch: int) -> Value:
    """``x`` with its last axes swapped, and its first axis last of the batch."""
    if batch and x.ndim > 2:
        x = np.moveaxis(x, 0, x.ndim - 2)
    return np.swapaxes(x, -1, -2) if last and x.ndim > 1 else x


@converter("FusedGemm", since=1, domain=_DOMAIN)
def _fused_gemm(
    a: Value,
    b: Value,
    c: Value = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
) -> Value:
    product = _fused_matmul(a, b, alpha=alpha, transA=transA, transB=transB)
    product = product if c is None else product + (c if beta == 1 else c * beta)
    params = (activation_alpha, activation_beta, activation_gamma)
    return _activated(product, activation, tuple(p for p in params if p is not None))


# kernel_shape: the weights have it.
@converter("FusedConv", since=1, domain=_DOMAIN, ignores=("kernel_shape",), options_of=convolution)
def _fused_conv(
    x: Value,
    w: Value,
    bias: Value = None,
    added: Value = None,
    *,
    activation: str = "",
    activation_params: tuple[float, ...] = (),
    **windows: Any,
) -> Value:
    y = convolution(x, w, bias, **windows)
    return _activated(y if added is None else y + added, activation, activation_params)


# Activations and norms.


for _name, _function in {
    "Gelu": lambda x: nn.gelu(x, "none"),
    "BiasGelu": lambda x, bias: nn.gelu(x + bias, "none"),
    "FastGelu": lambda x, bias=None: nn.gelu(x if bias is None else x + bias, "tanh"),
    "QuickGelu": lambda x, *, alpha=1.702: x * nn.sigmoid(x * alpha),
}.items():
    converter(_name, since=1, domain=_DOMAIN)(_function)


@converter("BiasSoftmax", since=1, domain=_DOMAIN)
def _bias_softmax(x: Value, bias: Value, *, axis: int = 1, is_inner_broadcast: int) -> Value:
    if is_inner_broadcast and bias.ndim < x.ndim:
        bias = np.reshape(bias, (*bias.shape, *[1] * (x.ndim - bias.ndim)))
    shape = x.shape
    rows = np.reshape(x + bias, (math.prod(shape[:axis]), math.prod(shape[axis:])))
    return np.reshape(nn.softmax(rows), shape)


# stash_type: a lower bound, which float32 meets.
@converter("SimplifiedLayerNormalization", since=1, ignores=("stash_type",))
@converter("SimplifiedLayerNormalization", since=1, domain=_DOMAIN, ignores=("stash_type",))
def _simplified_layer_norm(
    x: Value, gamma: Value, *, axis: int = -1, epsilon: float = 1e-5
) -> Value:
    return nn.rms_norm(x, gamma, tuple(range(axis % x.ndim, x.ndim)), epsilon)


@converter("SkipLayerNormalization", since=1, domain=_DOMAIN)
def _skip_layer_norm(
    node: Node,
    x: Value,
    skip: Value,
    gamma: Value,
    beta: Value = None,
    bias: Value = None,
    *,
    epsilon: float = 1e-5,
) -> Value:
    total = x + skip if bias is None else x + skip + bias
    if node.wants(1) or node.wants(2):
        raise UnsupportedError("its outputs mean and inv_std_var are not supported")
    if node.op_type == "SkipSimplifiedLayerNormalization":
        return nn.rms_norm(total, gamma, -1, epsilon), None, None, total
    return nn.layer_norm(total, gamma, beta, -1, epsilon), None, None, total


@converter("SkipSimplifiedLayerNormalization", since=1, domain=_DOMAIN)
def _skip_simplified_layer_norm(
    node: Node, x: Value, skip: Value, gamma: Value, bias: Value = None, *, epsilon: float = 1e-5
) -> Value:
    return _skip_layer_norm(node, x, skip, gamma, None, bias, epsilon=epsilon)


# mask_index_type: the mask's index is made where the model uses it, as int32.
@converter("EmbedLayerNormalization", since=1, domain=_DOMAIN, ignores=("mask_index_type",))
def _embed_layer_norm(
    node: Node,
    ids: Value,
    segments: Value,
    words: Value,
    places: Value,
    kinds: Value = None,
    gamma: Value = None,
    beta: Value = None,
    mask: Value = None,
    position_ids: Value = None,
    *,
    epsilon: float = 1e-12,
) -> Value:
    length = ids.shape[1]
    total = np.take(words, ids, 0)
    total = total + (places[:length] if position_ids is None else np.take(places, position_ids, 0))
    if segments is not None:
        total = total + np.take(kinds, segments, 0)
    ends = None
    if node.wants(1):
        # The number of real tokens of each row, or nothing.
        counted = mask is not None
        ends = np.sum(mask, 1, dtype=np.int32) if counted else np.zeros(ids.shape[0], np.int32)
    return nn.layer_norm(total, gamma, beta, -1, epsilon), ends, total


# Attention.


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
    n, length, _ = x.shape
    projected = np.matmul(x, weights)
    projected = projected if bias is None else projected + bias
    sizes = qkv_hidden_sizes or (weights.shape[1] // 3,) * 3
    heads = [
        np.transpose(np.reshape(each, (n, length, num_heads, -1)), (0, 2, 1, 3))
        for each in np.split(projected, [sizes[0], sizes[0] + sizes[1]], -1)
    ]
    q, k, v = heads
    if past is not None:
        k, v = np.concatenate((past[0], k), 2), np.concatenate((past[1], v), 2)
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * (scale or 1 / math.sqrt(q.shape[-1]))
    if unidirectional:
        whole = k.shape[2]
        ahead = np.triu(np.ones((length, whole), bool), whole - length + 1)
        scores = np.where(ahead, x.dtype.type(mask_filter_value), scores)
    if mask is not None:
        scores = scores + _mask(mask, n, k.shape[2], mask_filter_value, x.dtype)
    scores = scores if added is None else scores + added
    y = np.matmul(nn.softmax(scores), v)
    y = np.reshape(np.transpose(y, (0, 2, 1, 3)), (n, length, sizes[2]))
    return (y, np.stack((k, v))) if node.wants(1) else y


def _mask(mask: Value, n: int, length: int, masked: float, dtype: np.dtype[Any]) -> Value:
    """Returns what is added to scores: ``masked`` where a token is not to be seen."""
    if mask.ndim == 1:  # how many tokens of each row are real, and where they begin
        places = np.arange(length)
        real = places < mask[:n, None]
        if mask.shape[0] == 2 * n:
            real = real & (places >= mask[n:, None])
        seen = real[:, None, None, :]
    elif mask.ndim == 2:
        seen = (mask != 0)[:, None, None, :]
    elif mask.ndim == 3:
        seen = (mask != 0)[:, None]
    else:
        raise UnsupportedError(f"a mask of {mask.ndim} axes is not supported")
    return np.where(seen, dtype.type(0), dtype.type(masked))


# Quantised.


@converter("DynamicQuantizeMatMul", since=1, domain=_DOMAIN)
def _dynamic_quantize_matmul(
    a: Value, b: Value, b_scale: Value, b_zero: Value = None, bias: Value = None
) -> Value:
    integers, scale, zero = dynamically_quantised(a)
    return _matmul_integer_to_float(integers, b, scale, b_scale, zero, b_zero, bias)


@converter("MatMulIntegerToFloat", since=1, domain=_DOMAIN)
def _matmul_integer_to_float(
    a: Value,
    b: Value,
    a_scale: Value,
    b_scale: Value,
    a_zero: Value = None,
    b_zero: Value = None,
    bias: Value = None,
) -> Value:
    rows = dequantised(a, a_scale, a_zero, -2 if a.ndim > 1 else -1)
    product = np.matmul(rows, dequantised(b, b_scale, b_zero))
    return product if bias is None else product + bias


@converter("QGemm", since=1, domain=_DOMAIN)
def _qgemm(
    a: Value,
    a_scale: Value,
    a_zero: Value,
    b: Value,
    b_scale: Value,
    b_zero: Value,
    c: Value = None,
    y_scale: Value = None,
    y_zero: Value = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    # A scale of each column of the result.
    right = dequantised(b, b_scale, b_zero, 0 if transB else 1)
    left = dequantised(a, a_scale, a_zero)
    y = np.matmul(left.T if transA else left, right.T if transB else right)
    y = y if c is None else y + dequantised(c, a_scale * b_scale, None)
    y = y * np.float32(alpha)
    return y if y_scale is None else quantised(y, y_scale, y_zero)


def _softmax(x: Value, *, axis: int = -1, opset: int = 13) -> Value:
    if opset >= 13:
        return nn.softmax(x, axis)
    axis = axis + x.ndim if axis < 0 else axis
    rows = np.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
    return np.reshape(nn.softmax(rows), x.shape)


def _global_average_pool(x: Value, *, channels_last: int = 0) -> Value:
    axes = tuple(range(1, x.ndim - 1) if channels_last else range(2, x.ndim))
    return np.mean(x, axes, keepdims=True)


def _of_one(function: Callable[..., Value]) -> Callable[..., Value]:
    """Returns the converter of a function of a quantised operand, with its attributes."""

    def converted(
        x: Value,
        x_scale: Value,
        x_zero: Value,
        y_scale: Value,
        y_zero: Value = None,
        **options: Any,
    ) -> Value:
        y = function(dequantised(x, x_scale, x_zero), **options)
        return quantised(y, y_scale, x.dtype.type(0) if y_zero is None else y_zero)

    return converted


for _name, _function in {
    "QLinearGlobalAveragePool": _global_average_pool,
    "QLinearLeakyRelu": lambda x, *, alpha=0.01: np.where(x >= 0, x, x * alpha),
    "QLinearSigmoid": lambda x: nn.sigmoid(x),
    "QLinearSoftmax": _softmax,
}.items():
    converter(_name, since=1, domain=_DOMAIN, options_of=_function)(_of_one(_function))


@converter("QLinearAdd", since=1, domain=_DOMAIN)
@converter("QLinearMul", since=1, domain=_DOMAIN)
def _of_two(
    node: Node,
    a: Value,
    a_scale: Value,
    a_zero: Value,
    b: Value,
    b_scale: Value,
    b_zero: Value,
    y_scale: Value,
    y_zero: Value = None,
) -> Value:
    function = np.add if node.op_type == "QLinearAdd" else np.multiply
    y = function(dequantised(a, a_scale, a_zero), dequantised(b, b_scale, b_zero))
    return quantised(y, y_scale, a.dtype.type(0) if y_zero is None else y_zero)


@converter("QLinearConcat", since=1, domain=_DOMAIN)
def _qlinear_concat(y_scale: Value, y_zero: Value, *parts: Value, axis: int) -> Value:
    each = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    y = np.concatenate([dequantised(x, scale, zero) for x, scale, zero in each], axis)
    return quantised(y, y_scale, y_zero)
