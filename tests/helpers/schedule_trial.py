"""One kernel run under many schedules, between guard zones, against its reference."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any
from zlib import crc32

import numpy as np
from loopwright.autotune.measure.data_races import IterationWatch
from loopwright.autotune.measure.guarded import GuardedBuffer
from loopwright.autotune.measure.harness import Harness
from loopwright.autotune.measure.inputs import index_ranges, make_inputs, make_probes
from loopwright.autotune.measure.reference import Reference
from loopwright.codegen.kernel import Kernel, compile_nest, prepare_operands
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
MOST_TEXT, LONG_TEXT, LONG_SHARE = 1 << 19, 1 << 14, 3
"""Characters of code that is run at all, and from which only one kernel in three is: a fifth of all
texts, in which LLVM would spend more than half of its time."""
Array = np.ndarray[Any, Any]


class Trial:
    """A kernel with its inputs in guarded memory. ``run`` says what is wrong with a schedule."""

    harness: Harness | None = None

    def __init__(
        self, prim: PrimFunc, seed: int, target: Target, long_share: int = LONG_SHARE
    ) -> None:
        """Of kernels with long code one in ``long_share`` is run."""
        self.prim, self.target, self.long_share = prim, target, long_share
        self.inputs = _signed(prim, make_inputs(prim, seed), np.random.default_rng(seed))
        given = [self.inputs, *make_probes(prim, self.inputs, seed)[:3]]
        self.cases = [(inputs, Reference(prim, inputs)) for inputs in given]
        if Trial.harness is None:
            Trial.harness = Harness()
        self.outputs = {
            b.name: GuardedBuffer(prod(map(as_int, b.shape)) * b.dtype.bytes)
            for b in prim.output_buffers
        }
        self.given: dict[tuple[int, str], tuple[GuardedBuffer, Array]] = {}
        self.nests: set[Nest] = set()
        self.texts: set[str] = set()

    def close(self) -> None:
        for buffer in (*self.outputs.values(), *(buffer for buffer, _ in self.given.values())):
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

    def run(self, nest: Nest, threads: Sequence[int]) -> str:
        """What is wrong with the code of a nest, with parallel loops on each number of threads.

        Empty if nothing is; "refused" or "large" if it does not run, "repeated" if the same code
        has run.
        """
        if nest in self.nests:
            return "repeated"
        self.nests.add(nest)
        try:
            kernel = compile_nest(self.prim, nest, self.target, "candidate")
        except ScheduleError:
            return "refused"
        if kernel.text in self.texts:
            return "repeated"
        self.texts.add(kernel.text)
        size = len(kernel.text)
        if size > MOST_TEXT or (size > LONG_TEXT and crc32(kernel.text.encode()) % self.long_share):
            return "large"
        try:
            verify_nest(kernel.nest)
            code = compile_object(kernel.text, self.target)
        except (InternalError, ScheduleError) as error:
            return str(error)
        ways = [(f"on {n} threads: ", n) for n in threads if n > 1]
        ways = [("", 1), *([*ways, ("one iteration at a time: ", 0)] if kernel.parallel else [])]
        return self._checked(kernel, code, ways)

    def _checked(self, kernel: Kernel, code: bytes, ways: Sequence[tuple[str, int]]) -> str:
        harness = Trial.harness
        assert harness is not None
        symbols = dict(pool.symbols())
        symbols["lw_parallel_for"] = harness.use_pool(symbols["lw_parallel_for"])
        function = load_object(code, symbols).function(f"{kernel.name}.packed", ctypes.c_void_p)
        address = ctypes.cast(function, ctypes.c_void_p).value  # type: ignore[arg-type]
        workspace = GuardedBuffer(kernel.workspace_bytes)
        written = (*self.outputs.values(), workspace)
        made = [workspace]
        try:
            for case, (_, reference) in enumerate(self.cases):
                read = self._operands(kernel, case, made)
                homes = [
                    self.outputs[o.buffer.name] if o.role.writes else read[o.buffer.name][0]
                    for o in kernel.operands
                ]
                addresses = [home.address for home in homes]
                block = (ctypes.c_void_p * (len(addresses) + 1))(*addresses, workspace.address)
                for way, threads in ways:
                    for buffer in written:
                        buffer.fill_with_garbage()
                    for result, start in getattr(self.prim, "begins", ()):
                        self.outputs[result].fill(self.cases[case][0][start])
                    wrong = self._called(address, ctypes.addressof(block), threads, written)
                    if wrong:
                        return wrong
                    if not all(buffer.intact() for buffer in (*homes, workspace)):
                        return f"{way}writes outside of its buffers"
                    verdict = reference.check(self._results())
                    if not verdict.right:
                        return f"{way}{verdict.reason} ({verdict.max_error:.2g})"
                for name, (home, values) in read.items():
                    if not np.array_equal(home.bytes, values):
                        home.bytes[:] = values
                        return f"writes into {name}"
            return ""
        finally:
            for buffer in made:
                buffer.close()

    def _called(
        self, address: int | None, place: int, threads: int, written: Sequence[GuardedBuffer]
    ) -> str:
        """Call a kernel once; with no threads one iteration of parallel loops at a time, and say
        whether two of them write to one place."""
        harness = Trial.harness
        assert harness is not None and address is not None
        if threads:
            with pool.limited(threads):
                harness.first(address, place)
            return ""
        watch = IterationWatch(harness, [buffer.bytes for buffer in written], 1)
        with harness.watched(watch.loop):
            harness.first(address, place)
        return "a race" if watch.race else ""

    def _operands(
        self, kernel: Kernel, case: int, made: list[GuardedBuffer]
    ) -> dict[str, tuple[GuardedBuffer, Array]]:
        """What a kernel reads, in guarded memory and as bytes. Packed operands, which are another
        array for each schedule, go into ``made``; the others are kept."""
        found: dict[str, tuple[GuardedBuffer, Array]] = {}
        for operand, array in zip(kernel.operands, prepare_operands(kernel, self.cases[case][0])):
            name = operand.buffer.name
            if operand.role.writes:
                continue
            known = self.given.get((case, name)) if operand.pack is None else None
            if known is None:
                home = GuardedBuffer(array.nbytes, array.itemsize)
                home.fill(array)
                known = home, home.bytes.copy()
                if operand.pack is None:
                    self.given[case, name] = known
                else:
                    made.append(home)
            found[name] = known
        return found

    def _results(self) -> dict[str, Array]:
        return {
            b.name: self.outputs[b.name].array(tuple(map(as_int, b.shape)), b.dtype.numpy)
            for b in self.prim.output_buffers
        }

    def interpreted(self, nest: Nest) -> str:
        """Whether the nest itself is right, and what blocks of sums make of it."""
        found = f"the nest {self._interpreted(nest)}"
        blocked = compile_nest(self.prim, nest, self.target).nest
        return found if blocked is nest else f"{found}, in blocks {self._interpreted(blocked)}"

    def _interpreted(self, nest: Nest) -> str:
        arrays: dict[str, Array] = {}
        for operand in nest.operands:
            buffer = operand.buffer
            if operand.pack is not None:
                arrays[buffer.name] = operand.pack.array(self.inputs[operand.pack.source])
            elif operand.role == "out":
                shape = tuple(map(as_int, buffer.shape))
                arrays[buffer.name] = np.full(shape, 77, buffer.dtype.numpy)
            elif operand.begins_as is not None:
                arrays[buffer.name] = self.inputs[operand.begins_as[1]].copy()
            else:
                arrays[buffer.name] = self.inputs[buffer.name]
        try:
            interpret(nest, arrays)
        except Exception as error:
            return f"raises {error}"
        found = {b.name: arrays[b.name] for b in self.prim.output_buffers}
        return "is right" if self.cases[0][1].check(found).right else "is wrong"


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
