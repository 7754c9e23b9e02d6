"""budget ::= "quick" | item ("," item)*
    item   ::= NUMBER [ "ms" | "s" | "m" | "h" | "trials" ]       no unit: seconds

Parts of a time may be joined (``1m30s``); with several items, the first one used up ends the
search. "quick" is the model's best few candidates of every kernel.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import field

from ..ir.dataclass import dataclass

_UNITS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_TRIALS = ("trials", "trial", "t")
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)\s*")


@dataclass(frozen=True, slots=True)
class Budget:
    """At most ``seconds`` and at most ``trials`` measured candidates; None: without limit.

    ``spent`` seconds were used before the budget was handed on. ``quick``: of every kernel,
    ``TuneSettings.quick_candidates`` and no more.
    """

    seconds: float | None = None
    trials: int | None = None
    spent: float = field(default=0.0, repr=False, compare=False)
    quick: bool = field(default=False, repr=False)

    def __str__(self) -> str:
        if self.quick:
            return "quick"
        parts = []
        if self.seconds is not None:
            parts.append(f"{self.seconds:g}s")
        if self.trials is not None:
            parts.append(f"{self.trials} trials")
        return ", ".join(parts)


def parse_budget(value: str | int | float | Budget) -> Budget:
    """Returns the budget that a user wrote. Raises ValueError with the forms that are understood.

    >>> parse_budget("1m30s")
    Budget(seconds=90.0, trials=None)
    >>> parse_budget("30s, 200 trials")
    Budget(seconds=30.0, trials=200)
    """
    if isinstance(value, Budget):
        return value
    if isinstance(value, bool):
        raise _not_understood(value)
    if value == "quick":
        return Budget(quick=True)
    if isinstance(value, int | float):
        return _checked(value, float(value), None)
    seconds: float | None = None
    trials: int | None = None
    for item in str(value).split(","):
        more_seconds, more_trials = _parse_item(item.strip().lower(), value)
        if more_trials is not None:
            trials = more_trials
        else:
            seconds = more_seconds
    return _checked(value, seconds, trials)


def _parse_item(item: str, whole: object) -> tuple[float | None, int | None]:
    parts = _PART.findall(item)
    if not parts or _PART.sub("", item):
        raise _not_understood(whole)
    if len(parts) == 1 and parts[0][1] in _TRIALS:
        if "." in parts[0][0]:
            raise _not_understood(whole)
        return None, int(parts[0][0])
    total = 0.0
    for number, unit in parts:
        if unit not in _UNITS and not (unit == "" and len(parts) == 1):
            raise _not_understood(whole)
        total += float(number) * _UNITS.get(unit, 1.0)
    return total, None


def _checked(value: object, seconds: float | None, trials: int | None) -> Budget:
    if (seconds is not None and not 0 < seconds < float("inf")) or trials == 0:
        raise ValueError(f"a budget must be more than nothing, but it is {value!r}")
    return Budget(seconds, trials)


def _not_understood(value: object) -> ValueError:
    return ValueError(
        f"budget {value!r} is not understood; write seconds (30, '30s', '500ms', '2m', '1m30s', "
        "'1h'), candidates ('200 trials'), both ('30s, 200 trials'), or 'quick'"
    )


@dataclass(slots=True)
class BudgetClock:
    """A budget being spent, from the moment the clock is made.

    ``marked`` is when the last candidate was measured, or quick tuning began. Every decision that
    depends on time, other than the end, uses it: it is in the log, so that a replay decides the
    same.
    """

    budget: Budget
    now: Callable[[], float] = time.monotonic
    trials: int = 0
    marked: float = 0.0
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.now() - self.budget.spent

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.now() - self.started

    def mark(self) -> None:
        """Sets ``marked`` after a candidate was measured."""
        self.marked = round(self.elapsed, 4)

    @property
    def seconds_left(self) -> float:
        """Seconds left; infinite without a limit in seconds."""
        if self.budget.seconds is None:
            return float("inf")
        return max(0.0, self.budget.seconds - self.elapsed)

    @property
    def trials_left(self) -> int | None:
        """Candidates left; None without such a limit."""
        return None if self.budget.trials is None else max(0, self.budget.trials - self.trials)

    @property
    def spent(self) -> bool:
        return self.seconds_left <= 0 or self.trials_left == 0

    @property
    def expected_seconds_left(self) -> float:
        """Expected time to the end: by the clock, or by the rate of trials."""
        left = self.seconds_left
        if self.trials_left is not None and self.trials:
            left = min(left, self.elapsed / self.trials * self.trials_left)
        return left
