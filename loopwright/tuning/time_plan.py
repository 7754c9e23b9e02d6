"""Shares the seconds of a budget among the stages of tuning a program.

::

    start | choices in the graph | kernels: search | leaders, last comparison

Time for the last stages is kept back before the search begins: comparisons run the program some
tens of times, whatever the clock says, and they build it. Both times are known from the first
build. If they took more than ``MOST_KEPT_BACK`` of the budget, there are fewer rounds instead.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

from ..autotune.budget import Budget
from ..autotune.settings import DEFAULT_SETTINGS, TuneSettings
from ..ir.dataclass import dataclass
from .interleaved import least_calls

LEAST_SEARCH = 0.6
"""Share of the budget that the search has, unless the first build and the last comparisons leave
less."""
MOST_KEPT_BACK = 0.4
MOST_OVER = 1.5
"""Multiple of its share that a choice in the graph may take: it comes before all others."""
START_SECONDS = 0.6
"""Seconds until two new processes answer."""
BYTES_A_SECOND = 4e8
"""Bytes of weights that are written, read and verified for two builds in a second."""
FRESH_SLICE, FRESH_CALLS, FRESH_ROUNDS = 0.05, 2, 6
"""Fewest seconds and calls for which one new process runs while the other waits, and fewest such
rounds."""
MOST_FRESH = 0.1
"""Greatest share of the budget for comparing the first and the last build in new processes."""
MOST_LATE, LATE_SHARE = 1.0, 0.1
MOST_LEADERS = 12.0
"""Most seconds for comparing the leaders of all kernels in the program."""
LAST_CALLS = 30
"""Fewest calls of all builds together in the last comparisons; see ``interleaved.py``."""
LAST_BUILDS = 1
"""Builds of all kernels in the last comparisons; kernels with the same schedules are reused."""


@dataclass(slots=True)
class TimePlan:
    """The budget ``limits`` from the moment ``begun`` on the clock ``now``.

    ``call`` and ``build`` are the seconds of a call and of a build of the program, once known, and
    ``fresh`` those of a comparison in new processes, without a limit if there is to be none.
    ``compete``: the leaders of all kernels are compared in the program, not each kernel's alone.
    """

    limits: Budget
    begun: float
    now: Callable[[], float] = time.monotonic
    settings: TuneSettings = DEFAULT_SETTINGS
    call: float = 0.0
    build: float = 0.0
    fresh: float = math.inf
    compete: bool = False

    @property
    def total(self) -> float:
        """Seconds of the whole budget; inf without a limit."""
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
        spare = (1 - LEAST_SEARCH) * self.total - self.elapsed - self.kept_back
        return self.for_choices(min(self.settings.graph_seconds, share, max(0.0, spare)))

    @property
    def comparison(self) -> float:
        """Seconds for all of the last comparisons, beyond their fewest calls."""
        share = self.settings.comparison_share * self.total
        return min(self.settings.comparison_seconds, share, 0.5 * self.left)

    @property
    def leaders(self) -> float:
        """Seconds for the leaders of all kernels in the program."""
        share = self.settings.leader_share * self.total
        return min(MOST_LEADERS, share, 0.5 * self.left) if self.compete else 0.0

    def fits(self, calls: int, builds: int = 0, late: float = 0.0) -> bool:
        """True if that many calls and builds of the program fit into the time that is left and the
        seconds ``late``, by which a stage may exceed the budget."""
        return calls * self.call + builds * self.build <= self.left + late

    def expect_fresh(self, constants: int) -> None:
        """Sets ``fresh`` for a program with so many bytes of constants, whose ``call`` is known."""
        slices = 2 * (1 + FRESH_ROUNDS) * max(FRESH_SLICE, FRESH_CALLS * self.call)
        self.fresh = START_SECONDS + constants / BYTES_A_SECOND + slices

    @property
    def affords_fresh(self) -> bool:
        """True if a comparison in new processes is worth its time, and there is time for it."""
        return self.fresh <= min(MOST_FRESH * self.total, self.left + self.grace) < math.inf

    @property
    def grace(self) -> float:
        """Seconds by which the budget may be exceeded to compare new schedules with old ones."""
        return min(MOST_LATE, LATE_SHARE * self.total)

    def for_choices(self, seconds: float) -> float:
        """Returns ``seconds``, or 0 if one choice cannot be measured and judged in them."""
        least = 2 * (least_calls(2) * self.call + self.build)
        return seconds if least <= MOST_OVER * seconds else 0.0

    @property
    def kept_back(self) -> float:
        """Seconds of the stages after the search."""
        least = LAST_CALLS * self.call + LAST_BUILDS * self.build
        wanted = least + self.comparison + self.leaders
        wanted += self.fresh if self.fresh <= MOST_FRESH * self.total < math.inf else 0.0
        return min(wanted, MOST_KEPT_BACK * self.total)

    @property
    def search(self) -> Budget:
        """Returns the budget of the search: all that is not reserved for other stages."""
        if self.limits.seconds is None:
            return self.limits
        left = self.left - self.kept_back
        return replace(self.limits, seconds=max(0.1 * self.total, left), spent=0.0)
