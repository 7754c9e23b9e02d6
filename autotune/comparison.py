"""Is B faster than A? The one answer, with one statistic and one set of numbers.

Candidates are run in *rounds*: each once per round, soon after one another, so that whatever slows
the machine down for a while meets all of them (a paired design). A candidate's time is the median
of the faster half of its samples, since noise only ever adds time (Chen and Revels, "Robust
benchmarking in noisy environments", 2016); it is also the time that a log's records stand for. How
sure a difference is, is found by drawing whole rounds again, with replacement: the bootstrap (Efron
and Tibshirani, "An Introduction to the Bootstrap", 1993; for ratios of run times: Kalibera and
Jones, "Rigorous benchmarking in reasonable time", 2013).

docs/measurements.md compares it with a sign test and a majority of rounds.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..ir.dataclass import dataclass

_Floats: TypeAlias = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class ComparisonSettings:
    """Thresholds for equal, better, and out of contention. Factors are ratios of times."""

    tie: float = 1.015
    """Times this close are equal, and the candidate that was there first is kept: two races of the
    same code differ by as much."""
    clear: float = 1.03
    """A gain that is worth a change of another kind, such as a library instead of compiled code. A
    race ends when no other candidate is faster than the winner by more than this."""
    doubt: float = 1.1
    """A schedule that was measured alone must be this much faster than one that won a race."""
    contender: float = 1.15
    """A candidate slower than the best by more than this is measured no further: even lucky samples
    could not make it win."""
    slowed: float = 1.25
    """The machine is slower than it was if a known kernel takes this many times as long as usual:
    single samples differ by less."""
    hopeless: float = 4.0
    """A first call, with cold caches, that takes this many times as long is the last one."""
    confidence: float = 0.95
    """A difference is there if this share of the redrawn rounds shows it."""
    draws: int = 200
    """Bootstrap draws of the rounds."""
    resolution: float = 2e-8
    """Seconds that two readings of the clock may differ by."""


COMPARISON = ComparisonSettings()


@dataclass(frozen=True, eq=False)
class Verdict:
    """The result of a comparison of candidates, which are ordered by preference between equals.

    ``seconds`` float[E] are the candidates' times, and ``drawn`` float[E, draws] those in redrawn
    rounds.
    """

    seconds: _Floats
    drawn: _Floats
    settings: ComparisonSettings

    @functools.cached_property
    def best(self) -> int:
        """The first candidate that ties with the fastest."""
        return int(np.flatnonzero(self.seconds <= self.settings.tie * self.seconds.min())[0])

    @property
    def confidence(self) -> float:
        """The probability that no candidate is faster than ``best`` by more than ``clear``; below
        1, since a finite number of draws proves nothing, unless there is one candidate only."""
        if len(self.seconds) == 1:
            return 1.0
        held = self.drawn[self.best] <= self.settings.clear * self.drawn.min(axis=0)
        return float((held.sum() + 0.5) / (len(held) + 1))

    @property
    def wins(self) -> _Floats:
        """float[E]: the share of draws in which each candidate is within ``clear`` of the fastest
        one."""
        return (self.drawn <= self.settings.clear * self.drawn.min(axis=0)).mean(axis=1)

    # -- of two candidates: is the second one faster than the first?

    @property
    def speedup(self) -> float:
        """Speedup of the second candidate over the first."""
        return float(self.seconds[0] / self.seconds[1])

    @property
    def faster(self) -> bool:
        """True if the second candidate is faster than the first with the required confidence."""
        return self._beats(1, 0)

    @property
    def slower(self) -> bool:
        """True if the second candidate is slower than the first with the required confidence."""
        return self._beats(0, 1)

    def _beats(self, winner: int, loser: int) -> bool:
        fast, slow = self.seconds[winner], self.seconds[loser]
        if slow <= self.settings.tie * fast or slow - fast <= self.settings.resolution:
            return False
        share = (self.drawn[winner] < self.drawn[loser]).mean()
        return bool(share >= self.settings.confidence)


def compare(
    samples: Sequence[Sequence[float]], settings: ComparisonSettings = COMPARISON
) -> Verdict:
    """The verdict on candidates: of each its seconds in every round, as far as all have them.

    The same samples always give the same verdict.

    >>> compare([[1.0, 1.1, 1.0, 1.3], [0.8, 0.9, 0.8, 0.8]]).faster
    True
    >>> verdict = compare([[1.0, 1.0, 1.1], [1.0, 1.01, 1.0]])
    >>> verdict.faster, verdict.slower, verdict.best
    (False, False, 0)
    """
    count = min(len(times) for times in samples)
    rounds = np.array([list(times)[:count] for times in samples], np.float64)
    redrawn = np.random.default_rng(0).integers(0, count, (settings.draws, count))
    return Verdict(_typical(rounds), _typical(rounds[:, redrawn]), settings)


def _typical(samples: _Floats) -> _Floats:
    """The median of the faster half along the last axis; see ``record.robust_seconds``."""
    half = np.sort(samples, axis=-1)[..., : (samples.shape[-1] + 1) // 2]
    return np.median(half, axis=-1)
