"""Operators that only rearrange: reshape, transpose, broadcast_to, expand_dims, squeeze, diagonal.

All are index maps: they cost nothing in front of a consumer that reads through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dims import Dim, IntExpr, floordiv, product
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.operator import Attr, Operator, Pattern, Sample, register
from ..graph.types import TensorType, Type
from ..loop.expr import Expr, IndexLike
from ..loop.reindex import reshape_index
from ..loop.tensor import Map, Tensor, index_add
from .rules import (
    Attrs,
    as_axes,
    broadcast_read,
    is_size,
    normalise_axes,
    normalise_axis,
    sizes_of,
    tensors,
)
from .sampling import floats, ints, truths

__all__: list[str] = []


def _infer_reshape(types: tuple[Type, ...], attrs: Attrs) -> Type:
    (x,) = tensors("reshape", types, 1)
    asked: tuple[Any, ...] = as_axes(attrs["newshape"])
    unknown = [n for n, size in enumerate(asked) if isinstance(size, int) and size == -1]
    if len(unknown) > 1:
        raise LoopwrightValueError(f"reshape: {asked} leaves more than one size open")
    sizes = list(sizes_of("reshape", tuple(1 if n in unknown else s for n, s in enumerate(asked))))
    if unknown:
        sizes[unknown[0]] = _missing_size(x, sizes)
    if product(sizes) != x.size:
        text = ", ".join(map(str, asked))
        other = "does not divide them" if unknown else f"has {product(sizes)}"
        raise LoopwrightTypeError(
            f"reshape: {x.short} has {x.size} elements, the shape ({text}) {other}"
        )
    return TensorType(tuple(sizes), x.dtype)


def _missing_size(x: TensorType, sizes: Sequence[IntExpr]) -> IntExpr:
    known = product(sizes)
    if known == 0:
        raise LoopwrightValueError(f"reshape: a size of {x.short} cannot be told from 0 elements")
    rest = list(sizes)
    size: IntExpr = 1
    for own in x.shape:  # symbolic sizes that stay are cancelled one by one
        if isinstance(own, Dim) and own in rest:
            rest.remove(own)
        else:
            size = size * own
    return floordiv(size, product(rest))


def _compute_reshape(inputs: Sequence[Tensor], attrs: Attrs, out: TensorType) -> Map:
    (x,) = inputs

    def element(*i: IndexLike) -> Expr:
        return x(*reshape_index(i, out.shape, x.shape))

    return Map(out.shape, out.dtype, element)


def _samples_reshape(rng: np.random.Generator) -> list[Sample]:
    return [
        Sample((floats(rng, (2, 3, 4)),), {"newshape": (6, 4)}),
        Sample((floats(rng, (6, 4), "float64"),), {"newshape": (3, 2, -1)}),
        Sample((ints(rng, (4, 6)),), {"newshape": (2, 12)}),
        Sample((ints(rng, (4, 6), "int8"),), {"newshape": (3, 8)}),
        Sample((floats(rng, (2, 3, 5, 7)),), {"newshape": (6, 1, 35)}),
        Sample((floats(rng, (1, 5, 1)),), {"newshape": (5,)}),
        Sample((floats(rng, (1, 1)),), {"newshape": ()}),
        Sample((truths(rng, (3, 4)),), {"newshape": -1}),
        Sample((floats(rng, (0, 3)),), {"newshape": (5, 0, 2)}),
    ]


register(
    Operator(
        name="reshape",
        doc="""The elements in the same row-major order, in another shape.

``x`` of any shape and dtype. One size of ``newshape`` may be -1: it is what remains.
LoopwrightTypeError if the numbers of elements differ (symbolic ones must be proved equal),
LoopwrightValueError for more than one -1.

    fn (%x: Tensor[(2, 3, 4), float32]) -> Tensor[(6, 4), float32] {
      reshape(%x, newshape=[6, -1])
    }
