"""The error function."""

from __future__ import annotations

import math

from .emitter import Emitter, Value
from .exp import exp_of_negative
from .pieces import Pieces

# erf(x) = x + x * P(x^2) below the border
ERF32 = (
    0.12837916612625122, -0.3761262893676758, 0.11283621937036514, -0.02685527130961418,
    0.005190561059862375, -0.0008020166424103081, 7.831933908164501e-05,
)  # fmt: skip
# The border is chosen so that sqrt(erfc(border)) is a float32 number to 37 bits.
BORDER32, ROOT_SQUARED32 = 0.871244490146637, 0.46679985523223877
# erf(border + t) = 1 - (root + t * P(t))^4, 0 <= t <= 3.08
ERFC32 = (
    -0.41403818130493164, -0.01563478447496891, 0.05212436243891716, -0.0007154581835493445,
    -0.005338766146451235, 0.000345226057106629, 0.000496363325510174, -0.00013753818348050117,
    1.1541603271325585e-05,
)  # fmt: skip
# erf(x) = x + x * P(x^2), |x| <= 1, in float64
ERF64 = (
    0.1283791670955126, -0.37612638903184076, 0.11283791670969542, -0.026866170647698504,
    0.0052239776492645825, -0.0008548328333642473, 0.00012055378761683956,
    -1.4926703493563886e-05, 1.6478235961289853e-06, -1.6527707360926935e-07,
    1.5819522243714148e-08, -1.5734421291201851e-09, 1.3141988248999493e-10,
)  # fmt: skip
# erfc(x) = exp(-x^2) * P(1 / (x + 2)), 1 <= x <= 6
ERFC64 = (
    2.857116425116529e-05, 0.5629438972110915, 1.1528779232469635, 1.6889446182455377,
    5.000626278848104, -8.58468935315486, 38.821719398567105, -92.1774109869954,
    73.19260460296387, 40.375135085915524, -103.15514309167268, 50.00071116812028,
)  # fmt: skip
ERF = Pieces(math.erf, offset=4.0, places=4, top=4.0 - 2.0**-21, count=16, degree=6)


def erf(e: Emitter, x: Value) -> Value:
    """erf in float32: an odd polynomial below 0.871, and one minus the fourth power of one above.

    The fourth root of erfc is smooth enough for a short polynomial. Its square is put together from
    the value at the border and the rest, which is small where erfc is large. 28 instructions, no
    division; with AVX-512 it is done by pieces. In float64 it is 1 - exp(-x^2) P(1 / (x + 2)) from
    1 on: erfc's other factor is smooth, and errors count by erfc's size, at most 0.16.
    """
    if e.kind == "double":
        y = x * x
        small = e.fma(x, e.polynomial(y, ERF64), x)
        u = e.at_most(e.abs(x), 6.0)
        factor = exp_of_negative(e, -(u * u))
        large = e.negative_fma(factor, e.polynomial(1.0 / (u + 2.0), ERFC64), 1.0)
        return e.copysign(e.select(u < 1.0, small, large), x)
    if e.has_tables:
        return e.in_full_register(x, ERF.code)
    y = x * x
    small = e.fma(x, e.polynomial(y, ERF32), x)
    u = e.at_most(e.abs(x), 3.95)
    t = u - BORDER32
    rest = t * e.polynomial(t, ERFC32)
    # Without FMA the last roundings are too many for 1 ulp: these steps are done in doubles.
    rest = rest if e.target.has_fma else e.widen(rest)
    square = e.fma(rest, rest + 2 * math.sqrt(ROOT_SQUARED32), ROOT_SQUARED32)
    large = e.negative_fma(square, square, 1.0)
    large = large if e.target.has_fma else e.narrow(large)
    return e.copysign(e.select(u < BORDER32, small, large), x)
