"""Reductions over axes: sum, prod, max, min, any, all, mean, variance, std.

Attributes of all: ``axis`` (an int, a tuple, or None for all axes; negative ones count from the
end) and ``keepdims`` (reduced axes stay with size 1).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dims import IntExpr, int_max, product
from ..dtype import DType, dtype_of
from ..errors import LoopwrightValueError
from ..graph.compose import F, Value, broadcast
from ..graph.operator import Pattern, Sample
from ..graph.requirements import demand
from ..graph.type_rules import normalise_axes
from ..graph.types import TensorType
from ..loop.expr import Expr, IndexLike
from ..loop.scalar import COMBINERS, SCALAR_OPS
from ..loop.tensor import Tensor
from ..traits import Trait
from .declare import (
    DTYPE_WORDS,
    Element,
    Reduce,
    attr,
    composite,
    in_float64,
    operator_doc,
    primitive,
)
from .sampling import SPECIAL_FLOATS, extremes, floats, ints, sample, truths

if TYPE_CHECKING:
    from ..graph.derivatives.rules import Step, Transposition

_AXIS = attr("axes to reduce: int, tuple of ints, or None for all", None)
KEEPDIMS = attr("True if reduced axes stay with size 1", False)


def reduced_shape(shape: Sequence[IntExpr], axes: Sequence[int], keepdims: bool) -> list[IntExpr]:
    """Returns the shape after ``axes`` are reduced."""
    if keepdims:
        return [1 if axis in axes else size for axis, size in enumerate(shape)]
    return [size for axis, size in enumerate(shape) if axis not in axes]


def reduction_rule(
    dtype: DType | None = None, *, needs_element: bool = False, to_part: bool = False
) -> Callable[..., TensorType]:
    """Returns the type rule of a reduction; the result has ``dtype``, or that of the operand.

    ``to_part``: the result of complex numbers is real. ``needs_element``: LoopwrightValueError
    where an axis without elements is reduced.
    """

    def rule(x: TensorType, axis: Any, keepdims: bool, **_: Any) -> TensorType:
        axes = normalise_axes(axis, x.rank, x)
        shape = tuple(reduced_shape(x.shape, axes, keepdims))
        message = f"{x.short} has no element along axis {axis}"
        for a in axes if needs_element else ():
            if not demand(1, "<=", x.shape[a], message):
                raise LoopwrightValueError(message)
        return TensorType(shape, dtype or (x.dtype.part if to_part else x.dtype))

    return rule


def _reference(function: Any) -> Callable[..., Any]:
    def reference(x: Any, **attrs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of no elements, NumPy warns besides giving nan
            return function(x, **attrs)

    return in_float64(reference)


def _wrapping(function: Any) -> Any:
    """NumPy's sum or product in the operand's own dtype (integers wrap around)."""

    def reduce(x: Any, **keywords: Any) -> Any:
        return function(x, dtype=x.dtype, **keywords)

    return reduce


def _extreme(name: str) -> Any:
    """NumPy's max or min; of no elements, the identity, as compiled code gives."""

    def reduce(x: Any, **keywords: Any) -> Any:
        first = COMBINERS[name].identity(dtype_of(x.dtype))
        return np.asarray(getattr(np, name)(x, initial=first, **keywords), x.dtype)

    return reduce


