"""Pooling and resizing, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .....ir.errors import UnsupportedError
from .... import nn
from ..table import Value, aten

__all__: list[str] = []


def _pair(value: Sequence[int], default: Sequence[int] = ()) -> tuple[int, int]:
    given = tuple(value) or tuple(default)
    return (given[0], given[-1])


def _batched(x: Value) -> Value:
    return x if x.ndim == 4 else np.expand_dims(x, 0)


@aten("avg_pool2d.default")
def _avg_pool2d(
    self: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    window = _pair(kernel_size)
    result = nn.avg_pool2d(
        _batched(self),
        window,
        strides=_pair(stride, window),
        padding=_pair(padding),
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad or divisor_override is not None,
    )
    if divisor_override is not None:
        if ceil_mode:
            raise UnsupportedError("avg_pool2d with divisor_override and ceil_mode")
        result = result * (math.prod(window) / divisor_override)
    return np.reshape(result, (*self.shape[:-2], *result.shape[-2:]))


@aten("max_pool2d_with_indices.default")
def _max_pool2d(
    self: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    ceil_mode: bool = False,
) -> tuple[Value, Value]:
    """The second result are positions in the plane; it is computed if it is used."""
    window, step = _pair(kernel_size), _pair(stride, kernel_size)
    pads, spread = _pair(padding), _pair(dilation)
    x = _batched(self)
    result = nn.max_pool2d(
        x, window, strides=step, padding=pads, dilation=spread, ceil_mode=ceil_mode
    )
    heights, widths = result.shape[2:]
    rows, columns = self.shape[-2:]
    places: list[Value] = []
    values: list[Value] = []
    low = -np.inf if self.dtype.kind == "f" else np.iinfo(self.dtype).min
    after = [
        max(0, (n - 1) * s + (k - 1) * d + 1 - size - p)
        for n, s, k, d, size, p in zip(
            (heights, widths), step, window, spread, (rows, columns), pads
        )
    ]
    padded = np.pad(
        x,
        [(0, 0), (0, 0), (pads[0], after[0]), (pads[1], after[1])],
        constant_values=low,
    )
    for a, b in np.ndindex(*window):
        top, left = a * spread[0], b * spread[1]
        part = padded[
            :,
            :,
            top : top + (heights - 1) * step[0] + 1 : step[0],
            left : left + (widths - 1) * step[1] + 1 : step[1],
        ]
        row = np.arange(heights) * step[0] + top - pads[0]
        column = np.arange(widths) * step[1] + left - pads[1]
        inside = ((row >= 0) & (row < rows))[:, None] & ((column >= 0) & (column < columns))
        values.append((part == result) & inside)
        places.append(row[:, None] * columns + column)
    index = np.broadcast_to(np.zeros((), np.int64), result.shape)
    for hit, place in zip(reversed(values), reversed(places)):
        index = np.where(hit, place, index)
    shape = (*self.shape[:-2], heights, widths)
    return np.reshape(result, shape), np.reshape(index, shape)


@aten("_adaptive_avg_pool2d.default")
def _adaptive_avg_pool2d(self: Value, output_size: Sequence[int]) -> Value:
    """Means over windows whose sizes differ by at most one, as two products with matrices."""
    rows, columns = self.shape[-2:]
    if tuple(output_size) == (1, 1):
        return np.mean(self, axis=(-2, -1), keepdims=True)
    if rows % output_size[0] == 0 and columns % output_size[1] == 0:
        window = (rows // output_size[0], columns // output_size[1])
        return _avg_pool2d(self, window)
    left = _window_means(rows, output_size[0], self.dtype)
    right = _window_means(columns, output_size[1], self.dtype)
    return np.matmul(np.matmul(left, self), right.T)


def _window_means(size: int, count: int, dtype: Any) -> Any:
    means = np.zeros((count, size), dtype)
    for i in range(count):
        first, last = i * size // count, -(-(i + 1) * size // count)
        means[i, first:last] = 1 / (last - first)
    return means


@aten("_adaptive_avg_pool2d_backward.default")
def _adaptive_avg_pool2d_backward(grad_output: Value, self: Value) -> Value:
    rows, columns = self.shape[-2:]
    if tuple(grad_output.shape[-2:]) == (1, 1):
        return np.broadcast_to(grad_output * (1 / (rows * columns)), self.shape)
    left = _window_means(rows, grad_output.shape[-2], self.dtype)
    right = _window_means(columns, grad_output.shape[-1], self.dtype)
    return np.matmul(np.matmul(left.T, grad_output), right)
