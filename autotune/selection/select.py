"""Choice of a kernel's schedule without a search: from the logs, or the rules."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import field, replace
from enum import StrEnum

import numpy as np

from ...codegen.llvm.store import store
from ...codegen.target import Target
from ...ir.dataclass import dataclass
from ...ir.errors import ScheduleError, refused_if_it_fails
from ...ir.loop.prim import PrimFunc
from ...ir.loop.work import prim_flops
from ...ir.loop.workload import workload_text
from ...ir.schedule.apply import apply_schedule
from ...ir.schedule.cases import Cases
from ...ir.schedule.steps import Schedule
from ..log.lookup import LogView, LookupResult, own_records, related
from ..protocols import Population
from ..ranges import specialised, typical_point
from ..record import TargetKey, schedule_key, target_key
from ..space.rules.user import rules
from ..space.space import ScheduleSpace, default_variant
from ..workload import as_lists, workload_of
from .default_cases import default_cases, for_all_sizes
from .size_cases import cases_from_logs


@dataclass(frozen=True, slots=True)
class Selection:
    """When a schedule that was not measured here goes before the default one.

    The figures behind the numbers are in docs/measurements.md.
    """

    least_gain: float = 1.03  # Times as fast as the default as records promise: taken unmeasured.
    doubt: float = 0.25  # Weight of no gain beside records, of which one here has 1.
    max_distance: float = 6.0  # Doublings of loops between shapes that tell of each other.
    own_records: int = 8  # Records of the kernel itself that are tried, the fastest first.


SELECTION = Selection()


class Origin(StrEnum):
    """The origin of a kernel's schedule; ``lookup`` has the same names for records of logs."""

    EXACT = "exact"
    COMPATIBLE = "compatible"
    NEAR = "near"
    RULES = "rules"
    GIVEN = "given"

    @property
    def text(self) -> str:
        """The origin in words, as in "2 kernels tuned"."""
        return _ORIGIN_TEXT[self]


_ORIGIN_TEXT = {
    Origin.EXACT: "tuned",
    Origin.COMPATIBLE: "fitted from other threads or another machine",
    Origin.NEAR: "fitted from a near shape",
    Origin.RULES: "by the rules",
    Origin.GIVEN: "with a schedule of its own",
}


@dataclass(frozen=True, slots=True)
class Chosen:
    """A schedule and where it came from.

    ``seconds`` is what the log measured for it, 0 where
    nothing was, and ``measured`` that at each point of a range. ``refused`` says why schedules that
    would have gone before it may not run here, ``passed`` why those that the logs suggest were
    passed over. One that nobody measured here is expected to be ``gain`` times as fast as the
    default schedule, which is the last of the ``rivals`` that are to be raced with it; ``source``
    is where it was measured.
    """

    schedule: Schedule | Cases
    origin: Origin
    sketch: str
    seconds: float = 0.0
    refused: tuple[str, ...] = ()
    passed: tuple[str, ...] = field(default=(), compare=False)
    measured: tuple[tuple[tuple[int, ...], float], ...] = field(default=(), compare=False)
    gain: float = field(default=1.0, compare=False)
    source: str = field(default="record of a near shape", compare=False)
    rivals: tuple[Chosen, ...] = field(default=(), compare=False)


def choose_schedule(
    prim: PrimFunc,
    target: Target,
    threads: int,
    logs: Sequence[LogView],
    refused: Collection[Schedule | Cases] = (),
    measure: bool = False,
) -> Chosen:
    """Returns the first of ``candidates`` that was not ``refused``, else the default schedule.

    With ``measure`` one that nobody measured here has ``rivals``, whatever its records promise.
    What no log knows anything about is looked up in the disk cache.
    """
    key = target_key(target, threads)
    entry = ""
    is_logged = _is_logged(prim, logs, key)
    if not refused and not is_logged and not rules():
        caches = target.l1, target.l2, target.l3
        machine = sorted(target.features), target.isa, *caches, str(target.sums)
        entry = store().key("schedule", workload_text(prim), threads, target.cores, machine)
        chosen = _stored(prim, store().get(entry))
        if chosen is not None:
            return chosen
    several = candidates(prim, target, threads, logs, refused, measure)
    left = (c for c in several if c.origin == Origin.RULES or c.schedule not in refused)
    chosen = next(left)
    if measure and chosen.origin in (Origin.COMPATIBLE, Origin.NEAR) and not prim.sizes:
        chosen = replace(chosen, rivals=tuple(left))
    if entry:
        content = json.dumps([chosen.schedule.to_json(), chosen.origin, chosen.sketch])
        store().put(entry, f"schedule {prim.name}", content.encode())
    return chosen


