"""Choice of a kernel's schedule without measuring: from the logs, the model, or the rules."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import field, replace
from enum import StrEnum

import numpy as np

from ..codegen.llvm.store import store
from ..codegen.target import Target
from ..ir.dataclass import dataclass
from ..ir.errors import ScheduleError, refused_if_it_fails
from ..ir.loop.prim import PrimFunc
from ..ir.loop.workload import workload_text
from ..ir.schedule.apply import apply_schedule
from ..ir.schedule.cases import Cases
from ..ir.schedule.steps import Schedule
from .log.lookup import LogView, LookupResult, own_records, related
from .log.record import TargetKey, schedule_key, target_key
from .model.shipped import shipped_model
from .model.tree_model import TreeModel
from .proposal import proposal
from .protocols import FloatArray, Population
from .ranges import specialised, typical_point
from .size_cases import cases_from_logs
from .space.analysis import prim_bytes, prim_flops
from .space.default_cases import default_cases, for_all_sizes
from .space.feature_list import FEATURE_NAMES
from .space.rules.user import rules
from .space.space import ScheduleSpace, default_variant
from .workload import as_lists, workload_of


@dataclass(frozen=True, slots=True)
class Selection:
    """When a schedule that was not measured here goes before the default one.

    The figures behind the numbers are in docs/measurements.md. Scores are shares of the candidates.
    """

    lead: float = 0.03  # Score by which the model's best candidate has to lead, doubts deducted.
    doubt: float = 2.0  # Deduction, in standard deviations between the model's members.
    agreed: float = 0.002  # The same for a schedule that was clearly faster elsewhere.
    clear_gain: float = 1.15  # Times as fast as the default schedule elsewhere: clearly faster.
    max_distance: float = 2.0  # Doublings of loops between shapes that tell of each other.
    own_records: int = 8  # Records of the kernel itself that are tried, the fastest first.
    least_work: int = 1 << 14  # Operations and bytes that are worth the model's milliseconds.


SELECTION = Selection()
_PARALLEL, _INSIDE, _COPIED, _THREADS = map(
    FEATURE_NAMES.index, ("parallel", "packed_inside", "pack_bytes", "threads")
)


class Origin(StrEnum):
    """The origin of a kernel's schedule; ``lookup`` has the same names for records of logs."""

    EXACT = "exact"
    COMPATIBLE = "compatible"
    NEAR = "near"
    MODEL = "model"
    RULES = "rules"
    GIVEN = "given"

    @property
    def text(self) -> str:
        """The origin in words, as in "2 kernels tuned"."""
        return _ORIGIN_TEXT[self]


_ORIGIN_TEXT = {
    Origin.EXACT: "tuned",
    Origin.COMPATIBLE: "tuned on a like machine",
    Origin.NEAR: "fitted from a near shape",
    Origin.MODEL: "picked by the cost model",
    Origin.RULES: "by the rules",
    Origin.GIVEN: "with a schedule of its own",
}


@dataclass(frozen=True, slots=True)
class Chosen:
    """A schedule and where it came from.

    ``seconds`` is what the log measured for it, 0 where
    nothing was, and ``measured`` that at each point of a range. ``refused`` says why schedules that
    would have gone before it may not run here, ``passed`` why those that the logs suggest were
    passed over.
    """

    schedule: Schedule | Cases
    origin: Origin
    sketch: str
    seconds: float = 0.0
    refused: tuple[str, ...] = ()
    passed: tuple[str, ...] = field(default=(), compare=False)
    measured: tuple[tuple[tuple[int, ...], float], ...] = field(default=(), compare=False)


def choose_schedule(
    prim: PrimFunc,
    target: Target,
    threads: int,
    logs: Sequence[LogView],
    model: TreeModel | None = None,
    refused: Collection[Schedule | Cases] = (),
) -> Chosen:
    """Returns the first of ``candidates`` that was not ``refused``, else the default schedule.

    What no log knows anything about is looked up in the disk cache.
    """
    key = target_key(target, threads)
    entry = ""
    is_logged = _is_logged(prim, logs, key)
    if model is None and not refused and not is_logged and not rules():
        machine = sorted(target.features), target.isa, target.l1, target.l2, target.l3
        entry = store().key("schedule", workload_text(prim), threads, target.cores, machine)
        chosen = _stored(prim, store().get(entry))
        if chosen is not None:
            return chosen
    several = candidates(prim, target, threads, logs, model, refused)
    chosen = next(c for c in several if c.origin == Origin.RULES or c.schedule not in refused)
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
    model: TreeModel | None = None,
    refused: Collection[Schedule | Cases] = (),
) -> Iterator[Chosen]:
    """Yields schedules for a kernel, the best first: of its own records, of similar machines or
    shapes, of the cost model (the one that ships unless given), and of the rules.

    All of them apply to the kernel. A schedule that does not (of another version, or damaged), or
    that is not expected to beat the rules', is skipped, and ``Chosen.passed`` says why. The next
    records take the places of those of ``refused`` schedules.
    """
    if prim.sizes:
        yield from _for_range(prim, target, threads, logs, model)
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
    if not work:
        model = None
    elif model is None and work + prim_bytes(prim) >= SELECTION.least_work:
        model = shipped_model().model
    if transferable:
        yield from _from_records(prim, target, threads, transferable, model, passed)
    default, variant = default_variant(prim, target.with_threads(threads))
    if variant is None:
        yield Chosen(default, Origin.RULES, "plain", passed=tuple(passed))
        return
    if model is not None and target.isa in model.levels:
        space = ScheduleSpace(prim, target, threads, (variant,))
        chosen = _by_model(space, default, model)
        if chosen is not None:
            yield replace(chosen, passed=tuple(passed))
    yield Chosen(default, Origin.RULES, variant.name, passed=tuple(passed))


