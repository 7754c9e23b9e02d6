"""truncate_mod, floor_mod and floor_divide of floats, exact as C's fmod and NumPy's rules want it.

The remainder of |x| by |y| is found by long division: each round takes off a multiple q of c = |y|
2^k, k such that q has few enough bits for the product q c to be exact, so that nothing is ever
rounded. Usual quotients need one round; the loop goes on while any lane has something left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .emitter import Emitter, Value


def truncate_mod(e: Emitter, x: Value, y: Value) -> Value:
    """C's fmod: the sign of x, exact; NaN for infinite x and for y = 0. float32 by doubles."""
    wide = e.twin("float64")
    narrow = e.kind == "float"
    u, v = e.abs(x), e.abs(y)
    undefined = u.equals(math.inf) | v.equals(0.0) | x.compare("uno", "ne", y)
    a = e.select(undefined, e.constant(0.0), u)
    if narrow:
        rest = e.narrow(long_division(wide, wide.adopt(e.widen(a)), wide.adopt(e.widen(v)), 28))
        rest = e.adopt(rest)
    else:
        rest = long_division(e, a, v, 48 if e.target.has_fma else 24)
    return e.select(undefined, e.constant(math.nan), e.copysign(rest, x))


def long_division(e: Emitter, a: Value, b: Value, quotient_bits: int) -> Value:
    """a mod b for doubles a >= 0, b > 0."""

    def unfinished(state: Sequence[Value]) -> Value:
        return state[0] >= b

    def one_round(state: Sequence[Value]) -> Sequence[Value]:
        a = state[0]
        c = b
        for step in (2.0**1000, 2.0**600):  # so that the quotient below is finite
            c = e.select(a >= c * step, c * step, c)
        quotient = a / c
        big = quotient >= 2.0**quotient_bits
        # The power of two in the quotient, less the bits it may keep.
        power = e.bits(quotient) & (0x7FF << 52)
        up = e.select(big, power - ((quotient_bits - 1) << 52), e.bits(e.constant(1.0)))
        down = e.constant(2 * 1023 << 52, "i64") - up
        c = c * e.float_of_bits(up)
        q = quotient * e.float_of_bits(down) + e.magic() - e.magic()
        rest = subtract_product(e, a, q, c, quotient_bits)
        rest = e.select(rest < 0.0, rest + c, rest)
        return (e.select(a >= b, rest, a),)

    return e.repeat((a,), unfinished, one_round)[0]


def subtract_product(e: Emitter, a: Value, q: Value, c: Value, quotient_bits: int) -> Value:
    """a - q c, exact: q is the nearest integer, so the difference is at most c / 2."""
    if quotient_bits == 28 or e.target.has_fma:
        return e.negative_fma(q, c, a)
    # q c may be above a: near the end of the range the subtraction is done on scaled numbers.
    far = a > 2.0**1000
    scaling = e.select(far, e.constant(2.0**-60), 1.0)
    a, c = a * scaling, c * scaling
    high = e.float_of_bits(e.bits(c) & -(1 << 27))
    rest = (a - q * high) - q * (c - high)
    return rest * e.select(far, e.constant(2.0**60), 1.0)


def floor_mod(e: Emitter, x: Value, y: Value) -> Value:
    """NumPy's mod: the sign of y, a zero included."""
    return floor_parts(e, x, y)[1]


def floor_divide(e: Emitter, x: Value, y: Value) -> Value:
    """NumPy's floor_divide: (x - mod) / y put right to an integer; x / y for y = 0."""
    quotient, _ = floor_parts(e, x, y)
    below = floor(e, quotient)
    whole = e.select(quotient - below > 0.5, below + 1.0, below)
    plain = x / y
    whole = e.select(quotient.equals(0.0), e.copysign(e.constant(0.0), plain), whole)
    return e.select(y.equals(0.0), plain, whole)


def floor_parts(e: Emitter, x: Value, y: Value) -> tuple[Value, Value]:
    """(nearly the quotient, the modulus) as NumPy computes them."""
    rest = truncate_mod(e, x, y)
    quotient = (x - rest) / y
    mixed = rest.differs(0.0) & ((y < 0.0) ^ (rest < 0.0))
    quotient = e.select(mixed, quotient - 1.0, quotient)
    modulus = e.select(mixed, rest + y, rest)
    return quotient, e.select(rest.equals(0.0), e.copysign(e.constant(0.0), y), modulus)


def floor(e: Emitter, v: Value) -> Value:
    """floor without the rounding instruction, which baseline x86-64 lacks."""
    if e.target.has_fma:
        return e.intrinsic("floor", v)
    limit = 2.0**e.fraction_bits
    u = e.abs(v)
    nearest = e.copysign(u + limit - limit, v)
    below = e.select(nearest > v, nearest - 1.0, nearest)
    return e.select(u < limit, below, v)
