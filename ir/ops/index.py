"""Operators that choose elements by index: slices, reversal, take, one_hot, triangles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dims import Dim, IntExpr, ceildiv, product
from ..dtype import INT64
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.operator import Attr, Operator, Pattern, Sample, register
from ..graph.types import TensorType, Type
from ..loop.expr import Expr, IndexLike, cast, const, op, select
from ..loop.reindex import delinearise
from ..loop.tensor import (
    Map,
    Tensor,
    index_add,
    index_expr,
    index_less,
    index_mul,
    index_sub,
)
from .rules import Attrs, dtype_attr, is_size, normalise_axes, normalise_axis, same_type, tensors
from .sampling import floats, ints, specials, truths

__all__: list[str] = []


def _sliced_size(begin: Any, end: Any, stride: int) -> IntExpr:
    size = ceildiv(end - begin, stride) if stride > 0 else ceildiv(begin - end, -stride)
    return size if isinstance(size, Dim) else max(0, size)


def _infer_strided_slice(types: tuple[Type, ...], attrs: Attrs) -> Type:
    (x,) = tensors("strided_slice", types, 1)
    begin, end, strides = attrs["begin"], attrs["end"], attrs["strides"]
    if not len(begin) == len(end) == len(strides) == x.rank:
        raise LoopwrightValueError(
            f"strided_slice: needs one begin, end and stride per axis of {x.short}"
        )
    sizes: list[IntExpr] = []
    for axis, (first, last, stride) in enumerate(zip(begin, end, strides, strict=True)):
        if not (is_size(first) and is_size(last)) or not isinstance(stride, int) or stride == 0:
            raise LoopwrightValueError(
                f"strided_slice: {first}:{last}:{stride} on axis {axis} of {x.short} is no slice"
            )
        size = _sliced_size(first, last, stride)
        furthest = first + (size - 1) * stride
        for at in (first, furthest) if size != 0 else ():
            beyond = at - x.shape[axis]
            if (isinstance(at, int) and at < 0) or (isinstance(beyond, int) and beyond >= 0):
                raise LoopwrightValueError(
                    f"strided_slice: {first}:{last}:{stride} leaves axis {axis} of {x.short}"
                )
        sizes.append(size)
    return TensorType(tuple(sizes), x.dtype)


def _compute_strided_slice(inputs: Sequence[Tensor], attrs: Attrs, out: TensorType) -> Map:
    (x,) = inputs

    def element(*i: IndexLike) -> Expr:
        return x(
            *(
                index_add(index_mul(at, stride), first)
                for at, first, stride in zip(i, attrs["begin"], attrs["strides"], strict=True)
            )
        )

    return Map(out.shape, out.dtype, element)


def _reference_strided_slice(arrays: Sequence[Any], attrs: Attrs) -> Any:
    (x,) = arrays
    bounds = zip(attrs["begin"], attrs["end"], attrs["strides"], strict=True)
    return x[tuple(slice(b, None if e < 0 else e, s) for b, e, s in bounds)]


def _samples_strided_slice(rng: np.random.Generator) -> list[Sample]:
    def sample(x: Any, *slices: tuple[int, int, int]) -> Sample:
        begin, end, strides = zip(*slices, strict=True)
        return Sample((x,), {"begin": begin, "end": end, "strides": strides})

    return [
        sample(floats(rng, (7, 9)), (1, 6, 1), (0, 9, 2)),
        sample(floats(rng, (7, 9), "float64"), (6, -1, -1), (7, 1, -3)),
        sample(ints(rng, (5, 3, 4), "int16"), (0, 5, 1), (1, 2, 1), (3, 4, 7)),
        sample(ints(rng, (5,), "uint32"), (3, 3, 1)),
        sample(truths(rng, (1,)), (0, 1, 1)),
        sample(floats(rng, (0, 3)), (0, 0, 1), (2, 0, -1)),
    ]


register(
    Operator(
        name="strided_slice",
        doc="""Every ``strides``-th element from ``begin`` up to, without, ``end`` on each axis.

``x`` of any shape and dtype. The bounds are those that ``slice.indices`` gives: not negative,
except that a negative stride that reaches index 0 ends at -1. Symbolic bounds are taken to be in
range and in order. LoopwrightValueError for a bound outside the axis or a stride of 0.

    fn (%x: Tensor[(5, 6), float32]) -> Tensor[(3, 3), float32] {
      strided_slice(%x, begin=[1, 0], end=[4, 6], strides=[1, 2])
    }
