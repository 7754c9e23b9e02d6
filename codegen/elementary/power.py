"""power: floats by logarithm and exponential with enough extra precision, integers by squaring.

float32 is computed in float64, whose logarithm has bits to spare. In float64 the error of log2(x)
is multiplied by up to 2^10 in the exponent, so that log2(x), times y, is carried as a sum of two
doubles of about 68 bits (Muller et al., "Handbook of Floating-Point Arithmetic", ch. 4 and 10).

With tables in registers (AVX-512) log x is carried as a number and the small rest, to about 2^-34
(float64: 2^-64) of it: multiplied by y and put into exp, an error counts up to 2^7 (2^10) times.
All that is large in it is exact, or comes with its rounding error: k log 2 - log c, f and f^2 / 2
(``log_table``).
"""

from __future__ import annotations

import math

from ...ir.dataclass import dataclass
from .emitter import Emitter, Value
from .exp import EXP2, HIGHEST2, LOWEST2, exp_of_sum, power_of_two, scale
from .log import split
from .log_table import applies, is_reducible, reduce, start

# log(1 + f) = f - f^2 / 2 + f^3 P(f), |f| <= 0.0342
CUBIC32 = (0.33333325386047363, -0.24999988079071045, 0.20022816956043243, -0.16691437363624573)
CUBIC64 = (
    0.3333333333333333, -0.24999999999998365, 0.20000000000009482, -0.16666666678166514,
    0.14285714273864067, -0.12499973324614255, 0.11111105665214081, -0.10025165424674683,
    0.09108281773092304,
)  # fmt: skip
CUBIC = {"float": CUBIC32, "double": CUBIC64}
MOST = {"float": 87.0, "double": 708.0}  # of the result's logarithm, either way: no denormals


def power_by_table(e: Emitter, u: Value, y: Value) -> tuple[Value, Value]:
    """(u^y, whether it is right) for positive finite u and y and results far from the ends."""
    reduced = reduce(e, u)
    begin, f = start(e, reduced), reduced.f
    square = f * f
    low = e.fma(square * f, e.polynomial(f, CUBIC[e.kind]), begin.low)
    low = e.fma(e.fma(f, f, -square), -0.5, low)
    first = begin.high + f
    high = e.fma(square, -0.5, first)
    low = low + (((begin.high - first) + f) + e.fma(square, -0.5, first - high))

    exponent = y * high
    rest = e.fma(y, low, e.fma(y, high, -exponent))
    result = exp_of_sum(e, exponent, rest)
    return result, is_reducible(e, u) & (e.abs(exponent) < MOST[e.kind])


