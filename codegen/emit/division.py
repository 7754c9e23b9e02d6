"""Many numbers divided by one: a row divided by its sum, without a division for each element; and
the inverse of a square.

With y = m 2^e and r = 1 / m rounded, q = x r is within an ulp of x / m, and q - r (q m - x), with
both products unrounded, is x / m correctly rounded (P. Markstein: "Computation of elementary
functions on the IBM RISC System/6000 processor", 1990). 2^-e comes with r, as far as r stays a
normal number, and the rest at the end. A quotient that overflows, or of infinities, zeros and NaNs,
has a remainder that is not finite: it stays q.
"""

from __future__ import annotations

import math

from ...ir.dataclass import dataclass
from ..elementary.emitter import Emitter, Value


@dataclass(frozen=True, slots=True)
class Divisor:
    """Numbers derived from a divisor that its quotients share, each of the divisor's type."""

    inverse: Value  # 2^-first / m
    magnitude: Value  # m 2^first
    correction: Value  # the inverse again, or zero where there is nothing to correct
    scale: Value  # the rest of 2^-e, with the divisor's sign


def divide_by_one(e: Emitter, x: Value, y: Value) -> Value:
    """``x`` divided by ``y``, a scalar or as many lanes; needs fused multiply-adds.

    Quotients are correctly rounded unless x or the quotient is close to the denormal numbers, where
    they are within an ulp.
    """
    key = "divisor", y.ssa.name
    parts = e.w.noted(key) or _divisor(y.emitter, y)
    e.w.note(key, y.ssa.depth, parts)
    inverse, magnitude, correction, scale = (
        e.splat(v) for v in (parts.inverse, parts.magnitude, parts.correction, parts.scale)
    )
    q = x * inverse
    rest = e.fma(q, magnitude, -x)
    better = e.fma(-rest, correction, q)
    return e.select(e.abs(rest) < math.inf, better, q) * scale


def divide_weight(e: Emitter, x: Value, y: Value) -> Value:
    """``x`` in [0, 1] divided by ``y`` >= 1, a scalar or as many lanes, with fused multiply-adds:
    nothing overflows. Quotients that are not close to the denormal numbers are correctly rounded;
    by NaN or zero they are NaN."""
    inverse, y = e.splat(1.0 / y), e.splat(y)
    q = x * inverse
    return e.fma(e.fma(-q, y, x), inverse, q)


def _divisor(e: Emitter, y: Value) -> Divisor:
    places, bias = e.fraction_bits, e.exponent_bias

    def power(exponent: Value) -> Value:
        return e.float_of_bits((exponent + bias) << places)

    size = e.abs(y)
    denormal = size < 2.0 ** (1 - bias)
    bits = e.bits(e.select(denormal, size * 2.0 ** (places + 1), size))
    exponent = bits.logical_shift_right(places)
    ordinary = (exponent - 1).below(2 * bias)
    unit = e.float_of_bits(bits & ((1 << places) - 1) | bias << places)
    unit = e.select(ordinary, unit, size)
    lifted = e.select(denormal, e.constant(bias + places + 1, bits.kind), bias)
    total = e.select(ordinary, lifted - exponent, 0)
    # The inverse takes as much of 2^-e as leaves it and the magnitude normal numbers.
    first = e.intrinsic("smin", total, e.constant(bias - 3, bits.kind))
    first = e.intrinsic("smax", first, e.constant(3 - bias, bits.kind))
    rest, up, down = total - first, power(first), power(-first)
    inverse = 1.0 / unit * up
    return Divisor(
        inverse,
        unit * down,
        e.select(ordinary, inverse, 0.0),
        e.copysign(power(rest), y),
    )


def inverse_square(e: Emitter, x: Value) -> Value:
    """x^-2 with little more than one rounding; needs fused multiply-adds.

    y = 1 / x is off by e y, and y^2 by 2 e y^2 and what its own rounding took. 1 / (x x) would be
    zero or infinite where the square is, and powers of that size are not. Where there is nothing to
    correct, of zeros, infinities and NaN, y^2 is the result.
    """
    y = 1.0 / x
    error = e.fma(-x, y, 1.0)
    square = y * y
    lost = e.fma(y, y, -square)
    lost = e.fma(square, error + error, lost)
    return e.select(e.abs(lost) < math.inf, square + lost, square)
