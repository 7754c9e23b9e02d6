"""``MatMulNBits`` of the domain ``com.microsoft``: products with weights of 2, 4 or 8 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir.dtype import Array
from ....ir.errors import LoopwrightValueError
from ... import nn
from .table import Value, converter, known

_BYTES_OF_ACTIVATIONS = 4
"""The ``accuracy_level`` at which rows are rounded to int8."""


# accuracy_level: what is multiplied with float32 is as accurate as any but that of int8 asks for.
@converter("MatMulNBits", since=1, domain="com.microsoft")
def _matmul_nbits(
    a: Value,
    b: Value,
    scales: Value,
    zeros: Value = None,
    order: Value = None,
    bias: Value = None,
    *,
    K: int,
    N: int,
    block_size: int,
    bits: int = 4,
    accuracy_level: int = 0,
) -> Value:
    blocks = -(-K // block_size)
    codes = _codes(known(b, "B").reshape(N, -1), bits, blocks * block_size)
    factors = _sized(known(scales, "scales"), (N, blocks), "scales")
    points = None
    if zeros is not None:
        packed = known(zeros, "zero_points")
        if packed.dtype != np.uint8:
            raise LoopwrightValueError("zero points of MatMulNBits are packed in bytes")
        points = _codes(packed.reshape(N, -1), bits, blocks).T
    if order is not None:
        groups = known(order, "g_idx").reshape(-1)[:K]
        if not np.array_equal(groups, np.arange(K) // block_size):
            raise LoopwrightValueError("g_idx of MatMulNBits is not that of blocks in order")
    left = blocks * block_size - K
    if left:  # the last block is filled up: zeros are multiplied with what is there
        a = np.concatenate((a, np.zeros((*a.shape[:-1], left), a.dtype)), axis=-1)
    w = nn.pack_nbits(np.ascontiguousarray(codes.T), block_size, bits)
    mode = "int8" if accuracy_level == _BYTES_OF_ACTIVATIONS else "float32"
    factors = np.ascontiguousarray(factors.T)
    made = nn.matmul_nbits(a.astype(np.float32), w, factors, points, bits, mode).astype(a.dtype)
    return made if bias is None else made + bias


def _codes(packed: Array, bits: int, count: int) -> Array:
    """Returns the first ``count`` codes in each row of bytes, those in lower bits first."""
    if packed.dtype != np.uint8 or 8 % bits or packed.shape[1] * 8 < count * bits:
        raise LoopwrightValueError(f"MatMulNBits: {packed.shape[1]} bytes for {count} codes")
    return unpacked(packed, bits)[:, :count]


def unpacked(packed: Value, bits: int) -> Value:
    """Returns the codes in bytes, as bytes, along the last axis, those in lower bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = packed[..., None] >> shifts & np.uint8(2**bits - 1)
    return np.reshape(codes, (*packed.shape[:-1], packed.shape[-1] * (8 // bits)))


def _sized(value: Any, shape: tuple[int, ...], name: str) -> Array:
    if value.size != np.prod(shape):
        raise LoopwrightValueError(f"MatMulNBits: {name} has {value.size} elements, not {shape}")
    return value.reshape(shape)
