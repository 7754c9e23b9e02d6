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
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..codegen.machine import MachineModel
from ..codegen.timed_program import Recording, TimedProgram, timed_program
from ..ir.dtype import Array
from ..ir.errors import UnsupportedError
from ..ir.graph.printer import span_text
from ..ir.span import Span
from ..pipeline import Built, Parts
from ..text import seconds_text, shortened, table
from .chrome_trace import trace_of
from .kernel_calls import KernelCall, bound_text, kernel_calls

__all__ = ["Profile", "profile", "profile_text"]

MOST_ROWS = 40
"""Kernel calls in the table; the rest, which took less time, are one row."""

SOURCE_WIDTH = 60
"""Columns of the user's code in the table."""

MOST_RECORDED = 5
"""Calls that a profile records for a trace."""

MOST_RECORDED_KERNELS = 5000
"""Kernel calls that a profile records, if that are more than those of one call."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The kernel calls of one call in program order, and the seconds ``between`` them.

    ``str`` is a table of the calls, the longest first; ``save`` writes a trace of the ``recorded``
    calls.
    """

    name: str
    calls: tuple[KernelCall, ...]
    between: float
    machine: MachineModel
    threads: int
    recorded: tuple[Recording, ...] = ()

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
        trace = trace_of(self.name, self.calls, self.recorded, self.machine, self.threads)
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
    timed = timed_program(parts.program, parts.kernels, parts.target, parts.threads)
    took, between = _measure(timed, arrays, seconds)
    calls = kernel_calls(parts, took, machine)
    recorded = _record(parts, arrays) if record else ()
    return Profile(name, calls, between, machine, parts.threads, recorded)


def _measure(timed: TimedProgram, arrays: Sequence[Array], seconds: float) -> tuple[Array, float]:
    """Returns the least seconds of every call, and the seconds between calls of kernels."""
    best = timed.run(arrays)
    between = np.inf
    end = time.perf_counter() + seconds
    runs = 0
    while runs < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        took = timed.run(arrays)
        between = min(between, time.perf_counter() - start - took.sum())
        best = np.minimum(best, took)
        runs += 1
    return np.maximum(best, 1e-9), max(0.0, float(between))


def _record(parts: Parts, arrays: Sequence[Array]) -> tuple[Recording, ...]:
    recorder = timed_program(parts.program, parts.kernels, parts.target, parts.threads, parts=True)
    recorder.record(arrays)  # the pages of the arena and of the results are touched
    each = max(1, len(recorder.calls))
    count = min(MOST_RECORDED, max(1, MOST_RECORDED_KERNELS // each))
    return tuple(recorder.record(arrays) for _ in range(count))


def profile_text(measured: Profile) -> str:
    """Returns the profile as a table of kernel calls, the longest first."""
    head = ("time", "share", "GFLOP/s", "GB/s", "of roof", "bound by", "kernel", "computes")
    calls = sorted(measured.calls, key=lambda call: -call.seconds)
    rows = [_row(call, measured) for call in calls[:MOST_ROWS]]
    rest = sum(call.seconds for call in calls[MOST_ROWS:])
    if rest:
        rows.append(_other_row(rest, measured, f"{len(calls) - MOST_ROWS} other calls"))
    rows.append(_other_row(measured.between, measured, "between the kernels"))
    count = len(calls)
    threads = f"{measured.threads} thread{'' if measured.threads == 1 else 's'}"
    title = (
        f"{measured.name}   {seconds_text(measured.seconds)} a call, "
        f"{count} kernel call{'' if count == 1 else 's'}, {threads}"
    )
    return f"{title}\n\n{table(head, rows, left=(5, 6, 7))}"


def _row(call: KernelCall, measured: Profile) -> tuple[str, ...]:
    return (
        seconds_text(call.seconds),
        f"{call.seconds / measured.seconds:.1%}",
        f"{call.flops_per_second / 1e9:.3g}" if call.work.flops else "-",
        f"{call.bytes_per_second / 1e9:.3g}",
        f"{call.share:.0%}" if call.share == call.share else "-",
        bound_text(call, measured.threads),
        call.name,
        "" if call.span is None else _place_text(call.span),
    )


def _place_text(span: Span) -> str:
    """Returns a place and its code in one column; of a long path, the end."""
    text, file = span_text(span), Path(span.file)
    if len(span.file) > SOURCE_WIDTH // 2 and len(file.parts) > 2:
        text = text.replace(span.file, f".../{'/'.join(file.parts[-2:])}", 1)
    return shortened(text, SOURCE_WIDTH)


def _other_row(seconds: float, measured: Profile, what: str) -> tuple[str, ...]:
    share = f"{seconds / measured.seconds:.1%}"
    return (seconds_text(seconds), share, "", "", "", "", f"({what})", "")
