"""NumPy's functions that make arrays of parts of others: insert, delete, block, choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.dims import Dim, IntExpr, as_int
from ...ir.dtype import BOOL, INT64
from ...ir.errors import LoopwrightIndexError, LoopwrightTypeError, LoopwrightValueError
from ...ir.graph.requirements import require
from ..core.arguments import any_traced
from ..core.dispatch import FUNCTIONS, implement, implements, method, views
from ..core.emitting import common, common_dtype, emit, lift
from ..core.proxy import Proxy
from .assignment import writable
from .composed import python_bool
from .creation import tril_indices, triu_indices
from .elementwise import where
from .reductions import normalise_axis
from .shaping import broadcast_shapes, broadcast_to, flattened, listed, moveaxis, reshape

_PIECES = 8
"""Slices of an array that are joined; more of them are taken element by element."""


def part(x: Proxy, axis: int, begin: Any = None, end: Any = None, step: int = 1) -> Proxy:
    """``x[..., begin:end:step, ...]`` along an axis."""
    return x[(slice(None),) * axis + (slice(begin, end, step),)]


def counted(size: IntExpr, axis: int = 0, rank: int = 1) -> Proxy:
    """Returns 0, 1, ... along an axis of an array of ``rank`` axes, int64, not as a constant."""
    shape = tuple(size if n == axis else 1 for n in range(rank))
    return emit("iota", shape=shape, axis=axis, dtype=str(INT64))


def _along(a: Any, axis: int | None) -> tuple[Proxy, int]:
    x = lift(a)
    if axis is None:
        return flattened(x), 0
    return x, normalise_axis(axis, x.ndim)


@implements(np.append)
def _append(arr: Any, values: Any, axis: int | None = None) -> Proxy:
    if axis is None:
        return FUNCTIONS[np.concatenate]([flattened(arr), flattened(values)])
    return FUNCTIONS[np.concatenate]([arr, values], axis)


def chosen(x: Proxy, axis: int, places: np.ndarray[Any, Any]) -> Proxy:
    """The elements of ``x`` at known places along an axis: slices if they are few."""
    starts = np.flatnonzero(np.diff(places, prepend=-2) != 1)
    if len(starts) > _PIECES:
        return emit("take", x, lift(places), axis=axis, mode="clip")
    runs = np.split(places, starts[1:])
    pieces = [part(x, axis, int(run[0]), int(run[-1]) + 1) for run in runs if len(run)]
    if not pieces:
        return part(x, axis, 0, 0)
    return pieces[0] if len(pieces) == 1 else emit("concatenate", *pieces, axis=axis)


@implements(np.delete)
def _delete(arr: Any, obj: Any, axis: int | None = None) -> Proxy:
    """``np.delete``; of traced places only one, so that the size of the result is known."""
    x, axis = _along(arr, axis)
    if isinstance(x.shape[axis], Dim) and _is_number(obj):
        at = _symbolic_place(x, axis, int(obj), last=-1)
        ends = part(x, axis, 0, at), part(x, axis, at + 1, x.shape[axis])
        return emit("concatenate", *ends, axis=axis)
    size = as_int(x.shape[axis])
    if any_traced((obj,)):
        place = lift(obj)
        if place.size != 1 or place.type.dtype.is_bool:
            raise LoopwrightTypeError(
                "np.delete: how many elements several traced places leave depends on values",
                hint="x[np.argsort(mask, kind='stable')], which has what is deleted at the end",
            )
        here = counted(size - 1, axis, x.ndim)
        place = reshape(lift(place, INT64), (1,) * x.ndim)
        before = emit("less", here, where(emit("less", place, 0), place + size, place))
        return where(before, part(x, axis, 0, size - 1), part(x, axis, 1, size))
    kept = np.ones(size, bool)
    try:
        kept[_places(obj, size)] = False
    except IndexError as error:
        raise LoopwrightIndexError(str(error)) from None
    return chosen(x, axis, np.flatnonzero(kept))


def _is_number(obj: Any) -> bool:
    return isinstance(obj, int | np.integer) and not isinstance(obj, bool)


def _symbolic_place(x: Proxy, axis: int, place: int, last: int = 0) -> IntExpr:
    """A known place along an axis of symbolic size, counted from the front; the ``last`` one is
    counted from the axis's end."""
    size = x.shape[axis]
    message = f"place {place} is outside of axis {axis} of {x.type.short}"
    inside = require(place, "<=", size + last, message) and require(-place, "<=", size, message)
    if not inside:
        raise LoopwrightIndexError(message)
    return place if place >= 0 else size + place


