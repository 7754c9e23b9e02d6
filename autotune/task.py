"""Task: one kernel to be tuned on one target."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from typing import Any

from ..codegen.target import Target
from ..ir.dataclass import dataclass
from ..ir.errors import ScheduleError
from ..ir.schedule.steps import Schedule
from .protocols import Population, SearchSpace
from .record import TargetKey, Workload, schedule_key, target_key


def _parse_schedule(data: Any) -> Schedule:
    return Schedule.from_json(list(data))


def unnamed_sketch(_row: Population) -> str:
    """Returns the name of a sketch in a space that names none."""
    return ""


@dataclass(frozen=True, slots=True)
class Task:
    """A kernel to be tuned. ``weight`` is how often the program calls it, ``threads`` how many
    threads run it. ``flops`` and ``bytes`` are the operations of one call and the least bytes it
    moves; 0 is unknown."""

    prim: Any
    """The computation that is checked: of a kernel with symbolic sizes that of one point."""
    target: Target
    space: SearchSpace
    workload: Workload
    name: str = "kernel"
    weight: int = 1
    threads: int = 1
    flops: float = 0.0
    bytes: float = 0.0
    cache: str = "warm"
    """The state of the caches in which candidates are measured: operands in the caches ("warm"), or
    where the program leaves them, as ``between`` says ("place")."""
    between: Mapping[str, int] = field(default_factory=dict[str, int])
    """Bytes that the program touches between two uses of an operand, by name; see
    ``codegen/reuse.py``. Without any, candidates run with their operands in the caches."""
    in_place: Mapping[str, str] = field(default_factory=dict[str, str])
    """Results that the program writes over a parameter, with its name."""
    compiled: Any = None
    """The ``AtPoint`` to compile, of a kernel with symbolic sizes; else ``prim`` is compiled."""
    handed: tuple[tuple[Any, str], ...] = ()
    """Schedules (JSON data) to measure beside the default one, each with the name of its sketch."""
    importance: float = 1.0
    """Factor of the weight: of a kernel that is tuned at several points, that of this one."""
    seconds: float = math.inf
    """Seconds of a call in the program before tuning; inf if unknown."""
    floor: float = 0.0
    """Seconds of a call that the machine cannot beat; 0 if unknown."""
    parse: Callable[[Any], Any] = _parse_schedule
    """Converts JSON of a log to the schedule that ``space.row_of`` takes; raises ScheduleError."""
    nest_key: Callable[[Sequence[Any]], Hashable] = schedule_key
    """Equal for schedules (JSON data) whose code is the same."""
    of_threads: tuple[int, ...] = ()
    """Features in which schedules that are the same on one thread may differ."""
    sketch_of: Callable[[Population], str] = unnamed_sketch
    """Returns name and version of the sketch of a row, ``contraction.register_tile/1``."""

    def row_of(self, schedule: tuple[Any, ...]) -> Population | None:
        """Returns the row int32[K] of a logged schedule, None if it is not in the space (any
        more)."""
        try:
            return self.space.row_of(self.parse(schedule))
        except ScheduleError:
            return None

    @property
    def key(self) -> TargetKey:
        """The target as records name it."""
        return target_key(self.target, self.threads)


def feature_count(task: Task) -> int:
    """Returns the number of features of a candidate in a task's space."""
    return int(task.space.features(task.space.default()[:0]).shape[1])
