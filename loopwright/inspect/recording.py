"""Programs that note when each kernel and loop began and ended, and which thread ran which part.

::

    entry that notes its readings -> recorded_program   when each kernel began and ended,
    kernels on the loop recorder                         which thread ran which part, when
    entry with counters in its loops -> loop_iterations

The places are those of ``codegen/timed_program.py``.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Sequence

import numpy as np

from ..codegen.body_memory import MemoryWriter
from ..codegen.llvm.clock import CLOCK_TEXT
from ..codegen.llvm.link import LoadedObject, load_object
from ..codegen.objects import object_code
from ..codegen.runtime import pool
from ..codegen.runtime.executable import Executable
from ..codegen.target import Target
from ..codegen.timed_program import Clock, metered_program, timed_calls, timed_loops
from ..driver.built import Parts
from ..ir.dataclass import dataclass
from ..ir.dtype import Array
from ..ir.program.nodes import Instr, Program, nested_bodies

MOST_PARTS = 1 << 14
"""Parts of parallel loops that a recording keeps; later ones are left out."""

MOST_EVENTS = 1 << 15
"""Kernel calls that a recording keeps; later ones are left out."""


@dataclass(frozen=True)
class Recording:
    """The times of one call in nanoseconds of the monotonic clock.

    ``begin`` and ``end`` are those of the whole call from Python. ``kernels`` has a row (place,
    begin, end) for each kernel call and loop, in the order in which they ended, int64[events, 3],
    where ``place`` is a number among the calls and then the loops of the program; ``missed`` is the
    number of those that are left out. ``parts`` has a row (thread, begin, end) for each part of a
    parallel loop, int64[parts, 3], where the calling thread is ``caller``.
    """

    begin: int
    end: int
    caller: int
    kernels: Array
    parts: Array
    missed: int = 0


@dataclass(frozen=True)
class RecordedProgram:
    """A program that keeps each reading of the clock, in rows as ``_ROWS`` notes them; its kernels
    run their parallel loops on the recorder."""

    executable: Executable
    events: Array
    recorder: _LoopRecorder

    def record(self, arrays: Sequence[Array]) -> Recording:
        """Runs once and returns when each kernel, and each part of its loops, began and ended."""
        self.recorder.rows[0, 0] = self.events[0, 0] = 0
        begin = time.monotonic_ns()
        self.executable(arrays)
        end = time.monotonic_ns()
        missed = max(0, int(self.events[0, 0]) - MOST_EVENTS)
        kernels, parts = _noted(self.events), _noted(self.recorder.rows)
        return Recording(begin, end, threading.get_ident(), kernels, parts, missed)


def recorded_program(parts: Parts) -> RecordedProgram:
    """Returns a build's program with every reading of the clock kept, on a recorder of parallel
    loops, which reads the clock around each part (some 50 ns).

    The readings have one array, so only one thread may run it at a time.
    """
    recorder = _LoopRecorder(parts.target)
    linked = metered_program(
        parts.program,
        parts.kernels,
        parts.target,
        parts.threads,
        Clock((*timed_calls(parts.program), *timed_loops(parts.program.body))),
        {"events": _rows(MOST_EVENTS)},
        _ROWS + _NOTE,
        {"lw_parallel_for": recorder.address},
    )
    return RecordedProgram(linked, linked.constants[-1], recorder)


def loop_iterations(parts: Parts, arrays: Sequence[Array]) -> Array:
    """Runs a build's program once and returns the iterations of its ``timed_loops``, also of those
    in others, int64[loops]. Nothing is timed: counters would make short loops seem longer."""
    counter = _Counter(parts.program)
    counts = {"counts": np.zeros(max(1, len(counter.loops)), np.int64)}
    made_of = parts.program, parts.kernels, parts.target, parts.threads
    linked = metered_program(*made_of, counter, counts, _COUNT)
    linked(arrays)
    return linked.constants[-1][: len(counter.loops)]


class _Counter:
    """Counts the iterations of loops."""

    def __init__(self, program: Program) -> None:
        self.loops = timed_loops(program.body, nested=True)
        bodies = ((n, nested_bodies(loop)) for n, loop in enumerate(self.loops))
        self._loop_of = {id(inside[-1]): n for n, inside in bodies if inside}

    def entered(self, writer: MemoryWriter, body: Sequence[Instr]) -> None:
        loop = self._loop_of.get(id(body)) if body else None
        if loop is not None:
            writer.lines.append(f"  call void @count(i64 {loop})")

    def before(self, writer: MemoryWriter, instr: Instr) -> None:
        pass

    def after(self, writer: MemoryWriter, instr: Instr) -> None:
        pass


_COUNT = """
@counts = internal global ptr null

