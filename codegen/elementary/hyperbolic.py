"""tanh, sinh, cosh and their inverses.

Near 0 an odd polynomial or the accurate difference exp(x) - 1 avoids cancellation; elsewhere the
definitions serve. The inverses are logarithms of 1 + something computed without cancellation.

In float32 tanh may be polynomials of degree 5 whose coefficients are looked up in registers. Row i
of ``TANH_TABLE`` holds one coefficient of each, constant terms first, after the row of the points
they are expanded at. Column j is for 1 + x in the j-th eighth of an octave: [1 + j/8, 1 + (j+1)/8)
and so on up to 16. The points are chosen so that tanh there is a float32 to 29 bits (S. Gal:
"Computing elementary functions: a new approach for achieving high accuracy and good performance",
1986). The first column's is the polynomial of tanh(x) - x. ``python -m tools.elementary.derive
TANH_TABLE`` derives it.
"""

from __future__ import annotations

import math

from .emitter import Emitter, Value
from .exp import (
    HIGHEST,
    LOG2_E,
    exp_minus_one,
    exp_parts,
    power_of_two,
    scale,
    split,
    two_exponentials_by_table,
)
from .log import log1p_of

# fmt: off
TANH_TABLE = (
    (
        0.0, 0.187828064, 0.312478542, 0.437310696, 0.562688351, 0.686957359, 0.813147545,
        0.937092781, 1.12435341, 1.37628651, 1.62427044, 1.87613201, 2.1256237, 2.37613964,
        2.62596035, 2.87363815, 3.25224495, 3.75143623, 4.25204659, 4.75247955, 5.25051117,
        5.75281143, 6.2501812, 6.75001907, 7.51304722, 8.31776619, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0,
    ),
    (
        0.0, 0.185649976, 0.302690238, 0.411412805, 0.509969354, 0.596023798, 0.671322942,
        0.733883679, 0.809077859, 0.880116999, 0.925241292, 0.954146802, 0.971907318, 0.982883751,
        0.989579678, 0.993637383, 0.997011065, 0.998897612, 0.999594808, 0.999851048, 0.999944985,
        0.999979854, 0.999992549, 0.999997258, 0.999999404, 0.999999881, 1.0, 1.0, 1.0, 1.0, 1.0,
        1.0,
    ),
    (
        0.0, 0.965534091, 0.908378601, 0.830739498, 0.739931285, 0.644755661, 0.549325526,
        0.461414754, 0.345393002, 0.225394055, 0.143928558, 0.0896038786, 0.0553961657,
        0.0339395329, 0.0207320619, 0.0126847513, 0.00596893951, 0.00220356183, 0.000810221187,
        0.00029788207, 0.000110027242, 4.02923833e-05, 1.49011084e-05, 5.48361186e-06,
        1.19216736e-06, 2.3838173e-07, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
    ),
    (
        0.0, -0.179251015, -0.27495715, -0.34177655, -0.377342135, -0.384289622, -0.368774861,
        -0.338624746, -0.279451758, -0.198374286, -0.133169025, -0.0854953229, -0.0538398847,
        -0.0333585404, -0.0205159597, -0.0126039963, -0.00595068745, -0.00220097089,
        -0.000809831952, -0.000297815102, -0.00011001464, -4.02895712e-05, -1.48996896e-05,
        -5.48286062e-06, -1.19063134e-06, -2.38523029e-07, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
    ),
    (
        -0.333342671, -0.288571268, -0.219554901, -0.13629891, -0.0542360246, 0.0140978592,
        0.0644413009, 0.0946997479, 0.110969163, 0.0994642153, 0.0752365291, 0.0517074503,
        0.0338621251, 0.0214741379, 0.0133914677, 0.00829557981, 0.00394320348, 0.00146403466,
        0.000539422093, 0.000198472277, 7.33330598e-05, 2.68565454e-05, 9.93297817e-06,
        3.65568121e-06, 7.92663513e-07, 1.60148701e-07, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
    ),
    (
        0.000310650183, 0.113006733, 0.15780513, 0.169691354, 0.153258264, 0.119609892,
        0.0796921179, 0.0434309244, 0.00377085875, -0.021175731, -0.0251366943, -0.0208238773,
        -0.0149761522, -0.0100034168, -0.00642720424, -0.00405130349, -0.00196921104,
        -0.000737133494, -0.000272417732, -0.000100342972, -3.70645648e-05, -1.35708997e-05,
        -5.02703915e-06, -1.8537188e-06, -4.16100477e-07, -7.92361163e-08, 0.0, 0.0, 0.0, 0.0, 0.0,
        0.0,
    ),
    (
        0.130616724, 0.097447291, 0.0439851619, -0.0063347253, -0.0386735983, -0.05566689,
        -0.0592918992, -0.0519727618, -0.0322305709, -0.00959916227, 0.00142006739, 0.00459719822,
        0.00447876006, 0.0034278268, 0.0023505243, 0.00153374672, 0.000771280203, 0.000292837096,
        0.000109034248, 4.02736005e-05, 1.48377385e-05, 5.45915555e-06, 2.01043258e-06,
        7.35743697e-07, 1.70773461e-07, 2.33564883e-08, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
    ),
)
# fmt: on


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


