"""NumPy's functions whose results depend on an order: scans, sorts, searches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.dtype import UINT8
from ...ir.errors import LoopwrightValueError
from ..core.dispatch import METHODS, implements, method
from ..core.emitting import common_dtype, dtype_argument, emit, lift
from ..core.proxy import Proxy
from .reductions import normalise_axis
from .shaping import reshape


def _scan(name: str) -> Callable[..., Proxy]:
    """A cumulative sum or product: dtypes as of the sum or product of all elements."""

    def scan(a: Any, axis: int | None = None, dtype: Any = None, _out: Any = None) -> Proxy:
        x = lift(a)
        if axis is None:
            x, axis = reshape(x, (x.size,)), 0
        if dtype is not None:
            return emit(name, lift(x, dtype_argument(dtype)), axis=normalise_axis(axis, x.ndim))
        keeps = x.type.dtype.is_inexact or name not in ("cumsum", "cumprod")
        wide = x if keeps else lift(x, x.type.dtype.accumulator)
        return emit(name, wide, axis=normalise_axis(axis, x.ndim))

    return scan


_cumsum = implements(np.cumsum)(method("cumsum")(_scan("cumsum")))
_cumprod = implements(np.cumprod)(method("cumprod")(_scan("cumprod")))


def _cumulative(scan: Callable[..., Proxy], neutral: int) -> Callable[..., Proxy]:
    def cumulative(
        x: Any,
        /,
        *,
        axis: int | None = None,
        dtype: Any = None,
        _out: Any = None,
        include_initial: bool = False,
    ) -> Proxy:
        x = lift(x)
        if axis is None and x.ndim != 1:
            raise LoopwrightValueError(f"axis is needed for an array of {x.ndim} axes")
        axis = 0 if axis is None else axis
        result = scan(x, axis, dtype)
        if not include_initial:
            return result
        shape = [1 if n == axis % x.ndim else size for n, size in enumerate(x.shape)]
        first = np.full(shape, neutral, result.dtype)
        joined: Any = np.concatenate([first, result], axis=axis)
        return joined

    return cumulative


if hasattr(np, "cumulative_sum"):  # NumPy 2.1
    implements(np.cumulative_sum)(_cumulative(_cumsum, 0))
    implements(np.cumulative_prod)(_cumulative(_cumprod, 1))


def _accumulate(name: str) -> Callable[..., Proxy]:
    """``ufunc.accumulate``: in the dtype that ``ufunc.reduce`` gives."""

    def accumulate(array: Any, axis: int = 0, dtype: Any = None, _out: Any = None) -> Proxy:
        return _scan(name)(array, axis, dtype)

    return accumulate


for _ufunc, _name in (
    (np.add, "cumsum"),
    (np.multiply, "cumprod"),
    (np.maximum, "cummax"),
    (np.minimum, "cummin"),
):
    METHODS[f"{_ufunc.__name__}.accumulate"] = _accumulate(_name)


@implements(np.searchsorted)
@method("searchsorted")
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Proxy:
    """The places at which values go into a sorted array."""
    if side not in ("left", "right"):
        raise LoopwrightValueError(f"side is left or right, not {side!r}")
    x = lift(a) if sorter is None else lift(a)[sorter]
    dtype = common_dtype(x, v)
    return emit("nn.searchsorted", lift(x, dtype), lift(v, dtype), right=side == "right")


@implements(np.digitize)
def _digitize(x: Any, bins: Any, right: bool = False) -> Proxy:
    if not isinstance(bins, Proxy) and np.all(np.diff(bins) <= 0) and np.size(bins) > 1:
        descending = searchsorted(np.flip(bins), x, "right" if right else "left")
        return np.size(bins) - descending
    return searchsorted(bins, x, "left" if right else "right")


def _sorting(name: str) -> tuple[Callable[..., Proxy], Callable[..., Proxy]]:
    """Sorting, always stable, and partitioning: a sorted array is partitioned at every place."""

    def ordered(
        a: Any,
        axis: int | None = -1,
        kind: Any = None,
        order: Any = None,
        *,
        stable: bool | None = None,
    ) -> Proxy:
        np.sort(np.empty(0), kind=kind, stable=stable)  # refuses kinds that do not exist
        return _ordered(name, a, axis, order)

    def partitioned(
        a: Any, kth: Any, axis: int | None = -1, kind: Any = "introselect", order: Any = None
    ) -> Proxy:
        np.partition(np.empty(1), 0, kind=kind)
        length = lift(a).size if axis is None else lift(a).shape[axis]
        for n in () if isinstance(kth, Proxy) else np.atleast_1d(kth).tolist():
            if isinstance(length, int) and not -length <= n < length:
                raise LoopwrightValueError(f"kth(={n}) out of bounds ({length})")
        return _ordered(name, a, axis, order)

    return ordered, partitioned


_sort, _partition = _sorting("nn.sort")
_argsort, _argpartition = _sorting("nn.argsort")
implements(np.sort)(_sort)
implements(np.partition)(_partition)
implements(np.argsort)(method("argsort")(_argsort))
implements(np.argpartition)(method("argpartition")(_argpartition))


@implements(np.lexsort)
def _lexsort(keys: Any, axis: int = -1) -> Proxy:
    """Sorts by the last key; each sort is stable, so the least key comes first."""
    columns = [*keys] if isinstance(keys, list | tuple) else [keys[n] for n in range(len(keys))]
    if not columns:
        raise LoopwrightValueError("need sequence of keys with len > 0 in lexsort")
    axis = normalise_axis(axis, max(1, np.ndim(columns[0])))
    order: Any = _argsort(columns[0], axis)
    for column in columns[1:]:
        key: Any = lift(column)
        moved: Any = np.take_along_axis(key, order, axis=axis)
        inner: Any = _argsort(moved, axis)
        order = np.take_along_axis(order, inner, axis=axis)
    return order


def _in_place(function: Callable[..., Proxy]) -> Callable[..., None]:
    """The method that writes into the array what ``function`` makes of it."""

    def change(x: Proxy, *args: Any, **options: Any) -> None:
        METHODS["__setitem__"](x, ..., function(x, *args, **options))

    return change


METHODS["sort"] = _in_place(_sort)
METHODS["partition"] = _in_place(_partition)


def _ordered(name: str, a: Any, axis: int | None, order: Any) -> Proxy:
    if order is not None:
        raise LoopwrightValueError("order= names the fields of structured arrays")
    x = lift(a)
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    axis = normalise_axis(axis, x.ndim)
    if not x.type.dtype.is_complex:
        return emit(name, x, axis=axis)
    # By real parts, then by imaginary parts; behind all others what has nan in the imaginary part,
    # and last what has it in the real part. Each order is stable, the last one decides first.
    picked: Any = np.take_along_axis
    position = emit("nn.argsort", x.imag, axis=axis)
    unknown = lift(np.isnan(x.imag), UINT8) + 2 * lift(np.isnan(x.real), UINT8)
    for key in (x.real, unknown):
        order = emit("nn.argsort", picked(key, position, axis), axis=axis)
        position = picked(position, order, axis)
    return position if name == "nn.argsort" else picked(x, position, axis)
