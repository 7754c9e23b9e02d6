"""``jax.numpy`` and ``jax.nn`` under one ``jit``."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .of_numpy import NUMPY_NAMES

__all__ = ["Jax"]


class Jax:
    """The array that XLA is given."""

    matmul = staticmethod(jnp.matmul)
    exp = staticmethod(jnp.exp)
    sqrt = staticmethod(jnp.sqrt)
    tanh = staticmethod(jnp.tanh)
    transpose = staticmethod(jnp.transpose)
    reshape = staticmethod(jnp.reshape)
    pad = staticmethod(jnp.pad)
    relu = staticmethod(jax.nn.relu)
    sigmoid = staticmethod(jax.nn.sigmoid)
    silu = staticmethod(jax.nn.silu)
    softmax = staticmethod(jax.nn.softmax)
    log_softmax = staticmethod(jax.nn.log_softmax)

    def function(self, name: str, *operands: Any) -> Any:
        own = {"rsqrt": jax.lax.rsqrt}.get(name, getattr(self, name, None))
        return own(*operands) if own else getattr(jnp, NUMPY_NAMES.get(name, name))(*operands)

    def matmul_int32(self, x: Any, w: Any) -> Any:
        return jnp.matmul(x, w, preferred_element_type=jnp.int32)

    def copy(self, x: Any) -> Any:
        return x  # results are contiguous

    def take(self, x: Any, index: Any, axis: int) -> Any:
        return jnp.take(x, index, axis=axis, mode="clip")

    def concat(self, parts: Any, axis: int) -> Any:
        return jnp.concatenate(parts, axis=axis)

    def slice(self, x: Any, begin: tuple[int, ...], end: tuple[int, ...]) -> Any:
        return jax.lax.slice(x, begin, end)

    def sum(self, x: Any, axis: tuple[int, ...]) -> Any:
        return x.sum(axis=axis)

    def mean(self, x: Any, axis: tuple[int, ...]) -> Any:
        return x.mean(axis=axis)

    def max(self, x: Any, axis: tuple[int, ...]) -> Any:
        return x.max(axis=axis)

    def argmax(self, x: Any, axis: int) -> Any:
        return x.argmax(axis=axis)

    def gelu_tanh(self, x: Any) -> Any:
        return jax.nn.gelu(x, approximate=True)

    def gelu(self, x: Any) -> Any:
        return jax.nn.gelu(x, approximate=False)

    def layer_norm(self, x: Any, gamma: Any, beta: Any) -> Any:
        return jax.nn.standardize(x, axis=-1, epsilon=1e-5) * gamma + beta

    def rms_norm(self, x: Any, gamma: Any) -> Any:
        return x * jax.lax.rsqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * gamma

    def conv2d(
        self, x: Any, w: Any, *, padding: int, stride: int = 1, dilation: int = 1, groups: int = 1
    ) -> Any:
        return jax.lax.conv_general_dilated(
            x,
            w,
            (stride, stride),
            [(padding, padding)] * 2,
            rhs_dilation=(dilation, dilation),
            feature_group_count=groups,
        )

    def max_pool(self, x: Any, *, kernel: int, stride: int, padding: int) -> Any:
        return _pool(x, -np.inf, jax.lax.max, kernel, stride, padding)

    def avg_pool(self, x: Any, *, kernel: int, stride: int, padding: int) -> Any:
        total = _pool(x, 0.0, jax.lax.add, kernel, stride, padding)
        return total / _pool(jnp.ones_like(x[:1, :1]), 0.0, jax.lax.add, kernel, stride, padding)

    def global_avg_pool(self, x: Any) -> Any:
        return x.mean(axis=(2, 3), keepdims=True)

    def global_max_pool(self, x: Any) -> Any:
        return x.max(axis=(2, 3), keepdims=True)

    def attention(
        self, q: Any, k: Any, v: Any, *, causal: bool, shape: tuple[int, int, int, int]
    ) -> Any:
        # XLA makes better code of this than of ``jax.nn.dot_product_attention``.
        scores = (q @ k.transpose(0, 2, 1)) * (1 / math.sqrt(shape[3]))
        if causal:
            scores = jnp.where(jnp.tri(shape[1], dtype=bool), scores, -jnp.inf)
        return jax.nn.softmax(scores) @ v


def _pool(x: Any, start: float, join: Any, kernel: int, stride: int, padding: int) -> Any:
    pads = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    window, steps = (1, 1, kernel, kernel), (1, 1, stride, stride)
    return jax.lax.reduce_window(x, start, join, window, steps, pads)