def _places(obj: Any, size: int) -> Any:
    """The places that an argument ``obj`` of insert and delete means, as an index of an axis."""
    if isinstance(obj, slice):
        return np.arange(*obj.indices(size))
    places = np.asarray(obj)
    if places.dtype == bool:
        if places.shape != (size,) and places.ndim:
            raise LoopwrightValueError(f"a mask of {places.shape} for an axis of {size} elements")
        return np.flatnonzero(places)
    if not places.size:
        return places.astype(np.int64)
    if places.dtype.kind not in "iu":
        raise LoopwrightIndexError(f"places must be integers, not {places.dtype}")
    return places


@implements(np.insert)
def _insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Proxy:
    x, axis = _along(arr, axis)
    value = lift(values, x.type.dtype)
    if isinstance(x.shape[axis], Dim) and _is_number(obj):
        at = _symbolic_place(x, axis, int(obj))
        value = _inserted(x, axis, value, alone=True)
        pieces = part(x, axis, 0, at), value, part(x, axis, at, x.shape[axis])
        return emit("concatenate", *pieces, axis=axis)
    size = as_int(x.shape[axis])
    if any_traced((obj,)):
        place = lift(obj)
        if place.ndim:
            raise LoopwrightTypeError(
                "np.insert at several traced places", hint="np.insert for one place after the other"
            )
        value = _inserted(x, axis, value, alone=True)
        count = as_int(value.shape[axis])
        place = lift(place, INT64)
        place = where(emit("less", place, 0), place + size, place)
        here = counted(size + count)
        behind = where(emit("less", here, place + count), size + here - place, here - count)
        both = emit("concatenate", x, value, axis=axis)
        return emit("take", both, where(emit("less", here, place), here, behind), axis=axis)
    places = _places(obj, size)
    if places.size and not -size <= places.min() <= places.max() <= size:
        raise LoopwrightIndexError(f"a place of {places} is outside of axis {axis}, with {size}")
    places = np.where(places < 0, places + size, places)
    if places.size == 1:
        value = _inserted(x, axis, value, alone=places.ndim == 0)
        at = int(places.reshape(()))
        pieces = [part(x, axis, 0, at), value, part(x, axis, at, size)]
        return emit("concatenate", *pieces, axis=axis)
    order = np.argsort(places, kind="stable")
    places[order] += np.arange(len(places))
    shape = tuple(len(places) if n == axis else s for n, s in enumerate(x.shape))
    both = emit("concatenate", x, broadcast_to(value, shape), axis=axis)
    source = np.full(size + len(places), -1)
    source[places] = size + np.arange(len(places))
    source[source < 0] = np.arange(size)
    return emit("take", both, lift(source), axis=axis, mode="clip")


def _inserted(x: Proxy, axis: int, value: Proxy, alone: bool) -> Proxy:
    """``value`` as it goes into ``x`` at one place; ``alone`` if that was given as a number."""
    if value.ndim < x.ndim:
        value = reshape(value, (1,) * (x.ndim - value.ndim) + value.shape)
    if alone:
        value = moveaxis(value, 0, axis)
    return broadcast_to(
        value, tuple(value.shape[n] if n == axis else s for n, s in enumerate(x.shape))
    )


