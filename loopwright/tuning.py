"""Tuning a traced module: its kernels become tasks of the search engine.

Loaded only when something is tuned, so that ``import loopwright`` stays quick.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .autotune.budget import Budget, parse_budget
from .autotune.kernels import TOOLCHAIN, tasks_of
from .autotune.log import LogError, TuningLog
from .autotune.lookup import lookup, shipped_logs
from .autotune.native_tuning import tune_tasks
from .autotune.program_tuner import ProgramResult, TaskResult
from .autotune.progress import Progress, make_progress
from .autotune.settings import DEFAULT_SETTINGS
from .autotune.strategies import DEFAULT_STRATEGY, STRATEGIES
from .by_hand import Given, schedules_by_hand
from .codegen.machine import known_machine
from .codegen.runtime import pool
from .codegen.target import Target
from .confirm import confirm
from .in_turn import random_arrays
from .ir.errors import LoopwrightValueError
from .ir.graph.nodes import Module
from .ir.graph.structural import structural_hash
from .pipeline import Built, build, called_kernels, lower_module, preferences_of, session_log
from .precision import Precision

__all__ = ["Tuned", "tune"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Tuned:
    """The module as the log now builds it, and the report of the search."""

    built: Built
    report: ProgramResult


def tune(
    module: Module,
    arrays: Sequence[Array] | None = None,
    *,
    target: Target | None = None,
    log: Path | None = None,
    threads: int | None = None,
    precision: Precision | None = None,
    budget: str | float | Budget | None = None,
    trials: int | None = None,
    seed: int = 0,
    strategy: str = DEFAULT_STRATEGY,
    schedules: Mapping[str, Given] | None = None,
    progress: Progress | None = None,
    verify: bool = False,
) -> Tuned:
    """Search for faster schedules of the module's kernels, and append what is measured to ``log``.

    Goes on from what the log knows. Without a log the records last as long as this process. At the
    end the module as it was and as it is now are run in turn on ``arrays``, those of a call (random
    ones if there are none): what is slower there is rolled back, see ``confirm``. ``schedules`` are
    measured first; see ``schedules_by_hand``.
    """
    begun = time.monotonic()
    if strategy not in STRATEGIES:
        raise LoopwrightValueError(
            f"there is no strategy {strategy!r}; the strategies are {', '.join(STRATEGIES)}"
        )
    target = target or Target.host()
    used = threads or pool.get_threads()
    lowered = lower_module(module, preferences_of(precision, target))
    kernels = tasks_of(called_kernels(lowered), target, used)
    given = schedules_by_hand(kernels, schedules or {})
    own = log or session_log()
    records = TuningLog(own)
    records.check_writable()

    def made() -> Built:
        return build(
            module, target=target, log=own, threads=threads, precision=precision, verify=verify
        )

    before = made()
    limits = _limits(budget, trials)
    kept_back = _for_the_comparison(limits)
    machine = known_machine(target)
    report = tune_tasks(
        kernels,
        TOOLCHAIN,
        records,
        _less(limits, kept_back + time.monotonic() - begun),
        others=shipped_logs(),
        strategy=strategy,
        seed=seed,
        progress=progress or make_progress(),
        # A share of an estimated peak would say nothing.
        peak_flops=machine.peak_flops(used) if machine.measured else 0.0,
        given=given,
    )
    if report.stopped not in ("budget", "exhausted"):
        return Tuned(made(), replace(report, budget=limits))
    operands = random_arrays(module, seed) if arrays is None else list(arrays)
    try:
        ended = confirm(before, made, records, operands, kept_back, _name(module))
    except (LogError, KeyboardInterrupt) as error:
        stopped = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        return Tuned(made(), replace(report, budget=limits, stopped=stopped))
    undone = {r.workload for r in ended.report.rolled_back}
    tasks = tuple(
        _as_built(t, records) if t.task.workload.hash in undone else t for t in report.tasks
    )
    seconds = time.monotonic() - begun
    return Tuned(
        ended.built,
        replace(report, tasks=tasks, seconds=seconds, budget=limits, in_program=ended.report),
    )


def _as_built(result: TaskResult, log: TuningLog) -> TaskResult:
    """What tuning did for a kernel whose new schedule was rolled back."""
    kept = lookup(log, result.task.workload, result.task.key).record
    if kept is None:
        return result
    return replace(result, best=kept, after=kept.cost, rolled_back=True)


def _for_the_comparison(limits: Budget) -> float:
    """Seconds kept back for the last comparison."""
    settings = DEFAULT_SETTINGS
    share = settings.comparison_share * (limits.seconds or float("inf"))
    return min(settings.comparison_seconds, share)


def _less(limits: Budget, seconds: float) -> Budget:
    if limits.seconds is None:
        return limits
    return replace(limits, seconds=max(0.5 * limits.seconds, limits.seconds - seconds))


def _name(module: Module) -> str:
    """Which program it is, for people and for comparing."""
    return f"main {structural_hash(module)[:16]}"


def _limits(budget: str | float | Budget | None, trials: int | None) -> Budget:
    """Seconds and trials together; trials alone set no limit in seconds."""
    limits = parse_budget(budget) if budget is not None else Budget(trials=trials)
    return limits if trials is None else replace(limits, trials=trials)
