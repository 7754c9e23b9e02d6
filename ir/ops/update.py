"""``strided_set``: a tensor with the elements of a slice replaced."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dims import IntExpr
from ..dtype import BOOL
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.operator import Pattern, Sample
from ..graph.requirements import demand
from ..graph.types import TensorType
from ..loop.expr import Expr, IndexLike, const, select
from ..loop.tensor import Tensor, index_div, index_less, index_mod, index_sub, index_within
from .declare import Element, PerAxis, attr, primitive
from .pad import both
from .rules import is_size, same_dtype
from .sampling import floats, ints, sample, truths


def _end(first: IntExpr, stride: int, size: IntExpr) -> IntExpr:
    return first + (size - 1) * stride + 1 if size != 0 else first


def _strided_set_rule(x: TensorType, value: TensorType, begin: Any, strides: Any) -> TensorType:
    same_dtype((x, value))
    if not len(begin) == len(strides) == x.rank == value.rank:
        raise LoopwrightValueError(
            f"needs one begin, one stride and one size of {value.short} per axis of {x.short}"
        )
    for axis, (first, stride, size) in enumerate(zip(begin, strides, value.shape, strict=True)):
        if not is_size(first) or not isinstance(stride, int) or stride < 1:
            raise LoopwrightValueError(
                f"begin {first} and stride {stride} on axis {axis} are no slice"
            )
        message = f"{value.short} from {first} by {stride} leaves axis {axis} of {x.short}"
        last = first + (size - 1) * stride
        fits = size == 0 or demand(0, "<=", first, message)
        if not fits or (size != 0 and not demand(last, "<", x.shape[axis], message)):
            raise LoopwrightTypeError(message)
    return x


def _strided_set_reference(x: Any, value: Any, begin: Any, strides: Any) -> Any:
    result = np.array(x)
    key = tuple(
        slice(first, _end(first, stride, size), stride)
        for first, stride, size in zip(begin, strides, value.shape, strict=True)
    )
    result[key] = value
    return result


def _strided_set_samples(rng: np.random.Generator) -> list[Sample]:
    def drawn(x: Any, value: Any, *slices: tuple[int, int]) -> Sample:
        begin, strides = zip(*slices, strict=True)
        return sample(x, value, begin=begin, strides=strides)

    return [
        drawn(floats(rng, (7, 9)), floats(rng, (2, 9)), (3, 1), (0, 1)),
        drawn(floats(rng, (7, 9)), floats(rng, (7, 5)), (0, 1), (0, 2)),
        drawn(floats(rng, (7, 9), "float64"), floats(rng, (3, 2), "float64"), (1, 2), (4, 3)),
        drawn(ints(rng, (5, 3, 4), "int8"), ints(rng, (1, 3, 1), "int8"), (4, 7), (0, 1), (2, 1)),
        drawn(ints(rng, (6,), "uint8"), ints(rng, (6,), "uint8"), (0, 1)),
        drawn(truths(rng, (4,)), truths(rng, (1,)), (2, 1)),
        drawn(floats(rng, (4, 3)), floats(rng, (0, 3)), (2, 1), (0, 1)),
        sample(floats(rng, ()), floats(rng, ()), begin=(), strides=()),
    ]


@primitive(
    "strided_set",
    Pattern.INJECTIVE,
    rule=_strided_set_rule,
    reference=_strided_set_reference,
    samples=_strided_set_samples,
)
def _strided_set(
    _out: TensorType,
    x: Tensor,
    value: Tensor,
    *,
    begin: PerAxis = attr("first index per axis"),
    strides: PerAxis = attr("step per axis, 1 or more"),
) -> Element:
    """``x`` with its elements at a slice replaced by those of ``value``.

    ``x`` of any shape and dtype, ``value`` of its dtype and rank: on each axis its elements go to
    ``begin``, ``begin + strides``, and so on. The result has the type of ``x``. LoopwrightTypeError
    where dtypes differ or the slice leaves ``x``, LoopwrightValueError for a stride below 1.

        fn (%x: Tensor[(5, 6), float32], %v: Tensor[(2, 6), float32]) -> Tensor[(5, 6), float32] {
          strided_set(%x, %v, begin=[1, 0], strides=[1, 1])
        }
    """
    axes = [*zip(begin, strides, value.shape, x.shape, strict=True)]

    def element(*i: IndexLike) -> Expr:
        inside: Expr = const(True, BOOL)
        source: list[IndexLike] = []
        for at, (first, stride, size, whole) in zip(i, axes, strict=True):
            offset = index_sub(at, first)
            if stride == 1 or size == 1:
                if size != whole:
                    inside = both(inside, index_within(offset, 0, size))
            else:
                inside = both(inside, index_within(offset, 0, (size - 1) * stride + 1))
                inside = both(inside, index_less(index_mod(offset, stride), 1))
                offset = index_div(offset, stride)
            source.append(offset)
        if any(size == 0 for size in value.shape):
            return x(*i)
        return select(inside, value(*source), x(*i))

    return element
