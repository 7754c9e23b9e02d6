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
from ..codegen.timed_program import MOST_PARTS, Recording
from ..ir.graph.printer import span_text
from .kernel_calls import KernelCall

__all__ = ["trace_of"]

PROCESS = 1
CALLER = 0
"""Row of the thread that makes the calls; workers of the pool follow."""


def trace_of(
    name: str,
    calls: Sequence[KernelCall],
    recorded: Sequence[Recording],
    machine: MachineModel,
    threads: int,
) -> dict[str, Any]:
    """Returns recorded runs of the program ``name``, whose kernel calls are ``calls``, as the
    object of a Chrome trace.

    The caller's row has the calls, in each its kernels, and in these the parts of parallel loops
    that the caller ran; a row for each worker has the parts that it ran.
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
        events += _call_events(f"{name} #{number}", calls, recording, rows, start)
    full = any(len(r.parts) >= MOST_PARTS for r in recorded)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "machine": f"{machine.cpu}, {machine.isa}",
            "threads": threads,
            **({"note": f"only {MOST_PARTS} parts of loops are kept of a call"} if full else {}),
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
    begins, ends = recording.kernels[:, 0].tolist(), recording.kernels[:, 1].tolist()
    for call, begin, end in zip(calls, begins, ends, strict=True):
        yield counter(begin, call.live)
        yield {**span_of_time(call.name, "kernel", CALLER, begin, end), "args": _facts(call)}
    yield counter(recording.end, 0)
    # A kernel waits for its loops, so that the last one that began before a part has run it.
    of_part = np.searchsorted(recording.kernels[:, 0], recording.parts[:, 1], side="right") - 1
    for (thread, begin, end), kernel in zip(recording.parts.tolist(), of_part.tolist()):
        name = f"part of {calls[kernel].name}"
        yield span_of_time(name, "part", rows[thread], begin, end)


def _facts(call: KernelCall) -> dict[str, Any]:
    """Returns what the viewer shows of a kernel call that is selected."""
    facts: dict[str, Any] = {
        "best time": f"{call.seconds * 1e6:.3f} us",
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
