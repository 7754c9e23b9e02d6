"""Operators that join tensors or take them apart: concatenate, stack, split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dims import Dim, IntExpr, floordiv, int_max
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.builder import Builder
from ..graph.nodes import Atom
from ..graph.operator import Attr, Operator, Pattern, Sample, register
from ..graph.types import TensorType, TupleType, Type
from ..loop.expr import Expr, IndexLike, select
from ..loop.tensor import Map, Tensor, index_less, index_sub
from .compose import call, tensor_type
from .rules import Attrs, as_axes, is_size, normalise_axis, same_dtype, shorts, tensors
from .sampling import floats, ints, truths

__all__: list[str] = []


def _infer_concatenate(types: tuple[Type, ...], attrs: Attrs) -> Type:
    xs = tensors("concatenate", types)
    dtype = same_dtype("concatenate", xs)
    first = xs[0]
    if any(x.rank != first.rank for x in xs):
        raise LoopwrightTypeError(f"concatenate: operands {shorts(xs)} differ in rank")
    axis = normalise_axis("concatenate", attrs["axis"], first.rank, first)
    total: IntExpr = 0
    for x in xs:
        for other, (a, b) in enumerate(zip(first.shape, x.shape, strict=True)):
            if other != axis and a != b:
                raise LoopwrightTypeError(
                    f"concatenate: operands {first.short} and {x.short} differ on axis {other}, "
                    f"{a} and {b}"
                )
        total = total + x.shape[axis]
    return TensorType((*first.shape[:axis], total, *first.shape[axis + 1 :]), dtype)


def _compute_concatenate(inputs: Sequence[Tensor], attrs: Attrs, out: TensorType) -> Map:
    axis = attrs["axis"] % out.rank
    starts: list[IntExpr] = [0]
    for x in inputs:
        starts.append(starts[-1] + x.shape[axis])

    def element(*i: IndexLike) -> Expr:
        def part(n: int) -> Expr:
            return inputs[n](*i[:axis], index_sub(i[axis], starts[n]), *i[axis + 1 :])

        used = [n for n, x in enumerate(inputs) if x.shape[axis] != 0] or [0]
        value = part(used[-1])
        for n in reversed(used[:-1]):
            value = select(index_less(i[axis], starts[n + 1]), part(n), value)
        return value

    return Map(out.shape, out.dtype, element)


def _samples_concatenate(rng: np.random.Generator) -> list[Sample]:
    return [
        Sample((floats(rng, (3, 2)), floats(rng, (3, 5))), {"axis": 1}),
        Sample((floats(rng, (3, 2)), floats(rng, (1, 2)), floats(rng, (4, 2))), {"axis": 0}),
        Sample((ints(rng, (2, 1), "int8"), ints(rng, (2, 0), "int8")), {"axis": -1}),
        Sample((truths(rng, (5,)),), {"axis": 0}),
        Sample((floats(rng, (0, 3), "float64"), floats(rng, (0, 3), "float64")), {"axis": 0}),
        Sample(tuple(ints(rng, (2, 3, k), "int64") for k in range(1, 6)), {"axis": 2}),
    ]


register(
    Operator(
        name="concatenate",
        doc="""The operands one after the other along an axis.

One or more operands of one dtype and rank, equal on all other axes. LoopwrightTypeError where
they differ, LoopwrightValueError for an axis out of range.

    fn (%x: Tensor[(2, 3), float32], %y: Tensor[(4, 3), float32]) -> Tensor[(6, 3), float32] {
      concatenate(%x, %y)
    }
""",
        params=("*xs",),
        attrs=(Attr("axis", "the axis along which operands follow one another", 0),),
        pattern=Pattern.INJECTIVE,
        infer=_infer_concatenate,
        compute=_compute_concatenate,
        reference=lambda arrays, attrs: np.concatenate(arrays, axis=attrs["axis"]),
        samples=_samples_concatenate,
    )
)


def _infer_stack(types: tuple[Type, ...], attrs: Attrs) -> Type:
    xs = tensors("stack", types)
    dtype = same_dtype("stack", xs)
    first = xs[0]
    for x in xs:
        if x.shape != first.shape:
            raise LoopwrightTypeError(
                f"stack: operands {first.short} and {x.short} differ in shape",
                hint="concatenate joins operands that differ on one axis",
            )
    axis = normalise_axis("stack", attrs["axis"], first.rank + 1, first)
    return TensorType((*first.shape[:axis], len(xs), *first.shape[axis:]), dtype)


def _decompose_stack(b: Builder, args: Sequence[Atom], attrs: Attrs) -> Atom:
    axis = attrs["axis"] % (tensor_type(args[0]).rank + 1)
    return call(b, "concatenate", *(call(b, "expand_dims", x, axis=axis) for x in args), axis=axis)


def _samples_stack(rng: np.random.Generator) -> list[Sample]:
    return [
        Sample((floats(rng, (3, 5)), floats(rng, (3, 5))), {"axis": 0}),
        Sample((floats(rng, (3, 5)), floats(rng, (3, 5)), floats(rng, (3, 5))), {"axis": -1}),
        Sample((ints(rng, (), "int16"), ints(rng, (), "int16")), {"axis": 0}),
        Sample((truths(rng, (4,)),), {"axis": 1}),
        Sample((floats(rng, (0,)), floats(rng, (0,))), {"axis": 1}),
    ]


register(
    Operator(
        name="stack",
        doc="""The operands side by side along a new axis.

