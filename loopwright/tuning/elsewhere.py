"""Tunes on other machines, of a Dask cluster or with runners, for each kind of them.

The space of a kernel, and the choice of algorithms before it, depend on the machine. So machines
of several kinds are tuned kind by kind, each with its share of the budget, and each kind's records
have its own key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..autotune.budget import Budget
from ..autotune.log.lookup import shipped_logs
from ..autotune.log.tuning_log import TuningLog
from ..autotune.measure.elsewhere import dask_cluster, runners
from ..autotune.measure.elsewhere.remote import Machine, RunnerError
from ..autotune.measure.kernels import TOOLCHAIN, tasks_of
from ..autotune.program.native_tuning import tune_tasks
from ..autotune.program.program_tuner import ProgramResult
from ..autotune.request import TuneRequest
from ..codegen.target import Target
from ..config import Config
from ..ir.errors import LoopwrightValueError
from ..ir.loop.prim import PrimFunc
from .by_hand import Given, schedules_by_hand


def tune_elsewhere(
    runner: Any,
    kernels_for: Callable[[Target], Sequence[PrimFunc]],
    log: TuningLog,
    request: TuneRequest,
    threads: int | None,
    schedules: Mapping[str, Given] | None,
) -> ProgramResult:
    """Tunes on ``runner``: ``tcp://host:port,...``, ``dask://host:port`` or a
    ``distributed.Client``.

    ``kernels_for`` lowers the program for a kind of machine. ``threads`` are those of a kernel, by
    default as many as a machine has cores. Raises LoopwrightValueError if there are no such
    machines; tuning ends when they go away.
    """
    try:
        if isinstance(runner, str) and runner.startswith(runners.SCHEME):
            cluster = runners.connect(runner, Config.read().runner_key)
        else:
            cluster = dask_cluster.connect(runner)
    except RunnerError as error:
        raise LoopwrightValueError(str(error)) from error
    limits = request.limits
    with cluster:
        reports: list[ProgramResult] = []
        share = _share(limits, len(cluster.machines))
        for machine in cluster.machines:
            target = machine.target
            tasks = tasks_of(kernels_for(target), target, threads or target.cores)
            given = schedules_by_hand(tasks, schedules or {})
            reports.append(
                tune_tasks(
                    tasks,
                    TOOLCHAIN,
                    log,
                    replace(request, budget=share, given=given),
                    shipped_logs(),
                    lambda task, on=machine: cluster.measurer(
                        task, on, request.settings, request.seed
                    ),
                )
            )
            if not reports[-1].completed:
                break
    return _together(reports, cluster.machines, limits)


def _share(limits: Budget, count: int) -> Budget:
    return Budget(
        None if limits.seconds is None else limits.seconds / count,
        None if limits.trials is None else max(1, limits.trials // count),
    )


def _together(
    reports: list[ProgramResult], machines: list[Machine], limits: Budget
) -> ProgramResult:
    """Returns one report for all kinds of machines; with several, kernels' names say the
    machine."""
    if len(reports) == 1:
        return replace(reports[0], budget=limits)
    tasks = tuple(
        replace(result, task=replace(result.task, name=f"{result.task.name} on {m.target.cpu}"))
        for report, m in zip(reports, machines)
        for result in report.tasks
    )
    seconds = sum(r.seconds for r in reports)
    return replace(reports[-1], tasks=tasks, seconds=seconds, budget=limits)
