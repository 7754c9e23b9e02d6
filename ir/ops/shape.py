"""Operators that only rearrange: reshape, transpose, broadcast_to, expand_dims, squeeze, diagonal.

All are index maps: they cost nothing in front of a consumer that reads through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dims import Dim, IntExpr, floordiv, product
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph import type_rules
from ..graph.compose import F, broadcast, unbroadcast
from ..graph.operator import Pattern
from ..graph.requirements import greater, lesser
from ..graph.types import TensorType
from ..loop.expr import Expr, IndexLike
from ..loop.reindex import reshape_index
from ..loop.tensor import Tensor, index_add
from ..traits import Trait
from .declare import Element, attr, primitive
from .sampling import floats, ints, sample, truths

if TYPE_CHECKING:
    from ..graph.derivatives.rules import Transposition
    from ..graph.nodes import Atom
    from ..graph.vmap import Batch


def _transpose_view(step: Transposition) -> None:
    step.add(0, F.reshape(step.ct, newshape=step.shape()))


def _missing_size(x: TensorType, sizes: Sequence[IntExpr]) -> IntExpr:
    if product(sizes) == 0:
        raise LoopwrightValueError(f"a size of {x.short} cannot be computed from 0 elements")
    rest = list(sizes)
    size: IntExpr = 1
    for axis_size in x.shape:  # symbolic sizes that stay are cancelled one by one
        if isinstance(axis_size, Dim) and axis_size in rest:
            rest.remove(axis_size)
        else:
            size = size * axis_size
    return floordiv(size, product(rest))


def _reshape_rule(x: TensorType, newshape: Any) -> TensorType:
    asked: tuple[Any, ...] = type_rules.as_axes(newshape)
    unknown = [n for n, size in enumerate(asked) if isinstance(size, int) and size == -1]
    if len(unknown) > 1:
        raise LoopwrightValueError(f"{asked} leaves more than one size open")
    sizes = list(type_rules.sizes_of(tuple(1 if n in unknown else s for n, s in enumerate(asked))))
    if unknown:
        sizes[unknown[0]] = _missing_size(x, sizes)
    if product(sizes) != x.size:
        text = ", ".join(map(str, asked))
        other = "does not divide them" if unknown else f"has {product(sizes)}"
        error = LoopwrightTypeError(f"{x.short} has {x.size} elements, the shape ({text}) {other}")
        type_rules.require_equal(product(sizes), x.size, error)
    return TensorType(tuple(sizes), x.dtype)


@primitive(
    "reshape",
    Pattern.INJECTIVE,
    traits=Trait.VIEW,
    transpose=_transpose_view,
    rule=_reshape_rule,
    reference=lambda x, newshape: np.reshape(x, newshape),
    samples=lambda rng: [
        sample(floats(rng, (2, 3, 4)), newshape=(6, 4)),
        sample(floats(rng, (6, 4), "float64"), newshape=(3, 2, -1)),
        sample(ints(rng, (4, 6)), newshape=(2, 12)),
        sample(ints(rng, (4, 6), "int8"), newshape=(3, 8)),
        sample(floats(rng, (2, 3, 5, 7)), newshape=(6, 1, 35)),
        sample(floats(rng, (1, 5, 1)), newshape=(5,)),
        sample(floats(rng, (1, 1)), newshape=()),
        sample(truths(rng, (3, 4)), newshape=-1),
        sample(floats(rng, (0, 3)), newshape=(5, 0, 2)),
    ],
)
def _reshape(
    out: TensorType, x: Tensor, *, _newshape: Any = attr("sizes of the result; one may be -1")
) -> Element:
    """The elements in the same row-major order, in another shape.

    ``x`` of any shape and dtype. One size of ``newshape`` may be -1: it is the quotient that
    remains.
    LoopwrightTypeError if the numbers of elements differ (symbolic ones must be proved equal),
    LoopwrightValueError for more than one -1.

        fn (%x: Tensor[(2, 3, 4), float32]) -> Tensor[(6, 4), float32] {
          reshape(%x, newshape=[6, -1])
        }
    """

    return lambda *i: x(*reshape_index(i, out.shape, x.shape))


def _transpose_rule(x: TensorType, axes: Any) -> TensorType:
    order = type_rules.permutation(axes, x.rank, x)
    return TensorType(tuple(x.shape[a] for a in order), x.dtype)


def _transpose_back(step: Transposition) -> None:
    order = type_rules.permutation(step.attrs["axes"], len(step.shape()))
    step.add(0, F.transpose(step.ct, axes=tuple(order.index(n) for n in range(len(order)))))


def _transpose_rows(batch: Batch) -> Atom:
    axes = batch.attrs["axes"]
    order = batch.axes(axes)[::-1] if axes is None else batch.axes(axes)
    return batch.emit("transpose", *batch.args, axes=(0, *order))


@primitive(
    "transpose",
    Pattern.INJECTIVE,
    batch=_transpose_rows,
    traits=Trait.REARRANGES,
    transpose=_transpose_back,
    rule=_transpose_rule,
    reference=np.transpose,
    samples=lambda rng: [
        sample(floats(rng, (3, 5))),
        sample(floats(rng, (2, 3, 4, 5)), axes=(0, 2, 3, 1)),
        sample(ints(rng, (2, 3, 4), "int16"), axes=(-1, 0, 1)),
        sample(truths(rng, (7,))),
        sample(floats(rng, (), "float64")),
        sample(floats(rng, (0, 1, 3)), axes=(2, 0, 1)),
    ],
)
def _transpose(
    _out: TensorType,
    x: Tensor,
    *,
    axes: Any = attr("a permutation of the axes, or None to reverse them", None),
) -> Element:
    """The axes in another order: axis ``n`` of the result is axis ``axes[n]`` of ``x``.

    ``x`` of any shape and dtype; ``axes=None`` reverses them. LoopwrightValueError if ``axes`` is
    not a permutation.

        fn (%x: Tensor[(2, 3, 4), float32]) -> Tensor[(2, 4, 3), float32] {
          transpose(%x, axes=[0, 2, 1])
        }
    """
    order = type_rules.permutation(axes, len(x.shape))

    def element(*i: IndexLike) -> Expr:
        source: dict[int, IndexLike] = dict(zip(order, i, strict=True))
        return x(*(source[axis] for axis in range(len(order))))

    return element


def _broadcast_to_rule(x: TensorType, shape: Any) -> TensorType:
    shape = type_rules.sizes_of(shape)
    front = len(shape) - x.rank
    text = ", ".join(map(str, shape))
    error = LoopwrightTypeError(f"{x.short} does not broadcast to ({text})")
    if front < 0:
        raise error
    for old, new in zip(x.shape, shape[front:], strict=True):
        if old not in (new, 1):
            type_rules.require_equal(old, new, error)
    return TensorType(shape, x.dtype)


def _broadcast_rows(batch: Batch) -> Atom:
    rows = batch.aligned(0, len(batch.shape))
    return batch.emit("broadcast_to", rows, shape=(batch.count, *batch.shape))


@primitive(
    "broadcast_to",
    Pattern.BROADCAST,
    batch=_broadcast_rows,
    traits=Trait.PICKS,
    transpose=lambda step: step.add(0, unbroadcast(step.ct, step.shape())),
    rule=_broadcast_to_rule,
    reference=np.broadcast_to,
    samples=lambda rng: [
        sample(floats(rng, (3, 1)), shape=(2, 3, 5)),
        sample(ints(rng, (), "int64"), shape=(4, 3)),
        sample(floats(rng, (7,), "float64"), shape=(7,)),
        sample(truths(rng, (1,)), shape=(0,)),
        sample(floats(rng, (1, 4)), shape=(1, 4)),
    ],
)
def _broadcast_to(
    _out: TensorType, x: Tensor, *, _shape: Any = attr("sizes of the result")
) -> Element:
    """The elements repeated along new axes in front and along axes of size 1.

    ``x`` of any shape and dtype. LoopwrightTypeError if it does not broadcast to ``shape``.

        fn (%x: Tensor[(3, 1), float32]) -> Tensor[(2, 3, 4), float32] {
          broadcast_to(%x, shape=[2, 3, 4])
        }
    """
    return lambda *i: type_rules.broadcast_read(x, i)


def _expand_dims_rule(x: TensorType, axis: Any, num_newaxis: Any) -> TensorType:
    if not type_rules.is_size(num_newaxis) or num_newaxis < 0:
        raise LoopwrightValueError(f"num_newaxis {num_newaxis!r} is not a count")
    axis = type_rules.normalise_axis(axis, x.rank + 1, x)
    return TensorType((*x.shape[:axis], *((1,) * num_newaxis), *x.shape[axis:]), x.dtype)


def _expand_dims_reference(x: Any, axis: Any, num_newaxis: Any) -> Any:
    axis = range(x.ndim + 1)[axis]
    for _ in range(num_newaxis):
        x = np.expand_dims(x, axis)
    return x


@primitive(
    "expand_dims",
    Pattern.INJECTIVE,
    traits=Trait.VIEW,
    transpose=_transpose_view,
    rule=_expand_dims_rule,
    reference=_expand_dims_reference,
    samples=lambda rng: [
        sample(floats(rng, (3, 5)), axis=1),
        sample(floats(rng, (3, 5)), axis=-1),
        sample(floats(rng, (3, 5)), axis=0, num_newaxis=2),
        sample(ints(rng, (), "uint8"), axis=0),
        sample(truths(rng, (0,)), axis=-2),
    ],
)
def _expand_dims(
    _out: TensorType,
    x: Tensor,
    *,
    axis: Any = attr("where the first new axis stands in the result, or from the end"),
    num_newaxis: Any = attr("how many axes", 1),
) -> Element:
    """New axes of size 1 in front of axis ``axis``; -1 is behind the last.

    ``x`` of any shape and dtype. LoopwrightValueError for an axis out of range.

        fn (%x: Tensor[(2, 3), float32]) -> Tensor[(2, 1, 3), float32] {
          expand_dims(%x, axis=1)
        }
    """
    first = axis % (len(x.shape) + 1)
    return lambda *i: x(*i[:first], *i[first + num_newaxis :])


def _squeezed(axis: Any, x: TensorType) -> tuple[int, ...]:
    if axis is None:
        return tuple(a for a, size in enumerate(x.shape) if size == 1)
    return type_rules.normalise_axes(axis, x.rank, x)


def _squeeze_rule(x: TensorType, axis: Any) -> TensorType:
    gone = _squeezed(axis, x)
    for a in gone:
        if x.shape[a] != 1:
            error = LoopwrightTypeError(f"axis {a} of {x.short} has size {x.shape[a]}, not 1")
            type_rules.require_equal(x.shape[a], 1, error)
    return TensorType(tuple(s for a, s in enumerate(x.shape) if a not in gone), x.dtype)


@primitive(
    "squeeze",
    Pattern.INJECTIVE,
    traits=Trait.VIEW,
    transpose=_transpose_view,
    rule=_squeeze_rule,
    reference=np.squeeze,
    samples=lambda rng: [
        sample(floats(rng, (1, 3, 1, 5))),
        sample(floats(rng, (1, 3, 1, 5)), axis=(2,)),
        sample(ints(rng, (1, 3, 1)), axis=(-1, 0)),
        sample(truths(rng, (1, 1))),
        sample(floats(rng, (0, 1)), axis=1),
    ],
)
def _squeeze(
    _out: TensorType,
    x: Tensor,
    *,
    axis: Any = attr("axes to leave out, or None for all of size 1", None),
) -> Element:
    """Axes of size 1 left out: those in ``axis``, or all of them if it is None.

    ``x`` of any shape and dtype. LoopwrightTypeError if an axis named has another size.

        fn (%x: Tensor[(1, 3, 1), float32]) -> Tensor[(3, 1), float32] {
          squeeze(%x, axis=[0])
        }
    """
    gone = _squeezed(axis, TensorType(x.shape, x.dtype))

    def element(*i: IndexLike) -> Expr:
        rest = iter(i)
        return x(*(0 if axis in gone else next(rest) for axis in range(len(x.shape))))

    return element


def _transpose_diagonal(step: Transposition) -> None:
    """Puts the elements on the diagonal of zeros."""
    shape, offset = step.shape(), step.attrs["offset"]
    first, second = (step.attrs[name] % len(shape) for name in ("axis1", "axis2"))
    rest = tuple(n for n in range(len(shape)) if n not in (first, second))
    moved = (*(shape[n] for n in rest), shape[first], shape[second])
    rank = len(shape)
    row, column = (step.ct.iota(moved[-2:], axis) for axis in (0, 1))
    # Element d of the diagonal is in row d + max(0, -offset).
    at = F.clip(row - max(0, -offset), a_min=0)
    count = step.ct.shape[-1]
    if count == 0:
        return
    at = F.minimum(at, count - 1)
    spread = F.take(
        step.ct,
        F.squeeze(F.strided_slice(at, begin=(0, 0), end=(moved[-2], 1), strides=(1, 1)), axis=(1,)),
        axis=rank - 2,
    )
    spread = F.expand_dims(spread, axis=rank - 1)
    chosen = F.equal(column, row + offset)
    placed = F.where(chosen, broadcast(spread, moved), step.ct.full((), 0))
    order = (*rest, first, second)
    step.add(0, F.transpose(placed, axes=tuple(order.index(n) for n in range(rank))))


def _diagonal_rule(x: TensorType, offset: int, axis1: Any, axis2: Any) -> TensorType:
    first, second = (type_rules.normalise_axis(axis, x.rank, x) for axis in (axis1, axis2))
    if first == second:
        raise LoopwrightValueError(f"axis1 and axis2 are both {first}")
    rows, columns = x.shape[first], x.shape[second]
    if offset == 0 and rows == columns:
        size = rows
    else:
        size = greater(0, lesser(rows + min(offset, 0), columns - max(offset, 0)))
    rest = tuple(s for a, s in enumerate(x.shape) if a not in (first, second))
    return TensorType((*rest, size), x.dtype)


@primitive(
    "diagonal",
    Pattern.INJECTIVE,
    traits=Trait.PICKS,
    transpose=_transpose_diagonal,
    rule=_diagonal_rule,
    reference=np.diagonal,
    samples=lambda rng: [
        sample(floats(rng, (5, 5))),
        sample(floats(rng, (3, 7)), offset=2),
        sample(floats(rng, (3, 7)), offset=-1),
        sample(ints(rng, (4, 3, 5)), axis1=-1, axis2=0),
        sample(floats(rng, (2, 3)), offset=9),
        sample(floats(rng, (1, 1))),
    ],
)
def _diagonal(
    _out: TensorType,
    x: Tensor,
    *,
    offset: Any = attr("how far above the main diagonal", 0),
    axis1: Any = attr("axis of the rows", 0),
    axis2: Any = attr("axis of the columns", 1),
) -> Element:
    """The elements whose index on ``axis2`` is that on ``axis1`` plus ``offset``.

    ``x`` of rank 2 or more and any dtype; both axes are replaced by one behind the others.
    LoopwrightValueError for equal axes or one out of range.

        fn (%x: Tensor[(3, 5), float32]) -> Tensor[(3), float32] {
          diagonal(%x, offset=1)
        }
    """
    first, second = axis1 % len(x.shape), axis2 % len(x.shape)

    def element(*i: IndexLike) -> Expr:
        *outer, d = i
        rest = iter(outer)
        at = {first: index_add(d, max(-offset, 0)), second: index_add(d, max(offset, 0))}
        return x(*(at[axis] if axis in at else next(rest) for axis in range(len(x.shape))))

    return element
