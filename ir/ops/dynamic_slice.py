"""``dynamic_slice``: the elements of a tensor from a start on that data chooses."""

from __future__ import annotations

from typing import Any

from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.operator import Pattern
from ..graph.types import TensorType
from ..loop.expr import Expr, IndexLike, index, op
from ..loop.tensor import Tensor, index_add, index_mul
from .declare import Element, attr, primitive
from .sampling import floats, ints, sample, truths
from .scatter import counted_from_end

__all__: list[str] = []


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
        if size < 0 or stride < 1 or (isinstance(whole, int) and (size - 1) * stride >= whole):
            raise LoopwrightValueError(f"{size} elements by {stride} of axis {axis} of {x.short}")
        shape[axis] = size
    return TensorType(tuple(shape), x.dtype)


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
    out: TensorType,
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
        last = x.shape[axis] - (size - 1) * stride - 1 if size else 0
        counted = op("maximum", counted_from_end(start(), x.shape[axis]), index(0))
        first[axis] = op("minimum", counted, index(last))

    def element(*i: IndexLike) -> Expr:
        at = list(i)
        for axis, stride in zip(axes, strides, strict=True):
            at[axis] = index_add(first[axis], index_mul(i[axis], stride))
        return x(*at)

    return element