def _samples(rng: np.random.Generator, kinds: str, empty: str | None = None) -> list[Sample]:
    """Samples of dtypes of ``kinds``, and some without elements of the dtype ``empty``."""
    samples: list[Sample] = []
    if "f" in kinds:
        edge = np.array(SPECIAL_FLOATS, "float32")
        samples += [
            sample(floats(rng, (3, 5, 7)), axis=(1,)),
            sample(floats(rng, (4, 37), "float64"), axis=-1, keepdims=True),
            sample(floats(rng, (2, 3, 5)), axis=(0, -1)),
            sample(floats(rng, (6, 9))),
            sample(floats(rng, (33, 2)), axis=(0,), keepdims=True),
            sample(np.stack([np.roll(edge, k)[:4] for k in range(10)]), axis=1),
            sample(floats(rng, (3, 1)), axis=1),
            sample(floats(rng, (2, 3)), axis=()),
            sample(floats(rng, ()), keepdims=True),
            sample(floats(rng, (0, 3)), axis=1),
        ]
    if "i" in kinds:
        samples += [
            sample(np.stack([extremes("int8")] * 3), axis=0),
            sample(extremes("uint8")),
            sample(ints(rng, (5, 6), "int64"), axis=(1,)),
            sample(ints(rng, (2, 9), "int32"), axis=0, keepdims=True),
        ]
    if "b" in kinds:
        samples += [
            sample(truths(rng, (7, 3)), axis=1),
            sample(truths(rng, (2, 3))),
            sample(np.ones((3, 2), bool), axis=(0,), keepdims=True),
        ]
    if empty:
        samples.append(sample(np.zeros((0, 3), empty), axis=0))
        samples.append(sample(np.zeros((2, 0), empty), axis=None, keepdims=True))
    return samples


def _doc(name: str, text: str, kinds: str = "f", error: str = "") -> str:
    example = "bool" if kinds == "b" else "float32"
    return operator_doc(
        text,
        f"""``x`` of any shape, {DTYPE_WORDS[kinds]}; the result has the same dtype and the shape
        without the reduced axes, or with size 1 there if ``keepdims``. LoopwrightTypeError for
        another dtype, LoopwrightValueError for an axis out of range{error}.""",
        f"fn (%x: Tensor[(2, 3, 4), {example}]) -> Tensor[(2, 4), {example}]",
        f"{name}(%x, axis=[1])",
    )


def _transpose_sum(step: Transposition) -> None:
    x = step.x(0)
    axes = normalise_axes(step.attrs["axis"], x.rank)
    ct = F.reshape(step.ct, newshape=tuple(reduced_shape(x.shape, axes, True)))
    step.add(0, broadcast(ct, x.shape))


def _extreme_tangent(step: Step) -> Value:
    """The mean of the tangents of the elements that are the greatest, or the least."""
    x, tangent = step.x(0), step.moved()
    axes = normalise_axes(step.attrs["axis"], x.rank)
    greatest = F.reshape(step.r, newshape=tuple(reduced_shape(x.shape, axes, True)))
    chosen = F.cast(F.equal(x, greatest), dtype=x.dtype.name)
    shares = chosen / F.sum(chosen, axis=axes, keepdims=True)
    return F.sum(tangent * shares, axis=axes, keepdims=step.attrs["keepdims"])


def _product_tangent(step: Step) -> Value:
    """Each tangent times the product of the other elements, which may be 0."""
    x, tangent = step.x(0), step.moved()
    axes = normalise_axes(step.attrs["axis"], x.rank)
    kept = [n for n in range(x.rank) if n not in axes]
    line = (*(x.shape[n] for n in kept), product(x.shape[n] for n in axes))

    def in_line(value: Value) -> Value:
        return F.reshape(F.transpose(value, axes=(*kept, *axes)), newshape=line)

    elements = in_line(x)
    before, behind = (
        F.cumprod(elements, axis=len(kept), exclusive=True, reverse=side) for side in (False, True)
    )
    total = F.sum(in_line(tangent) * (before * behind), axis=len(kept))
    return F.reshape(total, newshape=step.r.shape)


_TANGENTS = {"max": _extreme_tangent, "min": _extreme_tangent, "prod": _product_tangent}