# log2((1 + s) / (1 - s)) = s * P(s^2), to 2^-45
LOG2_SERIES32 = (
    2.8853900817779268, 0.961796693926104, 0.5770780162874942, 0.4121985971775243,
    0.3205974686667677, 0.2623861267309249, 0.21966202899515602, 0.22556424756977417,
)  # fmt: skip
# 2^r = 1 + r * P(r), |r| <= 1/2, to 2^-40
EXP2_SHORT = (
    0.6931471805457751, 0.24022650695641065, 0.05550410941949539, 0.009618129200731162,
    0.0013333449810604588, 0.00015403427572210712, 1.5310287535109337e-05,
    1.3261077703842058e-06,
)  # fmt: skip
# log((1 + s) / (1 - s)) = 2 s + 2 s z (1/3 + z P(z)), z = s^2
LOG_FIFTH64 = (
    0.2000000000000121, 0.14285714285008336, 0.11111111267628294, 0.09090891490813686,
    0.07693411511859978, 0.0662762389303927, 0.06605622688962051,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pair:
    """high + low, low being small: twice the precision."""

    high: Value
    low: Value


def product(e: Emitter, a: Value, b: Value | float) -> Pair:
    """a * b and its rounding error: by FMA, or by Dekker's splitting of both into halves."""
    p = a * b
    if e.target.has_fma:
        return Pair(p, e.fma(a, b, -p))
    mask = -(1 << 27)
    b = e.value(b, a.kind)
    a_high, b_high = e.float_of_bits(e.bits(a) & mask), e.float_of_bits(e.bits(b) & mask)
    a_low, b_low = a - a_high, b - b_high
    return Pair(p, (a_high * b_high - p + a_high * b_low + a_low * b_high) + a_low * b_low)


def quick_sum(a: Value | float, b: Value) -> Pair:
    """a + b and its rounding error, for |a| >= |b| (Dekker's Fast2Sum)."""
    s = a + b
    return Pair(s, b - (s - a))


def times(e: Emitter, a: Pair, b: Pair) -> Pair:
    p = product(e, a.high, b.high)
    return quick_sum(p.high, p.low + (a.high * b.low + a.low * b.high))


def log2_pair(e: Emitter, x: Value) -> Pair:
    """log2 of positive finite x in double, to about 2^-68 relative."""
    k, f = split(e, x)
    d = f + 2.0
    lost = f - (d - 2.0)
    inverse = 1.0 / d
    s = f * inverse
    back = product(e, s, d)
    s_low = ((f - back.high) - back.low - s * lost) * inverse
    z = product(e, s, s)
    z = Pair(z.high, z.low + 2.0 * (s * s_low))
    third = 1 / 3
    inner = quick_sum(third, z.high * e.polynomial(z.high, LOG_FIFTH64))
    inner = Pair(inner.high, inner.low + 1.850371707708594e-17)
    t = times(e, z, inner)
    factor = quick_sum(1.0, t.high)
    factor = Pair(factor.high, factor.low + t.low)
    mantissa = times(e, Pair(s, s_low), factor)
    two_over_ln2 = Pair(e.constant(2.8853900817779268), e.constant(4.0710547481862066e-17))
    mantissa = times(e, mantissa, two_over_ln2)
    total = k + mantissa.high
    return quick_sum(total, (k - total) + mantissa.high + mantissa.low)


def power(e: Emitter, x: Value, y: Value) -> Value:
    """x^y of floats: by tables in registers where available.

    The code without tables handles zeros, infinities, denormals, and results close to the ends of
    the range; signs are handled where some x is negative. In full registers a branch decides
    whether there are any: such numbers are few or many. A scalar takes branches, too, since nothing
    else hides the latency of code whose result is not used.
    """
    plain = magnitude32 if e.kind == "float" else magnitude64
    u = e.abs(x)
    if not e.has_tables:
        magnitude = plain(e, x, y)
        if e.lanes > 1:
            return with_sign(e, x, y, magnitude)
        return signed_rarely(e, x, y, magnitude, (x > 0.0) & (x < math.inf) & ~y.is_nan())
    if applies(e):
        quick, right = power_by_table(e, u, y)
        (exact,) = e.rarely(~right, [quick], lambda: [e.select(right, quick, plain(e, x, y))])
        return signed_rarely(e, x, y, exact, right & (x > 0.0))

    def marked(wide: Emitter, u: Value, y: Value) -> Value:
        result, right = power_by_table(wide, u, y)
        return wide.select(right, result, wide.constant(math.nan))

    quick = e.in_full_register(u, marked, y)
    if e.lanes == 1:
        wrong = quick.is_nan()
        (exact,) = e.rarely(wrong, [quick], lambda: [plain(e, x, y)])
        return signed_rarely(e, x, y, exact, ~wrong & (x > 0.0))
    return with_sign(e, x, y, e.select(quick.is_nan(), plain(e, x, y), quick))


def signed_rarely(e: Emitter, x: Value, y: Value, magnitude: Value, usual: Value) -> Value:
    """``with_sign`` by a branch; ``usual`` is true where the magnitude is x^y already."""
    return e.rarely(~usual, [magnitude], lambda: [with_sign(e, x, y, magnitude)])[0]


def magnitude64(e: Emitter, x: Value, y: Value) -> Value:
    """|x|^y in float64, for positive finite |x|."""
    logarithm = log2_pair(e, e.abs(x))
    # Beyond 2^1000, y only says on which side of 1 |x| is.
    bounded = e.at_least(e.at_most(y, 2.0**900), -(2.0**900))
    exponent = product(e, bounded, logarithm.high)
    low = e.fma(bounded, logarithm.low, exponent.low)
    high = e.at_least(e.at_most(exponent.high, HIGHEST2["double"]), LOWEST2["double"])
    n = high + e.magic() - e.magic()
    low = e.select(high.equals(exponent.high), low, e.constant(0.0))
    r = (high - n) + low
    biased = n + (e.magic() + 2 * e.exponent_bias)
    return scale(e, e.fma(r, e.polynomial(r, EXP2["double"]), 1.0), biased)


def magnitude32(e: Emitter, x: Value, y: Value) -> Value:
    """|x|^y in float32 by doubles, for positive finite |x|."""
    wide = e.twin("float64")
    wide_y = wide.adopt(e.widen(y))
    k, f = split(wide, wide.adopt(e.widen(e.abs(x))), normal=True)
    s = f / (f + 2.0)
    logarithm = wide.fma(s, wide.polynomial(s * s, LOG2_SERIES32), k)
    exponent = wide.at_most(wide_y, 2.0**900)
    exponent = wide.at_least(exponent, -(2.0**900)) * logarithm
    exponent = wide.at_least(wide.at_most(exponent, 200.0), -200.0)
    shifted = exponent + wide.magic()
    n = shifted - wide.magic()
    r = exponent - n
    y2 = wide.fma(r, wide.polynomial(r, EXP2_SHORT), 1.0)
    magnitude = y2 * power_of_two(wide, shifted + float(wide.exponent_bias))
    return e.adopt(e.narrow(magnitude))


def is_integer(e: Emitter, v: Value) -> Value:
    """True where v >= 0 is integral; also of infinity."""
    limit = 2.0**e.fraction_bits
    return (v >= limit) | (v + limit - limit).equals(v)


def with_sign(e: Emitter, x: Value, y: Value, magnitude: Value) -> Value:
    """x^y from |x|^y for positive finite |x|: zeros, infinities, NaN, signs, as IEEE 754's pow."""
    u, v = e.abs(x), e.abs(y)
    zero, one = e.constant(0.0), e.constant(1.0)
    nan = e.constant(math.nan)
    extreme = u.equals(0.0) | u.equals(math.inf)
    grows = u.equals(math.inf) ^ (y < 0.0)
    result = e.select(extreme, e.select(grows, e.constant(math.inf), zero), magnitude)
    negative = e.bits(x) < 0
    whole = is_integer(e, v)
    odd = whole & ~is_integer(e, v * 0.5)
    result = e.select(negative & odd, -result, result)
    result = e.select((x < 0.0) & ~(whole | extreme), nan, result)
    result = e.select(x.compare("uno", "ne", y), nan, result)
    return e.select(y.equals(0.0) | x.equals(1.0), one, result)


def unsigned_power(e: Emitter, x: Value, y: Value) -> Value:
    """x^y modulo the width, by squaring."""
    state = e.repeat(
        (e.constant(1), x, y),
        lambda now: now[2].differs(0),
        lambda now: (
            e.select((now[2] & 1).differs(0), now[0] * now[1], now[0]),
            now[1] * now[1],
            now[2].logical_shift_right(1),
        ),
    )
    return state[0]


def signed_power(e: Emitter, x: Value, y: Value) -> Value:
    """x^y modulo the width. Where y < 0 (NumPy raises ValueError) it is 1 / x^-y truncated.

    So x = 1 gives 1, x = -1 gives 1 or -1 by y's parity, and every other x, 0 included, gives 0.
    """
    negative = y < 0
    unit = x.equals(1) | x.equals(-1)
    result = unsigned_power(e, x, e.select(negative, y & 1, y))
    return e.select(negative & ~unit, e.constant(0), result)
