"""Samplers of ``lw.random`` on traced arrays; ``loopwright/random.py`` offers them to users.

Those behind ``seeded`` are compositions: of other samplers, sorts, and loops that draw again where
a value was rejected.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..ir.dims import Dim, IntExpr, as_int
from ..ir.dtype import BOOL, DTYPES, FLOAT64, INT64, UINT64, DType
from ..ir.errors import LoopwrightTypeError, LoopwrightValueError
from ..ir.ops.random import DISTRIBUTIONS, LANES, Arithmetic
from .control import while_loop
from .core.emitting import dtype_argument, emit, lift
from .core.proxy import Proxy
from .numpy.elementwise import cast, where
from .numpy.indexing import take
from .numpy.shaping import broadcast_shapes, reshape, shape_argument

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


def gumbel(key: Any, *, shape: Any, dtype: Any) -> Any:
    """Returns numbers of the standard Gumbel distribution: -log of exponential numbers."""
    return -np.log(exponential(key, shape=shape, dtype=dtype))  # type: ignore[call-overload]


def laplace(key: Any, *, shape: Any, dtype: Any) -> Any:
    """Returns numbers of the standard Laplace distribution: the difference of two exponentials."""
    pair = exponential(key, shape=(2, *shape_of(shape)), dtype=dtype)
    return pair[0] - pair[1]


def permutation(key: Any, x: Any = None, *, count: int | None, axis: int) -> Any:
    """Returns ``x``, or 0 ... ``count`` - 1, in a random order."""
    length = as_int(count or 0) if x is None else as_int(lift(x).shape[axis])
    order = emit("random_order", bits(key, shape=(length,), dtype=np.uint64))
    return order if x is None else take(lift(x), order, axis=axis)


def choice(
    key: Any, a: Any = None, p: Any = None, *, count: int | None, shape: Any, replace: bool
) -> Any:
    """Returns elements of ``a`` along its first axis, or of 0 ... ``count`` - 1."""
    length = as_int(count or 0) if a is None else as_int(lift(a).shape[0])
    wanted = shape_of(shape)
    size = prod(wanted)
    if not replace and size > length:
        raise LoopwrightValueError(f"{size} of {length} elements without replacement")
    if p is not None and lift(p).shape != (length,):
        raise LoopwrightValueError(f"p has the shape {lift(p).shape}, not ({length},)")
    if replace and p is None:
        last = np.uint64(length - 1)
        chosen = integers(key, np.int64(0), last, shape=wanted, dtype=np.int64, wide=False)
    elif replace:
        sums: Any = np.cumsum(cast(p, np.float64))
        drawn = uniform(key, shape=wanted, dtype=np.float64) * sums[-1]
        chosen = np.minimum(np.searchsorted(sums, drawn, "right"), length - 1)  # type: ignore
    elif p is None:
        chosen = permutation(key, count=length, axis=0)[:size].reshape(wanted)
    else:  # Efraimidis and Spirakis, "Weighted random sampling with a reservoir" (2006)
        times = exponential(key, shape=(length,), dtype=np.float64) / cast(p, np.float64)
        chosen = np.argsort(times)[:size].reshape(wanted)  # type: ignore[call-overload]
    return chosen if a is None else take(lift(a), chosen, axis=0)


def categorical(key: Any, logits: Any, *, shape: Any, axis: int) -> Any:
    """Returns indices along ``axis``, each with a probability of softmax(logits)."""
    x = lift(logits)
    x = x if x.type.dtype.is_float else cast(x, np.float64)
    rest = [s for n, s in enumerate(x.shape) if n != axis % x.ndim]
    wanted = tuple(rest) if shape is None else shape_of(shape)
    if wanted[len(wanted) - len(rest) :] != tuple(rest):
        raise LoopwrightValueError(f"the shape {wanted} does not end with {tuple(rest)}")
    moved: Any = np.moveaxis(x, axis, -1)  # type: ignore[call-overload]
    noise = gumbel(key, shape=(*wanted, x.shape[axis]), dtype=x.dtype)
    return np.argmax(moved + noise, axis=-1)


def _until_accepted(
    key: Any, shape: tuple[int, ...], done: Any, draw: Callable[[Any], tuple[Any, Any]], dtype: Any
) -> Any:
    """Draws arrays until every element was accepted once; ``draw(key)`` returns values, and which
    of them are."""

    def step(carry: Any) -> Any:
        number, done, values = carry
        drawn, accepted = draw(fold_in(key, number))
        return number + np.uint32(1), done | accepted, where(done, values, drawn)

    start = lift(np.uint32(0)), done, cast(np.zeros(shape), dtype)
    return while_loop(lambda carry: ~carry[1].all(), step, start)[2]


def gamma(key: Any, a: Any, *, shape: Any, dtype: Any) -> Any:
    """Marsaglia and Tsang, "A simple method for generating gamma variables" (2000); below 1 the
    next shape's number times ``u ** (1 / a)``."""
    wanted, a = shape_of(shape, a), cast(a, dtype)
    key, other = split(key, num=2)
    small = a < 1
    d = where(small, a + 1, a) - cast(1 / 3, dtype)
    c: Any = 1 / np.sqrt(9 * d)

    def draw(key: Any) -> tuple[Any, Any]:
        first, second = split(key, num=2)
        x = normal(first, shape=wanted, dtype=dtype)
        e = exponential(second, shape=wanted, dtype=dtype)
        root = 1 + c * x
        v = root * root * root
        log_v: Any = np.log(np.maximum(v, np.finfo(np.float32).tiny))
        return d * v, (v > 0) & (-e < 0.5 * x * x + d * (1 - v + log_v))

    none = cast(np.zeros(wanted), bool)
    values = _until_accepted(key, wanted, none, draw, dtype)
    e = exponential(other, shape=wanted, dtype=dtype)
    return values * where(small, np.exp(-e / a), cast(1, dtype))  # type: ignore[call-overload]


