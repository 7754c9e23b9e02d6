"""Conversions between float32 and the bits of shorter floats.

They are exact or round to nearest, ties to even, with subnormal numbers, infinities and nan,
whatever the processor's mode is. float16 has instructions on most targets (``has_halves``);
elsewhere, and for bfloat16, which AVX-512's instruction would flush to zero, a few instructions on
integers do the same; so they do for floats of 8 and 4 bits.
"""

from __future__ import annotations

import numpy as np

from ...ir.dtype import FLOAT32, DType, Specials
from ..elementary.emitter import Emitter
from ..llvm.writer import FunctionWriter, Value
from ..target import Target


def widened(w: FunctionWriter, target: Target, x: Value, dtype: DType) -> Value:
    """Returns the float32 that ``x``, an integer with the bits of a ``dtype``, stands for."""
    if dtype.name == "float16" and target.has_halves:
        return w.convert("fpext", w.convert("bitcast", x, "half"), "float")
    e, wide = Emitter.of(w, target, w.convert("zext", x, "i32"))
    shift, least, special = _layout(dtype)
    sign_bit = 1 << (dtype.bits - 1)
    if dtype.specials is Specials.UNSIGNED:
        powers = e.select(wide < 1, _bits(least), wide << shift)
        return e.float_of_bits(e.select(wide < special, powers, _NAN)).ssa
    if dtype.exponent_bits == FLOAT32.exponent_bits:
        return e.float_of_bits(wide << (32 - dtype.bits)).ssa
    sign = (wide & sign_bit) << (32 - dtype.bits)
    size = wide & (sign_bit - 1)
    # Exponents are higher in float32 by the difference of the biases, and by as much once more in
    # inf and nan.
    higher = (FLOAT32.exponent_bias - dtype.exponent_bias) << FLOAT32.fraction_bits
    normal = (size << shift) + higher
    steps = e.cast("sitofp", size, "float") * least
    tiny = size.below(1 << dtype.fraction_bits)
    large = normal
    if dtype.specials is Specials.IEEE:
        large = e.select(size.below(special), normal, normal + higher)
    elif dtype.specials is Specials.LAST:
        large = e.select(size.below(special), normal, _NAN)
    bits = e.select(tiny, e.bits(steps), large) | sign
    if dtype.specials is Specials.MINUS_ZERO:
        bits = e.select((wide ^ special) < 1, _NAN, bits)
    return e.float_of_bits(bits).ssa


def narrowed(w: FunctionWriter, target: Target, x: Value, dtype: DType) -> Value:
    """Returns a float32 rounded to ``dtype``, as the integer with its bits."""
    if dtype.name == "float16" and target.has_halves:
        return w.convert("bitcast", w.convert("fptrunc", x, "half"), dtype.llvm)
    shift, least, special = _layout(dtype)
    e, bits = Emitter.of(w, target, w.convert("bitcast", x, "i32"))
    if dtype.specials is Specials.UNSIGNED:  # ties go up; zero and negative numbers have no code
        up = e.select(bits < _bits(2 * least), _bits(least) - 1, _bits(least))
        power = (bits + up).logical_shift_right(shift)
        value = e.select((bits < _bits(np.inf)) & (bits > 0), power, special)
        return e.cast("trunc", value, dtype.llvm).ssa
    quiet_nan = special
    if dtype.specials is Specials.IEEE:
        quiet_nan |= 1 << (dtype.fraction_bits - 1)
    if dtype.exponent_bits == FLOAT32.exponent_bits:  # the sign is carried along
        high = bits.logical_shift_right(shift)
        # Cutting off the last bits of this rounds to nearest, ties to even.
        rounded = bits + ((1 << (shift - 1)) - 1) + (high & 1)
        nan = high & (1 << (dtype.bits - 1)) | quiet_nan
        is_nan = e.of(w, target, x)[1].is_nan()
        value = e.select(is_nan, nan, rounded.logical_shift_right(shift))
        return e.cast("trunc", value, dtype.llvm).ssa
    size = bits & 0x7FFFFFFF
    sign = bits.logical_shift_right(32 - dtype.bits) & (1 << (dtype.bits - 1))
    is_nan = size > _bits(np.inf)
    rounded = size + ((1 << (shift - 1)) - 1) + (size.logical_shift_right(shift) & 1)
    higher = (FLOAT32.exponent_bias - dtype.exponent_bias) << FLOAT32.fraction_bits
    normal = (rounded - higher).logical_shift_right(shift)
    # The last place of this number has the unit of subnormal numbers: adding it rounds to that.
    magic = least * 2.0**FLOAT32.fraction_bits
    steps = e.bits(e.float_of_bits(size) + magic) - _bits(magic)
    smallest = least * 2.0**dtype.fraction_bits
    quiet = size.logical_shift_right(shift) & ((1 << dtype.fraction_bits) - 1)
    small = e.select(size < _bits(smallest), steps, normal)
    # The least power of two behind all numbers; what is less rounds to a number, or to ``special``.
    ieee = dtype.specials is Specials.IEEE
    beyond = 2.0 ** ((1 << dtype.exponent_bits) - ieee - dtype.exponent_bias)
    large = e.select(is_nan, quiet | quiet_nan, special) if ieee else special
    value = e.select(size < _bits(beyond), small, large)
    if dtype.specials in (Specials.LAST, Specials.NONE):  # rounding may have gone beyond
        largest = special - (dtype.specials is Specials.NONE)
        value = e.select(value < special, value, largest)
    if dtype.specials is Specials.NONE:
        value = e.select(is_nan, special, value)
    signed = value | sign
    if dtype.specials is Specials.MINUS_ZERO:
        signed = e.select(value < 1, value, signed)
    return e.cast("trunc", signed, dtype.llvm).ssa


def _layout(dtype: DType) -> tuple[int, float, int]:
    """Returns how many bits of float32's fraction a shorter float lacks, its smallest subnormal
    number, and the bits of its infinity; the nan, or that of -0, where it has none."""
    signed = dtype.specials is not Specials.UNSIGNED
    least = 2.0 ** (signed - dtype.exponent_bias - dtype.fraction_bits)
    infinity = ((1 << dtype.exponent_bits) - 1) << dtype.fraction_bits
    last, minus_zero = (1 << (dtype.bits - 1)) - 1, 1 << (dtype.bits - 1)
    special = {
        Specials.IEEE: infinity,
        Specials.LAST: last,
        Specials.MINUS_ZERO: minus_zero,
        Specials.NONE: minus_zero,
        Specials.UNSIGNED: infinity,
    }[dtype.specials]
    return FLOAT32.fraction_bits - dtype.fraction_bits, least, special


def _bits(value: float) -> int:
    """The bits of a float32 that is not negative."""
    return int(np.float32(value).view(np.int32))


_NAN = _bits(np.nan)


def rounded_to_odd(w: FunctionWriter, target: Target, x: Value) -> Value:
    """Returns a float64 as a float32 whose last bit is set if it is not exact: rounding it once
    more to half of its bits gives what rounding ``x`` once would."""
    e, exact = Emitter.of(w, target, x)
    near = e.narrow(exact)
    bits, back = e.bits(near), e.widen(near)
    inexact = back.compare("one", "ne", exact)
    toward_zero = e.select(e.abs(back) > e.abs(exact), bits - 1, bits)
    return e.float_of_bits(e.select(inexact, toward_zero | 1, bits)).ssa