One or more operands of one type. LoopwrightTypeError where they differ, LoopwrightValueError for
an axis out of range.

    fn (%x: Tensor[(3), float32], %y: Tensor[(3), float32]) -> Tensor[(3, 2), float32] {
      stack(%x, %y, axis=1)
    }
""",
        params=("*xs",),
        attrs=(Attr("axis", "where the new axis stands in the result", 0),),
        pattern=Pattern.INJECTIVE,
        infer=_infer_stack,
        decompose=_decompose_stack,
        reference=lambda arrays, attrs: np.stack(arrays, axis=attrs["axis"]),
        samples=_samples_stack,
    )
)


def _cuts(x: TensorType, attrs: Attrs) -> tuple[int, list[tuple[IntExpr, IntExpr]]]:
    """The axis, and where each part begins and ends on it."""
    axis = normalise_axis("split", attrs["axis"], x.rank, x)
    size, parts = x.shape[axis], attrs["indices_or_sections"]
    if is_size(parts) and not isinstance(parts, Dim):
        if parts < 1:
            raise LoopwrightValueError(f"split: {parts} is not a number of parts")
        step = floordiv(size, parts)
        if step * parts != size:
            raise LoopwrightTypeError(
                f"split: axis {axis} of {x.short} does not divide into {parts} equal parts",
                hint="give the indices at which to cut",
            )
        return axis, [(step * n, step * (n + 1)) for n in range(parts)]
    marks = [_cut(p, size) for p in as_axes(parts)]
    ends = list(zip([0, *marks], [*marks, size], strict=True))
    return axis, [
        (begin, int_max(begin, end) if _known(begin, end) else end) for begin, end in ends
    ]


def _known(*values: IntExpr) -> bool:
    return not any(isinstance(v, Dim) for v in values)


def _cut(mark: Any, size: IntExpr) -> IntExpr:
    """One index at which to cut, as a slice would read it."""
    if not is_size(mark):
        raise LoopwrightValueError(f"split: {mark!r} is not an index")
    if isinstance(mark, Dim) or isinstance(size, Dim):
        return mark if isinstance(mark, Dim) or mark >= 0 else size + mark
    return slice(mark).indices(size)[1]


def _infer_split(types: tuple[Type, ...], attrs: Attrs) -> Type:
    (x,) = tensors("split", types, 1)
    axis, cuts = _cuts(x, attrs)
    return TupleType(
        tuple(
            TensorType((*x.shape[:axis], end - begin, *x.shape[axis + 1 :]), x.dtype)
            for begin, end in cuts
        )
    )


def _decompose_split(b: Builder, args: Sequence[Atom], attrs: Attrs) -> Atom:
    (x,) = args
    kind = tensor_type(x)
    axis, cuts = _cuts(kind, attrs)
    parts: list[Atom] = []
    for begin, end in cuts:
        first = tuple(begin if a == axis else 0 for a in range(kind.rank))
        last = tuple(end if a == axis else size for a, size in enumerate(kind.shape))
        steps = (1,) * kind.rank
        parts.append(call(b, "strided_slice", x, begin=first, end=last, strides=steps))
    return b.make_tuple(parts)


def _reference_split(arrays: Sequence[Any], attrs: Attrs) -> Any:
    return tuple(np.split(arrays[0], attrs["indices_or_sections"], attrs["axis"]))


def _samples_split(rng: np.random.Generator) -> list[Sample]:
    def sample(x: Any, parts: Any, axis: int) -> Sample:
        return Sample((x,), {"indices_or_sections": parts, "axis": axis})

    return [
        sample(floats(rng, (6, 5)), 3, 0),
        sample(floats(rng, (2, 9)), (2, 5), 1),
        sample(ints(rng, (7,), "uint8"), (3, 3, 20), -1),
        sample(ints(rng, (8,), "int64"), (5, -2), 0),
        sample(floats(rng, (4, 4), "float64"), (3, 1), 1),
        sample(truths(rng, (3, 1)), 1, 1),
        sample(floats(rng, (0, 2)), 4, 0),
    ]


register(
    Operator(
        name="split",
        doc="""A tensor cut along an axis; the result is a tuple of the parts.

``x`` of any shape and dtype. A number of parts must divide the axis; a tuple gives the indices at
which to cut, read as in a slice. LoopwrightTypeError if the axis does not divide,
LoopwrightValueError for an axis out of range.

    fn (%x: Tensor[(6, 3), float32]) -> (Tensor[(2, 3), float32], Tensor[(4, 3), float32]) {
      split(%x, indices_or_sections=[2])
    }
""",
        params=("x",),
        attrs=(
            Attr("indices_or_sections", "a number of equal parts, or the indices of the cuts"),
            Attr("axis", "the axis that is cut", 0),
        ),
        pattern=Pattern.INJECTIVE,
        infer=_infer_split,
        decompose=_decompose_split,
        reference=_reference_split,
        samples=_samples_split,
    )
)
