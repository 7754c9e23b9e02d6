"""Ufuncs of NumPy's that look at the bits of numbers, and of integers' divisors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ir.dims import as_int
from ...ir.dtype import DTYPES, FLOAT32, INT32, INT64, UINT8, DType
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError
from ..core.dispatch import implements
from ..core.emitting import choose, emit, kind_of, lift, promoted, ufunc_dtypes
from ..core.proxy import Proxy
from .composed import ufunc
from .reductions import normalise_axis
from .shaping import flattened, moveaxis, reshape
from .ufuncs import with_options


class _Format:
    """The layout of a float dtype: bits of the fraction, the exponent's bias, the integer dtype."""

    def __init__(self, dtype: DType) -> None:
        info = np.finfo(dtype.numpy)
        self.dtype, self.fraction, self.bias = dtype, info.nmant, 1 - info.minexp
        self.bits = DTYPES[f"uint{8 * dtype.bytes}"]
        self.smallest = float(info.smallest_subnormal)


def _bits(x: Proxy) -> Any:
    return emit("bitcast", x, dtype="uint16") if x.type.dtype.is_half else emit("bits", x)


def _from_bits(bits: Any) -> Any:
    x = lift(bits)
    return emit("bitcast", x, dtype="float16") if x.itemsize == 2 else emit("from_bits", x)


@implements(np.frexp)
@with_options
def _frexp(x: Any) -> Any:
    """The fraction in [0.5, 1) and the exponent; subnormals are scaled up first."""
    (operand,), _ = promoted(np.frexp, x)
    layout = _Format(operand.type.dtype)
    small = abs(operand) < float(np.finfo(operand.dtype).tiny)
    scaled = choose(small, operand * 2.0**layout.fraction * 2.0, operand)
    bits: Any = _bits(scaled)
    mask = (1 << (8 * layout.dtype.bytes - 1 - layout.fraction)) - 1
    raw = lift((bits >> layout.fraction) & mask, INT32)
    plain = np.logical_and(np.isfinite(operand), operand != 0)
    half = (bits & ~(mask << layout.fraction) % (1 << (8 * layout.dtype.bytes))) | (
        (layout.bias - 1) << layout.fraction
    )
    exponent = raw - (layout.bias - 1) - choose(small, layout.fraction + 1, 0)
    return choose(plain, _from_bits(half), operand), lift(choose(plain, exponent, 0), INT32)


@implements(np.ldexp)
@with_options
def _ldexp(x1: Any, x2: Any) -> Any:
    """``x1 * 2**x2`` in steps of which only the last one may round."""
    number, exponent, _ = ufunc_dtypes(np.ldexp, (kind_of(x1), kind_of(x2)))
    x, count = lift(x1, number), lift(x2, exponent)
    if x.type.dtype.is_half:
        return lift(_ldexp(lift(x, FLOAT32), count), x.type.dtype)
    layout = _Format(x.type.dtype)
    power: Any = np.clip(lift(count, INT64), -(2**14), 2**14)
    high, low = layout.bias, -(layout.bias - 1) + layout.fraction + 1
    for _ in range(2):
        above, below = power > high, power < -(layout.bias - 1)
        x = choose(above, x * 2.0**high, choose(below, x * 2.0**low, x))
        power = power - choose(above, high, choose(below, low, 0))
    power = np.clip(power, -(layout.bias - 1), high)
    return x * _power(layout, power)


def _power(layout: _Format, exponent: Any) -> Any:
    """2 to integer powers in the range of normal numbers."""
    return _from_bits(lift(exponent + layout.bias, layout.bits) << layout.fraction)


@ufunc(np.nextafter)
def _nextafter(x: Proxy, y: Proxy) -> Any:
    """The neighbour in the order of the bits, of which negative numbers have the opposite."""
    layout = _Format(x.type.dtype)
    bits: Any = _bits(x)
    away = (x < y) == (x > 0)
    moved = _from_bits(choose(away, bits + 1, bits - 1))
    from_zero = np.copysign(lift(layout.smallest, x.type.dtype), y)
    moved = choose(x == 0, from_zero, moved)
    moved = choose(x == y, y, moved)
    return choose(np.logical_or(np.isnan(x), np.isnan(y)), x + y, moved)


@ufunc(np.spacing)
def _spacing(x: Proxy) -> Any:
    infinite = lift(math.inf, x.type.dtype)
    size = abs(x)
    gap = np.nextafter(size, infinite) - size
    signed = gap if x.type.dtype.is_half else np.copysign(gap, x)  # as NumPy has it
    return choose(np.isfinite(x), signed, math.nan)


