"""Conversions between float32 and the bits of floats of 16 bits, on one element or a vector.

Both directions are exact or round to nearest, ties to even, with subnormal numbers, infinities and
nan, whatever the processor's mode for subnormal numbers is. float16 has instructions from
x86-64-v3 on; below, and for bfloat16, which AVX-512's instruction would flush to zero, a few
instructions on integers do the same.
"""

from __future__ import annotations

from ...ir.dtype import DType
from ..llvm_text import float_literal
from ..target import Target
from .writer import FunctionWriter, Value


def widened(w: FunctionWriter, target: Target, x: Value, dtype: DType) -> Value:
    """Returns the float32 that ``x``, an i16 with the bits of a ``dtype``, stands for."""
    if dtype.exponent_bits == 8:
        return w.convert("bitcast", _shift(w, "shl", w.convert("zext", x, "i32"), 16), "float")
    if target.has_fma:
        return w.convert("fpext", w.convert("bitcast", x, "half"), "float")
    wide = w.convert("zext", x, "i32")
    sign = _shift(w, "shl", _and(w, wide, 0x8000), 16)
    size = _and(w, wide, 0x7FFF)
    # Exponents are 112 higher in float32, and once more in inf and nan.
    normal = w.op("add", _shift(w, "shl", size, 13), _int(w, 112 << 23, wide))
    beyond = w.op("icmp uge", size, _int(w, 0x7C00, wide), type="i1")
    more = w.op("add", normal, _int(w, 112 << 23, wide))
    steps = w.op("fmul", w.convert("sitofp", size, "float"), _float(w, 2.0**-24, wide))
    tiny = w.op("icmp ult", size, _int(w, 0x400, wide), type="i1")
    bits = w.select(tiny, w.convert("bitcast", steps, "i32"), w.select(beyond, more, normal))
    return w.convert("bitcast", w.op("or", bits, sign), "float")


def narrowed(w: FunctionWriter, target: Target, x: Value, dtype: DType) -> Value:
    """Returns a float32 rounded to ``dtype``, as the i16 with its bits."""
    if dtype.exponent_bits == 5 and target.has_fma:
        return w.convert("bitcast", w.convert("fptrunc", x, "half"), "i16")
    bits = w.convert("bitcast", x, "i32")
    size = _and(w, bits, 0x7FFFFFFF)
    sign = _and(w, _shift(w, "lshr", bits, 16), 0x8000)
    is_nan = w.op("icmp ugt", size, _int(w, 0x7F800000, bits), type="i1")
    if dtype.exponent_bits == 8:
        value = _shift(w, "lshr", _rounded(w, size, 16), 16)
        value = w.select(is_nan, _int(w, 0x7FC0, bits), value)
        return w.convert("trunc", w.op("or", value, sign), "i16")
    normal = _shift(w, "lshr", w.op("sub", _rounded(w, size, 13), _int(w, 112 << 23, bits)), 13)
    # 0.5 has the unit of subnormal numbers in its last place, so adding it rounds to that.
    half = w.op("fadd", w.convert("bitcast", size, "float"), _float(w, 0.5, bits))
    steps = w.op("sub", w.convert("bitcast", half, "i32"), _int(w, 0x3F000000, bits))
    tiny = w.op("icmp ult", size, _int(w, 0x38800000, bits), type="i1")
    beyond = w.op("icmp uge", size, _int(w, 0x47800000, bits), type="i1")
    quiet = _and(w, _shift(w, "lshr", size, 13), 0x3FF)
    nan = w.op("or", quiet, _int(w, 0x7E00, bits))
    large = w.select(is_nan, nan, _int(w, 0x7C00, bits))
    value = w.select(beyond, large, w.select(tiny, steps, normal))
    return w.convert("trunc", w.op("or", value, sign), "i16")


def rounded_to_odd(w: FunctionWriter, x: Value) -> Value:
    """Returns a float64 as a float32 whose last bit is set if it is not exact: rounding it once
    more to half of its bits gives what rounding ``x`` once would."""
    near = w.convert("fptrunc", x, "float")
    bits = w.convert("bitcast", near, "i32")
    back = w.convert("fpext", near, "double")
    inexact = w.op("fcmp one", back, x, type="i1")
    farther = w.op("fcmp ogt", w.intrinsic("fabs", back), w.intrinsic("fabs", x), type="i1")
    toward_zero = w.select(farther, w.op("sub", bits, _int(w, 1, bits)), bits)
    odd = w.op("or", toward_zero, _int(w, 1, bits))
    return w.convert("bitcast", w.select(inexact, odd, bits), "float")


def _rounded(w: FunctionWriter, size: Value, dropped: int) -> Value:
    """``size`` plus what makes cutting off the last bits round to nearest, ties to even."""
    last = _and(w, _shift(w, "lshr", size, dropped), 1)
    return w.op("add", w.op("add", size, _int(w, (1 << (dropped - 1)) - 1, size)), last)


def _shift(w: FunctionWriter, opcode: str, x: Value, count: int) -> Value:
    return w.op(opcode, x, _int(w, count, x))


def _and(w: FunctionWriter, x: Value, mask: int) -> Value:
    return w.op("and", x, _int(w, mask, x))


def _int(w: FunctionWriter, value: int, like: Value) -> Value:
    return w.splat(Value(str(value), "i32"), like.lanes)


def _float(w: FunctionWriter, value: float, like: Value) -> Value:
    return w.splat(Value(float_literal(value, "float"), "float"), like.lanes)
