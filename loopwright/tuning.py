"""Tuning a traced module: its kernels become tasks of the search engine.

Loaded only when something is tuned, so that ``import loopwright`` stays quick.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from .autotune.budget import Budget, parse_budget
from .autotune.kernels import TOOLCHAIN, tasks_of
from .autotune.log import TuningLog
from .autotune.lookup import shipped_logs
from .autotune.native_tuning import tune_tasks
from .autotune.program_tuner import ProgramResult
from .autotune.progress import Progress, make_progress
from .codegen.machine import known_machine
from .codegen.runtime import pool
from .codegen.target import Target
from .ir.graph.nodes import Module
from .pipeline import called_kernels, lower_module, preferences_of, session_log
from .precision import Precision

__all__ = ["tune"]


def tune(
    module: Module,
    *,
    target: Target | None = None,
    log: Path | None = None,
    threads: int | None = None,
    precision: Precision | None = None,
    budget: str | float | Budget | None = None,
    trials: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> ProgramResult:
    """Search for faster schedules of the module's kernels, and append what is measured to ``log``.

    Goes on from what the log knows. Without a log the records last as long as this process.
    """
    target = target or Target.host()
    used = threads or pool.get_threads()
    lowered = lower_module(module, preferences_of(precision, target))
    tasks = tasks_of(called_kernels(lowered), target, used)
    records = TuningLog(log or session_log())
    machine = known_machine(target)
    return tune_tasks(
        tasks,
        TOOLCHAIN,
        records,
        _limits(budget, trials),
        others=shipped_logs(),
        seed=seed,
        progress=progress or make_progress(),
        # A share of an estimated peak would say nothing.
        peak_flops=machine.peak_flops(used) if machine.measured else 0.0,
    )


def _limits(budget: str | float | Budget | None, trials: int | None) -> Budget:
    """Seconds and trials together; trials alone set no limit in seconds."""
    limits = parse_budget(budget) if budget is not None else Budget(trials=trials)
    return limits if trials is None else replace(limits, trials=trials)
