"""Converters of operators on quantised tensors: integers that stand for ``(q - zero) * scale``.

Rounding is that of the standard: a quotient is rounded to the nearest integer, ties to even; then
the zero point is added, and the sum is clipped to the integers of the type. Products of integers
are summed up in int32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ir.errors import LoopwrightValueError, UnsupportedError
from .conv import convolution
from .table import Value, converter
from .tensors import numpy_dtype

_INTEGERS = ("int8", "uint8", "int16", "uint16")


def saturated(x: Value, zero: Value | None, dtype: np.dtype[Any]) -> Value:
    """Returns floats, rounded and offset by ``zero``, as integers of ``dtype``."""
    if dtype.name not in _INTEGERS:
        raise UnsupportedError(f"quantising to {dtype.name} is not supported")
    info = np.iinfo(dtype)
    rounded = np.rint(x)
    moved = rounded if zero is None else rounded + zero.astype(x.dtype)
    return np.minimum(np.maximum(moved, float(info.min)), float(info.max)).astype(dtype)


def _along(scale: Value, x: Value, axis: int, block_size: int) -> Value:
    """Returns a scale or zero point in a form that is broadcast against ``x``."""
    if scale.ndim == 0 or scale.size == 1:
        return np.reshape(scale, ())
    axis = axis + x.ndim if axis < 0 else axis
    if scale.ndim == 1 and not block_size:
        return np.reshape(scale, [-1 if each == axis else 1 for each in range(x.ndim)])
    if not block_size:
        raise LoopwrightValueError(f"a scale of shape {scale.shape} needs a block_size")
    return np.repeat(scale, block_size, axis)[tuple(slice(0, size) for size in x.shape)]


# saturate: of 8-bit floats only.
@converter("QuantizeLinear", since=1, domain="com.microsoft", ignores=("saturate",))
@converter("QuantizeLinear", since=10, ignores=("saturate",))
def _quantize_linear(
    x: Value,
    scale: Value,
    zero: Value = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
) -> Value:
    if zero is not None:
        dtype = zero.dtype
        zero = _along(zero, x, axis, block_size)
    else:
        dtype = numpy_dtype(output_dtype) if output_dtype else np.dtype(np.uint8)
    working = numpy_dtype(precision) if precision else scale.dtype
    quotient = x.astype(working) / _along(scale, x, axis, block_size).astype(working)
    return saturated(quotient, zero, dtype)


@converter("DequantizeLinear", since=1, domain="com.microsoft")
@converter("DequantizeLinear", since=10)
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
    if zero is not None and x.dtype.kind in "iu":
        x = _centred(x, _along(zero, x, axis, block_size))
    # int32 is rounded here, as in the standard; what is smaller is exact.
    value = x.astype(np.float32 if dtype.itemsize < 4 else scale.dtype)
    return (value * _along(scale, x, axis, block_size).astype(value.dtype)).astype(dtype)


def _centred(x: Value, zero: Value | None) -> Value:
    """Returns integers less their zero point, as int32."""
    wide = x.astype(np.int32)
    return wide if zero is None else wide - zero.astype(np.int32)


@converter("DynamicQuantizeLinear", since=11)
def _dynamic_quantize_linear(x: Value) -> Value:
    least, greatest = np.minimum(np.min(x), 0), np.maximum(np.max(x), 0)
    scale = (greatest - least) / x.dtype.type(255)
    zero = np.minimum(np.maximum(np.rint(-least / scale), 0), 255).astype(np.uint8)
    return saturated(x / scale, zero, np.dtype(np.uint8)), scale, zero


def dequantised(x: Value, scale: Value, zero: Value | None) -> Value:
    """Returns the numbers that integers stand for."""
    return _centred(x, zero).astype(np.float32) * scale


@converter("MatMulInteger", since=10)
def sums_of_products(a: Value, b: Value, a_zero: Value = None, b_zero: Value = None) -> Value:
    """Returns the product of matrices of integers in int32."""
    return np.matmul(_centred(a, _of_rows(a_zero)), _centred(b, b_zero))


def _of_rows(value: Value | None) -> Value | None:
    """Returns a zero point or scale of each row of a left operand, so that it is broadcast."""
    return value if value is None or value.ndim != 1 or value.size == 1 else value[:, None]


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
    product = sums_of_products(a, b, a_zero, b_zero)
    return requantised(product, (_of_rows(a_scale), b_scale), _of_rows(y_scale), _of_rows(y_zero))


# kernel_shape: the weights have it.
@converter("ConvInteger", since=10, ignores=("kernel_shape",), options_of=convolution)
def _conv_integer(
    x: Value, w: Value, x_zero: Value = None, w_zero: Value = None, **windows: Any
) -> Value:
    """A convolution in int32. float64 holds sums of products of bytes exactly, up to what a fast
    algorithm loses, which is rounded off."""
    if w_zero is not None and w_zero.size > 1:
        w_zero = np.reshape(w_zero, [-1] + [1] * (w.ndim - 1))
    image, kernel = (
        _centred(each, zero).astype(np.float64) for each, zero in ((x, x_zero), (w, w_zero))
    )
    return np.rint(convolution(image, kernel, **windows)).astype(np.int32)


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
    sums = _conv_integer(x, w, x_zero, w_zero, **windows)
    if bias is not None:
        sums = sums + np.reshape(bias, [-1] + [1] * (x.ndim - 2))
    # A scale of each output channel.
    scale = w_scale if w_scale.size == 1 else np.reshape(w_scale, [-1] + [1] * (x.ndim - 2))
    return requantised(sums, (x_scale, scale), y_scale, y_zero)


def requantised(sums: Value, scales: Sequence[Value], y_scale: Value, y_zero: Value) -> Value:
    """Returns sums of products, each operand scaled, quantised by ``y_scale`` and ``y_zero``."""
    factor = scales[0] * scales[1] / y_scale
    return saturated(sums.astype(np.float32) * factor.astype(np.float32), y_zero, y_zero.dtype)
