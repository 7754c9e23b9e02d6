"""NumPy's reductions on traced arrays, as functions, methods and ``ufunc.reduce``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.dims import bounds
from ...ir.dtype import BOOL, UINT8
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError
from ...ir.graph.requirements import is_data_size
from ..core.dispatch import METHODS, UNSET, implements, method
from ..core.emitting import choose, dtype_argument, emit, lift
from ..core.proxy import Proxy
from .elementwise import cast
from .elementwise import where as where_

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
    if not x.ndim and isinstance(axis, int) and axis in (0, -1) and name != "mean":
        axis = None  # a scalar has one axis, to NumPy's ufunc.reduce
    given = initial is not UNSET and initial is not None
    axes = axes_of(axis, x.ndim)
    if given and name in ("max", "min"):
        reduced = tuple(range(x.ndim)) if axes is None else axes
        widths = _one_more(x, reduced)
        if any(last for _, last in widths):
            x = emit("nn.pad", x, pad_width=widths, pad_value=initial, mode="constant")
    result = _reduced(name, x, axes, keepdims)
    if not given:
        return result
    return emit(join, result, lift(initial, result.type.dtype))


def _one_more(x: Proxy, axes: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Returns the padding that gives each of ``axes`` another element, if it may have none."""
    least = [(bounds(size, {}) or (0, 0))[0] for size in x.type.shape]
    return tuple((0, int(n in axes and least[n] < 1)) for n in range(x.ndim))


def _masked(x: Proxy, where: Any, otherwise: Any) -> Proxy:
    if where is UNSET or where is True:
        return x
    return where_(where, x, lift(otherwise, x.type.dtype))


def _accumulation(name: str, join: str, identity: int) -> Callable[..., Proxy]:
    """A sum or product: small integers and bools become 64 bits wide, floats keep their dtype."""

    def reduce(
        a: Any,
        axis: Axis = None,
        dtype: Any = None,
        _out: Any = None,
        keepdims: Any = UNSET,
        initial: Any = UNSET,
        where: Any = UNSET,
    ) -> Proxy:
        x = lift(a)
        dtype_of_x = x.type.dtype
        wide = dtype_of_x.accumulator if dtype is None else dtype_argument(dtype)
        x = _masked(lift(x, wide), where, identity)
        if wide.is_bool:  # a sum of bools is true where one of them is
            truth = METHODS[("any", "all")[identity]](x, axis, None, keepdims)
            both = ("logical_or", "logical_and")[identity]
            return truth if initial is UNSET else emit(both, truth, lift(initial, BOOL))
        total = _reduce(name, x, axis, keepdims, initial, join)
        return lift(total, dtype_of_x) if dtype is None and dtype_of_x.is_inexact else total

    return reduce


def _extremum(name: str, join: str) -> Callable[..., Proxy]:
    def reduce(
        a: Any,
        axis: Axis = None,
        _out: Any = None,
        keepdims: Any = UNSET,
        initial: Any = UNSET,
        where: Any = UNSET,
    ) -> Proxy:
        if where is not UNSET and where is not True and initial is UNSET:
            raise LoopwrightValueError(f"np.{name} with where= needs initial=")
        return _reduce(name, _masked(lift(a), where, initial), axis, keepdims, initial, join)

    return reduce


def _truth(name: str, identity: bool) -> Callable[..., Proxy]:
    def reduce(
        a: Any, axis: Axis = None, _out: Any = None, keepdims: Any = UNSET, *, where: Any = UNSET
    ) -> Proxy:
        return _reduce(name, _masked(lift(a, BOOL), where, identity), axis, keepdims)

    return reduce


def float_operand(a: Any, dtype: Any) -> Proxy:
    """``a`` in the float dtype of a mean: float64 for integers and bools."""
    if dtype is not None:
        return cast(a, dtype)
    x = lift(a)
    return x if x.type.dtype.is_inexact else cast(x, "float64")


