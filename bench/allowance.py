"""Divides a total of tuning time among the workloads of a run."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Allowance"]

_LEAST = 0.5  # seconds to ask for
_OVERHEAD = 1.5  # seconds beyond those asked for: processes start, and the best are measured again
_USUAL_GAP = 0.5


class Allowance:
    """``total`` seconds for workloads that are told one after the other.

    Each gets its part by what can be expected to be found: its ``need`` (what there is to choose in
    work of its kind) times the gap between what it takes untuned and the limit of the machine. Of
    those to come only the need is known. What tuning takes beyond the seconds asked for is learned
    on the way and set aside; time that was not used is for the rest.
    """

    def __init__(self, total: float, needs: Iterable[float]) -> None:
        self.left = total
        to_come = list(needs)
        self._to_come, self._count = sum(to_come), len(to_come)
        self._overhead, self._asked = _OVERHEAD, 0.0

    def seconds_for(self, need: float, share: float | None) -> float:
        """Seconds for the next workload, which stands at ``share`` of the limit (None: unknown)."""
        self._to_come = max(0.0, self._to_come - need)
        gap = _USUAL_GAP if share is None else min(0.9, max(0.1, 1 - share))
        weight = need * gap
        part = weight / (weight + _USUAL_GAP * self._to_come)
        self._asked = max(_LEAST, (self.left - self._overhead * self._count) * part)
        self._count = max(0, self._count - 1)
        return self._asked

    def spent(self, seconds: float) -> None:
        """Tell what it has really taken."""
        self.left = max(0.0, self.left - seconds)
        self._overhead += 0.2 * (max(0.0, seconds - self._asked) - self._overhead)