@implements(np.resize)
def _resize(a: Any, new_shape: Any) -> Proxy:
    """``np.resize``: the elements, from the first again where there are not enough."""
    x, shape = flattened(a), tuple(map(int, listed(new_shape)))
    size, wanted = as_int(x.size), int(np.prod(shape))
    if not size:
        return emit("full", shape=shape, fill_value=0, dtype=str(x.type.dtype))
    copies = -(-wanted // size)
    if copies > 1:
        x = flattened(broadcast_to(x, (copies, size)))
    return reshape(part(x, 0, 0, wanted), shape)


@implements(np.block)
def _block(arrays: Any) -> Proxy:
    def depth(value: Any) -> int:
        return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0

    def leaves(value: Any) -> list[Any]:
        return [x for each in value for x in leaves(each)] if isinstance(value, list) else [value]

    levels, values = depth(arrays), leaves(arrays)
    if not values:
        raise LoopwrightValueError("np.block of an empty list")
    parts = [lift(v) for v in values]
    dtype = FUNCTIONS[np.result_type](*(p.dtype for p in parts))
    rank = max(levels, *(p.ndim for p in parts))
    rest = iter([reshape(lift(p.astype(dtype)), (1,) * (rank - p.ndim) + p.shape) for p in parts])

    def joined(value: Any, level: int) -> Proxy:
        if not isinstance(value, list):
            return next(rest)
        axis = rank - levels + level
        return FUNCTIONS[np.concatenate]([joined(each, level + 1) for each in value], axis)

    return joined(arrays, 0)


_MODES = ("raise", "clip", "wrap")


@implements(np.choose)
def _choose(a: Any, choices: Any, _out: Any = None, mode: str = "raise") -> Proxy:
    """``np.choose``; a traced index outside of the choices is clipped."""
    index = lift(a)
    if mode not in _MODES or not np.can_cast(index.dtype, np.int64):
        raise LoopwrightTypeError(f"np.choose by {index.type.short}, mode {mode!r}")
    options = common(*choices)
    index = lift(index, INT64)
    if mode == "wrap":
        index = index % len(options)
    shape = broadcast_shapes(index.shape, *(o.shape for o in options))
    made = broadcast_to(options[-1], shape)
    for n, option in reversed(list(enumerate(options[:-1]))):
        made = emit("where", emit("less_equal", index, n), option, made)
    return made


method("choose")(lambda a, *c, mode="raise": _choose(a, c[0] if len(c) == 1 else c, mode=mode))


@method("compress")
def _compress_method(x: Proxy, condition: Any, axis: int | None = None, _out: Any = None) -> Proxy:
    return _compress(condition, x, axis)


@implements(np.compress)
def _compress(condition: Any, a: Any, axis: int | None = None, _out: Any = None) -> Proxy:
    x, axis = _along(a, axis)
    if any_traced((condition,)):
        places = np.flatnonzero(condition)
        held = lift(condition)
        if not require(held.shape[0], "<=", x.shape[axis], "np.compress: the condition"):
            raise LoopwrightIndexError(f"{held.type.short} along axis {axis} of {x.type.short}")
        return emit("take", x, places, axis=axis, mode="clip")
    places = np.flatnonzero(condition)
    if places.size and places[-1] >= as_int(x.shape[axis]):
        raise LoopwrightIndexError(
            f"index {places[-1]} is outside of axis {axis} of {x.type.short}"
        )
    return chosen(x, axis, places)


implement(
    {
        np.diagflat: lambda v, k=0: FUNCTIONS[np.diag](flattened(v), k),
        np.extract: lambda condition, arr: _compress(np.ravel(condition), flattened(arr)),
    }
)


@implements(np.place)
def _place(arr: Any, mask: Any, vals: Any) -> None:
    """``np.place``: values one after the other where the mask holds, from the first again."""
    target = writable(arr, "np.place")
    held, values = flattened(lift(mask, BOOL)), flattened(lift(vals, target.type.dtype))
    count = as_int(values.size)
    if not count:
        raise LoopwrightValueError("np.place: there are no values")
    before = np.cumsum(lift(held, INT64)) - 1
    taken = emit("take", values, before % count, axis=0, mode="clip")
    target[...] = where(reshape(held, target.shape), reshape(taken, target.shape), target)


@implements(np.piecewise)
def _piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Proxy:
    """``np.piecewise``; each function is called with all elements, and what it gives is chosen."""
    a = lift(x)
    alone = not isinstance(condlist, list | tuple) or not (
        isinstance(condlist[0], list | tuple | np.ndarray | Proxy) or not a.ndim
    )
    if alone:
        stacked = lift(condlist)
        conditions = [stacked] if stacked.ndim <= a.ndim else list(stacked)
    else:
        conditions = [lift(c, BOOL) for c in condlist]
    functions = list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise LoopwrightValueError(
            f"with {len(conditions)} condition(s), either {len(conditions)} or "
            f"{len(conditions) + 1} functions are expected"
        )

    def value(function: Any) -> Proxy:
        return lift(function(a, *args, **kw) if callable(function) else function, a.type.dtype)

    default = functions.pop() if len(functions) > len(conditions) else 0
    result = broadcast_to(value(default), a.shape)
    for condition, function in zip(conditions, functions, strict=True):
        result = where(condition, value(function), result)
    return result


@implements(np.apply_along_axis)
def _apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """``np.apply_along_axis``: the function of each row, in a loop."""
    from ..control.loops import map as map_rows  # which imports a good deal

    x = lift(arr)
    axis = normalise_axis(axis, x.ndim)
    last = moveaxis(x, axis, -1)
    shape = last.shape[:-1]
    rows = reshape(last, (int(np.prod([as_int(s) for s in shape])), last.shape[-1]))
    if not rows.shape[0]:
        raise LoopwrightValueError("np.apply_along_axis when any iteration dimensions are 0")
    results = map_rows(lambda row: func1d(row, *args, **kwargs), rows)
    inner = results.shape[1:]
    wide = reshape(results, (*shape, *inner))
    for n in range(len(inner)):
        wide = moveaxis(wide, len(shape) + n, axis + n)
    return wide


@implements(np.apply_over_axes)
def _apply_over_axes(func: Any, a: Any, axes: Any) -> Any:
    x = lift(a)
    for axis in listed(axes):
        made = func(x, normalise_axis(axis, x.ndim))
        x = made if made.ndim == x.ndim else np.expand_dims(made, normalise_axis(axis, x.ndim))
    return x


@implements(np.dsplit)
@views
def _dsplit(ary: Any, indices_or_sections: Any) -> list[Proxy]:
    if lift(ary).ndim < 3:
        raise LoopwrightValueError("dsplit only works on arrays of 3 or more dimensions")
    return FUNCTIONS[np.split](ary, indices_or_sections, 2)


@implements(np.rollaxis)
@views
def _rollaxis(a: Any, axis: int, start: int = 0) -> Proxy:
    x = lift(a)
    axis = normalise_axis(axis, x.ndim)
    start = normalise_axis(start, x.ndim + 1) if start < 0 else start
    if not 0 <= start <= x.ndim:
        raise LoopwrightValueError(f"start {start} is outside of {x.ndim} axes")
    return moveaxis(x, axis, start - 1 if axis < start else start)


def _indices_from(make: Callable[..., Any], traced: Callable[..., Any]) -> Callable[..., Any]:
    def indices(arr: Any, k: int = 0) -> Any:
        x = lift(arr)
        if x.ndim != 2:
            raise LoopwrightValueError("input array must be 2-d")
        constant = all(isinstance(size, int) for size in x.shape)
        return (make if constant else traced)(x.shape[0], k, x.shape[1])

    return indices


implements(np.tril_indices_from)(_indices_from(np.tril_indices, tril_indices))
implements(np.triu_indices_from)(_indices_from(np.triu_indices, triu_indices))


@implements(np.diag_indices_from)
def _diag_indices_from(arr: Any) -> Any:
    x = lift(arr)
    if x.ndim < 2 or len(set(x.shape)) != 1:
        raise LoopwrightValueError(
            "all dimensions of the array must be of equal length, two or more"
        )
    return np.diag_indices(as_int(x.shape[0]), x.ndim)


@implements(np.ravel_multi_index)
def _ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Proxy:
    """``np.ravel_multi_index``; traced indices outside of an axis are clipped."""
    modes = listed(mode) * (len(dims) if isinstance(mode, str) else 1)
    place: Any = None
    pairs = list(zip([lift(i, INT64) for i in multi_index], dims, modes, strict=True))
    for index, size, how in pairs if order == "C" else reversed(pairs):
        inside = index % size if how == "wrap" else emit("clip", index, a_min=0, a_max=size - 1)
        place = inside if place is None else place * size + inside
    return place


@implements(np.unravel_index)
def _unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Any, ...]:
    """``np.unravel_index``; a traced index outside of the shape wraps."""
    rest, parts = lift(indices, INT64), []
    sizes: Sequence[Any] = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    for size in reversed(sizes) if order == "C" else sizes:
        parts.append(rest % size)
        rest = rest // size
    return tuple(reversed(parts) if order == "C" else parts)


