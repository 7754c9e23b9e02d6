"""the run's note          tasks, seed, strategy, settings, suggested rows
    records before it       the engine's knowledge
    its records, in order   -> Tape -> ReplayMeasurer answers, ReplayClock tells the time

The engine decides anew; only measured times come from the tape. The replay ends at its first
departure: a request for a candidate that the run did not measure next. So a change of the engine
shows as the first decision it changes, and a log is enough to report a bug of the search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeGuard, TypeVar

import numpy as np

from ...codegen.target import FEATURES, Target
from ...ir.dataclass import dataclass
from ...ir.errors import LoopwrightError, LoopwrightValueError
from ...ir.loop.prim import PrimFunc
from ...ir.loop.workload import parse_workload
from ..budget import Budget, BudgetClock
from ..log.journal import library_versions
from ..log.lookup import best_of
from ..log.note import Entry, Note
from ..log.tuning_log import TuningLog
from ..measure.kernels import task_of
from ..model.cost_model import JudgedModel, available_model
from ..program.program_tuner import tune_program
from ..protocols import Candidate
from ..ranges import Point, in_range
from ..record import MeasureRecord, target_from
from ..record_line import RecordError
from ..request import TuneRequest
from ..search.strategies import STRATEGIES
from ..settings import TuneSettings
from ..space.features import FEATURE_NAMES
from ..task import Task

Unknown = TypeVar("Unknown", float, None)
TaskMaker = Callable[[Mapping[str, Any], Target], Task]


FARTHEST = 100
"""Greatest factor between a setting in a note and today's default."""


class ReplayError(LoopwrightError):
    """The log has no such run, or does not say enough about it."""


class _Departed(BaseException):  # an Exception would count as a failed kernel
    """The engine asks for something that the run did not ask for."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The outcome: ``steps`` of ``length`` records were decided again.

    ``departure`` describes the first different decision, None if there is none. ``remarks`` are
    changes since the run that may explain it. ``winners`` are, by kernel, those of the run and of
    the replay.
    """

    run: str
    length: int
    steps: int
    departure: str | None
    remarks: tuple[str, ...]
    winners: tuple[tuple[str, MeasureRecord | None, MeasureRecord | None], ...]

    @property
    def same(self) -> bool:
        """True if everything was decided as in the run, including the winners."""
        return self.departure is None and all(
            (a and a.schedule_key) == (b and b.schedule_key) for _, a, b in self.winners
        )


@dataclass
class Tape:
    """The entries after a run's note. Entries of others are passed on to ``log`` in their place."""

    log: TuningLog
    run: str
    entries: Sequence[Entry]
    place: int = 0
    steps: int = 0
    at: float = 0.0

    def __post_init__(self) -> None:
        mine = [(i, e.raced) for i, e in enumerate(self.entries) if self._is_mine(e)]
        self.length = len(mine)
        self._last_measured = max((i for i, raced in mine if not raced), default=-1)
        self.last = max((i for i, _ in mine), default=-1)

    @property
    def spent(self) -> bool:
        """True if the run measured nothing more, apart from its last race."""
        return self.place > self._last_measured

    @property
    def ended(self) -> bool:
        return self.place > self.last

    def peek(self) -> MeasureRecord | None:
        """Returns the run's next record."""
        while not self.ended:
            entry = self.entries[self.place]
            if self._is_mine(entry):
                return entry
            self.log.append(entry)
            self.place += 1
        return None

    def take(self) -> None:
        """Moves on behind the record that ``peek`` returned."""
        record = self.entries[self.place]
        self.place += 1
        self.steps += 1
        if isinstance(record, MeasureRecord) and record.at is not None:
            self.at = record.at

    def _is_mine(self, entry: Entry) -> TypeGuard[MeasureRecord]:
        return isinstance(entry, MeasureRecord) and entry.run == self.run


class ReplayClock(BudgetClock):
    """The time at which the tape's last record was made."""

    def __init__(self, budget: Budget, tape: Tape) -> None:
        self.tape = tape
        super().__init__(budget, lambda: tape.at)

    @property
    def spent(self) -> bool:
        return self.tape.spent


