"""Programs that read the clock between their kernels, to see where the time of a call goes.

::

    entry with readings of the clock -> TimedProgram.run     seconds of each kernel
    kernels on the loop recorder     -> TimedProgram.record  also which thread ran which part, when
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..ir.dtype import Array
from ..ir.program.nodes import Call, Program
from .entry import EntryWriter
from .llvm.clock import CLOCK_TEXT
from .llvm.link import LoadedObject, load_object
from .objects import object_code
from .program import KernelText, called_symbols, link_program
from .runtime import pool
from .runtime.executable import Executable
from .target import Target

__all__ = ["MOST_PARTS", "Recording", "TimedProgram", "timed_program"]

MOST_PARTS = 1 << 14
"""Parts of parallel loops that a recording keeps; later ones are left out."""


@dataclass(frozen=True)
class Recording:
    """The times of one call in nanoseconds of the monotonic clock.

    ``begin`` and ``end`` are those of the whole call from Python. ``kernels`` has a row (begin,
    end) for each kernel call, int64[calls, 2]. ``parts`` has a row (thread, begin, end) for each
    part of a parallel loop, int64[parts, 3], where the calling thread is ``caller``; it is empty
    if the program was made without ``parts``.
    """

    begin: int
    end: int
    caller: int
    kernels: Array
    parts: Array


@dataclass(frozen=True)
class TimedProgram:
    """``calls`` are the kernel calls of the program in order; see ``run`` and ``record``."""

    calls: tuple[Call, ...]
    executable: Executable
    recorder: _LoopRecorder | None = None

    def run(self, arrays: Sequence[Array]) -> Array:
        """Runs once and returns the seconds of each call, float64[len(calls)].

        Operands and the state of the caches are those of the program itself.
        """
        self.executable(arrays)
        times = self._times()
        return (times[:, 1] - times[:, 0]) * 1e-9

    def record(self, arrays: Sequence[Array]) -> Recording:
        """Runs once and returns when each kernel, and each part of its loops, began and ended."""
        if self.recorder is not None:
            self.recorder.clear()
        begin = time.monotonic_ns()
        self.executable(arrays)
        end = time.monotonic_ns()
        parts = np.zeros((0, 3), np.int64) if self.recorder is None else self.recorder.parts()
        return Recording(begin, end, threading.get_ident(), self._times().copy(), parts)

    def _times(self) -> Array:
        count = len(self.calls)
        return self.executable.constants[-1][: 2 * count].reshape(count, 2)


def timed_program(
    program: Program,
    kernels: Mapping[str, KernelText],
    target: Target,
    threads: int | None = None,
    *,
    parts: bool = False,
) -> TimedProgram:
    """Returns the program of ``compile_program`` with the clock read before and after each kernel.

    With ``parts``, its kernels run their parallel loops on a recorder, which reads the clock around
    each part (some 50 ns). There is one array for the times, so only one thread may run it at a
    time.
    """
    calls = tuple(i for i in program.body if isinstance(i, Call))
    times = np.zeros(max(1, 2 * len(calls)), np.int64)
    text = _TimedEntry(program, called_symbols(program, kernels)).text() + CLOCK_TEXT
    entry = object_code(text, target)
    recorder = _LoopRecorder(target) if parts else None
    replaced = None if recorder is None else {"lw_parallel_for": recorder.address}
    linked = link_program(program, kernels, target, entry, [times], threads, replaced=replaced)
    return TimedProgram(calls, linked, recorder)


class _TimedEntry(EntryWriter):
    """An entry whose array for the times follows the program's constants."""

    def __init__(self, program: Program, symbols: Mapping[str, str]) -> None:
        super().__init__(program, symbols)
        self.readings = 0

    def call(self, call: Call, symbol: str) -> None:
        """Writes the call of one kernel between two readings of the clock."""
        # Addresses first: a value computed once and used twice must not stand between readings.
        for operand in call.operands:
            self.pointer(operand.name)
        self.read_clock()
        super().call(call, symbol)
        self.read_clock()

    def read_clock(self) -> None:
        """Stores the time into the next element of the array."""
        times = self.argument("the times", len(self.slots))
        n = self.readings
        self.readings += 1
        self.lines += [
            f"  %now{n} = call i64 @now()",
            f"  %place{n} = getelementptr i64, ptr {times}, i64 {n}",
            f"  store i64 %now{n}, ptr %place{n}",
        ]


class _LoopRecorder:
    """Native code that stands for ``lw_parallel_for``: it runs the loop in the pool, and notes of
    each part the thread, begin and end. A part's place in the array is claimed atomically."""

    def __init__(self, target: Target) -> None:
        self.array = np.zeros((MOST_PARTS, 3), np.int64)
        self.code: LoadedObject = load_object(object_code(_RECORDER, target), pool.symbols())
        self.address = self.code.address("lw_recorded_parallel_for")
        prepare = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.code.address("lw_record_into"))
        prepare(self.array.ctypes.data)
        self.count = ctypes.c_int64.from_address(self.code.address("lw_recorded"))

    def clear(self) -> None:
        self.count.value = 0

    def parts(self) -> Array:
        """Returns the rows noted since ``clear``, in no particular order."""
        return self.array[: min(self.count.value, MOST_PARTS)].copy()


_RECORDER = (
    CLOCK_TEXT
    + """
declare i64 @pthread_self()
declare void @lw_parallel_for(ptr, ptr, i64)

@lw_recorded = global i64 0, align 64
@rows = internal global ptr null

define void @lw_record_into(ptr %rows) {
  store ptr %rows, ptr @rows
  ret void
}

define internal void @part(ptr %loop, i64 %first, i64 %last) {
entry:
  %fn = load ptr, ptr %loop
  %context.p = getelementptr ptr, ptr %loop, i64 1
  %context = load ptr, ptr %context.p
  %begin = call i64 @now()
  call void %fn(ptr %context, i64 %first, i64 %last)
  %end = call i64 @now()
  %n = atomicrmw add ptr @lw_recorded, i64 1 monotonic
  %fits = icmp ult i64 %n, MOST_PARTS
  br i1 %fits, label %note, label %done
note:
  %rows = load ptr, ptr @rows
  %at = mul i64 %n, 3
  %thread.p = getelementptr i64, ptr %rows, i64 %at
  %begin.p = getelementptr i64, ptr %thread.p, i64 1
  %end.p = getelementptr i64, ptr %thread.p, i64 2
  %thread = call i64 @pthread_self()
  store i64 %thread, ptr %thread.p
  store i64 %begin, ptr %begin.p
  store i64 %end, ptr %end.p
  br label %done
done:
  ret void
}

define void @lw_recorded_parallel_for(ptr %fn, ptr %context, i64 %n) {
  %loop = alloca [2 x ptr]
  store ptr %fn, ptr %loop
  %context.p = getelementptr ptr, ptr %loop, i64 1
  store ptr %context, ptr %context.p
  call void @lw_parallel_for(ptr @part, ptr %loop, i64 %n)
  ret void
}
""".replace("MOST_PARTS", str(MOST_PARTS))
)
