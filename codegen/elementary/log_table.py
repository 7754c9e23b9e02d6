"""Logarithms with tables in registers (AVX-512): no division, a short polynomial.

x = 2^k m, and m c = 1 + f, where the leading bits of m say which short c it is: f is exact, and at
most 0.0342. So log x = (k log 2 - log c) + log(1 + f) (P. T. P. Tang: "Table-driven implementation
of the logarithm function", 1990). m is below and above 1, so that close to 1 both k and log c are
zero. A register has 16 doubles in two, which is enough where the sixteenths of an octave have 1 in
the middle of one; of the 32 floats, 1 may be a border.
"""

from __future__ import annotations

import functools
from fractions import Fraction

from ...ir.dataclass import dataclass
from .emitter import Emitter, Value

FIRST = 0.703125  # the least m in float64; the last of its range is less than 2 FIRST

# c for each sixteenth of an octave from FIRST on, in units of 2^-7
INVERSES64 = (176, 172, 164, 156, 152, 148, 140, 136, 132, 128, 120, 114, 108, 102, 98, 92)
# c by the five leading bits of the fraction: [1, 3/2), then [3/4, 1)
INVERSES32 = (
    *(128, 122, 118, 116, 112, 109, 106, 104, 101, 99, 96, 94, 92, 90, 88, 86),
    *(168, 166, 162, 160, 156, 154, 150, 148, 144, 142, 140, 138, 136, 134, 132, 128),
)
# Binary places of the exact part of k log 2 - log c, whose least multiples of 2^-places are exact.
PLACES = {"float": 16, "double": 40}
# log(1 + f) = f + f^2 P(f), |f| <= 0.0342
TAIL32 = (-0.5, 0.333333283662796, -0.2501696050167084, 0.20019768178462982)
TAIL64 = (
    -0.5, 0.33333333333332144, -0.24999999999998532, 0.200000000098849, -0.1666666667721037,
    0.14285688766029425, -0.12499974785625811, 0.11137067620115314, -0.10024505577549628,
)  # fmt: skip
TAIL = {"float": TAIL32, "double": TAIL64}


@dataclass(frozen=True, slots=True)
class Column:
    """``inverse`` is c, ``log`` -log c; m is less than 1 and its k one less than said if ``low``.

    In float32 k is the exponent of x, which 3/4 <= m < 1 does not share with its neighbours.
    """

    inverse: Fraction
    log: Fraction
    low: bool


@functools.cache
def natural_log(x: Fraction) -> Fraction:
    """log x to 128 binary places, as the series of 2 atanh((x - 1) / (x + 1))."""
    one = 1 << 140
    ratio = (x - 1) * one // (x + 1)
    total, power, n = 0, ratio, 1
    while abs(power) > 1:
        total, power, n = total + power // n, power * ratio * ratio // one**2, n + 2
    return Fraction(2 * total, one)


UNITS = {"e": Fraction(1), "2": natural_log(Fraction(2)), "10": natural_log(Fraction(10))}


@functools.cache
def columns(kind: str) -> tuple[Column, ...]:
    """The table of a kind of floats, by the bits that lead to a column."""
    single = kind == "float"
    inverses = [Fraction(c, 128) for c in (INVERSES32 if single else INVERSES64)]
    return tuple(Column(c, -natural_log(c), single and i >= 16) for i, c in enumerate(inverses))


@dataclass(frozen=True, slots=True)
class Reduced:
    """x = 2^k (1 + f) / c; ``which`` counts columns, in its lowest bits."""

    k: Value
    f: Value
    which: Value


@dataclass(frozen=True, slots=True)
class Start:
    """k log 2 - log c: ``high`` has no rounding error, ``low`` is the small rest."""

    high: Value
    low: Value


def applies(e: Emitter) -> bool:
    """True if the vectors are registers that can be tables."""
    return e.has_tables and e.lanes * e.bit_width == 512


