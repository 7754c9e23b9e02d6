"""Programs that read the clock between their kernels, to see where the time of a call goes.

::

    entry with readings of the clock -> TimedProgram.run         calls and seconds of each kernel
    the same with a list of readings -> TimedProgram.record      when each kernel began and ended,
    kernels on the loop recorder                                 which thread ran which part, when
    entry with counters in its loops -> TimedProgram.iterations

The places that are timed are kernel calls, except for those that are part of the code around them,
and the outermost loops and invocations of the program. What runs often is summed up.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from ..ir.dataclass import dataclass
from ..ir.dtype import Array
from ..ir.program.analysis import instructions
from ..ir.program.nodes import Call, For, If, Instr, Invoke, Library, Program, While, nested_bodies
from .body_memory import MemoryWriter
from .entry import EntryWriter, sizes_of_call
from .inlining import Inlined, expected_costs
from .llvm.clock import CLOCK_TEXT
from .llvm.link import LoadedObject, load_object
from .module_text import KernelText
from .objects import object_code
from .program import called_symbols, link_program
from .runtime import pool
from .runtime.executable import Executable
from .target import Target

MOST_PARTS = 1 << 14
"""Parts of parallel loops that a recording keeps; later ones are left out."""

MOST_EVENTS = 1 << 15
"""Kernel calls that a recording keeps; later ones are left out."""

Loop: TypeAlias = While | For | Invoke | Library


@dataclass(frozen=True)
class Recording:
    """The times of one call in nanoseconds of the monotonic clock.

    ``begin`` and ``end`` are those of the whole call from Python. ``kernels`` has a row (place,
    begin, end) for each kernel call and loop, in the order in which they ended, int64[events, 3],
    where ``place`` is a number among the calls and then the loops of the program; ``missed`` is the
    number of those that are left out. ``parts`` has a row (thread, begin, end) for each part of a
    parallel loop, int64[parts, 3], where the calling thread is ``caller``; it is empty if the
    program was made without ``parts``.
    """

    begin: int
    end: int
    caller: int
    kernels: Array
    parts: Array
    missed: int = 0


@dataclass(frozen=True)
class Times:
    """Counts of each place in one call of the program, int64[places], and the seconds of all of
    them together, float64[places]: kernel calls, then outermost loops and invocations."""

    counts: Array
    seconds: Array


@dataclass(frozen=True)
class TimedProgram:
    """``calls`` are the timed kernel calls of the program as its text has them, ``loops`` its
    outermost loops and invocations; see ``run`` and ``record``."""

    calls: tuple[Call, ...]
    loops: tuple[Loop, ...]
    executable: Executable
    times: Array
    events: Array
    """Rows as ``_ROWS`` notes them."""
    recorder: _LoopRecorder | None = None

    def run(self, arrays: Sequence[Array]) -> Times:
        """Runs once and returns the times of each place.

        Operands and the state of the caches are those of the program itself.
        """
        self.times[...] = 0
        self.executable(arrays)
        return Times(self.times[:, 0].copy(), self.times[:, 1] * 1e-9)

    def record(self, arrays: Sequence[Array]) -> Recording:
        """Runs once and returns when each kernel, and each part of its loops, began and ended."""
        if self.recorder is not None:
            self.recorder.rows[0, 0] = 0
        self.events[0, 0] = 0
        begin = time.monotonic_ns()
        self.executable(arrays)
        end = time.monotonic_ns()
        parts = _noted(_rows(0) if self.recorder is None else self.recorder.rows)
        missed = max(0, int(self.events[0, 0]) - MOST_EVENTS)
        return Recording(begin, end, threading.get_ident(), _noted(self.events), parts, missed)

    def iterations(self, arrays: Sequence[Array]) -> Array:
        """Runs once and returns the iterations of each loop, int64[loops], if the program was made
        to count them."""
        self.times[...] = 0
        self.executable(arrays)
        return self.times[len(self.calls) :, 0].copy()


def timed_program(
    program: Program,
    kernels: Mapping[str, KernelText],
    target: Target,
    threads: int | None = None,
    *,
    parts: bool = False,
    iterations: bool = False,
) -> TimedProgram:
    """Returns the program of ``compile_program`` with the clock read before and after each kernel.

    With ``parts``, each reading is kept, and kernels run their parallel loops on a recorder, which
    reads the clock around each part (some 50 ns). With ``iterations``, those of the loops are
    counted instead, and nothing is timed: both in one would make short loops seem longer. The times
    have one array, so only one thread may run it at a time.
    """
    calls = tuple(i for i in instructions(program) if isinstance(i, Call) and not i.inline)
    loops = tuple(_outermost(program.body))
    times = np.zeros((max(1, len(calls) + len(loops)), 2), np.int64)
    events = _rows(MOST_EVENTS if parts else 0)
    places: dict[int, int] = {id(instr): n for n, instr in enumerate((*calls, *loops))}
    meter = (_Counter if iterations else _Clock)(program, places)
    text = _text(program, kernels, meter)
    entry = object_code(text, target)
    recorder = _LoopRecorder(target) if parts else None
    replaced = None if recorder is None else {"lw_parallel_for": recorder.address}
    more = [times, events]
    linked = link_program(program, kernels, target, entry, more, threads, replaced=replaced)
    times, events = linked.constants[-2:]
    return TimedProgram(calls, loops, linked, times, events, recorder)


def _outermost(body: Sequence[Instr]) -> Iterator[Loop]:
    for instr in body:
        if isinstance(instr, If):
            for nested in nested_bodies(instr):
                yield from _outermost(nested)
        elif isinstance(instr, While | For | Invoke | Library):
            yield instr


class _Clock:
    """Reads the clock around instructions, sums up the times by place and notes each. ``places``
    has the number of each timed instruction by its identity."""

    def __init__(self, _program: Program, places: Mapping[int, int]) -> None:
        self.places = places
        self.begins: dict[int, str] = {}

    def entered(self, writer: MemoryWriter, body: Sequence[Instr]) -> None:
        pass

    def before(self, writer: MemoryWriter, instr: Instr) -> None:
        if id(instr) not in self.places:
            return
        if isinstance(instr, Call):
            # Addresses first: a value computed once and used twice must not stand between readings.
            for operand in instr.operands:
                writer.pointer(operand.name)
        begin = self.begins[id(instr)] = f"%{writer.fresh('now')}"
        writer.lines.append(f"  {begin} = call i64 @now()")

    def after(self, writer: MemoryWriter, instr: Instr) -> None:
        place = self.places.get(id(instr))
        if place is not None:
            begin = self.begins[id(instr)]
            writer.lines.append(f"  call void @note(i64 {place}, i64 {begin})")


class _Counter:
    """Counts the iterations of the outermost loops; their times are not looked at."""

    def __init__(self, program: Program, places: Mapping[int, int]) -> None:
        self.places = {
            id(nested_bodies(loop)[-1]): places[id(loop)]
            for loop in _outermost(program.body)
            if nested_bodies(loop)
        }

    def entered(self, writer: MemoryWriter, body: Sequence[Instr]) -> None:
        place = self.places.get(id(body)) if body else None
        if place is not None:
            writer.lines.append(f"  call void @note(i64 {place}, i64 0)")

    def before(self, writer: MemoryWriter, instr: Instr) -> None:
        pass

    def after(self, writer: MemoryWriter, instr: Instr) -> None:
        pass


def _text(program: Program, kernels: Mapping[str, KernelText], meter: _Clock | _Counter) -> str:
    """Returns an entry with a meter. The arrays for what it sees follow the constants; sizes are
    behind them."""
    costs, inlined = expected_costs(program, kernels), Inlined.of(program, kernels)
    writer = EntryWriter(program, called_symbols(program, kernels), costs, inlined, more=2)
    writer.meter = meter
    for n, name in enumerate(("times", "events")):
        pointer = writer.argument(f"the {name}", len(writer.slots) + n)
        writer.addresses.append(f"  store ptr {pointer}, ptr @{name}")
    return writer.text() + sizes_of_call(program) + CLOCK_TEXT + _ROWS + _NOTE


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


def _rows(most: int) -> Array:
    """Returns an array for ``_ROWS``, int64[1 + most, 3]."""
    rows = np.zeros((1 + most, 3), np.int64)
    rows[0, 1] = most
    return rows


def _noted(rows: Array) -> Array:
    """Returns the rows that were noted."""
    return rows[1 : 1 + int(rows[0, 0])].copy()


_NOTE = """
@times = internal global ptr null

define internal void @note(i64 %place, i64 %begin) {
  %end = call i64 @now()
  %took = sub i64 %end, %begin
  %times = load ptr, ptr @times
  %at = shl i64 %place, 1
  %count.p = getelementptr i64, ptr %times, i64 %at
  %sum.p = getelementptr i64, ptr %count.p, i64 1
  %count = load i64, ptr %count.p
  %sum = load i64, ptr %sum.p
  %count.next = add i64 %count, 1
  %sum.next = add i64 %sum, %took
  store i64 %count.next, ptr %count.p
  store i64 %sum.next, ptr %sum.p
  call void @event(i64 %place, i64 %begin, i64 %end)
  ret void
}
"""


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
