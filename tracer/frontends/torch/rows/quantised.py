"""Weights that come as integers with scales. They stay integers in the graph, and are widened where
they are multiplied."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.emitting import lift
from ..table import Value, aten

_RANGE = ("quant_min", "quant_max", "dtype")  # that of the integers, which the tensor's dtype tells


def _dequantised(integers: Value, scales: Value, zeros: Value) -> Value:
    """The numbers that integers stand for, in float32."""
    wide = lift(integers).astype(np.float32)
    moved = wide if zeros is None else wide - zeros.astype(np.float32)
    return moved * scales.astype(np.float32)


@aten(
    "quantized_decomposed.dequantize_per_channel_group.default", ignores=(*_RANGE, "output_dtype")
)
def _of_groups(input: Value, scales: Value, zero_points: Value = None, *, group_size: int) -> Value:
    each = [v if v is None else np.repeat(v, group_size, axis=-1) for v in (scales, zero_points)]
    return _dequantised(input, *each)


@aten("quantized_decomposed.dequantize_per_channel.default", ignores=(*_RANGE, "out_dtype"))
def _of_channels(input: Value, scales: Value, zero_points: Value, axis: Any) -> Value:
    shape = [-1 if n == axis % input.ndim else 1 for n in range(input.ndim)]
    each = (v if v is None else np.reshape(v, shape) for v in (scales, zero_points))
    return _dequantised(input, *each)


@aten("_weight_int8pack_mm.default")
def _product_of_bytes(self: Value, mat2: Value, scales: Value) -> Value:
    return np.matmul(self, np.swapaxes(lift(mat2).astype(self.dtype), 0, 1)) * scales
