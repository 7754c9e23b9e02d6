"""Reuse: which record of the logs serves a kernel best, and how close it is.

In this order: the same workload on the same target; the same workload on a target whose code runs
here; the nearest shape of the same kind. The answer says which it was.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from ...codegen.target import ISA_LEVELS, Target
from ..comparison import COMPARISON
from .decision import Decision
from .log_index import LogIndex, log_index
from .record import MeasureRecord, TargetKey, Workload, robust_seconds, target_key
from .tuning_log import TuningLog

__all__ = [
    "LogView",
    "LookupResult",
    "best_records",
    "fastest",
    "lookup",
    "own_records",
    "pooled_costs",
    "related",
    "shipped_logs",
]


LogView: TypeAlias = TuningLog | LogIndex
"""What can be asked for the entries of a workload."""


@dataclass(frozen=True, slots=True)
class LookupResult:
    """``kind`` is "exact", "compatible", "near" or "none"; ``record`` is None for the last.

    ``distance`` is that of the shapes, 0 unless the kind is "near": then the schedule has to be
    re-fitted (``SearchSpace.refit``), and ``record.workload.prim`` is what it was made for.
    ``gain`` is by how much it was faster there than what was tried first, the rules' favourite.
    """

    kind: str
    record: MeasureRecord | None = None
    distance: float = 0.0
    gain: float = 1.0

    def __bool__(self) -> bool:
        return self.record is not None

    @property
    def source(self) -> str:
        """What the record is of, in words."""
        return "near shape" if self.kind == "near" else f"record of a {self.kind} machine"

    def __str__(self) -> str:
        if self.record is None:
            return "nothing in the log"
        where = "" if self.kind == "exact" else f", measured on {self.record.target.cpu}"
        shape = "" if self.kind != "near" else f" of {self.record.workload.text or 'another shape'}"
        return f"{self.kind} record{shape}, {self.record.cost * 1e3:.4g} ms{where}"


def lookup(
    logs: LogView | Sequence[LogView],
    workload: Workload | str,
    target: Target | TargetKey,
    threads: int | None = None,
) -> LookupResult:
    """The best record for a workload (its hash alone finds no near shapes).

    Earlier logs win ties only: what counts is how close the record is, then how fast.

    >>> str(lookup(TuningLog(), "3f9a", Target()))
    'nothing in the log'
    """
    logs = [logs] if isinstance(logs, TuningLog | LogIndex) else list(logs)
    key = target if isinstance(target, TargetKey) else target_key(target, threads)
    wanted = workload if isinstance(workload, Workload) else Workload(workload)
    same = [r for log in logs for r in log.of(wanted.hash)]
    decisions = [d for log in logs for d in log.decided(wanted.hash)]
    exact = _fastest([r for r in same if r.target == key], decisions)
    if exact is not None:
        return LookupResult("exact", exact)
    others = [r for r in same if r.target != key]
    compatible = _fastest_nearby(others, key, decisions)
    if compatible is not None:
        return LookupResult("compatible", compatible)
    return _nearest(logs, wanted, key)


def own_records(logs: Sequence[LogView], workload_hash: str, key: TargetKey) -> list[MeasureRecord]:
    """The records of a workload on a target, one of each schedule, the best first."""
    records = [r for log in logs for r in log.of(workload_hash) if r.target == key]
    decisions = [d for log in logs for d in log.decided(workload_hash) if d.target == key]
    pooled = pooled_costs(records, decisions) if records else {}
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
    """What may serve a workload of which ``key`` has no record: the best of like targets for the
    same workload, but those whose ``schedule_key`` is ``refused``, or else of up to ``most`` near
    shapes, the nearest first."""
    same = [r for log in logs for r in log.of(wanted.hash)]
    decisions = [d for log in logs for d in log.decided(wanted.hash)]
    found = _fastest_nearby([r for r in same if r.target != key], key, decisions, refused)
    if found is not None:
        return [LookupResult("compatible", found, 0.0, _gain(found, same))]
    others = {w.hash: w for log in logs for w in log.alike(wanted) if w.hash != wanted.hash}
    results: list[LookupResult] = []
    for workload in sorted(others.values(), key=wanted.distance)[: 2 * most]:
        records = [r for log in logs for r in log.of(workload.hash)]
        decisions = [d for log in logs for d in log.decided(workload.hash)]
        found = _fastest_nearby(records, key, decisions)
        if found is not None and len(results) < most:
            distance = wanted.distance(workload)
            results.append(LookupResult("near", found, distance, _gain(found, records)))
    return results


def _gain(best: MeasureRecord, records: Sequence[MeasureRecord]) -> float:
    """How many times faster the best is than the first schedule that was tried on its target."""
    mine = [r for r in records if r.target == best.target and r.workload.hash == best.workload.hash]
    pooled = pooled_costs(mine)
    first = next((r for r in mine if r.schedule_key in pooled), None)
    if first is None or best.schedule_key not in pooled:
        return 1.0
    return max(1.0, pooled[first.schedule_key][0] / pooled[best.schedule_key][0])


def _nearest(logs: Sequence[LogView], wanted: Workload, key: TargetKey) -> LookupResult:
    others = {w.hash: w for log in logs for w in log.alike(wanted) if w.hash != wanted.hash}
    for workload in sorted(others.values(), key=wanted.distance):
        records = [r for log in logs for r in log.of(workload.hash)]
        decisions = [d for log in logs for d in log.decided(workload.hash)]
        found = _fastest_nearby(records, key, decisions)
        if found is not None:
            return LookupResult("near", found, wanted.distance(workload))
    return LookupResult("none")


def _fastest_nearby(
    records: Iterable[MeasureRecord],
    key: TargetKey,
    decisions: Sequence[Decision],
    refused: Collection[str] = (),
) -> MeasureRecord | None:
    """The fastest record of the target most like ``key``, of those whose code runs there."""
    groups: dict[TargetKey, list[MeasureRecord]] = {}
    for record in records:
        if _runs_on(record.target.isa, key.isa):
            groups.setdefault(record.target, []).append(record)
    for target in sorted(groups, key=lambda t: (_unlikeness(t, key), repr(t))):
        found = _fastest(groups[target], decisions, refused)
        if found is not None:
            return found
    return None


def _runs_on(isa: str, host: str) -> bool:
    if isa == host:
        return True
    if isa not in ISA_LEVELS or host not in ISA_LEVELS:
        return False
    return ISA_LEVELS[isa].cpu_flags <= ISA_LEVELS[host].cpu_flags


def _unlikeness(a: TargetKey, b: TargetKey) -> tuple[float, ...]:
    """Sorted by what a schedule depends on most: vectors, threads, near caches, the rest."""

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
    """Per schedule of one workload and target: its seconds, and its newest record.

    Where a schedule was raced, its races count, otherwise all its runs; of races with warm and with
    cold caches, those that counted in the newest race. A schedule that was not raced while others
    were is doubted a little: single fast runs are often luck. One that the
    check ever refused is left out, and so is what ``decisions`` hold back.
    """
    runs: dict[str, list[MeasureRecord]] = {}
    refused: set[str] = set()
    for record in records:
        if record.ok:
            runs.setdefault(record.schedule_key, []).append(record)
        elif record.error in ("wrong_result", "out_of_bounds"):
            refused.add(record.schedule_key)
    races = [r for group in runs.values() for r in group if r.raced]
    any_raced = bool(races)
    cache = max(races, key=lambda r: r.time).cache if races else "warm"
    slower = _cold_factor(races) if cache == "cold" else 1.0
    pooled: dict[str, tuple[float, MeasureRecord]] = {}
    for key, group in runs.items():
        if key in refused:
            continue
        raced = [r for r in group if r.raced]
        samples = tuple(s for r in raced for s in r.seconds_when(cache))
        if samples:
            pooled[key] = (robust_seconds(samples), group[-1])
            continue
        cost = robust_seconds(
            tuple(s for r in group for s in r.seconds_when("warm")) or group[0].seconds
        )
        doubt = COMPARISON.doubt if any_raced else 1.0
        pooled[key] = (cost * doubt * slower, group[-1])
    return _without_losers(pooled, decisions)


def _cold_factor(races: Sequence[MeasureRecord]) -> float:
    """How much slower calls are whose operands are in memory, by the races that had both."""
    ratios = [
        robust_seconds(r.seconds_when("cold")) / robust_seconds(r.seconds_when("warm"))
        for r in races
        if r.seconds_when("cold") and r.seconds_when("warm")
    ]
    return sorted(ratios)[len(ratios) // 2] if ratios else 1.0


def _without_losers(
    pooled: dict[str, tuple[float, MeasureRecord]], decisions: Iterable[Decision]
) -> dict[str, tuple[float, MeasureRecord]]:
    """Without the schedules that were slower inside a program than the one that was kept.

    What is no faster alone than such a one goes with it, whenever it was measured: there is nothing
    that speaks for it. Only what is faster alone has to prove itself in a program again.
    """
    for decision in decisions:
        kept = decision.winner
        if decision.about != "schedule":
            continue
        if kept.key not in pooled:
            pooled = {**pooled, kept.key: (kept.cost, _record_of(decision))}
        lost = [pooled[o.key][0] for o in decision.losers if o.key in pooled]
        if lost:
            limit = min(lost) / COMPARISON.tie
            pooled = {k: v for k, v in pooled.items() if k == kept.key or v[0] < limit}
    return pooled


def _record_of(decision: Decision) -> MeasureRecord:
    """What was kept, as it ran in the program, where the logs have no other run of it."""
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
    """The best of pooled costs: seconds and record, None if there are none.

    Between schedules as good as equal the one tried first is kept, usually the rules' favourite:
    what differs by less than measurements do is not worth a change.
    """
    if not pooled:
        return None
    limit = COMPARISON.tie * min(cost for cost, _ in pooled.values())
    return next(entry for entry in pooled.values() if entry[0] <= limit)


def _fastest(
    records: list[MeasureRecord], decisions: Sequence[Decision], refused: Collection[str] = ()
) -> MeasureRecord | None:
    """The best of records of one workload and target; decisions on other targets do not count."""
    mine = [d for d in decisions if records and d.target == records[0].target]
    pooled = pooled_costs(records, mine)
    found = fastest({key: entry for key, entry in pooled.items() if key not in refused})
    return found[1] if found else None


def best_records(log: TuningLog) -> list[MeasureRecord]:
    """The fastest record of every workload on every target."""
    groups: dict[tuple[str, TargetKey], list[MeasureRecord]] = {}
    for record in log:
        groups.setdefault((record.workload.hash, record.target), []).append(record)
    best = (_fastest(group, log.decided(h)) for (h, _), group in groups.items())
    return [record for record in best if record is not None]


@cache
def shipped_logs() -> tuple[LogIndex, ...]:
    """The logs that come with the package, looked through once."""
    folder = files("loopwright.tuning_logs")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".jsonl"))
    return tuple(log_index(Path(str(folder.joinpath(name)))) for name in names)
