"""NumPy's reductions on traced arrays, as functions, methods and ``ufunc.reduce``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.dims import IntExpr
from ..ir.dtype import BOOL, INT64
from ..ir.errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from .dispatch import METHODS, UNSET, implements, method
from .elementwise import cast, isclose
from .elementwise import where as where_
from .emitting import common, dtype_argument, emit, lift, to_float
from .proxy import Proxy

__all__ = ["axes_of", "normalise_axis", "reduce_max", "reduce_min", "reduce_sum"]

Axis = int | Sequence[int] | None


def normalise_axis(axis: Any, rank: int) -> int:
    """``axis`` counted from the front. Raises LoopwrightValueError if there is no such axis."""
    try:
        index = axis.__index__()
    except (AttributeError, TypeError):
        raise LoopwrightTypeError(f"axis must be an int, not {axis!r}") from None
    if not -rank <= index < rank:
        raise LoopwrightValueError(f"axis {index} does not exist: the array has {rank} axes")
    return index % rank


def axes_of(axis: Axis, rank: int) -> tuple[int, ...] | None:
    """``axis`` as sorted, non-negative ints; None stands for all."""
    if axis is None:
        return None
    given = axis if isinstance(axis, tuple | list) else (axis,)
    axes = sorted(normalise_axis(a, rank) for a in given)
    if len(set(axes)) != len(axes):
        raise LoopwrightValueError(f"axis {tuple(given)} names an axis twice")
    return tuple(axes)


def _keep(keepdims: Any) -> bool:
    return False if keepdims is UNSET else bool(keepdims)


def _reduce(
    name: str, x: Proxy, axis: Axis, keepdims: Any, initial: Any = UNSET, join: str = ""
) -> Proxy:
    result = emit(name, x, axis=axes_of(axis, x.ndim), keepdims=_keep(keepdims))
    if initial is UNSET or initial is None:
        return result
    return emit(join, result, lift(initial, result.type.dtype))


def _masked(x: Proxy, where: Any, otherwise: Any) -> Proxy:
    if where is UNSET or where is True:
        return x
    return where_(where, x, lift(otherwise, x.type.dtype))


def _accumulate(
    name: str,
    join: str,
    identity: int,
    a: Any,
    axis: Axis,
    dtype: Any,
    keepdims: Any,
    initial: Any,
    where: Any,
) -> Proxy:
    """A sum or product: small integers and bools become 64 bits wide, floats keep their dtype."""
    x = lift(a)
    own = x.type.dtype
    wide = own.accumulator if dtype is None else dtype_argument(dtype)
    total = _reduce(name, _masked(lift(x, wide), where, identity), axis, keepdims, initial, join)
    return lift(total, own) if dtype is None and own.is_float else total


@implements(np.sum)
@method("sum")
def reduce_sum(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = UNSET,
    initial: Any = UNSET,
    where: Any = UNSET,
) -> Proxy:
    """The sum over ``axis``, with 64 bits for small integers."""
    return _accumulate("sum", "add", 0, a, axis, dtype, keepdims, initial, where)


@implements(np.prod)
@method("prod")
def _prod(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = UNSET,
    initial: Any = UNSET,
    where: Any = UNSET,
) -> Proxy:
    return _accumulate("prod", "multiply", 1, a, axis, dtype, keepdims, initial, where)


def _extremum(name: str, x: Proxy, axis: Axis, keepdims: Any, initial: Any, where: Any) -> Proxy:
    if where is not UNSET and where is not True:
        if initial is UNSET:
            raise LoopwrightValueError(f"np.{name} with where= needs initial=")
        x = _masked(x, where, initial)
    join = "maximum" if name == "max" else "minimum"
    return _reduce(name, x, axis, keepdims, initial, join)


@implements(np.max, np.amax)
@method("max")
def reduce_max(
    a: Any,
    axis: Axis = None,
    out: Any = None,
    keepdims: Any = UNSET,
    initial: Any = UNSET,
    where: Any = UNSET,
) -> Proxy:
    """The greatest element along ``axis``; NaN if there is one."""
    return _extremum("max", lift(a), axis, keepdims, initial, where)


@implements(np.min, np.amin)
@method("min")
def reduce_min(
    a: Any,
    axis: Axis = None,
    out: Any = None,
    keepdims: Any = UNSET,
    initial: Any = UNSET,
    where: Any = UNSET,
) -> Proxy:
    """The least element along ``axis``; NaN if there is one."""
    return _extremum("min", lift(a), axis, keepdims, initial, where)


@implements(np.any)
@method("any")
def _any(
    a: Any, axis: Axis = None, out: Any = None, keepdims: Any = UNSET, *, where: Any = UNSET
) -> Proxy:
    return _reduce("any", _masked(lift(a, BOOL), where, False), axis, keepdims)


@implements(np.all)
@method("all")
def _all(
    a: Any, axis: Axis = None, out: Any = None, keepdims: Any = UNSET, *, where: Any = UNSET
) -> Proxy:
    return _reduce("all", _masked(lift(a, BOOL), where, True), axis, keepdims)


def _as_float(a: Any, dtype: Any) -> Proxy:
    """``a`` in the float dtype of a mean: float64 for integers and bools."""
    if dtype is not None:
        return cast(a, dtype)
    x = lift(a)
    return x if x.type.dtype.is_float else cast(x, "float64")


def _no_where(where: Any) -> None:
    if where is not UNSET and where is not True:
        raise UnsupportedError("where= is not supported here", hint="np.sum(..., where=mask)")


@implements(np.mean)
@method("mean")
def _mean(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = UNSET,
    *,
    where: Any = UNSET,
) -> Proxy:
    if where is not UNSET and where is not True:
        total = reduce_sum(_as_float(a, dtype), axis, keepdims=_keep(keepdims), where=where)
        mask = emit("broadcast_to", lift(where, BOOL), shape=lift(a).shape)
        return emit(
            "divide", total, _count_nonzero(mask, axis, keepdims=_keep(keepdims), dtype=total)
        )
    return _reduce("mean", _as_float(a, dtype), axis, keepdims)


def _spread(
    name: str,
    a: Any,
    axis: Axis,
    dtype: Any,
    ddof: Any,
    keepdims: Any,
    where: Any,
    correction: Any,
    mean: Any,
) -> Proxy:
    _no_where(where)
    if mean is not UNSET:
        raise UnsupportedError("mean= is not supported", hint="leave it out")
    if correction is not UNSET:
        ddof = correction
    x = _as_float(a, dtype)
    axes = axes_of(axis, x.ndim)
    return emit(name, x, axis=axes, ddof=ddof, keepdims=_keep(keepdims))


@implements(np.var)
@method("var")
def _var(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    ddof: int = 0,
    keepdims: Any = UNSET,
    *,
    where: Any = UNSET,
    mean: Any = UNSET,
    correction: Any = UNSET,
) -> Proxy:
    return _spread("variance", a, axis, dtype, ddof, keepdims, where, correction, mean)


@implements(np.std)
@method("std")
def _std(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    ddof: int = 0,
    keepdims: Any = UNSET,
    *,
    where: Any = UNSET,
    mean: Any = UNSET,
    correction: Any = UNSET,
) -> Proxy:
    return _spread("std", a, axis, dtype, ddof, keepdims, where, correction, mean)


def _arg_extremum(name: str, a: Any, axis: int | None, keepdims: Any) -> Proxy:
    x = lift(a)
    if x.type.dtype.is_bool:
        x = cast(x, "uint8")
    position = None if axis is None else normalise_axis(axis, x.ndim)
    return emit(name, x, axis=position, keepdims=_keep(keepdims))


@implements(np.argmax)
@method("argmax")
def _argmax(a: Any, axis: int | None = None, out: Any = None, *, keepdims: Any = UNSET) -> Proxy:
    return _arg_extremum("argmax", a, axis, keepdims)


@implements(np.argmin)
@method("argmin")
def _argmin(a: Any, axis: int | None = None, out: Any = None, *, keepdims: Any = UNSET) -> Proxy:
    return _arg_extremum("argmin", a, axis, keepdims)


@implements(np.count_nonzero)
def _count_nonzero(
    a: Any, axis: Axis = None, *, keepdims: bool = False, dtype: Any = None
) -> Proxy:
    counted = lift(lift(a, BOOL), INT64)
    total = _reduce("sum", counted, axis, keepdims)
    return total if dtype is None else lift(total, dtype.type.dtype)


@implements(np.ptp)
def _ptp(a: Any, axis: Axis = None, out: Any = None, keepdims: Any = UNSET) -> Proxy:
    x = lift(a)
    return emit(
        "subtract", reduce_max(x, axis, keepdims=keepdims), reduce_min(x, axis, keepdims=keepdims)
    )


@implements(np.average)
def _average(
    a: Any,
    axis: Axis = None,
    weights: Any = None,
    returned: bool = False,
    *,
    keepdims: Any = UNSET,
) -> Proxy:
    if returned:
        raise UnsupportedError("returned=True is not supported", hint="np.sum(weights)")
    if weights is None:
        return _mean(a, axis, keepdims=keepdims)
    x, w = common(to_float(a), to_float(weights))
    if w.shape != x.shape:
        axes = axes_of(axis, x.ndim)
        if axes is None or len(axes) != 1 or w.ndim != 1:
            raise LoopwrightTypeError(
                f"np.average: weights {w.type.short} do not fit {x.type.short}",
                hint="weights of the array's shape, or one weight per element of the axis",
            )
        shape: tuple[IntExpr, ...] = tuple(w.shape[0] if i == axes[0] else 1 for i in range(x.ndim))
        w = emit("broadcast_to", emit("reshape", w, newshape=shape), shape=x.shape)
    total = reduce_sum(emit("multiply", x, w), axis, keepdims=keepdims)
    return emit("divide", total, reduce_sum(w, axis, keepdims=keepdims))


@implements(np.nansum)
def _nansum(
    a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: Any = UNSET
) -> Proxy:
    x = lift(a)
    if x.type.dtype.is_float:
        x = where_(emit("isnan", x), lift(0, x.type.dtype), x)
    return reduce_sum(x, axis, dtype, keepdims=keepdims)


@implements(np.nanmean)
def _nanmean(
    a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: Any = UNSET
) -> Proxy:
    x = _as_float(a, dtype)
    valid = emit("logical_not", emit("isnan", x))
    total = _nansum(x, axis, keepdims=keepdims)
    count = _count_nonzero(valid, axis, keepdims=_keep(keepdims), dtype=total)
    return emit("divide", total, count)


def _nan_extremum(name: str, a: Any, axis: Axis, keepdims: Any) -> Proxy:
    x = lift(a)
    if not x.type.dtype.is_float:
        return _reduce(name, x, axis, keepdims)
    nothing = float("-inf" if name == "max" else "inf")
    filled = where_(emit("isnan", x), lift(nothing, x.type.dtype), x)
    result = _reduce(name, filled, axis, keepdims)
    empty = _reduce("all", emit("isnan", x), axis, keepdims)
    return where_(empty, lift(float("nan"), x.type.dtype), result)


@implements(np.nanmax)
def _nanmax(a: Any, axis: Axis = None, out: Any = None, keepdims: Any = UNSET) -> Proxy:
    return _nan_extremum("max", a, axis, keepdims)


@implements(np.nanmin)
def _nanmin(a: Any, axis: Axis = None, out: Any = None, keepdims: Any = UNSET) -> Proxy:
    return _nan_extremum("min", a, axis, keepdims)


@implements(np.allclose)
def _allclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Proxy:
    from_elements = isclose(a, b, rtol, atol, equal_nan)
    return _reduce("all", from_elements, None, False)


@implements(np.array_equal)
def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Proxy | bool:
    x, y = common(a1, a2)
    if x.shape != y.shape:
        return False
    same = emit("equal", x, y)
    if equal_nan and x.type.dtype.is_float:
        both = emit("logical_and", emit("isnan", x), emit("isnan", y))
        same = emit("logical_or", same, both)
    return _reduce("all", same, None, False)


def _ufunc_reduce(name: str) -> Any:
    def reduce(
        array: Any,
        axis: Axis = 0,
        dtype: Any = None,
        out: Any = None,
        keepdims: Any = False,
        initial: Any = UNSET,
        where: Any = True,
    ) -> Proxy:
        x = lift(array) if dtype is None else cast(array, dtype)
        if name in ("any", "all"):
            return METHODS[name](x, axis, keepdims=keepdims, where=where)
        options = {} if initial is None else {"initial": initial}
        return METHODS[name](x, axis, keepdims=keepdims, where=where, **options)

    return reduce


for _ufunc_name, _method_name in {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_or": "any",
    "logical_and": "all",
}.items():
    METHODS[f"{_ufunc_name}.reduce"] = _ufunc_reduce(_method_name)
