"""argmax and argmin: the first position of the extreme along an axis.

They compute the extreme, then the least position that holds it: two passes over a row, the second
of which reads it from a cache. Rows too long for that are cut into pieces, and only the first piece
whose extreme is that of the row is searched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dims import IntExpr, as_int, product
from ..dtype import INT64
from ..errors import LoopwrightValueError
from ..graph.compose import F, Value
from ..graph.limits import GraphLimits
from ..graph.operator import Pattern, Sample
from ..graph.requirements import demand
from ..graph.type_rules import ANY, normalise_axes, upper_bound
from ..graph.types import TensorType
from .declare import attr, composite
from .reduce import KEEPDIMS, reduced_shape, reduction_rule
from .sampling import SPECIAL_FLOATS, floats, ints, sample, truths


def _rule(x: TensorType, axis: Any, keepdims: bool) -> TensorType:
    if axis is not None and not isinstance(axis, int):
        raise LoopwrightValueError(f"takes one axis or None, not {axis}")
    result = reduction_rule(INT64)(x, axis, keepdims)
    message = f"{x.short} has no element along axis {axis}"
    if not all(demand(1, "<=", x.shape[a], message) for a in normalise_axes(axis, x.rank)):
        raise LoopwrightValueError(message)
    return result


def _piece(shape: Sequence[IntExpr], axis: int, limits: GraphLimits) -> int | None:
    """The length of pieces for a row along ``axis``, None if the row stays whole."""
    if not all(isinstance(size, int) and size for size in shape):
        return None
    size, last = as_int(shape[axis]), as_int(shape[-1])
    if product(shape[axis + 1 :]) == 1:
        return limits.arg_row_piece if size > limits.arg_row else None
    is_long = size > limits.longest_column and last >= limits.narrowest
    return limits.arg_column_piece if is_long else None


def _first(extreme: str, x: Value, axis: int) -> Value:
    """The first position of the extreme along an axis, int64; the axis keeps size 1."""
    size = x.shape[axis]
    line = tuple(size if a == axis else 1 for a in range(x.rank))
    holds = F.equal(x, _extreme(extreme, x, axis))
    if x.dtype.is_float:
        holds = F.logical_or(holds, F.isnan(x))
    # A vector holds twice as many positions of four bytes as of eight.
    narrow = upper_bound(size) < 2**31
    positions = x.iota(line, axis, "int32" if narrow else "int64")
    first = F.min(F.where(holds, positions, size), axis=(axis,), keepdims=True)
    return F.cast(first, dtype="int64") if narrow else first


def _extreme(extreme: str, x: Value, axis: int, keepdims: bool = True) -> Value:
    return (F.max if extreme == "max" else F.min)(x, axis=(axis,), keepdims=keepdims)


def _first_in_pieces(extreme: str, x: Value, axis: int, piece: int) -> Value:
    """Like ``_first``, but searches only the first piece of a row that holds the extreme."""
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    size = as_int(x.shape[axis])
    outer, inner = product(x.shape[:axis]), product(x.shape[axis + 1 :])
    count, rest = divmod(size, piece)
    x = F.reshape(x, newshape=(outer, size, inner))
    main = _cut(x, 0, count * piece) if rest else x
    pieces = F.reshape(main, newshape=(outer, count, piece, inner))
    extremes = _extreme(extreme, pieces, 2, keepdims=False)
    place = _first(extreme, extremes, 1)
    first = _first(extreme, _pick(pieces, place), 1)
    first = first + place * piece
    if rest:
        end = _cut(x, count * piece, size)
        later = _first(extreme, end, 1) + count * piece
        best, last = (_extreme(extreme, a, 1) for a in (extremes, end))
        first = F.where(_beats(extreme, last, best), later, first)
    return F.reshape(first, newshape=shape)


def _beats(extreme: str, later: Value, best: Value) -> Value:
    """True where the later of two extremes is the extreme of both."""
    beats = (F.greater if extreme == "max" else F.less)(later, best)
    if not best.dtype.is_float:
        return beats
    broken, whole = F.isnan(later), F.logical_not(F.isnan(best))
    return F.logical_or(beats, F.logical_and(broken, whole))


def _pick(pieces: Value, place: Value) -> Value:
    """Selects from [outer, count, piece, inner] the pieces ``place`` [outer, 1, inner]."""
    outer, count, piece, inner = (as_int(size) for size in pieces.shape)

    def steps(axis: int, step: int) -> Value:
        shape = [1, 1, 1]
        shape[axis] = (outer, piece, inner)[axis]
        return place.iota(shape, axis) * step

    row = place + steps(0, count)
    if inner == 1:
        table = F.reshape(pieces, newshape=(outer * count, piece))
        picked = F.take(table, F.reshape(row, newshape=(outer,)), axis=0)
    else:
        row = row * (piece * inner)
        inside = steps(1, inner) + steps(2, 1)
        table = F.reshape(pieces, newshape=(outer * count * piece * inner,))
        picked = F.take(table, row + inside, axis=0)
    return F.reshape(picked, newshape=(outer, piece, inner))


def _cut(x: Value, begin: int, end: int) -> Value:
    """Slices the middle axis of three."""
    outer, _, inner = x.shape
    return F.strided_slice(x, begin=(0, begin, 0), end=(outer, end, inner), strides=(1, 1, 1))


def _samples(rng: np.random.Generator) -> list[Sample]:
    edge = np.array(SPECIAL_FLOATS, "float32")
    return [
        sample(floats(rng, (3, 5, 7)), axis=1),
        sample(ints(rng, (4, 37), "int32", 0, 5), axis=-1, keepdims=True),
        sample(ints(rng, (6, 9), "uint8", 0, 3)),
        sample(floats(rng, (2, 3, 2), "float64"), keepdims=True),
        sample(np.stack([edge, edge[::-1]]), axis=1),
        sample(np.full((2, 3), np.nan), axis=0),
        sample(np.full((3,), -np.inf, "float32"), axis=0),
        sample(truths(rng, (3, 4)), axis=1),
        sample(floats(rng, (3, 1)), axis=1),
        sample(floats(rng, (0, 3)), axis=1),
        sample(floats(rng, ())),
    ]


def _declare(name: str, extreme: str, reference: Callable[..., Any]) -> None:
    doc = f"""Index of the first {extreme}imum along an axis; nan counts as {extreme}imum.

``x`` of any shape and dtype; the result is int64, without the axis or with size 1 there if
``keepdims``. With ``axis=None`` the index counts in row-major order. LoopwrightValueError for an
axis out of range or without elements.

    fn (%x: Tensor[(2, 3, 4), float32]) -> Tensor[(2, 4), int64] {{
      {name}(%x, axis=1)
    }}
"""

    @composite(
        name,
        Pattern.REDUCTION,
        dtypes=ANY,
        rule=_rule,
        reference=reference,
        samples=_samples,
        doc=doc,
    )
    def _arg(
        x: Value,
        *,
        axis: Any = attr("the axis, or None for all in row-major order", None),
        keepdims: bool = KEEPDIMS,
    ) -> Value:
        shape = reduced_shape(x.shape, normalise_axes(axis, x.rank), keepdims)
        if axis is None:
            x = F.reshape(x, newshape=(x.type.size,))
            axis = 0
        axis = axis % max(1, x.rank)
        piece = _piece(x.shape, axis, x.builder.limits)
        if piece is None:
            first = _first(extreme, x, axis)
        else:
            first = _first_in_pieces(extreme, x, axis, piece)
        return F.reshape(first, newshape=tuple(shape))


_declare("argmax", "max", np.argmax)
_declare("argmin", "min", np.argmin)