def _for_range(
    prim: PrimFunc,
    target: Target,
    threads: int,
    logs: Sequence[LogView],
    model: TreeModel | None,
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
    for chosen in candidates(typical, target, threads, logs, model):
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
    model: TreeModel | None,
    passed: list[str],
) -> Iterator[Chosen]:
    """Yields schedules of other machines or near shapes that should beat the default schedule here:
    they did there and the model agrees, or the model scores them clearly higher. The model's best
    comes first; the reasons against the others are added to ``passed``."""
    space = ScheduleSpace(prim, target, threads)
    defaults = space.default()
    if not len(defaults):
        return
    rows: list[Population] = []
    sources: list[LookupResult] = []
    for result in transferable:
        row = refitted(space, result, defaults[0])
        if row is None:
            passed.append(f"a {result.source} cannot be fitted")
        elif not np.array_equal(row, defaults[0]):
            rows.append(row)
            sources.append(result)
    if not rows:
        return
    ahead_of_default = _ahead(space, np.stack([defaults[0], *rows]), model)
    ranked: list[tuple[float, int]] = []
    for place, result in enumerate(sources):
        ahead = float(ahead_of_default[place + 1])
        why = _why_not(result, ahead)
        if why is None:
            ranked.append((-ahead, place))
        else:
            passed.append(f"a {result.source} {why}")
    for _, place in sorted(ranked):
        row, result = rows[place], sources[place]
        schedule = _applied(prim, space.schedule(row).to_json())
        if schedule is None or result.record is None:
            passed.append(f"a {result.source} does not apply")
            continue
        seconds = result.record.cost if result.kind == "compatible" else 0.0
        yield Chosen(
            schedule, Origin(result.kind), space.sketch_name(row), seconds, passed=tuple(passed)
        )


def _why_not(result: LookupResult, ahead: float) -> str | None:
    """Returns why the default schedule is preferred to a fitted one, None if it is not.

    ``ahead`` is the difference of their scores, doubts deducted.
    """
    if result.distance > SELECTION.max_distance:
        return "is too far away"
    if ahead >= SELECTION.lead or (
        result.gain >= SELECTION.clear_gain and ahead > SELECTION.agreed
    ):
        return None
    if result.gain < SELECTION.clear_gain:
        return "was not clearly faster there than the default schedule"
    return "is not expected to be faster here"


def refitted(space: ScheduleSpace, result: LookupResult, default: Population) -> Population | None:
    """Returns the row of a record's schedule in a space.

    The number of fused parallel loops is that of the default row if the record was measured with
    another number of threads.
    """
    assert result.record is not None
    try:
        with refused_if_it_fails():
            schedule = Schedule.from_json(as_lists(result.record.schedule))
            row = space.row_of(schedule) if result.kind == "compatible" else None
            row = space.refit(schedule) if row is None else row
    except ScheduleError:
        return None
    if row is None or result.record.target.threads == space.threads:
        return row
    shared = space.with_choice(row, "parallel", space.choices(default)["parallel"])
    return row if shared is None else shared


def _by_model(space: ScheduleSpace, default: Schedule, model: TreeModel) -> Chosen | None:
    """Returns the candidate of the ``proposal`` that the model rates furthest above the default
    schedule, if it is sure of it."""
    defaults = space.default()
    if not len(defaults) or space.schedule(defaults[0]) != default:
        return None
    rows = proposal(space, np.random.default_rng(0))  # the same choice in every process
    ahead = _ahead(space, rows, model)
    if ahead.max() < SELECTION.lead:
        return None
    row = rows[int(np.argmax(ahead))]
    schedule = _applied(space.prim, space.schedule(row).to_json())
    return None if schedule is None else Chosen(schedule, Origin.MODEL, space.sketch_name(row))


def _ahead(space: ScheduleSpace, rows: Population, model: TreeModel | None) -> FloatArray:
    """Returns by how much the model's score of each row is above that of the first; zeros without a
    model. Where its members disagree on the difference, they were trained on nothing alike: that is
    deducted.

    Rows that were drawn twice, which are most of those of a small space, are computed once.
    """
    if model is None:
        return np.zeros(len(rows), np.float32)
    keys = [row.tobytes() for row in rows]
    places = {key: place for place, key in enumerate(keys)}  # of the last row of each kind
    numbers = {key: number for number, key in enumerate(places)}
    features = space.features(rows[list(places.values())])
    first = numbers[keys[0]]
    opinions = model.opinions(features)
    ahead = opinions - opinions[:, first, None]
    sure = ahead.mean(axis=0) - SELECTION.doubt * ahead.std(axis=0)
    # To wake threads for a small kernel takes several times as long as the kernel.
    shared = features[:, _PARALLEL] > 0
    sure[shared != shared[first]] = -np.inf
    # Nor does the model know what a copy costs that another core has made.
    inside, copies = features[:, _INSIDE] > 0, features[:, _COPIED] > 0
    sure[(features[:, _THREADS] > 0) & inside[first] & copies & ~inside] = -np.inf
    return sure[[numbers[key] for key in keys]]


def _applied(prim: PrimFunc, steps: Sequence[object]) -> Schedule | None:
    """Returns the schedule of some steps, None if it is illegal for the kernel."""
    try:
        with refused_if_it_fails():
            schedule = Schedule.from_json(as_lists(steps))
            apply_schedule(prim, schedule)
    except ScheduleError:
        return None
    return schedule
