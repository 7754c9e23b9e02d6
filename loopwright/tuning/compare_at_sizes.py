"""Compares two builds of a program with symbolic sizes, size by size, and keeps the faster schedule
at each.

::

    first, last, arguments at n = 1, 16, ... -> seconds of each kernel there -> decisions of points
                                             -> whole calls there            -> decisions of points
"""

from __future__ import annotations

from ..autotune.comparison import compare
from ..autotune.log.decision import Decision, Option
from ..autotune.log.record import robust_seconds, target_key
from ..autotune.program.in_program import RolledBack
from ..autotune.ranges import fitted, specialised, value_at
from ..autotune.select import Chosen
from ..autotune.workload import workload_at, workload_of
from ..ir.dataclass import dataclass
from ..ir.loop.prim import PrimFunc
from ..ir.schedule.cases import Cases
from ..ir.schedule.steps import Schedule
from ..pipeline import Built
from .at_sizes import Arguments, kernel_points
from .in_place import KERNELS_SHARE
from .interleaved import kernel_rounds, whole_calls


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
