"""Running a single kernel in this process, outside of any program."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from ..ir.dims import as_int
from ..ir.dtype import Array
from .kernel import Kernel, prepare_operands
from .objects import loaded_code
from .runtime import pool
from .runtime.buffers import aligned_bytes
from .target import Target

GARBAGE = 0x7B  # of fresh memory: 1.3e36 as a float32, -1.6e286 or so as a float64


def call_kernel(
    kernel: Kernel, operands: Sequence[Array], workspace: Array | None, target: Target, threads: int
) -> None:
    """Run a kernel on memory as its program hands it over: all operands, then its workspace."""
    loaded = loaded_code(kernel.code, target)
    if workspace is None:
        workspace = aligned((max(1, as_int(kernel.workspace_bytes)),), np.dtype(np.uint8))
    handed = [*(a.ctypes.data for a in (*operands, workspace)), *kernel.size_values]
    block = (ctypes.c_int64 * len(handed))(*handed)
    call: Any = loaded.function(f"{kernel.name}.packed", ctypes.c_void_p)
    with pool.limited(threads) if threads else nullcontext():
        call(ctypes.addressof(block))


def run_kernel(
    kernel: Kernel, inputs: Mapping[str, Array], target: Target, threads: int
) -> list[Array]:
    """The outputs of a kernel on ``inputs`` by parameter name."""
    operands: list[Array] = []
    for given in prepare_operands(kernel, inputs):
        operands.append(aligned(given.shape, given.dtype))
        operands[-1][...] = given
    for operand, array in zip(kernel.operands, operands, strict=True):
        if operand.role == "out":
            array.reshape(-1).view(np.uint8)[...] = GARBAGE
    call_kernel(kernel, operands, None, target, threads)
    return [a for o, a in zip(kernel.operands, operands, strict=True) if o.role.writes]


def aligned(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """A fresh array where kernels want their outputs to start, filled with garbage."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = aligned_bytes(size)
    memory[...] = GARBAGE
    return memory.view(dtype).reshape(tuple(shape))