def tanh32_by_table(e: Emitter, x: Value) -> Value:
    """tanh in float32 by one of 32 polynomials: 19 instructions, no division.

    The leading bits of 1 + |x| say which. The first one leaves out the term x, which is exact:
    ``at_least`` puts it in the place of the constant term, which is greater everywhere else.
    """
    u = e.at_most(e.abs(x), 10.0)
    which = e.bits(u + 1.0).logical_shift_right(e.fraction_bits - 3)
    # 1.0's own leading bits are no multiple of the size: the columns begin where they point to.
    first = 0x3F800000 >> (e.fraction_bits - 3)
    at, constant, *slopes = (
        e.lookup([row[(i - first) % len(row)] for i in range(len(row))], which)
        for row in TANH_TABLE
    )
    t = u - at
    slope = slopes[-1]
    for c in reversed(slopes[:-1]):
        slope = e.fma(t, slope, c)
    return e.copysign(e.fma(t, slope, e.at_least(t, constant)), x)


def tanh(e: Emitter, x: Value) -> Value:
    """tanh, in one way for each of the two dtypes."""
    return tanh32(e, x) if e.kind == "float" else tanh64(e, x)


def tanh32(e: Emitter, x: Value) -> Value:
    """tanh in float32: an odd polynomial below 1, and 1 - 2 / (exp(2 |x|) + 1) above.

    exp(2 |x|) = 2^n (1 + w): with w the denominator is one fused operation, 2^n w + (2^n + 1), so
    that the quotient (at most 0.24) brings a small share of the error only. 31 instructions, one
    division; with AVX-512 it is done by table.
    """
    if e.has_tables:
        return e.in_full_register(x, tanh32_by_table)
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


def tanh64(e: Emitter, x: Value) -> Value:
    """tanh in float64 as w / (w + 2), w = exp(2 |x|) - 1."""
    n, r = split(e, e.at_most(e.abs(x), 20.0) * 2.0)
    two_n = power_of_two(e, n + (e.magic() + e.exponent_bias))
    w = e.fma(two_n, exp_minus_one(e, r), two_n - 1.0)
    return e.copysign(e.select(e.abs(x) < 2.0**-28, e.abs(x), w / (w + 2.0)), x)


def half_exp(e: Emitter, magnitude: Value) -> Value:
    """exp(x) / 2 for x >= 0, finite where half of it is."""
    n, y = exp_parts(e, e.at_most(magnitude, HIGHEST[e.kind] + 1.0))
    return scale(e, y, n - 1.0)


def two_exponentials(e: Emitter, u: Value, sign: float) -> Value:
    """(exp(u) + sign exp(-u)) / 2 for u >= 0; infinite where that is out of range."""
    if e.has_tables:
        return e.in_full_register(u, lambda wide, u: two_exponentials_by_table(wide, u, sign))
    t = half_exp(e, u)
    return t + (0.25 * sign) / t


def sinh(e: Emitter, x: Value) -> Value:
    """sinh: an odd polynomial below 1, else the definition."""
    y = x * x
    small = e.fma(x, y * e.polynomial(y, SINH[e.kind]), x)
    u = e.abs(x)
    return e.copysign(e.select(u < 1.0, small, two_exponentials(e, u, -1.0)), x)


def cosh(e: Emitter, x: Value) -> Value:
    """cosh by its definition."""
    return two_exponentials(e, e.abs(x), 1.0)


def huge(e: Emitter) -> float:
    """From here on 1 + x is x, and its square is far from overflow."""
    return 2.0 ** (e.fraction_bits + 4)


def asinh(e: Emitter, x: Value) -> Value:
    """asinh(x) = log(1 + u + u^2 / (1 + sqrt(1 + u^2))), u = |x|; log(u) + ln2 where u is huge."""
    u = e.abs(x)
    big = u > huge(e)
    y = e.select(big, e.constant(0.0), u * u)
    t = u + y / (1.0 + e.sqrt(1.0 + y))
    result = log1p_of(e, t) + e.select(big, e.constant(math.log(2)), 0.0)
    return e.copysign(e.select(u < 2.0 ** -(e.fraction_bits // 2 + 2), u, result), x)


def acosh(e: Emitter, x: Value) -> Value:
    """acosh(x) = log(1 + t + sqrt(t (t + 2))), t = x - 1; log(x) + ln2 where x is huge."""
    big = x > huge(e)
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
