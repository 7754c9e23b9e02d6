"""Functions that make arrays from nothing, and those that show the elements of one otherwise.

There is nothing to compile: on plain arrays they are NumPy's, which return views where they can.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.errors import LoopwrightValueError
from ..tracer import Proxy, creation
from ..tracer import indexing as traced
from ..tracer.creation import while_tracing
from .eager import compiled


def check_device(device: Any) -> None:
    """Raises LoopwrightValueError unless ``device`` is None or ``"cpu"``, the only one there is."""
    if device not in (None, "cpu"):
        raise LoopwrightValueError(f"there is no device {device!r}", hint="device='cpu'")


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Any:
    """Returns ``start, start + step, ...`` below ``stop``; of one number, those from 0 to it."""
    check_device(device)
    return creation.arange(start, stop, step, dtype=dtype)


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Any:
    """Returns an array of ``obj``: a number, nested sequences, an array, a buffer.

    ``copy=True`` always copies, ``copy=False`` raises ValueError where a copy is needed.
    """
    check_device(device)
    return creation.asarray(obj, dtype=dtype, copy=copy)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Returns an array of any values, float64 unless ``dtype`` is given."""
    check_device(device)
    return creation.empty(shape, dtype=dtype)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Returns an array of zeros, float64 unless ``dtype`` is given."""
    check_device(device)
    return creation.zeros(shape, dtype=dtype)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Returns an array of ones, float64 unless ``dtype`` is given."""
    check_device(device)
    return creation.ones(shape, dtype=dtype)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Returns an array of ``fill_value``, whose kind decides the dtype if none is given."""
    check_device(device)
    return creation.full(shape, fill_value, dtype=dtype)


def eye(
    n_rows: Any, n_cols: Any = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
) -> Any:
    """Returns ones on the ``k``-th diagonal of a matrix of zeros."""
    check_device(device)
    return creation.eye(n_rows, n_cols, k=k, dtype=dtype)


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> Any:
    """Returns ``num`` evenly spaced numbers from ``start`` to ``stop``, or up to it."""
    check_device(device)
    return creation.linspace(start, stop, num=num, dtype=dtype, endpoint=endpoint)


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Returns an array of any values with the shape of ``x``, and its dtype if none is given."""
    check_device(device)
    return np.empty_like(x, dtype=dtype)


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Returns zeros with the shape of ``x``, and its dtype if none is given."""
    check_device(device)
    return np.zeros_like(x, dtype=dtype)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Returns ones with the shape of ``x``, and its dtype if none is given."""
    check_device(device)
    return np.ones_like(x, dtype=dtype)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Returns an array of ``fill_value`` with the shape of ``x``, and by default its dtype."""
    check_device(device)
    return np.full_like(x, fill_value, dtype=dtype)


def from_dlpack(x: Any, /, *, device: Any = None, copy: Any = None) -> Any:
    """Returns an array on the memory of ``x``, an array of any library with ``__dlpack__``.

    ``copy=True`` copies. Raises BufferError where the memory cannot be shared.
    """
    check_device(device)
    array = x if isinstance(x, Proxy | np.ndarray) else np.from_dlpack(x)
    return np.copy(array) if copy else array


def meshgrid(*arrays: Any, indexing: Any = "xy") -> Any:
    """Returns a list of matrices of coordinates, one for each of the one-dimensional arrays."""
    return list(np.meshgrid(*arrays, indexing=indexing))


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """Returns ``x`` in another dtype; ``copy=False`` returns ``x`` itself if it has that dtype."""
    check_device(device)
    return _cast(x, dtype) if copy or x.dtype != dtype else x


@compiled
def _cast(x: Any, dtype: Any, /) -> Any:
    return np.astype(x, dtype)


# Shapes.


def broadcast_arrays(*arrays: Any) -> Any:
    """Returns the arrays, each broadcast to the shape of all: a list of views."""
    return list(np.broadcast_arrays(*arrays))


def broadcast_to(x: Any, /, shape: Any) -> Any:
    """Returns ``x`` repeated to ``shape``, a view that is not to be written."""
    return np.broadcast_to(x, shape)


def expand_dims(x: Any, /, *, axis: int = 0) -> Any:
    """Returns ``x`` with a new axis of size 1 at ``axis``; IndexError where there is no such."""
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise IndexError(f"axis {axis} of an array of {x.ndim + 1} axes")
    return np.expand_dims(x, axis)


def flip(x: Any, /, *, axis: Any = None) -> Any:
    """Returns ``x`` with the elements of some axes, or all, in the opposite order."""
    return np.flip(x, axis=axis)


def matrix_transpose(x: Any, /) -> Any:
    """Returns ``x`` with its last two axes exchanged."""
    return np.matrix_transpose(x)


def moveaxis(x: Any, source: Any, destination: Any, /) -> Any:
    """Returns ``x`` with axes moved to other places, the others in the order they had."""
    return np.moveaxis(x, source, destination)


def permute_dims(x: Any, /, axes: Any) -> Any:
    """Returns ``x`` with its axes in another order."""
    return np.permute_dims(x, axes)


def reshape(x: Any, /, shape: Any, *, copy: Any = None) -> Any:
    """Returns the elements of ``x`` in another shape, one size of which may be -1.

    ``copy=True`` always copies; ``copy=False`` raises ValueError where a copy is needed.
    """
    if copy is False and not isinstance(x, Proxy):
        view = x.view()
        try:
            view.shape = shape
        except AttributeError:
            raise LoopwrightValueError("this reshape needs a copy", hint="copy=None") from None
        return view
    array = np.reshape(x, shape)
    return np.copy(array) if copy else array


def squeeze(x: Any, /, axis: Any) -> Any:
    """Returns ``x`` without axes of size 1; ValueError for another size."""
    return np.squeeze(x, axis=axis)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Returns a tuple of the slices of ``x`` along an axis: views."""
    return tuple(np.moveaxis(x, axis, 0))


