"""Compares two tuning logs: winners, their times, and the loop nests they make."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Sequence

from ...ir.dataclass import dataclass
from ..log.lookup import best_of, best_records
from ..log.tuning_log import TuningLog
from ..record import MeasureRecord, TargetKey, Workload
from .logged import nest_or_reason


@dataclass(frozen=True, slots=True)
class Change:
    """One kernel on one machine: its best record in each log (None: it has none) and their
    seconds."""

    workload: Workload
    target: TargetKey
    before: MeasureRecord | None
    after: MeasureRecord | None
    seconds_before: float
    seconds_after: float

    @property
    def kind(self) -> str:
        """ "new", "gone", "changed" (another schedule is the best) or "same"."""
        if self.before is None:
            return "new"
        if self.after is None:
            return "gone"
        same = self.before.schedule_key == self.after.schedule_key
        return "same" if same else "changed"

    @property
    def gain(self) -> float:
        """Speedup from the first log to the second; nan if either has no record."""
        if math.isfinite(self.seconds_before) and math.isfinite(self.seconds_after):
            return self.seconds_before / self.seconds_after
        return math.nan

    def lines(self, context: int = 3) -> list[str]:
        """Returns the difference of the loop nests in the form of ``diff -u``.

        It is the difference of the steps if the nests cannot be shown or are equal.
        """
        if self.before is None or self.after is None:
            return []
        old, old_applies = nest_or_reason(self.before)
        new, new_applies = nest_or_reason(self.after)
        if not (old_applies and new_applies) or old == new:
            old, new = _steps(self.before), _steps(self.after)
        lines = difflib.unified_diff(old.split("\n"), new.split("\n"), lineterm="", n=context)
        return [line for line in lines if not line.startswith(("---", "+++"))]


def _steps(record: MeasureRecord) -> str:
    return "\n".join(json.dumps(step) for step in record.schedule)


@dataclass(frozen=True, slots=True)
class LogDiff:
    """All kernels of both logs, the greatest changes first."""

    changes: tuple[Change, ...]

    def of(self, *kinds: str) -> Sequence[Change]:
        return [c for c in self.changes if c.kind in kinds]


def diff_logs(before: TuningLog, after: TuningLog) -> LogDiff:
    """Returns the changes of the best records from one log to another."""
    old, new = (
        {(r.workload.hash, r.target): r for r in best_records(log)} for log in (before, after)
    )
    changes = [
        Change(
            (new.get(key) or old[key]).workload,
            key[1],
            old.get(key),
            new.get(key),
            _seconds(before, key),
            _seconds(after, key),
        )
        for key in dict.fromkeys([*old, *new])
    ]
    order = {"changed": 0, "new": 1, "gone": 2, "same": 3}

    def rank(change: Change) -> tuple[int, float]:
        gain = change.gain
        return order[change.kind], -abs(math.log(gain)) if gain == gain and gain > 0 else 0.0

    return LogDiff(tuple(sorted(changes, key=rank)))


def _seconds(log: TuningLog, key: tuple[str, TargetKey]) -> float:
    best = best_of([log], *key)
    return best[0] if best else math.inf
