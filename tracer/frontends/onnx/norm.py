"""Converters of normalisations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir.errors import UnsupportedError
from ... import nn
from ...nn.norms import normalised
from .table import Node, Value, converter


def _inference(x: Value, scale: Value, bias: Value, mean: Value, var: Value, epsilon: float) -> Any:
    scales = (each.astype(x.dtype) for each in (scale, bias, mean, var))
    return nn.batch_norm(x, *scales, axis=1 % x.ndim, epsilon=epsilon)


# momentum: of training only.
@converter("BatchNormalization", since=7, ignores=("momentum",))
def _batch_normalization_7(
    node: Node,
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    var: Value,
    *,
    epsilon: float = 1e-5,
    spatial: int = 1,
) -> Value:
    if not spatial:
        raise UnsupportedError("its attribute spatial=0 is not supported")
    if any(node.outputs[1:]):
        raise UnsupportedError("its outputs of training are not supported before opset 14")
    return _inference(x, scale, bias, mean, var, epsilon)


@converter("BatchNormalization", since=14)
def _batch_normalization_14(
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    var: Value,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> Any:
    if not training_mode:
        return _inference(x, scale, bias, mean, var, epsilon)
    y, batch_mean, batch_var = nn.batch_norm_training(
        x, scale.astype(x.dtype), bias.astype(x.dtype), epsilon=epsilon
    )
    old, new = mean.dtype.type(momentum), mean.dtype.type(1 - momentum)
    return y, mean * old + batch_mean * new, var * old + batch_var * new


@converter("InstanceNormalization", since=6)
def _instance_normalization(x: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5) -> Value:
    return nn.instance_norm(x, scale, bias, epsilon)


@converter("GroupNormalization", since=18)
def _group_normalization_18(
    x: Value, scale: Value, bias: Value, *, num_groups: int, epsilon: float = 1e-5
) -> Value:
    each = x.shape[1] // num_groups
    return nn.group_norm(x, num_groups, np.repeat(scale, each), np.repeat(bias, each), epsilon)


# stash_type: a lower bound, which float32 meets.
@converter("GroupNormalization", since=21, ignores=("stash_type",))
def _group_normalization(
    x: Value,
    scale: Value,
    bias: Value,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
) -> Value:
    return nn.group_norm(x, num_groups, scale, bias, epsilon)


# stash_type: a lower bound, which float32 meets.
@converter("LayerNormalization", since=17, ignores=("stash_type",))
def _layer_normalization(
    node: Node,
    x: Value,
    scale: Value,
    bias: Value = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
) -> Any:
    axes = tuple(range(axis % x.ndim, x.ndim))
    sizes = x.shape[axes[0] :]
    if not any(node.outputs[1:]) and scale.shape == sizes:
        bias = np.zeros(sizes, x.dtype) if bias is None else np.broadcast_to(bias, sizes)
        return nn.layer_norm(x, scale, bias, axis=axes, epsilon=epsilon)
    unit, mean, variance = normalised(x, axes, epsilon)
    y = unit * scale
    return y if bias is None else y + bias, mean, nn.rsqrt(variance + x.dtype.type(epsilon))


# stash_type: a lower bound, which float32 meets.
@converter("RMSNormalization", since=23, ignores=("stash_type",))
def _rms_normalization(x: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5) -> Value:
    axes = tuple(range(axis % x.ndim, x.ndim))
    if scale.shape == x.shape[axes[0] :]:
        return nn.rms_norm(x, scale, axis=axes, epsilon=epsilon)
    square = np.mean(x * x, axis=axes, keepdims=True)
    return x * nn.rsqrt(square + x.dtype.type(epsilon)) * scale


@converter("LRN", since=1)
def _lrn(
    x: Value, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Value:
    return nn.local_response_norm(x, size, alpha, beta, bias)


@converter("LpNormalization", since=1)
def _lp_normalization(x: Value, *, axis: int = -1, p: int = 2) -> Value:
    powers = np.abs(x) if p == 1 else x * x
    total = np.sum(powers, axis=axis, keepdims=True)
    norm = total if p == 1 else np.sqrt(total)
    return np.where(norm == 0, x.dtype.type(0), x / norm)
