"""How far measurements of one thing lie apart: what is slower by more than that cannot win."""

from __future__ import annotations

import math
import resource
from collections import deque
from collections.abc import Sequence

__all__ = ["Noise", "interruptions"]

_FIRST_SPREAD = 0.1  # of samples, before anything is known of this machine
_SURE = 1.05  # what is slower by less may be the better choice elsewhere: it is measured with care


class Noise:
    """How far samples of one candidate lie apart, learnt from those that had several."""

    def __init__(self) -> None:
        self._spreads: deque[float] = deque([_FIRST_SPREAD] * 8, maxlen=64)

    def learn(self, samples: Sequence[float]) -> None:
        """Take note of the samples of a candidate."""
        if len(samples) >= 3:
            low = min(samples)
            self._spreads.append(sorted(samples)[len(samples) // 2] / low - 1.0)

    def limit(self, count: int) -> float:
        """A fastest of ``count`` samples above this many times the best is no luck of the best.

        Samples lie above a floor; nine in ten of them within ``wide`` of it, the fastest of
        several closer. The best may have been lucky as well, so it is allowed as much again.
        """
        wide = sorted(self._spreads)[9 * len(self._spreads) // 10]
        return (1.0 + 2.0 * wide / math.sqrt(count)) * _SURE


def interruptions() -> int:
    """How often the system took the core from a thread of this process that was not done."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
