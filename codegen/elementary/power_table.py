"""Powers of positive numbers with tables in registers (AVX-512).

log x is carried as a number and the small rest, to about 2^-34 (float64: 2^-64) of it: multiplied
by y and put into exp, an error counts up to 2^7 (2^10) times. All that is large in it is exact, or
comes with its rounding error: k log 2 - log c, f and f^2 / 2 (``log_table``).
"""

from __future__ import annotations

from .emitter import Emitter, Value
from .exp import exp_of_sum
from .log_table import is_reducible, reduce, start

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
