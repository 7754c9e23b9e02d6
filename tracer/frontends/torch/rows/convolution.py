"""Convolutions, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import nn
from ..derivatives import pulled_back
from ..table import Value, aten
from .pooling import per_axis
from .reductions import accumulated


@aten("convolution.default")
def _convolution(
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Value:
    batched = input.ndim == weight.ndim
    x = input if batched else np.expand_dims(input, 0)
    axes = weight.ndim - 2  # one number is for all of them
    windows: dict[str, Any] = {
        "strides": per_axis(stride, axes),
        "padding": per_axis(padding, axes),
        "dilation": per_axis(dilation, axes),
        "groups": groups,
    }
    if transposed:
        windows["output_padding"] = per_axis(output_padding, axes)
        result = nn.conv_transpose(x, weight, bias, **windows)
    else:
        result = nn.conv(x, weight, bias, **windows)
    return result if batched else np.squeeze(result, 0)


@aten(
    "convolution_backward.default",
    ignores=("bias_sizes",),  # that of the gradient's channels
)
def _convolution_backward(
    grad_output: Value,
    input: Value,
    weight: Value,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Value | None, ...]:
    windows = (stride, padding, dilation, transposed, output_padding, groups)
    wanted = [n for n in range(2) if output_mask[n] and not (transposed and n == 0)]

    def convolved(*given: Value) -> Value:
        operands = [input, weight]
        for n, value in zip(wanted, given, strict=True):
            operands[n] = value
        return _convolution(*operands, None, *windows)

    pulled = pulled_back(convolved, grad_output, *((input, weight)[n] for n in wanted))
    grads: list[Value | None] = [None, None, None]
    for n, grad in zip(wanted, pulled, strict=True):
        grads[n] = grad
    if transposed and output_mask[0]:
        # One convolution: the transposes of its phases would be added in the gradient's dtype.
        image = _convolution(
            grad_output, weight, None, stride, padding, dilation, False, (), groups
        )
        fits = max(output_padding, default=0) < min(stride)
        grads[0] = image if fits else image[tuple(map(slice, input.shape))]
    if output_mask[2]:
        grads[2] = np.sum(accumulated(grad_output), axis=(0, *range(2, grad_output.ndim)))
    return tuple(grads)
