"""tanh, sinh, cosh and their inverses."""

from __future__ import annotations

import math

from .emitter import Emitter, Value
from .exp import LOG2_E, power_of_two

__all__ = ["tanh32"]

# tanh(x) = x + x * y * P(y), y = x^2 <= 1
TANH32 = (
    -0.33333295583724976,
    0.13332346081733704,
    -0.05387984588742256,
    0.02148667350411415,
    -0.00794600322842598,
    0.0023012147285044193,
    -0.0003583915822673589,
)
# exp(2 r) - 1 = r * P(r), |r| <= ln2 / 4
EXPM1_TWICE32 = (
    2.0,
    2.0,
    1.33332097530365,
    0.6666653752326965,
    0.2678295373916626,
    0.08909401297569275,
)


def tanh32(e: Emitter, x: Value) -> Value:
    """tanh in float32: an odd polynomial below 1, and 1 - 2 / (exp(2 |x|) + 1) above.

    exp(2 |x|) = 2^n (1 + w): with w the denominator is one fused operation, 2^n w + (2^n + 1), so
    that the quotient (at most 0.24) brings a small share of the error only. 29 instructions, one
    division.
    """
    y = x * x
    small = e.fma(x, y * e.polynomial(y, TANH32), x)

    u = e.at_most(e.abs(x), 9.02)
    shifted = e.fma(u, 2 * LOG2_E, e.magic() + e.exponent_bias)
    n = shifted - (e.magic() + e.exponent_bias)
    r = e.negative_fma(n, math.log(2) / 2, u)
    w = r * e.polynomial(r, EXPM1_TWICE32)
    two_n = power_of_two(e, shifted)
    large = 1.0 - 2.0 / e.fma(two_n, w, two_n + 1.0)
    return e.copysign(e.select(u < 1.0, small, large), x)
