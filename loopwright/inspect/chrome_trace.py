"""Writes profiles in the Trace Event Format, which Perfetto and chrome://tracing show.

Format: "Trace Event Format", Google, 2016 (the JSON object form). Events used: ``M`` names the
process and its threads, ``X`` is a span of time with its duration, ``C`` sets a counter. Times are
microseconds, here since the first recorded call began.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..codegen.machine import MachineModel
from ..codegen.timed_program import MOST_EVENTS, MOST_PARTS, Recording
from ..ir.graph.printer import span_text
from .kernel_calls import KernelCall, LoopTime

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
