"""NumPy's elementwise functions that are no ufuncs, on traced arrays; casts and choices."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
from numpy._core import umath as _umath  # pyright: ignore

from ...ir.dtype import BOOL, FLOAT64, INT64, UINT64, DType
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError
from ..core import emitting
from ..core.dispatch import by_element, implementation_of, implements, method, views
from ..core.emitting import check_cast, common_dtype, copied, dtype_argument, emit, lift, one_array
from ..core.proxy import Proxy, is_number
from ..core.trace import active


def cast(x: Any, dtype: Any) -> Proxy:
    """``x`` with elements of ``dtype``."""
    return lift(x, dtype_argument(dtype))


def full_like(x: Any, value: Any, dtype: DType) -> Proxy:
    """Returns an array of the shape of ``x`` filled with ``value``."""
    shape = lift(x).shape
    return emit("full", shape=shape, fill_value=value, dtype=str(dtype))


@implements(np.where)
@by_element
def where(condition: Any, x: Any = None, y: Any = None) -> Proxy:
    """``x`` where the condition holds, ``y`` elsewhere."""
    if x is None and y is None and (nonzero := implementation_of(np.nonzero)) is not None:
        return nonzero(condition)
    if x is None or y is None:
        raise LoopwrightTypeError(
            "np.where takes two values besides the condition, or none",
            hint="np.where(condition, a, b)",
        )
    return one_array(emit("where", lift(condition, BOOL), *_chosen(x, y)))


def _chosen(*values: Any) -> list[Proxy]:
    """Choices in their common dtype; a Python int that does not fit it wraps, as in NumPy."""
    dtype = common_dtype(*values)
    return [_wrapped(v, dtype) for v in values]


def _wrapped(value: Any, dtype: DType) -> Proxy:
    if dtype.is_integer and is_number(value) and isinstance(value, int):
        return lift(np.asarray(value).astype(dtype.numpy)[()])
    return lift(Proxy(value.atom, value.owner) if _is_traced_int(value) else value, dtype)


_CLIP: np.ufunc = vars(_umath)["clip"]  # which the method of NumPy's arrays calls


@implements(np.clip, _CLIP)
@method("clip")
@by_element
def _clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    _out: Any = None,
    *,
    min: Any = None,
    max: Any = None,
    dtype: Any = None,
) -> Proxy:
    low = a_min if min is None else min
    high = a_max if max is None else max
    bounds = [b for b in (low, high) if b is not None]
    target = common_dtype(a, *bounds) if dtype is None else dtype_argument(dtype)
    check_cast(target, "same_kind", a, *bounds)
    x = lift(a, target)
    if target.is_complex:
        for name, bound in (("maximum", low), ("minimum", high)):
            x = x if bound is None else emit(name, x, lift(bound, target))
        return x
    if all(map(is_number, bounds)):
        if target.is_integer:  # a bound that no element can pass is none
            least, greatest = target.limits
            low = None if low is not None and low <= least else low
            high = None if high is not None and high >= greatest else high
        for bound in (low, high):
            if bound is not None:
                lift(bound, target)  # refuses an int that does not fit
        if low is None and high is None:
            return x
        return emit("clip", x, a_min=low, a_max=high)
    wide = INT64 if any(map(_is_traced_int, bounds)) and _fits_int64(target) else target
    x = lift(x, wide)
    if low is not None:
        x = emit("maximum", x, _bound(low, wide, target, high=True))
    if high is not None:
        x = emit("minimum", x, _bound(high, wide, target, low=True))
    return lift(x, target)


def _is_traced_int(value: Any) -> bool:
    return type(value) is Proxy and value.weak is int


def _fits_int64(dtype: DType) -> bool:
    return dtype.is_integer and dtype != UINT64


def _bound(value: Any, wide: DType, target: DType, low: bool = False, high: bool = False) -> Proxy:
    """A bound of ``np.clip`` in ``wide``. As in NumPy it may be one that no element can pass, but
    not one that all of them have to pass."""
    bound = lift(value, wide)
    trace = active()
    if wide != target and _is_traced_int(value) and trace is not None:
        trace.numbers.require(value.atom, target, trace.span, low, high)
    return bound


@implements(np.round, np.around)
@method("round")
@by_element
def _round(a: Any, decimals: int = 0, _out: Any = None) -> Proxy:
    x = lift(a)
    dtype = x.type.dtype
    if dtype.is_complex:
        return emit("complex", _round(x.real, decimals), _round(x.imag, decimals))
    if dtype.is_bool:
        if decimals:
            raise LoopwrightTypeError("bools can be rounded to integers only")
        return cast(x, "float16")
    if dtype.is_integer:
        return x if decimals >= 0 else lift(_round(lift(x, FLOAT64), decimals), dtype)
    if decimals == 0:
        return emit("round", x)
    scale = lift(10.0 ** abs(decimals), dtype)
    down, up = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    return emit(up, emit("round", emit(down, x, scale)), scale)


@implements(np.select)
def _select(condlist: Any, choicelist: Any, default: Any = 0) -> Proxy:
    if len(condlist) != len(choicelist):
        raise LoopwrightValueError(
            f"np.select: {len(condlist)} conditions, but {len(choicelist)} choices"
        )
    *choices, result = _chosen(*choicelist, default)
    for condition, choice in zip(reversed(condlist), reversed(choices), strict=True):
        result = emit("where", lift(condition, BOOL), choice, result)
    return one_array(result)


@views
@method("astype")
@implements(np.astype)
def _astype(
    x: Any,
    /,
    dtype: Any,
    order: str = "K",
    casting: str = "unsafe",
    _subok: bool = True,
    copy: bool = True,
    _device: Any = None,
) -> Proxy:
    operand, target = lift(x), dtype_argument(dtype)
    if not copy and operand.type.dtype == target and order == "K":
        return operand
    check_cast(target, casting, operand)
    made = copied(operand, order)
    return made if operand.type.dtype == target else copied(lift(made, target), like=made)


@method("view")
@views
def _view(x: Any, dtype: Any = None, type: Any = None) -> Proxy:
    """The array itself, or its bytes as elements of another dtype; there are no other classes."""
    wanted = dtype if type is None else type
    if wanted is None or wanted is np.ndarray:
        return lift(x)
    if isinstance(wanted, builtins.type) and issubclass(wanted, np.ndarray):
        raise LoopwrightTypeError(
            f"a traced array cannot be a {wanted.__module__}.{wanted.__qualname__}, which is what "
            "an operation with one makes of it",
            hint="np.asarray(...) of the other operand, if its values are all that counts",
        )
    return _as_bytes_of(lift(x), dtype_argument(wanted))


def _as_bytes_of(x: Proxy, target: DType) -> Proxy:
    """``x`` with the last axis as many elements of ``target`` as fit its bytes."""
    old, new = x.type.dtype.bytes, target.bytes
    if x.type.dtype == target:
        return emit("reshape", x, newshape=x.shape)
    if old == new:
        return emit("bitcast", x, dtype=target.name)
    if not x.ndim:
        raise LoopwrightValueError(
            "changing the dtype of an array without axes is only possible if the itemsize stays"
        )
    *front, last = x.shape
    if old > new:
        wide = emit("bitcast", x, dtype=target.name)
        return emit("reshape", wide, newshape=(*front, last * (old // new)))
    ratio = new // old
    if not isinstance(last, int) or last % ratio:
        raise LoopwrightValueError(
            f"the last axis of {x.type.short} has to divide into elements of {target}, which are "
            f"{ratio} times as large"
        )
    narrow = emit("reshape", x, newshape=(*front, last // ratio, ratio))
    return emit("bitcast", narrow, dtype=target.name)


@implements(np.copy)
@method("__copy__")
@views
def _copy(a: Any, order: str = "K", _subok: bool = False) -> Proxy:
    return one_array(copied(lift(a), order))


@method("copy")
@views
def _copy_method(a: Any, order: str = "C") -> Proxy:
    return copied(lift(a), order)


@implements(np.result_type)
def _result_type(*values: Any) -> np.dtype[Any]:
    numbers = {int: 0, float: 0.0, complex: 0j}
    kinds = [emitting.kind_of(v) if isinstance(v, Proxy) else v for v in values]
    return np.result_type(
        *(numbers[k] if isinstance(k, type) and k in numbers else k for k in kinds)
    )