define internal void @count(i64 %loop) {
  %counts = load ptr, ptr @counts
  %count.p = getelementptr i64, ptr %counts, i64 %loop
  %count = load i64, ptr %count.p
  %count.next = add i64 %count, 1
  store i64 %count.next, ptr %count.p
  ret void
}
"""

_ROWS = """
@events = global ptr null

; Notes three words in the next row of an array. Its first row has the number of the others that
; were wanted, and how many there are.
define internal void @event(i64 %first, i64 %second, i64 %third) {
entry:
  %events = load ptr, ptr @events
  %n = atomicrmw add ptr %events, i64 1 monotonic
  %most.p = getelementptr i64, ptr %events, i64 1
  %most = load i64, ptr %most.p
  %fits = icmp slt i64 %n, %most
  br i1 %fits, label %note, label %done
note:
  %row = add i64 %n, 1
  %at = mul i64 %row, 3
  %first.p = getelementptr i64, ptr %events, i64 %at
  %second.p = getelementptr i64, ptr %first.p, i64 1
  %third.p = getelementptr i64, ptr %first.p, i64 2
  store i64 %first, ptr %first.p
  store i64 %second, ptr %second.p
  store i64 %third, ptr %third.p
  br label %done
done:
  ret void
}
"""

_NOTE = """
define internal void @note(i64 %place, i64 %begin) {
  %end = call i64 @now()
  call void @event(i64 %place, i64 %begin, i64 %end)
  ret void
}
"""


def _rows(most: int) -> Array:
    """Returns an array for ``_ROWS``, int64[1 + most, 3]."""
    rows = np.zeros((1 + most, 3), np.int64)
    rows[0, 1] = most
    return rows


def _noted(rows: Array) -> Array:
    """Returns the rows that were noted."""
    return rows[1 : 1 + int(rows[0, 0])].copy()


class _LoopRecorder:
    """Native code that stands for ``lw_parallel_for``: it runs the loop in the pool, and notes of
    each part the thread, begin and end in ``rows``, in no particular order."""

    def __init__(self, target: Target) -> None:
        self.rows = _rows(MOST_PARTS)
        self.code: LoadedObject = load_object(object_code(_RECORDER, target), pool.symbols())
        self.address = self.code.address("lw_recorded_parallel_for")
        events = ctypes.c_int64.from_address(self.code.address("events"))
        events.value = self.rows.ctypes.data


_RECORDER = (
    CLOCK_TEXT
    + _ROWS
    + """
declare i64 @pthread_self()
declare void @lw_parallel_for(ptr, ptr, i64)

define internal void @part(ptr %loop, i64 %first, i64 %last) {
  %fn = load ptr, ptr %loop
  %context.p = getelementptr ptr, ptr %loop, i64 1
  %context = load ptr, ptr %context.p
  %begin = call i64 @now()
  call void %fn(ptr %context, i64 %first, i64 %last)
  %end = call i64 @now()
  %thread = call i64 @pthread_self()
  call void @event(i64 %thread, i64 %begin, i64 %end)
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
"""
)
