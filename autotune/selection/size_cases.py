"""Learns from measured times which schedule a kernel with symbolic sizes has at which size.

::

    seconds of each schedule at each point  ->  a schedule for each point  ->  n <= 1:   A
                                                (neighbours share one where     n <= 41:  B
                                                 the loss is small)             otherwise C

The schedules of all cases pack constant operands alike, since there is one packed copy.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

from ...ir.dataclass import dataclass
from ...ir.errors import ScheduleError, refused_if_it_fails
from ...ir.loop.prim import PrimFunc
from ...ir.schedule.apply import apply_schedule
from ...ir.schedule.cases import Cases
from ...ir.schedule.steps import Schedule
from ..comparison import COMPARISON
from ..log.lookup import LogView, pooled_of
from ..ranges import Point, decided_by, fitted, in_range, is_single, specialised, value_at
from ..record import MeasureRecord, TargetKey, hash_at
from ..workload import as_lists

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class CaseSettings:
    """Limits of the cases of a kernel."""

    least_gain: float = 0.03  # Share of the weighted time that another case has to gain.
    most: int = 4  # Cases of a kernel, each of which is compiled.
    records: int = 12  # Schedules of each point that may be chosen, the fastest.


CASES = CaseSettings()


@dataclass(frozen=True, slots=True)
class FromLogs:
    """The schedule that logs give a kernel with symbolic sizes, the names of its sketches, and the
    seconds at each measured point."""

    schedule: Schedule | Cases
    sketch: str
    seconds: Mapping[tuple[int, ...], float]


def cases_from_logs(
    prim: PrimFunc, workload_hash: str, logs: Sequence[LogView], key: TargetKey
) -> FromLogs | None:
    """Returns the schedules learnt from the records of a kernel's points on a target, None if there
    are none.

    Programs decide for each size by itself. Where what they kept packs constants in different ways,
    no schedule is left for all points; then those that lost somewhere can be chosen as well.
    """
    for losers in (False, True):
        seconds = _seconds(prim, workload_hash, logs, key, losers)
        layouts = {s: _layout(prim, s) for s in {s for times in seconds.values() for s in times}}
        usable = {
            value: {s: t for s, (t, _) in times.items() if layouts[s] is not None}
            for value, times in seconds.items()
        }
        values = [value for value, times in usable.items() if times]
        times = [usable[value] for value in values]
        learnt = learnt_cases(_fastest(times), (), layouts) if times else None
        if learnt is None:
            continue
        chosen = learnt[0]
        sketches = {s: name for at in seconds.values() for s, (_, name) in at.items()}
        points = [{s.name: v for s, v in zip(prim.sizes, at, strict=True)} for at in values]
        return FromLogs(
            _cases(prim, points, times, chosen),
            ", ".join(dict.fromkeys(sketches[s] for s in chosen)),
            {at: t[s] for at, t, s in zip(values, times, chosen, strict=True)},
        )
    return None


def _seconds(
    prim: PrimFunc, workload_hash: str, logs: Sequence[LogView], key: TargetKey, losers: bool
) -> dict[tuple[int, ...], dict[Schedule, tuple[float, str]]]:
    """Returns seconds and sketch of the schedules measured at each point, the least point first."""
    at_points: dict[tuple[int, ...], dict[Schedule, tuple[float, str]]] = {}
    for value in sorted(
        {v for log in logs for v in log.points(workload_hash) if in_range(prim, v)}
    ):
        seconds = at_points.setdefault(value, {})
        for cost, record in pooled_of(logs, hash_at(workload_hash, value), key, losers).values():
            schedule = _for_range(prim, record)
            if schedule is not None:
                best, sketch = seconds.get(schedule, (math.inf, record.sketch))
                seconds[schedule] = min(cost, best), sketch
    return at_points


def _for_range(prim: PrimFunc, record: MeasureRecord) -> Schedule | None:
    try:
        with refused_if_it_fails():
            return fitted(Schedule.from_json(as_lists(record.schedule)), prim)
    except ScheduleError:
        return None


def _layout(prim: PrimFunc, schedule: Schedule) -> Hashable:
    """Returns how a schedule packs constants, None if it does not apply to the kernel."""
    try:
        with refused_if_it_fails():
            operands = apply_schedule(prim, schedule).operands
    except ScheduleError:
        return None
    return tuple(str(o.pack) for o in operands if o.pack is not None)


def _fastest(times: Sequence[Mapping[Schedule, float]]) -> list[dict[Schedule, float]]:
    """Returns the times of the schedules that are among the fastest of a point."""
    kept: set[Schedule] = set()
    for seconds in times:
        kept.update(heapq.nsmallest(CASES.records, seconds, key=seconds.__getitem__))
    return [{s: t for s, t in seconds.items() if s in kept} for seconds in times]


def _cases(
    prim: PrimFunc,
    points: Sequence[Point],
    times: Sequence[Mapping[Schedule, float]],
    chosen: Sequence[Schedule],
) -> Schedule | Cases:
    """Returns the schedules of the points as comparisons of the sizes."""
    cases: list[tuple[int, Schedule]] = []
    for place, (lower, upper) in enumerate(pairwise(chosen)):
        if lower == upper:
            continue
        low, high = (value_at(prim, points[n]) for n in (place, place + 1))
        before, after = (
            (times[n].get(lower, math.inf), times[n].get(upper, math.inf))
            for n in (place, place + 1)
        )
        at_most = threshold(low, high, before, after)
        if is_single(prim, points[place]):
            # Code for this size alone: smaller ones, of no elements, are not among them.
            cases.append((at_most - 1, upper))
            lower = fitted(lower, specialised(prim, points[place]))
        cases.append((at_most, lower))
    return Cases(decided_by(prim), tuple(cases), chosen[-1]) if cases else chosen[-1]


def learnt_cases(
    times: Sequence[Mapping[Key, float]],
    weights: Sequence[float] = (),
    layouts: Mapping[Key, Hashable] | None = None,
) -> tuple[tuple[Key, ...], float] | None:
    """Returns a schedule for each point, and the weighted loss against the fastest at each.

    ``times`` are the seconds of schedules by point, those tried first in front; at each point only
    those that were measured there can be chosen. ``weights`` are the points' shares of the time
    (equal ones). ``layouts`` says how a schedule packs constants. None if there is no choice.

    >>> learnt_cases([{"a": 1.0, "b": 2.0}, {"a": 4.0, "b": 3.99}, {"a": 9.0, "b": 6.0}])[0]
    ('a', 'a', 'b')
    """
    shares = [w / sum(weights) for w in weights] if weights else [1 / len(times)] * len(times)
    best = [min(seconds.values(), default=math.inf) for seconds in times]
    groups: dict[Hashable, list[Key]] = {}
    for key in dict.fromkeys(key for seconds in times for key in seconds):
        groups.setdefault(layouts[key] if layouts else None, []).append(key)
    ways = [_best_way(keys, times, shares, best) for keys in groups.values()]
    return min((way for way in ways if way is not None), key=lambda way: way[1], default=None)


def _best_way(
    keys: Sequence[Key],
    times: Sequence[Mapping[Key, float]],
    shares: Sequence[float],
    best: Sequence[float],
) -> tuple[tuple[Key, ...], float] | None:
    """Returns the sequence of keys of least loss, where each change of key costs ``least_gain``:
    by dynamic programming over the points."""
    ways: dict[tuple[Key, int], tuple[float, tuple[Key, ...]]] = {}
    for place, seconds in enumerate(times):
        longer: dict[tuple[Key, int], tuple[float, tuple[Key, ...]]] = {}
        for key in keys:
            if key not in seconds:
                continue
            loss = shares[place] * (max(1.0, seconds[key] / (COMPARISON.tie * best[place])) - 1.0)
            before = list(ways.items()) if place else [((key, 1), (0.0, ()))]
            for (last, cases), (lost, way) in before:
                count = cases + (last != key)
                total = lost + loss + (CASES.least_gain if last != key else 0.0)
                shorter = longer.get((key, count))
                if count <= CASES.most and (shorter is None or total < shorter[0]):
                    longer[key, count] = total, (*way, key)
        ways = longer
    loss, way = min(ways.values(), key=lambda entry: entry[0], default=(math.inf, ()))
    return (way, loss) if way else None


def threshold(low: int, high: int, before: tuple[float, float], after: tuple[float, float]) -> int:
    """Returns the greatest size of the lower case between two measured sizes: where the times of
    its schedule and that of the upper one cross, if each is a line over the size.

    ``before`` and ``after`` are the seconds of the two schedules at ``low`` and at ``high``.

    >>> threshold(16, 256, (1.0, 2.0), (10.0, 5.0)), threshold(1, 16, (1.0, 2.0), (10.0, 5.0))
    (56, 1)
    """
    if low <= 1:  # a single row is a case of its own
        return low
    gain, loss = before[1] - before[0], after[0] - after[1]
    if 0 < gain < math.inf and 0 < loss < math.inf:
        at_most = low + gain / (gain + loss) * (high - low)
    else:  # not both were measured at both sizes
        at_most = math.sqrt(low * high)
    return min(high - 1, max(low, int(at_most + 1e-9)))
