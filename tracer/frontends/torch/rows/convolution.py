"""Convolutions, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .....ir.errors import UnsupportedError
from .... import nn
from ..table import Value, aten

__all__: list[str] = []


def _with_bias(result: Value, bias: Value | None) -> Value:
    return result if bias is None else result + np.reshape(bias, (-1,) + (1,) * (result.ndim - 2))


def _conv(
    x: Value,
    weight: Value,
    stride: Sequence[int],
    pads: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    groups: int,
) -> Value:
    """Convolution over one or two axes, with a width of padding on each side of them."""
    rank = len(stride)
    if rank == 1:
        x, weight = np.expand_dims(x, 2), np.expand_dims(weight, 2)
        stride, pads, dilation = (1, *stride), ((0, 0), *pads), (1, *dilation)
    elif rank != 2:
        raise UnsupportedError("convolution over three axes is not supported yet")
    (top, bottom), (left, right) = pads
    result = nn.conv2d(
        x,
        weight,
        strides=tuple(stride),
        padding=(top, left, bottom, right),
        dilation=tuple(dilation),
        groups=groups,
    )
    return np.squeeze(result, 2) if rank == 1 else result


def _spread(x: Value, axis: int, step: int) -> Value:
    """Returns ``x`` with ``step - 1`` zeros between the elements of an axis."""
    if step == 1 or x.shape[axis] == 1:
        return x
    length = x.shape[axis]
    wide = np.expand_dims(x, axis + 1)
    padded = np.pad(wide, [(0, step - 1 if a == axis + 1 else 0) for a in range(wide.ndim)])
    shape = (*x.shape[:axis], length * step, *x.shape[axis + 1 :])
    return np.reshape(padded, shape)[(slice(None),) * axis + (slice(0, (length - 1) * step + 1),)]


def _transposed(
    x: Value,
    weight: Value,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    sizes: Sequence[int],
    groups: int,
) -> Value:
    """Returns the adjoint of a convolution with ``weight`` (in channels of the result of the
    adjoint, per group, second), whose input had ``sizes``."""
    window = tuple(weight.shape[2:])
    pads: list[tuple[int, int]] = []
    for axis, (step, pad, spread, k, size) in enumerate(
        zip(stride, padding, dilation, window, sizes)
    ):
        x = _spread(x, 2 + axis, step)
        reach = spread * (k - 1)
        pads.append((reach - pad, size + pad - x.shape[2 + axis]))
    negative = [(min(a, 0), min(b, 0)) for a, b in pads]
    if any(a or b for a, b in negative):
        cut = tuple(slice(-a, s + b) for s, (a, b) in zip(x.shape[2:], negative))
        x, pads = x[(slice(None), slice(None), *cut)], [(max(a, 0), max(b, 0)) for a, b in pads]
    outs, ins = weight.shape[0] // groups, weight.shape[1]
    grouped = np.reshape(weight, (groups, outs, ins, *window))
    adjoint = np.reshape(np.swapaxes(grouped, 1, 2), (groups * ins, outs, *window))
    adjoint = np.flip(adjoint, tuple(range(2, 2 + len(window))))
    return _conv(x, adjoint, (1,) * len(stride), pads, dilation, groups)


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
    if transposed:
        sizes = [
            (n - 1) * s - 2 * p + d * (k - 1) + o + 1
            for n, s, p, d, k, o in zip(
                x.shape[2:], stride, padding, dilation, weight.shape[2:], output_padding
            )
        ]
        result = _transposed(x, weight, stride, padding, dilation, sizes, groups)
    else:
        result = _conv(x, weight, stride, [(p, p) for p in padding], dilation, groups)
    result = _with_bias(result, bias)
    return result if batched else np.squeeze(result, 0)


@aten("convolution_backward.default")
def _convolution_backward(
    grad_output: Value,
    input: Value,
    weight: Value,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Value | None, Value | None, Value | None]:
    """The gradient of a convolution's input is the adjoint convolution, and the other way round;
    that of its weights a convolution with the gradient of the result as the kernel."""
    grad_input = grad_weight = grad_bias = None
    pads = [(p, p) for p in padding]
    if output_mask[0]:
        if transposed:
            grad_input = _conv(grad_output, weight, stride, pads, dilation, groups)
        else:
            sizes = input.shape[2:]
            grad_input = _transposed(grad_output, weight, stride, padding, dilation, sizes, groups)
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
    """``result[o, i, a] = sum of kernel[n, o, y] * image[n, i, stride * y + dilation * a]``: one
    product of matrices per place in the window."""
    rank = len(window)
    padded = image
    if any(padding):
        padded = np.pad(image, [(0, 0), (0, 0), *((p, p) for p in padding)])
    n, outs, *sizes = kernel.shape
    ins = image.shape[1] // groups
    left = np.reshape(kernel, (n, groups, outs // groups, -1))
    places: list[Value] = []
    for at in np.ndindex(*window):
        part = tuple(
            slice(a * d, a * d + (size - 1) * s + 1, s)
            for a, d, s, size in zip(at, dilation, stride, sizes)
        )
        right = np.reshape(padded[(slice(None), slice(None), *part)], (n, groups, ins, -1))
        places.append(np.einsum("ngop,ngip->goi", left, right))
    result = places[0][..., None] if len(places) == 1 else np.stack(places, axis=-1)
    return np.reshape(result, (outs, ins, *window[:rank]))
