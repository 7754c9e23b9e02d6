"""Reads at indices from data: gathers of several axes at a time, and slices that begin at an
operand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..dim_proofs import prove
from ..dims import as_int
from ..dtype import INT64
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.compose import F, Value, limited, scalar
from ..graph.operator import Pattern
from ..graph.requirements import demand
from ..graph.type_rules import require_shape
from ..graph.types import TensorType
from ..loop.expr import Expr, IndexLike, const, index, op
from ..loop.tensor import Tensor, index_add, index_mul
from ..traits import Trait
from .declare import Element, attr, primitive
from .sampling import floats, ints, sample, truths
from .scatter import counted_from_end

if TYPE_CHECKING:
    from ..graph.derivatives.rules import Transposition


def _inside(place: Expr, size: Any) -> Expr:
    """Returns an index from data within ``size``: counted from the end, or the nearest place."""
    counted = op("maximum", counted_from_end(place, size), const(0, INT64))
    return op("minimum", counted, index(size - 1))


def _gather_rule(x: TensorType, indices: TensorType, batch_dims: Any) -> TensorType:
    if not indices.dtype.is_integer:
        raise LoopwrightTypeError(f"indices are integers, not {indices.short}")
    if not isinstance(batch_dims, int) or not 0 <= batch_dims < max(1, indices.rank):
        raise LoopwrightValueError(f"batch_dims {batch_dims} of {indices.short}")
    depth = indices.shape[-1] if indices.rank else None
    if not isinstance(depth, int) or depth == 0 or batch_dims + depth > x.rank:
        raise LoopwrightTypeError(f"the last axis of {indices.short} is not a place in {x.short}")
    error = LoopwrightTypeError(f"{indices.short} and {x.short} differ in their batch axes")
    require_shape(indices.shape[:batch_dims], x.shape[:batch_dims], error)
    result = (*indices.shape[:-1], *x.shape[batch_dims + depth :])
    message = f"nothing to gather from {x.short} by {indices.short}"
    taken = x.shape[batch_dims : batch_dims + depth] if 0 not in result else ()
    if not all(demand(1, "<=", size, message) for size in taken):
        raise LoopwrightValueError(message)
    return TensorType(result, x.dtype)


def _transpose_gather(step: Transposition) -> None:
    x, indices, batch = step.x(0), step.x(1), step.attrs["batch_dims"]
    if 0 in x.shape:
        return
    depth, places = as_int(indices.shape[-1]), indices.shape[:-1]
    at: list[Value] = [step.ct.iota(places, n) for n in range(batch)]
    for n in range(depth):
        each = F.take(indices, Value(step.builder, scalar(step.builder, n, INT64)), axis=-1)
        size = x.shape[batch + n]
        at.append(limited(each, size - 1, size))
    axes = tuple(range(batch + depth))
    total = step.total() or step.zeros()
    step.replace(0, F.index_update(total, step.ct, *at, axes=axes, reduction="add"))


def _gather_reference(x: Any, indices: Any, batch_dims: int) -> Any:
    at = np.moveaxis(indices.astype(np.int64), -1, 0)
    batch = np.indices(indices.shape[:batch_dims], sparse=True)
    place = [b.reshape(*b.shape, *[1] * (indices.ndim - 1 - batch_dims)) for b in batch]
    for each, size in zip(at, x.shape[batch_dims:], strict=False):
        place.append(np.clip(np.where(each < 0, each + size, each), 0, max(0, size - 1)))
    return x[tuple(place)]


@primitive(
    "nn.gather_nd",
    Pattern.INJECTIVE,
    traits=Trait.PICKS,
    transpose=_transpose_gather,
    rule=_gather_rule,
    reference=_gather_reference,
    samples=lambda rng: [
        sample(floats(rng, (4, 5, 6)), ints(rng, (2, 3, 2), "int64", -6, 6)),
        sample(floats(rng, (4, 5)), ints(rng, (7, 2), "int32", 0, 3)),
        sample(ints(rng, (3, 4, 5)), ints(rng, (3, 2, 1), "int64", 0, 3), batch_dims=1),
        sample(truths(rng, (3, 4)), ints(rng, (3, 1), "uint8", 0, 3), batch_dims=1),
        sample(floats(rng, (3, 4)), ints(rng, (0, 1), "int64", 0, 3)),
    ],
)
def _gather_nd(
    _out: TensorType,
    x: Tensor,
    indices: Tensor,
    *,
    batch_dims: int = attr("leading axes that both operands share", 0),
) -> Element:
    """The slices ``x[b, indices[b, m, 0], indices[b, m, 1], ...]``.

    ``x`` of any dtype, integer ``indices`` whose last axis holds one index for each of the axes
    behind the shared ones. Negative indices count from the end; others out of range read the
    nearest place.

        fn (%x: Tensor[(4, 5, 6), int8], %indices: Tensor[(7, 2), int64]) -> Tensor[(7, 6), int8] {
          nn.gather_nd(%x, %indices)
        }
    """
    depth, rank = as_int(indices.shape[-1]), len(indices.shape)

    def element(*i: IndexLike) -> Expr:
        chosen = [
            _inside(indices(*i[: rank - 1], n), x.shape[batch_dims + n]) for n in range(depth)
        ]
        return x(*i[:batch_dims], *chosen, *i[rank - 1 :])

    return element


def _slice_rule(
    x: TensorType, *starts: TensorType, axes: Any, sizes: Any, strides: Any
) -> TensorType:
    for start in starts:
        if start.rank or not start.dtype.is_integer:
            raise LoopwrightTypeError(f"a start is an integer scalar, not {start.short}")
    if not all(isinstance(a, int) and 0 <= a < x.rank for a in axes) or len(set(axes)) < len(axes):
        raise LoopwrightValueError(f"axes {axes} of {x.short}")
    if not len(starts) == len(axes) == len(sizes) == len(strides):
        raise LoopwrightTypeError("needs a start, a size and a stride for each of the axes")
    shape = list(x.shape)
    for axis, size, stride in zip(axes, sizes, strides, strict=True):
        whole = shape[axis]
        fits = stride >= 1 and prove(size, "<", 0) is not True
        if not fits or prove((size - 1) * stride, ">=", whole) is True:
            raise LoopwrightValueError(f"{size} elements by {stride} of axis {axis} of {x.short}")
        shape[axis] = size
    return TensorType(tuple(shape), x.dtype)


def _transpose_dynamic_slice(step: Transposition) -> None:
    """Adds the slice to where it begins, which is limited as in reading."""
    attrs, x = step.attrs, step.x(0)
    starts: list[Value] = []
    for n, (axis, size, stride) in enumerate(
        zip(attrs["axes"], attrs["sizes"], attrs["strides"], strict=True), 1
    ):
        last = x.shape[axis] - (size - 1) * stride - 1 if size != 0 else 0
        starts.append(limited(step.x(n), last, x.shape[axis]))
    strides = dict(zip(attrs["axes"], attrs["strides"], strict=True))
    where = {
        "starts": attrs["axes"],
        "begin": (0,) * x.rank,
        "strides": tuple(strides.get(n, 1) for n in range(x.rank)),
        "sizes": step.ct.shape,
    }
    total = step.total() or step.zeros()
    step.replace(0, F.index_update(total, step.ct, *starts, reduction="add", **where))


def _slice_reference(x: Any, *starts: Any, axes: Any, sizes: Any, strides: Any) -> Any:
    key: list[Any] = [slice(None)] * x.ndim
    for axis, start, size, stride in zip(axes, starts, sizes, strides, strict=True):
        first = int(start) + x.shape[axis] if start < 0 else int(start)
        first = max(0, min(first, x.shape[axis] - (size - 1) * stride - 1))
        key[axis] = slice(first, first + (size - 1) * stride + 1, stride) if size else slice(0)
    return x[tuple(key)]


@primitive(
    "dynamic_slice",
    Pattern.INJECTIVE,
    batch="sliced",
    traits=Trait.PICKS,
    transpose=_transpose_dynamic_slice,
    rule=_slice_rule,
    reference=_slice_reference,
    samples=lambda rng: [
        sample(
            floats(rng, (9, 4)), ints(rng, (), "int64", -5, 5), axes=(0,), sizes=(3,), strides=(2,)
        ),
        sample(
            floats(rng, (5, 50)),
            ints(rng, (), "int32", 0, 99),
            ints(rng, (), "int64", -99, 0),
            axes=(1, 0),
            sizes=(33, 1),
            strides=(1, 1),
        ),
        sample(
            truths(rng, (7,)), ints(rng, (), "uint8", 0, 9), axes=(0,), sizes=(0,), strides=(1,)
        ),
    ],
)
def _dynamic_slice(
    _out: TensorType,
    x: Tensor,
    *starts: Tensor,
    axes: Any = attr("the axes that are cut"),
    sizes: Any = attr("number of elements on each of them"),
    strides: Any = attr("step on each of them, 1 or more"),
) -> Element:
    """The elements from a start on, which is a scalar operand, along some axes.

    ``x`` of any dtype, integer ``starts``. A negative start counts from the end; one from which the
    slice does not fit becomes the nearest from which it does. LoopwrightTypeError for other
    starts, LoopwrightValueError for sizes that exceed ``x``.

        fn (%x: Tensor[(9, 4), float32], %i: Tensor[(), int64]) -> Tensor[(3, 4), float32] {
          dynamic_slice(%x, %i, axes=[0], sizes=[3], strides=[1])
        }
    """
    first: dict[int, IndexLike] = {}
    for axis, start, size, stride in zip(axes, starts, sizes, strides, strict=True):
        last = x.shape[axis] - (size - 1) * stride - 1 if size != 0 else 0
        counted = op("maximum", counted_from_end(start(), x.shape[axis]), index(0))
        first[axis] = op("minimum", counted, index(last))

    def element(*i: IndexLike) -> Expr:
        at = list(i)
        for axis, stride in zip(axes, strides, strict=True):
            at[axis] = index_add(first[axis], index_mul(i[axis], stride))
        return x(*at)

    return element
