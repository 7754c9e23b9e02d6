"""Functions whose results have a size that values decide; or that size as an argument.

``size`` is how many entries the results have. If there are fewer, ``fill_value`` stands behind
them; if there are more, the first are kept. On plain NumPy arrays they run as they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from ...ir.dims import Dim, IntExpr, bounds
from ...ir.dims import size as symbolic
from ...ir.dtype import INT64
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError
from ...ir.graph.nodes import Constant
from ..core.argument_conversion import checked
from ..core.arguments import any_traced
from ..core.dispatch import implement, implements, method
from ..core.emitting import emit, lift
from ..core.proxy import Proxy
from ..core.trace import active
from ..memory.scope import Scope
from .shaping import reshape


@method("size.data")
def data_size(key: Hashable, count: Callable[[], Any], most: IntExpr) -> IntExpr:
    """Returns the symbolic size, from 0 to ``most``, that the traced scalar ``count()`` is; it is
    the same as another one with an equal ``key`` in the scope, or around it."""
    trace = active()
    inside = bounds(most, {})
    assert trace is not None and inside is not None
    if most == 0:
        return 0
    scope: Scope | None = trace.scope
    while scope is not None:
        if (size := trace.known_sizes.get((scope, key, most))) is not None:
            return size
        scope = scope.parent if scope is not scope.function else None
    name = f"s{len(trace.data_sizes)}.data"
    symbol = trace.known_sizes[trace.scope, key, most] = symbolic(name, 0, max(0, inside[1]))
    value = emit("set_size", lift(count(), INT64), size=symbol, most=most)
    trace.data_sizes[name] = value.atom
    return symbol


@method("size.mask")
def mask_size(mask: Proxy) -> IntExpr:
    """Returns how many elements of a mask are True: a size that data decides, one for all masks
    with these elements."""
    values = mask.owner.values
    key = "true", values.number(values.unmoved(mask.atom))
    axes = tuple(range(mask.ndim))
    return data_size(key, lambda: emit("sum", lift(mask, INT64), axis=axes), mask.size)


@method("places.true")
def _places(mask: Any, size: Any = None, fill: int = 0) -> Any:
    """The first places of True in the flattened mask; all of them if ``size`` is None."""
    if size is None:
        held = lift(mask)
        if isinstance(held.atom, Constant):
            return lift(np.flatnonzero(held.atom.value))
        return emit("true_places", reshape(held, (held.size,)), size=mask_size(held), fill=fill)
    if isinstance(size, bool) or not isinstance(size, int | np.integer):
        raise LoopwrightTypeError(f"size is a number that is known when tracing, not {size!r}")
    if size < 0:
        raise LoopwrightValueError(f"size is {size}; it must be 0 or more")
    if any_traced((mask,)):
        return emit("true_places", lift(mask), size=int(size), fill=fill)
    places = np.flatnonzero(mask)[:size]
    return np.concatenate([places, np.full(size - places.size, fill, np.int64)])


@checked
def flatnonzero(a: Any, *, size: int, fill_value: int = 0) -> Any:
    """The positions in the flattened array of the first ``size`` elements that are not 0, int64.

    Raises LoopwrightValueError for a negative size.

    >>> flatnonzero(np.array([0, 3, 0, 5]), size=3, fill_value=-1).tolist()
    [1, 3, -1]
    """
    return _flatnonzero(a, size, fill_value)


@implements(np.flatnonzero)
def _flatnonzero(a: Any, size: int | None = None, fill_value: int = 0) -> Any:
    return _places(_truth(a), size, fill_value)


def _truth(a: Any) -> Any:
    """Returns the mask of the elements other than 0, along one axis."""
    flat = np.reshape(a, (-1,))
    return flat if flat.dtype == bool else flat != 0


@checked
def nonzero(a: Any, *, size: int, fill_value: int = 0) -> tuple[Any, ...]:
    """The indices of the first ``size`` elements that are not 0: an int64 array for each axis.

    Raises LoopwrightValueError for a negative size, or for an array without axes.

    >>> [i.tolist() for i in nonzero(np.array([[0, 3], [4, 0]]), size=3)]
    [[0, 1, 0], [1, 0, 0]]
    """
    return _nonzero(a, size, fill_value)


@implements(np.nonzero)
@method("nonzero")
def _nonzero(a: Any, size: int | None = None, fill_value: int = 0) -> tuple[Any, ...]:
    shape = lift(a).shape if any_traced((a,)) else np.shape(a)
    if not shape:
        raise LoopwrightValueError("nonzero of an array without axes", hint="np.atleast_1d(x)")
    place = _places(_truth(a), size, -1)
    indices: list[Any] = []
    step: Any = 1
    for length in reversed(shape):
        around = lift(length, INT64) if isinstance(length, Dim) else length
        index = place // step % around if length != 0 else place * 0
        indices.append(index if size is None else np.where(place < 0, fill_value, index))
        step = step * around
    return tuple(reversed(indices))


@checked
def argwhere(a: Any, *, size: int, fill_value: int = 0) -> Any:
    """The indices of the first ``size`` elements that are not 0, one row for each: int64.

    Raises LoopwrightValueError for a negative size, or for an array without axes.

    >>> argwhere(np.array([[0, 3], [4, 0]]), size=3, fill_value=-1).tolist()
    [[0, 1], [1, 0], [-1, -1]]
    """
    return _argwhere(a, size, fill_value)


@implements(np.argwhere)
def _argwhere(a: Any, size: int | None = None, fill_value: int = 0) -> Any:
    return np.stack(_nonzero(a, size, fill_value), axis=-1)


@checked
def unique(
    ar: Any,
    *,
    size: int,
    fill_value: Any = None,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    equal_nan: bool = True,
) -> Any:
    """The first ``size`` distinct elements of an array, in ascending order.

    ``fill_value`` (the least element, if it is not given) stands behind them. As for ``np.unique``,
    there may follow the first position of each in the flattened array, the position of each
    element of the array among the distinct ones (of the shape of the array), and how often each
    occurs, all int64; behind the last, positions are 0 and counts are 0. Raises
    LoopwrightValueError for a negative size, or for an array without elements.

    >>> values, counts = unique(np.array([3, 1, 3, 2]), size=4, return_counts=True)
    >>> values.tolist(), counts.tolist()
    ([1, 2, 3, 1], [1, 1, 2, 0])
    """
    return _unique(
        ar, return_index, return_inverse, return_counts, None, equal_nan, size, fill_value
    )


@implements(np.unique)
def _unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    if axis is not None and np.ndim(ar) != 1:
        raise LoopwrightTypeError("np.unique along an axis", hint="np.unique(x)")
    flat: Any = np.reshape(ar, (-1,))
    length: Any = lift(flat).type.shape[0] if any_traced((flat,)) else np.size(flat)
    if length == 0 and size is None:
        wanted = [True, return_index, return_inverse, return_counts]
        none = np.zeros(0, np.int64)
        empty = [flat, none, np.zeros(np.shape(ar), np.int64), none]
        results = [part for part, needed in zip(empty, wanted, strict=True) if needed]
        return tuple(results) if len(results) > 1 else flat
    if length == 0:
        raise LoopwrightValueError("the distinct elements of an array that has none")
    needs_order = return_index or return_inverse
    order: Any = np.argsort(flat, kind="stable") if needs_order else None
    ordered = flat[order] if needs_order else np.sort(flat)
    differs = ordered[1:] != ordered[:-1]
    if equal_nan and np.dtype(flat.dtype).kind == "f":
        differs = differs & ~np.isnan(ordered[:-1])
    is_first = np.concatenate([np.ones(1, bool), differs])
    if isinstance(length, Dim):
        is_first = is_first[:length]  # of no elements, none is the first of its kind
    place = _places(is_first, size, -1)
    missing = place < 0
    chosen = place if size is None else np.where(missing, 0, place)
    values = ordered[chosen]
    if fill_value is not None:
        values = np.where(missing, fill_value, values).astype(flat.dtype)
    results = [values]
    if return_index:
        results.append(np.where(missing, 0, order[chosen]))
    if return_inverse:
        number = np.cumsum(is_first) - 1
        back = np.argsort(order, kind="stable")
        results.append(np.reshape(number[back], np.shape(ar)))
    if return_counts:
        number = lift(length, INT64) if isinstance(length, Dim) else length
        last = np.reshape(number, (1,)) if isinstance(length, Dim) else np.full(1, length)
        ends = np.concatenate([np.where(missing, number, place), last])
        results.append(ends[1:] - ends[:-1])
    return tuple(results) if len(results) > 1 else values


@implements(np.intersect1d)
def _intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    parts = [np.reshape(a, (-1,)) if assume_unique else _unique(lift(a)) for a in (ar1, ar2)]
    both = np.sort(np.concatenate(parts))
    return both[:-1][both[1:] == both[:-1]]


@implements(np.setdiff1d)
def _setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    first = np.reshape(ar1, (-1,)) if assume_unique else _unique(lift(ar1))
    return first[np.isin(first, ar2, invert=True)]


implement(
    {
        np.setxor1d: lambda ar1, ar2: np.sort(
            np.concatenate([_setdiff1d(ar1, ar2), _setdiff1d(ar2, ar1)])
        ),
        np.union1d: lambda ar1, ar2: _unique(
            np.concatenate([np.reshape(a, (-1,)) for a in (ar1, ar2)])
        ),
    }
)
