"""Tuning real kernels: tasks measured in shared worker processes, with what the logs suggest."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace

import numpy as np

from ...ir.errors import ScheduleError
from ..log.lookup import LogView, best_of, related
from ..log.tuning_log import TuningLog
from ..measure.measurer import NativeMeasurer, Workers
from ..measure.toolchain import Toolchain
from ..protocols import Measurer, Population
from ..request import TuneRequest
from ..task import Task
from .program_tuner import ProgramResult, tune_program

LATE, LATE_SHARE = 1.0, 0.1
"""Seconds after the end of the budget that a candidate under way is waited for, and the most of
them as a share of it."""


def tune_tasks(
    tasks: Sequence[Task],
    toolchain: Toolchain,
    log: TuningLog,
    request: TuneRequest,
    others: Sequence[LogView] = (),
    measurer_of: Callable[[Task], Measurer] | None = None,
) -> ProgramResult:
    """Tune distinct kernels that run on the same number of threads.

    ``others`` are logs to take suggestions from; only ``log`` is written. ``measurer_of`` measures
    elsewhere than in processes of this machine. Raises LogError before anything is measured if the
    log cannot be written.
    """
    limits = request.limits
    suggestions = {t.workload.hash: suggested_rows(t, [log, *others]) for t in tasks}
    request = replace(request, budget=limits, suggestions=suggestions)
    with (
        Workers(tasks[0].threads if tasks else 1, request.settings) as workers,  # started when used
        ExitStack() as stack,
    ):
        if limits.seconds is not None:
            left = limits.seconds - limits.spent
            workers.deadline = time.monotonic() + left + min(LATE, LATE_SHARE * left)
        if limits.quick and measurer_of is None:
            workers.start()  # takes as long as all candidates of the first kernel may

        def measurer(task: Task) -> Measurer:
            if measurer_of is not None:
                return stack.enter_context(closing(measurer_of(task)))
            return stack.enter_context(
                NativeMeasurer(task, toolchain, request.settings, request.seed, workers)
            )

        return tune_program(tasks, measurer, log, request)


def suggested_rows(task: Task, logs: Sequence[LogView]) -> list[Population]:
    """Rows that logs have for this kernel, on this machine or others, or for near shapes, worth
    being measured first."""
    best = best_of(logs, task.workload.hash, task.key)
    nearby = [] if best else related(logs, task.workload, task.key)
    rows: list[Population] = []
    for record in [best[1]] if best else [result.record for result in nearby]:
        row = task.row_of(record.schedule)
        if row is None:
            try:
                row = task.space.refit(task.parse(record.schedule))
            except ScheduleError:
                continue
        if row is not None and not any(np.array_equal(row, other) for other in rows):
            rows.append(row)
    return rows
