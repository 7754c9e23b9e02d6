"""Measures every kernel call of a program where it stands, and compares each with its roof.

::

    build, arrays -> timed program -> seconds of each kernel call
    loop nests    -> traffic       -> the work and roof of each     -> Profile
    a few calls on the loop recorder -> who ran what, and when      -> Profile.save

``explain`` groups these calls by kernel and adds where each schedule came from.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..codegen.machine import MachineModel
from ..codegen.timed_program import Recording, TimedProgram, Times, timed_program
from ..ir.dataclass import dataclass
from ..ir.dtype import Array
from ..ir.errors import UnsupportedError
from ..ir.graph.printer import span_text
from ..ir.span import Span
from ..pipeline import Built, Parts
from ..text import seconds_text, shortened, table
from ..tuning.at_sizes import size_values
from .chrome_trace import trace_of
from .kernel_calls import KernelCall, LoopTime, bound_text, kernel_calls, loop_times

MOST_ROWS = 40
"""Kernel calls in the table; the rest, which took less time, are one row."""

SOURCE_WIDTH = 60
"""Columns of the user's code in the table."""

FEWEST_RUNS = 3
"""Runs of a program that is short."""

MOST_RECORDED = 5
"""Calls that a profile records for a trace."""

MOST_RECORDED_KERNELS = 5000
"""Kernel calls that a profile records, if that are more than those of one call."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The kernel calls of one call in program order, and the seconds ``between`` them.

    A call inside of a loop is there once, with the number and the seconds of all its ``calls``;
    ``loops`` are the outermost ones. ``str`` is a table of the calls, the longest first; ``save``
    writes a trace of the ``recorded`` calls.
    """

    name: str
    calls: tuple[KernelCall, ...]
    between: float
    machine: MachineModel
    threads: int
    recorded: tuple[Recording, ...] = ()
    loops: tuple[LoopTime, ...] = ()

    def __str__(self) -> str:
        return profile_text(self)

    @property
    def in_kernels(self) -> float:
        """Seconds that the kernels take together."""
        return sum(call.seconds for call in self.calls)

    @property
    def seconds(self) -> float:
        """Seconds of a whole call."""
        return self.in_kernels + self.between

    def save(self, path: str | Path) -> None:
        """Writes the recorded calls as a Chrome trace (JSON), for https://ui.perfetto.dev and
        chrome://tracing: one row per thread, and the bytes of the arena in use as a counter.

        Raises OSError if the file cannot be written.
        """
        trace = trace_of(
            self.name, self.calls, self.recorded, self.machine, self.threads, self.loops
        )
        Path(path).write_text(json.dumps(trace), encoding="utf-8")


def profile(
    built: Built,
    arrays: Sequence[Array],
    machine: MachineModel,
    seconds: float = 1.0,
    name: str = "",
    *,
    record: bool = False,
) -> Profile:
    """Runs ``built`` on ``arrays`` for about ``seconds``, and compares each kernel call with its
    roof.

    Times are the best of all runs, since whatever disturbs them only makes them longer. With
    ``record``, some more calls are recorded for a trace. Raises UnsupportedError for a build that
    does not say what it is made of.
    """
    parts = built.parts
    if parts is None:
        raise UnsupportedError("this build does not say what it is made of")
    made_of = parts.program, parts.kernels, parts.target, parts.threads
    timed = timed_program(*made_of)
    times, between = _measure(timed, arrays, seconds)
    values = size_values([region.shape for region in parts.program.inputs], arrays)
    calls = kernel_calls(parts, times, machine, values)
    loops: tuple[LoopTime, ...] = ()
    if timed.loops:
        iterations = timed_program(*made_of, iterations=True).iterations(arrays)
        loops = loop_times(timed, times, iterations)
    recorded = _record(parts, arrays) if record else ()
    return Profile(name, calls, between, machine, parts.threads, recorded, loops)


