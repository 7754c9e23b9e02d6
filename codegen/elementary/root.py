"""The cube root."""

from __future__ import annotations

import math
from fractions import Fraction

from .emitter import Emitter, Value
from .exp import power_of_two
from .log import integer_to_float

# z^(-1/3) on [1/2, 4), to 2^-8
INVERSE_ROOT = (
    1.7951497617208718, -1.5030119310627972, 1.0264972893627493, -0.38874792206718817,
    0.07439649993861253, -0.005609968632378034,
)  # fmt: skip
# (1 + f)^(1/3) = 1 + f * P(f), |f| <= 0.0645 and 0.1130
CBRT32 = (0.33333316445350647, -0.11111093312501907, 0.0618872307240963, -0.041289810091257095)
CBRT64 = (
    0.3333333333333332, -0.11111111111119026, 0.061728395062050266, -0.04115226328680907,
    0.030178326276790485, -0.023472063231068943, 0.01900121905932943, -0.015829364778367577,
    0.01348226033650209, -0.012040598004506525, 0.010639526407919202,
)  # fmt: skip
# Cube roots of numbers in the middle of the eighths (quarters) of the octaves [1/2, 1), [1, 2),
# [2, 4), in units of 2^-12 (2^-16): those whose reciprocal cubes are nearly floats (doubles).
ROOTS32 = (
    *(3321, 3439, 3558, 3675, 3774, 3876, 3960, 4045),
    *(4188, 4339, 4491, 4631, 4756, 4881, 4994, 5106),
    *(5274, 5469, 5650, 5817, 5991, 6145, 6299, 6438),
)
ROOTS64 = (
    *(54069, 57881, 61165, 64151),
    *(68123, 72838, 77059, 80832),
    *(85886, 91804, 97051, 101800),
)


def root_columns(kind: str) -> tuple[list[float], list[float]]:
    """(c, t) with t^3 c = 1, by the leading bits of the operand.

    They are the two lowest bits of the exponent and three (doubles: two) of the fraction: the order
    is that of [2, 4), nothing, [1/2, 1), [1, 2), as the bias ends in 11.
    """
    roots, places = (ROOTS32, 12) if kind == "float" else (ROOTS64, 16)
    size = len(roots) // 3
    exact = [Fraction(root, 1 << places) for root in roots]
    low, middle, high = (exact[i * size : (i + 1) * size] for i in range(3))
    columns = [*high, *[Fraction(1)] * size, *low, *middle]
    return [float(1 / t**3) for t in columns], [float(t) for t in columns]


def cbrt_by_table(e: Emitter, x: Value) -> Value:
    """The cube root of |x| = 2^(3 q) z, 1/2 <= z < 4, as 2^q t (1 + f)^(1/3) with f = c z - 1.

    t is exact and c = t^-3 nearly so (S. Gal: "Computing elementary functions: a new approach for
    achieving high accuracy and good performance", 1986): the last rounding is nearly the only one.
    """
    inverses, roots = root_columns(e.kind)
    k = e.exponent_of(x)
    q = e.fma(k, 1 / 3, e.magic()) - e.magic()
    z = e.scale_by_floor(e.significand_of(x), e.negative_fma(q, 3.0, k))
    which = e.bits(z).logical_shift_right(e.fraction_bits - (3 if e.kind == "float" else 2))
    f = e.fma(z, e.lookup(inverses, which), -1.0)
    t = e.lookup(roots, which)
    y = e.fma(t * f, e.polynomial(f, CBRT32 if e.kind == "float" else CBRT64), t)
    result = e.copysign(e.scale_by_floor(y, q), x)
    # Zeros and infinities have exponents that are infinite: k - 3 q is NaN.
    return e.select(e.abs(k) < math.inf, result, x)


def cbrt(e: Emitter, x: Value) -> Value:
    """The cube root of |x| = 2^(3 q) z, 1/2 <= z < 4, as 2^q z r^2 with r = z^(-1/3).

    A last step of Newton's repairs the rounding, the derivative 3 y^2 = 3 / r^2 being at hand. With
    tables in registers it is done by them.
    """
    if e.has_tables:
        return e.in_full_register(x, cbrt_by_table)
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
    for _ in range(1 if e.kind == "float" else 2):  # the error h / 3 becomes about h^3 / 6
        h = e.negative_fma(z * r, r * r, 1.0)
        r = e.fma(r * h, e.fma(h, 2 / 9, 1 / 3), r)
    square = r * r
    y = z * square
    y = e.negative_fma(e.fma(y * y, y, -z), square * (1 / 3), y)
    q = q - e.select(small, e.constant(up / 3), 0.0)
    y = y * power_of_two(e, q + one)
    return e.copysign(e.select(u < math.inf, e.select(u > 0.0, y, u), x), x)
