"""A program that reads the clock between its kernels, to see where the time of a call goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..ir.dtype import Array
from ..ir.program.nodes import Call, Program
from .llvm.clock import CLOCK_TEXT
from .objects import object_code
from .program import EntryWriter, KernelText, called_symbols, link_program
from .runtime.executable import Executable
from .target import Target

__all__ = ["TimedProgram", "timed_program"]


@dataclass(frozen=True)
class TimedProgram:
    """``calls`` are the kernel calls of the program in order; see ``run``."""

    calls: tuple[Call, ...]
    executable: Executable

    def run(self, arrays: Sequence[Array]) -> Array:
        """Runs once and returns the seconds of each call, float64[len(calls)].

        Operands and the state of the caches are those of the program itself.
        """
        self.executable(arrays)
        times = self.executable.constants[-1].reshape(-1, 2)
        return (times[:, 1] - times[:, 0])[: len(self.calls)] * 1e-9


def timed_program(
    program: Program,
    kernels: Mapping[str, KernelText],
    target: Target,
    threads: int | None = None,
) -> TimedProgram:
    """Returns the program of ``compile_program`` with the clock read before and after each kernel.

    It has one array for its times, so only one thread may run it at a time.
    """
    calls = tuple(i for i in program.body if isinstance(i, Call))
    times = np.zeros(max(1, 2 * len(calls)), np.int64)
    text = _TimedEntry(program, called_symbols(program, kernels)).text() + CLOCK_TEXT
    entry = object_code(text, target)
    return TimedProgram(calls, link_program(program, kernels, target, entry, [times], threads))


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
