"""Operators that choose elements by index: slices, reversal, take, one_hot, triangles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dim_proofs import prove
from ..dims import Dim, IntExpr, ceildiv, product, typical
from ..dtype import INT64
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.compose import F, limited
from ..graph.operator import Pattern, Sample
from ..graph.requirements import demand, is_data_size
from ..graph.type_rules import dtype_attr, is_size, normalise_axes, normalise_axis
from ..graph.types import TensorType
from ..loop.expr import Expr, IndexLike, cast, const, is_below, op, select
from ..loop.reindex import delinearise
from ..loop.tensor import Tensor, index_add, index_expr, index_less, index_mul, index_sub
from ..traits import Trait
from .declare import Element, PerAxis, attr, named_rule, primitive
from .sampling import floats, ints, sample, specials, truths

if TYPE_CHECKING:
    from ..graph.derivatives.rules import Transposition
    from ..graph.nodes import Atom
    from ..graph.vmap import Batch


def _sliced_size(begin: Any, end: Any, stride: int) -> IntExpr:
    size = ceildiv(end - begin, stride) if stride > 0 else ceildiv(begin - end, -stride)
    return size if isinstance(size, Dim) else max(0, size)


def _strided_slice_rule(x: TensorType, begin: Any, end: Any, strides: Any) -> TensorType:
    if not len(begin) == len(end) == len(strides) == x.rank:
        raise LoopwrightValueError(f"needs one begin, end and stride per axis of {x.short}")
    sizes: list[IntExpr] = []
    for axis, (first, last, stride) in enumerate(zip(begin, end, strides, strict=True)):
        if not (is_size(first) and is_size(last)) or not isinstance(stride, int) or stride == 0:
            raise LoopwrightValueError(
                f"{first}:{last}:{stride} on axis {axis} of {x.short} is not a slice"
            )
        size = _sliced_size(first, last, stride)
        furthest = first + (size - 1) * stride
        for at in (first, furthest) if isinstance(size, int) and size != 0 else ():
            message = f"{first}:{last}:{stride} leaves axis {axis} of {x.short}"
            if not (demand(0, "<=", at, message) and demand(at, "<", x.shape[axis], message)):
                raise LoopwrightValueError(message)
        sizes.append(size)
    return TensorType(tuple(sizes), x.dtype)


def _strided_slice_reference(x: Any, begin: Any, end: Any, strides: Any) -> Any:
    bounds = zip(begin, end, strides, strict=True)
    return x[tuple(slice(b, None if e < 0 else e, s) for b, e, s in bounds)]


def _strided_slice_samples(rng: np.random.Generator) -> list[Sample]:
    def drawn(x: Any, *slices: tuple[int, int, int]) -> Sample:
        begin, end, strides = zip(*slices, strict=True)
        return sample(x, begin=begin, end=end, strides=strides)

    return [
        drawn(floats(rng, (7, 9)), (1, 6, 1), (0, 9, 2)),
        drawn(floats(rng, (7, 9), "float64"), (6, -1, -1), (7, 1, -3)),
        drawn(ints(rng, (5, 3, 4), "int16"), (0, 5, 1), (1, 2, 1), (3, 4, 7)),
        drawn(ints(rng, (5,), "uint32"), (3, 3, 1)),
        drawn(truths(rng, (1,)), (0, 1, 1)),
        drawn(floats(rng, (0, 3)), (0, 0, 1), (2, 0, -1)),
    ]


def _transpose_slice(step: Transposition) -> None:
    """Puts the elements into zeros; a small part of a large array is added in place."""
    ct, total = step.ct, step.total()
    begin, strides = list(step.attrs["begin"]), list(step.attrs["strides"])
    backward = tuple(n for n, stride in enumerate(strides) if stride < 0)
    for n in backward:
        begin[n] = begin[n] + (ct.shape[n] - 1) * strides[n]
        strides[n] = -strides[n]
    if backward:
        ct = F.reverse(ct, axis=backward)
    slices = {"begin": tuple(begin), "strides": tuple(strides)}
    if total is not None and typical(
        product(ct.shape)
    ) * ct.builder.limits.slice_in_place <= typical(product(total.shape)):
        updated = F.index_update(total, ct, sizes=ct.shape, reduction="add", **slices)
        step.replace(0, updated)
    else:
        step.add(0, F.strided_set(step.zeros(), ct, **slices))


def _slice_rows(batch: Batch) -> Atom:
    begin, end, strides = (batch.attrs[name] for name in ("begin", "end", "strides"))
    attrs = {"begin": (0, *begin), "end": (batch.count, *end), "strides": (1, *strides)}
    return batch.emit("strided_slice", *batch.args, **attrs)


@primitive(
    "strided_slice",
    Pattern.INJECTIVE,
    batch=_slice_rows,
    traits=Trait.PICKS,
    transpose=_transpose_slice,
    rule=_strided_slice_rule,
    reference=_strided_slice_reference,
    samples=_strided_slice_samples,
)
def _strided_slice(
    _out: TensorType,
    x: Tensor,
    *,
    begin: PerAxis = attr("first index per axis"),
    _end: PerAxis = attr("end per axis, not included"),
    strides: PerAxis = attr("step per axis, not 0"),
) -> Element:
    """Every ``strides``-th element from ``begin`` up to, without, ``end`` on each axis.

    ``x`` of any shape and dtype. The bounds are those that ``slice.indices`` gives: not negative,
    except that a negative stride that reaches index 0 ends at -1. A symbolic number of elements is
    assumed to fit. LoopwrightValueError for a bound outside the axis or a stride of 0.

        fn (%x: Tensor[(5, 6), float32]) -> Tensor[(3, 3), float32] {
          strided_slice(%x, begin=[1, 0], end=[4, 6], strides=[1, 2])
        }
    """

    return lambda *i: x(
        *(
            index_add(index_mul(at, stride), first)
            for at, first, stride in zip(i, begin, strides, strict=True)
        )
    )


def _reverse_rule(x: TensorType, axis: Any) -> TensorType:
    normalise_axes(axis, x.rank, x)
    return x


def _reverse_rows(batch: Batch) -> Atom:
    return batch.emit("reverse", *batch.args, axis=batch.axes(batch.attrs["axis"]))


@primitive(
    "reverse",
    Pattern.INJECTIVE,
    batch=_reverse_rows,
    traits=Trait.REARRANGES,
    transpose=lambda step: step.add(0, F.reverse(step.ct, axis=step.attrs["axis"])),
    rule=_reverse_rule,
    reference=np.flip,
    samples=lambda rng: [
        sample(floats(rng, (3, 5)), axis=(1,)),
        sample(floats(rng, (3, 5, 2), "float64"), axis=(0, -1)),
        sample(ints(rng, (7,)), axis=None),
        sample(truths(rng, (1, 4)), axis=0),
        sample(floats(rng, (0, 3)), axis=0),
    ],
)
def _reverse(
    out: TensorType, x: Tensor, *, axis: Any = attr("axes to reverse, or None for all", None)
) -> Element:
    """The elements in reverse order along axes.

    ``x`` of any shape and dtype; ``axis=None`` is all axes. LoopwrightValueError for an axis out of
    range.

        fn (%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] {
          reverse(%x, axis=[1])
        }
    """
    axes = normalise_axes(axis, out.rank)

    return lambda *i: x(
        *(index_sub(out.shape[a] - 1, at) if a in axes else at for a, at in enumerate(i))
    )


def _in_range(at: Expr, size: IntExpr, mode: str) -> Expr:
    """An index from data, limited to [0, size); a negative one counts from the end."""
    if is_below(at, size):
        return at
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


def _take_rule(x: TensorType, indices: TensorType, axis: Any, mode: Any) -> TensorType:
    if not indices.dtype.is_integer:
        raise LoopwrightTypeError(
            f"indices are integers, not {indices.short}", hint="cast them to int64"
        )
    if mode not in ("clip", "wrap"):
        raise LoopwrightValueError(f"mode {mode!r} is none of clip, wrap")
    if axis is None:
        size, shape = x.size, indices.shape
    else:
        axis = normalise_axis(axis, x.rank, x)
        size, shape = x.shape[axis], (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    message = f"nothing to take from {x.short} by {indices.short}"
    # Where there are no indices, there may be no elements either: indices of the elements that a
    # mask chooses are as many as these at most.
    empty = (
        product(shape) == 0
        or size in shape
        or any(map(is_data_size, indices.shape))
        or (isinstance(size, Dim) and _empty_with(product(shape), size))
    )
    if not empty and not demand(1, "<=", size, message):
        raise LoopwrightValueError(message)
    return TensorType(shape, x.dtype)


def _empty_with(count: IntExpr, size: IntExpr) -> bool:
    """True if it is proved that there are no indices where there are no elements."""
    return prove(count, "==", 0, given=((size, "==", 0),)) is True


def _take_reference(x: Any, indices: Any, axis: Any, mode: Any) -> Any:
    size = x.size if axis is None else x.shape[axis]
    at = indices.astype(np.int64)
    at = at % max(size, 1) if mode == "wrap" else np.where(at < 0, at + size, at)
    return np.take(x, at, axis=axis, mode="clip")


def _transpose_take(step: Transposition) -> None:
    """Adds each element to where it was taken from."""
    x, indices, axis = step.x(0), step.x(1), step.attrs["axis"]
    if 0 in x.shape:
        return
    total = step.total() or step.zeros()
    if axis is None:
        total, axis = F.reshape(total, newshape=(product(x.shape),)), 0
    axis = axis % total.rank
    size = total.shape[axis]
    if step.attrs["mode"] == "wrap":
        at = F.floor_mod(F.cast(indices, dtype="int64"), size)
    else:
        at = limited(indices, size - 1, size)
    places = range(axis, axis + indices.rank)
    order = (*places, *(n for n in range(step.ct.rank) if n not in places))
    ct = F.transpose(step.ct, axes=order) if axis and indices.rank else step.ct
    total = F.index_update(total, ct, at, axes=(axis,), reduction="add")
    step.replace(0, F.reshape(total, newshape=x.shape) if x.shape != total.shape else total)


def _take_rows(batch: Batch) -> Atom | None:
    axis, mode = batch.attrs["axis"], batch.attrs["mode"]
    if axis is None or batch.batched[0] == batch.batched[1] or (batch.batched[1] and batch.rank(1)):
        return named_rule("taken")(batch)
    after = batch.axes(axis)[0]
    if batch.batched[0]:
        return batch.emit("take", *batch.args, axis=after, mode=mode)
    rows = batch.emit("take", *batch.args, axis=after - 1, mode=mode)
    order = (after - 1, *(n for n in range(batch.rank(0)) if n != after - 1))
    return batch.emit("transpose", rows, axes=order) if after > 1 else rows


@primitive(
    "take",
    Pattern.INJECTIVE,
    batch=_take_rows,
    traits=Trait.PICKS,
    transpose=_transpose_take,
    rule=_take_rule,
    reference=_take_reference,
    samples=lambda rng: [
        sample(floats(rng, (9, 5)), ints(rng, (4,), "int64", 0, 8), axis=0),
        sample(floats(rng, (3, 7)), ints(rng, (2, 3), "int32", -7, 6), axis=1),
        sample(floats(rng, (3, 7), "float64"), ints(rng, (5,), "int64", -30, 30), axis=-1),
        sample(ints(rng, (4, 3)), ints(rng, (5,), "int8", -30, 30), axis=0, mode="wrap"),
        sample(ints(rng, (4, 3), "uint8"), ints(rng, (6,), "uint8", 0, 11)),
        sample(floats(rng, (4, 3)), ints(rng, (), "int64", 0, 3), axis=0),
        sample(truths(rng, (1,)), ints(rng, (3, 1), "int64", -2, 2), axis=0),
        sample(floats(rng, (3, 2)), ints(rng, (0,), "int64"), axis=1),
        sample(floats(rng, (0, 2)), ints(rng, (3,), "int64", 0, 1), axis=1),
    ],
)
def _take(
    _out: TensorType,
    x: Tensor,
    indices: Tensor,
    *,
    axis: Any = attr("the axis, or None for all in row-major order", None),
    mode: Any = attr("clip or wrap, for an index out of range", "clip"),
) -> Element:
    """The elements along an axis at the indices of another tensor.

    ``x`` of any shape and dtype, ``indices`` of integers of any shape; its axes take the place of
    ``axis``. With ``axis=None`` indices count in row-major order. A negative index counts from the
    end; an index that is still out of range becomes the nearest one (``clip``) or is taken modulo
    the size (``wrap``). LoopwrightTypeError for indices that are no integers, LoopwrightValueError
    for an unknown mode or an axis without elements.

        fn (%table: Tensor[(9, 8), float32], %at: Tensor[(7), int64]) -> Tensor[(7, 8), float32] {
          take(%table, %at, axis=0)
        }
    """
    first = 0 if axis is None else axis % len(x.shape)
    last = first + len(indices.shape)
    size = product(x.shape) if axis is None else x.shape[first]

    def element(*i: IndexLike) -> Expr:
        chosen = _in_range(cast(indices(*i[first:last]), INT64), size, mode)
        if axis is not None:
            return x(*i[:first], chosen, *i[last:])
        return x(*_delinearised(chosen, x.shape))

    return element


def _one_hot_rule(indices: TensorType, depth: Any, dtype: Any) -> TensorType:
    if not indices.dtype.is_integer:
        raise LoopwrightTypeError(
            f"indices are integers, not {indices.short}", hint="cast them to int64"
        )
    if not is_size(depth) or (isinstance(depth, int) and depth < 0):
        raise LoopwrightValueError(f"depth {depth!r} is not a size")
    return TensorType((*indices.shape, depth), dtype_attr(dtype))


def _one_hot_reference(indices: Any, depth: Any, dtype: Any) -> Any:
    table = np.eye(depth + 1, depth, dtype=dtype)  # the last row is off
    inside = (indices >= 0) & (indices < depth)
    return table[np.where(inside, indices, depth).astype(np.int64)]


@primitive(
    "one_hot",
    Pattern.INJECTIVE,
    rule=_one_hot_rule,
    reference=_one_hot_reference,
    samples=lambda rng: [
        sample(ints(rng, (5,), "int64", 0, 3), depth=4, dtype="float32"),
        sample(ints(rng, (2, 3), "int32", -3, 9), depth=7, dtype="bool"),
        sample(ints(rng, (), "uint8", 0, 2), depth=3, dtype="int64"),
        sample(ints(rng, (0,), "int8"), depth=3),
        sample(ints(rng, (3,), "int16", 0, 1), depth=0, dtype="float64"),
    ],
)
def _one_hot(
    out: TensorType,
    indices: Tensor,
    *,
    _depth: Any = attr("size of the new axis"),
    _dtype: Any = attr("name of the result's dtype", "float32"),
) -> Element:
    """1 at the index, 0 elsewhere, along a new last axis.

    ``indices`` of integers of any shape; the result has ``depth`` as its last size. An index
    outside [0, depth), a negative one too, gives only 0. LoopwrightTypeError for indices that are
    no integers.

        fn (%labels: Tensor[(64), int64]) -> Tensor[(64, 10), float32] {
          one_hot(%labels, depth=10)
        }
    """

    return lambda *i: cast(op("equal", cast(indices(*i[:-1]), INT64), index_expr(i[-1])), out.dtype)


def _triangle_rule(x: TensorType, k: Any) -> TensorType:
    if x.rank < 2:
        raise LoopwrightTypeError(f"needs two axes or more, not {x.short}")
    if not isinstance(k, int):
        raise LoopwrightValueError(f"k is an int, not {k!r}")
    return x


def _declare_triangle(name: str, side: str, lower: bool, reference: Callable[..., Any]) -> None:
    doc = f"""The elements on and {side} the k-th diagonal of the last two axes, 0 elsewhere.

