"""Kernels run on arrays that end, or begin, at the border of a page that cannot be touched."""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import compiled
import loopwright as lw
import numpy as np
from loopwright.autotune.measure.guarded import GuardedBuffer
from loopwright.autotune.space.space import ScheduleSpace, default_schedule
from loopwright.codegen.kernel import Kernel, compile_kernel, prepare_operands
from loopwright.codegen.llvm.engine import compile_object
from loopwright.codegen.llvm.link import load_object
from loopwright.codegen.runtime import pool
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.ir.dims import as_int
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.schedule.steps import Schedule

__all__ = ["HOST", "LEVELS", "call_at_page_borders", "run_at_page_borders", "sampled"]

Array = np.ndarray[Any, Any]
HOST = Target.host()
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]


def run_at_page_borders(
    kernel: Kernel, target: Target, inputs: Mapping[str, Array], at_start: bool
) -> list[Array]:
    """The outputs of a kernel whose operands lie beside pages that cannot be touched."""
    loaded = load_object(compile_object(kernel.text, target), pool.symbols())
    buffers: list[GuardedBuffer] = []
    for operand, array in zip(kernel.operands, prepare_operands(kernel, inputs)):
        alignment = 64 if operand.role.writes else max(1, array.itemsize)
        buffer = GuardedBuffer(array.nbytes, alignment, place=0 if at_start else None)
        if operand.role == "out":
            buffer.bytes[:] = 1  # garbage that is also a valid bool
        else:
            buffer.fill(array)
        buffers.append(buffer)
    workspace = GuardedBuffer(as_int(kernel.workspace_bytes), 64)
    workspace.bytes[:] = 1
    handed = [*(b.address for b in (*buffers, workspace)), *kernel.size_values]
    block = (ctypes.c_int64 * len(handed))(*handed)
    loaded.function(f"{kernel.name}.packed", ctypes.c_void_p)(ctypes.addressof(block))
    outputs: list[Array] = []
    for operand, buffer in zip(kernel.operands, buffers):
        assert buffer.intact(), f"a write beside {operand.buffer}"
        if operand.role.writes:
            shape = tuple(int(n) for n in operand.buffer.shape)
            outputs.append(buffer.array(shape, operand.buffer.dtype.numpy).copy())
    for buffer in (*buffers, workspace):
        buffer.close()
    return outputs


def sampled(target: Target, seed: int, prim: PrimFunc) -> Schedule:
    """A schedule drawn from the kernel's space that can be applied, and whose code is not too long;
    else the default."""
    space = ScheduleSpace(prim, target)
    rng = np.random.default_rng([seed, zlib.crc32(str(prim).encode())])
    for row in space.sample(4, rng):
        schedule = space.schedule(row)
        try:
            compile_kernel(prim, schedule, target)
        except ScheduleError:
            continue
        return schedule
    return default_schedule(prim, target)[0]


def call_at_page_borders(
    function: Callable[..., Any],
    isa: str,
    inputs: Sequence[Array],
    *,
    at_start: bool = False,
    schedules: int | None = None,
) -> Any:
    """What a function gives on an ISA level, its kernels with schedules drawn by a seed, if any."""
    target = HOST.with_isa(isa)
    return compiled.run_module(
        compiled.lower(lw.compile(function).trace(*inputs).module),
        inputs,
        target,
        partial(run_at_page_borders, at_start=at_start),
        None if schedules is None else partial(sampled, target, schedules),
    )
