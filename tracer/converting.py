"""NumPy's functions that convert their arguments to arrays without asking whose they are.

NumPy hands most functions over to traced arrays, but not ``np.asarray``, ``np.array``, ``np.r_``
and a few more: these want values. ``CONVERTERS`` are ours for them, which ``numpys_own`` puts in
their place while a function that needs them is traced again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.dims import product
from ..ir.dtype import FLOAT64, INT64, DType
from ..ir.errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from .creation import full
from .dispatch import FUNCTIONS, views
from .emitting import common, copied, dtype_argument, lift, one_array
from .proxy import Proxy
from .shaping import broadcast_shapes, broadcast_to, flattened, reshape
from .sizes import Size


def has_traced(values: Any) -> bool:
    """True if there is a traced array or size among ``values``, or in lists, tuples and dicts of
    them."""
    if isinstance(values, dict):
        values = values.values()
    return any(
        type(v) in (Proxy, Size) or (isinstance(v, tuple | list | dict) and has_traced(v))
        for v in values
    )


_OF_WEAK: dict[Any, DType] = {int: INT64, float: FLOAT64}
"""The dtype of an array that NumPy makes of a Python number."""


@views
def _array(
    object: Any,
    dtype: Any = None,
    *,
    copy: bool | None = True,
    order: str | None = "K",
    _subok: bool = False,
    ndmin: int = 0,
) -> Proxy:
    """``np.array``: arrays are copied, nested sequences stacked."""
    nested = isinstance(object, list | tuple)
    x = lift(object, None if dtype is None else dtype_argument(dtype))
    if x.weak is not None:
        x = lift(x, _OF_WEAK.get(x.weak, x.type.dtype))
    if x.is_scalar:
        x = one_array(Proxy(x.atom, x.owner))
    elif getattr(copy, "value", copy) in (True, 1) and not nested:  # _CopyMode.ALWAYS
        x = copied(x, order or "K")
    return x if x.ndim >= ndmin else reshape(x, (1,) * (ndmin - x.ndim) + x.shape)


def _asarray(order: str | None, least: int = 0) -> Callable[..., Proxy]:
    @views
    def convert(
        a: Any,
        dtype: Any = None,
        order: str | None = order,
        *,
        _device: Any = None,
        copy: bool | None = None,
    ) -> Proxy:
        x = _array(a, dtype, copy=copy, order=order, ndmin=least)
        wanted = {"C": x.shape, "F": x.shape[::-1]}.get(order or "K")
        if wanted is None or x.ndim < 2:
            return x
        given = x.strides if order == "C" or x.strides is None else x.strides[::-1]
        contiguous = tuple(product(wanted[n + 1 :]) for n in range(x.ndim))
        return x if given == contiguous else copied(x, order or "K")

    return convert


@views
def _require(a: Any, dtype: Any = None, requirements: Any = None) -> Proxy:
    forced = {str(r)[:1].upper() for r in np.atleast_1d(requirements or [])} & {"C", "F"}
    return _asarray(min(forced, default="K"))(a, dtype)


def _full(shape: Any, fill_value: Any, dtype: Any = None, order: str | None = "C") -> Proxy:
    made = full(shape, fill_value, dtype)
    return copied(made, order) if order == "F" else made


def _isscalar(element: Any) -> bool:
    return isinstance(element, Proxy) and element.is_scalar


def _iterable(y: Any) -> bool:
    return lift(y).ndim > 0


CONVERTERS: dict[str, Callable[..., Any]] = {
    "array": _array,
    "asarray": _asarray("K"),
    "asanyarray": _asarray("K"),
    "ascontiguousarray": _asarray("C", 1),
    "asfortranarray": _asarray("F", 1),
    "asarray_chkfinite": _asarray("K"),
    "require": _require,
    "full": _full,
    "isscalar": _isscalar,
    "iterable": _iterable,
}
"""Ours for NumPy's functions of these names, if one of their arguments is traced."""


def _joined(key: Any, axis: int, ndmin: int, trans1d: int) -> Proxy:
    """``np.r_[key]``: slices as ranges, numbers and arrays, joined along an axis."""
    items = list(key) if isinstance(key, tuple) else [key]
    if isinstance(items[0], str):
        try:
            given = [int(part) for part in items.pop(0).split(",")]
        except ValueError:
            raise UnsupportedError("np.r_ that makes a matrix", hint="np.concatenate") from None
        axis, ndmin, trans1d = (*given, *(axis, ndmin, trans1d)[len(given) :])
    parts: list[Proxy] = []
    for x in common(*(_ranged(item) for item in items)):
        new = max(ndmin - x.ndim, 0)
        front = min(trans1d if trans1d >= 0 else trans1d + new + 1, new)
        parts.append(reshape(x, (1,) * front + x.shape + (1,) * (new - front)))
    return FUNCTIONS[np.concatenate](parts, axis)


def _ranged(item: Any) -> Any:
    if not isinstance(item, slice):
        return item
    if has_traced((item.start, item.stop, item.step)):
        raise LoopwrightTypeError(
            "how many numbers a slice of np.r_ has depends on traced values",
            hint="start + np.arange(n)",
        )
    return np.r_[item]


SUBSCRIPTED = {"r_": (0, 1, -1), "c_": (-1, 2, 0)}
"""Objects of NumPy's that join what they are indexed by: axis, least rank, place of new axes."""


def joined_by(name: str) -> Callable[[Any], Proxy]:
    """Returns what indexing ``np.r_`` or ``np.c_`` does where something is traced."""
    return lambda key: _joined(key, *SUBSCRIPTED[name])


def vectorized(owner: Any, args: Sequence[Any], kwargs: Any) -> Any:
    """``np.vectorize(f)(*args)``: ``f`` of the elements, one after the other, in a loop."""
    from .control.loops import map as map_rows

    if owner.signature is not None or owner.excluded or kwargs:
        raise UnsupportedError(
            "np.vectorize with signature=, excluded= or keywords is not supported",
            hint="lw.map over the rows of an array",
        )
    arrays = [lift(a) for a in args]
    shape = broadcast_shapes(*(a.shape for a in arrays))
    if not shape:
        return owner.pyfunc(*arrays)
    if 0 in shape and not owner.otypes:
        raise LoopwrightValueError(
            "np.vectorize of arrays without elements", hint='np.vectorize(f, otypes=["float64"])'
        )
    rows = tuple(flattened(broadcast_to(a, shape)) for a in arrays)
    results = map_rows(lambda row: owner.pyfunc(*row), rows)
    types = [np.dtype(t) for t in owner.otypes] if owner.otypes else None
    several = isinstance(results, tuple)
    made: list[Proxy] = []
    for n, result in enumerate(results if several else (results,)):
        result = lift(result, dtype_argument(types[n]) if types else None)
        made.append(reshape(result, shape + result.shape[1:]))
    return tuple(made) if several else made[0]
