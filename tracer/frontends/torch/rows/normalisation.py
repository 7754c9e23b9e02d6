"""Normalisations, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .... import nn
from ..table import Value, aten
from .reductions import accumulated


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


@aten("_weight_norm_interface_backward.default")
def _weight_norm_backward(
    grad_w: Value, saved_v: Value, saved_g: Value, saved_norms: Value, dim: int
) -> tuple[Value, Value]:
    axes = tuple(a for a in range(saved_v.ndim) if a != dim % saved_v.ndim)
    along = np.sum(accumulated(grad_w) * saved_v, axis=axes, keepdims=True) / saved_norms
    unit = saved_v / saved_norms
    return (grad_w - unit * along) * (saved_g / saved_norms), along
