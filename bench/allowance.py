"""How a total of tuning time is spread over the workloads of a run."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Allowance"]

_LEAST = 1.0  # seconds: starting the processes that measure takes about as long
_USUAL_GAP = 0.5


class Allowance:
    """``total`` seconds for workloads that are told one after the other.

    Each gets its part by what can be expected to be found: its ``need`` (what there is to choose in
    work of its kind) times the gap between what it takes untuned and the limit of the machine. Of
    those to come only the need is known. Time that was not used is for the rest.
    """

    def __init__(self, total: float, needs: Iterable[float]) -> None:
        self.left = total
        self._to_come = sum(needs)

    def seconds_for(self, need: float, share: float | None) -> float:
        """Seconds for the next workload, which stands at ``share`` of the limit (None: unknown)."""
        self._to_come = max(0.0, self._to_come - need)
        gap = _USUAL_GAP if share is None else min(0.9, max(0.1, 1 - share))
        weight = need * gap
        part = weight / (weight + _USUAL_GAP * self._to_come)
        return max(_LEAST, self.left * part)

    def spent(self, seconds: float) -> None:
        """Tell what it has really taken."""
        self.left = max(0.0, self.left - seconds)
