"""Tuning real kernels: tasks measured in shared worker processes, with what the logs suggest."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.errors import ScheduleError
from ..budget import Budget, parse_budget
from ..log.lookup import LogView, lookup, related
from ..log.tuning_log import TuningLog
from ..measure.measurer import NativeMeasurer, Workers
from ..measure.toolchain import Toolchain
from ..progress import Progress
from ..protocols import CostModel, Measurer, Population
from ..settings import DEFAULT_SETTINGS, TuneSettings
from ..task import Task
from .program_tuner import ProgramResult, tune_program
from .scheduler import Scheduler, TaskScheduler, TaskState

__all__ = ["suggested_rows", "tune_tasks"]

LATE, LATE_SHARE = 1.0, 0.1
"""Seconds after the end of the budget that a candidate under way is waited for, and the most of
them as a share of it."""


def tune_tasks(
    tasks: Sequence[Task],
    toolchain: Toolchain,
    log: TuningLog,
    budget: str | float | Budget = "60s",
    *,
    others: Sequence[LogView] = (),
    model: CostModel | None = None,
    strategy: str = "evolutionary",
    settings: TuneSettings = DEFAULT_SETTINGS,
    seed: int = 0,
    progress: Progress | None = None,
    peak_flops: float = 0.0,
    scheduler: Callable[[Sequence[TaskState], TuneSettings], Scheduler] = TaskScheduler,
    given: Mapping[str, Sequence[Any]] | None = None,
    measurer_of: Callable[[Task], Measurer] | None = None,
) -> ProgramResult:
    """Tune distinct kernels that run on the same number of threads.

    ``others`` are logs to take suggestions from; only ``log`` is written. ``given`` are schedules
    to be measured, by workload hash. ``measurer_of`` measures elsewhere than in processes of this
    machine. LogError before anything is measured if the log cannot be written.
    """
    limits = parse_budget(budget)
    suggestions = {t.workload.hash: suggested_rows(t, [log, *others]) for t in tasks}
    with Workers(tasks[0].threads if tasks else 1, settings) as workers:  # none runs until asked
        if limits.seconds is not None:
            left = limits.seconds - limits.spent
            workers.deadline = time.monotonic() + left + min(LATE, LATE_SHARE * left)

        def here(task: Task) -> Measurer:
            return NativeMeasurer(task, toolchain, settings, seed, workers)

        return tune_program(
            tasks,
            measurer_of or here,
            log,
            limits,
            model=model,
            strategy=strategy,
            settings=settings,
            seed=seed,
            suggestions=suggestions,
            progress=progress,
            peak_flops=peak_flops,
            scheduler=scheduler,
            given=given,
        )


def suggested_rows(task: Task, logs: Sequence[LogView]) -> list[Population]:
    """Rows that logs have for this kernel, on this machine or others, or for near shapes, worth
    being measured first."""
    found = lookup(logs, task.workload.hash, task.key)
    known = [found] if found.kind == "exact" else related(logs, task.workload, task.key)
    rows: list[Population] = []
    for one in known:
        row = None if one.record is None else task.row_of(one.record.schedule)
        if row is None and one.record is not None:
            try:
                row = task.space.refit(task.parse(one.record.schedule), None)
            except ScheduleError:
                continue
        if row is not None and not any(np.array_equal(row, other) for other in rows):
            rows.append(row)
    return rows
