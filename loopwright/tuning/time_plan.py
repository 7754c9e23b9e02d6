"""Shares the seconds of a budget among the stages of tuning a program, and runs the stages.

::

    start | choices in the graph | kernels: search | leaders, last comparison

Time for the last stages is kept back before the search begins: comparisons run the program some
tens of times, whatever the clock says, and they build it. Both times are known from the first
build. If they took more than ``MOST_KEPT_BACK`` of the budget, there are fewer rounds instead.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import field, replace
from typing import TypeVar

from ..autotune.budget import Budget
from ..autotune.log.log_file import LogError
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


_T = TypeVar("_T")
_MESSAGE = 200

CHOICES, SEARCH, COMPARISONS = "choices in the graph", "search", "comparisons"
_KINDS = {
    "the profile": CHOICES,
    "choices in the graph": CHOICES,
    "the search": SEARCH,
    "the leaders in the program": SEARCH,
}


@dataclass(slots=True)
class Stages:
    """Runs stages while ``plan`` has time for them; ``skipped`` lists those left out, and why, and
    ``seconds`` has what the others took.

    Only a log that cannot be written and an interrupt end tuning.
    """

    plan: TimePlan
    skipped: list[str] = field(default_factory=list[str])
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict[str, float](float))

    def run(
        self,
        name: str,
        work: Callable[[], _T],
        otherwise: _T,
        calls: int = 0,
        builds: int = 0,
        late: float = 0.0,
    ) -> _T:
        """Returns what ``work`` returns, or ``otherwise`` if it fails, or if that many calls and
        builds of the program do not fit into the time that is left and the seconds ``late``."""
        if not self.plan.fits(calls, builds, late):
            self.skipped.append(f"{name}: no time left for it")
            return otherwise
        begun = self.plan.elapsed
        try:
            return work()
        except LogError:
            raise
        except Exception as error:
            self.failed(name, error)
            return otherwise
        finally:
            self.seconds[_KINDS.get(name, COMPARISONS)] += self.plan.elapsed - begun

    @property
    def spent(self) -> dict[str, float]:
        """The seconds of all stages of a kind, in their order; what is in none is the start."""
        start = {"start": self.plan.elapsed - sum(self.seconds.values())}
        return start | {kind: self.seconds[kind] for kind in (CHOICES, SEARCH, COMPARISONS)}

    def failed(self, name: str, error: Exception) -> None:
        """Notes in one line that a stage failed."""
        reason = " ".join(str(error).split())[:_MESSAGE]
        self.skipped.append(f"{name}: {type(error).__name__}: {reason}")
