"""``strided_set``: a tensor with the elements of a slice replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dims import IntExpr, ceildiv
from ..dtype import BOOL
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.operator import Attr, Operator, Pattern, Sample, register
from ..graph.types import TensorType, Type
from ..loop.expr import Expr, IndexLike, const, select
from ..loop.tensor import Map, Tensor, index_div, index_less, index_mod, index_sub, index_within
from .pad import both
from .rules import Attrs, is_size, same_dtype, tensors
from .sampling import floats, ints, truths

__all__: list[str] = []


def _infer_strided_set(types: tuple[Type, ...], attrs: Attrs) -> Type:
    x, value = tensors("strided_set", types, 2)
    same_dtype("strided_set", (x, value))
    begin, strides = attrs["begin"], attrs["strides"]
    if not len(begin) == len(strides) == x.rank == value.rank:
        raise LoopwrightValueError(
            f"strided_set: needs one begin, one stride and one size of {value.short} per axis "
            f"of {x.short}"
        )
    for axis, (first, stride, size) in enumerate(zip(begin, strides, value.shape, strict=True)):
        if not is_size(first) or not isinstance(stride, int) or stride < 1:
            raise LoopwrightValueError(
                f"strided_set: begin {first} and stride {stride} on axis {axis} are no slice"
            )
        beyond = first + (size - 1) * stride - x.shape[axis]
        low = isinstance(first, int) and first < 0
        if size != 0 and (low or (isinstance(beyond, int) and beyond >= 0)):
            raise LoopwrightTypeError(
                f"strided_set: {value.short} from {first} by {stride} leaves axis {axis} "
                f"of {x.short}"
            )
    return x


def _compute_strided_set(inputs: Sequence[Tensor], attrs: Attrs, out: TensorType) -> Map:
    x, value = inputs
    axes = [*zip(attrs["begin"], attrs["strides"], value.shape, x.shape, strict=True)]

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

    return Map(out.shape, out.dtype, element)


def _end(first: IntExpr, stride: int, size: IntExpr) -> IntExpr:
    return first + (size - 1) * stride + 1 if size != 0 else first


def _reference_strided_set(arrays: Sequence[Any], attrs: Attrs) -> Any:
    x, value = arrays
    result = np.array(x)
    key = tuple(
        slice(first, _end(first, stride, size), stride)
        for first, stride, size in zip(attrs["begin"], attrs["strides"], value.shape, strict=True)
    )
    result[key] = value
    return result


def _samples_strided_set(rng: np.random.Generator) -> list[Sample]:
    def sample(x: Any, value: Any, *slices: tuple[int, int]) -> Sample:
        begin, strides = zip(*slices, strict=True)
        return Sample((x, value), {"begin": begin, "strides": strides})

    def halved(size: int, stride: int) -> int:
        whole = ceildiv(size, stride)
        assert isinstance(whole, int)
        return whole

    return [
        sample(floats(rng, (7, 9)), floats(rng, (2, 9)), (3, 1), (0, 1)),
        sample(floats(rng, (7, 9)), floats(rng, (7, halved(9, 2))), (0, 1), (0, 2)),
        sample(floats(rng, (7, 9), "float64"), floats(rng, (3, 2), "float64"), (1, 2), (4, 3)),
        sample(ints(rng, (5, 3, 4), "int8"), ints(rng, (1, 3, 1), "int8"), (4, 7), (0, 1), (2, 1)),
        sample(ints(rng, (6,), "uint8"), ints(rng, (6,), "uint8"), (0, 1)),
        sample(truths(rng, (4,)), truths(rng, (1,)), (2, 1)),
        sample(floats(rng, (4, 3)), floats(rng, (0, 3)), (2, 1), (0, 1)),
        Sample((floats(rng, ()), floats(rng, ())), {"begin": (), "strides": ()}),
    ]


register(
    Operator(
        name="strided_set",
        doc="""``x`` with its elements at a slice replaced by those of ``value``.

``x`` of any shape and dtype, ``value`` of its dtype and rank: on each axis its elements go to
``begin``, ``begin + strides``, and so on. The result has the type of ``x``. LoopwrightTypeError
where dtypes differ or the slice leaves ``x``, LoopwrightValueError for a stride below 1.

    fn (%x: Tensor[(5, 6), float32], %v: Tensor[(2, 6), float32]) -> Tensor[(5, 6), float32] {
      strided_set(%x, %v, begin=[1, 0], strides=[1, 1])
    }
""",
        params=("x", "value"),
        attrs=(
            Attr("begin", "first index per axis"),
            Attr("strides", "step per axis, 1 or more"),
        ),
        pattern=Pattern.INJECTIVE,
        infer=_infer_strided_set,
        compute=_compute_strided_set,
        reference=_reference_strided_set,
        samples=_samples_strided_set,
    )
)
