"""Stages of tuning a program: each needs time, and a stage that fails does not end the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TypeVar

from ..autotune.log.log_file import LogError
from ..ir.dataclass import dataclass
from .time_plan import TimePlan

__all__ = ["Stages"]

_T = TypeVar("_T")
_MESSAGE = 200


@dataclass(slots=True)
class Stages:
    """Runs stages while ``plan`` has time for them; ``skipped`` lists those left out, and why.

    Only a log that cannot be written and an interrupt end tuning.
    """

    plan: TimePlan
    skipped: list[str] = field(default_factory=list[str])

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
        try:
            return work()
        except LogError:
            raise
        except Exception as error:
            self.failed(name, error)
            return otherwise

    def failed(self, name: str, error: Exception) -> None:
        """Notes in one line that a stage failed."""
        reason = " ".join(str(error).split())[:_MESSAGE]
        self.skipped.append(f"{name}: {type(error).__name__}: {reason}")
