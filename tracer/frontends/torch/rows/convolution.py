"""Convolutions, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import nn
from ..table import Value, aten

PRODUCT_COLUMNS = 48
"""Columns that a product of matrices should have, so that a vector is full: with fewer input
channels, adjacent places of the window share a product."""


def _adjoint(
    x: Value,
    weight: Value,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    sizes: Sequence[int],
    groups: int,
) -> Value:
    """Returns the transposed convolution whose result has the spatial ``sizes``."""
    more = [
        size - ((n - 1) * s - 2 * p + d * (k - 1) + 1)
        for size, n, s, p, d, k in zip(
            sizes, x.shape[2:], stride, padding, dilation, weight.shape[2:]
        )
    ]
    return nn.conv_transpose(
        x,
        weight,
        strides=tuple(stride),
        padding=tuple(padding),
        output_padding=tuple(more),
        dilation=tuple(dilation),
        groups=groups,
    )


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
    windows: dict[str, Any] = {
        "strides": tuple(stride),
        "padding": tuple(padding),
        "dilation": tuple(dilation),
        "groups": groups,
    }
    if transposed:
        windows["output_padding"] = tuple(output_padding)
        result = nn.conv_transpose(x, weight, bias, **windows)
    else:
        result = nn.conv(x, weight, bias, **windows)
    return result if batched else np.squeeze(result, 0)


@aten(
    "convolution_backward.default",
    ignores=("bias_sizes", "output_padding"),  # the gradients' shapes say both
)
def _convolution_backward(
    grad_output: Value,
    input: Value,
    weight: Value,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Value | None, Value | None, Value | None]:
    """The gradient of a convolution's input is the adjoint convolution, and the other way round;
    that of its weights a convolution with the gradient of the result as the kernel."""
    grad_input = grad_weight = grad_bias = None
    windows = (tuple(stride), tuple(padding), tuple(dilation))
    if output_mask[0] and transposed:
        step, pads, spread = windows
        grad_input = nn.conv(
            grad_output, weight, strides=step, padding=pads, dilation=spread, groups=groups
        )
    elif output_mask[0]:
        grad_input = _adjoint(grad_output, weight, *windows, input.shape[2:], groups)
    if output_mask[1]:
        image, kernel = (grad_output, input) if transposed else (input, grad_output)
        grad_weight = _weight_gradient(
            image, kernel, weight.shape[2:], stride, padding, dilation, groups
        )
    if output_mask[2]:
        grad_bias = np.sum(grad_output, axis=(0, *range(2, grad_output.ndim)))
    return grad_input, grad_weight, grad_bias


def _weight_gradient(
    image: Value,
    kernel: Value,
    window: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Value:
    """``result[o, i, a] = sum of kernel[n, o, y] * image[n, i, stride * y + dilation * a]``:
    products of matrices with channels last, one for each few adjacent places of the window."""
    last = (0, *range(2, image.ndim), 1)
    padded = np.transpose(image, last)
    if any(padding):
        padded = np.pad(padded, [(0, 0), *((p, p) for p in padding), (0, 0)])
    outs, sizes = kernel.shape[1], kernel.shape[2:]
    ins = image.shape[1] // groups
    left = np.reshape(np.transpose(kernel, last), (-1, groups, outs // groups))
    parts: list[Value] = []
    for at in np.ndindex(*window):
        place = tuple(
            slice(a * d, a * d + (size - 1) * s + 1, s)
            for a, d, s, size in zip(at, dilation, stride, sizes)
        )
        parts.append(padded[(slice(None), *place)])
    if groups > 1:
        rights = [np.reshape(part, (-1, groups, ins)) for part in parts]
        places = [np.einsum("pgo,pgi->goi", left, right) for right in rights]
        return np.reshape(np.stack(places, axis=-1), (outs, ins, *window))
    together = max(1, PRODUCT_COLUMNS // ins)
    products: list[Value] = []
    for first in range(0, len(parts), together):
        chosen = parts[first : first + together]
        wide = chosen[0] if len(chosen) == 1 else np.concatenate(chosen, axis=-1)
        product = np.matmul(np.transpose(left[:, 0]), np.reshape(wide, (-1, len(chosen) * ins)))
        products.append(np.reshape(product, (outs, len(chosen), ins)))
    result = products[0] if len(products) == 1 else np.concatenate(products, axis=1)
    return np.reshape(np.swapaxes(result, 1, 2), (outs, ins, *window))
