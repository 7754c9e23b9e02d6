"""One kernel run under many schedules, between guard zones, against its reference."""

from __future__ import annotations

import ctypes
from math import prod
from typing import Any

import numpy as np
from loopwright.autotune.guarded import GuardedBuffer
from loopwright.autotune.harness import Harness
from loopwright.autotune.probes import make_probes
from loopwright.autotune.reference import Reference, index_ranges, make_inputs
from loopwright.autotune.turns import TurnWatch
from loopwright.codegen.kernel import Kernel, emit_kernel, prepare_operands
from loopwright.codegen.limits import check_limits
from loopwright.codegen.llvm.engine import compile_object
from loopwright.codegen.llvm.link import load_object
from loopwright.codegen.runtime import pool
from loopwright.codegen.target import Target
from loopwright.ir.dims import as_int
from loopwright.ir.errors import InternalError, ScheduleError
from loopwright.ir.loop.interpret import interpret
from loopwright.ir.loop.nest import If, Loop, Nest, Stmt
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.loop.verify import verify_nest
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.steps import Schedule

__all__ = ["Trial"]

MOST_WRITTEN = 200  # vectors of statements written out: LLVM takes seconds for what is longer
MOST_TEXT = 1 << 19
Array = np.ndarray[Any, Any]


class Trial:
    """A kernel with its inputs in guarded memory. ``run`` says what is wrong with a schedule."""

    harness: Harness | None = None

    def __init__(self, prim: PrimFunc, seed: int) -> None:
        self.prim = prim
        self.inputs = _signed(prim, make_inputs(prim, seed), np.random.default_rng(seed))
        given = [self.inputs, *make_probes(prim, self.inputs, seed)[:3]]
        self.cases = [(inputs, Reference(prim, inputs)) for inputs in given]
        if Trial.harness is None:
            Trial.harness = Harness()
        self.outputs = {
            b.name: _guarded(prod(map(as_int, b.shape)) * b.dtype.bytes, 64)
            for b in prim.output_buffers
        }

    def close(self) -> None:
        for buffer in self.outputs.values():
            buffer.close()

    def nest(self, schedule: Schedule) -> Nest | str:
        """The nest of a schedule, or in a word why it is not run."""
        try:
            nest = apply_schedule(self.prim, schedule)
        except ScheduleError:
            return "refused"
        try:
            verify_nest(nest)
        except InternalError:
            return "not verified"
        return "large" if _written(nest.body, 16) > MOST_WRITTEN else nest

    def run(self, nest: Nest, target: Target, threads: int) -> str:
        """What is wrong with the code of a nest; empty if nothing, "refused" if there is none."""
        try:
            check_limits(self.prim, nest, target)
            kernel = emit_kernel(nest, target, "candidate")
        except ScheduleError:
            return "refused"
        if len(kernel.text) > MOST_TEXT:
            return "large"
        try:
            code = compile_object(kernel.text, target)
        except ScheduleError as error:
            return error.message
        with pool.limited(threads):
            return self._checked(kernel, code, threads)

    def _checked(self, kernel: Kernel, code: bytes, threads: int) -> str:
        harness = Trial.harness
        assert harness is not None
        symbols = dict(pool.symbols())
        symbols["lw_parallel_for"] = harness.use_pool(symbols["lw_parallel_for"])
        function = load_object(code, symbols).function(f"{kernel.name}.packed", ctypes.c_void_p)
        address = ctypes.cast(function, ctypes.c_void_p).value  # type: ignore[arg-type]
        workspace = _guarded(kernel.workspace_bytes, 64)
        buffers: list[GuardedBuffer] = [workspace]
        try:
            for inputs, reference in self.cases:
                arrays = prepare_operands(kernel, inputs)
                addresses: list[int] = []
                for operand, array in zip(kernel.operands, arrays):
                    home = self.outputs.get(operand.buffer.name)
                    if operand.role != "out" or home is None:
                        home = _guarded(array.nbytes, array.itemsize)
                        home.fill(array)
                        buffers.append(home)
                    addresses.append(home.address)
                block = (ctypes.c_void_p * (len(addresses) + 1))(*addresses, workspace.address)
                place = ctypes.addressof(block)
                ways = ["", "by turns: "] if kernel.parallel and threads > 1 else [""]
                for way in ways:
                    for buffer in (*self.outputs.values(), workspace):
                        buffer.fill_with_garbage()
                    if way:
                        shared = [b.bytes for b in (*self.outputs.values(), workspace)]
                        watch = TurnWatch(harness, shared, 1)
                        with harness.watched(watch.loop):
                            harness.first(address, place)
                        if watch.race:
                            return "a race"
                    else:
                        harness.first(address, place)
                    if not all(b.intact() for b in (*buffers, *self.outputs.values())):
                        return f"{way}writes outside of its buffers"
                    verdict = reference.check(self._results())
                    if not verdict.right:
                        return f"{way}{verdict.reason} ({verdict.max_error:.2g})"
            return ""
        finally:
            for buffer in buffers:
                buffer.close()

    def _results(self) -> dict[str, Array]:
        return {
            b.name: self.outputs[b.name].array(tuple(map(as_int, b.shape)), b.dtype.numpy)
            for b in self.prim.output_buffers
        }

    def interpreted(self, nest: Nest) -> str:
        """Whether the nest itself is right."""
        arrays: dict[str, Array] = {}
        for operand in nest.operands:
            buffer = operand.buffer
            if operand.pack is not None:
                arrays[buffer.name] = operand.pack.array(self.inputs[operand.pack.source])
            elif operand.role == "out":
                arrays[buffer.name] = np.full(
                    tuple(map(as_int, buffer.shape)), 77, buffer.dtype.numpy
                )
            else:
                arrays[buffer.name] = self.inputs[buffer.name]
        try:
            interpret(nest, arrays)
        except Exception as error:
            return f"the nest raises {error}"
        found = {b.name: arrays[b.name] for b in self.prim.output_buffers}
        return "the nest is right" if self.cases[0][1].check(found).right else "the nest is wrong"


def _guarded(size: int, alignment: int) -> GuardedBuffer:
    return GuardedBuffer(size, alignment)


def _signed(prim: PrimFunc, inputs: dict[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    """The inputs with bytes of all values."""
    places = index_ranges(prim)
    for name, values in inputs.items():
        if values.dtype.itemsize == 1 and values.dtype.kind in "iu" and name not in places:
            info = np.iinfo(values.dtype)
            inputs[name] = rng.integers(info.min, info.max, values.shape, values.dtype, True)
    return inputs


def _written(body: tuple[Stmt, ...], lanes: int) -> int:
    """How many statements are written where unrolled loops are."""
    count = 0
    for stmt in body:
        if isinstance(stmt, Loop):
            turns = {"unroll": stmt.extent, "vectorize": -(-stmt.extent // lanes)}
            count += _written(stmt.body, lanes) * turns.get(stmt.kind, 1)
        elif isinstance(stmt, If):
            count += _written(stmt.then, lanes) + _written(stmt.orelse, lanes)
        else:
            count += 1
    return count
