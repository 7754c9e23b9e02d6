"""Values each decision of a winner by the time the winner takes with that decision reverted.

A decision is a knob of the sketch, or the sketch itself. A knob is reverted to the value of the
default schedule, or where the winner has that, to the best of its other values. The time is in the
log if that schedule was measured; else the cost model, trained on the kernel's records, predicts
it, and it is marked as predicted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...autotune.model.cost_model import available_model
from ...autotune.protocols import Population
from ...autotune.record import MeasureRecord, robust_seconds, schedule_key
from ...autotune.space.space import ScheduleSpace
from ...autotune.space.tiling import UNUSED
from ...ir.dataclass import dataclass
from ...ir.errors import LoopwrightError
from ...ir.schedule.steps import Schedule

MEANING = {
    "vectors": "native vectors along the vector axis in a register tile",
    "rows": "steps of the row axis in a register tile",
    "second_rows": "steps of the second row axis in a register tile",
    "cache_vectors": "register tiles along the vectors in a cache tile",
    "cache_rows": "register tiles along the rows in a cache tile",
    "k_blocks": "pieces of the longest sum outside the cache tile",
    "k_unroll": "unrolled iterations of the innermost sum",
    "vectors_outer": "order of the outer loops (0: rows outside)",
    "cache_vectors_outer": "order inside a cache tile (0: rows outside)",
    "pack": "operands copied into panels (1: those along the vectors, 2: also the rows')",
    "parallel": "outer loops shared among the threads",
    "non_temporal": "results written by non-temporal stores",
    "prefetch": "prefetch distance",
    "next_panels": "panels prefetched while the ones before are used",
    "tiles": "where sums of products of bytes are kept (0: vector, 1: tile registers)",
    "sketch": "the rule that the loops follow",
}

_NEIGHBOURS = 5
"""Number of measured records with the nearest scores, whose median is the seconds of a score."""


@dataclass(frozen=True, slots=True)
class Worth:
    """``seconds`` per call with ``knob`` at ``reverted`` in place of ``chosen``. ``source`` is
    "measured" or "predicted"; "none" if that schedule is not possible or nothing can be said."""

    knob: str
    chosen: str
    reverted: str
    seconds: float
    source: str
    against: str
    factor: float

    @property
    def meaning(self) -> str:
        return MEANING.get(self.knob, "")


@dataclass(frozen=True, slots=True)
class _Revert:
    knob: str
    chosen: str
    reverted: str
    row: Population
    against: str


def worth_of(
    space: ScheduleSpace,
    records: Sequence[MeasureRecord],
    winner: MeasureRecord,
) -> list[Worth]:
    """Returns the winner's decisions, the most valuable first; none if the rules cannot make it."""
    times = _times(records)
    rows, costs = _measured(space, records)
    row = _row_of(space, winner)
    if row is None:
        return []
    worths: list[Worth] = []
    reverts = _reverts(space, rows, costs, winner)
    predict = _predictor(space, rows, costs) if reverts else None
    for revert in reverts:
        key = schedule_key(space.schedule(revert.row).to_json())
        if key == winner.schedule_key:
            continue  # the decision changes nothing here
        seconds, source, best = math.nan, "none", math.nan
        compared = _compared(times, key, winner.schedule_key)
        if compared is not None:
            seconds, best = compared
            source = "measured"
        elif predict is not None:
            seconds, best, source = predict(revert.row), predict(row), "predicted"
        worths.append(
            Worth(
                revert.knob,
                revert.chosen,
                revert.reverted,
                seconds,
                source,
                revert.against,
                seconds / best,
            )
        )
    order = {"measured": 0, "predicted": 0, "none": 1}
    return sorted(
        worths, key=lambda w: (order[w.source], -(w.factor if w.factor == w.factor else 0))
    )


def reverted_schedules(
    space: ScheduleSpace, records: Sequence[MeasureRecord], winner: MeasureRecord
) -> list[tuple[Population, Schedule]]:
    """The schedules that ``worth_of`` asks about, to be measured."""
    rows, costs = _measured(space, records)
    return [(r.row, space.schedule(r.row)) for r in _reverts(space, rows, costs, winner)]


_Times = Mapping[str, tuple[float, float]]


