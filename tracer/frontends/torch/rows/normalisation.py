"""Normalisations, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .... import nn
from ..table import Value, aten


def _channels(x: Value, rank: int) -> Value | None:
    """Returns a value per channel as it broadcasts over ``(batch, channels, ...)``."""
    return None if x is None else np.reshape(x, (-1,) + (1,) * (rank - 2))


def _scaled(x: Value, weight: Value | None, bias: Value | None) -> Value:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


@aten("_native_batch_norm_legit_no_training.default", ignores=("momentum",))  # nothing is learned
def _batch_norm_inference(
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    eps: float,
) -> tuple[Value, Value, Value]:
    ones, zeros = (
        np.ones(running_mean.shape, input.dtype),
        np.zeros(running_mean.shape, input.dtype),
    )
    result = nn.batch_norm(
        input,
        ones if weight is None else weight,
        zeros if bias is None else bias,
        running_mean,
        running_var,
        epsilon=eps,
        axis=1,
    )
    empty = np.zeros(0, input.dtype)
    return result, empty, empty


def _batch_moments(input: Value, eps: float) -> tuple[Value, Value, Value]:
    """Returns mean, variance and the reciprocal of the standard deviation of each channel."""
    axes = (0, *range(2, input.ndim))
    mean = np.mean(input, axis=axes)
    centred = input - _channels(mean, input.ndim)
    variance = np.mean(centred * centred, axis=axes)
    return mean, variance, nn.rsqrt(variance + eps)


def _normalised(
    input: Value, mean: Value, scale: Value, weight: Value | None, bias: Value | None
) -> Value:
    rank = input.ndim
    x = (input - _channels(mean, rank)) * _channels(scale, rank)
    return _scaled(x, _channels(weight, rank), _channels(bias, rank))


@aten(
    "_native_batch_norm_legit.no_stats",
    ignores=("training", "momentum"),  # without moments of before it is always the batch's
)
def _batch_norm_no_stats(
    input: Value,
    weight: Value | None,
    bias: Value | None,
    eps: float,
) -> tuple[Value, Value, Value]:
    mean, _, scale = _batch_moments(input, eps)
    return _normalised(input, mean, scale, weight, bias), mean, scale


@aten("_native_batch_norm_legit_functional.default")
def _batch_norm_functional(
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, Value, Value, Value, Value]:
    """The last two results are the new running moments."""
    if not training:
        scale = nn.rsqrt(running_var + eps)
        result = _normalised(input, running_mean, scale, weight, bias)
        empty = np.zeros(0, input.dtype)
        return result, empty, empty, running_mean, running_var
    mean, variance, scale = _batch_moments(input, eps)
    count = math.prod(input.shape) // input.shape[1]
    unbiased = variance * (count / max(count - 1, 1))
    return (
        _normalised(input, mean, scale, weight, bias),
        mean,
        scale,
        running_mean * (1 - momentum) + mean * momentum,
        running_var * (1 - momentum) + unbiased * momentum,
    )


@aten("native_batch_norm_backward.default")
def _batch_norm_backward(
    grad_out: Value,
    input: Value,
    weight: Value | None,
    running_mean: Value | None,
    running_var: Value,
    save_mean: Value | None,
    save_invstd: Value | None,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> tuple[Value | None, Value | None, Value | None]:
    rank, axes = input.ndim, (0, *range(2, input.ndim))
    mean = save_mean if train else running_mean
    scale = save_invstd if train else nn.rsqrt(running_var + eps)
    centred = input - _channels(mean, rank)
    grad_bias = np.sum(grad_out, axis=axes)
    along = np.sum(grad_out * centred, axis=axes)
    grad_weight = along * scale
    factor = scale if weight is None else scale * weight
    if train:
        count = math.prod(input.shape) // input.shape[1]
        slope = along * scale * scale / count
        inner = grad_out - _channels(grad_bias / count, rank) - centred * _channels(slope, rank)
    else:
        inner = grad_out
    results = (inner * _channels(factor, rank), grad_weight, grad_bias)
    return tuple(r if wanted else None for r, wanted in zip(results, output_mask))  # type: ignore[return-value]


@aten("native_layer_norm.default")
def _layer_norm(
    input: Value,
    normalized_shape: Sequence[int],
    weight: Value | None,
    bias: Value | None,
    eps: float,
) -> tuple[Value, Value, Value]:
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    mean = np.mean(input, axis=axes, keepdims=True)
    centred = input - mean
    scale = nn.rsqrt(np.mean(centred * centred, axis=axes, keepdims=True) + eps)
    return nn.layer_norm(input, weight, bias, axes, eps), mean, scale


@aten("native_layer_norm_backward.default", ignores=("bias",))  # its gradient has no use for it
def _layer_norm_backward(
    grad_out: Value,
    input: Value,
    normalized_shape: Sequence[int],
    mean: Value,
    rstd: Value,
    weight: Value | None,
    output_mask: Sequence[bool],
) -> tuple[Value | None, Value | None, Value | None]:
    count = len(normalized_shape)
    outer, inner = tuple(range(input.ndim - count)), tuple(range(input.ndim - count, input.ndim))
    normal = (input - mean) * rstd
    scaled = grad_out if weight is None else grad_out * weight
    centre = np.mean(scaled, axis=inner, keepdims=True)
    slope = np.mean(scaled * normal, axis=inner, keepdims=True)
    results = (
        (scaled - centre - normal * slope) * rstd,
        np.sum(grad_out * normal, axis=outer),
        np.sum(grad_out, axis=outer),
    )
    return tuple(r if wanted else None for r, wanted in zip(results, output_mask))  # type: ignore[return-value]


_SIZES = ("C", "HxW")  # the tensor has them


@aten("native_group_norm.default", ignores=_SIZES)
def _group_norm(
    input: Value,
    weight: Value | None,
    bias: Value | None,
    N: int,
    group: int,
    eps: float,
) -> tuple[Value, Value, Value]:
    rows = np.reshape(input, (N, group, -1))
    mean = np.mean(rows, axis=2)
    centred = rows - mean[:, :, None]
    scale = nn.rsqrt(np.mean(centred * centred, axis=2) + eps)
    x = np.reshape(centred * scale[:, :, None], input.shape)
    rank = input.ndim
    return _scaled(x, _channels(weight, rank), _channels(bias, rank)), mean, scale


@aten("native_group_norm_backward.default", ignores=_SIZES)
def _group_norm_backward(
    grad_out: Value,
    input: Value,
    mean: Value,
    rstd: Value,
    weight: Value | None,
    N: int,
    group: int,
    output_mask: Sequence[bool],
) -> tuple[Value | None, Value | None, Value | None]:
    rank, axes = input.ndim, (0, *range(2, input.ndim))
    rows = np.reshape(input, (N, group, -1))
    normal = (rows - np.reshape(mean, (N, group, 1))) * np.reshape(rstd, (N, group, 1))
    scaled = grad_out if weight is None else grad_out * _channels(weight, rank)
    grads = np.reshape(scaled, (N, group, -1))
    centre = np.mean(grads, axis=2, keepdims=True)
    slope = np.mean(grads * normal, axis=2, keepdims=True)
    inner = (grads - centre - normal * slope) * np.reshape(rstd, (N, group, 1))
    results = (
        np.reshape(inner, input.shape),
        np.sum(grad_out * np.reshape(normal, input.shape), axis=axes),
        np.sum(grad_out, axis=axes),
    )
    return tuple(r if wanted else None for r, wanted in zip(results, output_mask))  # type: ignore[return-value]