""",
        params=("x",),
        attrs=(
            Attr("begin", "first index per axis"),
            Attr("end", "end per axis, not included"),
            Attr("strides", "step per axis, not 0"),
        ),
        pattern=Pattern.INJECTIVE,
        infer=_infer_strided_slice,
        compute=_compute_strided_slice,
        reference=_reference_strided_slice,
        samples=_samples_strided_slice,
    )
)


def _infer_reverse(types: tuple[Type, ...], attrs: Attrs) -> Type:
    (x,) = tensors("reverse", types, 1)
    normalise_axes("reverse", attrs["axis"], x.rank, x)
    return x


def _compute_reverse(inputs: Sequence[Tensor], attrs: Attrs, out: TensorType) -> Map:
    (x,) = inputs
    axes = normalise_axes("reverse", attrs["axis"], out.rank)

    def element(*i: IndexLike) -> Expr:
        return x(
            *(
                index_sub(out.shape[axis] - 1, at) if axis in axes else at
                for axis, at in enumerate(i)
            )
        )

    return Map(out.shape, out.dtype, element)


def _samples_reverse(rng: np.random.Generator) -> list[Sample]:
    return [
        Sample((floats(rng, (3, 5)),), {"axis": (1,)}),
        Sample((floats(rng, (3, 5, 2), "float64"),), {"axis": (0, -1)}),
        Sample((ints(rng, (7,)),), {"axis": None}),
        Sample((truths(rng, (1, 4)),), {"axis": 0}),
        Sample((floats(rng, (0, 3)),), {"axis": 0}),
    ]


register(
    Operator(
        name="reverse",
        doc="""The order of the elements turned round along axes.

``x`` of any shape and dtype; ``axis=None`` is all axes. LoopwrightValueError for an axis out of
range.

    fn (%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] {
      reverse(%x, axis=[1])
    }
""",
        params=("x",),
        attrs=(Attr("axis", "axes to turn round, or None for all", None),),
        pattern=Pattern.INJECTIVE,
        infer=_infer_reverse,
        compute=_compute_reverse,
        reference=lambda arrays, attrs: np.flip(arrays[0], attrs["axis"]),
        samples=_samples_reverse,
    )
)


def _infer_take(types: tuple[Type, ...], attrs: Attrs) -> Type:
    x, indices = tensors("take", types, 2)
    if not indices.dtype.is_integer:
        raise LoopwrightTypeError(
            f"take: indices are integers, not {indices.short}", hint="cast them to int64"
        )
    if attrs["mode"] not in ("clip", "wrap"):
        raise LoopwrightValueError(f"take: mode {attrs['mode']!r} is none of clip, wrap")
    if attrs["axis"] is None:
        size, shape = x.size, indices.shape
    else:
        axis = normalise_axis("take", attrs["axis"], x.rank, x)
        size, shape = x.shape[axis], (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    if size == 0 and product(shape) != 0:
        raise LoopwrightValueError(f"take: nothing to take from {x.short} by {indices.short}")
    return TensorType(shape, x.dtype)


def _compute_take(inputs: Sequence[Tensor], attrs: Attrs, out: TensorType) -> Map:
    x, indices = inputs
    rank = len(indices.shape)
    flat = attrs["axis"] is None
    axis = 0 if flat else attrs["axis"] % len(x.shape)
    size = product(x.shape) if flat else x.shape[axis]

    def element(*i: IndexLike) -> Expr:
        chosen = _in_range(cast(indices(*i[axis : axis + rank]), INT64), size, attrs["mode"])
        if not flat:
            return x(*i[:axis], chosen, *i[axis + rank :])
        return x(*_delinearised(chosen, x.shape))

    return Map(out.shape, out.dtype, element)


def _in_range(at: Expr, size: IntExpr, mode: str) -> Expr:
    """An index read from data, counted from the end if negative, made to lie in [0, size)."""
    if mode == "wrap":
        return op("floor_mod", at, index_expr(size))
    below = op("less", at, const(0, INT64))
    counted = select(below, op("add", at, index_expr(size)), at)
    low = op("maximum", counted, const(0, INT64))
    return op("minimum", low, index_expr(size - 1))


def _delinearised(flat: Expr, shape: Sequence[IntExpr]) -> list[IndexLike]:
    if any(size == 0 for size in shape):
        return [0] * len(shape)
    return delinearise(flat, shape)


def _reference_take(arrays: Sequence[Any], attrs: Attrs) -> Any:
    x, indices = arrays
    size = x.size if attrs["axis"] is None else x.shape[attrs["axis"]]
    at = indices.astype(np.int64)
    at = at % max(size, 1) if attrs["mode"] == "wrap" else np.where(at < 0, at + size, at)
    return np.asarray(np.take(x, at, axis=attrs["axis"], mode="clip"))


def _samples_take(rng: np.random.Generator) -> list[Sample]:
    return [
        Sample((floats(rng, (9, 5)), ints(rng, (4,), "int64", 0, 8)), {"axis": 0}),
        Sample((floats(rng, (3, 7)), ints(rng, (2, 3), "int32", -7, 6)), {"axis": 1}),
        Sample((floats(rng, (3, 7), "float64"), ints(rng, (5,), "int64", -30, 30)), {"axis": -1}),
        Sample((ints(rng, (4, 3)), ints(rng, (5,), "int8", -30, 30)), {"axis": 0, "mode": "wrap"}),
        Sample((ints(rng, (4, 3), "uint8"), ints(rng, (6,), "uint8", 0, 11)), {}),
        Sample((floats(rng, (4, 3)), ints(rng, (), "int64", 0, 3)), {"axis": 0}),
        Sample((truths(rng, (1,)), ints(rng, (3, 1), "int64", -2, 2)), {"axis": 0}),
        Sample((floats(rng, (3, 2)), ints(rng, (0,), "int64")), {"axis": 1}),
        Sample((floats(rng, (0, 2)), ints(rng, (3,), "int64", 0, 1)), {"axis": 1}),
    ]


register(
    Operator(
        name="take",
        doc="""The elements along an axis at the indices of another tensor.