def beta(key: Any, a: Any, b: Any, *, shape: Any, dtype: Any) -> Any:
    """The share of one gamma number in the sum of two."""
    wanted = shape_of(shape, a, b)
    first, second = split(key, num=2)
    x = gamma(first, a, shape=wanted, dtype=dtype)
    return x / (x + gamma(second, b, shape=wanted, dtype=dtype))


def dirichlet(key: Any, alpha: Any, *, shape: Any, dtype: Any) -> Any:
    """Gamma numbers over their sum."""
    alpha = lift(alpha)
    wanted = (*(shape_of(shape) if shape is not None else alpha.shape[:-1]), alpha.shape[-1])
    x = gamma(key, alpha, shape=wanted, dtype=dtype)
    return x / x.sum(axis=-1, keepdims=True)


def poisson(key: Any, lam: Any, *, shape: Any, dtype: Any) -> Any:
    """Below 10 by inversion, else by Hoermann, "The transformed rejection method for generating
    Poisson random variables" (1993), PTRS."""
    wanted = shape_of(shape, lam)
    lam = cast(lam, np.float64) + cast(np.zeros(wanted), np.float64)
    key, other = split(key, num=2)
    is_small = lam < 10
    low: Any = where(is_small, lam, cast(0, np.float64))
    u = uniform(other, shape=wanted, dtype=np.float64)

    def add_term(carry: Any) -> Any:
        number, term, total, count = carry
        number = number + 1.0
        beyond = u >= total
        return number, term * (low / number), total + term * (low / number), count + beyond

    first: Any = np.exp(-low)
    begin = lift(np.float64(0)), first, first, cast(np.zeros(wanted), np.int64)
    by_inversion = while_loop(
        lambda carry: ((u >= carry[2]) & (carry[0] < 100.0)).any(), add_term, begin
    )[3]

    mean: Any = where(is_small, cast(10, np.float64), lam)
    b = 0.931 + 2.53 * np.sqrt(mean)
    slope = -0.059 + 0.02483 * b
    inverse_alpha, limit = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2)

    def draw(key: Any) -> tuple[Any, Any]:
        pair = uniform(key, shape=(2, *wanted), dtype=np.float64)
        u, v = pair[0] - 0.5, 1 - pair[1]
        us = 0.5 - np.abs(u)
        k = np.floor((2 * slope / us + b) * u + mean + 0.43)
        surely = (us >= 0.07) & (v <= limit)
        never = (k < 0) | ((us < 0.013) & (v > us))
        left = np.log(v * inverse_alpha / (slope / (us * us) + b))
        maybe = left <= k * np.log(mean) - mean - _log_factorial(np.maximum(k, 0.0))
        return k, surely | (~never & maybe)

    by_rejection = _until_accepted(key, wanted, is_small, draw, np.float64)
    return cast(where(is_small, cast(by_inversion, np.float64), by_rejection), dtype)


def _log_factorial(k: Any) -> Any:
    """log(k!) within 1e-10 by Stirling's series at k + 8."""
    x, product = k + 8, k + 1
    for n in range(2, 8):
        product = product * (k + n)
    inverse = 1 / (x * x)
    series = (1 / 12 + inverse * (-1 / 360 + inverse * (1 / 1260 - inverse / 1680))) / x
    return (x - 0.5) * np.log(x) - x + 0.9189385332046727 + series - np.log(product)
