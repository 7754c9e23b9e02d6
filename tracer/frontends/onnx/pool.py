"""Converters of pooling."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import nn
from .conv import Ints, span_of, window_sides
from .table import Node, Value, converter


@converter("MaxPool", since=1)
@converter("AveragePool", since=1)
@converter("LpPool", since=2)
def _pool(
    node: Node,
    x: Value,
    *,
    kernel_shape: Ints,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Ints | None = None,
    p: int = 2,
    pads: Ints | None = None,
    storage_order: int = 0,
    strides: Ints | None = None,
) -> Any:
    """Each of them has some of the attributes."""
    rank, sizes = x.ndim - 2, x.shape[2:]
    step, spread = strides or (1,) * rank, dilations or (1,) * rank
    windows: dict[str, Any] = {
        "pool_size": kernel_shape,
        "strides": step,
        "padding": window_sides(auto_pad, pads, sizes, span_of(kernel_shape, spread), step),
        "dilation": spread,
        "ceil_mode": bool(ceil_mode),
    }
    if node.op_type == "AveragePool":
        return nn.avg_pool(x, count_include_pad=bool(count_include_pad), **windows)
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
