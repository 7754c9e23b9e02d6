"""Reductions over axes: sum, prod, max, min, any, all, and what is composed of them.

Attributes of all: ``axis`` (an int, a tuple, or None for all axes; negative ones count from the
end) and ``keepdims`` (reduced axes stay with size 1).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..dims import IntExpr, int_max, product
from ..dtype import DType
from ..errors import LoopwrightValueError
from ..graph.builder import Builder
from ..graph.nodes import Atom
from ..graph.operator import Attr, Operator, Pattern, Sample, register
from ..graph.types import TensorType, Type
from ..loop.expr import Expr, IndexLike
from ..loop.tensor import Map, Reduction, Tensor
from .compose import call, scalar, tensor_type
from .declare import operator_doc
from .rules import Attrs, Infer, normalise_axes, require_kind, tensors
from .sampling import SPECIAL_FLOATS, extremes, floats, ints, truths

__all__ = ["KEEPDIMS", "infer_reduction", "reduced_axes", "reduced_shape"]

_AXIS = Attr("axis", "axes to reduce: int, tuple of ints, or None for all", None)
KEEPDIMS = Attr("keepdims", "whether reduced axes stay with size 1", False)


def reduced_axes(x: TensorType, attrs: Mapping[str, Any], name: str = "reduction") -> list[int]:
    """The axes a reduction's attributes name, sorted and counted from the front.

    >>> from loopwright.ir.dtype import FLOAT32
    >>> reduced_axes(TensorType((2, 3, 4), FLOAT32), {"axis": -1})
    [2]
    """
    return list(normalise_axes(name, attrs["axis"], x.rank, x))


def reduced_shape(shape: Sequence[IntExpr], axes: Sequence[int], keepdims: bool) -> list[IntExpr]:
    """The shape after ``axes`` are reduced."""
    if keepdims:
        return [1 if axis in axes else size for axis, size in enumerate(shape)]
    return [size for axis, size in enumerate(shape) if axis not in axes]


def infer_reduction(
    name: str, kinds: str, dtype: DType | None = None, needs_element: bool = False
) -> Infer:
    """The type rule of a reduction of operands of ``kinds``; the result has ``dtype``, or theirs.

    ``needs_element``: LoopwrightValueError where an axis without elements is reduced.
    """

    def infer(types: tuple[Type, ...], attrs: Attrs) -> Type:
        (x,) = tensors(name, types, 1)
        require_kind(name, kinds, (x,))
        axes = reduced_axes(x, attrs, name)
        shape = tuple(reduced_shape(x.shape, axes, attrs["keepdims"]))
        empty = any(x.shape[a] == 0 for a in axes)
        if needs_element and empty and product(shape) != 0:
            raise LoopwrightValueError(
                f"{name}: {x.short} has no element along axis {attrs['axis']}"
            )
        return TensorType(shape, dtype or x.dtype)

    return infer


def _compute(name: str) -> Callable[[Sequence[Tensor], Attrs, TensorType], Map | Reduction]:
    def compute(inputs: Sequence[Tensor], attrs: Attrs, out: TensorType) -> Map | Reduction:
        (x,) = inputs
        rank = len(x.shape)
        axes = normalise_axes(name, attrs["axis"], rank)
        kept = [axis for axis in range(rank) if axis not in axes]

        def element(*i: IndexLike) -> Expr:
            outer = [i[axis] for axis in kept] if attrs["keepdims"] else i[: len(kept)]
            source: dict[int, IndexLike] = dict(zip(kept, outer, strict=True))
            source.update(zip(axes, i[len(out.shape) :], strict=True))
            return x(*(source[axis] for axis in range(rank)))

        if not axes:
            return Map(out.shape, out.dtype, element)
        return Reduction(out.shape, out.dtype, tuple(x.shape[a] for a in axes), name, element)

    return compute


def _reference(function: Any) -> Callable[[Sequence[Any], Attrs], Any]:
    def reference(arrays: Sequence[Any], attrs: Attrs) -> Any:
        (x,) = arrays
        exact = x.astype(np.float64) if x.dtype.kind == "f" else x
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of no elements, NumPy warns besides giving nan
            keywords = {k: attrs[k] for k in ("axis", "keepdims", "ddof") if k in attrs}
            return np.asarray(function(exact, **keywords)).astype(x.dtype)

    return reference


def _wrapping(function: Any) -> Any:
    """NumPy's sum or product in the operand's own dtype (integers wrap around)."""

    def reduce(x: Any, **keywords: Any) -> Any:
        return function(x, dtype=x.dtype, **keywords)

    return reduce


def _samples(kinds: str) -> Callable[[np.random.Generator], list[Sample]]:
    def samples(rng: np.random.Generator) -> list[Sample]:
        found: list[Sample] = []
        if "f" in kinds:
            edge = np.array(SPECIAL_FLOATS, "float32")
            found += [
                Sample((floats(rng, (3, 5, 7)),), {"axis": (1,)}),
                Sample((floats(rng, (4, 37), "float64"),), {"axis": -1, "keepdims": True}),
                Sample((floats(rng, (2, 3, 5)),), {"axis": (0, -1)}),
                Sample((floats(rng, (6, 9)),), {}),
                Sample((floats(rng, (33, 2)),), {"axis": (0,), "keepdims": True}),
                Sample((np.stack([np.roll(edge, k)[:4] for k in range(10)]),), {"axis": 1}),
                Sample((floats(rng, (3, 1)),), {"axis": 1}),
                Sample((floats(rng, (2, 3)),), {"axis": ()}),
                Sample((floats(rng, ()),), {"keepdims": True}),
                Sample((floats(rng, (0, 3)),), {"axis": 1}),
            ]
        if "i" in kinds:
            found += [
                Sample((np.stack([extremes("int8")] * 3),), {"axis": 0}),
                Sample((extremes("uint8"),), {}),
                Sample((ints(rng, (5, 6), "int64"),), {"axis": (1,)}),
                Sample((ints(rng, (2, 9), "int32"),), {"axis": 0, "keepdims": True}),
            ]
        if "b" in kinds:
            found += [
                Sample((truths(rng, (7, 3)),), {"axis": 1}),
                Sample((truths(rng, (2, 3)),), {}),
                Sample((np.ones((3, 2), bool),), {"axis": (0,), "keepdims": True}),
            ]
        return found

    return samples


def _empty_samples(dtype: str) -> list[Sample]:
    return [
        Sample((np.zeros((0, 3), dtype),), {"axis": 0}),
        Sample((np.zeros((2, 0), dtype),), {"axis": None, "keepdims": True}),
    ]


def _doc(name: str, text: str, dtypes: str, error: str = "") -> str:
    example = "bool" if dtypes == "bool" else "float32"
    return operator_doc(
        text,
        f"""``x`` of any shape, {dtypes}; the result has the same dtype and the shape without the
        reduced axes, or with size 1 there if ``keepdims``. LoopwrightTypeError for another dtype,
        LoopwrightValueError for an axis out of range{error}.""",
        f"fn (%x: Tensor[(2, 3, 4), {example}]) -> Tensor[(2, 4), {example}]",
        f"{name}(%x, axis=[1])",
    )


def _reduction(
    name: str, text: str, kinds: str, dtypes: str, reference: Any, *, empty: str | None = None
) -> None:
    """Register a primitive reduction; ``empty`` is the dtype of samples without elements."""
    draw = _samples(kinds)
    error = "" if empty else " or a result without any element to take"

    def samples(rng: np.random.Generator) -> list[Sample]:
        return draw(rng) + (_empty_samples(empty) if empty else [])

    register(
        Operator(
            name=name,
            doc=_doc(name, text, dtypes, error),
            params=("x",),
            attrs=(_AXIS, KEEPDIMS),
            pattern=Pattern.REDUCTION,
            infer=infer_reduction(name, kinds, needs_element=empty is None),
            compute=_compute(name),
            reference=_reference(reference),
            samples=samples,
        )
    )


_reduction(
    "sum",
    "Sum of the elements along axes; of none, 0. Integers wrap around.",
    "iuf",
    "integers or floats",
    _wrapping(np.sum),
    empty="float32",
)
_reduction(
    "prod",
    "Product of the elements along axes; of none, 1. Integers wrap around.",
    "iuf",
    "integers or floats",
    _wrapping(np.prod),
    empty="int32",
)
_reduction("max", "Greatest element along axes; nan if there is one.", "biuf", "any dtype", np.max)
_reduction("min", "Least element along axes; nan if there is one.", "biuf", "any dtype", np.min)
_reduction(
    "any", "Whether one element along axes holds; of none, no.", "b", "bool", np.any, empty="bool"
)
_reduction(
    "all", "Whether all elements along axes hold; of none, yes.", "b", "bool", np.all, empty="bool"
)


def _count(x: TensorType, axes: Sequence[int]) -> IntExpr:
    return product(x.shape[a] for a in axes)


def _decompose_mean(b: Builder, args: Sequence[Atom], attrs: Attrs) -> Atom:
    (x,) = args
    kind = tensor_type(x)
    count = scalar(b, _count(kind, reduced_axes(kind, attrs, "mean")), kind.dtype)
    total = call(b, "sum", x, axis=attrs["axis"], keepdims=attrs["keepdims"])
    return call(b, "divide", total, count)


def _decompose_variance(b: Builder, args: Sequence[Atom], attrs: Attrs) -> Atom:
    (x,) = args
    kind = tensor_type(x)
    count = _count(kind, reduced_axes(kind, attrs, "variance"))
    mean = call(b, "mean", x, axis=attrs["axis"], keepdims=True)
    centred = call(b, "subtract", x, mean)
    squares = call(b, "multiply", centred, centred)
    total = call(b, "sum", squares, axis=attrs["axis"], keepdims=attrs["keepdims"])
    return call(b, "divide", total, scalar(b, int_max(count - attrs["ddof"], 0), kind.dtype))


def _decompose_std(b: Builder, args: Sequence[Atom], attrs: Attrs) -> Atom:
    return call(b, "sqrt", call(b, "variance", *args, **attrs))


def _spread_samples(rng: np.random.Generator) -> list[Sample]:
    return [
        *_samples("f")(rng),
        Sample((floats(rng, (4, 9)),), {"axis": 1, "ddof": 1}),
        Sample((floats(rng, (4, 1)),), {"axis": 1, "ddof": 1}),
        *_empty_samples("float64"),
    ]


_DDOF = Attr("ddof", "subtracted from the number of elements in the divisor", 0)
_FLOATS = "float32 or float64"

register(
    Operator(
        name="mean",
        doc=_doc("mean", "Mean of the elements along axes; of none, nan.", _FLOATS),
        params=("x",),
        attrs=(_AXIS, KEEPDIMS),
        pattern=Pattern.REDUCTION,
        infer=infer_reduction("mean", "f"),
        decompose=_decompose_mean,
        reference=_reference(np.mean),
        samples=lambda rng: [*_samples("f")(rng), Sample((floats(rng, (2, 3), high=9),))],
    )
)

for _name, _text, _decompose, _function in (
    ("variance", "Mean square distance from the mean along axes", _decompose_variance, np.var),
    ("std", "Standard deviation along axes, the root of the variance", _decompose_std, np.std),
):
    register(
        Operator(
            name=_name,
            doc=_doc(_name, f"{_text}; divided by n - ddof.", _FLOATS),
            params=("x",),
            attrs=(_AXIS, KEEPDIMS, _DDOF),
            pattern=Pattern.REDUCTION,
            infer=infer_reduction(_name, "f"),
            decompose=_decompose,
            reference=_reference(_function),
            samples=_spread_samples,
        )
    )
