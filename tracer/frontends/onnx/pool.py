"""Converters of pooling."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import nn
from .conv import Ints, span_of, window_sides
from .table import Node, Value, converter


def _windows(
    x: Value,
    auto_pad: str,
    kernel_shape: Ints,
    pads: Ints | None,
    strides: Ints | None,
    dilations: Ints | None = None,
) -> dict[str, Any]:
    """Returns the windows of a pooling as ``lw.nn`` names them."""
    rank = x.ndim - 2
    step, spread = strides or (1,) * rank, dilations or (1,) * rank
    sides = window_sides(auto_pad, pads, x.shape[2:], span_of(kernel_shape, spread), step)
    return {"pool_size": kernel_shape, "strides": step, "padding": sides, "dilation": spread}


@converter("MaxPool", since=1)
def _max_pool(
    node: Node,
    x: Value,
    *,
    kernel_shape: Ints,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints | None = None,
    pads: Ints | None = None,
    storage_order: int = 0,
    strides: Ints | None = None,
) -> Any:
    windows = _windows(x, auto_pad, kernel_shape, pads, strides, dilations)
    if not node.wants(1):
        return nn.max_pool(x, ceil_mode=bool(ceil_mode), **windows)
    value, place = nn.max_pool_with_indices(x, ceil_mode=bool(ceil_mode), **windows)
    sizes = x.shape[2:]
    images = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * len(sizes))
    if storage_order:
        # Positions count along the first spatial axis first.
        place, rest = 0, place
        for axis in reversed(range(len(sizes))):
            place = place + rest % sizes[axis] * int(np.prod(sizes[:axis]))
            rest = rest // sizes[axis]
    return value, place + images * int(np.prod(sizes))


@converter("AveragePool", since=1)
def _average_pool(
    x: Value,
    *,
    kernel_shape: Ints,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Value:
    windows = _windows(x, auto_pad, kernel_shape, pads, strides, dilations)
    counted = bool(count_include_pad)
    return nn.avg_pool(x, count_include_pad=counted, ceil_mode=bool(ceil_mode), **windows)


@converter("LpPool", since=2)
def _lp_pool(
    x: Value,
    *,
    kernel_shape: Ints,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints | None = None,
    p: int = 2,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Value:
    windows = _windows(x, auto_pad, kernel_shape, pads, strides, dilations)
    return nn.lp_pool(x, p=p, ceil_mode=bool(ceil_mode), **windows)


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
