"""The functions of ``lw.nn`` by NumPy alone, in the dtype of their first argument."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def gelu(x: Array) -> Array:
    return x * (1 + erf(x / np.sqrt(x.dtype.type(2)))) / 2


def erf(x: Array) -> Array:
    from math import erf as one

    return np.vectorize(one, otypes=[x.dtype])(x)


def softmax(x: Array, axis: int = -1) -> Array:
    raised = np.exp(x - x.max(axis, keepdims=True))
    return raised / raised.sum(axis, keepdims=True)


def log_softmax(x: Array, axis: int = -1) -> Array:
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def layer_norm(x: Array, axis: int = -1, epsilon: float = 1e-5) -> Array:
    centred = x - x.mean(axis, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis, keepdims=True) + epsilon)


def rms_norm(x: Array, axis: int = -1, epsilon: float = 1e-5) -> Array:
    return x / np.sqrt((x * x).mean(axis, keepdims=True) + epsilon)


def conv2d(x: Array, w: Array, *, strides: int, padding: int, dilation: int, groups: int) -> Array:
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    channels, height, width = w.shape[1:]
    views = _windows(x, (height, width), strides, dilation)
    n, _, rows, columns = views.shape[:4]
    views = views.reshape(n, groups, channels, rows, columns, height, width)
    w = w.reshape(groups, -1, channels, height, width)
    return np.einsum("ngcijhw,gochw->ngoij", views, w).reshape(n, -1, rows, columns)


def max_pool2d(x: Array, pool_size: int, strides: int) -> Array:
    return _windows(x, (pool_size, pool_size), strides, 1).max((-1, -2))


def avg_pool2d(x: Array, pool_size: int, strides: int) -> Array:
    return _windows(x, (pool_size, pool_size), strides, 1).mean((-1, -2))


def _windows(x: Array, size: tuple[int, int], strides: int, dilation: int) -> Array:
    spread = [dilation * (s - 1) + 1 for s in size]
    views = np.lib.stride_tricks.sliding_window_view(x, spread, (-2, -1))
    return views[..., ::strides, ::strides, ::dilation, ::dilation]


def one_hot(indices: Array, depth: int) -> Array:
    return (indices[..., None] == np.arange(depth)).astype(np.float32)
