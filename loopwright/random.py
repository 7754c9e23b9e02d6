"""``lw.random``: random numbers as pure functions of keys.

>>> import loopwright as lw
>>> key = lw.random.key(42)
>>> lw.random.uniform(key, 3).round(3)
array([0.613, 0.988, 0.826])

A key is an ordinary uint32 array of 4 words, for Philox4x32-10, so that loops carry it and files
keep it. The same key and arguments give the same numbers: on every
machine, for any number of threads, alone or in a compiled function. A shorter array is the
beginning of a longer one. So each key is for one call, and ``split`` and ``fold_in`` make new ones
of it::

    key, first, second = lw.random.split(key, 3)
    for step in range(100):
        noise = lw.random.normal(lw.random.fold_in(first, step), x.shape)

Bits, integers, bernoulli and standard uniform numbers are the same to the last bit everywhere; what
is computed with log, sin or cos agrees within their error bounds between machines with and without
fused multiply-add.

In compiled functions each call is one kernel. On plain arrays a call compiles such a function, and
keeps it for the shape and the dtype. Shapes are ints or tuples; parameters are numbers or arrays
that broadcast to the shape. LoopwrightTypeError is raised for an array that cannot be a key and for
a dtype that a distribution does not have, LoopwrightValueError for parameters out of range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .face.compiled_function import CompiledFunction
from .ir.errors import LoopwrightTypeError, LoopwrightValueError
from .tracer import Proxy
from .tracer import samplers as traced
from .tracer.core.proxy import run
from .tracer.core.trace import active

_COMPILED: dict[Any, CompiledFunction] = {}


def _call(sampler: Callable[..., Any], *operands: Any, **static: Any) -> Any:
    """Returns what a sampler gives: traced, or by a function that is compiled for ``static``."""
    if active() is not None:
        return run(sampler.__name__, sampler, operands, static)
    kind = (sampler, *static.values())
    try:
        compiled = _COMPILED.get(kind)
    except TypeError:  # the shape is a list
        return _call(sampler, *operands, **{**static, "shape": tuple(static["shape"])})
    if compiled is None:

        def function(*operands: Any) -> Any:
            return run(sampler.__name__, sampler, operands, static)

        function.__name__ = function.__qualname__ = sampler.__name__
        compiled = _COMPILED.setdefault(kind, CompiledFunction(function))
        compiled.takes_any_kind = True
    return compiled(*operands)


def key(seed: Any, impl: str = "philox") -> Any:
    """Returns the key of ``seed``, an int in [0, 2**64).

    ``impl`` is ``"philox"`` (Philox4x32-10, uint32[4]), the only generator there is. Raises
    LoopwrightValueError for any other name or a seed out of range.

    >>> from loopwright import random
    >>> random.key(7)
    array([7, 0, 0, 0], dtype=uint32)
    """
    if impl != "philox":
        raise LoopwrightValueError(f"there is no generator {impl!r}", hint="impl='philox'")
    if isinstance(seed, Proxy):
        return run("key", traced.seeded, (seed,))
    try:
        number = int(seed.__index__())
    except (AttributeError, TypeError):
        raise LoopwrightTypeError(f"a seed is an int, not {seed!r}") from None
    if not 0 <= number < 1 << 64:
        raise LoopwrightValueError(f"the seed {number} is not in [0, 2**64)")
    return np.array([number & 0xFFFFFFFF, number >> 32, 0, 0], np.uint32)


def split(key: Any, num: int = 2) -> Any:
    """Returns ``num`` new keys, the rows of an array; they are independent of each other.

    >>> from loopwright import random
    >>> a, b = random.split(random.key(0))
    >>> a.shape, a.dtype
    ((4,), dtype('uint32'))
    """
    return _call(traced.split, key, num=num)


def fold_in(key: Any, data: Any) -> Any:
    """Returns a new key for the integer ``data``, modulo 2**32: a step, a layer, a row.

    >>> from loopwright import random
    >>> random.fold_in(random.key(0), 3).shape
    (4,)
    """
    return _call(traced.fold_in, key, data)


def bits(key: Any, shape: Any = (), dtype: Any = np.uint32) -> Any:
    """Returns random bits of dtype uint32 or uint64.

    >>> lw.random.bits(lw.random.key(0), (2,)).dtype
    dtype('uint32')
    """
    return _call(traced.bits, key, shape=shape, dtype=dtype)


def uniform(
    key: Any, shape: Any = (), low: Any = 0.0, high: Any = 1.0, dtype: Any = np.float64
) -> Any:
    """Returns floats in [low, high): multiples of ``(high - low) / 2**53``, for float32 of 2**24.

    As of NumPy's, ``high`` may be among them where ``low + (high - low) * u`` rounds to it.

    >>> from loopwright import random
    >>> random.uniform(random.key(0), (2, 3), dtype="float32").shape
    (2, 3)
    """
    if type(low) is type(high) is float and (low, high) == (0.0, 1.0):
        return _call(traced.uniform, key, shape=shape, dtype=dtype)
    return _call(traced.uniform, key, low, high, shape=shape, dtype=dtype)


def normal(
    key: Any, shape: Any = (), mean: Any = 0.0, std: Any = 1.0, dtype: Any = np.float64
) -> Any:
    """Returns normal numbers by the method of Box and Muller, up to 6.7 (float64: 8.6) deviations.

    >>> from loopwright import random
    >>> abs(random.normal(random.key(0), 10_000, mean=3.0).mean() - 3) < 0.05
    np.True_
    """
    if type(mean) is type(std) is float and (mean, std) == (0.0, 1.0):
        return _call(traced.normal, key, shape=shape, dtype=dtype)
    return _call(traced.normal, key, mean, std, shape=shape, dtype=dtype)


def exponential(key: Any, shape: Any = (), scale: Any = 1.0, dtype: Any = np.float64) -> Any:
    """Returns exponential numbers of mean ``scale``, by inversion.

    >>> bool((lw.random.exponential(lw.random.key(0), (9,)) >= 0).all())
    True
    """
    if type(scale) is float and scale == 1.0:
        return _call(traced.exponential, key, shape=shape, dtype=dtype)
    return _call(traced.exponential, key, scale, shape=shape, dtype=dtype)


def bernoulli(key: Any, p: Any = 0.5, shape: Any = None) -> Any:
    """Returns bools that are True with probability ``p``, rounded up to a multiple of 2**-32.

    ``shape`` is that of ``p`` unless given.

    >>> lw.random.bernoulli(lw.random.key(0), 0.5, (3,)).dtype
    dtype('bool')
    """
    return _call(traced.bernoulli, key, p, shape=shape)


def integers(key: Any, low: Any, high: Any, shape: Any = None, dtype: Any = np.int64) -> Any:
    """Returns integers in [low, high), each with the same probability.

    Probabilities differ by less than 2**-32 of each: an element takes 64 bits, and 96 where the
    range may be longer than 2**32. ``shape`` is that of the bounds unless given. Bounds that are
    ints are checked: LoopwrightValueError for an empty range or one that the dtype cannot hold.
    Where an array's ``low`` is not below ``high`` the result is not specified.

    >>> from loopwright import random
    >>> dice = random.integers(random.key(1), 1, 7, 100)
    >>> sorted({*dice.tolist()})
    [1, 2, 3, 4, 5, 6]
    """
    kind = np.dtype(dtype)
    if kind.kind not in "iu":
        raise LoopwrightTypeError(f"random integers of dtype {kind}", hint="dtype=np.int64")
    bounds = low, high
    if any(type(b) is Proxy or not isinstance(b, int | np.integer) for b in bounds):
        return _call(traced.integers_between, key, low, high, shape=shape, dtype=kind)
    info = np.iinfo(kind)
    first, last = int(low), int(high) - 1
    if first > last:
        raise LoopwrightValueError(f"there is no integer in [{low}, {high})")
    if first < info.min or last > info.max:
        raise LoopwrightValueError(f"{kind} does not hold all of [{low}, {high})")
    wide = last - first >= 1 << 32
    first, count = kind.type(first), np.uint64(last - first)
    return _call(traced.integers, key, first, count, shape=shape, dtype=kind, wide=wide)


def gumbel(key: Any, shape: Any = (), dtype: Any = np.float64) -> Any:
    """Returns numbers of the standard Gumbel distribution.

    >>> lw.random.gumbel(lw.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return _call(traced.gumbel, key, shape=shape, dtype=dtype)


def laplace(key: Any, shape: Any = (), dtype: Any = np.float64) -> Any:
    """Returns numbers of the standard Laplace distribution.

    >>> lw.random.laplace(lw.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return _call(traced.laplace, key, shape=shape, dtype=dtype)


def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """Returns gamma numbers of shape parameter ``a`` and scale 1, by the method of Marsaglia and
    Tsang: a loop that ends when every element was accepted. ``shape`` is that of ``a`` unless
    given.

    >>> from loopwright import random
    >>> abs(random.gamma(random.key(0), 2.5, 10_000).mean() - 2.5) < 0.1
    np.True_
    """
    return _call(traced.gamma, key, a, shape=shape, dtype=dtype)


def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """Returns beta numbers in [0, 1], of mean ``a / (a + b)``, made of two gamma numbers each.

    >>> 0 <= lw.random.beta(lw.random.key(0), 2.0, 3.0) <= 1
    np.True_
    """
    return _call(traced.beta, key, a, b, shape=shape, dtype=dtype)


def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """Returns vectors of positive numbers with sum 1, along a last axis as long as that of
    ``alpha``; ``shape`` is that of the other axes.

    >>> lw.random.dirichlet(lw.random.key(0), np.ones(3)).sum().round(6)
    np.float64(1.0)
    """
    return _call(traced.dirichlet, key, alpha, shape=shape, dtype=dtype)


def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = np.int64) -> Any:
    """Returns counts of mean ``lam``: below 10 by inversion, else by Hoermann's rejection (PTRS).

    >>> from loopwright import random
    >>> abs(random.poisson(random.key(0), 3.0, 10_000).mean() - 3) < 0.1
    np.True_
    """
    return _call(traced.poisson, key, lam, shape=shape, dtype=dtype)


def categorical(key: Any, logits: Any, axis: int = -1, shape: Any = None) -> Any:
    """Returns indices along ``axis`` with the probabilities softmax(logits), int64: the places of
    the largest ``logits + gumbel``. ``shape`` ends with the other axes of ``logits``, which are its
    default.

    >>> lw.random.categorical(lw.random.key(0), np.array([0.0, 99.0]))
    np.int64(1)
    """
    return _call(traced.categorical, key, logits, shape=shape, axis=axis)


def permutation(key: Any, x: Any, axis: int = 0) -> Any:
    """Returns ``x`` in a random order along ``axis``; of an int, 0 ... ``x`` - 1.

    Each takes a place among those before it, by 64 random bits (Durstenfeld's shuffle).

    >>> from loopwright import random
    >>> sorted(random.permutation(random.key(0), 5).tolist())
    [0, 1, 2, 3, 4]
    """
    if _is_count(x):
        return _call(traced.permutation, key, count=int(x), axis=0)
    return _call(traced.permutation, key, x, count=None, axis=axis)


def choice(key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None) -> Any:
    """Returns elements of ``a`` along its first axis; of an int, numbers below it.

    ``p`` are probabilities, or weights in proportion to them; by default all are the same.
    LoopwrightValueError if there are too few elements without replacement.

    >>> from loopwright import random
    >>> random.choice(random.key(0), np.array([2.5, 3.5]), 3).shape
    (3,)
    """
    count = int(a) if _is_count(a) else None
    operands = [None if count is not None else a, p]
    while operands and operands[-1] is None:
        operands.pop()
    return _call(traced.choice, key, *operands, count=count, shape=shape, replace=replace)


def _is_count(x: Any) -> bool:
    return type(x) is not Proxy and isinstance(x, int | np.integer)
