"""Schedules that users hand to the tuner: finds their kernels, checks them, and makes them data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ..autotune.task import Task
from ..autotune.workload import as_lists
from ..ir.errors import LoopwrightValueError, ScheduleError
from ..ir.loop.prim import PrimFunc
from ..ir.schedule.apply import apply_schedule
from ..ir.schedule.steps import Schedule, Step

Steps: TypeAlias = Schedule | Iterable[Any]
Given: TypeAlias = Steps | Callable[[PrimFunc], Steps]
"""A schedule in the forms users give: a Schedule, its steps, their JSON data, or a function of the
PrimFunc that returns one of these."""


def schedules_by_hand(
    tasks: Sequence[Task], schedules: Mapping[str, Given]
) -> dict[str, list[Any]]:
    """Returns the schedules as data, by workload hash; ``schedules`` has them by the kernel's name.

    LoopwrightValueError if there is no such kernel, ScheduleError for what is illegal.
    """
    kernels = {task.name: task for task in tasks}
    schedules_by_workload: dict[str, list[Any]] = {}
    for name, given in schedules.items():
        if name not in kernels:
            raise LoopwrightValueError(
                f"a schedule is given for {name}, but the kernels are {', '.join(kernels)}"
            )
        task = kernels[name]
        made = given(task.prim) if callable(given) else given
        steps = list(made.steps if isinstance(made, Schedule) else made)
        ours = all(isinstance(step, Step) for step in steps)
        schedule = Schedule(tuple(steps)) if ours else Schedule.from_json(as_lists(steps))
        try:
            apply_schedule(task.prim, schedule)
        except ScheduleError as error:
            raise ScheduleError(f"the schedule given for {name} is illegal: {error}") from error
        schedules_by_workload.setdefault(task.workload.hash, []).append(schedule.to_json())
    return schedules_by_workload
