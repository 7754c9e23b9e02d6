"""NumPy functions that are made of others, written in NumPy.

Here a function of NumPy's gets its meaning on traced arrays in a few lines: it is run on them, and
what it does is traced. A ufunc is declared with ``ufunc``, and its operands arrive in the dtype in
which NumPy computes; another function with ``implements``, by NumPy's own parameters::

    @ufunc(np.logaddexp2)
    def _logaddexp2(x: Proxy, y: Proxy) -> Any:
        return np.logaddexp(x * LOG_2, y * LOG_2) / LOG_2

A ufunc that is one operator of the graph is a row of a table in ``ufuncs``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.dtype import BOOL, COMPLEX128, FLOAT64, INT64
from ...ir.errors import LoopwrightTypeError, UnsupportedError
from ..core.dispatch import UFUNCS, UNSET, by_element, implement, implements
from ..core.emitting import choose, common, emit, lift, promoted
from ..core.proxy import Proxy
from .reductions import Axis, axes_of, float_operand
from .shaping import reshape
from .ufuncs import with_options


def ufunc(*functions: np.ufunc) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enters the decorated function for ufuncs of NumPy's that compute in the same dtypes."""

    def enter(implementation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*operands: Any) -> Any:
            return implementation(*promoted(functions[0], *operands)[0])

        call.__name__ = call.__qualname__ = functions[0].__name__
        UFUNCS.update(dict.fromkeys(functions, with_options(call)))
        return implementation

    return enter