def _reduction(
    name: str, text: str, kinds: str, reference: Any = None, *, empty: str | None = None
) -> None:
    """Declares a primitive reduction; ``empty`` is the dtype of samples without elements."""
    error = "" if empty else " or a result without any element to take"

    @primitive(
        name,
        Pattern.REDUCTION,
        traits=SCALAR_OPS[COMBINERS[name].op].traits & Trait.LINEAR,
        dtypes=kinds,
        rule=reduction_rule(needs_element=empty is None),
        reference=_reference(reference) if reference else _extreme(name),
        tangent=_TANGENTS.get(name),
        transpose=_transpose_sum if name == "sum" else None,
        samples=lambda rng: _samples(rng, kinds, empty),
        doc=_doc(name, text, kinds, error),
    )
    def _reduce(
        out: TensorType, x: Tensor, *, axis: Any = _AXIS, keepdims: bool = KEEPDIMS
    ) -> Element | Reduce:
        rank = len(x.shape)
        axes = normalise_axes(axis, rank)
        kept = [axis for axis in range(rank) if axis not in axes]

        def element(*i: IndexLike) -> Expr:
            outer = [i[axis] for axis in kept] if keepdims else i[: len(kept)]
            source: dict[int, IndexLike] = dict(zip(kept, outer, strict=True))
            source.update(zip(axes, i[len(out.shape) :], strict=True))
            return x(*(source[axis] for axis in range(rank)))

        return Reduce(name, tuple(x.shape[a] for a in axes), element) if axes else element


_SUM = "Sum of the elements along axes; of none, 0. Integers wrap around."
_PROD = "Product of the elements along axes; of none, 1. Integers wrap around."
_MAX = "Greatest element along axes; nan if there is one."
_MIN = "Least element along axes; nan if there is one."
_ANY = "True if at least one element along axes is True; of none, False."
_ALL = "True if all elements along axes are True; of none, True."

_reduction("sum", _SUM, "iuf", _wrapping(np.sum), empty="float32")
_reduction("prod", _PROD, "iuf", _wrapping(np.prod), empty="int32")
_reduction("max", _MAX, "biuf")
_reduction("min", _MIN, "biuf")
_reduction("any", _ANY, "b", np.any, empty="bool")
_reduction("all", _ALL, "b", np.all, empty="bool")


def _count(x: Value, axis: Any) -> IntExpr:
    """The number of elements that are reduced to one."""
    return product(x.shape[a] for a in normalise_axes(axis, x.rank))


@composite(
    "mean",
    Pattern.REDUCTION,
    traits=Trait.LINEAR,
    rule=reduction_rule(),
    reference=_reference(np.mean),
    samples=lambda rng: [*_samples(rng, "f"), sample(floats(rng, (2, 3), high=9))],
    doc=_doc("mean", "Mean of the elements along axes; of none, nan."),
)
def _mean(x: Value, *, axis: Any = _AXIS, keepdims: bool = KEEPDIMS) -> Value:
    return F.sum(x, axis=axis, keepdims=keepdims) / _count(x, axis)


def _spread_samples(rng: np.random.Generator) -> list[Sample]:
    return [
        *_samples(rng, "f", "float64"),
        sample(floats(rng, (4, 9)), axis=1, ddof=1),
        sample(floats(rng, (4, 1)), axis=1, ddof=1),
    ]


_DDOF = attr("subtracted from the number of elements in the divisor", 0)
_VARIANCE = "Mean square distance from the mean along axes; divided by n - ddof."
_STD = "Standard deviation along axes, the root of the variance; divided by n - ddof."


@composite(
    "variance",
    Pattern.REDUCTION,
    rule=reduction_rule(to_part=True),
    reference=_reference(np.var),
    samples=_spread_samples,
    doc=_doc("variance", _VARIANCE),
)
def _variance(
    x: Value, *, axis: Any = _AXIS, keepdims: bool = KEEPDIMS, ddof: int = _DDOF
) -> Value:
    centred = x - F.mean(x, axis=axis, keepdims=True)
    total = F.sum(centred * centred, axis=axis, keepdims=keepdims)
    return total / int_max(_count(x, axis) - ddof, 0)


@composite(
    "std",
    Pattern.REDUCTION,
    rule=reduction_rule(to_part=True),
    reference=_reference(np.std),
    samples=_spread_samples,
    doc=_doc("std", _STD),
)
def _std(x: Value, *, axis: Any = _AXIS, keepdims: bool = KEEPDIMS, ddof: int = _DDOF) -> Value:
    return F.sqrt(F.variance(x, axis=axis, keepdims=keepdims, ddof=ddof))
