"""How the seconds of a budget are shared among what tuning a program does.

::

    start | choices in the graph | kernels: search, leaders | choices again, last comparisons

What comes last is kept back before the search begins: comparisons run the program some tens of
times, whatever the clock says, and building it takes its time as well. Both are known from the
first build. A program for which they would take more than ``MOST_KEPT_BACK`` of the budget is
compared with fewer rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..autotune.budget import Budget
from ..autotune.settings import DEFAULT_SETTINGS, TuneSettings
from .interleaved import least_calls

__all__ = ["TimePlan"]

MOST_KEPT_BACK = 0.4
MOST_OVER = 1.5
"""Times its share that a choice in the graph may take, which is measured before anything else."""
MOST_LATE, LATE_SHARE = 1.0, 0.1
LAST_CALLS = 30
"""Calls that the last comparisons make at least, of all builds together; see ``interleaved.py``."""
LAST_BUILDS = 1
"""Of all kernels; those whose schedules are as they were are not built again."""


@dataclass(slots=True)
class TimePlan:
    """``limits`` from the moment ``begun`` on the clock ``now``.

    ``call`` are the seconds of a call and ``build`` those of building the program, once known.
    """

    limits: Budget
    begun: float
    now: Callable[[], float] = time.monotonic
    settings: TuneSettings = DEFAULT_SETTINGS
    call: float = 0.0
    build: float = 0.0

    @property
    def total(self) -> float:
        """Seconds in all; inf without a limit."""
        return self.limits.seconds or float("inf")

    @property
    def elapsed(self) -> float:
        return self.now() - self.begun

    @property
    def left(self) -> float:
        """Seconds left; inf without a limit."""
        return max(0.0, self.total - self.elapsed)

    @property
    def graph(self) -> float:
        """Seconds for choices in the graph before kernels are tuned."""
        share = self.settings.graph_share * self.left
        return self.for_choices(min(self.settings.graph_seconds, share))

    @property
    def again(self) -> float:
        """Seconds for those that were near, once their kernels are tuned."""
        share = self.settings.graph_share * self.total / 3
        return self.for_choices(min(self.settings.graph_seconds / 3, share, 0.3 * self.left))

    @property
    def comparison(self) -> float:
        """Seconds for all of the last comparisons, beside what they take at least."""
        share = self.settings.comparison_share * self.total
        return min(self.settings.comparison_seconds, share, 0.5 * self.left)

    def fits(self, calls: int, builds: int = 0, late: float = 0.0) -> bool:
        """Whether so many calls of the program, and builds of it, fit into what is left; of what
        matters more than the budget, all but the seconds ``late`` must."""
        return calls * self.call + builds * self.build <= self.left + late

    @property
    def grace(self) -> float:
        """Seconds by which the budget may be exceeded, rather than what was found not be compared
        with what was there."""
        return min(MOST_LATE, LATE_SHARE * self.total)

    def for_choices(self, seconds: float) -> float:
        """``seconds``; none if one choice cannot be measured, and the outcome judged, in them."""
        least = 2 * (least_calls(2) * self.call + self.build)
        return seconds if least <= MOST_OVER * seconds else 0.0

    def kept_back(self, again: bool) -> float:
        """Seconds that what comes after the search will take; ``again`` if choices come again."""
        least = LAST_CALLS * self.call + LAST_BUILDS * self.build
        wanted = least + self.comparison + (self.again if again else 0.0)
        return min(wanted, MOST_KEPT_BACK * self.total)

    def search(self, again: bool) -> Budget:
        """What is left for the kernels."""
        if self.limits.seconds is None:
            return self.limits
        left = self.left - self.kept_back(again)
        return replace(self.limits, seconds=max(0.1 * self.total, left), spent=0.0)