for _ufuncs, _expression in {
    (np.positive,): lambda x: x,
    (np.fabs,): abs,
    (np.square,): lambda x: x * x,
    (np.deg2rad, np.radians): lambda x: x * (math.pi / 180.0),
    (np.rad2deg, np.degrees): lambda x: x * (180.0 / math.pi),
    (np.divmod,): lambda x, y: (x // y, x % y),
}.items():
    ufunc(*_ufuncs)(_expression)


@ufunc(np.float_power)
def _float_power(x: Proxy, y: Proxy) -> Any:
    wide = COMPLEX128 if x.type.dtype.is_complex else FLOAT64
    return emit("power", lift(x, wide), lift(y, wide))


@ufunc(np.reciprocal)
def _reciprocal(x: Proxy) -> Any:
    if x.type.dtype.is_complex:  # of 0 it is nan, which 1 / 0 is not
        return choose(x == 0, complex(math.nan, math.nan), 1 / x)
    if x.type.dtype.is_float:
        return 1 / x
    with np.errstate(divide="ignore", invalid="ignore"):
        of_zero = int(np.reciprocal(np.zeros(1, x.dtype))[0])
    return choose(x == 0, of_zero, choose(abs(x) == 1, x, 0))


@ufunc(np.hypot)
def _hypot(x: Proxy, y: Proxy) -> Any:
    """``sqrt(x*x + y*y)`` without overflow: the greater is taken out of the root."""
    x, y = abs(x), abs(y)
    great, small = np.maximum(x, y), np.minimum(x, y)
    infinite = np.logical_or(np.isinf(x), np.isinf(y))
    ratio = small / choose(great == 0, 1, great)
    return choose(infinite, math.inf, great * np.sqrt(ratio * ratio + 1))


@ufunc(np.logaddexp)
def _logaddexp(x: Proxy, y: Proxy) -> Any:
    """``log(exp(x) + exp(y))`` without overflow."""
    difference = choose(x == y, 0, -abs(x - y))  # 0 also where both are infinite
    return np.maximum(x, y) + np.log1p(np.exp(difference))


@ufunc(np.heaviside)
def _heaviside(x: Proxy, y: Proxy) -> Any:
    step = choose(x < 0, 0, choose(np.isnan(x), x, 1))
    return choose(x == 0, y, step)


@ufunc(np.modf)
def _modf(x: Proxy) -> Any:
    whole = np.trunc(x)
    fraction = choose(np.isinf(x), 0, x - whole)
    return np.copysign(fraction, x), whole


implement(
    {
        np.fix: lambda x, _out=None: np.trunc(lift(x)),
        np.isposinf: lambda x, _out=None: promoted(np.signbit, x)[0][0] == math.inf,
        np.isneginf: lambda x, _out=None: promoted(np.signbit, x)[0][0] == -math.inf,
    },
    by_element,
)


@implements(np.nan_to_num)
@by_element
def _nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    x = lift(x)
    if not copy:
        raise UnsupportedError("np.nan_to_num: copy=False", hint="x[...] = np.nan_to_num(x)")
    if x.type.dtype.is_complex:
        parts = (_nan_to_num(p, True, nan, posinf, neginf) for p in (x.real, x.imag))
        return emit("complex", *parts)
    if not x.type.dtype.is_float:
        return x
    info = np.finfo(x.dtype)
    high = float(info.max) if posinf is None else posinf
    low = float(info.min) if neginf is None else neginf
    finite = choose(np.isnan(x), nan, x)
    above = choose(finite == math.inf, high, finite)
    return choose(above == -math.inf, low, above)


@implements(np.isclose)
@by_element
def _isclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    x, y = common(lift(a), float_operand(b, None))
    bound = atol + rtol * abs(y)
    near = abs(x - y) <= bound
    finite = np.logical_and(np.isfinite(x), np.isfinite(y))
    close = np.logical_or(np.logical_and(near, finite), x == y)
    return np.logical_or(close, _both_nan(x, y)) if equal_nan else close


def python_bool(truth: Any) -> Proxy:
    """Returns a traced scalar as the Python bool that some functions give."""
    return Proxy(truth.atom, truth.owner, bool)


def _both_nan(x: Proxy, y: Proxy) -> Any:
    return np.logical_and(np.isnan(x), np.isnan(y))


@implements(np.allclose)
def _allclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    return python_bool(np.all(_isclose(a, b, rtol, atol, equal_nan)))


@implements(np.array_equal)
def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    x, y = common(a1, a2)
    if x.shape != y.shape:
        return False
    same = x == y
    if equal_nan and x.type.dtype.is_inexact:
        same = np.logical_or(same, _both_nan(x, y))
    return python_bool(np.all(same))


@implements(np.sinc)
@by_element
def _sinc(x: Any) -> Any:
    angle = np.multiply(lift(x), math.pi)
    zero = angle == 0
    safe = choose(zero, 1, angle)
    return choose(zero, 1, np.sin(safe) / safe)


@implements(np.count_nonzero)
def _count_nonzero(a: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    return np.sum(lift(lift(a, BOOL), INT64), axis, keepdims=keepdims)


@implements(np.ptp)
def _ptp(a: Any, axis: Axis = None, _out: Any = None, keepdims: Any = UNSET) -> Any:
    a = lift(a)
    return np.max(a, axis, keepdims=keepdims) - np.min(a, axis, keepdims=keepdims)


@implements(np.average)
def _average(
    a: Any, axis: Axis = None, weights: Any = None, returned: bool = False, *, keepdims: Any = UNSET
) -> Any:
    if returned:
        raise UnsupportedError("returned=True is not supported", hint="np.sum(weights)")
    if weights is None:
        return np.mean(lift(a), axis, keepdims=keepdims)
    x, w = common(float_operand(a, None), lift(weights))
    if w.shape != x.shape:
        axes = axes_of(axis, x.ndim)
        if axes is None or len(axes) != 1 or w.ndim != 1:
            raise LoopwrightTypeError(
                f"np.average: weights {w.type.short} do not fit {x.type.short}",
                hint="weights of the array's shape, or one weight per element of the axis",
            )
        column = reshape(w, tuple(w.shape[0] if i == axes[0] else 1 for i in range(x.ndim)))
        w = emit("broadcast_to", column, shape=x.shape)
    return np.sum(x * w, axis, keepdims=keepdims) / np.sum(w, axis, keepdims=keepdims)


@implements(np.nanmean)
def _nanmean(
    a: Any, axis: Axis = None, dtype: Any = None, _out: Any = None, keepdims: Any = UNSET
) -> Any:
    if not lift(a).type.dtype.is_inexact:
        return np.mean(lift(a), axis, dtype, keepdims=keepdims)
    x = float_operand(a, dtype)
    valid = np.logical_not(np.isnan(x))
    total = np.nansum(x, axis, keepdims=keepdims)
    return total / lift(np.sum(valid, axis, keepdims=keepdims), total.type.dtype)


def _nan_extremum(reduce: Callable[..., Any], least: float) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, _out: Any = None, keepdims: Any = UNSET) -> Any:
        x = lift(a)
        if x.type.dtype.is_complex:
            kept = keepdims is not UNSET and keepdims
            return (np.fmin if least > 0 else np.fmax).reduce(x, axis, keepdims=kept)
        if not x.type.dtype.is_float:
            return reduce(x, axis, keepdims=keepdims)
        result = reduce(choose(np.isnan(x), least, x), axis, keepdims=keepdims)
        empty = np.all(np.isnan(x), axis, keepdims=keepdims)
        return choose(empty, math.nan, result)

    return call


implements(np.nanmax)(_nan_extremum(np.max, -math.inf))
implements(np.nanmin)(_nan_extremum(np.min, math.inf))
