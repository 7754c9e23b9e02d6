"""The task scheduler: which kernel of a program to spend the next seconds on.

Every turn goes to the task with the greatest expected gain on the whole program's time per second
of tuning. What a task may gain is guessed from what its last turns gained, and from the hope that
declines with every turn that did not fulfil it (after Ansor's gradient, Zheng et al., OSDI 2020,
section 6), bounded by what the machine's peak leaves to gain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .settings import DEFAULT_SETTINGS, TuneSettings

__all__ = ["RoundRobin", "Scheduler", "TaskScheduler", "TaskState"]


@dataclass(slots=True)
class TaskState:
    """What the scheduler knows of a task: ``turns`` are (seconds spent, best seconds after it).

    ``weight`` is how often the program calls the kernel; ``floor`` is a time per call that cannot
    be beaten, 0 if unknown. ``work`` says how much there is to do in a call, in whatever unit all
    tasks share: it stands for the time while that is not known.
    """

    weight: float = 1.0
    floor: float = 0.0
    work: float = 1.0
    best: float = math.inf
    exhausted: bool = False
    turns: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    def after_turn(self, spent: float, best: float) -> None:
        """Note a turn."""
        self.turns.append((max(spent, 1e-6), best))
        self.best = min(self.best, best)


class Scheduler(Protocol):
    """Whose turn it is."""

    def next(self) -> int | None:
        """The index of the task whose turn it is; None if all are exhausted."""
        ...


class RoundRobin:
    """Every task in turn: what ``TaskScheduler`` is held against."""

    def __init__(
        self, states: Sequence[TaskState], settings: TuneSettings = DEFAULT_SETTINGS
    ) -> None:
        self.states = list(states)

    def next(self) -> int | None:
        """The open task with the fewest turns so far."""
        open_ = [i for i, s in enumerate(self.states) if not s.exhausted]
        return min(open_, key=lambda i: len(self.states[i].turns), default=None)


class TaskScheduler:
    """Chooses among tasks, turn by turn."""

    def __init__(
        self, states: Sequence[TaskState], settings: TuneSettings = DEFAULT_SETTINGS
    ) -> None:
        self.states = list(states)
        self._settings = settings

    def next(self) -> int | None:
        """The index of the task whose turn it is; None if all are exhausted."""
        open_ = [i for i, s in enumerate(self.states) if not s.exhausted]
        if not open_:
            return None
        fresh = [i for i in open_ if len(self.states[i].turns) < self._settings.warm_up_rounds]
        if fresh:
            # The fewest turns first, then the most important as far as its time is known.
            return min(fresh, key=lambda i: (len(self.states[i].turns), -self._importance(i)))
        return max(open_, key=self.gain_rate)

    def gain_rate(self, index: int) -> float:
        """Expected seconds of the program's time saved per second of tuning the task."""
        state = self.states[index]
        turns = len(state.turns)
        if not math.isfinite(state.best):
            return self._typical_time() / (turns + 1) ** 2  # nothing ran yet: worth some more
        window = min(self._settings.gain_window, turns - 1)
        past = 0.0
        if window > 0:
            before = state.turns[-1 - window][1]
            past = (before - state.best) / window if math.isfinite(before) else state.best
        hope = state.best * self._settings.hope / turns
        left = max(0.0, state.best - state.floor)
        expected = min(left, (past + hope) / 2)
        seconds = sum(spent for spent, _ in state.turns) / turns
        return state.weight * expected / seconds

    def _importance(self, index: int) -> float:
        state = self.states[index]
        return state.weight * (state.best if self._all_known() else state.work)

    def _all_known(self) -> bool:
        return all(math.isfinite(s.best) for s in self.states)

    def _typical_time(self) -> float:
        known = [s.weight * s.best for s in self.states if math.isfinite(s.best)]
        return sum(known) / len(known) if known else 1.0