``x`` of any shape and dtype, ``indices`` of integers of any shape; its axes take the place of
``axis``. With ``axis=None`` indices count in row-major order. A negative index counts from the
end; an index that is still out of range goes to the nearest element (``clip``) or round and round
(``wrap``). LoopwrightTypeError for indices that are no integers, LoopwrightValueError for an
unknown mode or an axis without elements.

    fn (%table: Tensor[(99, 8), float32], %words: Tensor[(7), int64]) -> Tensor[(7, 8), float32] {
      take(%table, %words, axis=0)
    }
""",
        params=("x", "indices"),
        attrs=(
            Attr("axis", "the axis, or None for all in row-major order", None),
            Attr("mode", "clip or wrap: what becomes of an index out of range", "clip"),
        ),
        pattern=Pattern.INJECTIVE,
        infer=_infer_take,
        compute=_compute_take,
        reference=_reference_take,
        samples=_samples_take,
    )
)


def _infer_one_hot(types: tuple[Type, ...], attrs: Attrs) -> Type:
    (indices,) = tensors("one_hot", types, 1)
    depth = attrs["depth"]
    if not indices.dtype.is_integer:
        raise LoopwrightTypeError(
            f"one_hot: indices are integers, not {indices.short}", hint="cast them to int64"
        )
    if not is_size(depth) or (isinstance(depth, int) and depth < 0):
        raise LoopwrightValueError(f"one_hot: depth {depth!r} is not a size")
    return TensorType((*indices.shape, depth), dtype_attr("one_hot", attrs["dtype"]))


def _compute_one_hot(inputs: Sequence[Tensor], attrs: Attrs, out: TensorType) -> Map:
    (indices,) = inputs

    def element(*i: IndexLike) -> Expr:
        return cast(op("equal", cast(indices(*i[:-1]), INT64), index_expr(i[-1])), out.dtype)

    return Map(out.shape, out.dtype, element)


def _reference_one_hot(arrays: Sequence[Any], attrs: Attrs) -> Any:
    (indices,) = arrays
    table = np.eye(attrs["depth"] + 1, attrs["depth"], dtype=attrs["dtype"])  # the last row is off
    known = (indices >= 0) & (indices < attrs["depth"])
    return table[np.where(known, indices, attrs["depth"]).astype(np.int64)]


def _samples_one_hot(rng: np.random.Generator) -> list[Sample]:
    return [
        Sample((ints(rng, (5,), "int64", 0, 3),), {"depth": 4, "dtype": "float32"}),
        Sample((ints(rng, (2, 3), "int32", -3, 9),), {"depth": 7, "dtype": "bool"}),
        Sample((ints(rng, (), "uint8", 0, 2),), {"depth": 3, "dtype": "int64"}),
        Sample((ints(rng, (0,), "int8"),), {"depth": 3}),
        Sample((ints(rng, (3,), "int16", 0, 1),), {"depth": 0, "dtype": "float64"}),
    ]


register(
    Operator(
        name="one_hot",
        doc="""1 at the index, 0 elsewhere, along a new last axis.