@dataclass
class ReplayMeasurer:
    """Answers from the tape. Raises _Departed if the tape continues differently."""

    task: Task
    tape: Tape

    def measure(
        self, candidates: Sequence[Candidate], _best_seconds: float, /
    ) -> Iterator[tuple[int, MeasureRecord]]:
        waiting = {candidate.key: index for index, candidate in enumerate(candidates)}
        while waiting and (record := self.tape.peek()) is not None:
            index = waiting.pop(record.schedule_key, None)
            if record.raced or not self._mine(record) or index is None:
                raise _Departed(_departure(record, self.task, candidates))
            self.tape.take()
            yield index, record

    def race(
        self, candidates: Sequence[Candidate], _rounds: int, _cache: str = "warm", /
    ) -> list[MeasureRecord]:
        """Returns all rounds of the race at the first call; later calls of the race find none
        left."""
        entrants = {candidate.key for candidate in candidates}
        records: list[MeasureRecord] = []
        while (record := self.tape.peek()) is not None and record.raced and self._mine(record):
            if record.schedule_key in {r.schedule_key for r in records}:
                break  # the next race
            if record.schedule_key not in entrants:
                raise _Departed(_departure(record, self.task, candidates))
            records.append(record)
            self.tape.take()
        return records

    def close(self) -> None:
        """Closes nothing."""

    def _mine(self, record: MeasureRecord) -> bool:
        return record.workload.hash == self.task.workload.hash


def _departure(record: MeasureRecord, task: Task, candidates: Sequence[Candidate]) -> str:
    what = "compared" if record.raced else "measured"
    name = record.workload.text or record.workload.hash
    lines = [
        f"the run {what} {name}: {record.schedule_key}",
        f"the engine asks for {len(candidates)} of {task.workload.text or task.workload.hash}, "
        f"first {candidates[0].key if candidates else 'none'}",
    ]
    return "\n".join(lines)


def replay(log: TuningLog, run: str | None = None, make_task: TaskMaker | None = None) -> Replay:
    """Repeats a run (its id or the start of it; the last one by default).

    ``make_task`` makes a task of an entry of the note's ``tasks``, by default from its kernel's
    text. Raises ReplayError if there is no such run.
    """
    place, note = _find(log, run)
    tasks = [(make_task or _task)(data, _target(note)) for data in note.items("tasks")]
    remarks = _remarks(note, place)
    replayed = TuningLog()
    entries = list(log.entries())
    begin = next(i for i, entry in enumerate(entries) if entry is note)
    replayed.append(entries[:begin])
    tape = Tape(replayed, note.text("run"), entries[begin + 1 :])
    departure = None
    try:
        _tune_again(note, tasks, replayed, tape)
        left = tape.peek()
        if left is not None:
            number = tape.length - tape.steps
            departure = f"the engine stops here, the run went on: {number} more, first "
            departure += f"{left.workload.text} {left.schedule_key}"
    except _Departed as departed:
        departure = str(departed)
    original = TuningLog()
    original.append(entries[: begin + 1 + tape.last + 1])
    winners = tuple(
        (task.name, _winner(original, task), None if departure else _winner(replayed, task))
        for task in tasks
    )
    return Replay(tape.run, tape.length, tape.steps, departure, tuple(remarks), winners)


def _tune_again(note: Note, tasks: Sequence[Task], log: TuningLog, tape: Tape) -> None:
    budget = note.table("budget")
    limits = Budget(
        _number(budget, "seconds", None),
        None if (trials := _number(budget, "trials", None)) is None else int(trials),
        quick=budget.get("quick") is True,
    )
    if note.data.get("program") is not True:
        raise ReplayError("the run tuned one kernel with a loop of an older version")
    strategy = note.text("strategy")
    if strategy not in STRATEGIES:
        raise ReplayError(f"the run searched by {strategy!r}, a strategy of another version")
    request = TuneRequest(
        limits,
        strategy,
        int(note.number("seed")),
        _settings_from_json(note.table("settings")),
        suggestions={
            task.workload.hash: [np.array(row, np.int32) for row in _rows(note, task)]
            for task in tasks
        },
        given={task.workload.hash: _given(note, task) for task in tasks},
        peak_flops=note.number("peak_flops"),
    )
    clock = ReplayClock(limits, tape)
    tune_program(tasks, lambda task: ReplayMeasurer(task, tape), log, request, clock)


def _find(log: TuningLog, run: str | None) -> tuple[int, Note]:
    runs = [(n, note) for n, note in log.notes if note.kind == "run" and note.text("run")]
    if not runs:
        raise ReplayError(
            "this log notes no run: its records come from an older version, or the notes were lost"
        )
    wanted = [entry for entry in runs if run is None or entry[1].text("run").startswith(run)]
    if not wanted:
        names = ", ".join(note.text("run") for _, note in runs)
        raise ReplayError(f"there is no run {run} in this log; there are {names}")
    return wanted[-1]


