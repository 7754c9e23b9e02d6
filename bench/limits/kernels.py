"""Kernels of the kinds that are hard to bring to the machine's limit, with what they take."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import loopwright as lw
import numpy as np

__all__ = ["COST", "KERNELS", "V4", "Kernel"]

V3, V4 = "x86-64-v3", "x86-64-v4"

COST: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "silu": {V4: (13, 21), V3: (13, 20)},
    "sigmoid": {V4: (12, 20), V3: (12, 19)},
    "hard_swish": {V4: (4, 7), V3: (4, 7)},
    "gelu": {V4: (15, 22), V3: (22, 31)},
    "gelu_tanh": {V4: (16, 24), V3: (16, 23)},
    "tanh": {V4: (12, 19), V3: (20, 31)},
    "softmax": {V4: (9, 16), V3: (13, 19)},
}
"""Instructions for one vector of float32: those of the multipliers, and of any kind.

Products, fused sums, comparisons and estimates of reciprocals are the multipliers', and so are
look-ups in two registers, of which Zen begins one in the time of a multiply-add. Forms are those
of ``codegen/elementary``, and gelu by tanh is x times the logistic function."""

Array = np.ndarray[Any, Any]
Made = tuple[Callable[..., Any], tuple[Array, ...]]


@dataclass(frozen=True, slots=True)
class Kernel:
    """``make`` returns a function and its arguments. Counts are of one call: floating-point
    operations of products, elements of the formula ``cost``, look-ups, and bytes moved; or of one
    step of a recurrence, which has ``steps``."""

    name: str
    make: Callable[[], Made]
    moved: float
    flops: float = 0
    elements: int = 0
    cost: str = ""
    lookups: int = 0
    steps: int = 1
    isa: str = V4

    @property
    def label(self) -> str:
        return self.name if self.isa == V4 else f"{self.name} {self.isa}"


_rng = np.random.default_rng(1)


def _normal(*shape: int, scale: float = 1.0) -> Array:
    return scale * _rng.standard_normal(shape, np.float32)


def _hard_swish(x: Any) -> Any:
    return x * (np.clip(x + 3, 0, 6) / 6)


def _tanh_gelu(x: Any) -> Any:
    return lw.nn.gelu(x, approximate="tanh")


EPILOGUES: dict[str, Callable[[Any], Any]] = {
    "silu": lw.nn.silu,
    "hard_swish": _hard_swish,
    "gelu": lw.nn.gelu,
    "gelu_tanh": _tanh_gelu,
    "tanh": np.tanh,
    "sigmoid": lw.nn.sigmoid,
    "": lambda x: x,
}


def _conv(
    size: int, c: int, to: int, cost: str, k: int = 1, stride: int = 1, **more: Any
) -> Kernel:
    """A convolution of channels last, its bias and what follows it."""
    out = size // stride
    count = out * out * to

    def make() -> Made:
        w, b = _normal(k, k, c, to, scale=(k * k * c) ** -0.5), _normal(to)
        follow, padding = EPILOGUES[cost], 1 if k == 3 else 0

        def function(x: Any) -> Any:
            product = lw.nn.conv2d(
                x, w, strides=stride, padding=padding, data_layout="NHWC", algorithm="direct"
            )
            return follow(product + b)

        return function, (_normal(1, size, size, c),)

    flops, moved = 2 * count * k * k * c, 4 * (size * size * c + count + k * k * c * to)
    name = f"conv{k}x{k}_{size}_{c}-{to}_{cost or 'plain'}"
    return Kernel(name, make, moved, flops, count, cost, **more)


def _dense(m: int, k: int, n: int, cost: str, **more: Any) -> Kernel:
    """A layer: a product with constant weights, its bias, and what follows."""

    def make() -> Made:
        w, b, follow = _normal(k, n, scale=k**-0.5), _normal(n), EPILOGUES[cost]
        return (lambda x: follow(x @ w + b)), (_normal(m, k),)

    moved = 4 * (m * k + k * n + m * n)
    return Kernel(f"dense_{m}x{k}x{n}_{cost}", make, moved, 2 * m * k * n, m * n, cost, **more)


def _map(n: int, cost: str, **more: Any) -> Kernel:
    def make() -> Made:
        return EPILOGUES[cost], (_normal(n, scale=3),)

    return Kernel(f"map_{n}_{cost}", make, 8 * n, elements=n, cost=cost, **more)


def _softmax(rows: int, n: int, **more: Any) -> Kernel:
    def make() -> Made:
        return lw.nn.softmax, (_normal(rows, n, scale=3),)

    size = rows * n
    return Kernel(f"softmax_{rows}x{n}", make, 8 * size, elements=size, cost="softmax", **more)


def _lstm(width: int, steps: int, **more: Any) -> Kernel:
    """The states of one sequence; its own product with the input is one product for all steps."""

    def make() -> Made:
        u = _normal(width, 4 * width, scale=width**-0.5)

        def step(carry: Any, gates: Any) -> Any:
            h, c = carry
            i, f, g, o = np.split(gates + h @ u, 4)
            c = lw.nn.sigmoid(f) * c + lw.nn.sigmoid(i) * np.tanh(g)
            h = lw.nn.sigmoid(o) * np.tanh(c)
            return (h, c), h

        start = np.zeros(width, np.float32)
        return (lambda x: lw.scan(step, (start, start), x)[1]), (_normal(steps, 4 * width),)

    return _recurrence(f"lstm_{width}x{steps}", make, 4 * width * width, steps, **more)


def _gru(width: int, steps: int, **more: Any) -> Kernel:
    def make() -> Made:
        u = _normal(width, 3 * width, scale=width**-0.5)

        def step(h: Any, gates: Any) -> Any:
            along = h @ u
            z = lw.nn.sigmoid(gates[:width] + along[:width])
            r = lw.nn.sigmoid(gates[width : 2 * width] + along[width : 2 * width])
            n = np.tanh(gates[2 * width :] + r * along[2 * width :])
            h = n + z * (h - n)
            return h, h

        start = np.zeros(width, np.float32)
        return (lambda x: lw.scan(step, start, x)[1]), (_normal(steps, 3 * width),)

    return _recurrence(f"gru_{width}x{steps}", make, 3 * width * width, steps, **more)


def _recurrence(
    name: str, make: Callable[[], Made], weights: int, steps: int, **more: Any
) -> Kernel:
    """Every step reads all weights, from the level of memory that holds them."""
    return Kernel(name, make, 4 * weights, 2 * weights, steps=steps, **more)


def _cached_attention(heads: int, length: int, depth: int, **more: Any) -> Kernel:
    """One query of each head against keys and values that were kept."""

    def make() -> Made:
        def function(q: Any, keys: Any, values: Any) -> Any:
            scores = (keys @ q[:, :, None])[:, :, 0] * depth**-0.5
            return (lw.nn.softmax(scores)[:, None, :] @ values)[:, 0]

        kept = (heads, length, depth)
        return function, (_normal(heads, depth), _normal(*kept), _normal(*kept))

    size = heads * length * depth
    name = f"cached_attention_{heads}x{length}x{depth}"
    return Kernel(name, make, 8 * size, 4 * size, heads * length, "softmax", **more)


def _take(rows: int, n: int, count: int, dtype: str = "float32", **more: Any) -> Kernel:
    """Rows of a table, or single elements (``n`` of 0), by index. Rows come as whole lines."""

    def make() -> Made:
        table = _normal(rows, max(1, n)).astype(dtype)
        index = _rng.integers(0, rows, count).astype(np.int32)
        return (lambda t, i: lw.xp.take(t, i, axis=0)), (table if n else table[:, 0], index)

    size = 4 * max(1, n)
    lines = math.ceil(size / 64)
    lookups = count * lines
    moved = count * ((64 * lines if n else 0) + size + 4)
    name = f"take_{rows}x{n}_{count}_{dtype}"
    return Kernel(name, make, moved, lookups=lookups, **more)


KERNELS = (
    _conv(56, 24, 144, "silu"),
    _conv(28, 40, 240, "silu"),
    _conv(28, 240, 128, "silu"),
    _conv(56, 24, 144, "hard_swish"),
    _conv(28, 64, 64, "silu", k=3),
    _conv(56, 24, 144, "silu", isa=V3),
    _conv(224, 3, 96, "", k=4, stride=4),
    _conv(224, 3, 96, "", k=4, stride=4, isa=V3),
    _dense(128, 768, 3072, "gelu"),
    _dense(256, 64, 512, "gelu_tanh"),
    _dense(256, 64, 512, "tanh"),
    _dense(256, 64, 512, "sigmoid"),
    _map(1 << 16, "gelu"),
    _map(1 << 16, "silu"),
    _map(1 << 16, "tanh", isa=V3),
    _softmax(512, 512),
    _softmax(512, 512, isa=V3),
    _lstm(512, 32),
    _gru(256, 32),
    _cached_attention(12, 1024, 64),
    _take(4096, 0, 1 << 16),
    _take(4096, 0, 1 << 16, "int32", isa=V3),
    _take(4096, 4, 1 << 14),
    _take(10000, 64, 4096),
)
