"""split i (8, 16); split j (4, 32); fuse i.0 j.0; parallel i.0*j.0; vectorize j.1
    split i (8, 16); split j (4, 32); vectorize j.1                    the same on one thread

This is seen on the steps. Other steps change nothing in some schedules only, such as the order of
loops that run once: that is seen on the nest.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from ...ir.errors import ScheduleError
from ...ir.loop.prim import PrimFunc
from ...ir.schedule.apply import apply_schedule
from ...ir.schedule.steps import Schedule
from ..log.record import schedule_key
from ..workload import as_lists


def on_one_thread(schedule: Sequence[Any]) -> list[list[Any]]:
    """Returns a schedule (JSON data) without the steps that only share loops among threads.

    >>> on_one_thread([["fuse", ["i", "j"]], ["parallel", "i*j"], ["compute_at", "t", "i*j"]])
    [['compute_at', 't', 'j']]
    """
    innermost: dict[str, str] = {}
    steps: list[list[Any]] = []
    for name, *args in schedule:
        if name == "fuse":
            innermost["*".join(args[0])] = args[0][-1]
        elif name != "parallel":
            steps.append([name, *(_renamed(arg, innermost) for arg in args)])
    return steps


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, list | tuple):
        return [_renamed(one, names) for one in value]
    return names.get(value, value) if isinstance(value, str) else value


def nest_key(prim: PrimFunc, schedule: Sequence[Any]) -> Hashable:
    """Returns a key that is equal for schedules (JSON data) that give ``prim`` the same loop
    nest."""
    try:
        return apply_schedule(prim, Schedule.from_json(as_lists(schedule)))
    except ScheduleError:
        return schedule_key(schedule)