def _target(note: Note) -> Target:
    features = note.table("target").get("features")
    try:
        key = target_from(dict(note.data))
        return key.machine(f for f in FEATURES if isinstance(features, list) and f in features)
    except RecordError as error:
        raise ReplayError(
            f"the note of the run does not say what machine it was on: {error}"
        ) from error
    except LoopwrightValueError as error:
        raise ReplayError(
            f"the run was for a machine that is not known here: {error.message}"
        ) from error


def _task(data: Mapping[str, Any], target: Target) -> Task:
    name = str(data.get("name", "kernel"))
    try:
        prim = parse_workload(str(data.get("range") or data.get("prim", "")), name)
        point = _point(data, prim)
    except LoopwrightError as error:
        raise ReplayError(f"the kernel {name} cannot be read: {error.message}") from error
    threads, weight = (int(_number(data, n, 1.0)) for n in ("threads", "weight"))
    task = task_of(prim, target, threads, weight, point=point)
    handed = data.get("handed")
    return replace(
        task,
        seconds=_number(data, "seconds", math.inf),
        floor=_number(data, "floor", 0.0),
        importance=_number(data, "importance", 1.0),
        handed=tuple(
            (steps, sketch)
            for steps, sketch in (handed if isinstance(handed, list) else ())
            if isinstance(steps, list) and isinstance(sketch, str)
        ),
    )


def _point(data: Mapping[str, Any], prim: PrimFunc) -> Point:
    """Returns the point of a task in the range of its kernel."""
    values = data.get("at")
    values = values if isinstance(values, list) and all(type(v) is int for v in values) else []
    if not in_range(prim, values):
        raise LoopwrightError("its sizes are not known")
    return {s.name: value for s, value in zip(prim.sizes, values, strict=True)}


def _number(data: Mapping[str, Any], name: str, unknown: Unknown) -> float | Unknown:
    """Returns a positive number of a note; ``unknown`` if it is missing, as in notes of older
    versions."""
    value = data.get(name)
    return float(value) if isinstance(value, int | float) and value > 0 else unknown


def _rows(note: Note, task: Task) -> list[list[int]]:
    """Returns the suggested rows that are rows of the task's space."""
    rows = note.table("suggested").get(task.workload.hash)
    width = len(task.space.knobs)
    return [
        row
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, list) and len(row) == width and all(isinstance(v, int) for v in row)
    ]


def _given(note: Note, task: Task) -> list[Any]:
    """Returns the schedules that the user handed over."""
    given = note.table("given").get(task.workload.hash)
    return [s for s in given if isinstance(s, list)] if isinstance(given, list) else []


def _winner(log: TuningLog, task: Task) -> MeasureRecord | None:

    best = best_of([log], task.workload.hash, task.key)
    return best[1] if best else None


def _remarks(note: Note, place: int) -> list[str]:
    """Returns sentences about changes since the run that may explain a departure."""
    remarks: list[str] = []
    count = int(note.number("known"))
    if count != place:
        remarks.append(
            f"{count} records stood before the run, now {place}: the log was pruned or merged"
        )
    settings = _settings_from_json(note.table("settings"))
    models = [JudgedModel(available_model(settings, 0, n)).name for n in (len(FEATURE_NAMES), None)]
    if note.text("model") not in models:
        remarks.append(f"the cost model was {note.text('model')}, now it is {models[0]}")
    for name, now in library_versions().items():
        then = note.table("libraries").get(name)
        if then != now:
            remarks.append(f"{name} was {then}, now it is {now}")
    return remarks


def _settings_from_json(data: Any) -> TuneSettings:
    """Returns the settings of a run; unknown and invalid ones have their defaults."""
    return _setting(data, TuneSettings())


def _setting(value: Any, default: Any) -> Any:
    """Returns a setting from a note if it has the type of the default and is not far from it.

    >>> _setting(512, 1024), _setting(-3, 1024), _setting([["eta", 0.2]], (("eta", 0.1),))
    (512, 1024, (('eta', 0.2),))
    """
    if is_dataclass(default):
        given = value if isinstance(value, dict) else {}
        each = {f.name: _setting(given.get(f.name), f.default) for f in fields(default)}
        return type(default)(**each)
    if isinstance(default, tuple):
        alike = isinstance(value, list) and len(value) == len(default)
        return tuple(map(_setting, value, default)) if alike else default
    if isinstance(default, bool | str) or not isinstance(default, int | float):
        return value if type(value) is type(default) else default
    if isinstance(value, bool) or not isinstance(value, int | float):
        return default
    near = default / FARTHEST <= value <= default * FARTHEST or (value == 0 and not default)
    return type(default)(value) if near else default
