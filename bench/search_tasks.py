"""Kernels to try the search engine on: those of the workloads, at sizes that nothing else uses."""

from __future__ import annotations

from typing import Any

import loopwright as lw
from loopwright.autotune.kernels import tasks_of
from loopwright.autotune.task import Task
from loopwright.codegen.target import Target
from loopwright.pipeline import called_kernels, lower_module, preferences_of

from .families import make
from .namespaces.of_loopwright import Loopwright
from .workload import Workload

__all__ = ["HELD_OUT", "held_out_tasks", "main_task"]

HELD_OUT: tuple[tuple[str, dict[str, Any]], ...] = ()


def main_task(workload: Workload, threads: int = 1) -> Task:
    """The kernel of a workload with the most work."""
    arrays = workload.arrays()
    constants = {name: arrays[name] for name in workload.constants}
    given = {name: array for name, array in arrays.items() if name not in constants}
    order = list(workload.inputs)
    namespace = Loopwright()

    def function(*values: Any) -> Any:
        known = {**constants, **dict(zip(given, values))}
        return workload.body(namespace, *(known[name] for name in order))

    target = Target.host()
    module = lw.compile(function).trace(*given.values()).module
    kernels = called_kernels(lower_module(module, preferences_of(None, target)))
    return max(tasks_of(kernels, target, threads), key=lambda task: (task.flops, task.bytes))


def held_out_tasks(threads: int = 1, count: int | None = None) -> dict[str, Task]:
    """The tasks by name, spread over the families."""
    chosen = HELD_OUT if count is None else HELD_OUT[:: max(1, len(HELD_OUT) // count)][:count]
    workloads = [make(kind, params) for kind, params in chosen]
    return {w.name: main_task(w, threads) for w in workloads}