@implements(np.vander)
def _vander(x: Any, N: int | None = None, increasing: bool = False) -> Proxy:
    v = lift(x)
    if v.ndim != 1:
        raise LoopwrightValueError("x must be a one-dimensional array or sequence.")
    columns = as_int(v.shape[0]) if N is None else int(N)
    wide = common_dtype(v, np.int64(0))
    one = emit("full", shape=v.shape, fill_value=1, dtype=str(wide))
    powers = [one, *([lift(v, wide)] * (columns - 1))][:columns]
    if not powers:
        return emit("full", shape=(v.shape[0], 0), fill_value=0, dtype=str(wide))
    made = lift(np.cumprod(emit("stack", *powers, axis=1), axis=1))
    return made if increasing else made[:, ::-1]


@implements(np.array_equiv)
def _array_equiv(a1: Any, a2: Any) -> Any:
    x, y = common(a1, a2)
    try:
        broadcast_shapes(x.shape, y.shape)
    except LoopwrightTypeError:
        return False
    return python_bool(np.all(x == y))


@implements(np.isin)
def _isin(
    element: Any,
    test_elements: Any,
    _assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: Any = None,
) -> Proxy:
    """``np.isin``: compared with all of few elements, else searched in their order."""
    x, tests = common(element, test_elements)
    np.isin(np.empty(0, x.dtype), np.empty(0, tests.dtype), kind=kind)  # refuses what it would
    tests = flattened(tests)
    count = as_int(tests.size)
    if not count:
        return emit("full", shape=x.shape, fill_value=bool(invert), dtype="bool")
    if count <= _FEW_TESTS:
        column = reshape(x, (*x.shape, 1))
        return np.all(column != tests, -1) if invert else np.any(column == tests, -1)
    ordered = np.sort(tests)
    place = emit("nn.searchsorted", ordered, x)
    near = emit("take", ordered, place, axis=0, mode="clip")
    return emit("not_equal" if invert else "equal", near, x)


_FEW_TESTS = 32
"""Elements with each of which an element is compared."""