def reduce(e: Emitter, x: Value) -> Reduced:
    """The reduction of a positive normal number (float32: or a denormal), in a full register."""
    if e.kind == "float":
        m, k = e.significand_of(x, least=0.75), e.exponent_of(x)
        which = e.bits(m).logical_shift_right(e.fraction_bits - 5)
    else:
        bits = e.bits(x)
        shifted = bits - e.bits(e.constant(FIRST))
        m = e.float_of_bits(bits - (shifted & -(1 << e.fraction_bits)))
        k = e.cast("sitofp", shifted >> e.fraction_bits, e.kind)
        which = shifted.logical_shift_right(e.fraction_bits - 4)
    f = e.fma(m, e.lookup([float(c.inverse) for c in columns(e.kind)], which), -1.0)
    return Reduced(k, f, which)


def log_by_table(e: Emitter, x: Value, base: str) -> Value:
    """The logarithm of positive normal x to ``base`` ("e", "2", "10"), in a full register."""
    reduced = reduce(e, x)
    begin = start(e, reduced, base)
    if e.kind == "float" and base != "e":  # two roundings more than below
        return begin.high + e.fma(reduced.f, e.polynomial(reduced.f, slopes(e, base)), begin.low)
    return total(e, reduced.f, begin, base)


def log1p_by_table(e: Emitter, u: Value, lost: Value, roughly: bool = False) -> Value:
    """log(u + lost) of positive normal u, and ``lost`` that is less than its last place.

    ``roughly`` promises that ``lost`` is less than 2^-10 of the logarithm.
    """
    reduced = reduce(e, u)
    begin = start(e, reduced)
    if roughly:
        more = lost * e.reciprocal_estimate(u)
    else:
        inverses = [float(c.inverse) / (2 if c.low else 1) for c in columns(e.kind)]
        more = e.scale_by_floor(lost, -reduced.k) * e.lookup(inverses, reduced.which)
        more = e.negative_fma(reduced.f, more, more)  # its quotient by 1 + f, to first order
    return total(e, reduced.f, Start(begin.high, begin.low + more))


def total(e: Emitter, f: Value, begin: Start, base: str = "e") -> Value:
    """``begin`` plus the logarithm of 1 + f, with little more than the last rounding."""
    first, *others = slopes(e, base)
    linear, low = f, begin.low
    if base != "e":
        linear = f * first
        rest = float(1 / UNITS[base] - Fraction(first))
        low = low + e.fma(f, rest, e.fma(f, first, -linear))
    low = e.fma(f * f, e.polynomial(f, others), low)
    high = begin.high + linear
    return high + (((begin.high - high) + linear) + low)


def slopes(e: Emitter, base: str) -> list[float]:
    """P with log(1 + f) = f P(f) to ``base``."""
    return [float(e.rounded(float(Fraction(c) / UNITS[base]))) for c in (1.0, *TAIL[e.kind])]


def start(e: Emitter, reduced: Reduced, base: str = "e") -> Start:
    """The part of the logarithm to ``base`` ("e", "2", "10") that does not depend on f."""
    unit, places = UNITS[base], PLACES[e.kind]
    octave = UNITS["2"] / unit
    short_octave = _short(octave, places)
    exact = [_short(c.log / unit, places) + c.low * short_octave for c in columns(e.kind)]
    logs = [c.log / unit + c.low * octave for c in columns(e.kind)]
    rest = [float(v - s) for v, s in zip(logs, exact)]
    k = reduced.k
    high = e.fma(k, float(short_octave), e.lookup([*map(float, exact)], reduced.which))
    low = e.lookup(rest, reduced.which)
    left = float(octave - short_octave)
    return Start(high, e.fma(k, left, low) if left else low)


def _short(value: Fraction, places: int) -> Fraction:
    """The nearest multiple of 2^-places."""
    return Fraction(round(value * (1 << places)), 1 << places)


def is_reducible(e: Emitter, x: Value) -> Value:
    """True where ``reduce`` is valid."""
    least = 1 if e.kind == "float" else 1 << e.fraction_bits
    infinity = ((1 << e.exponent_bits) - 1) << e.fraction_bits
    return (e.bits(x) - least).compare("", "ult", infinity - least)
