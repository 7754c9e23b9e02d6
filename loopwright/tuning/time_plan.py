"""Shares the seconds of a budget among the stages of tuning a program, and runs the stages.

::

    start | choices in the graph | kernels: search | leaders, last comparison

Time for the last stages is kept back before the search begins: comparisons run the program some
tens of times, whatever the clock says, and they build it. Both times are known from the first
build. If they took more than ``SHARES.kept_back`` of the budget, there are fewer rounds instead.
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


@dataclass(frozen=True, slots=True)
class Shares:
    """Limits of the parts of tuning a program; seconds, unless a field says otherwise."""

    search: float = 0.6  # Share of the search, unless the other parts of the plan leave less.
    kept_back: float = 0.4  # Greatest share for the last build and comparisons.
    over: float = 1.5  # Multiple of its share that a choice in the graph takes, before all others.
    start: float = 0.6  # Until two new processes answer.
    bytes_a_second: float = 4e8  # Weights that are written, read and verified for two builds.
    fresh_slice: float = 0.05  # For which one new process runs while the other waits, at least.
    fresh_calls: int = 2  # Calls in such a slice, at least.
    fresh_rounds: int = 6  # Rounds of such slices, at least.
    fresh: float = 0.1  # Greatest share for comparing builds in new processes.
    late: float = 1.0  # By which the end may be late, at most.
    late_share: float = 0.1  # The same, as a share of the budget.
    leaders: float = 12.0  # For comparing the leaders of all kernels in the program, at most.
    last_calls: int = 30  # Calls of all builds in the last comparisons; see ``interleaved.py``.
    last_builds: int = 1  # Builds of all kernels in the last comparisons: equal ones are reused.
    message: int = 200  # Letters of an error that a skipped stage tells.


SHARES = Shares()


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
        spare = (1 - SHARES.search) * self.total - self.elapsed - self.kept_back
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
        return min(SHARES.leaders, share, 0.5 * self.left) if self.compete else 0.0

    def fits(self, calls: int, builds: int = 0, late: float = 0.0) -> bool:
        """True if that many calls and builds of the program fit into the time that is left and the
        seconds ``late``, by which a stage may exceed the budget."""
        return calls * self.call + builds * self.build <= self.left + late

    def expect_fresh(self, constants: int) -> None:
        """Sets ``fresh`` for a program with so many bytes of constants, whose ``call`` is known."""
        slices = (
            2 * (1 + SHARES.fresh_rounds) * max(SHARES.fresh_slice, SHARES.fresh_calls * self.call)
        )
        self.fresh = SHARES.start + constants / SHARES.bytes_a_second + slices

    @property
    def affords_fresh(self) -> bool:
        """True if a comparison in new processes is worth its time, and there is time for it."""
        return self.fresh <= min(SHARES.fresh * self.total, self.left + self.grace) < math.inf

    @property
    def grace(self) -> float:
        """Seconds by which the budget may be exceeded to compare new schedules with old ones."""
        return min(SHARES.late, SHARES.late_share * self.total)

    def for_choices(self, seconds: float) -> float:
        """Returns ``seconds``, or 0 if one choice cannot be measured and judged in them."""
        least = 2 * (least_calls(2) * self.call + self.build)
        return seconds if least <= SHARES.over * seconds else 0.0

    @property
    def kept_back(self) -> float:
        """Seconds of the stages after the search."""
        least = SHARES.last_calls * self.call + SHARES.last_builds * self.build
        wanted = least + self.comparison + self.leaders
        wanted += self.fresh if self.fresh <= SHARES.fresh * self.total < math.inf else 0.0
        return min(wanted, SHARES.kept_back * self.total)

    @property
    def search(self) -> Budget:
        """Returns the budget of the search: all that is not reserved for other stages."""
        if self.limits.seconds is None:
            return self.limits
        left = self.left - self.kept_back
        return replace(self.limits, seconds=max(0.1 * self.total, left), spent=0.0)


_T = TypeVar("_T")

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
        reason = " ".join(str(error).split())[: SHARES.message]
        self.skipped.append(f"{name}: {type(error).__name__}: {reason}")
