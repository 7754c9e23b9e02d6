"""rsqrt and cbrt."""

from __future__ import annotations

import math

from .emitter import Emitter, Value
from .exp import power_of_two
from .log import integer_to_float

__all__ = ["cbrt", "rsqrt"]

# z^(-1/3) on [1/2, 4), to 2^-8
INVERSE_ROOT = (
    1.7951497617208718,
    -1.5030119310627972,
    1.0264972893627493,
    -0.38874792206718817,
    0.07439649993861253,
    -0.005609968632378034,
)


def rsqrt(e: Emitter, x: Value) -> Value:
    """1 / sqrt(x), both correctly rounded: 1.5 ulp."""
    return 1.0 / e.sqrt(x)


def inverse_root_step(e: Emitter, r: Value, z: Value) -> Value:
    """A better z^(-1/3): with h = 1 - z r^3 the error h / 3 becomes about h^3 / 6."""
    h = e.negative_fma(z * r, r * r, 1.0)
    return e.fma(r * h, e.fma(h, 2 / 9, 1 / 3), r)


def cbrt(e: Emitter, x: Value) -> Value:
    """The cube root of |x| = 2^(3 q) z, 1/2 <= z < 4, as 2^q z r^2 with r = z^(-1/3).

    A last step of Newton's repairs the rounding, the derivative 3 y^2 = 3 / r^2 being at hand.
    """
    one = e.magic() + e.exponent_bias
    up = 24 if e.kind == "float" else 54
    u = e.abs(x)
    small = u < 2.0 ** (1 - e.exponent_bias)
    bits = e.bits(e.select(small, u * 2.0**up, u))
    k = integer_to_float(e, bits.logical_shift_right(e.fraction_bits) - e.exponent_bias)
    q = e.fma(k, 1 / 3, e.magic()) - e.magic()
    significand = e.float_of_bits(
        (bits & ((1 << e.fraction_bits) - 1)) | (e.exponent_bias << e.fraction_bits)
    )
    z = significand * power_of_two(e, e.negative_fma(q, 3.0, k) + one)
    r = e.polynomial(z, INVERSE_ROOT)
    for _ in range(1 if e.kind == "float" else 2):
        r = inverse_root_step(e, r, z)
    square = r * r
    y = z * square
    y = e.negative_fma(e.fma(y * y, y, -z), square * (1 / 3), y)
    q = q - e.select(small, e.constant(up / 3), 0.0)
    y = y * power_of_two(e, q + one)
    return e.copysign(e.select(u < math.inf, e.select(u > 0.0, y, u), x), x)
