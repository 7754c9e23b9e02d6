"""The check before a kernel's first use: does the code compute what the PrimFunc says?

::

    kernels --> machine code known from before, by its hash            -> the verdict
            --> the others: operands between forbidden pages, a call in a copy of this process,
                the result held against the reference                  -> the verdict, remembered

A schedule from a log, a near shape or another machine is data from outside, and what was written of
it ("right", "fast") was written about other code. So the code decides. Small results are compared
whole, of large ones the elements that every store in the code writes (``store_points.py``). The
tuner's gate checks the same, for longer.

What is checked: the result, with garbage in the registers, on the stack, in the workspace and in
the result beforehand; that nothing beside the operands is touched and no input written; that the
turns of a parallel loop may run from the last to the first; and for kernels that choose, as a
maximum does, inputs made for that (``probes.py``). The limit in time is 30 times what a slow
machine would take.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..codegen.kernel import Kernel, prepare_operands
from ..codegen.llvm.link import load_object
from ..codegen.objects import object_code
from ..codegen.target import Target
from ..ir.dims import as_int
from ..ir.errors import InternalError
from ..ir.loop.nest import Operand
from ..ir.loop.prim import Buffer, PrimFunc
from ..ir.loop.verify import verify_nest
from . import sandbox
from .analysis import prim_bytes, prim_flops
from .guarded import GARBAGE
from .probes import make_probes
from .reference import (
    Reference,
    affordable_points,
    is_evaluated_whole,
    make_inputs,
    sample_points,
)
from .settings import DEFAULT_SETTINGS
from .store_points import StorePoints
from .unpacked import Unpacked, clear_padding
from .verdicts import verdicts

__all__ = ["Subject", "can_try", "refusals"]

Array = npt.NDArray[Any]

VERSION = 1
"""Of what is checked: other verdicts are not believed."""
SEED = 0
SETTINGS = replace(DEFAULT_SETTINGS, reference_work=1 << 15, reference_points=128)
"""Scalar evaluations of the reference: a millisecond or two, a few hundredths of a compile."""
PERIOD = 61 * mmap.PAGESIZE
"""Bytes after which large inputs come again: a prime number of pages, so that few strides of an
array are multiples of it."""
PROBES = 2
BATCH_BYTES = 256 << 20
CANARY = 0xFF

SLOW = 30
SLOW_FLOPS, SLOW_BYTES = 5e10, 5e9
LEAST_SECONDS = 0.2
"""A call may take ``SLOW`` times as long as a machine of these rates, and so many seconds more."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel of a PrimFunc, compiled."""

    prim: PrimFunc
    kernel: Kernel
    target: Target

    @property
    def key(self) -> str:
        """A hash of the machine code, its interface, and what the check covers."""
        kernel = self.kernel
        parts = [f"{VERSION}", f"{self.prim}", f"{kernel.workspace_bytes}"]
        parts += [f"{o.role} {o}" for o in kernel.operands]
        digest = hashlib.sha256("\n".join(parts).encode())
        digest.update(object_code(kernel.text, self.target))
        return digest.hexdigest()


def can_try(target: Target) -> bool:
    """Whether this machine runs code for a target."""
    host = Target.host()
    return target.level.cpu_flags <= host.level.cpu_flags and target.features <= host.features


def refusals(subjects: Mapping[str, Subject], folder: Path) -> dict[str, str]:
    """Why kernels must not be used, by name; those that may are left out.

    Verdicts are remembered in ``folder``.
    """
    store = verdicts(folder)
    keys = {name: subject.key for name, subject in subjects.items()}
    found = {key: store.get(key) for key in keys.values()}
    waiting = {keys[name]: s for name, s in subjects.items() if found[keys[name]] is None}
    for key, subject in list(waiting.items()):
        try:
            verify_nest(subject.kernel.nest)
        except InternalError as error:
            found[key] = error.message
            store.put(key, error.message)
            del waiting[key]
    while waiting:
        batch = _batch(waiting)
        try:
            judged = _try(batch)
        except (OSError, MemoryError) as error:  # says nothing about a kernel: not remembered
            judged = {}
            found |= dict.fromkeys(batch, f"it could not be tried: {error}")
            waiting = {key: s for key, s in waiting.items() if key not in batch}
        for key, reason in judged.items():
            found[key] = reason
            store.put(key, reason)
            del waiting[key]
    return {name: reason for name, key in keys.items() if (reason := found[key])}


def _batch(waiting: Mapping[str, Subject]) -> dict[str, Subject]:
    """As many as fit into memory together, at least one."""
    batch: dict[str, Subject] = {}
    size = 0.0
    for key, subject in waiting.items():
        size += 2 * prim_bytes(subject.prim) + subject.kernel.workspace_bytes
        if batch and size > BATCH_BYTES:
            break
        batch[key] = subject
    return batch


