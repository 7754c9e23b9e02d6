"""Parts and arithmetic."""

from __future__ import annotations

import math
from typing import Any

from ...dtype import DTYPES
from ..builder import Builder
from ..compose import F, Value, call
from .table import Operand, Pair, by_parts, on_pairs

on_pairs("round")(by_parts("round"))


# Parts


@on_pairs("complex")
def _complex(re: Value, im: Value) -> Pair:
    shape = (re + im).shape if re.shape != im.shape else re.shape
    return Pair(_broadcast(re, shape), _broadcast(im, shape))


def _broadcast(x: Value, shape: Any) -> Value:
    return x if x.shape == shape else F.broadcast_to(x, shape=shape)


@on_pairs("real")
def _real(x: Pair) -> Value:
    return x.re


@on_pairs("imag")
def _imag(x: Pair) -> Value:
    return x.im


@on_pairs("conj")
def _conj(x: Pair) -> Pair:
    return Pair(x.re, -x.im)


@on_pairs("cast")
def _cast(x: Operand, *, dtype: str) -> Operand:
    wanted = DTYPES[dtype]
    if not isinstance(x, Pair):
        re = F.cast(x, dtype=wanted.part.name)
        return Pair(re, re.full(re.shape, 0.0))
    if wanted.is_bool:
        return F.logical_or(F.not_equal(x.re, 0.0), F.not_equal(x.im, 0.0))
    if wanted.is_complex:
        return Pair(*(F.cast(part, dtype=wanted.part.name) for part in x))
    return F.cast(x.re, dtype=dtype)


@on_pairs("full")
def _full(b: Builder, *, shape: Any, fill_value: Any, dtype: str) -> Pair:
    is_complex = isinstance(fill_value, complex)
    parts = (fill_value.real, fill_value.imag) if is_complex else (fill_value, 0.0)
    part = DTYPES[dtype].part.name
    made = (call(b, "full", shape=shape, fill_value=v, dtype=part) for v in parts)
    return Pair(*(Value(b, atom) for atom in made))


@on_pairs("nn.pad")
def _pad(x: Pair, *, pad_value: complex, **attrs: Any) -> Pair:
    values = (complex(pad_value).real, complex(pad_value).imag)
    return Pair(*(F.nn.pad(part, pad_value=v, **attrs) for part, v in zip(x, values, strict=True)))


@on_pairs("iota")
def _iota(b: Builder, *, dtype: str, **attrs: Any) -> Pair:
    re = Value(b, call(b, "iota", dtype=DTYPES[dtype].part.name, **attrs))
    return Pair(re, re.full(re.shape, 0.0))


@on_pairs("arange")
def _arange(b: Builder, *, dtype: str, **attrs: Any) -> Pair:
    re = Value(b, call(b, "arange", dtype=DTYPES[dtype].part.name, **attrs))
    return Pair(re, re.full(re.shape, 0.0))


# Arithmetic


@on_pairs("multiply")
def multiply(x: Pair, y: Pair) -> Pair:
    """Returns the product, without care for infinities, as NumPy's."""
    return Pair(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)


@on_pairs("divide")
def divide(x: Pair, y: Pair) -> Pair:
    """Smith's method: the greater part of the divisor is taken out of its square."""
    wide = F.greater_equal(abs(y.re), abs(y.im))
    great, small = F.where(wide, y.re, y.im), F.where(wide, y.im, y.re)
    a, b = F.where(wide, x.re, x.im), F.where(wide, x.im, x.re)
    ratio = small / great
    scale = 1.0 / (great + small * ratio)
    re = (a + b * ratio) * scale
    im = (b - a * ratio) * scale
    # x / 0 is taken part by part.
    zero = F.logical_and(F.equal(y.re, 0.0), F.equal(y.im, 0.0))
    re = F.where(zero, x.re / abs(y.re), re)
    im = F.where(zero, x.im / abs(y.re), F.where(wide, im, -im))
    return Pair(re, im)


@on_pairs("abs")
def modulus(x: Pair) -> Value:
    """sqrt(re**2 + im**2) with both scaled by a power of 2, so that no square overflows."""
    a, b = abs(x.re), abs(x.im)
    great, small = F.maximum(a, b), F.minimum(a, b)
    ratio = small / great
    root = great * F.sqrt(ratio * ratio + 1.0)
    infinite = F.logical_or(F.isinf(a), F.isinf(b))
    plain = F.where(F.equal(great, 0.0), great, root)
    return F.where(infinite, plain.full((), math.inf), plain)


@on_pairs("sign")
def _sign(x: Pair) -> Pair:
    """x / abs(x); of an infinite number, the direction of its infinite part."""
    size = modulus(x)
    infinite = F.isinf(size)
    both = F.logical_and(F.isinf(x.re), F.isinf(x.im))

    def part(value: Value) -> Value:
        edge = F.where(F.isinf(value), F.sign(value), value.full((), 0.0))
        edge = F.where(both, value.full((), math.nan), edge)
        plain = F.where(F.equal(size, 0.0), value.full((), 0.0), value / size)
        return F.where(infinite, edge, plain)

    return Pair(part(x.re), part(x.im))
