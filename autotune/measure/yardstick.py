"""Is the machine as fast as it was? The best kernel so far is run beside every candidate.

A neighbour on the same hardware, or a clock that falls, makes some tens of milliseconds twice as
slow: all samples of a candidate fall into them, agree with each other, and a good schedule is
dropped for ever. (In five runs over the same candidates the fastest int8 product was taken for one
of half its speed once.) Where the yardstick takes longer than it usually does, too, the candidate
is measured again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

__all__ = ["Yardstick"]

_SLOWED = 1.25
"""This many times what it usually takes: more than single samples differ."""
_READINGS = 15


class Yardstick:
    """A kernel that was measured, ready to run: ``run()`` gives seconds per call."""

    def __init__(self) -> None:
        self.cost = float("inf")
        self._run: Callable[[], float] | None = None
        self._close: Callable[[], None] = lambda: None
        self._readings: deque[float] = deque(maxlen=_READINGS)

    def adopt(self, cost: float, run: Callable[[], float], close: Callable[[], None]) -> None:
        """Take a faster kernel; ``close`` is called when the next one comes."""
        self._close()
        self.cost, self._run, self._close = cost, run, close
        self._readings.clear()
        self._readings.append(cost)

    def slowed(self) -> bool:
        """Whether it takes longer now than it usually does.

        What is usual are the last readings: a machine that stays slower is not waited for.
        """
        if self._run is None:
            return False
        limit = _SLOWED * sorted(self._readings)[len(self._readings) // 2]
        now = self._run()
        if now > limit:
            now = self._run()  # the first may have found its operands in no cache
        self._readings.append(now)
        return now > limit

    def close(self) -> None:
        """Give back what the kernel holds."""
        self.adopt(float("inf"), lambda: 0.0, lambda: None)
        self._run = None
