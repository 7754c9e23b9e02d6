"""Which schedule a kernel gets without measuring: from the logs, the model, or the rules."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..codegen.target import Target
from ..ir.errors import ScheduleError
from ..ir.loop.prim import PrimFunc
from ..ir.schedule.apply import apply_schedule
from ..ir.schedule.steps import Schedule
from .log.lookup import LogView, LookupResult, own_records, related
from .log.record import schedule_key, target_key
from .model.shipped import shipped_model
from .model.tree_model import TreeModel
from .protocols import FloatArray, Population
from .space.analysis import prim_flops
from .space.space import ScheduleSpace, default_variant
from .workload import as_lists, workload_of

__all__ = [
    "Chosen",
    "candidates",
    "choose_schedule",
]

MARGIN = 0.3
"""The model's score, a share of the candidates, by which a pick has to be ahead of the favourite.
Among measured schedules of 168 kernels, each judged by a model that had not seen it, 0.05 was right
seven times out of eight. Asked about all schedules of other kernels it is wrong more often: on the
93 of ``bench`` picks with that margin were 6 % slower than the favourites, up to 2.1 times where
arrays are larger than any it learnt from. With six times that, and a model of 779 kernels, two of
the 139 kernels of ``bench`` and of twenty drawn workloads get another schedule than the favourite:
1.10 and 1.63 times as fast."""
AGREED = 0.002
"""By how much the score of what was faster elsewhere has to be ahead."""
FAR = 2.0
"""The distance of a shape beyond which it shows nothing, in doublings of loops: a transpose 2.2
away was the faster one by a third there, and took 2.3 times as long here. Of 78 shapes up to that
far from one of 17 tuned kernels, 21 take its schedule by these rules, and run 1.12 times as fast as
by default (the slowest 0.96); of 19 where it was 1.15 times as fast, and the model disagrees, eight
would be slower, one by 1.3 times."""
MOST_OWN = 8
"""Records of the kernel itself that are tried, the fastest first, until one can be used."""
CLEAR_GAIN = 1.15
"""How many times faster than the favourite something has been elsewhere, to be tried here."""
NEAR, CHANCE = 48, 64
"""Schedules near to the favourites, twice, and of chance that the model is asked about."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A schedule and where it came from.

    ``origin`` is "exact", "compatible" or "near" (from a log, as ``lookup`` names it), "model" (the
    cost model's pick), "rules", or "library": then there is no schedule, and ``sketch`` names the
    library that computes the kernel's product. ``seconds`` is what the log measured for it, 0 where
    nothing was. ``refused`` says why schedules that would have gone before it may not run here,
    ``passed`` why those that the logs suggest were passed over.
    """

    schedule: Schedule
    origin: str
    sketch: str
    seconds: float = 0.0
    refused: tuple[str, ...] = ()
    passed: tuple[str, ...] = field(default=(), compare=False)


def choose_schedule(
    prim: PrimFunc,
    target: Target,
    threads: int,
    logs: Sequence[LogView],
    model: TreeModel | None = None,
    refused: Collection[Schedule] = (),
) -> Chosen:
    """The best schedule known for a kernel: the first of ``candidates`` that was not ``refused``
    before; the rules' is given whatever was."""
    found = candidates(prim, target, threads, logs, model, refused)
    return next(c for c in found if c.origin == "rules" or c.schedule not in refused)


def candidates(
    prim: PrimFunc,
    target: Target,
    threads: int,
    logs: Sequence[LogView],
    model: TreeModel | None = None,
    refused: Collection[Schedule] = (),
) -> Iterator[Chosen]:
    """Schedules for a kernel, the best first: of its own records, of like machines or near shapes,
    of the cost model (the one that ships unless given), and of the rules, at the end.

    All of them apply to the kernel. What does not (another version's, a damaged one), or is not
    known to be better than the rules', is passed over, and ``Chosen.passed`` says why. Records of
    ``refused`` schedules give their places to the next.
    """
    workload, key = workload_of(prim), target_key(target, threads)
    passed: list[str] = []
    for record in own_records(logs, workload.hash, key)[:MOST_OWN]:
        schedule = _applied(prim, record.schedule)
        if schedule is None:
            passed.append("an own record does not apply")
        else:
            yield Chosen(schedule, "exact", record.sketch, record.cost, passed=tuple(passed))
    empty = not prim_flops(prim)  # no elements: there is nothing to be chosen
    keys = {schedule_key(schedule.to_json()) for schedule in refused}
    known = [] if empty else related(logs, workload, key, refused=keys)
    model = None if empty else model or shipped_model().model
    if known:
        yield from _from_records(prim, target, threads, known, model, passed)
    favourite, variant = default_variant(prim, target)
    if variant is None:
        yield Chosen(favourite, "rules", "plain", passed=tuple(passed))
        return
    if model is not None and target.isa in model.levels:
        space = ScheduleSpace(prim, target, threads, (variant,))
        chosen = _by_model(space, favourite, model)
        if chosen is not None:
            yield replace(chosen, passed=tuple(passed))
    yield Chosen(favourite, "rules", variant.name, passed=tuple(passed))


def _from_records(
    prim: PrimFunc,
    target: Target,
    threads: int,
    known: Sequence[LookupResult],
    model: TreeModel | None,
    passed: list[str],
) -> Iterator[Chosen]:
    """What other machines or near shapes suggest, if it is better than the default schedule:
    because it was so there, and the model agrees, or because the model is sure of it here. The best
    by the model comes first; why others do not is added to ``passed``."""
    space = ScheduleSpace(prim, target, threads)
    defaults = space.default()
    if not len(defaults):
        return
    rows: list[Population] = []
    sources: list[LookupResult] = []
    for result in known:
        row = _refitted(space, result, defaults[0])
        if row is None:
            passed.append(f"a {result.source} cannot be fitted")
        elif not np.array_equal(row, defaults[0]):
            rows.append(row)
            sources.append(result)
    if not rows:
        return
    scores = _scores(space, np.stack([defaults[0], *rows]), model)
    ranked: list[tuple[float, int]] = []
    for place, result in enumerate(sources):
        ahead = float(scores[place + 1] - scores[0])
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
        yield Chosen(schedule, result.kind, space.sketch_name(row), seconds, passed=tuple(passed))


def _why_not(result: LookupResult, ahead: float) -> str | None:
    """Why a fitted schedule is not to be preferred to the default one, None if it is; ``ahead`` is
    by how much the model's score of it is greater."""
    if result.distance > FAR:
        return "is too far away"
    if ahead >= MARGIN or (result.gain >= CLEAR_GAIN and ahead > AGREED):
        return None
    if result.gain < CLEAR_GAIN:
        return "was not clearly faster there than the default schedule"
    return "is not expected to be faster here"


def _refitted(space: ScheduleSpace, result: LookupResult, default: Population) -> Population | None:
    """The row of a record's schedule in a space. What was measured on another number of threads
    says nothing of how many loops they share: that is as in the default row."""
    assert result.record is not None
    try:
        schedule = Schedule.from_json(as_lists(result.record.schedule))
        row = space.row_of(schedule) if result.kind == "compatible" else None
        row = space.refit(schedule) if row is None else row
    except ScheduleError:
        return None
    if row is None or result.record.target.threads == space.threads:
        return row
    shared = space.with_choice(row, "parallel", space.choices(default)["parallel"])
    return row if shared is None else shared


def _by_model(space: ScheduleSpace, favourite: Schedule, model: TreeModel) -> Chosen | None:
    """What the model likes clearly better than the favourite, of schedules near to the favourite
    and some of chance; None where it likes none."""
    favourites = space.default()
    if not len(favourites) or space.schedule(favourites[0]) != favourite:
        return None
    rng = np.random.default_rng(0)  # the same choice in every process
    near = space.mutate(np.repeat(favourites, -(-NEAR // len(favourites)), axis=0), rng)
    again = space.mutate(near, rng)
    rows = np.concatenate([favourites, near, again, space.sample(CHANCE, rng)])
    scores = _scores(space, rows, model)
    best = int(np.argmax(scores))
    if scores[best] < scores[0] + MARGIN:
        return None
    schedule = _applied(space.prim, space.schedule(rows[best]).to_json())
    if schedule is None:
        return None
    return Chosen(schedule, "model", space.sketch_name(rows[best]))


def _scores(space: ScheduleSpace, rows: Population, model: TreeModel | None) -> FloatArray:
    """The model's score of each row; zeros without a model.

    Rows that were drawn twice, which are most of those of a small space, are computed once.
    """
    if model is None:
        return np.zeros(len(rows), np.float32)
    keys = [row.tobytes() for row in rows]
    places = {key: place for place, key in enumerate(keys)}  # of the last row of each kind
    numbers = {key: number for number, key in enumerate(places)}
    scores = model.predict(space.features(rows[list(places.values())]))
    return scores[[numbers[key] for key in keys]]


def _applied(prim: PrimFunc, steps: Sequence[object]) -> Schedule | None:
    """The schedule that steps spell, None if it is illegal for the kernel."""
    try:
        schedule = Schedule.from_json(as_lists(steps))
        apply_schedule(prim, schedule)
    except ScheduleError:
        return None
    return schedule
