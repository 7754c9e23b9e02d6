"""Integers that come with scales: ``nn.quantize`` and ``nn.dequantize`` of the graph, whose passes
multiply the integers themselves, or widen them where they are multiplied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .....ir.graph.nodes import Call, Var
from .....ir.graph.operator import OPERATORS
from .... import nn
from ....core.emitting import lift
from ....core.proxy import Proxy
from ..table import Value, aten
from ..tensors import NUMPY_DTYPES

_RANGE = ("quant_min", "quant_max", "dtype")  # that of the integers, which the tensor's dtype tells


def _points(zeros: Value, dtype: np.dtype[Any]) -> Value:
    """Returns zero points as integers of a dtype; None if that may not hold them."""
    if isinstance(zeros, Proxy):
        return _before_cast(zeros, dtype)
    limits, zeros = np.iinfo(dtype), np.asarray(0 if zeros is None else zeros)
    fit = (zeros >= limits.min) & (zeros <= limits.max) & (zeros == np.rint(zeros))
    return zeros.astype(dtype) if fit.all() else None


def _before_cast(x: Proxy, dtype: np.dtype[Any]) -> Proxy | None:
    """Returns what has a dtype and was cast to ``x``, None if nothing was."""
    values = {binding.var: binding.value for binding in x.owner.builder.bindings}
    call = values.get(x.atom) if isinstance(x.atom, Var) else None
    if not isinstance(call, Call) or call.op is not OPERATORS["cast"]:
        return None
    before = Proxy(call.args[0], x.owner)
    return before if before.dtype == dtype else None


def _as(value: Value, dtype: Any) -> Value:
    return value.astype(dtype) if isinstance(value, Proxy) else np.asarray(value, dtype)


def _along(value: Value, x: Value, axis: int) -> Value:
    """A number or a vector along an axis, as it is broadcast against ``x``."""
    shape = [-1 if n == axis % x.ndim else 1 for n in range(x.ndim)]
    return value if value.size == 1 else np.reshape(value, shape)


def _widened(integers: Value, scales: Value, zeros: Value, dtype: Any = np.float32) -> Value:
    """The numbers that integers stand for, with any zero points."""
    wide = lift(integers).astype(dtype)
    moved = wide if zeros is None else wide - _as(zeros, dtype)
    return moved * _as(scales, dtype)


@aten("torchao.dequantize_affine.default", ignores=("input_dtype", "output_dtype", *_RANGE))
def _of_blocks(
    input: Value, block_size: Sequence[int], scale: Value, zero_point: Value = None
) -> Value:
    """A scale and a zero point for each block, along an axis of one block for all of it."""
    each: list[Value] = []
    for value in (scale, zero_point):
        if value is not None:
            value = np.reshape(
                value, [n // m for n, m in zip(input.shape, block_size, strict=True)]
            )
            for axis, size in enumerate(block_size):
                if 1 < size < input.shape[axis]:
                    value = np.repeat(value, size, axis=axis)
        each.append(value)
    return _widened(input, *each)


@aten(
    "quantized_decomposed.dequantize_per_channel_group.default", ignores=(*_RANGE, "output_dtype")
)
def _of_groups(input: Value, scales: Value, zero_points: Value = None, *, group_size: int) -> Value:
    return _of_blocks(input, (*(1,) * (input.ndim - 1), group_size), scales, zero_points)


@aten("quantized_decomposed.dequantize_per_tensor.default", ignores=_RANGE)
@aten("quantized_decomposed.dequantize_per_tensor.tensor", ignores=_RANGE)
def _dequantised(
    input: Value, scale: Value, zero_point: Value, *, axis: int = -1, out_dtype: Any = None
) -> Value:
    dtype = np.float64 if str(out_dtype) == "torch.float64" else np.float32
    scale, x = _as(scale, dtype), lift(input)
    zeros = _points(zero_point, x.dtype)
    if zeros is None or x.dtype.itemsize > 2:  # integers of 32 bits are rounded before
        given = None if zero_point is None else _along(_as(zero_point, dtype), x, axis)
        return _widened(x, _along(scale, x, axis), given, dtype)
    return nn.dequantize(x, scale, zeros, axis)


@aten("quantized_decomposed.dequantize_per_channel.default", ignores=_RANGE)
def _dequantised_channels(
    input: Value, scales: Value, zero_points: Value, axis: int, out_dtype: Any = None
) -> Value:
    return _dequantised(input, scales, zero_points, axis=axis, out_dtype=out_dtype)


@aten("quantized_decomposed.quantize_per_tensor.default")
@aten("quantized_decomposed.quantize_per_tensor.tensor")
def _quantised(
    input: Value,
    scale: Value,
    zero_point: Value,
    quant_min: int,
    quant_max: int,
    dtype: Any,
    *,
    axis: int = -1,
) -> Value:
    kind = NUMPY_DTYPES[dtype]
    limits, zeros = np.iinfo(kind), _points(zero_point, kind)
    if zeros is None or kind.itemsize > 2 or not isinstance(input, Proxy):
        # Constants are rounded as PyTorch does; float32 does not hold the greatest of 32 bits.
        wide = np.float32 if kind.itemsize <= 2 else np.float64
        inverse, zeros = (_along(_as(v, wide), input, axis) for v in (1.0 / scale, zero_point))
        whole = np.rint(input.astype(wide) * inverse) + zeros
        return np.clip(whole, quant_min, quant_max).astype(kind)
    made = nn.quantize(input.astype(np.float32), _as(scale, np.float32), zeros, axis)
    if quant_min > limits.min:
        made = np.maximum(made, kind.type(quant_min))
    return np.minimum(made, kind.type(quant_max)) if quant_max < limits.max else made


@aten("quantized_decomposed.quantize_per_channel.default")
def _quantised_channels(
    input: Value,
    scales: Value,
    zero_points: Value,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: Any,
) -> Value:
    return _quantised(input, scales, zero_points, quant_min, quant_max, dtype, axis=axis)


@aten("quantized_decomposed.choose_qparams.tensor")
def _scale_of_range(
    input: Value, quant_min: int, quant_max: int, eps: float, dtype: Any
) -> tuple[Value, Value]:
    """The scale and zero point with which integers reach from the least element to the greatest."""
    x = lift(input).astype(np.float32)
    least, greatest = np.minimum(np.min(x), 0), np.maximum(np.max(x), 0)
    scale = np.maximum((greatest - least) / np.float32(quant_max - quant_min), np.float32(eps))
    zero = np.clip(quant_min - np.rint(least / scale), quant_min, quant_max)
    return np.reshape(scale, 1), np.reshape(zero.astype(NUMPY_DTYPES[dtype]), 1)


@aten("_to_copy.default")
def _copied(self: Value, dtype: Any = None) -> Value:
    """The importer gives a result its dtype: of a matrix of bytes in the graph, whose passes widen
    it where it is multiplied."""
    is_codes = isinstance(self, np.ndarray) and self.ndim == 2 and self.dtype in (np.int8, np.uint8)
    return lift(self) if is_codes and dtype is not None and dtype.is_floating_point else self


@aten("_weight_int8pack_mm.default")
def _product_of_bytes(self: Value, mat2: Value, scales: Value) -> Value:
    return np.matmul(self, np.swapaxes(lift(mat2).astype(self.dtype), 0, 1)) * scales


@aten("_int_mm.default")
def _product_of_integers(self: Value, mat2: Value) -> Value:
    return np.matmul(*(lift(each).astype(np.int32) for each in (self, mat2)))
