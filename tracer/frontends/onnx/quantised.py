"""Converters of operators on quantised tensors: integers that stand for ``(q - zero) * scale``.

Each becomes the operator on the numbers, between ``nn.dequantize`` and ``nn.quantize``; the pass
``multiply_integers`` then computes with the integers. Rounding is that of the standard: a quotient
is rounded to the nearest integer, ties to even; then the zero point is added, and the sum is
clipped to the integers of the type. Products of integers are summed up in int32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir.dtype import dtype_of
from ....ir.errors import LoopwrightValueError, UnsupportedError
from ... import nn
from ...core.emitting import lift
from ...core.trace import active
from .conv import convolution
from .elementwise import cast_to
from .table import Value, converter, is_known
from .tensors import dtype_name, numpy_dtype

_INTEGERS = ("int8", "uint8", "int16", "uint16")


def _along(scale: Value, x: Value, axis: int, block_size: int) -> Value:
    """Returns a scale or zero point of blocks in a form that is broadcast against ``x``."""
    if scale.ndim < 2:
        return np.reshape(scale, [-1 if each == axis % x.ndim else 1 for each in range(x.ndim)])
    if not block_size:
        raise LoopwrightValueError(f"a scale of shape {scale.shape} needs a block_size")
    return np.repeat(scale, block_size, axis)[tuple(slice(0, size) for size in x.shape)]


def quantised(x: Value, scale: Value, zero: Value, axis: int = -1) -> Value:
    """Returns the integers, of the dtype of ``zero``, that stand for floats."""
    dtype = dtype_of(zero.dtype)
    if dtype.computed.name not in _INTEGERS:
        raise UnsupportedError(f"quantising to {dtype} is not supported")
    made = nn.quantize(x, scale.astype(x.dtype), _as_bytes(zero), axis)
    if dtype.computed is dtype:
        return made
    least, greatest = dtype.limits
    return np.minimum(np.maximum(made, least), greatest).astype(zero.dtype)


def dequantised(x: Value, scale: Value, zero: Value | None, axis: int = -1) -> Value:
    """Returns the numbers that integers stand for."""
    x, zero = (_as_bytes(each) for each in (x, zero))
    return nn.dequantize(x, scale, x.dtype.type(0) if zero is None else zero, axis)


def _as_bytes(x: Value) -> Value:
    """Returns integers shorter than bytes as bytes, and short floats as float32."""
    return x if x is None else x.astype(dtype_of(x.dtype).computed.numpy)


@converter("QuantizeLinear", since=1, domain="com.microsoft")
@converter("QuantizeLinear", since=10)
def _quantize_linear(
    x: Value,
    scale: Value,
    zero: Value = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Value:
    if zero is None:
        zero = np.zeros((), numpy_dtype(output_dtype) if output_dtype else np.uint8)
    elif output_dtype and zero.dtype != numpy_dtype(output_dtype):
        raise LoopwrightValueError(
            f"its output_dtype is {dtype_name(output_dtype)}, and its zero point {zero.dtype}"
        )
    scale = _wide_scale(scale)
    x = x.astype(numpy_dtype(precision) if precision else scale.dtype)
    if dtype_of(zero.dtype).is_float:
        steps = x / _along(scale.astype(x.dtype), x, axis, block_size)
        if not _is_zero(zero):
            steps = steps + _along(zero.astype(x.dtype), x, axis, block_size)
        return cast_to(steps, zero.dtype, saturate)
    if scale.ndim < 2 and not block_size:
        return quantised(x, scale, zero, axis if scale.ndim else -1)
    zeros = _along(zero, x, axis, block_size) if zero.ndim else zero
    moved = x / _along(scale.astype(x.dtype), x, axis, block_size) + zeros.astype(x.dtype)
    return quantised(moved, np.ones((), x.dtype), np.zeros((), zero.dtype))


@converter("DequantizeLinear", since=1, domain="com.microsoft", deferred=True)
@converter("DequantizeLinear", since=10, deferred=True)
def _dequantize_linear(
    x: Value,
    scale: Value,
    zero: Value = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Value:
    dtype = numpy_dtype(output_dtype) if output_dtype else scale.dtype
    if dtype_of(dtype).bits == 8:
        raise LoopwrightValueError(f"its scale is {dtype}, and it has no output_dtype")
    if zero is not None and zero.dtype != x.dtype:
        raise LoopwrightValueError(f"its zero point is {zero.dtype}, and its elements {x.dtype}")
    scale = _wide_scale(scale)
    if scale.ndim < 2 and not block_size and _as_bytes(x).dtype.kind in "iu":
        return dequantised(x, scale, zero, axis if scale.ndim else -1).astype(dtype)
    x, zero = _as_bytes(x), _as_bytes(zero)
    if zero is not None and x.dtype.kind in "iu":
        x = _centred(x, _along(zero, x, axis, block_size))
    elif zero is not None and not _is_zero(zero):
        x = x - _along(zero, x, axis, block_size)
    x = lift(x) if active() is not None else x  # bytes stay bytes in the graph
    # int32 is rounded here, as in the standard; what is smaller is exact.
    value = x.astype(np.float32 if dtype.itemsize < 4 else scale.dtype)
    return (value * _along(scale, x, axis, block_size).astype(value.dtype)).astype(dtype)


def _wide_scale(scale: Value) -> Value:
    """Returns a scale to compute with: powers of two of 8 bits hold no quotients."""
    return scale.astype(np.float32) if dtype_of(scale.dtype).bits == 8 else scale


def _is_zero(zero: Value) -> bool:
    """True of zero points of floats, which are zeros as a rule: adding them would lose -0."""
    return is_known(zero) and not np.any(zero.astype(np.float32))


def _centred(x: Value, zero: Value | None) -> Value:
    """Returns integers less their zero point, as int32; constants stay bytes in the graph."""
    x = lift(x) if active() is not None else x
    wide = x.astype(np.int32)
    return wide if zero is None else wide - zero.astype(np.int32)


@converter("DynamicQuantizeLinear", since=11)
def dynamically_quantised(x: Value) -> tuple[Value, Value, Value]:
    """Returns uint8 integers with their scale and zero point, so that they reach from the least
    element, or 0, to the greatest, or 0."""
    least, greatest = np.minimum(np.min(x), 0), np.maximum(np.max(x), 0)
    scale = (greatest - least) / x.dtype.type(255)
    scale = np.where(scale == 0, x.dtype.type(1), scale)  # of zeros alone
    zero = np.minimum(np.maximum(np.rint(-least / scale), 0), 255).astype(np.uint8)
    return quantised(x, scale, zero), scale, zero


@converter("MatMulInteger", since=10)
def _matmul_integer(a: Value, b: Value, a_zero: Value = None, b_zero: Value = None) -> Value:
    if a_zero is not None and a_zero.ndim == 1 and a_zero.size > 1:
        a_zero = a_zero[:, None]  # of each row
    return np.matmul(_centred(a, a_zero), _centred(b, b_zero))


@converter("QLinearMatMul", since=10)
def _qlinear_matmul(
    a: Value,
    a_scale: Value,
    a_zero: Value,
    b: Value,
    b_scale: Value,
    b_zero: Value,
    y_scale: Value,
    y_zero: Value,
) -> Value:
    rows = dequantised(a, a_scale, a_zero, -2 if a.ndim > 1 else -1)
    y = np.matmul(rows, dequantised(b, b_scale, b_zero))
    return quantised(y, y_scale, y_zero, -2 if y.ndim > 1 else -1)


# kernel_shape: the weights have it.
@converter("ConvInteger", since=10, ignores=("kernel_shape",), options_of=convolution)
def _conv_integer(
    x: Value, w: Value, x_zero: Value = None, w_zero: Value = None, **windows: Any
) -> Value:
    if w_zero is not None and w_zero.size > 1:
        w_zero = np.reshape(w_zero, [-1] + [1] * (w.ndim - 1))
    return convolution(_centred(x, x_zero), _centred(w, w_zero), **windows)


# kernel_shape: the weights have it.
@converter("QLinearConv", since=10, ignores=("kernel_shape",), options_of=convolution)
def _qlinear_conv(
    x: Value,
    x_scale: Value,
    x_zero: Value,
    w: Value,
    w_scale: Value,
    w_zero: Value,
    y_scale: Value,
    y_zero: Value,
    bias: Value = None,
    **windows: Any,
) -> Value:
    image, kernel = dequantised(x, x_scale, x_zero), dequantised(w, w_scale, w_zero, 0)
    added = None if bias is None else dequantised(bias, x_scale * w_scale, None)
    return quantised(convolution(image, kernel, added, **windows), y_scale, y_zero)
