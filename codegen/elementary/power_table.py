"""Powers of positive float32 in float32, with tables in registers (AVX-512): no doubles.

x = 2^k m, 1 <= m < 2. The leading four bits of m say which c, a multiple of 1/32, it is multiplied
with: f = m c - 1 is exact and at most 1/16, and log2 x = k - log2 c + log2(1 + f). The sum, and its
product with y, are carried as a float32 and what it leaves over, to about 2^-33 of the logarithm;
multiplied by an exponent of at most 2^7 that is far below an ulp (P. T. P. Tang: "Table-driven
implementation of the logarithm function", 1990).
"""

from __future__ import annotations

import math

from .emitter import Emitter, Value
from .exp import EXP2_32

__all__ = ["FACTORS", "applies", "is_normal", "power_by_table", "short"]

# log2(1 + f) = f / ln2 - f^2 / (2 ln2) + f^3 P(f)
LOG2_CUBIC32 = (
    0.48089835047721863,
    -0.36067232489585876,
    0.2885347902774811,
    -0.24150507152080536,
    0.2075812667608261,
)
LOG2_E = 1 / math.log(2)
STEPS = 16
MOST = 125.0  # of the result's logarithm to base 2, either way: no denormals


def applies(e: Emitter) -> bool:
    """Whether the vectors are registers that can be tables."""
    return e.kind == "float" and e.has_tables and e.lanes * e.bit_width == 512


# c for each sixteenth of [1, 2); 1 in the first and 1/2 in the last, so that log 1 is 0
FACTORS = (1.0, *(round(32 / (1 + (j + 0.5) / STEPS)) / 32 for j in range(1, STEPS - 1)), 0.5)


def short(value: float, bits: int) -> float:
    """``value`` in steps of 2^-bits."""
    return math.ldexp(round(math.ldexp(value, bits)), -bits)


def power_by_table(e: Emitter, u: Value, y: Value) -> tuple[Value, Value]:
    """(u^y, whether it is right): for positive normal u, finite y and results far from the ends."""
    shorts = [short(-math.log2(c), 14) for c in FACTORS]
    bits = e.bits(u)
    which = bits.logical_shift_right(e.fraction_bits - 4)
    m = e.float_of_bits((bits & 0x007FFFFF) | 0x3F800000)
    f = e.fma(m, e.lookup(FACTORS, which), -1.0)
    k = e.cast("sitofp", bits.logical_shift_right(e.fraction_bits), "float")
    start = k + e.lookup([s - e.exponent_bias for s in shorts], which)
    left = e.lookup([-math.log2(c) - s for c, s in zip(FACTORS, shorts)], which)

    # f / ln2 and f^2 / (2 ln2), each with its rounding error
    per_f = float(e.rounded(LOG2_E))
    linear = f * per_f
    linear_left = e.fma(f, LOG2_E - per_f, e.fma(f, per_f, -linear))
    square = f * f
    square_left = e.fma(f, f, -square)
    quadratic = square * (-per_f / 2)
    quadratic_left = e.fma(square, -per_f / 2, -quadratic)
    quadratic_left = e.fma(square_left, -per_f / 2, quadratic_left)
    quadratic_left = e.fma(square, (per_f - LOG2_E) / 2, quadratic_left)

    first = start + linear
    high = first + quadratic
    low = e.fma(square * f, e.polynomial(f, LOG2_CUBIC32), left)
    low = low + (linear_left + quadratic_left)
    low = low + ((start - first) + linear) + ((first - high) + quadratic)

    exponent = y * high
    exponent_left = e.fma(y, low, e.fma(y, high, -exponent))
    n = exponent + e.magic() - e.magic()
    r = (exponent - n) + exponent_left
    result = e.scale_by_floor(e.fma(r, e.polynomial(r, EXP2_32), 1.0), n)
    return result, is_normal(bits) & (e.abs(exponent) < MOST)


def is_normal(bits: Value) -> Value:
    """Whether these are the bits of a positive normal float32."""
    return (bits - 0x00800000).compare("", "ult", 0x7F000000)
