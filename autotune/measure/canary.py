"""Is the machine as fast as it was? The fastest kernel so far, the canary, runs beside candidates.

A neighbour on the same hardware, or a clock that falls, makes some tens of milliseconds twice as
slow. All samples of a candidate may fall into them, and agree: where the canary takes longer than
it usually does, too, the candidate is measured again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ..comparison import COMPARISON, ComparisonSettings

_READINGS = 15
"""Readings that say what is usual: a machine that stays slower is not waited for."""


class Canary:
    """A kernel that was measured, ready to run: ``run()`` returns seconds per call."""

    def __init__(self, settings: ComparisonSettings = COMPARISON) -> None:
        self.cost = float("inf")
        self._settings = settings
        self._run: Callable[[], float] | None = None
        self._close: Callable[[], None] = lambda: None
        self._readings: deque[float] = deque(maxlen=_READINGS)

    def adopt(self, cost: float, run: Callable[[], float], close: Callable[[], None]) -> None:
        """Use a faster kernel from now on; ``close`` is called when the next one comes."""
        self._close()
        self.cost, self._run, self._close = cost, run, close
        self._readings.clear()
        self._readings.append(cost)

    def slowed(self) -> bool:
        """True if the kernel takes longer now than it usually does."""
        if self._run is None:
            return False
        limit = self._settings.slowed * sorted(self._readings)[len(self._readings) // 2]
        now = self._run()
        if now > limit:
            now = self._run()  # the first call may have found its operands in no cache
        self._readings.append(now)
        return now > limit

    def close(self) -> None:
        """Releases what the kernel holds."""
        self.adopt(float("inf"), lambda: 0.0, lambda: None)
        self._run = None