def spread(root: bool, skips_nan: bool = False) -> Callable[..., Any]:
    """Returns the variance as a function of NumPy's, or its root."""

    def reduce(
        a: Any,
        axis: Axis = None,
        dtype: Any = None,
        _out: Any = None,
        ddof: int = 0,
        keepdims: Any = UNSET,
        *,
        where: Any = UNSET,
        mean: Any = UNSET,
        correction: Any = UNSET,
    ) -> Any:
        skips = skips_nan and lift(a).type.dtype.is_inexact
        x, ddof = float_operand(a, dtype), ddof if correction is UNSET else correction
        is_masked = where is not UNSET and where is not True
        if not skips and not is_masked and mean is UNSET:
            name, axes = "std" if root else "variance", axes_of(axis, x.ndim)
            return emit(name, x, axis=axes, ddof=ddof, keepdims=_keep(keepdims))
        valid: Any = np.logical_not(np.isnan(x)) if skips else np.ones_like(x, bool)
        valid = np.logical_and(valid, where) if is_masked else valid
        if mean is UNSET:
            count = lift(np.sum(valid, axis, keepdims=True), x.type.dtype.part)
            mean = np.sum(choose(valid, x, 0), axis, keepdims=True) / count
        apart: Any = choose(valid, x - mean, 0)
        square = (apart * np.conj(apart)).real if x.type.dtype.is_complex else apart * apart
        total: Any = np.sum(square, axis, keepdims=keepdims)
        free = np.maximum(lift(np.sum(valid, axis, keepdims=keepdims) - ddof, total.type.dtype), 0)
        variance = choose(free > 0, total / free, np.nan) if skips else total / free
        return np.sqrt(variance) if root else variance

    return reduce


def _position(name: str) -> Callable[..., Proxy]:
    def reduce(a: Any, axis: Any = None, _out: Any = None, *, keepdims: Any = UNSET) -> Proxy:
        x = lift(a)
        x = lift(x, UINT8) if x.type.dtype.is_bool else x
        position = None if axis is None else normalise_axis(axis, x.ndim)
        return _reduced(name, x, position, keepdims)

    return reduce


def _reduced(name: str, x: Proxy, axis: Any, keepdims: Any) -> Proxy:
    if any(map(is_data_size, x.type.shape)):
        from ..core.runtime_checks import check_elements  # loaded when it is first needed

        check_elements(name, x, axis)
    return emit(name, x, axis=axis, keepdims=_keep(keepdims))


for _name, _implementation, *_functions in (
    ("sum", _accumulation("sum", "add", 0), np.sum),
    ("prod", _accumulation("prod", "multiply", 1), np.prod),
    ("max", _extremum("max", "maximum"), np.max, np.amax),
    ("min", _extremum("min", "minimum"), np.min, np.amin),
    ("any", _truth("any", False), np.any),
    ("all", _truth("all", True), np.all),
    ("var", spread(root=False), np.var),
    ("std", spread(root=True), np.std),
    ("argmax", _position("argmax"), np.argmax),
    ("argmin", _position("argmin"), np.argmin),
):
    _implementation.__qualname__ = _name
    implements(*_functions)(method(_name)(_implementation))


@implements(np.mean)
@method("mean")
def _mean(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    _out: Any = None,
    keepdims: Any = UNSET,
    *,
    where: Any = UNSET,
) -> Proxy:
    x = float_operand(a, dtype)
    if where is UNSET or where is True:
        return _reduce("mean", x, axis, keepdims)
    total = np.sum(x, axis, keepdims=keepdims, where=where)
    mask = emit("broadcast_to", lift(where, BOOL), shape=x.shape)
    return total / lift(np.sum(mask, axis, keepdims=keepdims), total.type.dtype)


def _ufunc_reduce(name: str) -> Any:
    def reduce(
        array: Any,
        axis: Axis = 0,
        dtype: Any = None,
        keepdims: Any = False,
        initial: Any = UNSET,
        where: Any = True,
    ) -> Proxy:
        given = initial is not UNSET and initial is not None
        if join := {"any": "logical_or", "all": "logical_and"}.get(name):
            if dtype is not None and not dtype_argument(dtype).is_bool:
                raise LoopwrightTypeError(f"no loop of {join} has results of {np.dtype(dtype)}")
            truth = METHODS[name](lift(array), axis, keepdims=keepdims, where=where)
            return emit(join, truth, lift(initial, BOOL)) if given else truth
        options = {} if initial is None else {"initial": initial}
        if name in ("sum", "prod"):
            return METHODS[name](array, axis, dtype, keepdims=keepdims, where=where, **options)
        x = lift(array) if dtype is None else cast(array, dtype)
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
