"""The task scheduler: which kernel of a program to spend the next seconds on.

Every turn goes to the task with the greatest expected gain on the whole program's time per second
of tuning::

    gain of a turn = calls * (seconds of a call - what the machine allows) * share

The share of what is left to gain that a turn gains falls from turn to turn. It is guessed from what
the turns of that number gained in the tasks that had them, starting from ``gain_shares``, and from
what the task itself gained last. (Ansor's gradient, Zheng et al., OSDI 2020, section 6, estimates
the same from the task's own past and from a hope that declines.) What a kernel takes inside of the
program is known before anything is tuned, so that what makes no difference waits from the start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..settings import DEFAULT_SETTINGS, TuneSettings

__all__ = ["RoundRobin", "Scheduler", "TaskScheduler", "TaskState"]


_BEATEN = 0.95
"""A time below this share of its floor shows that the floor is none."""


@dataclass(slots=True)
class TaskState:
    """What the scheduler knows of a task: ``turns`` are (seconds spent, best seconds after it).

    ``weight`` is how often the program calls the kernel; ``floor`` is a time per call that cannot
    be beaten, 0 if unknown; ``place`` the seconds of a call in the program as it was, inf if
    unknown. ``work`` says how much there is to do in a call, in whatever unit all tasks share: it
    stands for the time while that is not known. ``start`` are the seconds of the first candidate.
    """

    weight: float = 1.0
    floor: float = 0.0
    work: float = 1.0
    best: float = math.inf
    exhausted: bool = False
    turns: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    place: float = math.inf
    start: float = math.inf

    def after_turn(self, spent: float, best: float) -> None:
        """Note a turn."""
        self.turns.append((max(spent, 1e-6), best))
        self.best = min(self.best, best)

    @property
    def seconds(self) -> float:
        """Of a call, as far as known; inf if not at all."""
        return self.best if math.isfinite(self.best) else self.place

    @property
    def limit(self) -> float:
        """The floor; 0 if it is beaten, as where operations are counted that need not be done."""
        return self.floor if self.seconds > _BEATEN * self.floor else 0.0

    @property
    def left(self) -> float:
        """Seconds of a call that may yet be gained."""
        return max(0.0, self.seconds - self.limit)

    def share_of(self, turn: int) -> float | None:
        """The share of what was left before it that a turn gained; None if that is not known."""
        before = self.turns[turn - 1][1] if turn else min(self.start, self.place)
        after = self.turns[turn][1]
        limit = self.limit
        if not math.isfinite(before) or not math.isfinite(after) or before <= limit:
            return None
        return max(0.0, before - after) / (before - limit)


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
        unknown = [i for i in open_ if not self._known(i)]
        if unknown:
            # The fewest turns first, then the most important as far as that can be told.
            return min(unknown, key=lambda i: (len(self.states[i].turns), -self._importance(i)))
        return max(open_, key=self.gain_rate)

    def gain_rate(self, index: int) -> float:
        """Expected seconds of the program's time saved per second of tuning the task."""
        state = self.states[index]
        turns = len(state.turns)
        if not math.isfinite(state.best) and turns:
            # Nothing ran yet: worth some more.
            return self._typical_time() * self._usual_share(0) / (turns + 1) ** 3
        share = self.share(index)
        return state.weight * state.left * share / self._turn_seconds(index)

    def share(self, index: int) -> float:
        """The share of what is left to gain that the task's next turn is expected to gain."""
        state = self.states[index]
        turn = len(state.turns)
        usual = self._usual_share(turn)
        own = [state.share_of(t) for t in range(max(0, turn - self._settings.gain_window), turn)]
        seen = [share for share in own if share is not None]
        if not seen:
            return usual
        # As much better or worse than usual as it was lately, but not for sure.
        expected = [self._usual_share(t) for t in range(turn - len(seen), turn)]
        ratio = (sum(seen) + usual) / (sum(expected) + usual)
        return min(1.0, usual * ratio)

    def _usual_share(self, turn: int) -> float:
        """What a turn of this number gains in tasks like these."""
        shares = self._settings.gain_shares
        prior = shares[min(turn, len(shares) - 1)]
        if turn >= len(shares):
            prior *= (len(shares) / (turn + 1)) ** 2
        found = [s.share_of(turn) for s in self.states if len(s.turns) > turn]
        seen = [share for share in found if share is not None]
        trust = self._settings.gain_trust
        return (trust * prior + sum(seen)) / (trust + len(seen))

    def _turn_seconds(self, index: int) -> float:
        """Of the task's next turn: as its turns took so far, or those of others."""
        own = [spent for spent, _ in self.states[index].turns]
        spent = own or [spent for s in self.states for spent, _ in s.turns]
        return sum(spent) / len(spent) if spent else 1.0

    def _known(self, index: int) -> bool:
        state = self.states[index]
        tried = len(state.turns) >= self._settings.warm_up_rounds
        return tried or math.isfinite(state.seconds)

    def _importance(self, index: int) -> float:
        state = self.states[index]
        return state.weight * state.work

    def _typical_time(self) -> float:
        known = [s.weight * s.best for s in self.states if math.isfinite(s.best)]
        return sum(known) / len(known) if known else 1.0
