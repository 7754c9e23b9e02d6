"""The task scheduler: which kernel of a program to spend the next seconds on.

A search is cut into slices of some candidates. Each goes to the task with the greatest expected
gain on the whole program's time per second of tuning::

    gain of a slice = calls * (seconds of a call - floor of the machine) * share

The share of what is left to gain that a slice gains falls from slice to slice. It is estimated from
what the slices of that number gained in the tasks that had them, starting from ``gain_shares``, and
from what the task itself gained last. (Ansor's gradient, Zheng et al., OSDI 2020, section 6,
estimates the same from the task's own past and from a declining hope.) The time of a kernel inside
the program is known before anything is tuned, so that kernels that make no difference wait from the
start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field

from ...ir.dataclass import dataclass
from ..settings import DEFAULT_SETTINGS, TuneSettings

LATEST = 3.0
"""Multiple of the seconds that first slices take which is kept for them."""

HORIZON = 4
"""Slices of every task that are looked ahead to tell if anything is left to gain."""

_BEATEN = 0.95
"""A time below this share of its floor shows that the floor is none."""


@dataclass(slots=True)
class TaskState:
    """A task as the scheduler sees it: ``slices`` are (seconds spent, best seconds after).

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
    slices: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    place: float = math.inf
    start: float = math.inf

    def after_slice(self, spent: float, best: float) -> None:
        """Note a slice of ``spent`` seconds; the best schedule takes ``best`` after it."""
        self.slices.append((max(spent, 1e-6), best))
        self.best = min(self.best, best)

    @property
    def seconds(self) -> float:
        """Seconds of a call, inf if unknown."""
        return self.best if math.isfinite(self.best) else self.place

    @property
    def limit(self) -> float:
        """The floor, 0 if it was beaten: not all counted operations need be done."""
        return self.floor if self.seconds > _BEATEN * self.floor else 0.0

    @property
    def left(self) -> float:
        """Seconds of a call that may still be gained."""
        return max(0.0, self.seconds - self.limit)

    def share_of(self, number: int) -> float | None:
        """The share of what was left before a slice that it gained; None if unknown."""
        before = self.slices[number - 1][1] if number else min(self.start, self.place)
        after = self.slices[number][1]
        limit = self.limit
        if not math.isfinite(before) or not math.isfinite(after) or before <= limit:
            return None
        return max(0.0, before - after) / (before - limit)


class TaskScheduler:
    """Chooses the task of every slice."""

    def __init__(
        self, states: Sequence[TaskState], settings: TuneSettings = DEFAULT_SETTINGS
    ) -> None:
        self.states = list(states)
        self._settings = settings

    def next(self, left: float = math.inf) -> int | None:
        """The index of the task of the next slice; None if all are exhausted. Tasks that matter
        are all tried before the ``left`` seconds are over."""
        open_ = [i for i, s in enumerate(self.states) if not s.exhausted]
        if not open_:
            return None
        unknown = [i for i in open_ if not self._known(i)]
        if unknown:
            # The fewest slices first, then the most important as far as that is known.
            rank = {i: (len(s.slices), -s.weight * s.work) for i, s in enumerate(self.states)}
            return min(unknown, key=rank.__getitem__)
        return max(self._overdue(open_, left) or open_, key=self.gain_rate)

    def _overdue(self, open_: Sequence[int], left: float) -> list[int]:
        """Returns the tasks with a share of the program's time that were not tried yet, if a first
        slice of each may just fit into the seconds that are left."""
        total = sum(s.weight * s.seconds for s in self.states if math.isfinite(s.seconds))
        least = self._settings.tried_share * total
        untried = [
            i
            for i in open_
            if not self.states[i].slices and self.states[i].weight * self.states[i].seconds >= least
        ]
        return untried if left <= LATEST * sum(map(self._slice_seconds, untried)) else []

    def gain_rate(self, index: int) -> float:
        """Expected seconds of the program's time saved per second of tuning the task."""
        state = self.states[index]
        count = len(state.slices)
        if not math.isfinite(state.best) and count:
            # No candidate ran so far: some more slices are worth it.
            return self._typical_time() * self._usual_share(0) / (count + 1) ** 3
        share = self.share(index)
        return state.weight * state.left * share / self._slice_seconds(index)

    def hope(self) -> float:
        """The share of the program's time that ``HORIZON`` more slices of every task are expected
        to gain; inf while a task's time is not known."""
        total = gain = 0.0
        for index, state in enumerate(self.states):
            if not self._known(index):
                return math.inf
            if math.isfinite(state.seconds):
                kept = math.prod(1 - self.share(index, ahead) for ahead in range(HORIZON))
                total += state.weight * state.seconds
                gain += 0.0 if state.exhausted else state.weight * state.left * (1 - kept)
        return gain / total if total else math.inf

    def share(self, index: int, ahead: int = 0) -> float:
        """The share of what is left to gain that the task's next slice, or one so many slices
        ``ahead``, is expected to gain."""
        state = self.states[index]
        count = len(state.slices)
        usual = self._usual_share(count + ahead)
        first = max(0, count - self._settings.gain_window)
        shares = [state.share_of(number) for number in range(first, count)]
        seen = [share for share in shares if share is not None]
        if not seen:
            return usual
        # As much better or worse than usual as it was lately, but not for sure.
        expected = [self._usual_share(n) for n in range(count - len(seen), count)]
        ratio = (sum(seen) + usual) / (sum(expected) + usual)
        return min(1.0, usual * ratio)

    def _usual_share(self, number: int) -> float:
        """The share that a slice of this number gains in tasks like these."""
        shares = self._settings.gain_shares
        prior = shares[min(number, len(shares) - 1)]
        if number >= len(shares):
            prior *= (len(shares) / (number + 1)) ** 2
        observed = [s.share_of(number) for s in self.states if len(s.slices) > number]
        seen = [share for share in observed if share is not None]
        trust = self._settings.gain_trust
        return (trust * prior + sum(seen)) / (trust + len(seen))

    def _slice_seconds(self, index: int) -> float:
        """Seconds of the task's next slice: the mean of its slices so far, or of all tasks'."""
        mine = [spent for spent, _ in self.states[index].slices]
        spent = mine or [spent for s in self.states for spent, _ in s.slices]
        return sum(spent) / len(spent) if spent else 1.0

    def _known(self, index: int) -> bool:
        state = self.states[index]
        tried = len(state.slices) >= self._settings.warm_up_rounds
        return tried or math.isfinite(state.seconds)

    def _typical_time(self) -> float:
        times = [s.weight * s.best for s in self.states if math.isfinite(s.best)]
        return sum(times) / len(times) if times else 1.0
