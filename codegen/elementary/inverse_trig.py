"""asin, acos, atan and atan2.

asin has a polynomial up to 1/2; beyond, asin(x) = pi / 2 - 2 asin(sqrt((1 - x) / 2)). atan brings
its operand below tan(pi / 8) by the tangent of a difference, with one division for both operands of
atan2 (Muller, "Elementary Functions", ch. 11).
"""

from __future__ import annotations

import math

from .emitter import Emitter, Value

# asin(x) = x + x * y * P(y), y = x^2 <= 1/4
ASIN32 = (
    0.16666752099990845, 0.0749531239271164, 0.04546862468123436, 0.024187734350562096,
    0.04215295985341072,
)  # fmt: skip
ASIN64 = (
    0.16666666666665408, 0.07500000000336994, 0.044642856828410786, 0.03038195913190086,
    0.02237175820118994, 0.017359702130363187, 0.013885264504759035, 0.012169003690512858,
    0.0065289397944399774, 0.019525470345147903, -0.01621965513692549, 0.03190899216106734,
)  # fmt: skip
ASIN = {"float": ASIN32, "double": ASIN64}
# atan(x) = x + x * y * P(y), y = x^2 <= tan(pi / 8)^2
ATAN32 = (
    -0.33333316445350647, 0.19998528063297272, -0.14244385063648224, 0.10599071532487869,
    -0.06089673936367035,
)  # fmt: skip
ATAN64 = (
    -0.3333333333333319, 0.19999999999952306, -0.14285714280076733, 0.11111110777825015,
    -0.09090897603770283, 0.07692057593613771, -0.06663075368390953, 0.058476875361322435,
    -0.05038422643340652, 0.03804275779947579, -0.01788392806074591,
)  # fmt: skip
ATAN = {"float": ATAN32, "double": ATAN64}

PI_HALF_HIGH = {"float": 1.5707963705062866, "double": 1.5707963267948966}
PI_HALF_LOW = {"float": -4.371139000186241e-08, "double": 6.123233995736766e-17}


def asin_parts(e: Emitter, x: Value) -> tuple[Value, Value, Value]:
    """(is |x| <= 1/2, s, t) with asin(s) = s + t; s = |x|, or sqrt((1 - |x|) / 2) beyond 1/2."""
    u = e.abs(x)
    near = u <= 0.5
    half = e.fma(u, -0.5, 0.5)
    y = e.select(near, u * u, half)
    s = e.select(near, u, e.sqrt(half))
    return near, s, s * (y * e.polynomial(y, ASIN[e.kind]))


def asin(e: Emitter, x: Value) -> Value:
    """The arc sine; NaN outside [-1, 1]."""
    near, s, t = asin_parts(e, x)
    high, low = PI_HALF_HIGH[e.kind], PI_HALF_LOW[e.kind]
    far = high - (2.0 * s - (low - 2.0 * t))
    return e.copysign(e.select(near, s + t, far), x)


def acos(e: Emitter, x: Value) -> Value:
    """2 asin(...) for x > 1/2, pi - 2 asin(...) for x < -1/2, pi / 2 - asin(x) between."""
    near, s, t = asin_parts(e, x)
    high, low = PI_HALF_HIGH[e.kind], PI_HALF_LOW[e.kind]
    negative = x < 0.0
    signed_s, signed_t = e.copysign(s, x), e.copysign(t, x)
    middle = high - (signed_s - (low - signed_t))
    above = 2.0 * (s + t)
    below = 2.0 * (high - (s - (low - t)))
    return e.select(near, middle, e.select(negative, below, above))


def angle(e: Emitter, y: Value, x: Value, negative: Value | None = None) -> Value:
    """The angle of (x, y) for y, x >= 0 (of (-x, y) where ``negative``), by one division.

    Below tan(pi / 8) the atan of y / x; up to its inverse pi / 4 + atan((y - x) / (y + x)); beyond
    pi / 2 - atan(x / y). Not both operands may be zero or infinite.
    """
    middle = y > x * 0.41421356
    above = y > x * 2.4142135
    numerator = e.select(above, -x, e.select(middle, y - x, y))
    denominator = e.select(above, y, e.select(middle, y + x, x))
    high, low = PI_HALF_HIGH[e.kind], PI_HALF_LOW[e.kind]
    zero = e.constant(0.0)
    base = e.select(above, e.constant(high), e.select(middle, e.constant(high / 2), zero))
    rest = e.select(above, e.constant(low), e.select(middle, e.constant(low / 2), zero))
    if negative is not None:
        base = e.select(negative, 2 * high - base, base)
        rest = e.select(negative, 2 * low - rest, rest)
        numerator = e.select(negative, -numerator, numerator)
    q = numerator / denominator
    z = q * q
    return base + (q + e.fma(q, z * e.polynomial(z, ATAN[e.kind]), rest))


def atan(e: Emitter, x: Value) -> Value:
    """The arc tangent, in [-pi/2, pi/2]."""
    return e.copysign(angle(e, e.abs(x), e.constant(1.0)), x)


def atan2(e: Emitter, y: Value, x: Value) -> Value:
    """The angle of the point (x, y); signed zeros and infinities as IEEE 754 has them."""
    v, u = e.abs(y), e.abs(x)
    # Big operands are scaled, so that their sum is finite; equal extremes are replaced.
    largest = e.select(v > u, v, u)
    factor = e.select(largest > 2.0 ** (e.exponent_bias - 5), e.constant(0.25), 1.0)
    infinite = (v.equals(math.inf)) & (u.equals(math.inf))
    v_scaled = e.select(infinite, e.constant(1.0), v * factor)
    u_scaled = e.select(infinite, e.constant(1.0), u * factor)
    u_scaled = e.select((v + u).equals(0.0), e.constant(1.0), u_scaled)
    return e.copysign(angle(e, v_scaled, u_scaled, negative=e.bits(x) < 0), y)