def _measure(timed: TimedProgram, arrays: Sequence[Array], seconds: float) -> tuple[Times, float]:
    """Returns the least seconds of every place, and the seconds between calls of kernels."""
    kernels = slice(len(timed.calls))
    begun = time.perf_counter()
    best = timed.run(arrays).seconds
    between, runs = np.inf, 0
    while True:
        start = time.perf_counter()
        times = timed.run(arrays)
        now = time.perf_counter()
        between = min(between, now - start - times.seconds[kernels].sum())
        best = np.minimum(best, times.seconds)
        runs += 1
        # A call that takes long varies less, and is not run more often than need be.
        if now - begun > seconds and (runs >= FEWEST_RUNS or now - start > seconds):
            break
    best = np.where(times.counts, np.maximum(best, 1e-9), 0.0)
    return Times(times.counts, best), max(0.0, float(between))


def _record(parts: Parts, arrays: Sequence[Array]) -> tuple[Recording, ...]:
    recorder = timed_program(parts.program, parts.kernels, parts.target, parts.threads, parts=True)
    first = recorder.record(arrays)  # the pages of the arena and of the results are touched
    each = max(1, len(first.kernels) + first.missed)
    count = min(MOST_RECORDED, max(1, MOST_RECORDED_KERNELS // each))
    return tuple(recorder.record(arrays) for _ in range(count))


def profile_text(measured: Profile) -> str:
    """Returns the profile as a table of kernel calls, the longest first, below its loops."""
    head = ("time", "share", "GFLOP/s", "GB/s", "of roof", "bound by", "kernel", "computes")
    calls = sorted((c for c in measured.calls if c.calls), key=lambda call: -call.seconds)
    rows = [_row(call, measured) for call in calls[:MOST_ROWS]]
    rest = sum(call.seconds for call in calls[MOST_ROWS:])
    if rest:
        rows.append(_other_row(rest, measured, f"{len(calls) - MOST_ROWS} other calls"))
    rows.append(_other_row(measured.between, measured, "between the kernels"))
    count = sum(call.calls for call in calls)
    threads = f"{measured.threads} thread{'' if measured.threads == 1 else 's'}"
    title = (
        f"{measured.name}   {seconds_text(measured.seconds)} a call, "
        f"{count:,} kernel call{'' if count == 1 else 's'}, {threads}"
    )
    loops = [f"\n{loop}" for loop in measured.loops]
    return f"{title}{''.join(loops)}\n\n{table(head, rows, left=(5, 6, 7))}"


def _row(call: KernelCall, measured: Profile) -> tuple[str, ...]:
    return (
        seconds_text(call.seconds),
        f"{call.seconds / measured.seconds:.1%}",
        f"{call.flops_per_second / 1e9:.3g}" if call.work.flops else "-",
        f"{call.bytes_per_second / 1e9:.3g}",
        f"{call.share:.0%}" if call.share == call.share else "-",
        bound_text(call, measured.threads),
        call.name + _calls_text(call),
        "" if call.span is None else _place_text(call.span),
    )


def _calls_text(call: KernelCall) -> str:
    """Returns how often a kernel is called, and the time of each."""
    if call.calls == 1:
        return ""
    return f" x{call.calls:,} of {seconds_text(call.seconds / call.calls)}"


def _place_text(span: Span) -> str:
    """Returns a place and its code in one column; of a long path, the end."""
    text, file = span_text(span), Path(span.file)
    if len(span.file) > SOURCE_WIDTH // 2 and len(file.parts) > 2:
        text = text.replace(span.file, f".../{'/'.join(file.parts[-2:])}", 1)
    return shortened(text, SOURCE_WIDTH)


def _other_row(seconds: float, measured: Profile, what: str) -> tuple[str, ...]:
    share = f"{seconds / measured.seconds:.1%}"
    return (seconds_text(seconds), share, "", "", "", "", f"({what})", "")
