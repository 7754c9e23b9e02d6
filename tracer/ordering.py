"""NumPy's functions whose results depend on an order: scans, sorts, searches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.errors import LoopwrightValueError
from .dispatch import implements, method
from .elementwise import where
from .emitting import common_dtype, dtype_argument, emit, lift
from .proxy import Proxy
from .reductions import normalise_axis
from .shaping import reshape

__all__: list[str] = []


def _scan(name: str) -> Callable[..., Proxy]:
    """A cumulative sum or product: dtypes as of the sum or product of all elements."""

    def scan(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Proxy:
        x = lift(a)
        if axis is None:
            x, axis = reshape(x, (x.size,)), 0
        if dtype is not None:
            return emit(name, lift(x, dtype_argument(dtype)), axis=normalise_axis(axis, x.ndim))
        wide = x if x.type.dtype.is_inexact else lift(x, x.type.dtype.accumulator)
        return emit(name, wide, axis=normalise_axis(axis, x.ndim))

    return scan


_cumsum = implements(np.cumsum)(method("cumsum")(_scan("cumsum")))
_cumprod = implements(np.cumprod)(method("cumprod")(_scan("cumprod")))


@implements(np.nancumsum)
def _nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Proxy:
    return _cumsum(_without_nan(a, 0), axis, dtype)


@implements(np.nancumprod)
def _nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Proxy:
    return _cumprod(_without_nan(a, 1), axis, dtype)


def _without_nan(a: Any, instead: int) -> Proxy:
    x = lift(a)
    return where(emit("isnan", x), lift(instead, x.type.dtype), x) if x.type.dtype.is_inexact else x


def _cumulative(scan: Callable[..., Proxy], neutral: int) -> Callable[..., Proxy]:
    def cumulative(
        x: Any,
        /,
        *,
        axis: int | None = None,
        dtype: Any = None,
        out: Any = None,
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


@implements(np.searchsorted)
@method("searchsorted")
def _searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Proxy:
    if side not in ("left", "right"):
        raise LoopwrightValueError(f"side is left or right, not {side!r}")
    x = lift(a) if sorter is None else lift(a)[sorter]
    dtype = common_dtype(x, v)
    return emit("nn.searchsorted", lift(x, dtype), lift(v, dtype), right=side == "right")


@implements(np.digitize)
def _digitize(x: Any, bins: Any, right: bool = False) -> Proxy:
    if not isinstance(bins, Proxy) and np.all(np.diff(bins) <= 0) and np.size(bins) > 1:
        descending = _searchsorted(np.flip(bins), x, "right" if right else "left")
        return np.size(bins) - descending
    return _searchsorted(bins, x, "left" if right else "right")


@implements(np.sort)
def _sort(
    a: Any,
    axis: int | None = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: bool | None = None,
) -> Proxy:
    """Always stable, whatever ``kind`` says."""
    return _ordered("nn.sort", a, axis, order)


@implements(np.argsort)
@method("argsort")
def _argsort(
    a: Any,
    axis: int | None = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: bool | None = None,
) -> Proxy:
    return _ordered("nn.argsort", a, axis, order)


@implements(np.partition)
def _partition(
    a: Any, kth: Any, axis: int | None = -1, kind: Any = "introselect", order: Any = None
) -> Proxy:
    """A sorted array is partitioned at every place."""
    return _ordered("nn.sort", a, axis, order)


@implements(np.argpartition)
@method("argpartition")
def _argpartition(
    a: Any, kth: Any, axis: int | None = -1, kind: Any = "introselect", order: Any = None
) -> Proxy:
    return _ordered("nn.argsort", a, axis, order)


def _ordered(name: str, a: Any, axis: int | None, order: Any) -> Proxy:
    if order is not None:
        raise LoopwrightValueError("order= names the fields of structured arrays")
    x = lift(a)
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    return emit(name, x, axis=normalise_axis(axis, x.ndim))
