"""The search on one kernel: a program of one."""

from __future__ import annotations

from typing import Any

from loopwright.autotune.budget import Budget, BudgetClock
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.program.program_tuner import ProgramResult, TaskResult, tune_program
from loopwright.autotune.protocols import Measurer
from loopwright.autotune.request import TuneRequest
from loopwright.autotune.task import Task

__all__ = ["tune_one"]


def tune_one(
    task: Task,
    measurer: Measurer,
    log: TuningLog,
    budget: str | float | Budget = "30s",
    clock: BudgetClock | None = None,
    **options: Any,
) -> tuple[ProgramResult, TaskResult]:
    """Tune a task with the ``options`` of a ``TuneRequest``. Returns the reports of the run and of
    the task."""
    request = TuneRequest(budget, **options)
    result = tune_program([task], lambda _: measurer, log, request, clock)
    return result, result.tasks[0]
