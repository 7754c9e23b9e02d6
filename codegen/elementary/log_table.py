"""Logarithms of float32 to base 2 and 10 with tables in registers (AVX-512).

x = 2^k m, 1 <= m < 2, and m c = 1 + f, as in ``power_table``: log x = (k log 2 - log c) + log(1 +
f). Both parts of the sum in brackets are cut so short that it is exact; what was cut off comes with
the polynomial. Close to 1 the bracket is zero.
"""

from __future__ import annotations

import math

from .emitter import Emitter, Value
from .power_table import FACTORS, short

__all__ = ["log_by_table"]

# log(1 + f) / log(base) = f * P(f), |f| <= 1 / 16
LOG2_SHORT32 = (
    1.4426950216293335,
    -0.7213475108146667,
    0.4809325933456421,
    -0.3606906235218048,
    0.280976802110672,
    -0.237106055021286,
)
LOG10_SHORT32 = (
    0.4342944920063019,
    -0.21714724600315094,
    0.14474551379680634,
    -0.10856377333402634,
    0.09182032197713852,
    -0.07504376769065857,
)
POLYNOMIALS = {2: LOG2_SHORT32, 10: LOG10_SHORT32}
PLACES = 12  # binary ones that the exact parts have


def log_by_table(e: Emitter, x: Value, base: int) -> Value:
    """The logarithm of positive normal x, in a full register."""
    step = math.log(2, base) if base != 2 else 1.0
    logs = [-math.log2(c) * step for c in FACTORS]
    bits = e.bits(x)
    which = bits.logical_shift_right(e.fraction_bits - 4)
    m = e.float_of_bits((bits & 0x007FFFFF) | 0x3F800000)
    f = e.fma(m, e.lookup(FACTORS, which), -1.0)
    k = e.cast("sitofp", (bits - 0x3F800000) >> e.fraction_bits, "float")
    start = e.fma(k, short(step, PLACES), e.lookup([short(v, PLACES) for v in logs], which))
    left = e.lookup([v - short(v, PLACES) for v in logs], which)
    if base != 2:
        left = e.fma(k, step - short(step, PLACES), left)
    return start + e.fma(f, e.polynomial(f, POLYNOMIALS[base]), left)
