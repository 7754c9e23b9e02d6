"""exp, exp2, expm1 and the logistic sigmoid.

All reduce x = n ln2 + r with |r| <= ln2 / 2 after Cody and Waite ("Software Manual for the
Elementary Functions", 1980; Muller et al., "Handbook of Floating-Point Arithmetic", ch. 10): ln2 is
split into a short high part, whose product with n is exact even without FMA, and a low part. n
comes from adding 1.5 * 2^(p-1), which needs no rounding instruction. exp(r) is a minimax polynomial
(derive.py).
"""

from __future__ import annotations

import math

from .emitter import Emitter, Value

__all__ = ["exp32", "exp_parts32", "power_of_two", "scale", "sigmoid32"]

LOG2_E = 1.4426950408889634
# 355 / 512: nine bits, so that its product with an exponent is exact; and ln2 minus it.
LN2_HIGH32, LN2_LOW32 = 0.693359375, math.log(2) - 0.693359375

# exp(r) = 1 + r * P(r)
EXP32 = (
    1.0,
    0.4999999403953552,
    0.16666515171527863,
    0.041668087244033813,
    0.008369309827685356,
    0.0013838676968589425,
)


def power_of_two(e: Emitter, biased: Value) -> Value:
    """2^n as a float from ``biased`` = n + exponent bias + the magic number."""
    return e.float_of_bits(e.bits(biased) << e.fraction_bits)


def scale(e: Emitter, y: Value, n: Value) -> Value:
    """y * 2^n for an integral n of up to twice the exponent's range, rounded once.

    AVX-512 has the instruction (``ldexp`` becomes ``vscalef``); elsewhere 2^n is two factors, each
    inside the exponent range, the first of which leaves y exact.
    """
    if e.target.has_masks:
        return e.intrinsic(
            "ldexp",
            [y, e.cast("fptosi", n, "i32")],
            overload=f"{e.mangle(y.kind)}.{e.mangle('i32')}",
        )
    one = e.magic() + e.exponent_bias
    first = n * 0.5 + one
    second = n + (2 * one - first)
    return y * power_of_two(e, first) * power_of_two(e, second)


def exp_parts32(e: Emitter, x: Value) -> tuple[Value, Value]:
    """(n, exp(r)) for x inside the clamped range."""
    shifted = e.fma(x, LOG2_E, e.magic())
    n = shifted - e.magic()
    r = e.negative_fma(n, LN2_LOW32, e.negative_fma(n, LN2_HIGH32, x))
    if e.target.has_fma:
        return n, e.fma(r, e.polynomial(r, EXP32), 1.0)
    return n, r * r * e.polynomial(r, EXP32[1:]) + r + 1.0


def exp32(e: Emitter, x: Value) -> Value:
    """exp in float32: 14 instructions with AVX-512, 18 with AVX2.

    Beyond the clamp the result is infinity or zero already; denormal results come out of ``scale``.
    """
    n, y = exp_parts32(e, e.at_least(e.at_most(x, 89.0), -104.5))
    return scale(e, y, n)


def sigmoid32(e: Emitter, x: Value) -> Value:
    """1 / (1 + exp(-x)) as t - t z for x < 0 and 1 - z else, with t = exp(-|x|) and z = t / (1 +
    t).

    t <= 1, so nothing overflows, and results down to the least denormal keep their accuracy; z is
    at most 1/2, so that its errors count little. 20 instructions, one division.
    """
    n, y = exp_parts32(e, e.at_least(-e.abs(x), -104.5))
    # n <= 0: 2^(n + 30) is in the exponent's range for all n, and the last product alone rounds.
    t = y * power_of_two(e, n + (e.magic() + e.exponent_bias + 30)) * 2.0**-30
    a = e.select(x < 0.0, t, 1.0)
    return e.negative_fma(a, t / (1.0 + t), a)
