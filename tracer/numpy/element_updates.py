"""Updates of chosen elements: ``np.add.at``, ``np.put`` and the like, and ``x.at[key].add(v)``.

``ufunc.at`` is one ``index_update`` that joins all values in order, also where an index is there
several times. The others are assignments at indices that are computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.dims import IntExpr, as_int
from ...ir.errors import LoopwrightIndexError, LoopwrightTypeError, UnsupportedError
from ..core.arguments import any_traced
from ..core.dispatch import METHODS, UFUNCS, implements, method
from ..core.emitting import common_dtype, lift, one_array
from ..core.proxy import Proxy
from ..core.trace import active
from .assignment import update_where, writable, write_at
from .indexing import basic_view, expanded, mask_of, region_of
from .reductions import normalise_axis
from .shaping import reshape

_REDUCTIONS: dict[np.ufunc, str] = {
    np.add: "add",
    np.multiply: "mul",
    np.minimum: "min",
    np.maximum: "max",
}


@method("ufunc.at")
def _ufunc_at(ufunc: np.ufunc, a: Any, indices: Any, b: Any = None) -> None:
    """``ufunc.at(a, indices, b)``: ``a[indices] = ufunc(a[indices], b)`` for one index after the
    other."""
    target = writable(a, f"np.{ufunc.__name__}.at")
    if ufunc.nin != 2 or ufunc.nout != 1 or b is None:
        raise UnsupportedError(f"np.{ufunc.__name__}.at", hint="x[i] = the new values")
    mask = mask_of(indices)
    if mask is not None:
        update_where(target, lift(mask), ufunc, b)
        return
    items = expanded(target, indices)
    part = basic_view(target, items)
    if part is not None:
        METHODS["__setitem__"](target, indices, UFUNCS[ufunc](part, b))
        return
    chosen = region_of(target, items)
    made = ufunc.resolve_dtypes((target.dtype, common_dtype(b).numpy, None))[2]
    if chosen[1].index_shape and not np.can_cast(made, target.dtype, "same_kind"):
        raise UnsupportedError(  # each sum would be rounded
            f"np.{ufunc.__name__}.at computes {made} for elements of {target.dtype}",
            hint=f"values.astype(np.{target.dtype})",
        )
    if ufunc in _REDUCTIONS and made.kind == target.dtype.kind and not target.type.dtype.is_bool:
        write_at(*chosen, b, _REDUCTIONS[ufunc])
    elif ufunc is np.subtract and made.kind == target.dtype.kind:
        write_at(*chosen, np.negative(lift(b, target.type.dtype)), "add")
    elif not chosen[1].index_shape:
        METHODS["__setitem__"](target, indices, UFUNCS[ufunc](target[indices], b))
    elif ufunc is np.divide:
        divisors: Any = np.ones_like(target)
        write_at(*region_of(divisors, items), b, "mul")
        METHODS["__setitem__"](target, ..., np.divide(target, divisors))
    else:
        raise UnsupportedError(
            f"np.{ufunc.__name__}.at with arrays of indices",
            hint="np.add.at, subtract, multiply, divide, minimum or maximum",
        )


@implements(np.put)
@method("put")
def _put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """``np.put``: ``a.flat[ind] = v``, the values repeated as often as is needed."""
    target = writable(a, "np.put")
    target = target if target.ndim else reshape(target, (1,))
    index, value = reshape(lift(ind), (-1,)), reshape(lift(v, target.type.dtype), (-1,))
    size, count, given_values = (_known(n, "np.put") for n in (target.size, index.size, value.size))
    if given_values not in (1, count):
        value = value[np.arange(count) % given_values]
    if mode == "wrap":
        index = index % size
    elif mode == "clip":
        index = np.clip(index, 0, size - 1)
    elif mode != "raise":
        raise LoopwrightTypeError(f"np.put: mode {mode!r} is none of 'raise', 'clip', 'wrap'")
    elif not any_traced(ind):
        given = np.asarray(ind).reshape(-1)
        if given.size and not -size <= given.min() <= given.max() < size:
            raise LoopwrightIndexError(f"an index is out of bounds for array with size {size}")
    place = np.where(index < 0, index + size, index)
    # In front, where only what is out of range is negative, a negative index must not count.
    inside = np.where(place < 0, size, place)
    parts: list[Any] = []
    for length in reversed(target.shape[1:]):
        parts.append(inside % length)
        inside = inside // length
    target[(inside, *reversed(parts))] = value


@implements(np.put_along_axis)
def _put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    target, index = writable(arr, "np.put_along_axis"), lift(indices)
    if axis is None:
        _put(target, indices, values)
        return
    axis = normalise_axis(axis, target.ndim)
    if index.ndim != target.ndim:
        raise LoopwrightTypeError(
            f"put_along_axis: {index.type.short} and {target.type.short} differ in rank"
        )
    key: list[Any] = []
    for each, size in enumerate(target.shape):
        if each == axis:
            key.append(indices)
            continue
        counted = np.arange(_known(size, "np.put_along_axis"))
        key.append(counted.reshape([-1 if i == each else 1 for i in range(target.ndim)]))
    target[tuple(key)] = values


@implements(np.fill_diagonal)
def _fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    target = writable(a, "np.fill_diagonal")
    shape: Any = tuple(as_int(s) for s in target.shape)
    if target.ndim < 2:
        raise LoopwrightIndexError("array must be at least 2-d")
    if target.ndim > 2 and len(set(shape)) != 1:
        raise LoopwrightIndexError("All dimensions of input must be of equal length")
    step = shape[1] + 1 if target.ndim == 2 else 1 + int(np.cumprod(shape[:-1]).sum())
    end = int(np.prod(shape))
    if target.ndim == 2 and not wrap:
        end = min(end, shape[1] ** 2)
    places = np.arange(0, end, step)
    value = reshape(lift(val, target.type.dtype), (-1,))
    count = _known(value.size, "np.fill_diagonal")
    if count not in (1, places.size):
        value = value[np.arange(places.size) % count]
    target[np.unravel_index(places, shape)] = value


def _known(size: IntExpr, function: str) -> int:
    if not isinstance(size, int):
        raise UnsupportedError(f"{function} with symbolic sizes", hint="x[i] = values")
    return size


class At:
    """``x.at``, and ``lw.at(x)`` for arrays of NumPy's: new arrays that differ at an index.

    ``x`` itself stays as it is. Values are cast to its dtype, and broadcast as in an assignment;
    where an index is there several times, ``set`` takes the last value, and the others join all.
    """

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> _Elements:
        return _Elements(self._array, key)


class _Elements:
    """Elements of an array at a key."""

    __slots__ = ("_array", "_key")

    def __init__(self, array: Any, key: Any) -> None:
        self._array = array
        self._key = key

    def get(self) -> Any:
        """The elements themselves: ``x[key]``."""
        return self._array[self._key]

    def set(self, value: Any) -> Any:
        """``x`` with the elements replaced."""
        result = _copy(self._array)
        result[self._key] = value
        return result

    def add(self, value: Any) -> Any:
        """``x`` with ``value`` added to the elements."""
        return self._joined(np.add, value)

    def subtract(self, value: Any) -> Any:
        """``x`` with ``value`` subtracted from the elements."""
        return self._joined(np.subtract, value)

    def multiply(self, value: Any) -> Any:
        """``x`` with the elements multiplied by ``value``."""
        return self._joined(np.multiply, value)

    def divide(self, value: Any) -> Any:
        """``x`` with the elements divided by ``value``."""
        return self._joined(np.divide, value)

    def min(self, value: Any) -> Any:
        """``x`` with the elements that are greater than ``value`` replaced by it."""
        return self._joined(np.minimum, value)

    def max(self, value: Any) -> Any:
        """``x`` with the elements that are less than ``value`` replaced by it."""
        return self._joined(np.maximum, value)

    def apply(self, function: Callable[[Any], Any]) -> Any:
        """``x`` with the elements replaced by ``function`` of them."""
        result = _copy(self._array)
        result[self._key] = function(result[self._key])
        return result

    def _joined(self, ufunc: np.ufunc, value: Any) -> Any:
        result = _copy(self._array)
        given = value if isinstance(value, Proxy) else np.asarray(value)
        ufunc.at(result, self._key, given.astype(result.dtype, copy=False))
        return result


def _copy(array: Any) -> Any:
    """A copy that can be written: a traced one while a function is traced."""
    return np.array(array) if active() is None else one_array(METHODS["copy"](lift(array)))


@method("array.at")
def at(x: Any) -> At:
    """Returns what makes new arrays of ``x`` that differ at an index; on traced arrays: ``x.at``.

    ``lw.at(x)[key].set(v)``, ``.add``, ``.subtract``, ``.multiply``, ``.divide``, ``.min``,
    ``.max`` and ``.apply(f)`` return copies with changed elements, ``.get()`` the elements. Keys
    are those of an assignment. In compiled code a copy that nobody else needs is not made.

    >>> import loopwright as lw
    >>> x = np.zeros(4, np.int32)
    >>> lw.at(x)[[1, 1, 3]].add(1)
    array([0, 2, 0, 1], dtype=int32)
    >>> lw.at(x)[1:3].set([5, 6])
    array([0, 5, 6, 0], dtype=int32)
    >>> x
    array([0, 0, 0, 0], dtype=int32)
    """
    return At(x if isinstance(x, Proxy | np.ndarray) else np.asarray(x))
