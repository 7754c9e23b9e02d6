"""argmax and argmin: where the extreme along an axis stands first.

What is computed is the extreme, and then the least position that holds it: two passes over a row,
the second of which finds it in a near cache. Rows too long for that are cut into pieces. The first
piece whose extreme is that of the row is the only one that is searched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dims import IntExpr, as_int, product
from ..dtype import INT32, INT64
from ..errors import LoopwrightValueError
from ..graph.builder import Builder
from ..graph.limits import GraphLimits
from ..graph.nodes import Atom
from ..graph.operator import Attr, Operator, Pattern, Sample, register
from ..graph.types import Type
from .compose import call, scalar, tensor_type
from .reduce import KEEPDIMS, infer_reduction, reduced_axes, reduced_shape
from .rules import Attrs, Infer, tensors
from .sampling import SPECIAL_FLOATS, floats, ints, truths

__all__: list[str] = []


def _infer_arg(name: str) -> Infer:
    reduce = infer_reduction(name, "biuf", INT64)

    def infer(types: tuple[Type, ...], attrs: Attrs) -> Type:
        axis = attrs["axis"]
        if axis is not None and not isinstance(axis, int):
            raise LoopwrightValueError(f"{name}: takes one axis or None, not {axis}")
        result = reduce(types, attrs)
        (x,) = tensors(name, types, 1)
        if any(x.shape[a] == 0 for a in reduced_axes(x, attrs, name)):
            raise LoopwrightValueError(f"{name}: {x.short} has no element along axis {axis}")
        return result

    return infer


def _decompose_arg(extreme: str) -> Callable[[Builder, Sequence[Atom], Attrs], Atom]:
    def decompose(b: Builder, args: Sequence[Atom], attrs: Attrs) -> Atom:
        (x,) = args
        whole = tensor_type(x)
        axis, keepdims = attrs["axis"], attrs["keepdims"]
        if axis is None:
            x = call(b, "reshape", x, newshape=(whole.size,))
            axis = 0
        kind = tensor_type(x)
        axis = axis % max(1, kind.rank)
        piece = _piece(kind.shape, axis, b.limits)
        if piece is None:
            first = _first(b, extreme, x, axis)
        else:
            first = _first_in_pieces(b, extreme, x, axis, piece)
        shape = reduced_shape(whole.shape, reduced_axes(whole, attrs), keepdims)
        return call(b, "reshape", first, newshape=tuple(shape))

    return decompose


def _piece(shape: Sequence[IntExpr], axis: int, limits: GraphLimits) -> int | None:
    """The length of pieces for a row along ``axis``, None where it stays whole."""
    if not all(isinstance(size, int) and size for size in shape):
        return None
    size, last = as_int(shape[axis]), as_int(shape[-1])
    if product(shape[axis + 1 :]) == 1:
        return limits.arg_row_piece if size > limits.arg_row else None
    is_long = size > limits.longest_column and last >= limits.narrowest
    return limits.arg_column_piece if is_long else None


def _first(b: Builder, extreme: str, x: Atom, axis: int) -> Atom:
    """int64: the first place of the extreme along an axis, which stays with size 1."""
    kind = tensor_type(x)
    size = kind.shape[axis]
    line = tuple(size if a == axis else 1 for a in range(kind.rank))
    best = call(b, extreme, x, axis=(axis,), keepdims=True)
    found = call(b, "equal", x, best)
    if kind.dtype.is_float:
        found = call(b, "logical_or", found, call(b, "isnan", x))
    # A vector holds twice as many positions of four bytes as of eight.
    narrow = isinstance(size, int) and size < 2**31
    index = INT32 if narrow else INT64
    positions = call(b, "iota", shape=line, axis=axis, dtype=index.name)
    candidates = call(b, "where", found, positions, scalar(b, size, index))
    first = call(b, "min", candidates, axis=(axis,), keepdims=True)
    return call(b, "cast", first, dtype="int64") if narrow else first


def _first_in_pieces(b: Builder, extreme: str, x: Atom, axis: int, piece: int) -> Atom:
    """``_first`` where only one piece of a row is searched: the first that holds the extreme."""
    kind = tensor_type(x)
    size = as_int(kind.shape[axis])
    outer, inner = product(kind.shape[:axis]), product(kind.shape[axis + 1 :])
    count, rest = divmod(size, piece)
    x = call(b, "reshape", x, newshape=(outer, size, inner))
    main = _cut(b, x, 0, count * piece) if rest else x
    pieces = call(b, "reshape", main, newshape=(outer, count, piece, inner))
    extremes = call(b, extreme, pieces, axis=(2,))
    place = _first(b, extreme, extremes, 1)
    first = _first(b, extreme, _pick(b, pieces, place), 1)
    first = call(b, "add", first, call(b, "multiply", place, scalar(b, piece, INT64)))
    if rest:
        end = _cut(b, x, count * piece, size)
        later = call(b, "add", _first(b, extreme, end, 1), scalar(b, count * piece, INT64))
        best, last = (call(b, extreme, a, axis=(1,), keepdims=True) for a in (extremes, end))
        first = call(b, "where", _beats(b, extreme, last, best), later, first)
    shape = (*kind.shape[:axis], 1, *kind.shape[axis + 1 :])
    return call(b, "reshape", first, newshape=shape)


def _beats(b: Builder, extreme: str, later: Atom, best: Atom) -> Atom:
    """Whether the later of two extremes is the one of both."""
    beats = call(b, "greater" if extreme == "max" else "less", later, best)
    if not tensor_type(best).dtype.is_float:
        return beats
    broken, whole = call(b, "isnan", later), call(b, "logical_not", call(b, "isnan", best))
    return call(b, "logical_or", beats, call(b, "logical_and", broken, whole))


def _pick(b: Builder, pieces: Atom, place: Atom) -> Atom:
    """Of [outer, count, piece, inner], the pieces with the numbers ``place`` [outer, 1, inner]."""
    outer, count, piece, inner = (as_int(size) for size in tensor_type(pieces).shape)

    def steps(axis: int, step: int) -> Atom:
        shape = [1, 1, 1]
        shape[axis] = (outer, piece, inner)[axis]
        numbers = call(b, "iota", shape=tuple(shape), axis=axis, dtype="int64")
        return call(b, "multiply", numbers, scalar(b, step, INT64))

    row = call(b, "add", place, steps(0, count))
    if inner == 1:
        table = call(b, "reshape", pieces, newshape=(outer * count, piece))
        row = call(b, "reshape", row, newshape=(outer,))
        picked = call(b, "take", table, row, axis=0)
    else:
        row = call(b, "multiply", row, scalar(b, piece * inner, INT64))
        inside = call(b, "add", steps(1, inner), steps(2, 1))
        table = call(b, "reshape", pieces, newshape=(outer * count * piece * inner,))
        picked = call(b, "take", table, call(b, "add", row, inside), axis=0)
    return call(b, "reshape", picked, newshape=(outer, piece, inner))


def _cut(b: Builder, x: Atom, begin: int, end: int) -> Atom:
    """Elements of the middle axis of three."""
    outer, _, inner = tensor_type(x).shape
    bounds = {"begin": (0, begin, 0), "end": (outer, end, inner), "strides": (1, 1, 1)}
    return call(b, "strided_slice", x, **bounds)


def _reference_arg(function: Any) -> Callable[[Sequence[Any], Attrs], Any]:
    def reference(arrays: Sequence[Any], attrs: Attrs) -> Any:
        return np.asarray(function(arrays[0], axis=attrs["axis"], keepdims=attrs["keepdims"]))

    return reference


def _samples_arg(rng: np.random.Generator) -> list[Sample]:
    edge = np.array(SPECIAL_FLOATS, "float32")
    return [
        Sample((floats(rng, (3, 5, 7)),), {"axis": 1}),
        Sample((ints(rng, (4, 37), "int32", 0, 5),), {"axis": -1, "keepdims": True}),
        Sample((ints(rng, (6, 9), "uint8", 0, 3),), {}),
        Sample((floats(rng, (2, 3, 2), "float64"),), {"keepdims": True}),
        Sample((np.stack([edge, edge[::-1]]),), {"axis": 1}),
        Sample((np.full((2, 3), np.nan),), {"axis": 0}),
        Sample((np.full((3,), -np.inf, "float32"),), {"axis": 0}),
        Sample((truths(rng, (3, 4)),), {"axis": 1}),
        Sample((floats(rng, (3, 1)),), {"axis": 1}),
        Sample((floats(rng, (0, 3)),), {"axis": 1}),
        Sample((floats(rng, ()),), {}),
    ]


for _name, _extreme, _function in (("argmax", "max", np.argmax), ("argmin", "min", np.argmin)):
    register(
        Operator(
            name=_name,
            doc=f"""Index of the first {_extreme}imum along an axis; nan counts as {_extreme}imum.

``x`` of any shape and dtype; the result is int64, without the axis or with size 1 there if
``keepdims``. With ``axis=None`` the index counts in row-major order. LoopwrightValueError for an
axis out of range or without elements.

    fn (%x: Tensor[(2, 3, 4), float32]) -> Tensor[(2, 4), int64] {{
      {_name}(%x, axis=1)
    }}
""",
            params=("x",),
            attrs=(Attr("axis", "the axis, or None for all in row-major order", None), KEEPDIMS),
            pattern=Pattern.REDUCTION,
            infer=_infer_arg(_name),
            decompose=_decompose_arg(_extreme),
            reference=_reference_arg(_function),
            samples=_samples_arg,
        )
    )
