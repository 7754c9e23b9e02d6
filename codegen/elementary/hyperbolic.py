"""tanh, sinh, cosh and their inverses.

Near 0 an odd polynomial or the accurate difference exp(x) - 1 avoids cancellation; elsewhere the
definitions serve. The inverses are logarithms of 1 + something computed without cancellation.
"""

from __future__ import annotations

import math

from .emitter import Emitter, Value
from .exp import (
    HIGHEST,
    LOG2_E,
    exp_minus_one,
    exp_of_rest,
    power_of_two,
    scale,
    split,
    two_exponentials_by_table,
)
from .log import log1p_of
from .pieces import Pieces

# tanh(x) = x + x * y * P(y), y = x^2 <= 1
TANH32 = (
    -0.33333295583724976, 0.13332346081733704, -0.05387985333800316, 0.02148672565817833,
    -0.007946126163005829, 0.002301334636285901, -0.00035843331716023386,
)  # fmt: skip
# exp(2 r) - 1 = r * P(r), |r| <= ln2 / 4
EXPM1_TWICE32 = (
    2.0, 2.0, 1.3333213329315186, 0.6666632294654846, 0.2678130269050598, 0.08919145911931992,
)  # fmt: skip


# sinh(x) = x + x * y * P(y), y = x^2 <= 1
SINH32 = (0.1666666716337204, 0.00833331048488617, 0.0001984289410756901, 2.782230694720056e-06)
SINH64 = (
    0.16666666666666666, 0.008333333333333571, 0.00019841269841063883, 2.7557319308616368e-06,
    2.5052089791382516e-08, 1.606128885324126e-10, 7.506609329065414e-13, 6.387394215824887e-15,
)  # fmt: skip
# atanh(x) = x + x * y * P(y), |x| <= 0.3
ATANH32 = (0.3333328068256378, 0.20005537569522858, 0.14105163514614105, 0.1338929384946823)
SINH = {"float": SINH32, "double": SINH64}
TANH = Pieces(math.tanh, offset=1.0, places=3, top=9.0, count=32, degree=5)


def tanh(e: Emitter, x: Value) -> Value:
    """tanh in float32: an odd polynomial below 1, and 1 - 2 / (exp(2 |x|) + 1) above.

    exp(2 |x|) = 2^n (1 + w): with w the denominator is one fused operation, 2^n w + (2^n + 1), so
    that the quotient (at most 0.24) brings a small share of the error only. 31 instructions, one
    division; with AVX-512 it is done by pieces. In float64 it is w / (w + 2), w = exp(2 |x|) - 1.
    """
    if e.kind == "double":
        n, r = split(e, e.at_most(e.abs(x), 20.0) * 2.0)
        two_n = power_of_two(e, n + (e.magic() + e.exponent_bias))
        w = e.fma(two_n, exp_minus_one(e, r), two_n - 1.0)
        return e.copysign(e.select(e.abs(x) < 2.0**-28, e.abs(x), w / (w + 2.0)), x)
    if e.has_tables:
        return e.in_full_register(x, TANH.code)
    # Without FMA the polynomial's own roundings are too many for 1 ulp: it is done in doubles.
    v = x if e.target.has_fma else e.widen(x)
    y = v * v
    small = e.fma(v, y * e.polynomial(y, TANH32), v)
    small = small if e.target.has_fma else e.narrow(small)

    u = e.at_most(e.abs(x), 9.02)
    shifted = e.fma(u, 2 * LOG2_E, e.magic() + e.exponent_bias)
    n = shifted - (e.magic() + e.exponent_bias)
    r = e.negative_fma(n, math.log(2) / 2, u)
    w = r * e.polynomial(r, EXPM1_TWICE32)
    two_n = power_of_two(e, shifted)
    large = 1.0 - 2.0 / e.fma(two_n, w, two_n + 1.0)
    return e.copysign(e.select(u < 1.0, small, large), x)


def two_exponentials(e: Emitter, u: Value, sign: float) -> Value:
    """(exp(u) + sign exp(-u)) / 2 for u >= 0; infinite where that is out of range."""
    if e.has_tables:
        return e.in_full_register(u, lambda wide, u: two_exponentials_by_table(wide, u, sign))
    n, r = split(e, e.at_most(u, HIGHEST[e.kind] + 1.0))
    half = scale(e, exp_of_rest(e, r), n + (e.magic() + 2 * e.exponent_bias - 1))
    return half + (0.25 * sign) / half


def sinh(e: Emitter, x: Value) -> Value:
    """sinh: an odd polynomial below 1, else the definition."""
    y = x * x
    small = e.fma(x, y * e.polynomial(y, SINH[e.kind]), x)
    u = e.abs(x)
    return e.copysign(e.select(u < 1.0, small, two_exponentials(e, u, -1.0)), x)


def cosh(e: Emitter, x: Value) -> Value:
    """cosh by its definition."""
    return two_exponentials(e, e.abs(x), 1.0)


def asinh(e: Emitter, x: Value) -> Value:
    """asinh(x) = log(1 + u + u^2 / (1 + sqrt(1 + u^2))), u = |x|; log(u) + ln2 where u is huge."""
    u = e.abs(x)
    big = u > 2.0 ** (e.fraction_bits + 4)  # 1 + u is u, and its square far from overflow
    y = e.select(big, e.constant(0.0), u * u)
    t = u + y / (1.0 + e.sqrt(1.0 + y))
    result = log1p_of(e, t) + e.select(big, e.constant(math.log(2)), 0.0)
    return e.copysign(e.select(u < 2.0 ** -(e.fraction_bits // 2 + 2), u, result), x)


def acosh(e: Emitter, x: Value) -> Value:
    """acosh(x) = log(1 + t + sqrt(t (t + 2))), t = x - 1; log(x) + ln2 where x is huge."""
    big = x > 2.0 ** (e.fraction_bits + 4)
    t = x - 1.0
    root = e.select(big, e.constant(0.0), e.sqrt(e.fma(t, t, 2.0 * t)))
    result = log1p_of(e, t + root) + e.select(big, e.constant(math.log(2)), 0.0)
    return e.select(x < 1.0, e.constant(math.nan), e.select(x.equals(1.0), e.constant(0.0), result))


def atanh(e: Emitter, x: Value) -> Value:
    """atanh(x) = log(1 + 2 u / (1 - u)) / 2, u = |x|; in float32 an odd polynomial up to 0.3."""
    u = e.abs(x)
    # NaN for u > 1: the quotient is below -2. In float32 the logarithm is at least 0.6 where it
    # counts.
    result = 0.5 * log1p_of(e, u / e.fma(u, -0.5, 0.5), roughly=e.kind == "float")
    if e.kind == "float":
        y = x * x
        return e.copysign(e.select(u < 0.3, e.fma(u, y * e.polynomial(y, ATANH32), u), result), x)
    return e.copysign(e.select(u < 2.0 ** -(e.fraction_bits // 2 + 2), u, result), x)
