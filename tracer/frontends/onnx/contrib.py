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
from .indexing import gathered
from .nbits import unpacked
from .pool import average_pool
from .quantised import dequantised, dynamically_quantised, quantised
from .table import Node, Value, converter

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
@converter("TransposeMatMul", since=1, domain=_DOMAIN)
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


@converter("MoE", since=1, domain=_DOMAIN)
def _mixture(
    x: Value,
    router: Value,
    up: Value,
    up_bias: Value = None,
    down: Value = None,
    down_bias: Value = None,
    gated: Value = None,
    gated_bias: Value = None,
    *,
    activation_type: str = "relu",
    k: int = 1,
    normalize_routing_weights: int = 0,
    use_sparse_mixer: int = 0,
    activation_alpha: float = 1.0,
    activation_beta: float = 0.0,
    swiglu_fusion: int = 0,
    swiglu_limit: float | None = None,
) -> Value:
    """The rows, sorted by expert, are products of groups; each token adds up those of its ``k``."""
    swiglu = activation_type == "swiglu"
    if use_sparse_mixer or (activation_type not in _OF_EXPERTS and not swiglu):
        raise UnsupportedError(f"a mixture with {activation_type}, sparse mixer {use_sparse_mixer}")
    weights, experts = nn.top_k(nn.softmax(router), k)
    if normalize_routing_weights:
        weights = weights / np.sum(weights, axis=1, keepdims=True)
    experts = np.reshape(experts, (-1,))
    order = np.argsort(experts, kind="stable")
    experts = experts[order]
    ends = np.searchsorted(experts, np.arange(up.shape[0]), side="right")

    def layer(rows: Value, matrices: Value, bias: Value) -> Value:
        # Rows of weights are outputs; of earlier versions they were inputs.
        is_transposed = matrices.shape[2] == rows.shape[1]
        matrices = np.matrix_transpose(matrices) if is_transposed else matrices
        product = nn.grouped_matmul(rows, matrices, ends)
        return product if bias is None else product + gathered(bias, experts)

    tokens = gathered(np.reshape(x, (-1, x.shape[-1])), order // k)
    y = layer(tokens, up, up_bias)
    other: Any = None if gated is None else layer(tokens, gated, gated_bias)
    if swiglu:
        if swiglu_fusion:
            half = y.shape[1] // 2
            parts = (y[:, ::2], y[:, 1::2]) if swiglu_fusion == 1 else (y[:, :half], y[:, half:])
            y, other = parts
        if swiglu_limit is not None:
            y = np.minimum(y, swiglu_limit)
            other = np.clip(other, -swiglu_limit, swiglu_limit)
        y, other = y * nn.sigmoid(y * activation_alpha), other + activation_beta
    else:
        y = _OF_EXPERTS[activation_type](y)
    y = layer(y if other is None else y * other, down, down_bias)
    y = np.reshape(y[np.argsort(order)], (-1, k, y.shape[1]))
    return np.reshape(np.sum(y * weights[..., None], axis=1), x.shape)


_OF_EXPERTS: dict[str, Callable[..., Value]] = {
    "gelu": lambda x: nn.gelu(x, "tanh"),  # as ONNX Runtime computes it here
    "identity": lambda x: x,
    "relu": nn.relu,
    "silu": nn.silu,
}
"""Activations of experts by their ``activation_type``."""


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
    epsilon: float = 1e-12,
) -> Value:
    total = x + skip if bias is None else x + skip + bias
    if node.wants(1) or node.wants(2):
        raise UnsupportedError("its outputs mean and inv_std_var, of training, are not supported")
    if node.op_type == "SkipSimplifiedLayerNormalization":
        return nn.rms_norm(total, gamma, -1, epsilon), None, None, total
    return nn.layer_norm(total, gamma, beta, -1, epsilon), None, None, total


@converter("SkipSimplifiedLayerNormalization", since=1, domain=_DOMAIN)
def _skip_simplified_layer_norm(
    node: Node, x: Value, skip: Value, gamma: Value, bias: Value = None, *, epsilon: float = 1e-12
) -> Value:
    return _skip_layer_norm(node, x, skip, gamma, None, bias, epsilon=epsilon)


