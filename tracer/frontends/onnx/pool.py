"""Converters of pooling."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import nn
from .conv import Ints, span_of, window_sides
from .table import Node, Value, converter


def _windows(
    x: Value,
    kernel_shape: Ints,
    strides: Ints | None,
    pads: Ints | None,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints | None = None,
) -> dict[str, Any]:
    """Returns the arguments of windows of ``nn``, for the attributes of ONNX."""
    rank, sizes = x.ndim - 2, x.shape[2:]
    step, spread = strides or (1,) * rank, dilations or (1,) * rank
    return {
        "pool_size": kernel_shape,
        "strides": step,
        "padding": window_sides(auto_pad, pads, sizes, span_of(kernel_shape, spread), step),
        "dilation": spread,
        "ceil_mode": bool(ceil_mode),
    }


@converter("AveragePool", since=1, options_of=_windows)
def average_pool(
    x: Value,
    *,
    kernel_shape: Ints,
    strides: Ints | None = None,
    pads: Ints | None = None,
    count_include_pad: int = 0,
    **windows: Any,
) -> Value:
    """Returns means of windows, of the elements that are there or of all."""
    return nn.avg_pool(
        x,
        count_include_pad=bool(count_include_pad),
        **_windows(x, kernel_shape, strides, pads, **windows),
    )


@converter("MaxPool", since=1)
@converter("LpPool", since=2, options_of=_windows)
def _pool(
    node: Node,
    x: Value,
    *,
    kernel_shape: Ints,
    p: int = 2,
    pads: Ints | None = None,
    storage_order: int = 0,
    strides: Ints | None = None,
    **options: Any,
) -> Any:
    """Each of them has some of the attributes."""
    rank, sizes = x.ndim - 2, x.shape[2:]
    windows = _windows(x, kernel_shape, strides, pads, **options)
    if node.op_type == "LpPool":
        return nn.lp_pool(x, p=p, **windows)
    if not node.wants(1):
        return nn.max_pool(x, **windows)
    value, place = nn.max_pool_with_indices(x, **windows)
    images = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * rank)
    if storage_order:
        # Positions count along the first spatial axis first.
        place, rest = 0, place
        for axis in reversed(range(rank)):
            place = place + rest % sizes[axis] * int(np.prod(sizes[:axis]))
            rest = rest // sizes[axis]
    return value, place + images * int(np.prod(sizes))


def _spatial(x: Value) -> Ints:
    return tuple(range(2, x.ndim))


@converter("GlobalAveragePool", since=1)
def _global_average_pool(x: Value) -> Value:
    return np.mean(x, axis=_spatial(x), keepdims=True)


@converter("GlobalMaxPool", since=1)
def _global_max_pool(x: Value) -> Value:
    return np.max(x, axis=_spatial(x), keepdims=True)


@converter("GlobalLpPool", since=2)
def _global_lp_pool(x: Value, *, p: int = 2) -> Value:
    powers = np.sum(np.abs(x) ** p, axis=_spatial(x), keepdims=True)
    return powers ** x.dtype.type(1 / p)
