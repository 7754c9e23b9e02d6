"""The error function."""

from __future__ import annotations

import math

from .emitter import Emitter, Value

__all__ = ["erf32"]

# erf(x) = x + x * P(x^2) below the border
ERF32 = (
    0.12837916612625122,
    -0.3761262893676758,
    0.11283621937036514,
    -0.02685527130961418,
    0.005190561059862375,
    -0.0008020166424103081,
    7.831933908164501e-05,
)
# The border is chosen so that sqrt(erfc(border)) is a float32 number to 37 bits.
BORDER32, ROOT_SQUARED32 = 0.871244490146637, 0.46679985523223877
# erf(border + t) = 1 - (root + t * P(t))^4, 0 <= t <= 3.08
ERFC32 = (
    -0.41403818130493164,
    -0.01563478447496891,
    0.05212436243891716,
    -0.0007154581835493445,
    -0.005338766146451235,
    0.000345226057106629,
    0.000496363325510174,
    -0.00013753818348050117,
    1.1541603271325585e-05,
)


def erf32(e: Emitter, x: Value) -> Value:
    """erf in float32: an odd polynomial below 0.871, and one minus the fourth power of one above.

    The fourth root of erfc is smooth enough for a short polynomial. Its square is put together from
    the value at the border and the rest, which is small where erfc is large. 27 instructions, no
    division.
    """
    y = x * x
    small = e.fma(x, e.polynomial(y, ERF32), x)

    u = e.at_most(e.abs(x), 3.95)
    t = u - BORDER32
    rest = t * e.polynomial(t, ERFC32)
    square = e.fma(rest, rest + 2 * math.sqrt(ROOT_SQUARED32), ROOT_SQUARED32)
    large = e.negative_fma(square, square, 1.0)
    return e.copysign(e.select(u < BORDER32, small, large), x)
