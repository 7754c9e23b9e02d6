"""Operators that work on each element alone: the rows of the scalar table, with broadcasting.

The meaning of a row is the NumPy function of the same row of ``SCALAR_OPS``. What is added here is
a sentence, and the range from which random samples are drawn. Operands have equal dtypes; the
tracer casts before it calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..dtype import BOOL
from ..errors import LoopwrightTypeError
from ..graph.operator import Attr, Operator, Pattern, Sample, register
from ..graph.types import TensorType, Type
from ..loop.expr import Expr, IndexLike, cast, const, op, select
from ..loop.scalar import SCALAR_OPS, ScalarOp
from ..loop.tensor import Map, Tensor
from .docs import operator_doc
from .rules import (
    Attrs,
    Infer,
    broadcast_read,
    broadcast_shapes,
    dtype_attr,
    require_fits,
    require_kind,
    same_dtype,
    same_type,
    tensors,
)
from .sampling import extremes, floats, ints, specials, truths

__all__: list[str] = []


class _Row(NamedTuple):
    """``text`` says what the operator is; random float samples lie in [low, high)."""

    text: str
    low: float = -4.0
    high: float = 4.0


_ROWS: dict[str, _Row] = {
    "add": _Row("Sum. Integers wrap around; of bools, logical or."),
    "subtract": _Row("Difference. Integers wrap around."),
    "multiply": _Row("Product. Integers wrap around; of bools, logical and."),
    "divide": _Row("Quotient of floats; x / 0 is inf, -inf or nan."),
    "floor_divide": _Row(
        "Quotient rounded to minus infinity, Python's //. An integer divided by 0 is 0."
    ),
    "floor_mod": _Row(
        "Remainder with the sign of the divisor, Python's %. An integer modulo 0 is 0."
    ),
    "truncate_mod": _Row(
        "Remainder with the sign of the dividend, C's fmod; an integer by 0 is 0."
    ),
    "negative": _Row("The opposite; of an unsigned integer, its two's complement."),
    "abs": _Row("Absolute value; of the least signed integer, itself."),
    "sign": _Row("-1, 0 or 1; of nan, nan."),
    "maximum": _Row("The greater; nan if either is nan."),
    "minimum": _Row("The lesser; nan if either is nan."),
    "fmax": _Row("The greater; of a number and nan, the number."),
    "fmin": _Row("The lesser; of a number and nan, the number."),
    "power": _Row(
        "The first to the power of the second. Integers wrap around; their exponents must not be "
        "negative (the result is then not specified, NumPy raises).",
        0.1,
        4.0,
    ),
    "sqrt": _Row("Square root; nan below 0.", 0.0, 100.0),
    "rsqrt": _Row("1 / sqrt(x); inf at 0.", 0.01, 100.0),
    "cbrt": _Row("Cube root, of negative numbers too.", -100.0, 100.0),
    "ceil": _Row("The least integer that is not less."),
    "floor": _Row("The greatest integer that is not greater."),
    "trunc": _Row("The integer part."),
    "round": _Row("The nearest integer, halves to the even one."),
    "copysign": _Row("The magnitude of the first with the sign of the second, of -0 and nan too."),
    "exp": _Row("e to the power of x.", -20.0, 20.0),
    "exp2": _Row("2 to the power of x.", -20.0, 20.0),
    "expm1": _Row("exp(x) - 1, exact near 0."),
    "log": _Row("Natural logarithm; -inf at 0, nan below.", 0.01, 100.0),
    "log1p": _Row("log(1 + x), exact near 0.", -0.9, 10.0),
    "log2": _Row("Logarithm to base 2; -inf at 0, nan below.", 0.01, 100.0),
    "log10": _Row("Logarithm to base 10; -inf at 0, nan below.", 0.01, 100.0),
    "sin": _Row("Sine of radians.", -20.0, 20.0),
    "cos": _Row("Cosine of radians.", -20.0, 20.0),
    "tan": _Row("Tangent of radians.", -20.0, 20.0),
    "asin": _Row("Inverse sine; nan outside [-1, 1].", -1.0, 1.0),
    "acos": _Row("Inverse cosine; nan outside [-1, 1].", -1.0, 1.0),
    "atan": _Row("Inverse tangent.", -20.0, 20.0),
    "atan2": _Row("The angle of the point (second, first), with the signs of zeros."),
    "sinh": _Row("Hyperbolic sine."),
    "cosh": _Row("Hyperbolic cosine."),
    "tanh": _Row("Hyperbolic tangent."),
    "asinh": _Row("Inverse hyperbolic sine.", -20.0, 20.0),
    "acosh": _Row("Inverse hyperbolic cosine; nan below 1.", 1.0, 20.0),
    "atanh": _Row("Inverse hyperbolic tangent; nan outside [-1, 1].", -1.0, 1.0),
    "erf": _Row("The error function."),
    "sigmoid": _Row("1 / (1 + exp(-x)).", -10.0, 10.0),
    "equal": _Row("Whether both are equal; nan equals nothing."),
    "not_equal": _Row("Whether both differ; nan differs from everything."),
    "less": _Row("Whether the first is less; False with nan."),
    "less_equal": _Row("Whether the first is less or equal; False with nan."),
    "greater": _Row("Whether the first is greater; False with nan."),
    "greater_equal": _Row("Whether the first is greater or equal; False with nan."),
    "isnan": _Row("Whether x is nan."),
    "isinf": _Row("Whether x is inf or -inf."),
    "isfinite": _Row("Whether x is neither nan nor infinite."),
    "logical_and": _Row("Whether both hold."),
    "logical_or": _Row("Whether one of both holds."),
    "logical_xor": _Row("Whether exactly one of both holds."),
    "logical_not": _Row("Whether x does not hold."),
    "bitwise_and": _Row("The bits that both have."),
    "bitwise_or": _Row("The bits that one of both has."),
    "bitwise_xor": _Row("The bits that exactly one of both has."),
    "bitwise_not": _Row("The bits that x does not have; of a bool, logical not."),
    "left_shift": _Row(
        "Bits moved up; 0 where the count is negative or not less than the number of bits."
    ),
    "right_shift": _Row(
        "Bits moved down, the sign repeated. It is 0 or -1 where the count is negative or not less "
        "than the number of bits."
    ),
    "where": _Row("The second where the condition holds, else the third."),
}

_KIND_TEXT = {
    "biuf": "any dtype",
    "iuf": "integers or floats",
    "iu": "integers",
    "f": "float32 or float64",
    "biu": "integers or bool",
    "b": "bool",
}
_INT_SAMPLES = ("int8", "uint8", "int32", "int64", "int16", "uint32", "uint16", "uint64")
_FLOAT_DTYPES = ("float32", "float64")
_HUGE_ANGLES = ("sin", "cos", "tan")
_REMAINDERS = ("floor_divide", "floor_mod", "truncate_mod")
_EXTREMA = ("maximum", "minimum", "fmax", "fmin")  # of 0 and -0 either may be the result
_WHERE_PARAMS = ("condition", "x", "y")


def _params(row: ScalarOp) -> tuple[str, ...]:
    return _WHERE_PARAMS if row.arity == 3 else ("x", "y")[: row.arity]


def _doc(row: ScalarOp) -> str:
    result = "bool" if row.to_bool else "the operands' dtype"
    dtype = "bool" if row.kinds == "b" else "int32" if row.kinds in ("iu", "biu") else "float32"
    shape = (
        "``x`` of any shape; the result has the same shape."
        if row.arity == 1
        else "Operands are broadcast as in NumPy and have equal dtypes."
    )
    condition = "``condition`` is bool. " if row.arity == 3 else ""
    errors = "" if row.arity == 1 else ", different dtypes, or shapes that do not broadcast"
    names = [f"%{name}" for name in _params(row)]
    kinds = ["bool"] * (row.arity == 3) + [dtype] * min(row.arity, 2)
    typed = [f"{p}: Tensor[(7), {k}]" for p, k in zip(names, kinds, strict=True)]
    params = ", ".join(typed) if row.arity < 3 else "\n      " + ",\n      ".join(typed) + "\n    "
    return operator_doc(
        _ROWS[row.name].text,
        f"{shape} {condition}Dtypes: {_KIND_TEXT[row.kinds]}; result: {result}. "
        f"LoopwrightTypeError for another dtype{errors}.",
        f"fn ({params}) -> Tensor[(7), {'bool' if row.to_bool else dtype}]",
        f"{row.name}({', '.join(names)})",
    )


def _infer(row: ScalarOp) -> Infer:
    def infer(types: tuple[Type, ...], attrs: Attrs) -> Type:
        operands = tensors(row.name, types, row.arity)
        values = operands
        if row.arity == 3:
            values = operands[1:]
            if not operands[0].dtype.is_bool:
                raise LoopwrightTypeError(
                    f"{row.name}: the condition is bool, not {operands[0].short}",
                    hint="compare it: condition != 0",
                )
        dtype = same_dtype(row.name, values)
        require_kind(row.name, row.kinds, values)
        shape = broadcast_shapes(row.name, operands)
        return TensorType(shape, BOOL if row.to_bool else dtype)

    return infer


def _compute(row: ScalarOp) -> Callable[[Sequence[Tensor], Attrs, TensorType], Map]:
    def compute(inputs: Sequence[Tensor], attrs: Attrs, out: TensorType) -> Map:
        def element(*i: IndexLike) -> Expr:
            values = [broadcast_read(x, i) for x in inputs]
            return select(*values) if row.name == "where" else op(row.name, *values)

        return Map(out.shape, out.dtype, element)

    return compute


def _reference(row: ScalarOp) -> Callable[[Sequence[Any], Attrs], Any]:
    def reference(arrays: Sequence[Any], attrs: Attrs) -> Any:
        dtype = np.dtype(bool) if row.to_bool else arrays[-1].dtype
        with np.errstate(all="ignore"):
            return np.asarray(row.numpy(*arrays)).astype(dtype, copy=False)

    return reference


def _pairs(values: Any) -> tuple[Any, Any]:
    """Every value against every value, as a column and a row to broadcast."""
    return values[:, None], values[None, :]


def _samples(row: ScalarOp) -> Callable[[np.random.Generator], list[Sample]]:
    def samples(rng: np.random.Generator) -> list[Sample]:
        if row.arity == 1:
            return list(_unary_samples(row, rng))
        if row.arity == 2:
            return list(_binary_samples(row, rng))
        return list(_where_samples(rng))

    return samples


def _int_dtypes(row: ScalarOp) -> tuple[str, ...]:
    """Three integer dtypes; which ones turns with the row, so that the table covers all."""
    start = list(SCALAR_OPS).index(row.name) % len(_INT_SAMPLES)
    return tuple(_INT_SAMPLES[(start + step) % len(_INT_SAMPLES)] for step in (0, 1, 3))


def _unary_samples(row: ScalarOp, rng: np.random.Generator) -> Sequence[Sample]:
    low, high = _ROWS[row.name].low, _ROWS[row.name].high
    found: list[Sample] = []
    if "f" in row.kinds:
        for dtype in _FLOAT_DTYPES:
            edge = specials(dtype, largest=row.name not in _HUGE_ANGLES)
            found.append(Sample((np.concatenate([edge, floats(rng, (50,), dtype, low, high)]),)))
        found.append(Sample((floats(rng, (3, 1, 5), "float32", low, high),)))
        found.append(Sample((floats(rng, (), "float32", low, high),)))
        found.append(Sample((floats(rng, (2, 0), "float64", low, high),)))
    if "i" in row.kinds:
        found += [Sample((extremes(dtype),)) for dtype in _int_dtypes(row)]
    if "b" in row.kinds:
        found.append(Sample((truths(rng, (3, 7)),)))
    return found


def _binary_samples(row: ScalarOp, rng: np.random.Generator) -> Sequence[Sample]:
    low, high = _ROWS[row.name].low, _ROWS[row.name].high
    found: list[Sample] = []
    if "f" in row.kinds:

        def draw(*shape: int, dtype: str = "float32") -> Any:
            return floats(rng, shape, dtype, low, high)

        edge = specials("float32", largest=row.name not in _REMAINDERS)
        if row.name in _EXTREMA:
            edge = edge[(edge != 0) | ~np.signbit(edge)]
        column, line = _pairs(edge)
        if row.name == "power":  # (-inf) ** 0.5: NumPy says inf of arrays, nan of scalars
            line = line[:, line[0] != 0.5]
        found.append(Sample((column, line)))
        if row.name in _REMAINDERS:  # quotients that round to an integer they do not reach
            found += [Sample(_pairs((np.arange(-12, 13) / 10).astype(d))) for d in _FLOAT_DTYPES]
        found.append(Sample((draw(17, dtype="float64"), draw(17, dtype="float64"))))
        found.append(Sample((draw(3, 1, 5), draw(4, 1))))
        found.append(Sample((draw(33, 2), draw())))
        found.append(Sample((draw(0, 3), draw(1, 1))))
    if "i" in row.kinds:
        for dtype in _int_dtypes(row):
            values = extremes(dtype)
            exponent = np.arange(5).astype(dtype) if row.name == "power" else values
            found.append(Sample((_pairs(values)[0], _pairs(exponent)[1])))
    if "b" in row.kinds:
        found.append(Sample((truths(rng, (3, 7)), truths(rng, (7,)))))
        found.append(Sample((truths(rng, (1,)), truths(rng, (0,)))))
    return found


def _where_samples(rng: np.random.Generator) -> Sequence[Sample]:
    edge = specials("float32")
    return [
        Sample((truths(rng, (4, 1)), floats(rng, (1, 5)), floats(rng, ()))),
        Sample((truths(rng, edge.shape), edge, floats(rng, edge.shape))),
        Sample((truths(rng, (2, 3)), ints(rng, (2, 3), "int64"), ints(rng, (3,), "int64"))),
        Sample((truths(rng, ()), ints(rng, (3,), "uint8"), ints(rng, (2, 1), "uint8"))),
        Sample((truths(rng, (3, 0)), floats(rng, (1,), "float64"), floats(rng, (0,), "float64"))),
        Sample((truths(rng, (9,)), truths(rng, (9,)), truths(rng, (9,)))),
    ]


for _row in SCALAR_OPS.values():
    if _row.name != "cast":
        register(
            Operator(
                name=_row.name,
                doc=_doc(_row),
                params=_params(_row),
                pattern=Pattern.ELEMENTWISE if _row.arity == 1 else Pattern.BROADCAST,
                infer=_infer(_row),
                compute=_compute(_row),
                reference=_reference(_row),
                samples=_samples(_row),
                cost=_row.cost,
            )
        )


def _infer_cast(types: tuple[Type, ...], attrs: Attrs) -> Type:
    (x,) = tensors("cast", types, 1)
    return TensorType(x.shape, dtype_attr("cast", attrs["dtype"]))


def _compute_cast(inputs: Sequence[Tensor], attrs: Attrs, out: TensorType) -> Map:
    (x,) = inputs
    return Map(out.shape, out.dtype, lambda *i: cast(x(*i), out.dtype))


def _reference_cast(arrays: Sequence[Any], attrs: Attrs) -> Any:
    with np.errstate(all="ignore"):
        return arrays[0].astype(attrs["dtype"])


def _samples_cast(rng: np.random.Generator) -> list[Sample]:
    edge = specials("float32")
    small = floats(rng, (23,), "float32", -100, 100)
    return [
        Sample((edge,), {"dtype": "float64"}),
        Sample((specials("float64"),), {"dtype": "float32"}),
        Sample((edge,), {"dtype": "bool"}),
        Sample((small,), {"dtype": "int32"}),
        Sample((small.astype("float64"),), {"dtype": "int64"}),
        Sample((small,), {"dtype": "int8"}),
        Sample((np.abs(small),), {"dtype": "uint8"}),
        Sample((extremes("int64"),), {"dtype": "int8"}),
        Sample((extremes("int64"),), {"dtype": "float32"}),
        Sample((extremes("uint64"),), {"dtype": "float64"}),
        Sample((extremes("int8"),), {"dtype": "uint32"}),
        Sample((extremes("uint8"),), {"dtype": "int16"}),
        Sample((extremes("int16"),), {"dtype": "bool"}),
        Sample((truths(rng, (3, 5)),), {"dtype": "float32"}),
        Sample((truths(rng, (0, 5)),), {"dtype": "int64"}),
    ]


register(
    Operator(
        name="cast",
        doc="""The elements converted to another dtype, as ``ndarray.astype``.

