"""Many numbers divided by one: a row divided by its sum, without a division for each element; and
the inverse of a square.

With y = m 2^e and r = 1 / m rounded, q = x r is within an ulp of x / m, and q - r (q m - x), with
both products unrounded, is x / m correctly rounded (P. Markstein: "Computation of elementary
functions on the IBM RISC System/6000 processor", 1990). 2^-e comes with r, as far as r stays a
normal number, and the rest at the end. A quotient that overflows, or of infinities, zeros and NaNs,
has a remainder that is not finite: it stays q.
"""

from __future__ import annotations

from ...ir.dataclass import dataclass
from ...ir.dtype import LLVM_TYPES
from ..llvm.text import float_literal
from .writer import FunctionWriter, Value


@dataclass(frozen=True, slots=True)
class Divisor:
    """Numbers derived from a divisor that its quotients share, each of the divisor's type."""

    inverse: Value  # 2^-first / m
    magnitude: Value  # m 2^first
    correction: Value  # the inverse again, or zero where there is nothing to correct
    scale: Value  # the rest of 2^-e, with the divisor's sign


def divide_by_one(w: FunctionWriter, x: Value, y: Value) -> Value:
    """``x`` divided by ``y``, a scalar or as many lanes; needs fused multiply-adds.

    Quotients are correctly rounded unless x or the quotient is close to the denormal numbers, where
    they are within an ulp.
    """
    parts = _divisor(w, y)
    inverse, magnitude, correction, scale = (
        w.splat(v, x.lanes) for v in (parts.inverse, parts.magnitude, parts.correction, parts.scale)
    )
    q = w.op("fmul", x, inverse)
    rest = w.intrinsic("fma", q, magnitude, w.op("fneg", x))
    better = w.intrinsic("fma", w.op("fneg", rest), correction, q)
    infinity = w.splat(Value(float_literal(float("inf"), x.type), x.type), x.lanes)
    finite = w.op("fcmp olt", w.intrinsic("fabs", rest), infinity, type="i1")
    return w.op("fmul", w.select(finite, better, q), scale)


def divide_weight(w: FunctionWriter, x: Value, y: Value) -> Value:
    """``x`` in [0, 1] divided by ``y`` >= 1, a scalar or as many lanes, with fused multiply-adds:
    nothing overflows. Quotients that are not close to the denormal numbers are correctly rounded;
    by NaN or zero they are NaN."""
    one = w.splat(Value(float_literal(1.0, y.type), y.type), y.lanes)
    inverse, y = w.splat(w.op("fdiv", one, y), x.lanes), w.splat(y, x.lanes)
    q = w.op("fmul", x, inverse)
    rest = w.intrinsic("fma", w.op("fneg", q), y, x)
    return w.intrinsic("fma", rest, inverse, q)


def _divisor(w: FunctionWriter, y: Value) -> Divisor:
    type, dtype = y.type, LLVM_TYPES[y.type]
    whole, places, bias = f"i{dtype.bits}", dtype.fraction_bits, dtype.exponent_bias

    def number(value: float) -> Value:
        return w.splat(Value(float_literal(value, type), type), y.lanes)

    def integer(value: int) -> Value:
        return w.splat(Value(str(value), whole), y.lanes)

    def power(exponent: Value) -> Value:
        biased = w.op("add", exponent, integer(bias))
        return w.convert("bitcast", w.op("shl", biased, integer(places)), type)

    size = w.intrinsic("fabs", y)
    denormal = w.op("fcmp olt", size, number(2.0 ** (1 - bias)), type="i1")
    raised = w.select(denormal, w.op("fmul", size, number(2.0 ** (places + 1))), size)
    bits = w.convert("bitcast", raised, whole)
    exponent = w.op("lshr", bits, integer(places))
    last = integer(2 * bias)
    ordinary = w.op("icmp ult", w.op("sub", exponent, integer(1)), last, type="i1")
    fraction = w.op("and", bits, integer((1 << places) - 1))
    unit = w.convert("bitcast", w.op("or", fraction, integer(bias << places)), type)
    unit = w.select(ordinary, unit, size)
    lifted = w.select(denormal, integer(bias + places + 1), integer(bias))
    total = w.select(ordinary, w.op("sub", lifted, exponent), integer(0))
    # The inverse takes as much of 2^-e as leaves it and the magnitude normal numbers.
    first = w.intrinsic("smin", total, integer(bias - 3))
    first = w.intrinsic("smax", first, integer(3 - bias))
    rest = w.op("sub", total, first)
    up = power(first)
    down = power(w.op("sub", integer(0), first))
    inverse = w.op("fmul", w.op("fdiv", number(1.0), unit), up)
    return Divisor(
        inverse,
        w.op("fmul", unit, down),
        w.select(ordinary, inverse, number(0.0)),
        w.intrinsic("copysign", power(rest), y),
    )


def inverse_square(w: FunctionWriter, x: Value) -> Value:
    """x^-2 with little more than one rounding; needs fused multiply-adds.

    y = 1 / x is off by e y, and y^2 by 2 e y^2 and what its own rounding took. 1 / (x x) would be
    zero or infinite where the square is, and powers of that size are not. Where there is nothing to
    correct, of zeros, infinities and NaN, y^2 is the result.
    """

    def number(value: float) -> Value:
        return w.splat(Value(float_literal(value, x.type), x.type), x.lanes)

    y = w.op("fdiv", number(1.0), x)
    error = w.intrinsic("fma", w.op("fneg", x), y, number(1.0))
    square = w.op("fmul", y, y)
    lost = w.intrinsic("fma", y, y, w.op("fneg", square))
    lost = w.intrinsic("fma", square, w.op("fadd", error, error), lost)
    finite = w.op("fcmp olt", w.intrinsic("fabs", lost), number(float("inf")), type="i1")
    return w.select(finite, w.op("fadd", square, lost), square)
