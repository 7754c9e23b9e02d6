"""exp, exp2, expm1 and the logistic sigmoid.

All reduce x = n ln2 + r with |r| <= ln2 / 2 after Cody and Waite ("Software Manual for the
Elementary Functions", 1980; Muller et al., "Handbook of Floating-Point Arithmetic", ch. 10): ln2 is
split into a short high part, whose product with n is exact even without FMA, and a low part. n
comes from adding 1.5 * 2^(p-1), which needs no rounding instruction. exp(r) is a minimax polynomial
(derive.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from .emitter import Emitter, Value

LOG2_E = 1.4426950408889634
# 355 / 512: nine bits, so that its product with an exponent is exact; and ln2 minus it.
# For doubles: 33 bits.
LN2_HIGH = {"float": 0.693359375, "double": 0.6931471803691238}
LN2_LOW = {"float": -0.00021219444005469057, "double": 1.9082149292705877e-10}

# Bounds beyond which exp(x), and 2^x, are infinity and zero.
HIGHEST = {"float": 89.0, "double": 710.0}
LOWEST = {"float": -104.5, "double": -746.0}
HIGHEST2 = {"float": 129.0, "double": 1025.0}
LOWEST2 = {"float": -151.0, "double": -1076.0}

# exp(r) = 1 + r * P(r), |r| <= ln2 / 2
EXP32 = (
    1.0, 0.4999999403953552, 0.1666651964187622, 0.04166825860738754, 0.00836885441094637,
    0.0013821712927892804,
)  # fmt: skip
EXP64 = (
    1.0, 0.5, 0.16666666666666427, 0.041666666666602466, 0.0083333333335036,
    0.0013888888927464334, 0.00019841269460308024, 2.4801507767223913e-05,
    2.755764411855974e-06, 2.762557913876393e-07, 2.4978074761710628e-08,
)  # fmt: skip
EXP = {"float": EXP32, "double": EXP64}
# 2^r = 1 + r * P(r), |r| <= 1 / 2
EXP2_32 = (
    0.6931471824645996, 0.24022650718688965, 0.055503588169813156, 0.009618071839213371,
    0.001339136390015483, 0.00015458867710549384,
)  # fmt: skip
EXP2_64 = (
    0.6931471805599453, 0.24022650695910122, 0.055504108664822666, 0.009618129107596603,
    0.0013333558146239608, 0.0001540353045484659, 1.5252733964321297e-05, 1.321543612508917e-06,
    1.0178014941938766e-07, 7.073673846686476e-09, 4.461292501471808e-10,
)  # fmt: skip
EXP2 = {"float": EXP2_32, "double": EXP2_64}

# The same polynomials for |r| <= ln2 / 32: with a table of 2^(i / 16) in a register
EXP_SHORT32 = (1.0, 0.5000162124633789, 0.16666840016841888)
EXP_SHORT64 = (
    1.0, 0.5, 0.16666666664408672, 0.0416666666694111, 0.00833347220127997, 0.00138889306580473,
)  # fmt: skip
EXP_SHORT = {"float": EXP_SHORT32, "double": EXP_SHORT64}
STEPS = 16


def power_of_two(e: Emitter, biased: Value) -> Value:
    """2^n as a float from ``biased`` = n + exponent bias + the magic number."""
    return e.float_of_bits(e.bits(biased) << e.fraction_bits)


def scale(e: Emitter, y: Value, biased: Value) -> Value:
    """y * 2^n for an integral n of up to twice the exponent's range, rounded once; ``biased`` is n
    + twice the exponent bias + the magic number. 2^n is two factors, each inside the exponent's
    range, the first of which leaves y exact."""
    bits = e.bits(biased)
    half = bits.logical_shift_right(1)
    powers = (e.float_of_bits(h << e.fraction_bits) for h in (half, bits - half))
    return y * next(powers) * next(powers)


def split(e: Emitter, x: Value) -> tuple[Value, Value]:
    """(n, r) with x = n ln2 + r."""
    n = e.fma(x, LOG2_E, e.magic()) - e.magic()
    return n, rest(e, x, n)


def rest(e: Emitter, x: Value, n: Value) -> Value:
    """x - n ln2, as if ln2 were exact."""
    return e.negative_fma(n, LN2_LOW[e.kind], e.negative_fma(n, LN2_HIGH[e.kind], x))


def exp_minus_one(e: Emitter, r: Value) -> Value:
    """exp(r) - 1 = r + r^2 * P(r) for a reduced r."""
    return e.fma(r * r, e.polynomial(r, EXP[e.kind][1:]), r)


def exp_of_rest(e: Emitter, r: Value) -> Value:
    """exp(r) for a reduced r."""
    if e.target.has_fma:
        return e.fma(r, e.polynomial(r, EXP[e.kind]), 1.0)
    return exp_minus_one(e, r) + 1.0


def exp_by_table(e: Emitter, x: Value, sign: int, factor: float) -> tuple[Value, Value]:
    """(n, factor * 2^-floor(sign n) exp(x)) with n = sign x / ln2, rounded to 1/16.

    2^(i/16) comes from a table, the rest of exp from a polynomial in at most ln2 / 32 (Tang:
    "Table-driven implementation of the exponential function", 1989). Where n leaves the range of
    exponents, or x is NaN, the second number is some positive one: n tells the result.
    """
    n, r, which = reduce_by_table(e, x, sign)
    rest = e.polynomial(r, EXP_SHORT[e.kind])
    if e.kind == "double":
        near = e.lookup([2.0 ** (sign * i / STEPS) * factor for i in range(STEPS)], which)
        return n, e.fma(near * r, rest, near)
    # With the rounding errors of the table: half an ulp is too much for 1 ulp in all.
    near, lost = lookup_powers(e, which, [sign * i for i in range(STEPS)], factor)
    return n, near + e.fma(near * r, rest, lost)


def lookup_powers(
    e: Emitter, which: Value, sixteenths: Sequence[int], factor: float = 1.0
) -> tuple[Value, Value]:
    """factor * 2^(sixteenths[which] / 16) as a number and its rounding error."""
    exact = [power_of_root(i) * Fraction(factor) for i in sixteenths]
    near = [float(e.rounded(float(v))) for v in exact]
    lost = [float(v - Fraction(t)) for v, t in zip(exact, near)]
    return e.lookup(near, which), e.lookup(lost, which)


def reduce_by_table(e: Emitter, x: Value, sign: int) -> tuple[Value, Value, Value]:
    """(n, r, which) with x = sign n ln2 + r; the lowest bits of ``which`` count sixteenths."""
    magic = e.magic() / STEPS
    shifted = e.fma(x, sign * LOG2_E, magic)
    n = shifted - magic
    r = e.fma(n, -sign * LN2_HIGH[e.kind], x)
    r = e.bounded(e.fma(n, -sign * LN2_LOW[e.kind], r), 2.0**-5)
    return n, r, e.bits(shifted)


def exp_of_sum(e: Emitter, high: Value, low: Value) -> Value:
    """exp(high + low) by table, for sums inside of the exponent's range: all but the last rounding
    counts little. ``high`` less the multiple of ln2 is exact."""
    magic = e.magic() / STEPS
    shifted = e.fma(high + low, LOG2_E, magic)
    n = shifted - magic
    r = e.negative_fma(n, LN2_HIGH[e.kind], high) + e.negative_fma(n, LN2_LOW[e.kind], low)
    power, lost = lookup_powers(e, e.bits(shifted), range(STEPS))
    rest = e.fma(power * r, e.polynomial(r, EXP_SHORT[e.kind]), lost)
    return e.scale_by_floor(power + rest, n)


def two_exponentials_by_table(e: Emitter, u: Value, sign: float) -> Value:
    """(exp(u) + sign exp(-u)) / 2 for u >= 0, in a full register.

    With exp(r) - 1 = even + odd, that of -r is even - odd. The small exponential is added before
    the last rounding of the great one: it is divided by that one's power of two, n, too.
    """
    n, r, which = reduce_by_table(e, u, 1)
    y, terms = r * r, EXP_SHORT[e.kind]
    odd, even = r * e.polynomial(y, terms[::2]), y * e.polynomial(y, terms[1::2])
    near, lost = lookup_powers(e, which, range(STEPS), 0.5)
    rest = e.fma(near, even + odd, lost)
    # ``scale_by_floor`` takes up to two powers of two too many off, by -2 n.
    back = [0.5 * 2.0 ** (-i / STEPS - (-2 * i // STEPS)) for i in range(STEPS)]
    other = e.lookup(back, which)
    other = e.scale_by_floor(e.fma(other, even - odd, other), n * -2.0)
    return e.scale_by_floor(near + (rest + other if sign > 0 else rest - other), n)


def power_of_root(i: int) -> Fraction:
    """2^(i / 16) to 128 places."""
    root = 1 << (i % STEPS + 128 * STEPS)
    for _ in range(STEPS.bit_length() - 1):
        root = math.isqrt(root)
    return Fraction(root, 1 << 128) * Fraction(2) ** (i // STEPS)


def exp_in_register(e: Emitter, x: Value) -> Value:
    n, y = exp_by_table(e, x, 1, 1.0)
    return e.scale_by_floor(y, n)


def sigmoid_in_register(e: Emitter, x: Value) -> Value:
    small = 2.0 ** -(e.fraction_bits + 7)
    n, y = exp_by_table(e, x, -1, small)
    # Beyond the bound the quotient is zero; infinity would make the remainder NaN.
    power = e.at_most(e.scale_by_floor(e.constant(small), n), 2.0**126)
    inverse = e.reciprocal_estimate(power + y)
    quotient = y * inverse
    remainder = e.negative_fma(quotient, y, e.negative_fma(quotient, power, y))
    return e.fma(remainder, inverse, quotient)


def exp(e: Emitter, x: Value) -> Value:
    """exp: in float32 13 instructions with AVX-512, 18 with AVX2.

    Beyond the clamp the result is infinity or zero already; denormal results come out of ``scale``.
    """
    if e.has_tables:
        return e.in_full_register(x, exp_in_register)
    x = e.at_least(e.at_most(x, HIGHEST[e.kind]), LOWEST[e.kind])
    magic = e.magic() + 2 * e.exponent_bias
    shifted = e.fma(x, LOG2_E, magic)
    return scale(e, exp_of_rest(e, rest(e, x, shifted - magic)), shifted)


def exp_weight(e: Emitter, x: Value) -> Value:
    """exp of x <= 0, a difference that was rounded: 10 instructions for float32 with tables, 13
    with FMA.

    Rounding moved x by up to 2^-24 |x|, and so the result by as many of its own size. The remainder
    is therefore not corrected for the rounding of ln2, which moves it by 2^-28 |x|, nor the table
    for its own: for exact x results are within 1.2 ulp + |x| / 20 ulp.
    """
    if e.kind == "double":
        return exp(e, x)
    if e.has_tables:
        return e.in_full_register(x, exp_weight_in_register)
    return exp_of_negative(e, x, roughly=True)


def exp_of_negative(e: Emitter, x: Value, roughly: bool = False) -> Value:
    """exp of x <= 0 without tables; ``roughly`` for an x that was rounded.

    2^(n + bias / 2) is in the exponent's range for all n, also where rounding made n 1; the last
    product alone rounds.
    """
    up = (e.exponent_bias + 1) // 2
    magic = e.magic() + e.exponent_bias + up
    x = e.at_least(x, LOWEST[e.kind])
    shifted = e.fma(x, LOG2_E, magic)
    n = shifted - magic
    short = roughly and e.target.has_fma
    r = e.negative_fma(n, math.log(2), x) if short else rest(e, x, n)
    return exp_of_rest(e, r) * power_of_two(e, shifted) * 2.0**-up


def exp_weight_in_register(e: Emitter, x: Value) -> Value:
    magic = e.magic() / STEPS
    shifted = e.fma(x, LOG2_E, magic)
    n = shifted - magic
    r = e.bounded(e.negative_fma(n, math.log(2), x), 2.0**-5)
    near = e.lookup([2.0 ** (i / STEPS) for i in range(STEPS)], e.bits(shifted))
    return e.scale_by_floor(e.fma(near * r, e.polynomial(r, EXP_SHORT[e.kind]), near), n)


def exp2(e: Emitter, x: Value) -> Value:
    """2^x: x = n + r needs no constant."""
    x = e.at_least(e.at_most(x, HIGHEST2[e.kind]), LOWEST2[e.kind])
    shifted = x + (e.magic() + 2 * e.exponent_bias)
    r = x - (shifted - (e.magic() + 2 * e.exponent_bias))
    return scale(e, e.fma(r, e.polynomial(r, EXP2[e.kind]), 1.0), shifted)


def expm1(e: Emitter, x: Value) -> Value:
    """exp(x) - 1 = 2^n w + (2^n - 1) with w = exp(r) - 1, halved so that 2^n stays finite.

    Numbers too small for the halving, and -0, are their own result.
    """
    lowest = -(e.fraction_bits + 3) * math.log(2)
    n, r = split(e, e.at_least(e.at_most(x, HIGHEST[e.kind]), lowest))
    half = power_of_two(e, n + (e.magic() + e.exponent_bias - 1))
    result = 2.0 * e.fma(half, exp_minus_one(e, r), half - 0.5)
    return e.select(e.abs(x) < 2.0 ** -(e.fraction_bits + 3), x, result)


def sigmoid(e: Emitter, x: Value) -> Value:
    """1 / (1 + exp(-x)) as t - t z for x < 0 and 1 - z else, with t = exp(-|x|), z = t / (1 + t).

    t <= 1, so nothing overflows, and results down to the least denormal keep their accuracy; z is
    at most 1/2, so that its errors count little. In float32 21 instructions, one division.

    With tables it is y / (2^-n + y), exp(x) = 2^n y, and 20 instructions: y and 2^-n carry a factor
    that keeps 2^-n finite wherever the result is not zero. The quotient is an estimate and one step
    of Newton's: its remainder does not see the rounding of the sum, as a division would.
    """
    if e.has_tables and e.kind == "float":
        return e.in_full_register(x, sigmoid_in_register)
    t = exp_of_negative(e, -e.abs(x))
    a = e.select(e.bits(x) < 0, t, 1.0)
    return e.negative_fma(a, t / (1.0 + t), a)
