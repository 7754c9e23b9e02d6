"""Small kernels of every operator and of every kind that fusion makes, of odd sizes: what schedules
are tried on."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import loopwright as lw
import numpy as np
from loopwright import nn
from loopwright.codegen.target import Target
from loopwright.driver.pipeline import kernels_of, lower_module, preferences_of
from loopwright.ir.loop.prim import PrimFunc

from bench.gate.operator_kernels import MAX_WORK, draw_kernels, draw_kind, work_of

__all__ = ["draw_kernel"]

SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 20, 32, 33, 48, 65, 100)
FLOATS = ("float32", "float32", "float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")
OF_OPERATORS = 0.7  # share of the kernels that are drawn from operators, the others from programs
Program = tuple[Callable[..., Any], Sequence[Any]]


class Sizes:
    """What a program draws: sizes, dtypes, specs of arrays."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def one(self, most: int = 100) -> int:
        return self.rng.choice([s for s in SIZES if s <= most])

    def pick(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def float(self, *shape: int) -> Any:
        return self.array(self.rng.choice(FLOATS), *shape)

    def any(self, *shape: int) -> Any:
        return self.array(self.rng.choice((*FLOATS, *INTEGERS)), *shape)

    def array(self, dtype: str, *shape: int) -> Any:
        return np.zeros(shape, dtype)

    def constant(self, like: Any, *shape: int) -> Any:
        made = np.random.default_rng(self.rng.randrange(1 << 30)).integers(-9, 10, shape)
        return made.astype(like.dtype)


# -- programs --------------------------------------------------------------------------------------


def product(s: Sizes) -> Program:
    m, k, n = s.one(), s.one(), s.one()
    x = s.any(m, k)
    w = np.zeros((k, n), x.dtype)
    if s.pick(True, False):
        c = s.constant(x, k, n)
        return lambda x: x @ c, (x,)
    return s.pick(lambda x, w: x @ w, lambda x, w: np.maximum(x @ w, 0) + x[:, :1]), (x, w)


def product_turned(s: Sizes) -> Program:
    m, k, n = s.one(), s.one(), s.one()
    x = s.float(m, k)
    w = np.zeros((n, k), x.dtype)
    b = np.zeros(n, x.dtype)
    return s.pick(
        lambda x, w, b: x @ w.T + b,
        lambda x, w, b: (x @ w.T).T,
        lambda x, w, b: nn.relu(x @ w.T * b),
    ), (x, w, b)


def product_of_bytes(s: Sizes) -> Program:
    m, k, n = s.one(), s.one(), s.one()
    x = s.array(s.pick("int8", "uint8"), m, k)
    w = s.array(s.pick("int8", "uint8"), k, n)
    c = s.constant(s.array("int8"), k, n)
    if s.pick(True, False):
        return lambda x: x.astype(np.int32) @ c.astype(np.int32), (x,)
    return lambda x, w: x.astype(np.int32) @ w.astype(np.int32), (x, w)


def products(s: Sizes) -> Program:
    b, m, k, n = s.pick(1, 2, 3, 7), s.one(33), s.one(48), s.one(33)
    x = s.float(b, m, k)
    w = np.zeros(s.pick((b, k, n), (b, n, k)), x.dtype)
    if w.shape == (b, k, n):
        return lambda x, w: np.matmul(x, w), (x, w)
    return lambda x, w: np.einsum("bmk,bnk->bmn", x, w), (x, w)


def matrix_vector(s: Sizes) -> Program:
    m, k = s.one(), s.one()
    x = s.any(m, k)
    return s.pick(
        (lambda x, v: x @ v, (x, np.zeros(k, x.dtype))),
        (lambda x, v: v @ x, (x, np.zeros(m, x.dtype))),
        (lambda x, v: np.outer(v, v) * x[0, 0], (x, np.zeros(m, x.dtype))),
    )


def gram(s: Sizes) -> Program:
    x = s.pick(s.float(s.one(48), s.one(48)), s.float(s.one(96), s.one(12)))
    return s.pick(
        lambda x: x @ x.T,
        lambda x: x.T @ x,
        lambda x: x @ x.T + 1,
        lambda x: x @ x.T - x[:, 0],
        lambda x: np.abs(x[:, None] - x[None]).sum(axis=-1),
    ), (x,)


def reduction(s: Sizes) -> Program:
    shape = [s.one(48) for _ in range(s.pick(1, 2, 2, 3))]
    x = s.any(*shape)
    axis = s.pick(None, *range(len(shape)), *range(-1, -len(shape) - 1, -1))
    if len(shape) == 3 and s.pick(True, False):
        axis = s.pick((0, 1), (1, 2), (0, 2))
    keep = s.pick(True, False)
    name = s.pick("sum", "max", "min", "sum", "max", "prod", "any", "all")
    if name == "prod":  # of random numbers it is soon none that floats hold
        return lambda x: np.prod(x // 2 * 2 + 1, axis=axis, keepdims=keep), (x,)
    if s.pick(True, False, False):
        return lambda x: getattr(np, name)(x * x + 1, axis=axis, keepdims=keep), (x,)
    return lambda x: getattr(np, name)(x, axis=axis, keepdims=keep), (x,)


def arg_reduction(s: Sizes) -> Program:
    x = s.any(s.one(), s.one())
    axis = s.pick(0, 1, None)
    return s.pick(lambda x: np.argmax(x, axis=axis), lambda x: np.argmin(x, axis=axis)), (x,)


def moments(s: Sizes) -> Program:
    x = s.float(s.one(), s.one())
    axis = s.pick(0, 1)
    return s.pick(
        lambda x: np.var(x, axis=axis),
        lambda x: np.std(x, axis=axis, keepdims=True),
        lambda x: (x - x.mean(axis=axis, keepdims=True)) * 2,
        lambda x: np.abs(x).max(axis=axis, keepdims=True) + x,
    ), (x,)


def softmax(s: Sizes) -> Program:
    x = s.float(s.one(), s.one())
    axis = s.pick(0, 1, 1)
    return s.pick(
        lambda x: nn.softmax(x, axis=axis),
        lambda x: nn.log_softmax(x, axis=axis),
        lambda x: np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True),
    ), (x,)


def layer_norm(s: Sizes) -> Program:
    m, n = s.one(), s.one()
    x = s.float(m, n)
    axis = s.pick(0, 1, 1)
    g = np.zeros((m, n)[axis], x.dtype)
    if axis == 1:
        return lambda x, g: nn.layer_norm(x, g, g), (x, g)
    return lambda x, g: nn.layer_norm(x, axis=0), (x, g)


def attention(s: Sizes) -> Program:
    t, d = s.one(33), s.one(33)
    q = s.float(t, d)

    def run(q: Any, k: Any, v: Any) -> Any:
        return nn.softmax(q @ k.T) @ v

    return run, (q, np.zeros((s.one(33), d), q.dtype), np.zeros((0, d), q.dtype))


def window(s: Sizes) -> Program:
    n, c, h, w = s.pick(1, 2), s.pick(1, 3, 8, 17), s.pick(7, 9, 16), s.pick(7, 8, 17)
    size, step, pad = s.pick(2, 3), s.pick(1, 2), s.pick(0, 1)
    x = s.array("float32", n, c, h, w)
    which = s.pick(nn.max_pool2d, nn.avg_pool2d)
    return lambda x: which(x, size, strides=step, padding=pad), (x,)


def depthwise(s: Sizes) -> Program:
    c, h, w, size = s.pick(1, 3, 8, 17, 33), s.pick(7, 9, 12), s.pick(7, 8, 17), s.pick(1, 3, 5)
    x = s.array("float32", 1, c, h, w)
    f = np.zeros((c, 1, size, size), np.float32)
    pad, step = s.pick(0, size // 2), s.pick(1, 1, 2)
    return lambda x, f: nn.conv2d(x, f, padding=pad, strides=step, groups=c), (x, f)


def convolution(s: Sizes) -> Program:
    c, o, h, w = s.pick(1, 3, 8), s.pick(1, 4, 16, 17), s.pick(5, 7), s.pick(5, 8, 9)
    x = s.array("float32", 1, c, h, w)
    f = np.zeros((o, c, 3, 3), np.float32)
    b = np.zeros((o, 1, 1), np.float32)
    pad, step = s.pick(0, 1), s.pick(1, 1, 2)
    return lambda x, f, b: nn.relu(nn.conv2d(x, f, padding=pad, strides=step) + b), (x, f, b)


def elementwise(s: Sizes) -> Program:
    m, n = s.one(), s.one()
    x, y = s.float(m, n), s.float(n)
    return s.pick(
        lambda x, y: np.exp(x) * y + 1,
        lambda x, y: np.where(x > y, x, y * 2),
        lambda x, y: (x > y) & (x < 0.5),
        lambda x, y: np.tanh(x[:, ::-1]) - y,
        lambda x, y: (x * 100).astype(np.int32) + 3,
        lambda x, y: (x > 0).astype(np.int8),
    ), (x, y)


def integers(s: Sizes) -> Program:
    m, n = s.one(), s.one()
    x = s.array(s.pick(*INTEGERS), m, n)
    return s.pick(
        lambda x: x * 3 + 1,
        lambda x: x // 7 + x % 5,
        lambda x: (x & 15) ^ (x >> 1),
        lambda x: x.astype(np.float32) * 0.5,
        lambda x: np.clip(x, 2, 50).astype(np.int64),
        lambda x: (x == 3) | (x > 20),
    ), (x,)


def moved(s: Sizes) -> Program:
    a, b, c = s.one(33), s.one(33), s.one(17)
    x = s.any(a, b, c)
    order = s.pick((0, 2, 1), (1, 0, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1))
    return s.pick(
        lambda x: np.transpose(x, order) * 2,
        lambda x: np.transpose(x, order) + x.reshape(np.transpose(x, order).shape),
        lambda x: x.reshape(a * b, c).T + 1,
        lambda x: np.flip(x, axis=1) * 3,
        lambda x: x[:, ::2, 1:] + 1,
        lambda x: np.roll(x, 3, axis=-1) + 1,
    ), (x,)


def padded(s: Sizes) -> Program:
    x = s.any(s.one(48), s.one(48))
    p, q = s.pick(0, 1, 3), s.pick(1, 2, 5)
    return s.pick(
        lambda x: np.pad(x, ((p, q), (q, p))) + 1,
        lambda x: np.tile(x, (2, 1)) + 1,
        lambda x: np.concatenate([x, x * 2, x[:, :1]], axis=1),
        lambda x: np.concatenate([x + 1, x * 2], axis=0),
        lambda x: np.stack([x, x + 1], axis=2),
        lambda x: np.repeat(x, 3, axis=1) * 2,
        lambda x: np.tril(x) + 1,
        lambda x: np.where(np.arange(x.shape[1]) < 3, x, 0).sum(axis=1),
        lambda x: np.pad(x, ((p, q), (q, p))).sum(axis=0),
    ), (x,)


def gathered(s: Sizes) -> Program:
    m, n, k = s.one(), s.one(), s.one()
    x = s.any(m, n)
    at = s.array("int64", k)
    return s.pick(
        lambda x, at: np.take(x, at, axis=0) + 1,
        lambda x, at: np.take(x, at, axis=0).sum(axis=0),
        lambda x, at: np.take(x, at, axis=0) * x[0],
    ), (x, at)


def bools(s: Sizes) -> Program:
    x = s.array("bool", s.one(), s.one())
    axis = s.pick(0, 1, None)
    return s.pick(
        lambda x: np.any(x, axis=axis),
        lambda x: np.all(x, axis=axis),
        lambda x: x.sum(axis=axis),
        lambda x: ~x,
        lambda x: x ^ x[:1],
        lambda x: np.where(x, 3.0, 1.0),
        lambda x: x.T & True,
    ), (x,)


def several(s: Sizes) -> Program:
    x = s.float(s.one(), s.one())
    return s.pick(
        lambda x: (x.sum(axis=1), x - x.sum(axis=1, keepdims=True)),
        lambda x: (x.max(axis=0), x.min(axis=0)),
        lambda x: (x * 2, x.sum(axis=0)),
    ), (x,)


PROGRAMS = (
    product, product, product, product_turned, product_of_bytes, product_of_bytes, products,
    matrix_vector, gram, reduction, reduction, reduction, arg_reduction, moments, softmax, softmax,
    layer_norm, layer_norm, attention, window, depthwise, convolution, elementwise, integers,
    moved, moved, padded, padded, gathered, bools, several,
)  # fmt: skip


def draw_kernel(rng: random.Random) -> tuple[str, PrimFunc]:
    """A kernel of a random program or of a random operator, of at most ``MAX_WORK`` scalar
    evaluations, and its kind: the program's or the operator's name."""
    while True:
        if rng.random() < OF_OPERATORS:
            kind = draw_kind(rng)
            fitting = draw_kernels(rng, kind)
        else:
            kind, fitting = _of_program(rng)
        if fitting:
            return kind, rng.choice(fitting)


def _of_program(rng: random.Random) -> tuple[str, list[PrimFunc]]:
    make = rng.choice(PROGRAMS)
    function, args = make(Sizes(rng))
    if make is attention:
        args = (*args[:2], np.zeros_like(args[1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = lw.compile(function).trace(*args)
        lowered = lower_module(traced.module, preferences_of(None, Target.host()))
        prims = list(kernels_of(lowered).values())
    return make.__name__, [p for p in prims if work_of(p) <= MAX_WORK]