""",
        params=("x",),
        attrs=(Attr("newshape", "sizes of the result; one may be -1"),),
        pattern=Pattern.INJECTIVE,
        infer=_infer_reshape,
        compute=_compute_reshape,
        reference=lambda arrays, attrs: np.reshape(arrays[0], attrs["newshape"]),
        samples=_samples_reshape,
    )
)


def _permutation(axes: Any, rank: int, x: TensorType | None = None) -> tuple[int, ...]:
    if axes is None:
        return tuple(reversed(range(rank)))
    order = tuple(normalise_axis("transpose", a, rank, x) for a in as_axes(axes))
    if sorted(order) != list(range(rank)):
        what = x.short if x is not None else f"rank {rank}"
        raise LoopwrightValueError(f"transpose: {axes} is no permutation of the axes of {what}")
    return order


def _infer_transpose(types: tuple[Type, ...], attrs: Attrs) -> Type:
    (x,) = tensors("transpose", types, 1)
    order = _permutation(attrs["axes"], x.rank, x)
    return TensorType(tuple(x.shape[a] for a in order), x.dtype)


def _compute_transpose(inputs: Sequence[Tensor], attrs: Attrs, out: TensorType) -> Map:
    (x,) = inputs
    order = _permutation(attrs["axes"], len(x.shape))

    def element(*i: IndexLike) -> Expr:
        source: dict[int, IndexLike] = dict(zip(order, i, strict=True))
        return x(*(source[axis] for axis in range(len(order))))

    return Map(out.shape, out.dtype, element)


def _samples_transpose(rng: np.random.Generator) -> list[Sample]:
    return [
        Sample((floats(rng, (3, 5)),), {}),
        Sample((floats(rng, (2, 3, 4, 5)),), {"axes": (0, 2, 3, 1)}),
        Sample((ints(rng, (2, 3, 4), "int16"),), {"axes": (-1, 0, 1)}),
        Sample((truths(rng, (7,)),), {}),
        Sample((floats(rng, (), "float64"),), {}),
        Sample((floats(rng, (0, 1, 3)),), {"axes": (2, 0, 1)}),
    ]


register(
    Operator(
        name="transpose",
        doc="""The axes in another order: axis ``n`` of the result is axis ``axes[n]`` of ``x``.

``x`` of any shape and dtype; ``axes=None`` reverses them. LoopwrightValueError if ``axes`` is no
permutation.

    fn (%x: Tensor[(2, 3, 4), float32]) -> Tensor[(2, 4, 3), float32] {
      transpose(%x, axes=[0, 2, 1])
    }
""",
        params=("x",),
        attrs=(Attr("axes", "a permutation of the axes, or None to reverse them", None),),
        pattern=Pattern.INJECTIVE,
        infer=_infer_transpose,
        compute=_compute_transpose,
        reference=lambda arrays, attrs: np.transpose(arrays[0], attrs["axes"]),
        samples=_samples_transpose,
    )
)


def _infer_broadcast_to(types: tuple[Type, ...], attrs: Attrs) -> Type:
    (x,) = tensors("broadcast_to", types, 1)
    shape = sizes_of("broadcast_to", attrs["shape"])
    front = len(shape) - x.rank
    if front < 0 or any(
        old != new and old != 1 for old, new in zip(x.shape, shape[max(front, 0) :], strict=True)
    ):
        text = ", ".join(map(str, shape))
        raise LoopwrightTypeError(f"broadcast_to: {x.short} does not broadcast to ({text})")
    return TensorType(shape, x.dtype)


def _compute_broadcast_to(inputs: Sequence[Tensor], attrs: Attrs, out: TensorType) -> Map:
    (x,) = inputs
    return Map(out.shape, out.dtype, lambda *i: broadcast_read(x, i))


def _samples_broadcast_to(rng: np.random.Generator) -> list[Sample]:
    return [
        Sample((floats(rng, (3, 1)),), {"shape": (2, 3, 5)}),
        Sample((ints(rng, (), "int64"),), {"shape": (4, 3)}),
        Sample((floats(rng, (7,), "float64"),), {"shape": (7,)}),
        Sample((truths(rng, (1,)),), {"shape": (0,)}),
        Sample((floats(rng, (1, 4)),), {"shape": (1, 4)}),
    ]


register(
    Operator(
        name="broadcast_to",
        doc="""The elements repeated along new axes in front and along axes of size 1.

``x`` of any shape and dtype. LoopwrightTypeError if it does not broadcast to ``shape``.

    fn (%x: Tensor[(3, 1), float32]) -> Tensor[(2, 3, 4), float32] {
      broadcast_to(%x, shape=[2, 3, 4])
    }
