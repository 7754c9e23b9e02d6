"""log, log2, log10, log1p.

x = 2^k (1 + f) with 1 + f in [2/3, 4/3), taken apart by integer arithmetic on the representation;
log(1 + f) = f - f^2 / 2 + f^3 P(f) with a minimax P, and k ln2 is added last (Muller et al.,
"Handbook of Floating-Point Arithmetic", ch. 10). Denormal x are scaled up first.
"""

from __future__ import annotations

import math

from .emitter import Emitter, Value
from .exp import LN2_HIGH32, LN2_LOW32

__all__ = ["log32"]

# log(1 + f) = f + f^2 * P(f) on [-1/3, 1/3]
LOG32 = (
    -0.5,
    0.33333197236061096,
    -0.24999919533729553,
    0.20011432468891144,
    -0.16674457490444183,
    0.13989770412445068,
    -0.12272939085960388,
    0.140591099858284,
    -0.12492789328098297,
)
TWO_THIRDS32 = 0x3F2AAAAB


def split32(e: Emitter, x: Value) -> tuple[Value, Value]:
    """(k, f) with x = 2^k (1 + f), -1/3 <= f < 1/3, for positive finite x; k as a float."""
    small = x < 2.0**-126
    bits = e.bits(e.select(small, x * 2.0**23, x))
    exponent = (bits - TWO_THIRDS32) & -(1 << 23)
    f = e.float_of_bits(bits - exponent) - 1.0
    k = e.cast("sitofp", exponent >> 23, "float") + e.select(small, e.constant(-23.0), 0.0)
    return k, f


def outside_domain(e: Emitter, x: Value, result: Value) -> Value:
    """``result``, but -inf at 0, NaN below, and x itself for inf and NaN."""
    result = e.select(x < math.inf, result, x)
    result = e.select(x < 0.0, e.constant(math.nan), result)
    return e.select(x.equals(0.0), e.constant(-math.inf), result)


def add_exponent32(e: Emitter, k: Value, log1p: Value) -> Value:
    """k ln2 + log1p. Without FMA ln2 is split, so that the greater product is exact."""
    if e.target.has_fma:
        return e.fma(k, math.log(2), log1p)
    return k * LN2_HIGH32 + (k * LN2_LOW32 + log1p)


def log32(e: Emitter, x: Value) -> Value:
    """Natural logarithm in float32: 25 instructions."""
    k, f = split32(e, x)
    log1p = e.fma(f * f, e.polynomial(f, LOG32), f)
    return outside_domain(e, x, add_exponent32(e, k, log1p))
