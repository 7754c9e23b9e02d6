"""Methods of NumPy's ufuncs on traced arrays: reduce, accumulate and reduceat of any of them.

Sums, products, extrema and truths have operators of their own (``reductions``, ``ordering``). The
others that are associative go in steps of which each joins pairs: as many as the logarithm of the
number of elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.dims import as_int
from ...ir.errors import LoopwrightIndexError, LoopwrightValueError, UnsupportedError
from ..core.arguments import any_traced
from ..core.dispatch import METHODS, UFUNCS, UNSET, method
from ..core.emitting import dtype_argument, emit, lift
from ..core.proxy import Proxy
from .editing import part
from .reductions import axes_of, normalise_axis

_ASSOCIATIVE = {
    "add", "multiply", "maximum", "minimum", "fmax", "fmin", "logical_and", "logical_or",
    "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm", "hypot", "logaddexp",
    "logaddexp2",
}  # fmt: skip
_SEGMENTS = 64
"""Segments that ``reduceat`` computes, one reduction each."""


def _joined(ufunc: np.ufunc, x: Proxy, y: Proxy) -> Proxy:
    return UFUNCS[ufunc](x, y)


def _operand(ufunc: np.ufunc, array: Any, dtype: Any) -> Proxy:
    """``array`` in the dtype in which the ufunc joins its results to elements."""
    x = lift(array)
    if dtype is not None:
        ufunc.reduce(np.ones(1, x.dtype), dtype=dtype)  # refuses what NumPy would
        x = lift(x, dtype_argument(dtype))
    if ufunc.__name__ in ("add", "multiply") and dtype is None:
        return x if x.type.dtype.is_float else lift(x, x.type.dtype.accumulator)
    return lift(x, lift(_joined(ufunc, x, x)).type.dtype)


def _associative(ufunc: np.ufunc, name: str) -> None:
    if ufunc.__name__ not in _ASSOCIATIVE:
        raise UnsupportedError(
            f"np.{ufunc.__name__}.{name}: the order of its steps matters",
            hint="lw.scan, which carries the last result",
        )


@method("ufunc.reduce")
def _reduce(
    ufunc: np.ufunc,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    keepdims: Any = False,
    initial: Any = UNSET,
    where: Any = True,
) -> Proxy:
    if where is not True:
        raise UnsupportedError(f"np.{ufunc.__name__}.reduce: where= is not supported")
    if ufunc in (np.subtract, np.divide) and isinstance(axis, int) and initial is UNSET:
        x = lift(array) if dtype is None else lift(array, dtype_argument(dtype))
        axis = normalise_axis(axis, x.ndim)
        rest = METHODS["sum" if ufunc is np.subtract else "prod"]
        other = rest(part(x, axis, 1), axis, x.dtype, keepdims=True)
        first = _joined(ufunc, part(x, axis, 0, 1), other)
        return first if keepdims else emit("squeeze", first, axis=(axis,))
    _associative(ufunc, "reduce")
    x = _operand(ufunc, array, dtype)
    axes = axes_of(axis, x.ndim)
    axes = tuple(range(x.ndim)) if axes is None else axes
    for each in axes:
        x = _halved(ufunc, x, each)
    if initial is not UNSET and initial is not None:
        x = _joined(ufunc, x, lift(initial, x.type.dtype))
    return x if keepdims or not axes else emit("squeeze", x, axis=axes)


def _halved(ufunc: np.ufunc, x: Proxy, axis: int) -> Proxy:
    """Joins the halves of an axis until one element is left."""
    size = as_int(x.shape[axis])
    if not size:
        if ufunc.identity is None:
            raise LoopwrightValueError(
                f"zero-size array to reduction operation {ufunc.__name__} which has no identity"
            )
        shape = tuple(1 if n == axis else s for n, s in enumerate(x.shape))
        return emit("full", shape=shape, fill_value=ufunc.identity, dtype=str(x.type.dtype))
    while size > 1:
        half = size // 2
        made = _joined(ufunc, part(x, axis, 0, half), part(x, axis, half, 2 * half))
        rest = [part(x, axis, 2 * half, size)] if size % 2 else []
        x = emit("concatenate", made, *rest, axis=axis) if rest else made
        size = half + size % 2
    return x


_CUMULATIVE: dict[np.ufunc, str] = {np.add: "cumsum", np.multiply: "cumprod"}


@method("ufunc.accumulate")
def _accumulate(ufunc: np.ufunc, array: Any, axis: int = 0, dtype: Any = None) -> Proxy:
    """Each step joins elements that are twice as far apart as before."""
    cumulative = _CUMULATIVE.get(ufunc)
    if cumulative is not None and not lift(array).type.dtype.is_complex:
        return METHODS[cumulative](lift(array), axis, dtype)
    _associative(ufunc, "accumulate")
    x = _operand(ufunc, array, dtype)
    axis = normalise_axis(axis, x.ndim)
    size, step = as_int(x.shape[axis]), 1
    while step < size:
        moved = _joined(ufunc, part(x, axis, 0, size - step), part(x, axis, step, size))
        x = emit("concatenate", part(x, axis, 0, step), moved, axis=axis)
        step *= 2
    return x


@method("ufunc.reduceat")
def _reduceat(ufunc: np.ufunc, array: Any, indices: Any, axis: int = 0, dtype: Any = None) -> Proxy:
    if any_traced((indices,)):
        raise UnsupportedError(
            f"np.{ufunc.__name__}.reduceat at traced indices",
            hint="np.add.at, with the number of its segment for each element",
        )
    x = lift(array)
    axis = normalise_axis(axis, x.ndim)
    size, starts = as_int(x.shape[axis]), [int(i) for i in np.asarray(indices).reshape(-1)]
    if any(not 0 <= i < size for i in starts):
        raise LoopwrightIndexError(f"index {starts} out-of-bounds in {ufunc.__name__}.reduceat")
    if len(starts) > _SEGMENTS:
        raise UnsupportedError(
            f"np.{ufunc.__name__}.reduceat of more than {_SEGMENTS} segments",
            hint="np.add.at, with the number of its segment for each element",
        )
    reduce = METHODS.get(f"{ufunc.__name__}.reduce") or (lambda *a: _reduce(ufunc, *a))
    parts: list[Proxy] = []
    for start, end in zip(starts, [*starts[1:], size], strict=True):
        segment = part(x, axis, start, end if end > start else start + 1)
        parts.append(lift(reduce(segment, axis, dtype)))
    return emit("stack", *parts, axis=axis)
