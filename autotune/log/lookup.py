"""Looks up the record of the logs that serves a kernel best.

First those of the same workload on the same target (``own_records``), then the same workload on the
most similar target and the nearest shapes of the same kind (``related``). ``best_of`` is the one
place that says which of all measured schedules is the best.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from ...codegen.target import ISA_LEVELS
from ...ir.dataclass import dataclass
from ..comparison import COMPARISON
from ..record import MeasureRecord, TargetKey, Workload, robust_seconds
from .decision import Decision
from .log_index import LogIndex, log_index
from .tuning_log import TuningLog

LogView: TypeAlias = TuningLog | LogIndex
"""A log that returns the entries of a workload."""


@dataclass(frozen=True, slots=True)
class LookupResult:
    """A record that may serve a workload once it is re-fitted (``SearchSpace.refit``).

    Its ``kind`` is "compatible", of another target, or "near", of a shape at a ``distance``.
    ``gain`` is how many times faster the record was than the first schedule tried on its target,
    usually the default one.
    """

    kind: str
    record: MeasureRecord
    distance: float = 0.0
    gain: float = 1.0

    @property
    def source(self) -> str:
        """The origin of the record, in words."""
        return f"record of {'a near shape' if self.kind == 'near' else self.record.target.text}"


def pooled_of(
    logs: Sequence[LogView], workload_hash: str, key: TargetKey, losers: bool = False
) -> dict[str, tuple[float, MeasureRecord]]:
    """Returns ``pooled_costs`` of a workload on a target, with ``losers`` of all schedules that
    ran there, whatever programs decided."""
    records, decisions = _entries(logs, workload_hash)
    return _pooled(records, () if losers else decisions, key)


def best_of(
    logs: Sequence[LogView], workload_hash: str, key: TargetKey
) -> tuple[float, MeasureRecord] | None:
    """Returns seconds and record of the best schedule of a workload on a target, None if none ran.

    The seconds are those of ``pooled_costs``, which pool all records of the schedule.
    """
    return fastest(_pooled(*_entries(logs, workload_hash), key))


def own_records(logs: Sequence[LogView], workload_hash: str, key: TargetKey) -> list[MeasureRecord]:
    """Returns the records of a workload on a target, one of each schedule, the best first."""
    pooled = _pooled(*_entries(logs, workload_hash), key)
    best = fastest(pooled)
    ranked = sorted(pooled.values(), key=lambda entry: (entry is not best, entry[0]))
    return [record for _, record in ranked]


def related(
    logs: Sequence[LogView],
    wanted: Workload,
    key: TargetKey,
    most: int = 3,
    refused: Collection[str] = (),
) -> list[LookupResult]:
    """Returns records that may serve a workload of which ``key`` itself has none.

    The best record of the same workload on the most similar target, unless its ``schedule_key`` is
    ``refused``, and those of near shapes, the nearest first; up to ``most`` of both.
    """
    others = {w.hash: w for log in logs for w in log.alike(wanted) if w.hash != wanted.hash}
    nearest = sorted(others.values(), key=wanted.distance)[: 2 * most]
    results: list[LookupResult] = []
    for workload in (wanted, *nearest):
        records, decisions = _entries(logs, workload.hash)
        records = [r for r in records if workload is not wanted or r.target != key]
        best = _best_of_similar_target(records, decisions, key, refused)
        distance = wanted.distance(workload) if workload is not wanted else 0.0
        if best is not None and len(results) < most:
            kind = "near" if workload is not wanted else "compatible"
            results.append(LookupResult(kind, best, distance, _gain(best, records)))
    return results


def _entries(
    logs: Sequence[LogView], workload_hash: str
) -> tuple[list[MeasureRecord], list[Decision]]:
    """Returns all records of a workload and all decisions about it."""
    records = [r for log in logs for r in log.of(workload_hash)]
    return records, [d for log in logs for d in log.decided(workload_hash)]


def _gain(best: MeasureRecord, records: Sequence[MeasureRecord]) -> float:
    """Returns how many times faster the best is than the first schedule tried on its target."""
    mine = [r for r in records if r.workload.hash == best.workload.hash]
    pooled = _pooled(mine, (), best.target)
    first = next((r for r in mine if r.target == best.target and r.schedule_key in pooled), None)
    if first is None or best.schedule_key not in pooled:
        return 1.0
    return max(1.0, pooled[first.schedule_key][0] / pooled[best.schedule_key][0])


def _best_of_similar_target(
    records: Iterable[MeasureRecord],
    decisions: Sequence[Decision],
    key: TargetKey,
    refused: Collection[str] = (),
) -> MeasureRecord | None:
    """Returns the best record of the target most similar to ``key``; one of another ISA level is
    evidence, too, since its schedule is fitted to the vectors here."""
    groups: dict[TargetKey, list[MeasureRecord]] = {}
    for record in records:
        if record.target.isa == key.isa or {record.target.isa, key.isa} <= ISA_LEVELS.keys():
            groups.setdefault(record.target, []).append(record)
    for target in sorted(groups, key=lambda t: (_unlikeness(t, key), repr(t))):
        pooled = _pooled(groups[target], decisions, target)
        best = fastest({k: entry for k, entry in pooled.items() if k not in refused})
        if best is not None:
            return best[1]
    return None


def _pooled(
    records: Iterable[MeasureRecord], decisions: Iterable[Decision], key: TargetKey
) -> dict[str, tuple[float, MeasureRecord]]:
    """Returns ``pooled_costs`` of the records and decisions of one target."""
    mine = [r for r in records if r.target == key]
    return pooled_costs(mine, [d for d in decisions if d.target == key]) if mine else {}


def _unlikeness(a: TargetKey, b: TargetKey) -> tuple[float, ...]:
    """Returns a sort key, small for similar targets: vectors, threads, L1 and L2, and the rest."""

    def ratio(x: int, y: int) -> float:
        return abs(math.log2((x + 1) / (y + 1)))

    return (
        float(a.isa != b.isa),
        ratio(a.threads, b.threads),
        ratio(a.l1, b.l1) + ratio(a.l2, b.l2),
        float(a.cpu != b.cpu),
        ratio(a.l3, b.l3) + ratio(a.cores, b.cores),
    )


def pooled_costs(
    records: Iterable[MeasureRecord], decisions: Iterable[Decision] = ()
) -> dict[str, tuple[float, MeasureRecord]]:
    """Returns the seconds and the newest record of each schedule of one workload and target.

    Those in the state of the caches count that decided the newest race, or without one the newest
    record: seconds in another state are multiplied by what separates the two states in the records
    of both. Races count where a schedule was raced, otherwise all its runs. A schedule that was not
    raced while others were gets a penalty (``ComparisonSettings.doubt``), since a single fast run
    may be noise. A schedule that the check ever refused is left out, and so are those that lost in
    ``decisions``.
    """
    runs: dict[str, list[MeasureRecord]] = {}
    refused: set[str] = set()
    for record in records:
        if record.ok:
            runs.setdefault(record.schedule_key, []).append(record)
        elif record.error in ("wrong_result", "out_of_bounds"):
            refused.add(record.schedule_key)
    usable = [r for group in runs.values() for r in group]
    races = [r for r in usable if r.raced]
    cache = max(races or usable, key=lambda r: r.time).cache if usable else "warm"
    factors = {other: _factor(usable, cache, other) for other in {r.cache for r in usable}}
    pooled: dict[str, tuple[float, MeasureRecord]] = {}
    for key, group in runs.items():
        if key in refused:
            continue
        raced = tuple(s for r in group if r.raced for s in r.seconds_when(cache))
        if raced:
            pooled[key] = (robust_seconds(raced), group[-1])
            continue
        doubt = COMPARISON.doubt if races else 1.0
        here = tuple(s for r in group for s in r.seconds_when(cache))
        if here:
            pooled[key] = (robust_seconds(here) * doubt, group[-1])
            continue
        other = group[0].cache
        samples = tuple(s for r in group for s in r.seconds_when(other))
        pooled[key] = (robust_seconds(samples) * doubt * factors[other], group[-1])
    return _without_losers(pooled, decisions)


def _factor(records: Sequence[MeasureRecord], cache: str, other: str) -> float:
    """Returns how much longer calls take in the state ``cache`` than in another, by the records
    that have both; 1 if there is none."""
    ratios = [
        robust_seconds(r.seconds_when(cache)) / robust_seconds(r.seconds_when(other))
        for r in records
        if r.seconds_when(cache) and r.seconds_when(other)
    ]
    return sorted(ratios)[len(ratios) // 2] if ratios else 1.0


def _without_losers(
    pooled: dict[str, tuple[float, MeasureRecord]], decisions: Iterable[Decision]
) -> dict[str, tuple[float, MeasureRecord]]:
    """Returns the schedules without those that were slower inside a program than the one kept
    there.

    A schedule that is not faster alone than such a loser is dropped with it, whenever it was
    measured. Only one that is faster alone may prove itself in a program again.
    """
    for decision in decisions:
        winner = decision.winner
        if decision.about != "schedule":
            continue
        if winner.key not in pooled:
            pooled = {**pooled, winner.key: (winner.cost, _record_of(decision))}
        lost = [pooled[o.key][0] for o in decision.losers if o.key in pooled]
        if lost:
            limit = min(lost) / COMPARISON.tie
            pooled = {k: v for k, v in pooled.items() if k == winner.key or v[0] < limit}
    return pooled


def _record_of(decision: Decision) -> MeasureRecord:
    """Returns a record of the schedule that was kept in a program, for logs without another run of
    it."""
    kept = decision.winner
    return MeasureRecord(
        decision.workload,
        decision.target,
        kept.schedule or (),
        kept.name,
        kept.seconds,
        time=decision.time,
        version=decision.version,
    )


def fastest(
    pooled: dict[str, tuple[float, MeasureRecord]],
) -> tuple[float, MeasureRecord] | None:
    """Returns seconds and record of the best of pooled costs, None if there are none.

    Of schedules that tie (``ComparisonSettings.tie``) the one tried first is kept, usually the
    default schedule: a difference smaller than that between two measurements is not worth a change.
    """
    if not pooled:
        return None
    limit = COMPARISON.tie * min(cost for cost, _ in pooled.values())
    return next(entry for entry in pooled.values() if entry[0] <= limit)


def grouped(
    records: Iterable[MeasureRecord],
) -> dict[tuple[str, TargetKey], list[MeasureRecord]]:
    """Returns records by workload hash and target, in the order of the first of each."""
    groups: dict[tuple[str, TargetKey], list[MeasureRecord]] = {}
    for record in records:
        groups.setdefault((record.workload.hash, record.target), []).append(record)
    return groups


def best_records(log: TuningLog) -> list[MeasureRecord]:
    """Returns the best record of every workload on every target."""
    best = (best_of([log], *group) for group in grouped(log))
    return [entry[1] for entry in best if entry is not None]


@cache
def shipped_logs() -> tuple[LogIndex, ...]:
    """Returns the logs that come with the package, indexed once."""
    folder = files("loopwright.tuning_logs")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".jsonl"))
    return tuple(log_index(Path(str(folder.joinpath(name)))) for name in names)
