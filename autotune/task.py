"""Task: one kernel to be tuned on one target."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from ..codegen.target import Target
from ..ir.errors import ScheduleError
from ..ir.schedule.steps import Schedule
from .log.record import TargetKey, Workload, schedule_key, target_key
from .protocols import Population, SearchSpace

__all__ = ["Task", "feature_count", "unnamed_sketch"]


def _parse_schedule(data: Any) -> Schedule:
    return Schedule.from_json(list(data))


def unnamed_sketch(row: Population) -> str:
    """The name of a sketch in a space that names none."""
    return ""


@dataclass(frozen=True, slots=True)
class Task:
    """``weight`` is how often the program calls the kernel, ``threads`` how many threads run it.

    ``flops`` and ``bytes`` are what one call computes and must move at least; 0 is unknown.
    """

    prim: Any
    target: Target
    space: SearchSpace
    workload: Workload
    name: str = "kernel"
    weight: int = 1
    threads: int = 1
    flops: float = 0.0
    bytes: float = 0.0
    cache: str = "warm"
    """What a program's calls find their operands in, as far as can be told: the caches ("warm"), or
    memory ("cold"). It says which measurement of the leaders counts."""
    seconds: float = math.inf
    """Of a call in the program before tuning; inf if unknown."""
    floor: float = 0.0
    """Seconds of a call that the machine cannot beat; 0 if unknown."""
    parse: Callable[[Any], Any] = _parse_schedule
    """JSON of a log to the schedule that ``space.row_of`` takes; ScheduleError if it is none."""
    nest_key: Callable[[Sequence[Any]], Hashable] = schedule_key
    """Equal for schedules (JSON data) whose code is the same."""
    sketch_of: Callable[[Population], str] = unnamed_sketch
    """The name and version of the sketch a row comes from, ``contraction.register_tile/1``."""

    def row_of(self, schedule: tuple[Any, ...]) -> Population | None:
        """The row int32[K] of a logged schedule, None if it is not in the space (any more)."""
        try:
            return self.space.row_of(self.parse(schedule))
        except ScheduleError:
            return None

    @property
    def key(self) -> TargetKey:
        """The target as records name it."""
        return target_key(self.target, self.threads)


def feature_count(task: Task) -> int:
    """How many features its space gives a cost model of each candidate."""
    return int(task.space.features(task.space.default()[:0]).shape[1])
