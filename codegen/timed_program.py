"""Programs that read the clock between their kernels, to see where the time of a call goes.

The places that are timed are kernel calls, except for those that are part of the code around them,
and the outermost loops and invocations of the program; ``nested`` times the loops inside of loops
as well, whose readings take time in those around them. What runs often is summed up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from ..ir.dataclass import dataclass
from ..ir.dtype import Array
from ..ir.program.analysis import instructions
from ..ir.program.nodes import Call, For, If, Instr, Invoke, Library, Program, While, nested_bodies
from .body_memory import MemoryWriter, Meter
from .entry import EntryWriter, sizes_of_call
from .inlining import Inlined, expected_costs
from .llvm.clock import CLOCK_TEXT
from .module_text import KernelText
from .objects import object_code
from .program import called_symbols, link_program
from .runtime.executable import Executable
from .target import Target

Loop: TypeAlias = While | For | Invoke | Library


@dataclass(frozen=True)
class Times:
    """Counts of each place in one call of the program, int64[places], and the seconds of all of
    them together, float64[places]: kernel calls, then loops and invocations."""

    counts: Array
    seconds: Array


@dataclass(frozen=True)
class TimedProgram:
    """``calls`` are the timed kernel calls of the program as its text has them, ``loops`` its
    loops and invocations; see ``run``."""

    calls: tuple[Call, ...]
    loops: tuple[Loop, ...]
    executable: Executable
    times: Array

    def run(self, arrays: Sequence[Array]) -> Times:
        """Runs once and returns the times of each place.

        Operands and the state of the caches are those of the program itself.
        """
        self.times[...] = 0
        self.executable(arrays)
        return Times(self.times[:, 0].copy(), self.times[:, 1] * 1e-9)


def timed_program(
    program: Program,
    kernels: Mapping[str, KernelText],
    target: Target,
    threads: int | None = None,
    nested: bool = False,
) -> TimedProgram:
    """Returns the program of ``compile_program`` with the clock read before and after each kernel.

    The times have one array, so only one thread may run it at a time.
    """
    calls, loops = timed_calls(program), timed_loops(program.body, nested)
    times = {"times": np.zeros((max(1, len(calls) + len(loops)), 2), np.int64)}
    clock = Clock((*calls, *loops))
    linked = metered_program(program, kernels, target, threads, clock, times, _NOTE)
    return TimedProgram(calls, loops, linked, linked.constants[-1])


def timed_calls(program: Program) -> tuple[Call, ...]:
    """Returns the kernel calls of a program that are timed."""
    return tuple(i for i in instructions(program) if isinstance(i, Call) and not i.inline)


def timed_loops(body: Sequence[Instr], nested: bool = False) -> tuple[Loop, ...]:
    """Returns the loops and invocations that stand in no other one, with ``nested`` each followed
    by the loops in it."""
    return tuple(_loops(body, nested))


def _loops(body: Sequence[Instr], nested: bool, inner: bool = False) -> Iterator[Loop]:
    for instr in body:
        if isinstance(instr, While | For) or (isinstance(instr, Invoke | Library) and not inner):
            yield instr
        if isinstance(instr, If) or (nested and isinstance(instr, While | For)):
            for inside in nested_bodies(instr):
                yield from _loops(inside, nested, inner or not isinstance(instr, If))


class Clock:
    """Reads the clock around instructions, the ``places``, and hands it to the function ``@note``
    with the number of the place."""

    def __init__(self, places: Sequence[Instr]) -> None:
        self.places = {id(instr): n for n, instr in enumerate(places)}
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


def metered_program(
    program: Program,
    kernels: Mapping[str, KernelText],
    target: Target,
    threads: int | None,
    meter: Meter,
    arrays: Mapping[str, Array],
    text: str,
    replaced: Mapping[str, int] | None = None,
) -> Executable:
    """Returns the program of ``compile_program`` with a meter. ``text`` has the functions that its
    lines call, and a global variable for each of the ``arrays``, which are the last constants: they
    follow the others, sizes are behind them."""
    costs, inlined = expected_costs(program, kernels), Inlined.of(program, kernels)
    symbols = called_symbols(program, kernels)
    writer = EntryWriter(program, symbols, costs, inlined, more=len(arrays))
    writer.meter = meter
    for n, name in enumerate(arrays):
        pointer = writer.argument(f"the {name}", len(writer.slots) + n)
        writer.addresses.append(f"  store ptr {pointer}, ptr @{name}")
    entry = object_code(writer.text() + sizes_of_call(program) + CLOCK_TEXT + text, target)
    more = list(arrays.values())
    return link_program(program, kernels, target, entry, more, threads, replaced=replaced)


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
  ret void
}
"""