# mask_index_type: the mask's index is made where the model uses it, as int32.
@converter("EmbedLayerNormalization", since=1, domain=_DOMAIN, ignores=("mask_index_type",))
def _embed_layer_norm(
    node: Node,
    ids: Value,
    segments: Value = None,
    words: Value = None,
    positions: Value = None,
    kinds: Value = None,
    gamma: Value = None,
    beta: Value = None,
    mask: Value = None,
    position_ids: Value = None,
    *,
    epsilon: float = 1e-12,
) -> Value:
    length = ids.shape[1]
    total = gathered(words, ids)
    total = total + (
        positions[:length] if position_ids is None else gathered(positions, position_ids)
    )
    if segments is not None:
        total = total + gathered(kinds, segments)
    ends = None
    if node.wants(1):
        # The number of real tokens of each row, or nothing.
        counted = mask is not None
        ends = np.sum(mask, 1, dtype=np.int32) if counted else np.zeros(ids.shape[0], np.int32)
    return nn.layer_norm(total, gamma, beta, -1, epsilon), ends, total


# Quantised.


@converter("QEmbedLayerNormalization", since=1, domain=_DOMAIN)
def _quantised_embed_layer_norm(
    node: Node,
    ids: Value,
    segments: Value = None,
    words: Value = None,
    positions: Value = None,
    kinds: Value = None,
    gamma: Value = None,
    beta: Value = None,
    mask: Value = None,
    *factors: Value,
    epsilon: float = 1e-12,
) -> Value:
    parts = (words, positions, kinds, gamma, beta)
    each = zip(parts, factors[:5], factors[5:], strict=True)
    values = [x if x is None else dequantised(x, scale, zero) for x, scale, zero in each]
    return _embed_layer_norm(node, ids, segments, *values, mask, epsilon=epsilon)


@converter("GatherBlockQuantized", since=1, domain=_DOMAIN)
def _gather_block_quantized(
    data: Value,
    indices: Value,
    scales: Value,
    zeros: Value = None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> Value:
    last = data.ndim - 1
    if gather_axis % data.ndim or quantize_axis % data.ndim != last:
        raise UnsupportedError("axes but the first one gathered, blocks along the last one")
    rows, factors = gathered(data, indices), gathered(scales, indices)
    points = None if zeros is None else gathered(zeros, indices)
    if data.dtype.name == "uint8":  # bytes that hold codes of ``bits``, the lower ones first
        rows = unpacked(rows, bits)
        half = np.uint8(2 ** (bits - 1))
        points = half if points is None else unpacked(points, bits)[..., : factors.shape[-1], None]
    elif points is not None:
        points = points[..., None]
    width = rows.shape[-1]
    blocks = np.reshape(rows, (*rows.shape[:-1], width // block_size, block_size))
    wide = blocks.astype(scales.dtype)
    wide = wide if points is None else wide - points.astype(scales.dtype)
    return np.reshape(wide * factors[..., None], rows.shape)


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


def _average_pool(
    x: Value,
    *,
    kernel_shape: tuple[int, ...],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    channels_last: int = 0,
    count_include_pad: int = 0,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Value:
    y = average_pool(
        np.moveaxis(x, -1, 1) if channels_last else x,
        kernel_shape=kernel_shape,
        strides=strides,
        pads=pads,
        count_include_pad=count_include_pad,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
    )
    return np.moveaxis(y, 1, -1) if channels_last else y


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
    "QLinearAveragePool": _average_pool,
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


@converter("QLinearWhere", since=1, domain=_DOMAIN)
def _qlinear_where(
    condition: Value,
    x: Value,
    x_scale: Value,
    x_zero: Value,
    y: Value,
    y_scale: Value,
    y_zero: Value,
    z_scale: Value,
    z_zero: Value,
) -> Value:
    chosen = np.where(condition, dequantised(x, x_scale, x_zero), dequantised(y, y_scale, y_zero))
    return quantised(chosen, z_scale, z_zero)


@converter("QLinearConcat", since=1, domain=_DOMAIN)
def _qlinear_concat(y_scale: Value, y_zero: Value, *parts: Value, axis: int) -> Value:
    each = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    y = np.concatenate([dequantised(x, scale, zero) for x, scale, zero in each], axis)
    return quantised(y, y_scale, y_zero)