def _try(batch: Mapping[str, Subject]) -> dict[str, str]:
    """Verdicts on some of these kernels, at least one: "", or what is wrong."""
    arena = sandbox.Arena()
    try:
        trials = {key: _Trial(subject, arena) for key, subject in batch.items()}
        ops = [op for trial in trials.values() for op in trial.ops]
        process = sandbox.Copy(ops, sum(trial.seconds for trial in trials.values()))
        try:
            for trial in trials.values():
                trial.evaluate()
        finally:
            outcome = process.wait()
        judged: dict[str, str] = {}
        start = 0
        for key, trial in trials.items():
            end = start + len(trial.ops)
            if outcome.done < end:
                judged[key] = outcome.died
                break
            wrong = [trial.meaning[n - start] for n in outcome.false if start <= n < end]
            judged[key] = wrong[0] if wrong else trial.verdict()
            start = end
        return judged
    finally:
        arena.close()


@dataclass(slots=True)
class _Run:
    """One call: its inputs, the elements that are compared (all if there are no ``points``), where
    they are reported, and what they should be."""

    inputs: Mapping[str, Any]
    points: Mapping[str, Array] | None
    outputs: Mapping[str, Array]
    reference: Reference | None = None


class _Trial:
    """The operations that try one kernel, and the judgement on what they report."""

    def __init__(self, subject: Subject, arena: sandbox.Arena) -> None:
        self.kernel, self.prim = subject.kernel, subject.prim
        self.ops: list[sandbox.Op] = []
        self.meaning: dict[int, str] = {}  # of operations that ask something: what "no" means
        self._arena = arena
        self._kept: list[object] = []
        seconds = prim_flops(self.prim) / SLOW_FLOPS + prim_bytes(self.prim) / SLOW_BYTES
        self.seconds = LEAST_SECONDS + SLOW * seconds
        code = load_object(object_code(self.kernel.text, subject.target), sandbox.symbols())
        self._kept.append(code)
        self._function = code.address(f"{self.kernel.name}.packed")
        self._outputs = {b.name: self._reserve(_bytes(b), b.name) for b in self.prim.output_buffers}
        self._workspace = self._reserve(max(1, self.kernel.workspace_bytes), "the workspace")
        self._whole = is_evaluated_whole(self.prim, SETTINGS)
        self._turns: Array | None = None  # of the last parallel loop, where not all are run
        self._loops_before = 0
        self._runs = list(self._small_runs()) if self._whole else [self._large_run()]

    def evaluate(self) -> None:
        """Evaluate the reference: something to do while the copy runs."""
        for run in self._runs:
            run.reference = Reference(self.prim, run.inputs, SETTINGS, SEED, run.points)

    def verdict(self) -> str:
        """What is wrong with the results, "" if nothing."""
        for run in self._runs:
            assert run.reference is not None
            check = run.reference.check if self._whole else run.reference.check_points
            verdict = check(run.outputs)
            if not verdict.right:
                return verdict.reason
        return ""

    # -- inputs

    def _small_runs(self) -> Iterator[_Run]:
        """Calls on inputs drawn by chance, and on probes; their results are compared whole."""
        inputs = make_inputs(self.prim, SEED)
        for given in (inputs, *make_probes(self.prim, inputs, SEED, PROBES)):
            operands = prepare_operands(self.kernel, given)
            arguments = [
                self._outputs[operand.buffer.name].address
                if operand.role == "out"
                else self._copied(operand, array)
                for operand, array in zip(self.kernel.operands, operands, strict=True)
            ]
            yield self._run(arguments, given, None)

    def _large_run(self) -> _Run:
        """A call on inputs that are a few pages again and again; some elements are compared."""
        values = make_inputs(self.prim, SEED, PERIOD)
        inputs: dict[str, Any] = {}
        arguments: list[int] = []
        for operand in self.kernel.operands:
            if operand.role == "out":
                arguments.append(self._outputs[operand.buffer.name].address)
                continue
            pack = operand.pack
            name = pack.source if pack else operand.buffer.name
            given = values[name]
            if given.shape == (pack.shape if pack else operand.buffer.shape):
                inputs[name] = given
                arguments.append(self._copied(operand, pack.array(given) if pack else given))
                continue
            array = self._repeated(operand, given)
            inputs[name] = Unpacked(array, pack) if pack else array
            arguments.append(array.ctypes.data)
        return self._run(arguments, inputs, self._points())

    def _copied(self, operand: Operand, array: Array) -> int:
        """The address of a copy that nobody can write to."""
        room = self._reserve(array.nbytes, operand.buffer.name, _alignment(operand))
        if array.nbytes:
            flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            sandbox.view(room.address, array.nbytes)[:] = flat
        self._finish(room)
        return room.address

    def _repeated(self, operand: Operand, values: Array) -> Array:
        """An operand made of ``values`` that nobody can write to."""
        size, shape = _bytes(operand.buffer), tuple(as_int(s) for s in operand.buffer.shape)
        place = self._arena.repeated(values, size, _alignment(operand))
        room = _Room(operand.buffer.name, size, *place)
        array = sandbox.view(room.address, size).view(values.dtype).reshape(shape)
        if operand.pack is not None:
            clear_padding(array, operand.pack)
        self._finish(room)
        return array

    def _finish(self, room: _Room) -> None:
        """What lies beside an input spoils the result, and nobody writes to either."""
        for begin, end in room.beside:
            sandbox.view(begin, end - begin)[:] = CANARY
        sandbox.protect(room.first, room.last)

    def _points(self) -> dict[str, Array]:
        """The elements of large outputs that are compared."""
        count = affordable_points(self.prim, SETTINGS) // 2
        rng = np.random.default_rng(SEED)
        stores = StorePoints(self.kernel.nest, self.prim.outputs, rng)
        self._turns, self._loops_before = stores.turns, stores.loops_before
        points: dict[str, Array] = {}
        for buffer in self.prim.output_buffers:
            points[buffer.name] = stores.of(buffer, count)
            if stores.turns is None:
                spread = sample_points(tuple(as_int(s) for s in buffer.shape), count, rng)
                points[buffer.name] = np.concatenate([points[buffer.name], spread])
        return points

    # -- operations

    def _run(
        self,
        arguments: Sequence[int],
        inputs: Mapping[str, Any],
        points: Mapping[str, Array] | None,
    ) -> _Run:
        pointers = (ctypes.c_void_p * (len(arguments) + 1))(*arguments, self._workspace.address)
        self._kept.append(pointers)
        rooms = [*self._outputs.values(), self._workspace]
        for room in rooms:
            for begin, end in room.beside:
                self.ops.append(sandbox.fill(begin, end - begin, CANARY))
            if room is self._workspace or self._turns is None:  # else it is zero, and mostly unused
                self.ops.append(sandbox.fill(room.address, room.size, GARBAGE))
        turns = self._turns
        chosen = (0, 0) if turns is None else (turns.ctypes.data, turns.size)
        self.ops.append(sandbox.choose(*chosen, self._loops_before))
        self.ops.append(sandbox.call(self._function, ctypes.addressof(pointers)))
        for room in rooms:
            for begin, end in room.beside:
                untouched = sandbox.same(begin, end - begin, CANARY)
                self._ask(untouched, f"it wrote beside {room.name}")
        outputs = {
            b.name: self._report(b, None if points is None else points[b.name])
            for b in self.prim.output_buffers
        }
        return _Run(inputs, points, outputs)

    def _report(self, buffer: Buffer, points: Array | None) -> Array:
        """Where the elements of an output will be that are compared."""
        room, dtype = self._outputs[buffer.name], buffer.dtype.numpy
        shape = tuple(as_int(s) for s in buffer.shape)
        if points is None:
            report = self._arena.shared(room.size)
            self.ops.append(sandbox.copy(report.ctypes.data, room.address, room.size))
            return report[: room.size].view(dtype).reshape(shape)
        if dtype.itemsize >= 4 and self._turns is None:
            unwritten = sandbox.written(room.address, room.size, dtype.itemsize)
            self._ask(unwritten, f"parts of {buffer.name} are never written")
        places = np.zeros(1, np.int64)
        if shape:
            places = np.asarray(np.ravel_multi_index(tuple(points.T), shape), np.int64)
        self._kept.append(places)
        report = self._arena.shared(places.size * dtype.itemsize)
        to, source, size = report.ctypes.data, room.address, dtype.itemsize
        self.ops.append(sandbox.gather(to, source, places.ctypes.data, places.size, size))
        return report.view(dtype)[: places.size]

    def _ask(self, op: sandbox.Op, otherwise: str) -> None:
        self.meaning[len(self.ops)] = otherwise
        self.ops.append(op)

    def _reserve(self, size: int, name: str, alignment: int = 64) -> _Room:
        return _Room(name, size, *self._arena.reserve(size, alignment))


@dataclass(frozen=True, slots=True)
class _Room:
    """``size`` bytes at ``address``, in pages from ``first`` to ``last``."""

    name: str
    size: int
    address: int
    first: int
    last: int

    @property
    def beside(self) -> list[tuple[int, int]]:
        """Where the rest of its pages begins and ends."""
        ends = ((self.first, self.address), (self.address + self.size, self.last))
        return [(begin, end) for begin, end in ends if end > begin]


def _alignment(operand: Operand) -> int:
    """What the code may count on: arrays of callers begin anywhere."""
    return 64 if operand.role == "packed" else operand.buffer.dtype.bytes


def _bytes(buffer: Buffer) -> int:
    return as_int(buffer.size) * buffer.dtype.bytes