""",
        params=("x",),
        attrs=(Attr("shape", "sizes of the result"),),
        pattern=Pattern.BROADCAST,
        infer=_infer_broadcast_to,
        compute=_compute_broadcast_to,
        reference=lambda arrays, attrs: np.broadcast_to(arrays[0], attrs["shape"]),
        samples=_samples_broadcast_to,
    )
)


def _infer_expand_dims(types: tuple[Type, ...], attrs: Attrs) -> Type:
    (x,) = tensors("expand_dims", types, 1)
    count = attrs["num_newaxis"]
    if not is_size(count) or count < 0:
        raise LoopwrightValueError(f"expand_dims: num_newaxis {count!r} is not a count")
    axis = _new_axis(attrs["axis"], x)
    return TensorType((*x.shape[:axis], *((1,) * count), *x.shape[axis:]), x.dtype)


def _new_axis(axis: Any, x: TensorType) -> int:
    """Where new axes go, 0 to the rank; -1 is behind the last axis."""
    return normalise_axis("expand_dims", axis, x.rank + 1, x)


def _compute_expand_dims(inputs: Sequence[Tensor], attrs: Attrs, out: TensorType) -> Map:
    (x,) = inputs
    axis = _new_axis(attrs["axis"], TensorType(x.shape, x.dtype))
    behind = axis + attrs["num_newaxis"]
    return Map(out.shape, out.dtype, lambda *i: x(*i[:axis], *i[behind:]))


def _reference_expand_dims(arrays: Sequence[Any], attrs: Attrs) -> Any:
    (x,) = arrays
    axis = range(x.ndim + 1)[attrs["axis"]]
    for _ in range(attrs["num_newaxis"]):
        x = np.expand_dims(x, axis)
    return x


def _samples_expand_dims(rng: np.random.Generator) -> list[Sample]:
    return [
        Sample((floats(rng, (3, 5)),), {"axis": 1}),
        Sample((floats(rng, (3, 5)),), {"axis": -1}),
        Sample((floats(rng, (3, 5)),), {"axis": 0, "num_newaxis": 2}),
        Sample((ints(rng, (), "uint8"),), {"axis": 0}),
        Sample((truths(rng, (0,)),), {"axis": -2}),
    ]


register(
    Operator(
        name="expand_dims",
        doc="""New axes of size 1 in front of axis ``axis``; -1 is behind the last.

``x`` of any shape and dtype. LoopwrightValueError for an axis out of range.

    fn (%x: Tensor[(2, 3), float32]) -> Tensor[(2, 1, 3), float32] {
      expand_dims(%x, axis=1)
    }
""",
        params=("x",),
        attrs=(
            Attr("axis", "where the first new axis stands in the result, or from the end"),
            Attr("num_newaxis", "how many axes", 1),
        ),
        pattern=Pattern.INJECTIVE,
        infer=_infer_expand_dims,
        compute=_compute_expand_dims,
        reference=_reference_expand_dims,
        samples=_samples_expand_dims,
    )
)


def _squeezed(axis: Any, x: TensorType) -> tuple[int, ...]:
    if axis is None:
        return tuple(a for a, size in enumerate(x.shape) if size == 1)
    return normalise_axes("squeeze", axis, x.rank, x)


def _infer_squeeze(types: tuple[Type, ...], attrs: Attrs) -> Type:
    (x,) = tensors("squeeze", types, 1)
    gone = _squeezed(attrs["axis"], x)
    for a in gone:
        if x.shape[a] != 1:
            raise LoopwrightTypeError(
                f"squeeze: axis {a} of {x.short} has size {x.shape[a]}, not 1"
            )
    return TensorType(tuple(s for a, s in enumerate(x.shape) if a not in gone), x.dtype)


def _compute_squeeze(inputs: Sequence[Tensor], attrs: Attrs, out: TensorType) -> Map:
    (x,) = inputs
    gone = _squeezed(attrs["axis"], TensorType(x.shape, x.dtype))

    def element(*i: IndexLike) -> Expr:
        rest = iter(i)
        return x(*(0 if axis in gone else next(rest) for axis in range(len(x.shape))))

    return Map(out.shape, out.dtype, element)


def _samples_squeeze(rng: np.random.Generator) -> list[Sample]:
    return [
        Sample((floats(rng, (1, 3, 1, 5)),), {}),
        Sample((floats(rng, (1, 3, 1, 5)),), {"axis": (2,)}),
        Sample((ints(rng, (1, 3, 1)),), {"axis": (-1, 0)}),
        Sample((truths(rng, (1, 1)),), {}),
        Sample((floats(rng, (0, 1)),), {"axis": 1}),
    ]


register(
    Operator(
        name="squeeze",
        doc="""Axes of size 1 left out: those in ``axis``, or all of them if it is None.

