"""Elementwise operators: the rows of the scalar table with broadcasting, cast, clip.

Everything about a row stands in ``SCALAR_OPS`` (``ir/loop/scalar.py``). Operands have equal dtypes;
the tracer casts before it emits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dtype import FLOAT32, dtype_of
from ..errors import LoopwrightTypeError
from ..graph import type_rules
from ..graph.compose import F, Value, unbroadcast
from ..graph.operator import Pattern, Sample
from ..graph.types import TensorType
from ..loop.expr import Expr, IndexLike, cast, const, op, select
from ..loop.scalar import SCALAR_OPS, ScalarOp
from ..loop.tensor import Tensor
from ..traits import Trait
from . import sampling
from .declare import Element, attr, composite, elementwise_doc, primitive
from .sampling import FLOAT_DTYPES, extremes, floats, ints, sample, specials, truths

if TYPE_CHECKING:
    from ..graph.derivatives.rules import Step, Transposition

_INTEGERS = ("int8", "uint8", "int32", "int64", "int16", "uint32", "uint16", "uint64")


def _declare(row: ScalarOp) -> None:
    """Declares the operator that applies ``row`` to each element of broadcast operands."""
    params = ("condition", "x", "y") if row.arity == 3 else ("x", "y")[: row.arity]

    def rule(*operands: TensorType) -> TensorType:
        values = operands[-2:]
        if row.arity == 3 and not operands[0].dtype.is_bool:
            raise LoopwrightTypeError(
                f"the condition is bool, not {operands[0].short}",
                hint="compare it: condition != 0",
            )
        dtype = type_rules.same_dtype(values)
        if row.to_bits and dtype.bits < FLOAT32.bits:
            raise LoopwrightTypeError(f"no float has the bits of {values[0].short}")
        shape = type_rules.broadcast_shapes(operands)
        return TensorType(shape, row.of(dtype))

    def reference(*arrays: Any) -> Any:
        dtype = row.of(dtype_of(arrays[-1].dtype)).numpy
        return np.asarray(row.numpy(*arrays)).astype(dtype, copy=False)

    @primitive(
        row.name,
        Pattern.ELEMENTWISE if row.arity == 1 else Pattern.BROADCAST,
        dtypes=row.kinds,
        rule=rule,
        reference=reference,
        samples=lambda rng: _samples(row, rng),
        traits=row.traits,
        cost=row.cost,
        linear=slice(1, 3) if row.arity == 3 else None,
        tangent=(lambda step: step.by_slopes(row.slopes)) if row.slopes else None,
        transpose=_transpose(row),
        params=params,
        doc=elementwise_doc(row.name, row.text, params, row.kinds, result=row.of),
    )
    def _row(_out: TensorType, *inputs: Tensor) -> Element:
        def element(*i: IndexLike) -> Expr:
            values = [type_rules.broadcast_read(x, i) for x in inputs]
            return select(*values) if row.arity == 3 else op(row.name, *values)

        return element


def _transpose(row: ScalarOp) -> Callable[[Transposition], None] | None:
    """Returns the transpose of a row that is linear: of sums, differences, products, choices, and
    of quotients in the dividend."""

    def transpose(step: Transposition) -> None:
        for n in range(row.arity):
            if not step.linear[n]:
                continue
            ct = step.ct
            if row.arity == 3:
                ways = (ct, step.ct.full((), 0))
                ct = F.where(step.x(0), *(ways if n == 1 else ways[::-1]))
            elif Trait.MULTILINEAR in row.traits:
                ct = ct * step.x(1 - n)
            elif row.symbol == "/":
                ct = ct / step.x(1)
            elif row.slopes[n] == -1:
                ct = -ct
            step.add(n, unbroadcast(ct, step.shape(n)))

    is_linear = row.arity == 3 or row.symbol == "/"
    is_linear = is_linear or (Trait.LINEAR | Trait.MULTILINEAR) & row.traits
    return transpose if is_linear else None


def _samples(row: ScalarOp, rng: np.random.Generator) -> list[Sample]:
    # Three of the integer dtypes; the first depends on the row, so that the table covers all.
    start = list(SCALAR_OPS).index(row.name) % len(_INTEGERS)
    integers = [_INTEGERS[(start + step) % len(_INTEGERS)] for step in (0, 1, 3)]
    if row.arity == 1:
        return sampling.elementwise_samples(
            rng, row.kinds, row.domain, integers=integers, largest=row.largest
        )
    return _binary_samples(row, rng, integers) if row.arity == 2 else _where_samples(rng)


def _pairs(values: Any) -> tuple[Any, Any]:
    """Returns every value against every value, as a column and a row to broadcast."""
    return values[:, None], values[None, :]


def _binary_samples(
    row: ScalarOp, rng: np.random.Generator, integers: Sequence[str]
) -> list[Sample]:
    samples: list[Sample] = []
    if "f" in row.kinds:

        def draw(*shape: int, dtype: str = "float32") -> Any:
            return floats(rng, shape, dtype, *row.domain)

        edge = specials("float32", largest=row.largest)
        if Trait.EITHER_ZERO in row.traits:
            edge = edge[(edge != 0) | ~np.signbit(edge)]
        column, line = _pairs(edge)
        if row.name == "power":  # (-inf) ** 0.5: NumPy says inf of arrays, nan of scalars
            line = line[:, line[0] != 0.5]
        samples.append(sample(column, line))
        if Trait.JUMPS in row.traits:  # quotients that round to an integer they do not reach
            samples += [sample(*_pairs((np.arange(-12, 13) / 10).astype(d))) for d in FLOAT_DTYPES]
        samples.append(sample(draw(17, dtype="float64"), draw(17, dtype="float64")))
        samples.append(sample(draw(3, 1, 5), draw(4, 1)))
        samples.append(sample(draw(33, 2), draw()))
        samples.append(sample(draw(0, 3), draw(1, 1)))
    if "i" in row.kinds:
        for dtype in integers:
            values = extremes(dtype)
            exponent = np.arange(5).astype(dtype) if row.name == "power" else values
            samples.append(sample(values[:, None], exponent[None, :]))
    if "b" in row.kinds:
        samples.append(sample(truths(rng, (3, 7)), truths(rng, (7,))))
        samples.append(sample(truths(rng, (1,)), truths(rng, (0,))))
    return samples


def _where_samples(rng: np.random.Generator) -> list[Sample]:
    edge = specials("float32")
    return [
        sample(truths(rng, (4, 1)), floats(rng, (1, 5)), floats(rng, ())),
        sample(truths(rng, edge.shape), edge, floats(rng, edge.shape)),
        sample(truths(rng, (2, 3)), ints(rng, (2, 3), "int64"), ints(rng, (3,), "int64")),
        sample(truths(rng, ()), ints(rng, (3,), "uint8"), ints(rng, (2, 1), "uint8")),
        sample(truths(rng, (3, 0)), floats(rng, (1,), "float64"), floats(rng, (0,), "float64")),
        sample(truths(rng, (9,)), truths(rng, (9,)), truths(rng, (9,))),
    ]


for _each in SCALAR_OPS.values():
    if _each.name != "cast" and not _each.internal:
        _declare(_each)


def _samples_cast(rng: np.random.Generator) -> list[Sample]:
    edge = specials("float32")
    small = floats(rng, (23,), "float32", -100, 100)
    return [
        sample(edge, dtype="float64"),
        sample(specials("float64"), dtype="float32"),
        sample(edge, dtype="bool"),
        sample(small, dtype="int32"),
        sample(small.astype("float64"), dtype="int64"),
        sample(small, dtype="int8"),
        sample(np.abs(small), dtype="uint8"),
        sample(extremes("int64"), dtype="int8"),
        sample(extremes("int64"), dtype="float32"),
        sample(extremes("uint64"), dtype="float64"),
        sample(extremes("int8"), dtype="uint32"),
        sample(extremes("uint8"), dtype="int16"),
        sample(extremes("int16"), dtype="bool"),
        sample(truths(rng, (3, 5)), dtype="float32"),
        sample(truths(rng, (0, 5)), dtype="int64"),
    ]


def _transpose_cast(step: Transposition) -> None:
    dtype = step.x(0).dtype
    ct = F.real(step.ct) if step.ct.dtype.is_complex and not dtype.is_complex else step.ct
    step.add(0, ct if ct.dtype == dtype else F.cast(ct, dtype=dtype.name))


def _cast_reference(x: Any, dtype: str) -> Any:
    kept = x.real if x.dtype.kind == "c" and np.dtype(dtype).kind not in "cb" else x
    return kept.astype(dtype)


@primitive(
    "cast",
    Pattern.ELEMENTWISE,
    traits=Trait.MOVES,
    rule=lambda x, dtype: TensorType(x.shape, type_rules.dtype_attr(dtype)),
    reference=_cast_reference,
    linear=slice(1),
    transpose=_transpose_cast,
    samples=_samples_cast,
)
def _cast(
    out: TensorType, x: Tensor, *, _dtype: str = attr("name of the result's dtype")
) -> Element:
    """The elements converted to another dtype, as ``ndarray.astype``.

    ``x`` of any shape and dtype; the result has the same shape. Integers wrap around, a float loses
    its fraction, anything but 0 (nan too) is True. A float outside the range of an integer dtype
    gives a value that is not specified, as in NumPy. LoopwrightValueError for an unknown dtype.

        fn (%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), int32] {
          cast(%x, dtype="int32")
        }
    """
    return lambda *i: cast(x(*i), out.dtype)


@composite(
    "stop_gradient",
    dtypes=type_rules.ANY,
    reference=lambda x: x,
    tangent=lambda _step: None,
    samples=lambda rng: [
        sample(floats(rng, (3, 4))),
        sample(floats(rng, (), "float64")),
        sample(ints(rng, (3,), "int32")),
    ],
)
def _stop_gradient(x: Value) -> Value:
    """The operand, which derivatives take for a constant."""
    return x


@primitive(
    "copy_after",
    Pattern.INJECTIVE,
    traits=Trait.PICKS,
    rule=lambda x, _after: x,
    reference=lambda x, _after: x,
    transpose=lambda step: step.add(0, step.ct),
    samples=lambda rng: [sample(floats(rng, (3, 4)), ints(rng, (2,), "int64"))],
)
def _copy_after(_out: TensorType, x: Tensor, _after: Tensor) -> Element:
    """The first operand, as another value: what is computed of it is computed again.

    ``x`` and ``after`` of any shapes and dtypes; the result has the type of ``x``.

        fn (%x: Tensor[(3), float32], %y: Tensor[(2), float32]) -> Tensor[(3), float32] {
          copy_after(%x, %y)
        }
    """
    return lambda *i: x(*i)


def _clip_tangent(step: Step) -> Value | None:
    """The tangent where the operand is within the limits, which are part of it."""
    x, tangent = step.x(0), step.moved()
    for limit, inside in (
        (step.attrs["a_min"], F.greater_equal),
        (step.attrs["a_max"], F.less_equal),
    ):
        if limit is not None:
            tangent = F.where(inside(x, limit), tangent, tangent.full((), 0))
    return tangent


def _clip_rule(x: TensorType, **bounds: Any) -> TensorType:
    for name, bound in bounds.items():
        if bound is not None:
            type_rules.require_fits(name, bound, x.dtype)
    return x


@primitive(
    "clip",
    Pattern.ELEMENTWISE,
    dtypes="iuf",
    rule=_clip_rule,
    tangent=_clip_tangent,
    reference=lambda x, a_min, a_max: (
        np.clip(x, a_min, a_max).astype(x.dtype, copy=False) if (a_min, a_max) != (None,) * 2 else x
    ),
    samples=lambda rng: [
        sample(specials("float32"), a_min=-1.5, a_max=2),
        sample(floats(rng, (5, 7), "float64"), a_min=0.25),
        sample(floats(rng, (3,)), a_max=0.5),
        sample(floats(rng, (3,)), a_min=1.0, a_max=-1.0),
        sample(extremes("int8"), a_min=-3, a_max=100),
        sample(extremes("uint8"), a_min=2),
        sample(extremes("int64"), a_max=0),
        sample(floats(rng, (0, 2)), a_min=0.0, a_max=1.0),
        sample(floats(rng, ())),
    ],
)
def _clip(
    out: TensorType,
    x: Tensor,
    *,
    a_min: Any = attr("least value, or None", None),
    a_max: Any = attr("greatest value, or None", None),
) -> Element:
    """The elements limited to [a_min, a_max]; nan stays nan.

    ``x`` of any shape, integers or floats; the result has the same type. There is no limit on a
    side whose bound is None; where ``a_min > a_max`` the result is ``a_max``. LoopwrightTypeError
    for a fractional bound on integers, LoopwrightValueError for a bound that the dtype cannot hold.

        fn (%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] {
          clip(%x, a_min=0.0, a_max=6.0)
        }
    """

    def element(*i: IndexLike) -> Expr:
        value = x(*i)
        if a_min is not None:
            value = op("maximum", value, const(a_min, out.dtype))
        if a_max is not None:
            value = op("minimum", value, const(a_max, out.dtype))
        return value

    return element