``indices`` of integers of any shape; the result has ``depth`` as its last size. An index outside
[0, depth), a negative one too, gives only 0. LoopwrightTypeError for indices that are no
integers.

    fn (%labels: Tensor[(64), int64]) -> Tensor[(64, 10), float32] {
      one_hot(%labels, depth=10)
    }
""",
        params=("indices",),
        attrs=(
            Attr("depth", "size of the new axis"),
            Attr("dtype", "name of the result's dtype", "float32"),
        ),
        pattern=Pattern.INJECTIVE,
        infer=_infer_one_hot,
        compute=_compute_one_hot,
        reference=_reference_one_hot,
        samples=_samples_one_hot,
    )
)


def _infer_triangle(name: str) -> Callable[[tuple[Type, ...], Attrs], Type]:
    def infer(types: tuple[Type, ...], attrs: Attrs) -> Type:
        x = same_type(name)(types, attrs)
        assert isinstance(x, TensorType)
        if x.rank < 2:
            raise LoopwrightTypeError(f"{name}: needs two axes or more, not {x.short}")
        if not isinstance(attrs["k"], int):
            raise LoopwrightValueError(f"{name}: k is an int, not {attrs['k']!r}")
        return x

    return infer


def _compute_triangle(lower: bool) -> Callable[[Sequence[Tensor], Attrs, TensorType], Map]:
    def compute(inputs: Sequence[Tensor], attrs: Attrs, out: TensorType) -> Map:
        (x,) = inputs

        def element(*i: IndexLike) -> Expr:
            row, column = i[-2], i[-1]
            border = index_add(row, attrs["k"] + 1 if lower else attrs["k"])
            below = index_less(column, border)
            value, zero = x(*i), const(0, out.dtype)
            return select(below, value, zero) if lower else select(below, zero, value)

        return Map(out.shape, out.dtype, element)

    return compute


def _samples_triangle(rng: np.random.Generator) -> list[Sample]:
    square = specials("float32")[:16].reshape(4, 4)
    return [
        Sample((floats(rng, (5, 7)),), {}),
        Sample((floats(rng, (2, 5, 3), "float64"),), {"k": -2}),
        Sample((ints(rng, (3, 5), "int16"),), {"k": 1}),
        Sample((truths(rng, (1, 1)),), {"k": 0}),
        Sample((square,), {"k": 9}),
        Sample((floats(rng, (0, 3)),), {}),
    ]


for _name, _text, _lower, _function in (
    ("tril", "on and below", True, np.tril),
    ("triu", "on and above", False, np.triu),
):
    register(
        Operator(
            name=_name,
            doc=f"""The elements {_text} the k-th diagonal of the last two axes, 0 elsewhere.

``x`` of rank 2 or more and any dtype; the result has its type. ``k=0`` is the main diagonal, 1
the one above it. LoopwrightTypeError for a smaller rank.

    fn (%x: Tensor[(3, 3), float32]) -> Tensor[(3, 3), float32] {{
      {_name}(%x, k=1)
    }}
""",
            params=("x",),
            attrs=(Attr("k", "which diagonal", 0),),
            pattern=Pattern.INJECTIVE,
            infer=_infer_triangle(_name),
            compute=_compute_triangle(_lower),
            reference=lambda arrays, attrs, f=_function: f(arrays[0], attrs["k"]),
            samples=_samples_triangle,
        )
    )
