"""NumPy as a user writes it; in float64 it is what the results of all are compared with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

__all__ = ["Numpy"]

_GELU = math.sqrt(2 / math.pi)
_HALF = math.sqrt(0.5)

NUMPY_NAMES = {
    **{name: f"arc{name[1:]}" for name in ("asin", "acos", "atan", "atan2")},
    **{name: f"arc{name[1:]}" for name in ("asinh", "acosh", "atanh")},
}


class Numpy:
    """Softmax, normalisation, convolution and pooling are spelled out."""

    matmul = staticmethod(np.matmul)
    exp = staticmethod(np.exp)
    sqrt = staticmethod(np.sqrt)
    tanh = staticmethod(np.tanh)
    transpose = staticmethod(np.transpose)
    reshape = staticmethod(np.reshape)
    take = staticmethod(np.take)
    pad = staticmethod(np.pad)
    copy = staticmethod(np.ascontiguousarray)

    def function(self, name: str, *operands: Any) -> Any:
        """An elementary function by its usual name: ``atan``, ``power``, ``rsqrt``."""
        own = getattr(self, name, None)
        return own(*operands) if own else getattr(np, NUMPY_NAMES.get(name, name))(*operands)

    def rsqrt(self, x: Any) -> Any:
        return 1 / np.sqrt(x)

    def matmul_int32(self, x: Any, w: Any) -> Any:
        """The product of int8 matrices, summed in int32."""
        return x.astype(np.int32) @ w.astype(np.int32)

    def concat(self, parts: Any, axis: int) -> Any:
        return np.concatenate(parts, axis=axis)

    def slice(self, x: Any, begin: tuple[int, ...], end: tuple[int, ...]) -> Any:
        return x[tuple(slice(b, e) for b, e in zip(begin, end))]

    def sum(self, x: Any, axis: tuple[int, ...]) -> Any:
        return x.sum(axis=axis)

    def mean(self, x: Any, axis: tuple[int, ...]) -> Any:
        return x.mean(axis=axis)

    def max(self, x: Any, axis: tuple[int, ...]) -> Any:
        return x.max(axis=axis)

    def argmax(self, x: Any, axis: int) -> Any:
        return x.argmax(axis=axis)

    def relu(self, x: Any) -> Any:
        return np.maximum(x, 0)

    def sigmoid(self, x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    def silu(self, x: Any) -> Any:
        return x / (1 + np.exp(-x))

    def gelu_tanh(self, x: Any) -> Any:
        return 0.5 * x * (1 + np.tanh(_GELU * (x + 0.044715 * x * x * x)))

    def gelu(self, x: Any) -> Any:
        from scipy.special import erf

        return 0.5 * x * (1 + erf(_HALF * x))

    def softmax(self, x: Any, axis: int = -1) -> Any:
        e = np.exp(x - x.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)

    def log_softmax(self, x: Any, axis: int = -1) -> Any:
        shifted = x - x.max(axis=axis, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))

    def layer_norm(self, x: Any, gamma: Any, beta: Any) -> Any:
        mean = x.mean(axis=-1, keepdims=True)
        variance = x.var(axis=-1, keepdims=True)
        return (x - mean) / np.sqrt(variance + 1e-5) * gamma + beta

    def rms_norm(self, x: Any, gamma: Any) -> Any:
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * gamma

    def conv2d(
        self, x: Any, w: Any, *, padding: int, stride: int = 1, dilation: int = 1, groups: int = 1
    ) -> Any:
        n, c = x.shape[:2]
        out, _, kh, kw = w.shape
        padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
        window = dilation * (kh - 1) + 1, dilation * (kw - 1) + 1
        windows = sliding_window_view(padded, window, axis=(2, 3))  # [n, c, h, w, kh, kw]
        windows = windows[:, :, ::stride, ::stride, ::dilation, ::dilation]
        rows, columns = windows.shape[2:4]
        depth = c // groups * kh * kw
        matrix = windows.transpose(0, 1, 4, 5, 2, 3).reshape(n, groups, depth, rows * columns)
        return (w.reshape(groups, out // groups, depth) @ matrix).reshape(n, out, rows, columns)

    def max_pool(self, x: Any, *, kernel: int, stride: int, padding: int) -> Any:
        return _windows(x, kernel, stride, padding, -np.inf).max(axis=(4, 5))

    def avg_pool(self, x: Any, *, kernel: int, stride: int, padding: int) -> Any:
        """The mean of the elements inside the image."""
        total = _windows(x, kernel, stride, padding, 0).sum(axis=(4, 5))
        inside = _windows(np.ones((1, 1, *x.shape[2:]), x.dtype), kernel, stride, padding, 0)
        return total / inside.sum(axis=(4, 5))

    def global_avg_pool(self, x: Any) -> Any:
        return x.mean(axis=(2, 3), keepdims=True)

    def global_max_pool(self, x: Any) -> Any:
        return x.max(axis=(2, 3), keepdims=True)

    def attention(
        self, q: Any, k: Any, v: Any, *, causal: bool, shape: tuple[int, int, int, int]
    ) -> Any:
        """``shape`` is (heads, queries, keys, depth)."""
        scores = (q @ k.transpose(0, 2, 1)) * (1 / math.sqrt(shape[3]))
        if causal:
            scores = np.where(np.tri(shape[1], dtype=bool), scores, -np.inf)
        return self.softmax(scores) @ v


def _windows(x: Any, kernel: int, stride: int, padding: int, value: float) -> Any:
    width = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    padded = np.pad(x, width, constant_values=value) if padding else x
    return sliding_window_view(padded, (kernel, kernel), axis=(2, 3))[:, :, ::stride, ::stride]
