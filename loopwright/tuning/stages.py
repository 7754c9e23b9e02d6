"""Stages of tuning a program: each needs time, and a stage that fails does not end the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import field
from typing import TypeVar

from ..autotune.log.log_file import LogError
from ..ir.dataclass import dataclass
from .time_plan import TimePlan

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
