"""Powers, exponentials, logarithms, circular and hyperbolic functions and their inverses.

The formulas of the inverses are W. Kahan's ("Branch Cuts for Complex Elementary Functions", 1987),
without overflow, and with the signs of zeros on the branch cuts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..compose import F, Value
from .arithmetic import divide, modulus, multiply
from .table import Pair, on_pairs

PI, LN_2, LN_10 = math.pi, math.log(2), math.log(10)


def _largest_exponent(x: Value) -> float:
    """The greatest number whose exponential is finite, with a margin."""
    return math.floor(math.log(float(np.finfo(x.dtype.numpy).max)))


def _constant(x: Value, number: float) -> Value:
    return x.full((), number)


def _not(x: Value) -> Value:
    return F.logical_not(x)


def _scaled(x: Value) -> tuple[Value, Value, Value]:
    """(large, half, factor): where ``x`` is large its exponential is ``exp(half) * factor``, which
    may be multiplied by a small number in between."""
    large = F.greater(x, _largest_exponent(x))
    half = F.where(large, x * 0.5, x)
    return large, half, F.where(large, F.exp(half), _constant(x, 1.0))


@on_pairs("exp")
def _exp(z: Pair) -> Pair:
    x, y = z
    _, half, factor = _scaled(x)
    size = F.exp(half)
    unknown = _not(F.isfinite(y))
    edge = F.where(F.equal(x, -math.inf), x.full((), 0.0), y * math.nan)
    re = F.where(unknown, F.where(F.equal(x, math.inf), x, edge), size * F.cos(y) * factor)
    im = F.where(unknown, edge, size * F.sin(y) * factor)
    return Pair(re, F.where(F.equal(y, 0.0), y, im))


@on_pairs("exp2")
def _exp2(z: Pair) -> Pair:
    return _exp(Pair(z.re * LN_2, z.im * LN_2))


@on_pairs("expm1")
def _expm1(z: Pair) -> Pair:
    half = F.sin(z.im * 0.5)
    re = F.expm1(z.re) * F.cos(z.im) - half * half * 2.0
    return Pair(re, F.exp(z.re) * F.sin(z.im))


def _square(x: Value) -> tuple[Value, ...]:
    """Returns the square of ``x`` as terms in float64, of which the last one may be rounded."""
    wide = F.cast(x, dtype="float64")
    if x.dtype.bytes < 8:
        return (wide * wide,)
    high = F.cast(F.cast(x, dtype="float32"), dtype="float64")
    low = wide - high
    return high * high, high * low * 2.0, low * low


def _sum(like: Value, *terms: Value | float) -> Value:
    """Returns the sum of ``terms`` rounded once, to the dtype of ``like``: what each addition loses
    is added at the end (Ogita, Rump and Oishi, "Accurate Sum and Dot Product", 2005)."""
    total, *others = terms
    lost: Value | float = 0.0
    for term in others:
        new: Any = total + term
        added = new - total
        lost = ((total - (new - added)) + (term - added)) + lost
        total = new
    return F.cast(total + lost, dtype=like.dtype.name)


@on_pairs("log")
def _log(z: Pair) -> Pair:
    a, b = abs(z.re), abs(z.im)
    great, small = F.maximum(a, b), F.minimum(a, b)
    flat = F.logical_or(F.equal(great, 0.0), F.equal(great, math.inf))
    ratio = F.where(flat, great.full((), 0.0), small / great)
    far = F.log(great) + F.log1p(ratio * ratio) * 0.5
    near = F.log1p(_sum(great, *_square(great), -1.0, *_square(small))) * 0.5
    close = F.logical_and(F.greater(great, 0.5), F.less(great, 2.0))
    re = F.where(close, near, far)
    infinite = F.logical_or(F.isinf(a), F.isinf(b))
    return Pair(F.where(infinite, _constant(a, math.inf), re), F.atan2(z.im, z.re))


@on_pairs("log2")
def _log2(z: Pair) -> Pair:
    re, im = _log(z)
    return Pair(re / LN_2, im / LN_2)


@on_pairs("log10")
def _log10(z: Pair) -> Pair:
    re, im = _log(z)
    return Pair(re / LN_10, im / LN_10)


@on_pairs("log1p")
def _log1p(z: Pair) -> Pair:
    x, y = z
    far = _log(Pair(x + 1.0, y))
    near = F.log1p(_sum(x, *_square(x), *_square(y), F.cast(x, dtype="float64") * 2.0)) * 0.5
    close = F.logical_and(F.less(abs(x), 0.5), F.less(abs(y), 0.5))
    return Pair(F.where(close, near, far.re), far.im)


@on_pairs("sqrt")
def _sqrt(z: Pair) -> Pair:
    """The root of the mean of abs(re) and the modulus is the part that does not cancel."""
    info = np.finfo(z.re.dtype.numpy)
    great = F.maximum(abs(z.re), abs(z.im))
    up = 4.0 ** (info.nmant + 2)
    large = F.greater(great, float(info.max) / 8)
    tiny = F.less(great, float(info.tiny) * 4)
    one = _constant(great, 1.0)
    scale = F.where(large, one * (1 / 16), F.where(tiny, one * up, one))
    back = F.where(large, one * 4.0, F.where(tiny, one * up**-0.5, one))
    x, y = z.re * scale, z.im * scale
    root = F.sqrt((abs(x) + modulus(Pair(x, y))) * 0.5)
    other = F.where(F.equal(root, 0.0), root, abs(y) / (root * 2.0))
    right = F.greater_equal(x, 0.0)
    re = F.where(right, root, other) * back
    im = F.where(right, other, root) * back
    infinite = F.isinf(z.im)
    unknown = F.isnan(x)
    re = F.where(unknown, x, re)
    im = F.where(unknown, x, im)
    edge = _constant(x, math.inf)
    return Pair(F.where(infinite, edge, re), F.copysign(F.where(infinite, edge, im), z.im))


def _whole_power(x: Pair, exponent: Value) -> Pair:
    """Returns integer powers below 2**7 by repeated squaring, as NumPy has them."""
    left, square = abs(exponent), x
    made = Pair(x.re.full((), 1.0), x.re.full((), 0.0))
    for n in range(7):
        half = F.floor(left * 0.5)
        odd = F.not_equal(half * 2.0, left)
        made = Pair(
            *(F.where(odd, p, q) for p, q in zip(multiply(made, square), made, strict=True))
        )
        left, square = half, (multiply(square, square) if n < 6 else square)
    inverse = divide(Pair(x.re.full((), 1.0), x.re.full((), 0.0)), made)
    below = F.less(exponent, 0.0)
    return Pair(*(F.where(below, p, q) for p, q in zip(inverse, made, strict=True)))


@on_pairs("power")
def _power(x: Pair, y: Pair) -> Pair:
    """exp(y log x), products for small integers, and 1 for an exponent of 0."""
    general = _exp(multiply(y, _log(x)))
    whole = F.logical_and(F.equal(y.im, 0.0), F.equal(F.floor(y.re), y.re))
    whole = F.logical_and(whole, F.less(abs(y.re), 100.0))
    product = _whole_power(x, F.where(whole, y.re, y.re.full((), 0.0)))
    general = Pair(*(F.where(whole, p, q) for p, q in zip(product, general, strict=True)))
    zero = F.logical_and(F.equal(x.re, 0.0), F.equal(x.im, 0.0))
    vanishes = F.greater(y.re, 0.0)
    nothing, nan = x.re.full((), 0.0), _constant(x.re, math.nan)
    of_zero = F.where(vanishes, nothing, nan)
    one = F.logical_and(F.equal(y.re, 0.0), F.equal(y.im, 0.0))
    re = F.where(one, _constant(x.re, 1.0), F.where(zero, of_zero, general.re))
    return Pair(re, F.where(one, nothing, F.where(zero, of_zero, general.im)))


# Hyperbolic functions; the circular ones are theirs of i z.


@on_pairs("sinh")
def _sinh(z: Pair) -> Pair:
    sinh, cosh, factor = _hyperbolic(z.re)
    unknown = _not(F.isfinite(z.im))
    keeps = F.logical_and(unknown, F.logical_or(F.isinf(z.re), F.equal(z.re, 0.0)))
    re = F.where(keeps, z.re, sinh * F.cos(z.im) * factor)
    return Pair(re, F.where(F.equal(z.im, 0.0), z.im, cosh * F.sin(z.im) * factor))


@on_pairs("cosh")
def _cosh(z: Pair) -> Pair:
    sinh, cosh, factor = _hyperbolic(z.re)
    unknown = _not(F.isfinite(z.im))
    infinite = F.logical_and(unknown, F.isinf(z.re))
    re = F.where(infinite, abs(z.re), cosh * F.cos(z.im) * factor)
    im = F.where(F.logical_and(unknown, F.equal(z.re, 0.0)), z.re, sinh * F.sin(z.im) * factor)
    return Pair(re, F.where(F.equal(z.im, 0.0), F.copysign(_constant(z.re, 1.0), z.re) * z.im, im))


def _hyperbolic(x: Value) -> tuple[Value, Value, Value]:
    """sinh and cosh of ``x``, both to be multiplied by the third value."""
    large, half, factor = _scaled(abs(x))
    size = F.exp(half) * 0.5
    sinh = F.where(large, F.copysign(size, x), F.sinh(F.where(large, half, x)))
    return sinh, F.where(large, size, F.cosh(half)), factor


@on_pairs("tanh")
def _tanh(z: Pair) -> Pair:
    """(sinh x cosh x + i sin y cos y) / (sinh x ** 2 + cos y ** 2); far out, its limit."""
    x, y = z
    far = F.greater(abs(x), _largest_exponent(x) / 4)
    near = F.where(far, _constant(x, 1.0), x)
    sinh, cosh, sin, cos = F.sinh(near), F.cosh(near), F.sin(y), F.cos(y)
    below = sinh * sinh + cos * cos
    sign = F.copysign(_constant(x, 1.0), x)
    decay = F.exp(abs(x) * -2.0) * 4.0
    unknown = _not(F.isfinite(y))
    lost = F.logical_and(unknown, F.isfinite(x))
    limit = F.where(F.isfinite(y), sin * cos * decay, F.copysign(x.full((), 0.0), y))
    nan = _constant(x, math.nan)
    sign, limit = F.where(lost, nan, sign), F.where(lost, nan, limit)
    zero = F.logical_and(F.equal(x, 0.0), unknown)
    flat = F.logical_and(F.isnan(x), F.equal(y, 0.0))
    re = F.where(far, sign, F.where(zero, x, sinh * cosh / below))
    return Pair(re, F.where(far, limit, F.where(flat, y, sin * cos / below)))


@on_pairs("asinh")
def _asinh(z: Pair) -> Pair:
    x, y = z
    s1, s2 = _sqrt(Pair(y + 1.0, -x)), _sqrt(Pair(1.0 - y, x))
    re = F.asinh(s1.re * s2.im - s2.re * s1.im)
    im = F.atan2(y, s1.re * s2.re - s1.im * s2.im)
    infinite = F.logical_or(F.isinf(x), F.isinf(y))
    im = F.where(F.logical_and(F.isnan(x), F.equal(y, 0.0)), y, im)
    return Pair(
        F.where(infinite, F.copysign(_constant(x, math.inf), x), re),
        F.where(infinite, F.atan2(y, abs(x)), im),
    )


def _is_unknown(x: Value, y: Value) -> Value:
    """True where nan stands beside a real part of 0."""
    return F.logical_and(F.equal(x, 0.0), F.isnan(y))


@on_pairs("acosh")
def _acosh(z: Pair) -> Pair:
    x, y = z
    s1, s2 = _sqrt(Pair(x - 1.0, y)), _sqrt(Pair(x + 1.0, y))
    re = F.asinh(s1.re * s2.re + s1.im * s2.im)
    im = F.where(_is_unknown(x, y), _constant(x, PI / 2), F.atan2(s1.im, s2.re) * 2.0)
    infinite = F.logical_or(F.isinf(x), F.isinf(y))
    return Pair(F.where(infinite, _constant(x, math.inf), re), F.where(infinite, F.atan2(y, x), im))


@on_pairs("acos")
def _acos(z: Pair) -> Pair:
    x, y = z
    s1, s2 = _sqrt(Pair(1.0 - x, -y)), _sqrt(Pair(x + 1.0, y))
    re = F.where(_is_unknown(x, y), _constant(x, PI / 2), F.atan2(s1.re, s2.re) * 2.0)
    im = F.asinh(s2.re * s1.im - s2.im * s1.re)
    infinite = F.logical_or(F.isinf(x), F.isinf(y))
    return Pair(
        F.where(infinite, F.atan2(abs(y), x), re),
        F.where(infinite, F.copysign(_constant(x, math.inf), -y), im),
    )


@on_pairs("atanh")
def _atanh(z: Pair) -> Pair:
    """Computes in the right half plane; the function is odd."""
    sign = F.copysign(_constant(z.re, 1.0), z.re)
    x, y = abs(z.re), z.im * sign
    info = np.finfo(x.dtype.numpy)
    large = F.greater(F.fmax(x, abs(y)), math.sqrt(float(info.max)) / 4)
    a, b = F.where(large, _constant(x, 0.5), x), F.where(large, _constant(x, 0.5), y)
    gap = 1.0 - a
    near = F.log1p(a * 4.0 / (gap * gap + b * b)) * 0.25
    # Next to 1 the square of the imaginary part may vanish.
    pole = F.logical_and(F.equal(gap, 0.0), F.less(abs(b), 4 * math.sqrt(float(info.tiny))))
    near = F.where(pole, (LN_2 - F.log(abs(b))) * 0.5, near)
    near = F.where(_is_unknown(x, y), x, near)
    angle = F.atan2(b * 2.0, gap * (a + 1.0) - b * b) * 0.5
    size = modulus(Pair(x * 0.5, y * 0.5))
    far = x * 0.25 / size / size
    far = F.where(F.isinf(size), x.full((), 0.0), far)
    re = F.where(large, far, near)
    unknown = F.logical_or(F.isnan(y), F.isnan(size))
    quarter = F.where(unknown, y * math.nan, F.copysign(_constant(y, PI / 2), y))
    im = F.where(large, quarter, angle)
    return Pair(re * sign, im * sign)


def _rotated(hyperbolic: Callable[[Pair], Pair]) -> Callable[[Pair], Pair]:
    """-i f(i z), which is the circular function of ``f``."""

    def rule(z: Pair) -> Pair:
        re, im = hyperbolic(Pair(-z.im, z.re))
        return Pair(im, -re)

    return rule


on_pairs("sin")(_rotated(_sinh))
on_pairs("tan")(_rotated(_tanh))
on_pairs("asin")(_rotated(_asinh))
on_pairs("atan")(_rotated(_atanh))


@on_pairs("cos")
def _cos(z: Pair) -> Pair:
    return _cosh(Pair(-z.im, z.re))


@on_pairs("rsqrt")
def _rsqrt(z: Pair) -> Pair:
    root = _sqrt(z)
    one = root.re.full((), 1.0)
    return divide(Pair(one, one * 0.0), root)