``x`` of rank 2 or more and any dtype; the result has its type. ``k=0`` is the main diagonal, 1
the one above it. LoopwrightTypeError for a smaller rank.

    fn (%x: Tensor[(3, 3), float32]) -> Tensor[(3, 3), float32] {{
      {name}(%x, k=1)
    }}
"""

    @primitive(
        name,
        Pattern.INJECTIVE,
        traits=Trait.MOVES,
        linear=slice(1),
        transpose=lambda step: step.add(0, getattr(F, name)(step.ct, k=step.attrs["k"])),
        rule=_triangle_rule,
        reference=reference,
        samples=lambda rng: [
            sample(floats(rng, (5, 7))),
            sample(floats(rng, (2, 5, 3), "float64"), k=-2),
            sample(ints(rng, (3, 5), "int16"), k=1),
            sample(truths(rng, (1, 1)), k=0),
            sample(specials("float32")[:16].reshape(4, 4), k=9),
            sample(floats(rng, (0, 3))),
        ],
        doc=doc,
    )
    def _triangle(out: TensorType, x: Tensor, *, k: Any = attr("which diagonal", 0)) -> Element:
        def element(*i: IndexLike) -> Expr:
            below = index_less(i[-1], index_add(i[-2], k + 1 if lower else k))
            value, zero = x(*i), const(0, out.dtype)
            return select(below, value, zero) if lower else select(below, zero, value)

        return element


_declare_triangle("tril", "below", True, np.tril)
_declare_triangle("triu", "above", False, np.triu)