@ufunc(np.logaddexp2)
def _logaddexp2(x: Proxy, y: Proxy) -> Any:
    """``log2(2**x + 2**y)`` without overflow."""
    raised = np.maximum(x, y) + np.log1p(np.exp2(-abs(x - y))) * (1 / math.log(2))
    return choose(x == y, x + 1, raised)


@ufunc(np.gcd)
def _gcd(x: Proxy, y: Proxy) -> Any:
    """Euclid's algorithm on all pairs, until the last one is done."""
    from ..control.loops import while_loop  # which imports a good deal
    from .shaping import broadcast_shapes, broadcast_to

    shape = broadcast_shapes(x.shape, y.shape)
    size = DTYPES[f"uint{8 * x.itemsize}"]  # which the size of the least number fits
    a, b = (broadcast_to(lift(abs(v), size), shape) for v in (x, y))

    def step(pair: Any) -> Any:
        a, b = pair
        done = b == 0
        return choose(done, a, b), choose(done, b, a % choose(done, 1, b))

    return lift(while_loop(lambda pair: np.any(pair[1] != 0), step, (a, b))[0], x.type.dtype)


@ufunc(np.lcm)
def _lcm(x: Proxy, y: Proxy) -> Any:
    size = DTYPES[f"uint{8 * x.itemsize}"]
    a, b = (lift(abs(v), size) for v in (x, y))
    divisor: Any = np.gcd(a, b)
    return lift(a // choose(divisor == 0, 1, divisor) * b, x.type.dtype)


@implements(np.bitwise_count)
@with_options
def _bitwise_count(x: Any) -> Any:
    """The ones of the absolute value, added in parallel (Hacker's Delight, 5-1)."""
    value: Any = promoted(np.bitwise_count, x)[0][0]
    size = 8 * value.type.dtype.bytes
    value = lift(abs(value), DTYPES[f"uint{size}"])
    ones = (1 << size) - 1
    value = value - ((value >> 1) & (ones // 3))
    value = (value & (ones // 5)) + ((value >> 2) & (ones // 5))
    value = (value + (value >> 4)) & (ones // 17)
    return lift(value * (ones // 255) >> (size - 8), UINT8)


@implements(np.packbits)
def _packbits(a: Any, axis: int | None = None, bitorder: str = "big") -> Any:
    x = lift(a)
    if not (x.type.dtype.is_integer or x.type.dtype.is_bool):
        raise LoopwrightTypeError(f"np.packbits of {x.type.short}: integers or bools are packed")
    x, axis = (flattened(x), 0) if axis is None else (x, normalise_axis(axis, x.ndim))
    last = lift(moveaxis(x, axis, -1) != 0, UINT8)
    size = as_int(last.shape[-1])
    pad = ((0, 0),) * (last.ndim - 1) + ((0, -size % 8),)
    wide = emit("nn.pad", last, pad_width=pad, pad_value=0, mode="constant")
    groups = reshape(wide, (*last.shape[:-1], -(-size // 8), 8))
    return moveaxis(np.sum(groups * _weights(bitorder), -1, dtype=np.uint8), -1, axis)


def _weights(bitorder: str) -> Any:
    if bitorder not in ("big", "little"):
        raise LoopwrightValueError("'bitorder' must be either 'little' or 'big'")
    weights = 1 << np.arange(8, dtype=np.uint8)
    return weights[::-1].copy() if bitorder == "big" else weights


@implements(np.unpackbits)
def _unpackbits(
    a: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Any:
    x = lift(a)
    if x.type.dtype != UINT8:
        raise LoopwrightTypeError("Expected an input array of unsigned byte data type")
    x, axis = (flattened(x), 0) if axis is None else (x, normalise_axis(axis, x.ndim))
    last: Any = moveaxis(x, axis, -1)
    bits = lift((last[..., None] & _weights(bitorder)) != 0, UINT8)
    size = 8 * as_int(last.shape[-1])
    flat: Any = reshape(bits, (*last.shape[:-1], size))
    if count is not None:
        more = count - size if count > size else 0
        pad = ((0, 0),) * (flat.ndim - 1) + ((0, more),)
        flat = emit("nn.pad", flat, pad_width=pad, pad_value=0, mode="constant") if more else flat
        flat = flat[..., :count]
    return moveaxis(flat, -1, axis)