def _times(records: Sequence[MeasureRecord]) -> _Times:
    """Returns schedule key -> seconds measured alone and in races; 0 where there are none."""
    samples: dict[str, tuple[list[float], list[float]]] = {}
    for record in records:
        if record.ok:
            samples.setdefault(record.schedule_key, ([], []))[record.raced].extend(record.seconds)
    return {
        key: tuple(robust_seconds(tuple(group)) if group else 0.0 for group in groups)  # type: ignore[misc]
        for key, groups in samples.items()
    }


def _compared(times: _Times, key: str, winner: str) -> tuple[float, float] | None:
    """Returns the seconds of both under the same conditions: raced, else each alone."""
    if key not in times or winner not in times:
        return None
    for way in (1, 0):
        if times[key][way] and times[winner][way]:
            return times[key][way], times[winner][way]
    return None


def _measured(
    space: ScheduleSpace, records: Sequence[MeasureRecord]
) -> tuple[Population, np.ndarray[Any, np.dtype[np.float64]]]:
    """Returns the rows of the space that were measured, and their seconds (inf: failed)."""
    best: dict[str, tuple[Population, float]] = {}
    for record in records:
        row = _row_of(space, record)
        if row is not None:
            previous = best.get(record.schedule_key)
            least = min(record.cost, previous[1]) if previous else record.cost
            best[record.schedule_key] = (row, least)
    if not best:
        return space.default()[:0], np.empty(0)
    return np.stack([row for row, _ in best.values()]), np.array([c for _, c in best.values()])


def _row_of(space: ScheduleSpace, record: MeasureRecord) -> Population | None:
    try:
        return space.row_of(Schedule.from_json(_lists(record.schedule)))
    except LoopwrightError:
        return None


def _lists(data: Any) -> Any:
    return [_lists(item) for item in data] if isinstance(data, list | tuple) else data


def _reverts(
    space: ScheduleSpace, rows: Population, costs: Any, winner: MeasureRecord
) -> list[_Revert]:
    row = _row_of(space, winner)
    if row is None:
        return []
    reverts: list[_Revert] = []
    default = space.default()[0]
    same_sketch = default[0] == row[0]
    number, chosen = int(row[0]), space.choices(row)
    alike = rows[:, 0] == number if len(rows) else np.empty(0, bool)
    values = space.values(rows, number) if len(rows) else {}
    wanted = space.choices(default) if same_sketch else UNUSED
    for knob, table in space.variants[number].tables.items():
        if len(table) < 2:
            continue
        against = "the default's" if same_sketch else "none"
        value = wanted[knob] if wanted.get(knob, chosen[knob]) != chosen[knob] else None
        if value is None:
            against = "next best"
            other = alike & np.isfinite(costs) if len(rows) else alike
            other = other & (values[knob] != chosen[knob]) if len(rows) else other
            if not other.any():
                continue
            value = int(values[knob][other][np.argmin(costs[other])])
        places = np.flatnonzero(table == value)
        if not len(places):
            continue
        changed = row.copy()
        changed[space.names.index(knob) + 1] = places[0]
        if space.valid(changed[None])[0] and _possible(space, changed):
            reverts.append(_Revert(knob, str(chosen[knob]), str(value), changed, against))
    other = (rows[:, 0] != row[0]) & np.isfinite(costs) if len(rows) else np.empty(0, bool)
    if other.any():
        place = np.flatnonzero(other)[np.argmin(costs[other])]
        reverts.append(
            _Revert(
                "sketch",
                space.sketch_name(row),
                space.sketch_name(rows[place]),
                rows[place],
                "best of another",
            )
        )
    return reverts


def _possible(space: ScheduleSpace, row: Population) -> bool:
    try:
        space.schedule(row)
    except LoopwrightError:
        return False
    return True


def _predictor(
    space: ScheduleSpace, rows: Population, costs: Any
) -> Callable[[Population], float] | None:
    """Returns the predicted seconds of a row; None if there are too few records to learn from."""
    ran = np.isfinite(costs)
    if ran.sum() < 2 * _NEIGHBOURS:
        return None
    model = available_model()
    model.update("here", space.features(rows), costs)
    if not model.trained:
        return None
    scores, seconds = model.predict(space.features(rows[ran])), costs[ran]

    def predict(row: Population) -> float:
        score = float(model.predict(space.features(row[None]))[0])
        nearest = np.argsort(np.abs(scores - score), kind="stable")[:_NEIGHBOURS]
        return float(np.median(seconds[nearest]))

    return predict
