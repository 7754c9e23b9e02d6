"""Functions that make arrays from nothing, and those that show the elements of one otherwise.

There is nothing to compile: on plain arrays they are NumPy's, which return views where they can.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.errors import LoopwrightValueError
from ..tracer import Proxy
from ..tracer.numpy import creation
from ..tracer.numpy import indexing as traced
from .eager import check_device, compiled, define

define(
    globals(),
    """
    arange(start, /, stop=None, step=1, *, dtype=None, device=None)
        Returns ``start, start + step, ...`` below ``stop``; of one number, those from 0 to it.
    asarray(obj, /, *, dtype=None, device=None, copy=None)
        Returns ``obj`` as an array; ``copy=False`` raises ValueError where a copy is needed.
    empty(shape, *, dtype=None, device=None)
        Returns an array of any values, float64 unless ``dtype`` is given.
    zeros ones(shape, *, dtype=None, device=None)
        Returns an array of {}, float64 unless ``dtype`` is given.
    full(shape, fill_value, *, dtype=None, device=None)
        Returns an array of ``fill_value``, whose kind decides the dtype if none is given.
    eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
        Returns ones on the ``k``-th diagonal of a matrix of zeros.
    linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
        Returns ``num`` evenly spaced numbers from ``start`` to ``stop``, or up to it.
    """,
    creation,
    finish=lambda function: function,
)
define(
    globals(),
    """
    empty_like(x, /, *, dtype=None, device=None)
        Returns an array of any values with the shape of ``x``, and its dtype if none is given.
    zeros_like ones_like(x, /, *, dtype=None, device=None)
        As ``numpy.{}``: with the shape of ``x``, and its dtype if none is given.
    full_like(x, /, fill_value, *, dtype=None, device=None)
        Returns an array of ``fill_value`` with the shape of ``x``, and by default its dtype.
    broadcast_to(x, /, shape)
        Returns ``x`` repeated to ``shape``, a view that is not to be written.
    flip(x, /, *, axis=None)
        Returns ``x`` with the elements of some axes, or all, in the opposite order.
    matrix_transpose(x, /)
        Returns ``x`` with its last two axes exchanged.
    moveaxis(x, source, destination, /)
        Returns ``x`` with axes moved to other places, the others in the order they had.
    permute_dims(x, /, axes)
        Returns ``x`` with its axes in another order.
    squeeze(x, /, axis)
        Returns ``x`` without axes of size 1; ValueError for another size.
    """,
    finish=lambda function: function,
)
define(
    globals(),
    """
    concat(arrays, /, *, axis=0)
        Returns the arrays joined along an axis; flattened if that is None.
    stack(arrays, /, *, axis=0)
        Returns the arrays joined along a new axis.
    roll(x, /, shift, *, axis=None)
        Returns ``x`` with its elements moved by ``shift`` places, those at the end to the front.
    tile(x, repetitions, /)
        Returns ``x`` repeated as a whole, so many times along each axis.
    tril(x, /, *, k=0)
        Returns the matrices with zeros above the ``k``-th diagonal.
    triu(x, /, *, k=0)
        Returns the matrices with zeros below the ``k``-th diagonal.
    take_along_axis(x, indices, /, *, axis=-1)
        Returns the elements of ``x`` that an array of indices names in each line along an axis.
    """,
)


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


def expand_dims(x: Any, /, axis: int = 0) -> Any:
    """Returns ``x`` with a new axis of size 1 at ``axis``; IndexError where there is no such."""
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise IndexError(f"axis {axis} of an array of {x.ndim + 1} axes")
    return np.expand_dims(x, axis)


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


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Returns a tuple of the slices of ``x`` along an axis: views."""
    return tuple(np.moveaxis(x, axis, 0))


@compiled
def _repeated(x: Any, repeats: int, /, *, axis: int | None = None) -> Any:
    return np.repeat(x, repeats, axis=axis)


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    """Returns each element (or slice along an axis) ``repeats`` times, or each as an array says."""
    if isinstance(repeats, int):
        return _repeated(x, repeats, axis=axis)
    return np.repeat(x, repeats, axis=axis)  # whose size depends on values


# Indexing.

_take: Callable[..., Any] = creation.while_tracing(traced.take, np.take)  # for traced indices, too


@compiled
def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    """Returns the slices of ``x`` along an axis that ``indices`` name; 1-d needs no axis."""
    if axis is None and x.ndim != 1:
        raise LoopwrightValueError(f"axis is needed for an array of {x.ndim} axes")
    return _take(x, indices, axis=axis or 0)
