"""The leaders' race: measured in turn, round by round, until the best is known well enough.

All entrants run once per round, so that drift hits all alike. After every few rounds the winner is
drawn again many times from resampled rounds (a bootstrap): how often it stays within the tolerance
of the fastest is the *confidence* with which it is the best. Entrants that hardly ever win leave
the race. It ends when the confidence is enough, or the rounds or the time are spent.

Every entrant runs with its operands in the caches (warm), and some rounds with its operands flushed
from them (cold). Which of them counts is the task's to say: what the program will see.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..log.record import MeasureRecord
from ..protocols import Candidate, FloatArray, Measurer
from ..settings import DEFAULT_SETTINGS, TuneSettings

__all__ = ["Race", "confidence_in", "race", "wins_of"]

_DRAWS = 500


@dataclass(frozen=True, slots=True)
class Race:
    """What came of a race: a record of each entrant with all its samples, and the confidence."""

    records: tuple[MeasureRecord, ...]
    confidence: float
    rounds: int


def race(
    entrants: Sequence[Candidate],
    measurer: Measurer,
    cache: str = "warm",
    settings: TuneSettings = DEFAULT_SETTINGS,
    seed: int = 0,
) -> Race:
    """Race schedules until the fastest is known; ``cache`` ("warm", "cold") is what counts.

    An entrant that fails is in the records with its error. No records come back if nothing ran.
    """
    rng = np.random.default_rng(seed)
    limit = time.monotonic() + settings.race_seconds
    left = list(entrants)
    found: dict[str, MeasureRecord] = {}
    confidence, rounds = 0.0, 0
    while left and rounds < settings.most_leader_rounds:
        for record in measurer.race(left, settings.leader_rounds, cache):
            before = found.get(record.schedule_key)
            found[record.schedule_key] = _joined(before, record)
        running = [c for c in left if c.key in found and found[c.key].ok]
        rounds += settings.leader_rounds
        if not running or min(len(found[c.key].seconds) for c in running) < rounds:
            break  # nothing ran, or somebody failed on the way: what is there has to do
        samples = np.array([found[c.key].seconds[:rounds] for c in running])
        wins = wins_of(samples, settings.leader_tolerance, rng)
        confidence = confidence_in(samples, settings.tie_factor, settings.leader_tolerance, rng)
        if confidence >= settings.confidence or time.monotonic() > limit:
            break
        chance = (1.0 - settings.confidence) / len(running)
        left = [c for c, share in zip(running, wins) if share > chance]
    found = _other_way(entrants, found, measurer, cache, settings)
    records = [found[c.key] for c in entrants if c.key in found]
    return Race(tuple(replace(r, raced=True, cache=cache) for r in records), confidence, rounds)


def wins_of(samples: FloatArray, tolerance: float, rng: np.random.Generator) -> FloatArray:
    """float[E]: how often each of E entrants is within ``tolerance`` of the fastest, when the
    rounds of ``samples`` float[E, R] are drawn again."""
    times = _drawn(samples, rng)
    return (times <= (1 + tolerance) * times.min(axis=0)).mean(axis=1)


def confidence_in(
    samples: FloatArray, tie_factor: float, tolerance: float, rng: np.random.Generator
) -> float:
    """How sure it is that the entrant who is taken is within ``tolerance`` of the best one.

    Taken is the first (they stand in the order in which they were first tried) that ties with the
    fastest, as ``lookup.fastest`` does. In (0, 1): a finite number of draws proves nothing.
    """
    if len(samples) == 1:
        return 1.0
    times = _robust(samples)
    taken = int(np.flatnonzero(times <= tie_factor * times.min())[0])
    drawn = _drawn(samples, rng)
    held = drawn[taken] <= (1 + tolerance) * drawn.min(axis=0)
    return float((held.sum() + 0.5) / (len(held) + 1))


def _drawn(samples: FloatArray, rng: np.random.Generator) -> FloatArray:
    """float[E, draws] of samples float[E, R]: rounds are drawn whole, as drift hits whole ones."""
    rounds = rng.integers(0, samples.shape[1], (_DRAWS, samples.shape[1]))
    return _robust(samples[:, rounds])


def _robust(samples: FloatArray) -> FloatArray:
    """``record.robust_seconds`` along the last axis: the median of the faster half."""
    half = np.sort(samples, axis=-1)[..., : (samples.shape[-1] + 1) // 2]
    return np.median(half, axis=-1)


def _joined(before: MeasureRecord | None, now: MeasureRecord) -> MeasureRecord:
    if before is None or not now.ok or not before.ok:
        return now
    return replace(now, seconds=(*before.seconds, *now.seconds))


def _other_way(
    entrants: Sequence[Candidate],
    found: dict[str, MeasureRecord],
    measurer: Measurer,
    cache: str,
    settings: TuneSettings,
) -> dict[str, MeasureRecord]:
    """The same, with what entrants take in the cache mode that does not count."""
    running = [c for c in entrants if c.key in found and found[c.key].ok]
    if not running or not settings.other_cache_rounds:
        return found
    other = "cold" if cache == "warm" else "warm"
    for record in measurer.race(running, settings.other_cache_rounds, other):
        if record.ok:
            key = record.schedule_key
            found[key] = replace(found[key], other_cache_seconds=record.seconds)
    return found
