"""The leaders' race: interleaved rounds until the best schedule is known well enough.

After every few rounds the entrants are compared (``comparison.py``). Entrants that hardly ever win
in redrawn rounds leave the race. It ends when the confidence in the winner is enough, or the rounds
or the time are spent.

Operands lie where calls of the program find them: in the caches ("warm"), or where the program
leaves them ("place", see ``rotation.py``), with some warm rounds for the record.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from ...ir.dataclass import dataclass
from ..comparison import compare
from ..protocols import Candidate, Measurer
from ..record import MeasureRecord
from ..settings import DEFAULT_SETTINGS, TuneSettings


@dataclass(frozen=True, slots=True)
class Race:
    """The outcome of a race: a record of each entrant with all its samples, and the confidence."""

    records: tuple[MeasureRecord, ...]
    confidence: float
    rounds: int


def race(
    entrants: Sequence[Candidate],
    measurer: Measurer,
    cache: str = "warm",
    settings: TuneSettings = DEFAULT_SETTINGS,
) -> Race:
    """Races schedules until the fastest is known; ``cache`` ("warm", "place") is the state of the
    caches that counts.

    An entrant that fails is in the records with its error. The records are empty if nothing ran.
    """
    limit = time.monotonic() + settings.race_seconds
    left = list(entrants)
    records: dict[str, MeasureRecord] = {}
    confidence, rounds = 0.0, 0
    while left and rounds < settings.most_leader_rounds:
        for record in measurer.race(left, settings.leader_rounds, cache):
            before = records.get(record.schedule_key)
            records[record.schedule_key] = _joined(before, record)
        running = [c for c in left if c.key in records and records[c.key].ok]
        rounds += settings.leader_rounds
        if not running or min(len(records[c.key].seconds) for c in running) < rounds:
            break  # nothing ran, or an entrant failed: the samples so far decide
        samples = [records[c.key].seconds[:rounds] for c in running]
        verdict = compare(samples, settings.comparison)
        confidence = verdict.confidence
        if confidence >= settings.comparison.confidence or time.monotonic() > limit:
            break
        chance = (1.0 - settings.comparison.confidence) / len(running)
        left = [c for c, share in zip(running, verdict.wins) if share > chance]
    if cache != "warm":
        records = _warm_as_well(entrants, records, measurer, settings)
    raced = [records[c.key] for c in entrants if c.key in records]
    return Race(tuple(replace(r, raced=True, cache=cache) for r in raced), confidence, rounds)


def _joined(before: MeasureRecord | None, now: MeasureRecord) -> MeasureRecord:
    if before is None or not now.ok or not before.ok:
        return now
    return replace(now, seconds=(*before.seconds, *now.seconds))


def _warm_as_well(
    entrants: Sequence[Candidate],
    records: dict[str, MeasureRecord],
    measurer: Measurer,
    settings: TuneSettings,
) -> dict[str, MeasureRecord]:
    """Returns the records with the times of entrants with their operands in the caches."""
    running = [c for c in entrants if c.key in records and records[c.key].ok]
    rounds = settings.other_cache_rounds
    for record in measurer.race(running, rounds, "warm") if running and rounds else ():
        if record.ok:
            key = record.schedule_key
            records[key] = replace(records[key], other_cache_seconds=record.seconds)
    return records
