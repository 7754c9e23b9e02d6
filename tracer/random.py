"""Samplers of ``lw.random`` on traced arrays; ``loopwright/random.py`` offers them to users."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..ir.dims import Dim, IntExpr, as_int
from ..ir.dtype import BOOL, DTYPES, FLOAT64, INT64, UINT64, DType
from ..ir.errors import LoopwrightTypeError, LoopwrightValueError
from ..ir.ops.random import DISTRIBUTIONS, LANES, Arithmetic
from .emitting import dtype_argument, emit, lift
from .proxy import Proxy
from .shaping import broadcast_shapes, reshape, shape_argument

UINT32 = DTYPES["uint32"]
_SAMPLES, _SPLIT, _FOLD = range(3)
"""Streams of a key: what is drawn, keys made by ``split``, keys made by ``fold_in``."""


def _drawn(
    key: Any,
    distribution: str,
    shape: tuple[IntExpr, ...],
    dtype: DType,
    *params: Proxy,
    stream: int = _SAMPLES,
    start: Any = 0,
) -> Proxy:
    """Returns values of ``distribution``; parameters are scalars."""
    words = lift(key)
    if words.type.short != "uint32[4]":
        raise LoopwrightTypeError(
            f"a key is uint32[4], not {words.type.short}",
            hint="lw.random.key(0), and one row of what lw.random.split returns",
        )
    if any(isinstance(s, Dim) for s in shape):
        raise LoopwrightTypeError(
            f"random numbers of the symbolic shape ({', '.join(map(str, shape))})",
            hint="a shape of ints, such as x.shape of a compiled call",
        )
    if any(as_int(s) < 0 for s in shape):
        raise LoopwrightValueError(f"negative sizes in the shape {shape}")
    values = emit(
        "random",
        words,
        lift(start, UINT32),
        *params,
        distribution=distribution,
        generator="philox",
        size=prod(shape),
        dtype=dtype.name,
        stream=stream,
    )
    return reshape(values, shape)


def _float(dtype: Any) -> DType:
    target = dtype_argument(dtype)
    if not target.is_float:
        raise LoopwrightTypeError(
            f"random floats of dtype {target}", hint="lw.random.integers for whole numbers"
        )
    return target


def shape_of(shape: Any, *params: Any) -> tuple[int, ...]:
    """The shape of a result: the one given, or that of the parameters together."""
    shapes = [lift(p).shape for p in params]
    if shape is None:
        return broadcast_shapes(*shapes)  # type: ignore[return-value]
    wanted: Any = shape_argument(shape)
    if any(shapes) and broadcast_shapes(wanted, *shapes) != wanted:
        raise LoopwrightValueError(f"parameters of shapes {shapes} do not broadcast to {wanted}")
    return wanted


def split(key: Any, *, num: int) -> Proxy:
    """Returns ``num`` new keys, in rows."""
    wanted = int(num)
    blocks = -(-wanted // LANES)
    words = _drawn(key, "bits", (blocks, 4, LANES), UINT32, stream=_SPLIT)
    keys = reshape(emit("transpose", words, axes=(0, 2, 1)), (blocks * LANES, 4))
    return keys[:wanted]


def fold_in(key: Any, data: Any) -> Proxy:
    """Returns a new key for an integer."""
    number = lift(data)
    if number.ndim or not number.type.dtype.is_integer:
        raise LoopwrightTypeError(f"fold_in: an int is needed, not {number.type.short}")
    words = _drawn(key, "bits", (4, LANES), UINT32, stream=_FOLD, start=number)
    return words[:, 0]


def bits(key: Any, *, shape: Any, dtype: Any) -> Proxy:
    """Returns random words."""
    return _drawn(key, "bits", shape_of(shape), dtype_argument(dtype))


def _located(key: Any, name: str, shape: Any, dtype: Any, first: Any, second: Any) -> Proxy:
    """Values with two parameters: of the kernel if they are scalars, None if they are left out."""
    target = _float(dtype)
    if first is None:
        return _drawn(key, name, shape_of(shape), target)
    wanted = shape_of(shape, first, second)
    params = [lift(p, target) for p in (first, second)]
    if all(p.ndim == 0 for p in params):
        return _drawn(key, name, wanted, target, *params)
    standard = _drawn(key, name, wanted, target)
    low, scale = params
    return low + standard * (scale - low if name == "uniform" else scale)


def uniform(key: Any, low: Any = None, high: Any = None, *, shape: Any, dtype: Any) -> Proxy:
    """Returns floats in [low, high), or in [0, 1)."""
    return _located(key, "uniform", shape, dtype, low, high)


def normal(key: Any, mean: Any = None, std: Any = None, *, shape: Any, dtype: Any) -> Proxy:
    """Returns numbers of a normal distribution, by default the standard one."""
    return _located(key, "normal", shape, dtype, mean, std)


def exponential(key: Any, scale: Any = None, *, shape: Any, dtype: Any) -> Proxy:
    """Returns numbers of an exponential distribution."""
    target = _float(dtype)
    values = _drawn(
        key, "exponential", shape_of(shape, *([] if scale is None else [scale])), target
    )
    return values if scale is None else values * lift(scale, target)


def bernoulli(key: Any, p: Any, *, shape: Any) -> Proxy:
    """Returns bools that are True with probability ``p``."""
    wanted, probability = shape_of(shape, p), lift(p, FLOAT64)
    if probability.ndim == 0:
        return _drawn(key, "bernoulli", wanted, BOOL, probability)
    words = _drawn(key, "bits", wanted, UINT32)
    return lift(words, FLOAT64) < probability * 2.0**32


def integers(key: Any, first: Any, last: Any, *, shape: Any, dtype: Any, wide: bool) -> Proxy:
    """Integers from ``first`` on; ``last`` is the uint64 number of those that follow it. ``wide``
    if that may be 2**32 or more."""
    target, wanted = dtype_argument(dtype), shape_of(shape, first, last)
    name = "wide_integers" if wide and target.bits == 64 else "integers"
    low, count = lift(first, target), lift(last, UINT64)
    if low.ndim == count.ndim == 0:
        return _drawn(key, name, wanted, target, low, count)
    drawn = _drawn(key, "bits", (2, *wanted), UINT64)
    words = [half for n in range(2) for half in (drawn[n] >> np.uint64(32), drawn[n])]
    (values,) = DISTRIBUTIONS["wide_integers"].values(TRACED, words, target, low, count)
    return values


def integers_between(key: Any, low: Any, high: Any, *, shape: Any, dtype: Any) -> Proxy:
    """Integers in [low, high), of which at least one is an array or a traced value."""
    target = dtype_argument(dtype)
    meeting = UINT64 if target is UINT64 else INT64
    first, behind = (lift(_strong(bound), meeting) for bound in (low, high))
    last = lift(behind - first, UINT64) - np.uint64(1)
    widest = max(_strong(bound).type.dtype.bits for bound in (low, high))
    wide = widest > 32
    return integers(key, lift(first, target), last, shape=shape, dtype=target, wide=wide)


def _strong(value: Any) -> Proxy:
    x = lift(value)
    return x if x.weak is None else Proxy(x.atom, x.owner)


def seeded(seed: Any) -> Proxy:
    """The key of a traced seed."""
    number = lift(_strong(seed), UINT64)
    halves = [lift(number, UINT32), lift(number >> np.uint64(32), UINT32)]
    zero = lift(np.uint32(0))
    return emit("stack", *halves, zero, zero, axis=0)


TRACED = Arithmetic(
    lambda name, *operands: emit(name, *operands),
    lambda x, dtype: lift(x, dtype),
    lambda number, dtype: lift(dtype.numpy.type(number)),
)
