"""Measures every kernel call of a program where it stands, and compares each with its roof.

::

    build, arrays -> timed program -> seconds of each kernel call
    loop nests    -> traffic       -> the work and roof of each     -> Profile
    a few calls on the loop recorder -> who ran what, and when      -> Profile.save

``explain`` groups these calls by kernel and adds where each schedule came from.

Profiles are saved in the Trace Event Format (Google, 2016, the JSON object form), which Perfetto
and chrome://tracing show: ``M`` names the process and its threads, ``X`` is a span of time with its
duration, ``C`` sets a counter. Times are microseconds since the first recorded call began.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..codegen.machine import MachineModel
from ..codegen.timed_program import TimedProgram, Times, timed_loops, timed_program
from ..driver.built import Built, Parts
from ..ir.dataclass import dataclass
from ..ir.dtype import Array
from ..ir.errors import UnsupportedError
from ..ir.graph.printer import span_text
from ..ir.span import Span
from ..text import seconds_text, shortened, table
from ..tuning.at_sizes import size_values
from .kernel_calls import KernelCall, LoopTime, bound_text, kernel_calls, loop_times
from .notebook import table_html
from .recording import MOST_EVENTS, MOST_PARTS, Recording, loop_iterations, recorded_program

PROCESS = 1
CALLER = 0
"""Row of the thread that makes the calls; workers of the pool follow."""


def trace_of(
    name: str,
    calls: Sequence[KernelCall],
    recorded: Sequence[Recording],
    machine: MachineModel,
    threads: int,
    loops: Sequence[LoopTime] = (),
) -> dict[str, Any]:
    """Returns recorded runs of the program ``name``, whose kernel calls are ``calls``, as the
    object of a Chrome trace.

    The caller's row has the calls, in each its loops and kernels, and in these the parts of
    parallel loops that the caller ran; a row for each worker has the parts that it ran.
    """
    start = min((r.begin for r in recorded), default=0)
    rows = _rows(recorded)
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": PROCESS, "name": "process_name", "args": {"name": name}}
    ]
    for row in sorted(rows.values()):
        thread = "caller" if row == CALLER else f"worker {row}"
        event = {"ph": "M", "pid": PROCESS, "tid": row}
        events.append({**event, "name": "thread_name", "args": {"name": thread}})
        events.append({**event, "name": "thread_sort_index", "args": {"sort_index": row}})
    for number, recording in enumerate(recorded, 1):
        events += _call_events(f"{name} #{number}", calls, loops, recording, rows, start)
    notes: list[str] = []
    if any(len(r.parts) >= MOST_PARTS for r in recorded):
        notes.append(f"only {MOST_PARTS} parts of parallel loops are kept of a call")
    if missed := max((r.missed for r in recorded), default=0):
        notes.append(
            f"only the first {MOST_EVENTS} kernel calls and loops are kept of a call; {missed} are "
            "left out"
        )
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "machine": f"{machine.cpu}, {machine.isa}",
            "threads": threads,
            **({"note": "; ".join(notes)} if notes else {}),
        },
    }


def _rows(recorded: Sequence[Recording]) -> dict[int, int]:
    """Returns the row of each thread."""
    rows = {r.caller: CALLER for r in recorded}
    for recording in recorded:
        for thread in np.unique(recording.parts[:, 0]).tolist():
            rows.setdefault(thread, len(rows))
    return rows


def _call_events(
    title: str,
    calls: Sequence[KernelCall],
    loops: Sequence[LoopTime],
    recording: Recording,
    rows: Mapping[int, int],
    start: int,
) -> Iterator[dict[str, Any]]:
    def span_of_time(name: str, kind: str, row: int, begin: int, end: int) -> dict[str, Any]:
        times = {"ts": (begin - start) / 1e3, "dur": (end - begin) / 1e3}
        return {"ph": "X", "pid": PROCESS, "tid": row, "name": name, "cat": kind, **times}

    def counter(at: int, size: int) -> dict[str, Any]:
        event = {"ph": "C", "pid": PROCESS, "name": "arena in use", "ts": (at - start) / 1e3}
        return {**event, "args": {"bytes": size}}

    yield span_of_time(title, "call", CALLER, recording.begin, recording.end)
    of_loops = {loop.place: loop.name for loop in loops}
    facts = [_facts(call) for call in calls]
    for place, begin, end in recording.kernels.tolist():
        if place in of_loops:
            yield span_of_time(of_loops[place], "loop", CALLER, begin, end)
        elif place < len(calls):
            call = calls[place]
            yield counter(begin, call.live)
            yield {**span_of_time(call.name, "kernel", CALLER, begin, end), "args": facts[place]}
    yield counter(recording.end, 0)
    # A kernel waits for its loops, so that the last one that began before a part has run it.
    kernels = recording.kernels[recording.kernels[:, 0] < len(calls)]
    of_part = np.searchsorted(kernels[:, 1], recording.parts[:, 1], side="right") - 1
    for (thread, begin, end), kernel in zip(recording.parts.tolist(), of_part.tolist()):
        if end <= kernels[kernel, 2]:  # else it is one of a kernel call that is left out
            name = f"part of {calls[kernels[kernel, 0]].name}"
            yield span_of_time(name, "part", rows[thread], begin, end)


def _facts(call: KernelCall) -> dict[str, Any]:
    """Returns what the viewer shows of a kernel call that is selected."""
    if not call.calls:
        return {}
    facts: dict[str, Any] = {
        "best time": f"{call.seconds / call.calls * 1e6:.3f} us",
        "GFLOP/s": round(call.flops_per_second / 1e9, 2),
        "GB/s": round(call.bytes_per_second / 1e9, 2),
        "bound by": call.bound,
        "operand bytes": call.nbytes,
    }
    if not math.isnan(call.share):
        facts["share of roof"] = f"{call.share:.0%}"
    if call.span is not None:
        facts["computes"] = span_text(call.span)
    return facts


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
    ``loops`` have each outermost one and those in it. ``str`` is a table of the calls, the longest
    first; ``save`` writes a trace of the ``recorded`` calls.
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

    __repr__ = __str__

    def _repr_html_(self) -> str:
        title, head, rows = _table(self)
        calls = sorted((call.seconds for call in self.calls), reverse=True)[:MOST_ROWS]
        shares = [seconds / self.seconds for seconds in calls if seconds]
        loops = [str(loop) for loop in self.loops]
        return table_html(title, head, rows, left=_LEFT, notes=loops, shares=shares)

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
        has_inner = len(timed_loops(parts.program.body, nested=True)) > len(timed.loops)
        nested = timed_program(*made_of, nested=True) if has_inner else timed
        within = _measure(nested, arrays, seconds)[0] if has_inner else times
        loops = loop_times(timed, times, nested, within, loop_iterations(parts, arrays))
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
    recorder = recorded_program(parts)
    first = recorder.record(arrays)  # the pages of the arena and of the results are touched
    each = max(1, len(first.kernels) + first.missed)
    count = min(MOST_RECORDED, max(1, MOST_RECORDED_KERNELS // each))
    return tuple(recorder.record(arrays) for _ in range(count))


_LEFT = (5, 6, 7)
"""Columns of the table that are texts."""


def profile_text(measured: Profile) -> str:
    """Returns the profile as a table of kernel calls, the longest first, below its loops."""
    title, head, rows = _table(measured)
    loops = [f"\n{loop}" for loop in measured.loops]
    return f"{title}{''.join(loops)}\n\n{table(head, rows, left=_LEFT)}"


def _table(measured: Profile) -> tuple[str, Sequence[str], list[tuple[str, ...]]]:
    """Returns the title, the head and the rows of the table of kernel calls."""
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
    return title, head, rows


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