def _is_logged(prim: PrimFunc, logs: Sequence[LogView], key: TargetKey) -> bool:
    """True if logs have records of a kernel, at any of its sizes, or of related ones."""
    if prim.sizes and any(log.points(workload_of(prim).hash) for log in logs):
        return True
    workload = workload_of(specialised(prim, typical_point(prim)))
    return bool(own_records(logs, workload.hash, key) or related(logs, workload, key))


def _stored(prim: PrimFunc, content: bytes | None) -> Chosen | None:
    """Returns the choice that an entry of the disk cache holds."""
    if content is None:
        return None
    data, origin, sketch = json.loads(content)
    if not isinstance(data, dict):
        return Chosen(Schedule.from_json(data), Origin(origin), sketch)
    try:
        return Chosen(
            Cases.from_json(data, {s.name: s for s in prim.sizes}), Origin(origin), sketch
        )
    except ScheduleError:  # of sizes that have other names here
        return None


def candidates(
    prim: PrimFunc,
    target: Target,
    threads: int,
    logs: Sequence[LogView],
    refused: Collection[Schedule | Cases] = (),
    measure: bool = False,
) -> Iterator[Chosen]:
    """Yields schedules for a kernel, the best first: of its own records, of similar machines or
    shapes, and of the rules.

    All of them apply to the kernel. A schedule that does not (of another version, or damaged), or
    that is not expected to beat the rules', is skipped, and ``Chosen.passed`` says why. The next
    records take the places of those of ``refused`` schedules.
    """
    if prim.sizes:
        yield from _for_range(prim, target, threads, logs)
        return
    workload, key = workload_of(prim), target_key(target, threads)
    passed: list[str] = []
    for record in own_records(logs, workload.hash, key)[: SELECTION.own_records]:
        schedule = _applied(prim, record.schedule)
        if schedule is None:
            passed.append("an own record does not apply")
        else:
            yield Chosen(schedule, Origin.EXACT, record.sketch, record.cost, passed=tuple(passed))
    work = prim_flops(prim)  # 0 without elements: then there is nothing to be chosen
    keys = {schedule_key(schedule.to_json()) for schedule in refused}
    transferable = related(logs, workload, key, refused=keys) if work else []
    if transferable:
        least = 0.0 if measure else SELECTION.least_gain
        yield from _from_records(prim, target, threads, transferable, least, passed)
    default, variant = default_variant(prim, target.with_threads(threads))
    sketch = "plain" if variant is None else variant.name
    yield Chosen(default, Origin.RULES, sketch, passed=tuple(passed))


def _for_range(
    prim: PrimFunc,
    target: Target,
    threads: int,
    logs: Sequence[LogView],
) -> Iterator[Chosen]:
    """Yields schedules for a kernel with symbolic sizes: what its own records say of each size,
    then those for its typical sizes, as far as they apply to all."""
    workload, key = workload_of(prim), target_key(target, threads)
    learnt = cases_from_logs(prim, workload.hash, logs, key)
    if learnt is not None:
        measured = tuple(learnt.seconds.items())
        seconds = measured[-1][1]
        yield Chosen(learnt.schedule, Origin.EXACT, learnt.sketch, seconds, measured=measured)
    typical = specialised(prim, typical_point(prim))
    for chosen in candidates(typical, target, threads, logs):
        if chosen.origin == Origin.RULES:
            break
        assert isinstance(chosen.schedule, Schedule)
        schedule = for_all_sizes(prim, target, threads, chosen.schedule)
        if schedule is not None:
            # What was measured is another kernel, that of these sizes alone.
            near = chosen.origin == Origin.EXACT
            origin = Origin.NEAR if near else chosen.origin
            yield replace(chosen, schedule=schedule, origin=origin, seconds=0.0)
    schedule, sketch = default_cases(prim, target.with_threads(threads))
    yield Chosen(schedule, Origin.RULES, sketch)


