"""Operators that join or split tensors: concatenate, stack, split."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..dims import Dim, IntExpr, floordiv
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph import type_rules
from ..graph.compose import F, Value, cut
from ..graph.operator import Pattern, Sample
from ..graph.requirements import greater, lesser
from ..graph.types import TensorType, TupleType
from ..loop.expr import Expr, IndexLike, select
from ..loop.tensor import Tensor, index_less, index_sub
from ..traits import Trait
from .declare import Element, attr, composite, primitive
from .sampling import floats, ints, sample, truths

if TYPE_CHECKING:
    from ..graph.derivatives.rules import Transposition
    from ..graph.nodes import Atom
    from ..graph.vmap import Batch


def _concatenate_rule(*xs: TensorType, axis: Any) -> TensorType:
    dtype = type_rules.same_dtype(xs)
    first = xs[0]
    if any(x.rank != first.rank for x in xs):
        raise LoopwrightTypeError(f"operands {type_rules.shorts(xs)} differ in rank")
    axis = type_rules.normalise_axis(axis, first.rank, first)
    total: IntExpr = 0
    for x in xs:
        for other, (a, b) in enumerate(zip(first.shape, x.shape, strict=True)):
            if other != axis and a != b:
                error = LoopwrightTypeError(
                    f"operands {first.short} and {x.short} differ on axis {other}, {a} and {b}"
                )
                type_rules.require_equal(a, b, error)
        total = total + x.shape[axis]
    return TensorType((*first.shape[:axis], total, *first.shape[axis + 1 :]), dtype)


def _transpose_parts(step: Transposition) -> None:
    ct = step.ct
    begin: IntExpr = 0
    axis = step.attrs["axis"] % ct.rank
    for n in range(len(step.args)):
        end = begin + step.shape(n)[axis]
        if step.linear[n]:
            step.add(n, cut(ct, axis, begin, end))
        begin = end


def _concatenate_rows(batch: Batch) -> Atom:
    parts = [
        arg if many else batch.emit("broadcast_to", arg, shape=(batch.count, *batch.shape_of(n)))
        for n, (arg, many) in enumerate(zip(batch.args, batch.batched, strict=True))
    ]
    return batch.emit("concatenate", *parts, axis=batch.axes(batch.attrs["axis"])[0])


@primitive(
    "concatenate",
    Pattern.INJECTIVE,
    batch=_concatenate_rows,
    traits=Trait.MOVES,
    linear=slice(None),
    transpose=_transpose_parts,
    rule=_concatenate_rule,
    reference=lambda *xs, axis: np.concatenate(xs, axis=axis),
    samples=lambda rng: [
        sample(floats(rng, (3, 2)), floats(rng, (3, 5)), axis=1),
        sample(floats(rng, (3, 2)), floats(rng, (1, 2)), floats(rng, (4, 2)), axis=0),
        sample(ints(rng, (2, 1), "int8"), ints(rng, (2, 0), "int8"), axis=-1),
        sample(truths(rng, (5,)), axis=0),
        sample(floats(rng, (0, 3), "float64"), floats(rng, (0, 3), "float64"), axis=0),
        Sample(tuple(ints(rng, (2, 3, k), "int64") for k in range(1, 6)), {"axis": 2}),
    ],
)
def _concatenate(
    out: TensorType,
    *xs: Tensor,
    axis: Any = attr("the axis along which operands follow one another", 0),
) -> Element:
    """The operands one after the other along an axis.

    One or more operands of one dtype and rank, equal on all other axes. LoopwrightTypeError where
    they differ, LoopwrightValueError for an axis out of range.

        fn (%x: Tensor[(2, 3), float32], %y: Tensor[(4, 3), float32]) -> Tensor[(6, 3), float32] {
          concatenate(%x, %y)
        }
    """
    axis = axis % out.rank
    starts: list[IntExpr] = [0]
    for x in xs:
        starts.append(starts[-1] + x.shape[axis])

    def element(*i: IndexLike) -> Expr:
        def part(n: int) -> Expr:
            return xs[n](*i[:axis], index_sub(i[axis], starts[n]), *i[axis + 1 :])

        used = [n for n, x in enumerate(xs) if x.shape[axis] != 0] or [0]
        value = part(used[-1])
        for n in reversed(used[:-1]):
            value = select(index_less(i[axis], starts[n + 1]), part(n), value)
        return value

    return element


def _stack_rule(*xs: TensorType, axis: Any) -> TensorType:
    dtype = type_rules.same_dtype(xs)
    first = xs[0]
    for x in xs:
        if x.shape != first.shape:
            error = LoopwrightTypeError(
                f"operands {first.short} and {x.short} differ in shape",
                hint="concatenate joins operands that differ on one axis",
            )
            type_rules.require_shape(x.shape, first.shape, error)
    axis = type_rules.normalise_axis(axis, first.rank + 1, first)
    return TensorType((*first.shape[:axis], len(xs), *first.shape[axis:]), dtype)


@composite(
    "stack",
    Pattern.INJECTIVE,
    traits=Trait.MOVES,
    dtypes=type_rules.ANY,
    rule=_stack_rule,
    reference=lambda *xs, axis: np.stack(xs, axis=axis),
    samples=lambda rng: [
        sample(floats(rng, (3, 5)), floats(rng, (3, 5)), axis=0),
        sample(floats(rng, (3, 5)), floats(rng, (3, 5)), floats(rng, (3, 5)), axis=-1),
        sample(ints(rng, (), "int16"), ints(rng, (), "int16"), axis=0),
        sample(truths(rng, (4,)), axis=1),
        sample(floats(rng, (0,)), floats(rng, (0,)), axis=1),
    ],
)
def _stack(*xs: Value, axis: Any = attr("where the new axis stands in the result", 0)) -> Value:
    """The operands next to one another along a new axis.

    One or more operands of one type. LoopwrightTypeError where they differ, LoopwrightValueError
    for an axis out of range.

        fn (%x: Tensor[(3), float32], %y: Tensor[(3), float32]) -> Tensor[(3, 2), float32] {
          stack(%x, %y, axis=1)
        }
    """
    axis = axis % (xs[0].rank + 1)
    return F.concatenate(*(F.expand_dims(x, axis=axis) for x in xs), axis=axis)


def _cuts(x: TensorType, parts: Any, axis: Any) -> tuple[int, list[tuple[IntExpr, IntExpr]]]:
    """Returns the axis, and the begin and end of each part on it."""
    axis = type_rules.normalise_axis(axis, x.rank, x)
    size = x.shape[axis]
    if type_rules.is_size(parts) and not isinstance(parts, Dim):
        if parts < 1:
            raise LoopwrightValueError(f"{parts} is not a number of parts")
        step = floordiv(size, parts)
        if step * parts != size:
            error = LoopwrightTypeError(
                f"axis {axis} of {x.short} does not divide into {parts} equal parts",
                hint="give the indices at which to cut",
            )
            type_rules.require_equal(size % parts, 0, error)
        return axis, [(step * n, step * (n + 1)) for n in range(parts)]
    marks = [_cut(p, size) for p in type_rules.as_axes(parts)]
    ends = zip([0, *marks], [*marks, size], strict=True)
    return axis, [(begin, greater(begin, end)) for begin, end in ends]


def _cut(mark: Any, size: IntExpr) -> IntExpr:
    """Returns an index at which to cut, interpreted as in a slice."""
    if not type_rules.is_size(mark):
        raise LoopwrightValueError(f"{mark!r} is not an index")
    if isinstance(mark, Dim) or isinstance(size, Dim):
        place = mark if isinstance(mark, Dim) or mark >= 0 else size + mark
        return greater(lesser(place, size), 0)
    return slice(mark).indices(size)[1]


def _split_rule(x: TensorType, indices_or_sections: Any, axis: Any) -> TupleType:
    axis, cuts = _cuts(x, indices_or_sections, axis)
    return TupleType(
        tuple(
            TensorType((*x.shape[:axis], end - begin, *x.shape[axis + 1 :]), x.dtype)
            for begin, end in cuts
        )
    )


def _split_reference(x: Any, indices_or_sections: Any, axis: Any) -> Any:
    return tuple(np.split(x, indices_or_sections, axis))


def _split_samples(rng: np.random.Generator) -> list[Sample]:
    def drawn(x: Any, parts: Any, axis: int) -> Sample:
        return sample(x, indices_or_sections=parts, axis=axis)

    return [
        drawn(floats(rng, (6, 5)), 3, 0),
        drawn(floats(rng, (2, 9)), (2, 5), 1),
        drawn(ints(rng, (7,), "uint8"), (3, 3, 20), -1),
        drawn(ints(rng, (8,), "int64"), (5, -2), 0),
        drawn(floats(rng, (4, 4), "float64"), (3, 1), 1),
        drawn(truths(rng, (3, 1)), 1, 1),
        drawn(floats(rng, (0, 2)), 4, 0),
    ]


@composite(
    "split",
    Pattern.INJECTIVE,
    traits=Trait.MOVES,
    dtypes=type_rules.ANY,
    rule=_split_rule,
    reference=_split_reference,
    samples=_split_samples,
)
def _split(
    x: Value,
    *,
    indices_or_sections: Any = attr("a number of equal parts, or the indices of the cuts"),
    axis: Any = attr("the axis that is cut", 0),
) -> list[Value]:
    """A tensor cut along an axis; the result is a tuple of the parts.

    ``x`` of any shape and dtype. A number of parts must divide the axis; a tuple gives the indices
    at which to cut, read as in a slice. LoopwrightTypeError if the axis does not divide,
    LoopwrightValueError for an axis out of range.

        fn (%x: Tensor[(6, 3), float32]) -> (Tensor[(2, 3), float32], Tensor[(4, 3), float32]) {
          split(%x, indices_or_sections=[2])
        }
    """
    axis, cuts = _cuts(x.type, indices_or_sections, axis)
    parts: list[Value] = []
    for begin, end in cuts:
        first = tuple(begin if a == axis else 0 for a in range(x.rank))
        last = tuple(end if a == axis else size for a, size in enumerate(x.shape))
        parts.append(F.strided_slice(x, begin=first, end=last, strides=(1,) * x.rank))
    return parts
