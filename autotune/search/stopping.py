"""When to stop: the gain that the cost model expects of another slice of the search.

The model ranks. How scores translate into time is fitted on the candidates that it scored before
they were measured: a line of log seconds against scores, and the residuals. The expected gain of a
batch follows from drawing its candidates' times from the line and the residuals many times: it is
the mean part by which the fastest beats the best one so far. The search stops when the expected
gain is small for several slices, and they gained nothing either.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from ..protocols import FloatArray
from ..settings import DEFAULT_SETTINGS, TuneSettings

_DRAWS = 64
_LEAST = 24  # candidates with a score and a time, before a forecast means anything
_SPREAD = 0.5  # in log seconds: candidates further from the fastest say nothing about the best


class GainForecast:
    """The gain to expect of the next slice of a task, and whether it is worth it."""

    def __init__(self, settings: TuneSettings = DEFAULT_SETTINGS, seed: int = 0) -> None:
        self._settings = settings
        self._rng = np.random.default_rng(seed)
        self._scores: deque[float] = deque(maxlen=settings.gain_memory)
        self._logs: deque[float] = deque(maxlen=settings.gain_memory)
        self._small: int = 0
        self.expected = math.inf

    def learn(self, scores: FloatArray, costs: FloatArray) -> None:
        """Scores float[n] the model gave before float[n] seconds were measured (inf: failed)."""
        ran = np.isfinite(costs)
        self._scores.extend(float(s) for s in scores[ran])
        self._logs.extend(float(v) for v in np.log(costs[ran]))

    def expect(self, scores: FloatArray, best: float) -> float:
        """Returns the share of ``best`` seconds that measuring candidates with these scores is
        expected to save; inf while too little is known."""
        if len(self._logs) < _LEAST or not math.isfinite(best) or not len(scores):
            return math.inf
        seen, logs = np.array(self._scores), np.array(self._logs)
        near = logs <= logs.min() + _SPREAD
        if near.sum() < _LEAST:
            return math.inf
        seen, logs = seen[near], logs[near]
        spread = seen.std()
        slope = float(((seen - seen.mean()) * logs).mean() / spread**2) if spread > 0 else 0.0
        slope = min(slope, 0.0)  # a higher score is never worse news
        line = logs.mean() + slope * (seen - seen.mean())
        left = logs - line
        drawn = self._rng.choice(left, (_DRAWS, len(scores)))
        times = logs.mean() + slope * (scores - seen.mean()) + drawn
        # Residuals alone make no candidate faster than the fastest one that was measured.
        floor = logs.min() + slope * np.maximum(scores - seen.max(), 0.0)
        fastest = np.maximum(times, floor).min(axis=1)
        return float(np.maximum(0.0, 1.0 - np.exp(fastest - math.log(best))).mean())

    def note(self, expected: float, before: float, after: float) -> None:
        """Note a slice: the gain that was expected, and the best seconds before and after."""
        self.expected = expected
        gained = 1.0 - after / before if math.isfinite(before) and before > 0 else 1.0
        limit = self._settings.least_gain
        self._small = self._small + 1 if max(expected, gained) < limit else 0

    @property
    def stop(self) -> bool:
        """True if the last slices were expected to gain next to nothing, and did not."""
        return self._settings.least_gain > 0 and self._small >= self._settings.small_gain_slices
