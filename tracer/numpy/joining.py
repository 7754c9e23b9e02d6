"""NumPy's functions that join, split, repeat and pad traced arrays."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ...ir.dims import Dim, IntExpr, as_int
from ...ir.dtype import INT64
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from ...ir.graph.requirements import greater, lesser, require
from ..core.arguments import any_traced
from ..core.dispatch import UNSET, implement, implements, method, views
from ..core.emitting import common_strong, emit, emit_many, lift
from ..core.proxy import Proxy
from ..memory.storage import view_by
from . import shaping
from .reductions import normalise_axis


@implements(np.concatenate, *([np.concat] if np.concat is not np.concatenate else []))
def _concatenate(
    arrays: Any,
    /,
    axis: Any = 0,
    _out: Any = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Proxy:
    if np.ndim(axis):
        raise LoopwrightTypeError(
            "np.concatenate takes the arrays as one list", hint="np.concatenate([x, y])"
        )
    parts = _parts(arrays, "concatenate", dtype, casting)
    if axis is None:
        parts, axis = [shaping.flattened(p) for p in parts], 0
    if axis is not None and any(not part.ndim for part in parts):
        raise LoopwrightTypeError(
            "np.concatenate joins arrays with axes, and one of these is a scalar",
            hint="a list of one element in its place: np.concatenate([x, [value]])",
        )
    if len(parts) == 1:
        return parts[0]
    return emit("concatenate", *parts, axis=normalise_axis(axis, parts[0].ndim))


def _parts(arrays: Any, name: str, dtype: Any, casting: str) -> list[Proxy]:
    parts = list(arrays)
    if not parts:
        raise LoopwrightValueError(f"np.{name} needs at least one array")
    return common_strong(*parts, dtype=dtype, casting=casting)


@implements(np.stack)
def _stack(
    arrays: Any, axis: int = 0, _out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Proxy:
    parts = _parts(arrays, "stack", dtype, casting)
    return emit("stack", *parts, axis=normalise_axis(axis, parts[0].ndim + 1))


@implements(np.vstack)
def _vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Proxy:
    return _concatenate([shaping.atleast_2d(a) for a in tup], 0, dtype=dtype, casting=casting)


@implements(np.hstack)
def _hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Proxy:
    parts = [shaping.atleast_1d(a) for a in tup]
    axis = 0 if parts and parts[0].ndim == 1 else 1
    return _concatenate(parts, axis, dtype=dtype, casting=casting)


@implements(np.dstack)
def _dstack(tup: Any) -> Proxy:
    return _concatenate([shaping.atleast_3d(a) for a in tup], 2)


@implements(np.column_stack)
def _column_stack(tup: Any) -> Proxy:
    parts = [lift(a) for a in tup]
    return _concatenate([shaping.reshape(p, (p.size, 1)) if p.ndim < 2 else p for p in parts], 1)


@implements(np.split)
@views
def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Proxy]:
    x = lift(ary)
    axis = normalise_axis(axis, x.ndim)
    if isinstance(indices_or_sections, int | np.integer):
        count = int(indices_or_sections)
        if count <= 0 or (isinstance(x.shape[axis], int) and x.shape[axis] % count):
            raise LoopwrightValueError(
                f"split: axis {axis} of {x.type.short} does not divide into {count} equal parts",
                hint=f"np.array_split(x, {count}, axis={axis})" if count > 0 else None,
            )
        parts = emit_many("split", x, indices_or_sections=count, axis=axis)
        return _as_views(x, parts, axis)
    length = x.shape[axis]
    points = [_cut(shaping.size(p), length) for p in indices_or_sections]
    message = f"split: the indices {tuple(map(str, points))} do not ascend"
    if all(require(a, "<=", b, message) for a, b in pairwise(points)):
        parts = emit_many("split", x, indices_or_sections=tuple(points), axis=axis)
        return _as_views(x, parts, axis)
    raise LoopwrightValueError(message)


def _cut(place: IntExpr, length: IntExpr) -> IntExpr:
    """Returns where a slice of an axis ends."""
    negative = isinstance(place, int) and place < 0
    return lesser(greater(place + length, 0) if negative else place, length)


def _as_views(x: Proxy, parts: list[Proxy], axis: int) -> list[Proxy]:
    """Returns the parts of ``x`` along an axis as the slices of it that they are."""
    made: list[Proxy] = []
    start: Any = 0
    for part in parts:
        begin, end = [0] * x.ndim, [*x.shape]
        begin[axis], end[axis] = start, start + part.shape[axis]
        start = end[axis]
        attrs = {"begin": tuple(begin), "end": tuple(end), "strides": (1,) * x.ndim}
        made.append(Proxy(part.atom, x.owner, alias=view_by(x, "strided_slice", attrs)))
    return made


@implements(np.array_split)
@views
def _array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Proxy]:
    x = lift(ary)
    if not isinstance(indices_or_sections, int | np.integer):
        return _split(x, indices_or_sections, axis)
    count = int(indices_or_sections)
    if count <= 0:
        raise LoopwrightValueError(f"array_split: into {count} parts")
    length = x.shape[normalise_axis(axis, x.ndim)]
    each, more = length // count, length % count
    points = [i * each + lesser(i, more) for i in range(1, count)]
    return _split(x, points, axis)


implement(
    {
        np.hsplit: lambda ary, indices_or_sections: _split(
            ary, indices_or_sections, 0 if lift(ary).ndim == 1 else 1
        ),
        np.vsplit: lambda ary, indices_or_sections: _split(ary, indices_or_sections, 0),
    },
    views,
)


@implements(*([np.unstack] if hasattr(np, "unstack") else []))
@views
def _unstack(x: Any, /, *, axis: int = 0) -> tuple[Proxy, ...]:
    operand = lift(x)
    axis = normalise_axis(axis, operand.ndim)
    length = as_int(operand.shape[axis])
    parts = _split(operand, length, axis) if length else []
    return tuple(emit("squeeze", part, axis=(axis,)) for part in parts)


@implements(np.roll)
def _roll(a: Any, shift: Any, axis: Any = None) -> Proxy:
    x = lift(a)
    if axis is None:
        return shaping.reshape(_roll(shaping.flattened(x), shift, 0), x.shape)
    shifts, axes = shaping.listed(shift), shaping.listed(axis)
    count = max(len(shifts), len(axes))
    shifts, axes = shifts * (count // len(shifts)), axes * (count // len(axes))
    for step, each in zip(shifts, axes, strict=True):
        position = normalise_axis(each, x.ndim)
        length = x.shape[position]
        if isinstance(length, Dim):
            counted = emit("iota", shape=(length,), axis=0, dtype="int64")
            places = emit("subtract", counted, lift(step, INT64))
            x = emit("take", x, places, axis=position, mode="wrap")
            continue
        by = int(step) % length if length else 0
        if by:
            head, tail = _split(x, [length - by], position)
            x = _concatenate([tail, head], position)
    return x


@implements(np.tile)
def _tile(A: Any, reps: Any) -> Proxy:
    x = lift(A)
    counts = [shaping.size(r) for r in shaping.listed(reps)]
    rank = max(x.ndim, len(counts))
    counts = [1] * (rank - len(counts)) + counts
    shape = (1,) * (rank - x.ndim) + x.shape
    paired = tuple(s for each in shape for s in (1, each))
    wide = tuple(s for count, each in zip(counts, shape, strict=True) for s in (count, each))
    result = tuple(count * each for count, each in zip(counts, shape, strict=True))
    return shaping.reshape(shaping.broadcast_to(shaping.reshape(x, paired), wide), result)


@implements(np.repeat)
@method("repeat")
def _repeat(a: Any, repeats: Any, axis: int | None = None) -> Proxy:
    x = lift(a)
    if axis is None:
        x, axis = shaping.flattened(x), 0
    axis = normalise_axis(axis, x.ndim)
    if not isinstance(repeats, int | np.integer | Dim):
        if any_traced((repeats,)):
            raise UnsupportedError(
                "np.repeat by traced counts gives a shape that depends on values",
                hint="x[np.searchsorted(np.cumsum(counts), np.arange(n), 'right')] for a total n",
            )
        places = np.repeat(np.arange(as_int(x.shape[axis])), repeats)
        return emit("take", x, lift(places), axis=axis, mode="clip")
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    column = shaping.reshape(x, (*before, x.shape[axis], 1, *after))
    wide = shaping.broadcast_to(column, (*before, x.shape[axis], shaping.size(repeats), *after))
    return shaping.reshape(wide, (*before, x.shape[axis] * shaping.size(repeats), *after))


@implements(np.diff)
def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Proxy:
    x = lift(a)
    axis = normalise_axis(axis, x.ndim)
    parts = [lift(p) for p in (prepend, x, append) if p is not None and p is not UNSET]
    if len(parts) > 1:
        slim = tuple(1 if i == axis else s for i, s in enumerate(x.shape))
        x = _concatenate([shaping.broadcast_to(p, slim) if p.ndim == 0 else p for p in parts], axis)
    for _ in range(n):
        length = x.shape[axis]
        whole = [slice(None)] * x.ndim
        ahead, behind = whole.copy(), whole.copy()
        ahead[axis], behind[axis] = slice(1, None), slice(None, greater(length - 1, 0))
        name = "not_equal" if x.type.dtype.is_bool else "subtract"
        x = emit(name, x[tuple(ahead)], x[tuple(behind)])
    return x