``x`` of any shape and dtype. LoopwrightTypeError if an axis named has another size.

    fn (%x: Tensor[(1, 3, 1), float32]) -> Tensor[(3, 1), float32] {
      squeeze(%x, axis=[0])
    }
""",
        params=("x",),
        attrs=(Attr("axis", "axes to leave out, or None for all of size 1", None),),
        pattern=Pattern.INJECTIVE,
        infer=_infer_squeeze,
        compute=_compute_squeeze,
        reference=lambda arrays, attrs: np.squeeze(arrays[0], attrs["axis"]),
        samples=_samples_squeeze,
    )
)


def _diagonal_axes(attrs: Attrs, rank: int, x: TensorType | None = None) -> tuple[int, int]:
    first = normalise_axis("diagonal", attrs["axis1"], rank, x)
    second = normalise_axis("diagonal", attrs["axis2"], rank, x)
    if first == second:
        raise LoopwrightValueError(f"diagonal: axis1 and axis2 are both {first}")
    return first, second


def _infer_diagonal(types: tuple[Type, ...], attrs: Attrs) -> Type:
    (x,) = tensors("diagonal", types, 1)
    first, second = _diagonal_axes(attrs, x.rank, x)
    offset = attrs["offset"]
    rows, columns = x.shape[first], x.shape[second]
    if offset == 0 and rows == columns:
        size = rows
    elif isinstance(rows, Dim) or isinstance(columns, Dim):
        raise LoopwrightTypeError(f"diagonal: its length is not known for {x.short}")
    else:
        size = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    rest = tuple(s for a, s in enumerate(x.shape) if a not in (first, second))
    return TensorType((*rest, size), x.dtype)


def _compute_diagonal(inputs: Sequence[Tensor], attrs: Attrs, out: TensorType) -> Map:
    (x,) = inputs
    first, second = _diagonal_axes(attrs, len(x.shape))
    offset = attrs["offset"]

    def element(*i: IndexLike) -> Expr:
        *outer, d = i
        rest = iter(outer)
        at = {first: index_add(d, max(-offset, 0)), second: index_add(d, max(offset, 0))}
        return x(*(at[axis] if axis in at else next(rest) for axis in range(len(x.shape))))

    return Map(out.shape, out.dtype, element)


def _samples_diagonal(rng: np.random.Generator) -> list[Sample]:
    return [
        Sample((floats(rng, (5, 5)),), {}),
        Sample((floats(rng, (3, 7)),), {"offset": 2}),
        Sample((floats(rng, (3, 7)),), {"offset": -1}),
        Sample((ints(rng, (4, 3, 5)),), {"axis1": -1, "axis2": 0}),
        Sample((floats(rng, (2, 3)),), {"offset": 9}),
        Sample((floats(rng, (1, 1)),), {}),
    ]


register(
    Operator(
        name="diagonal",
        doc="""The elements whose index on ``axis2`` is that on ``axis1`` plus ``offset``.

``x`` of rank 2 or more and any dtype; both axes are replaced by one behind the others.
LoopwrightValueError for equal axes or one out of range.

    fn (%x: Tensor[(3, 5), float32]) -> Tensor[(3), float32] {
      diagonal(%x, offset=1)
    }
""",
        params=("x",),
        attrs=(
            Attr("offset", "how far above the main diagonal", 0),
            Attr("axis1", "axis of the rows", 0),
            Attr("axis2", "axis of the columns", 1),
        ),
        pattern=Pattern.INJECTIVE,
        infer=_infer_diagonal,
        compute=_compute_diagonal,
        reference=lambda arrays, attrs: np.diagonal(
            arrays[0], attrs["offset"], attrs["axis1"], attrs["axis2"]
        ),
        samples=_samples_diagonal,
    )
)
