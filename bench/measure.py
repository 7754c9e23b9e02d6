"""One workload, measured with all libraries alternately."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from loopwright.codegen.machine import measured_machine
from loopwright.codegen.target import Target

from .allowance import Allowance
from .libraries import LIBRARIES
from .process import Worker
from .row import Row
from .workload import Workload, limit_seconds

__all__ = ["Settings", "measure"]

_ROUND_PATIENCE = 60.0  # seconds an answer to "measure for 0.1 s" may take
_HOPELESS = 20.0  # times the fastest: one call tells enough
_SLOW = 0.2  # seconds of such a call


@dataclass(frozen=True, slots=True)
class Settings:
    """``rounds`` rounds of ``seconds`` for each library, schedules in ``log``; tuning gets
    ``budget`` seconds per workload, or its part of ``allowance``, or nothing."""

    rounds: int = 5
    seconds: float = 0.06
    log: str = ""
    budget: float | None = None
    allowance: Allowance | None = None


def measure(workload: Workload, workers: Sequence[Worker], threads: int, settings: Settings) -> Row:
    """Make it ready in every process, check the results, then measure them alternately."""
    target = Target.host()
    limit = limit_seconds(workload, measured_machine(target), target, threads)
    row = Row.of(workload, threads, limit)
    once: dict[str, float] = {}
    with tempfile.NamedTemporaryFile(suffix=".npy") as expected:
        np.save(expected, workload.expected())
        expected.flush()
        for worker in workers:
            _prepare(worker, workload, row, once, expected.name, settings)
        _rounds([w for w in workers if w.library in once], row, once, settings)
    return row


def _prepare(
    worker: Worker,
    workload: Workload,
    row: Row,
    once: dict[str, float],
    expected: str,
    settings: Settings,
) -> None:
    name = worker.library
    tuning = _tuning_seconds(workload, row, once, settings) if name == "tuned" else 0.0
    answer = worker.ask(
        LIBRARIES[name].patience + 2 * tuning,
        do="prepare",
        kind=workload.kind,
        params=dict(workload.params),
        threads=row.threads,
        expected=expected,
        options={"budget": tuning, "log": settings.log} if name == "tuned" else {},
    )
    if "failed" in answer:
        row.failed[name] = answer["failed"]
        return
    row.wrong[name], row.ready[name], once[name] = answer["wrong"], answer["ready"], answer["once"]
    row.tuning += answer["tuning"]
    if settings.allowance is not None:
        settings.allowance.spent(answer["tuning"])


def _tuning_seconds(
    workload: Workload, row: Row, once: dict[str, float], settings: Settings
) -> float:
    if settings.allowance is None:
        return settings.budget or 0.0
    share = row.limit / once["untuned"] if "untuned" in once else None
    return settings.allowance.seconds_for(workload.need, share)


def _rounds(ready: Sequence[Worker], row: Row, once: dict[str, float], settings: Settings) -> None:
    times: dict[str, list[float]] = {}
    best = min(once.values(), default=0.0)
    for _ in range(settings.rounds):
        for worker in ready:
            name = worker.library
            if name in row.failed:
                continue
            if once[name] > max(_HOPELESS * best, _SLOW):
                times[name] = [once[name]]
                continue
            answer = worker.ask(_ROUND_PATIENCE, do="round", seconds=settings.seconds)
            if "failed" in answer:
                row.failed[name] = answer["failed"]
            else:
                times.setdefault(name, []).append(answer["seconds"])
    row.seconds = {n: statistics.median(t) for n, t in times.items() if n not in row.failed}