def _from_records(
    prim: PrimFunc,
    target: Target,
    threads: int,
    transferable: Sequence[LookupResult],
    least_gain: float,
    passed: list[str],
) -> Iterator[Chosen]:
    """Yields schedules of other machines, numbers of threads or near shapes that should beat the
    default schedule here, the most promising first: where they were measured they did.

    Each record speaks for its schedule, refitted, with a weight that halves with every doubling of
    loops between the shapes; records whose best is the default here speak for that one, and so does
    a doubt. The reasons against schedules are added to ``passed``.
    """
    space = ScheduleSpace(prim, target, threads)
    defaults = space.default()
    if not len(defaults):
        return
    weights = SELECTION.doubt
    rows: dict[bytes, tuple[Population, LookupResult]] = {}
    gains: dict[bytes, float] = {}  # logarithms, weighted
    for result in transferable:
        if result.distance > SELECTION.max_distance:
            passed.append(f"a {result.source} is too far away")
            continue
        row = refitted(space, result, defaults[0])
        if row is None:
            passed.append(f"a {result.source} cannot be fitted")
            continue
        weight = 2.0**-result.distance
        weights += weight
        fits = [row]
        if result.record.target.isa != target.isa:  # its way with the tile that rules give here
            fits += [*defaults[defaults[:, 0] == row[0]][:1]]
        for fit in fits:
            if not np.array_equal(fit, defaults[0]):
                key = fit.tobytes()
                rows.setdefault(key, (fit, result))
                gains[key] = gains.get(key, 0.0) + weight * math.log(result.gain)
    for key in sorted(rows, key=lambda key: -gains[key]):
        row, result = rows[key]
        expected = math.exp(gains[key] / weights)
        if expected < least_gain:
            passed.append(f"a {result.source} was {result.gain:.2f}x the default's speed there")
            continue
        schedule = _applied(prim, space.schedule(row).to_json())
        if schedule is None:
            passed.append(f"a {result.source} does not apply")
            continue
        seconds = result.record.cost if result.kind == "compatible" else 0.0
        yield Chosen(
            schedule,
            Origin(result.kind),
            space.sketch_name(row),
            seconds,
            passed=tuple(passed),
            gain=expected,
            source=result.source,
        )


def refitted(space: ScheduleSpace, result: LookupResult, default: Population) -> Population | None:
    """Returns the row of a record's schedule in a space, None if it cannot be fitted.

    The number of fused parallel loops is that of the default row if the record was measured with
    another number of threads.
    """
    there = result.record.target
    vectors = space.target.with_isa(there.isa).vector_bytes / space.target.vector_bytes
    try:
        with refused_if_it_fails():
            schedule = Schedule.from_json(as_lists(result.record.schedule))
            same = result.kind == "compatible" and vectors == 1
            row = space.row_of(schedule) if same else None
            row = space.refit(schedule, vectors) if row is None else row
    except ScheduleError:
        return None
    if row is None or there.threads == space.threads:
        return row
    shared = space.with_choice(row, "parallel", space.choices(default)["parallel"])
    return row if shared is None else shared


def _applied(prim: PrimFunc, steps: Sequence[object]) -> Schedule | None:
    """Returns the schedule of some steps, None if it is illegal for the kernel."""
    try:
        with refused_if_it_fails():
            schedule = Schedule.from_json(as_lists(steps))
            apply_schedule(prim, schedule)
    except ScheduleError:
        return None
    return schedule