``x`` of any shape and dtype; the result has the same shape. Integers wrap around, a float loses
its fraction, anything but 0 (nan too) is True. A float outside the range of an integer dtype
gives a value that is not specified, as in NumPy. LoopwrightValueError for an unknown dtype.

    fn (%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), int32] {
      cast(%x, dtype="int32")
    }
""",
        params=("x",),
        attrs=(Attr("dtype", "name of the result's dtype"),),
        pattern=Pattern.ELEMENTWISE,
        infer=_infer_cast,
        compute=_compute_cast,
        reference=_reference_cast,
        samples=_samples_cast,
    )
)


def _infer_clip(types: tuple[Type, ...], attrs: Attrs) -> Type:
    x = same_type("clip", "iuf")(types, attrs)
    assert isinstance(x, TensorType)
    for name in ("a_min", "a_max"):
        if attrs[name] is not None:
            require_fits("clip", name, attrs[name], x.dtype)
    return x


def _compute_clip(inputs: Sequence[Tensor], attrs: Attrs, out: TensorType) -> Map:
    (x,) = inputs

    def element(*i: IndexLike) -> Expr:
        value = x(*i)
        if attrs["a_min"] is not None:
            value = op("maximum", value, const(attrs["a_min"], out.dtype))
        if attrs["a_max"] is not None:
            value = op("minimum", value, const(attrs["a_max"], out.dtype))
        return value

    return Map(out.shape, out.dtype, element)


def _reference_clip(arrays: Sequence[Any], attrs: Attrs) -> Any:
    (x,) = arrays
    if attrs["a_min"] is None and attrs["a_max"] is None:
        return x
    return np.clip(x, attrs["a_min"], attrs["a_max"])


def _samples_clip(rng: np.random.Generator) -> list[Sample]:
    return [
        Sample((specials("float32"),), {"a_min": -1.5, "a_max": 2}),
        Sample((floats(rng, (5, 7), "float64"),), {"a_min": 0.25}),
        Sample((floats(rng, (3,)),), {"a_max": 0.5}),
        Sample((floats(rng, (3,)),), {"a_min": 1.0, "a_max": -1.0}),
        Sample((extremes("int8"),), {"a_min": -3, "a_max": 100}),
        Sample((extremes("uint8"),), {"a_min": 2}),
        Sample((extremes("int64"),), {"a_max": 0}),
        Sample((floats(rng, (0, 2)),), {"a_min": 0.0, "a_max": 1.0}),
        Sample((floats(rng, ()),), {}),
    ]


register(
    Operator(
        name="clip",
        doc="""The elements limited to [a_min, a_max]; nan stays nan.

``x`` of any shape, integers or floats; the result has the same type. A bound of None is none;
where ``a_min > a_max`` the result is ``a_max``. LoopwrightTypeError for a fractional bound on
integers, LoopwrightValueError for a bound that the dtype cannot hold.

    fn (%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] {
      clip(%x, a_min=0.0, a_max=6.0)
    }
""",
        params=("x",),
        attrs=(
            Attr("a_min", "least value, or None", None),
            Attr("a_max", "greatest value, or None", None),
        ),
        pattern=Pattern.ELEMENTWISE,
        infer=_infer_clip,
        compute=_compute_clip,
        reference=_reference_clip,
        samples=_samples_clip,
    )
)
