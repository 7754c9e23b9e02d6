"""The last comparison: the tuned program is never slower than before.

::

    the first build, the last build -> whole calls -> the faster one, for good

Kernels and choices in the graph were compared one by one, each in its place; this comparison is of
all of them together. If the first build is faster than the last one, its choices and schedules
become decisions in the log, so that every later build makes them again.

A program with symbolic sizes is compared size by size, and keeps the faster schedule at each::

    first, last, arguments at n = 1, 16, ... -> seconds of each kernel there -> decisions of points
                                             -> whole calls there            -> decisions of points
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..autotune.comparison import compare
from ..autotune.log.decision import Decision, Option
from ..autotune.program.in_program import RolledBack
from ..autotune.ranges import fitted, specialised, value_at
from ..autotune.record import Workload, robust_seconds, target_key
from ..autotune.selection.select import Chosen
from ..autotune.workload import workload_at, workload_of
from ..driver.built import Built
from ..extras import extra
from ..ir.dataclass import dataclass
from ..ir.graph.choices import Site
from ..ir.loop.prim import PrimFunc
from ..ir.schedule.cases import Cases
from ..ir.schedule.steps import Schedule
from .at_sizes import Arguments, kernel_points
from .in_place import KERNELS_SHARE, decision_between
from .interleaved import kernel_rounds, whole_calls
from .variants import Taken, current

Array = np.ndarray[Any, Any]

FRESH = ", in processes of their own"
"""Suffix of the program in a decision whose times were measured so."""


@dataclass(frozen=True, slots=True)
class GraphChange:
    """The choice points of a graph by key, and the options of the first and of the last build."""

    points: Mapping[str, Site]
    before: Taken
    after: Taken


@dataclass(frozen=True, slots=True)
class Settled:
    """The build to use from now on, decisions for the log, and seconds of whole calls: ``before``
    of the first build and ``after`` of this one, in processes of their own if they are ``fresh``.
    ``undone``: the first build was faster, and is used again."""

    built: Built
    decisions: tuple[Decision, ...]
    before: float
    after: float
    fresh: bool = False
    undone: bool = False


def settle(
    first: Built,
    last: Built,
    change: GraphChange,
    arrays: Sequence[Array],
    seconds: float,
    program: str = "",
    calls: Sequence[Sequence[float]] = (),
    fresh_seconds: float = 0.0,
) -> Settled:
    """Compares for about ``seconds``. ``calls`` are seconds of whole calls of the two builds, for
    when there is no time to run them again. With ``fresh_seconds``, the builds run for so long in
    processes of their own instead, unless none can be started."""
    fresh = _fresh_calls([first, last], arrays, fresh_seconds)
    rounds = fresh or calls or whole_calls([first, last], arrays, seconds)
    before, after = (robust_seconds(tuple(samples)) for samples in rounds)
    if not compare(rounds).slower:
        return Settled(last, (), before, after, bool(fresh))
    decisions = tuple(_back(first, last, change, rounds, program + FRESH * bool(fresh)))
    return Settled(first, decisions, before, before, bool(fresh), undone=True)


def _fresh_calls(
    builds: Sequence[Built], arrays: Sequence[Array], seconds: float
) -> tuple[tuple[float, ...], ...]:
    """Returns the samples of ``fresh_calls``; none without time, where the builds are the same, or
    where no process can be started."""
    if not seconds or builds[0].code_hash == builds[1].code_hash:
        return ()
    try:
        return extra("fresh")(builds, arrays, seconds)
    except (OSError, RuntimeError):  # of the system, such as a full disk
        return ()


def _back(
    first: Built,
    last: Built,
    change: GraphChange,
    rounds: Sequence[Sequence[float]],
    program: str,
) -> Iterator[Decision]:
    """Returns decisions for all choices in which the first build differs, with the seconds of whole
    calls."""
    assert first.parts is not None and last.parts is not None
    key = target_key(first.parts.target, first.parts.threads)
    seconds = [tuple(samples) for samples in rounds]
    for point in change.points.values():
        ways = current(point, change.before), current(point, change.after)
        if ways[0] != ways[1]:
            options = Option(ways[0], seconds[0]), Option(ways[1], seconds[1])
            where = Workload(point.key, point.text)
            yield Decision(point.about, where, key, options, 0, program)
    now = {workload_of(p).hash: last.chosen[n] for n, p in last.parts.prims.items()}
    for name, prim in first.parts.prims.items():
        old, new = first.chosen[name], now.get(workload_of(prim).hash)
        if new is not None and old.schedule != new.schedule:
            named = replace(last, chosen={name: new})
            yield decision_between([first, named], name, seconds[:2], 0, program)


@dataclass(frozen=True, slots=True)
class ComparedAt:
    """The comparison at one size: seconds of a whole call ``before`` and ``after``; ``won`` counts
    the kernels that are faster there, ``lost`` those that are not, and ``decisions`` say so."""

    before: float
    after: float
    won: int = 0
    lost: tuple[RolledBack, ...] = ()
    decisions: tuple[Decision, ...] = ()


def schedule_at(prim: PrimFunc, chosen: Chosen, point: dict[str, int]) -> Schedule:
    """Returns the schedule of a kernel at a point, as records of the point have it."""
    schedule = chosen.schedule
    if isinstance(schedule, Cases):
        schedule = schedule.pick(value_at(prim, point))
    return fitted(schedule, specialised(prim, point))


def compare_at(
    first: Built, last: Built, at: Arguments, seconds: float, program: str, whole: bool = False
) -> ComparedAt:
    """Compares for about ``seconds``, kernel by kernel, or by ``whole`` calls alone: then either
    all new schedules are kept at this size or none."""
    assert first.parts is not None and last.parts is not None
    prims = last.parts.prims
    points = kernel_points(last.parts.program, prims, at.values)
    ways = {
        name: [schedule_at(prims[name], b.chosen[name], dict(point)) for b in (first, last)]
        for name, point in points.items()
        if name in first.chosen
    }
    changed = {workload_of(prims[n]).hash: n for n, (old, new) in ways.items() if old != new}
    if not changed:
        return ComparedAt(0.0, 0.0)
    calls = whole_calls([first, last], at.arrays, seconds * (1.0 if whole else 1 - KERNELS_SHARE))
    before, after = map(robust_seconds, calls)
    if whole:
        verdicts = dict.fromkeys(changed, compare(calls))
        samples = dict.fromkeys(changed, calls)
        if not compare(calls).slower:
            return ComparedAt(before, after)
    else:
        old, new = kernel_rounds([first, last], at.arrays, KERNELS_SHARE * seconds)
        changed = {w: n for w, n in changed.items() if old.calls.get(w) and new.calls.get(w)}
        samples = {w: (old.seconds[w], new.seconds[w]) for w in changed}
        verdicts = {w: compare([*samples[w]]) for w in changed}
    key = target_key(last.parts.target, last.parts.threads)
    decisions: list[Decision] = []
    lost: list[RolledBack] = []
    for workload, name in changed.items():
        faster = not whole and verdicts[workload].faster
        options = tuple(
            Option(b.chosen[name].sketch, tuple(s), tuple(way.to_json()))
            for b, s, way in zip((first, last), samples[workload], ways[name], strict=True)
        )
        where = workload_at(prims[name], points[name])
        decisions.append(Decision("schedule", where, key, options, int(faster), program))
        if not faster:
            lost.append(RolledBack(f"{name} at {at.text}", where.hash, *verdicts[workload].seconds))
    return ComparedAt(before, after, len(changed) - len(lost), tuple(lost), tuple(decisions))
