"""Samplers of ``lw.random`` that are compositions: of other samplers, sorts, and loops that draw
again where a value was rejected."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..ir.dims import as_int
from ..ir.errors import LoopwrightValueError
from .control import while_loop
from .elementwise import cast, where
from .emitting import emit, lift
from .indexing import take
from .random import bits, exponential, fold_in, integers, split, uniform
from .random import normal as normal_numbers
from .random import shape_of as _shape


def gumbel(key: Any, *, shape: Any, dtype: Any) -> Any:
    """Returns numbers of the standard Gumbel distribution: -log of exponential numbers."""
    return -np.log(exponential(key, shape=shape, dtype=dtype))  # type: ignore[call-overload]


def laplace(key: Any, *, shape: Any, dtype: Any) -> Any:
    """Returns numbers of the standard Laplace distribution: the difference of two exponentials."""
    pair = exponential(key, shape=(2, *_shape(shape)), dtype=dtype)
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
    wanted = _shape(shape)
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
    wanted = tuple(rest) if shape is None else _shape(shape)
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
    wanted, a = _shape(shape, a), cast(a, dtype)
    key, other = split(key, num=2)
    small = a < 1
    d = where(small, a + 1, a) - cast(1 / 3, dtype)
    c: Any = 1 / np.sqrt(9 * d)

    def draw(key: Any) -> tuple[Any, Any]:
        first, second = split(key, num=2)
        x = normal_numbers(first, shape=wanted, dtype=dtype)
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
    wanted = _shape(shape, a, b)
    first, second = split(key, num=2)
    x = gamma(first, a, shape=wanted, dtype=dtype)
    return x / (x + gamma(second, b, shape=wanted, dtype=dtype))


def dirichlet(key: Any, alpha: Any, *, shape: Any, dtype: Any) -> Any:
    """Gamma numbers over their sum."""
    alpha = lift(alpha)
    wanted = (*(_shape(shape) if shape is not None else alpha.shape[:-1]), alpha.shape[-1])
    x = gamma(key, alpha, shape=wanted, dtype=dtype)
    return x / x.sum(axis=-1, keepdims=True)


def poisson(key: Any, lam: Any, *, shape: Any, dtype: Any) -> Any:
    """Below 10 by inversion, else by Hoermann, "The transformed rejection method for generating
    Poisson random variables" (1993), PTRS."""
    wanted = _shape(shape, lam)
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
