"""Two builds of one function compared by the calls that the program makes anyway."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..autotune.comparison import COMPARISON, compare

Array = np.ndarray[Any, Any]
Direct = Callable[..., "list[Array] | None"]

_WARM_UP = 2
"""Calls of each build that are not sampled: code and memory are cold in the first ones."""
_FEWEST, _MOST = 8, 256
"""Least and greatest number of samples of each build."""
_TELLING_SECONDS = 0.05
"""Seconds of samples of each build that end a trial, from ``_FEWEST`` samples on."""


class Trial:
    """Interleaves calls of the old and the new build until the faster one is known.

    It stands in for a build: ``direct`` and ``call`` are those of ``Built``. The order is
    old, new, new, old, so that drift hits both alike. ``decided`` is called once, from within the
    call that decides, with True if the new build won, and the seconds of both; from then on the
    winner is called. Between equals the new build wins, since tuning found it faster. Any number of
    threads may call at once.
    """

    def __init__(
        self,
        old: Direct,
        new: Direct,
        portable: Callable[[Sequence[Array]], list[Array]],
        decided: Callable[[bool, float, float], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._builds = (old, new)
        self._decided = decided
        self._clock = clock
        self._count = itertools.count()
        self._samples: tuple[list[float], list[float]] = ([], [])
        self._winner: Direct | None = None
        self._lock = threading.Lock()
        self.call = portable
        """Calls the old build, untimed, for arguments that ``direct`` does not take."""

    @property
    def calls(self) -> int:
        """Number of timed calls so far."""
        return sum(map(len, self._samples))

    def direct(self, *arrays: Any) -> list[Array] | None:
        """Returns the results of one of the builds, None for arguments it was not made for."""
        winner = self._winner
        if winner is not None:
            return winner(*arrays)
        number = next(self._count)
        which = (0, 1, 1, 0)[number % 4]
        begun = self._clock()
        results = self._builds[which](*arrays)
        seconds = self._clock() - begun
        if results is not None and number >= 2 * _WARM_UP:
            self._samples[which].append(seconds)
            self._judge()
        return results

    def _judge(self) -> None:
        old, new = self._samples
        count = min(len(old), len(new))
        if count < _FEWEST // 2:
            return
        if count < _FEWEST:
            if min(new) > COMPARISON.contender * max(old):
                self._settle()
        elif count >= _MOST or min(sum(old), sum(new)) >= _TELLING_SECONDS:
            self._settle()

    def _settle(self) -> None:
        verdict = compare(self._samples)
        won = not verdict.slower
        with self._lock:
            if self._winner is not None:
                return
            self._winner = self._builds[won]
        old, new = verdict.seconds
        self._decided(won, float(old), float(new))