@compiled
def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    """Returns the arrays joined along an axis; flattened if that is None."""
    return np.concatenate(arrays, axis=axis)


@compiled
def stack(arrays: Any, /, *, axis: int = 0) -> Any:
    """Returns the arrays joined along a new axis."""
    return np.stack(arrays, axis=axis)


@compiled
def roll(x: Any, /, shift: Any, *, axis: Any = None) -> Any:
    """Returns ``x`` with its elements moved by ``shift`` places, those at the end to the front."""
    return np.roll(x, shift, axis=axis)


@compiled
def tile(x: Any, repetitions: Any, /) -> Any:
    """Returns ``x`` repeated as a whole, so many times along each axis."""
    return np.tile(x, repetitions)


@compiled
def _repeated(x: Any, repeats: int, /, *, axis: int | None = None) -> Any:
    return np.repeat(x, repeats, axis=axis)


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    """Returns each element (or slice along an axis) ``repeats`` times, or each as an array says."""
    if isinstance(repeats, int):
        return _repeated(x, repeats, axis=axis)
    return np.repeat(x, repeats, axis=axis)  # whose size depends on values


@compiled
def tril(x: Any, /, *, k: int = 0) -> Any:
    """Returns the matrices with zeros above the ``k``-th diagonal."""
    return np.tril(x, k)


@compiled
def triu(x: Any, /, *, k: int = 0) -> Any:
    """Returns the matrices with zeros below the ``k``-th diagonal."""
    return np.triu(x, k)


# Indexing.

_take: Callable[..., Any] = while_tracing(traced.take, np.take)  # also for traced indices alone


@compiled
def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    """Returns the slices of ``x`` along an axis that ``indices`` name; 1-d needs no axis."""
    if axis is None and x.ndim != 1:
        raise LoopwrightValueError(f"axis is needed for an array of {x.ndim} axes")
    return _take(x, indices, axis=axis or 0)


@compiled
def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    """Returns the elements of ``x`` that an array of indices names in each line along an axis."""
    return np.take_along_axis(x, indices, axis=axis)
