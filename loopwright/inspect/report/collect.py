"""Collects, for the report, all that a log holds about each of its kernels.

Nothing here trusts the log: a kernel whose text cannot be read, or whose schedule does not apply,
is reported with what is left and a word why.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from typing import Any

import numpy as np

from ...autotune.log.decision import Decision
from ...autotune.log.lookup import fastest, pooled_costs
from ...autotune.log.note import Note
from ...autotune.log.tuning_log import TuningLog
from ...autotune.logtool.logged import kernel_name, logged_prim, logged_target, nest_or_reason
from ...autotune.measure.kernels import task_of
from ...autotune.model.quality import pairwise_accuracy
from ...autotune.record import MeasureRecord, TargetKey, Workload
from ...autotune.space.space import ScheduleSpace
from ...autotune.workload import as_lists
from ...codegen.kernel import compile_kernel
from ...codegen.machine import MachineModel, known_machine
from ...codegen.roofline import Roof
from ...codegen.target import Target
from ...ir.dataclass import dataclass
from ...ir.errors import LoopwrightError
from ...ir.loop.work import prim_bytes
from ...ir.schedule.steps import Schedule
from ..explain import Explained, Explanation
from ..kernel_calls import work_of
from .worth import Worth, worth_of


@dataclass(frozen=True, slots=True)
class Point:
    """A candidate in the order of measuring: seconds per call (inf: failed), the time of measuring,
    the predicted score, and the best so far."""

    number: int
    seconds: float
    at: float | None
    predicted: float | None
    best: float
    error: str | None
    raced: bool


@dataclass(frozen=True, slots=True)
class Run:
    """A search: seconds of the clock, of the engine, and of the workers by phase."""

    id: str
    time: str
    seconds: float
    engine: float
    build: float
    check: float
    run: float
    candidates: int
    stopped: str
    strategy: str
    seed: int

    @property
    def rest(self) -> float:
        """Seconds that no phase accounts for: starting processes, waiting, writing."""
        return max(0.0, self.seconds - self.engine - self.build - self.check - self.run)


@dataclass
class KernelReport:
    """One kernel on one machine; no ``calls`` if it is an alternative that no program took."""

    workload: Workload
    target: TargetKey
    calls: int
    points: list[Point]
    errors: Counter[str]
    details: dict[str, str]
    first: float
    best: float
    winner: MeasureRecord | None
    decisions: list[Decision]
    nest: str = ""
    nest_shown: bool = False
    explained: Explained | None = None
    machine: MachineModel | None = None
    worth: list[Worth] = field(default_factory=list[Worth])
    pairwise: float = math.nan

    @property
    def name(self) -> str:
        return kernel_name(self.workload)

    @property
    def tried(self) -> int:
        return sum(not p.raced for p in self.points)

    @property
    def gain(self) -> float:
        """The speed-up over the candidate that was tried first; nan if nothing ran."""
        return self.first / self.best if self.best > 0 and math.isfinite(self.best) else math.nan


@dataclass
class Report:
    """A whole log."""

    title: str
    kernels: list[KernelReport]
    runs: list[Run]
    choices: list[Decision]
    records: int
    skipped: str
    whole: tuple[float, float] = (0.0, 0.0)
    """Seconds of a call of all tuned programs together before the last session of each and after
    it, interleaved; 0 if no session came that far."""

    @property
    def machines(self) -> list[TargetKey]:
        return list(dict.fromkeys(k.target for k in self.kernels))


def collect(log: TuningLog, title: str, limit: int = 200) -> Report:
    """Reads a log. The ``limit`` kernels that take longest are examined; the others are listed."""
    notes = [note for _, note in log.notes]
    calls, unknown = _calls(notes)
    groups: dict[tuple[str, TargetKey], list[MeasureRecord]] = {}
    for record in log:
        groups.setdefault((record.workload.hash, record.target), []).append(record)
    kernels = [
        _kernel(records, log.decided(*group), calls.get(group[0], unknown))
        for group, records in groups.items()
    ]
    kernels.sort(key=lambda k: -(k.best * k.calls if math.isfinite(k.best) else math.inf))
    for kernel in kernels[:limit]:
        records = groups[kernel.workload.hash, kernel.target]
        _look_into(kernel, records, notes)
    choices = [d for d in log.decisions if d.about != "schedule"]
    skipped = str(log.skipped) if log.skipped.total else ""
    return Report(title, kernels, _runs(log, notes), choices, len(log), skipped, _whole(notes))


def _whole(notes: Sequence[Note]) -> tuple[float, float]:
    last = {note.text("program"): note for note in notes if note.kind == "program"}
    before, after = (sum(n.number(k) for n in last.values()) for k in ("before", "after"))
    return (before, after) if 0 < before < math.inf and 0 < after < math.inf else (0.0, 0.0)


def _calls(notes: Sequence[Note]) -> tuple[Mapping[str, int], int]:
    """Returns the calls of each kernel in the final form of the tuned programs, and the calls of
    any other kernel.

    Logs without notes of programs have the kernels that their runs tried: alternatives count, too.
    """
    programs: dict[str, Mapping[str, Any]] = {}
    tried: dict[str, int] = {}
    for note in notes:
        if note.kind == "program":
            programs[note.text("program")] = note.table("calls")
        elif note.kind == "run":
            tried.update(
                (str(task.get("hash")), task["weight"])
                for task in note.items("tasks")
                if _is_count(task.get("weight"))
            )
    total: Counter[str] = Counter()
    for calls in programs.values():
        total.update({w: n for w, n in calls.items() if _is_count(n)})
    return (total, 0) if programs else (tried, 1)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 40


def _kernel(
    records: Sequence[MeasureRecord], decisions: Sequence[Decision], calls: int
) -> KernelReport:
    pooled = pooled_costs(records, decisions)
    winner = fastest(pooled)
    points: list[Point] = []
    best = math.inf
    for number, r in enumerate(records, 1):
        if not r.raced:
            best = min(best, r.cost)
        points.append(Point(number, r.cost, r.at, r.predicted, best, r.error, r.raced))
    first = next((r for r in records if r.ok), None)
    before = math.inf
    if first is not None:
        before = pooled[first.schedule_key][0] if first.schedule_key in pooled else first.cost
    judged = [p for p in points if p.predicted is not None]
    pairwise = math.nan
    if len(judged) > 1:
        scores = np.array([p.predicted for p in judged])
        pairwise = pairwise_accuracy(scores, np.array([p.seconds for p in judged]))
    return KernelReport(
        records[0].workload,
        records[0].target,
        calls,
        points,
        Counter(r.error for r in records if r.error),
        {r.error: r.detail for r in records if r.error and r.detail},
        before,
        winner[0] if winner else math.inf,
        winner[1] if winner else None,
        list(decisions),
        pairwise=pairwise,
    )


def _look_into(
    kernel: KernelReport, records: Sequence[MeasureRecord], notes: Sequence[Note]
) -> None:
    """Returns loop nest, roofline and worth of the winner, as far as the log determines them."""
    winner = kernel.winner
    if winner is None:
        return
    kernel.nest, kernel.nest_shown = nest_or_reason(winner)
    target = logged_target(kernel.target, notes)
    if not kernel.nest_shown or target is None:
        return
    kernel.machine = _machine(target, kernel.target, notes)
    try:
        kernel.explained = _explained(kernel, target, winner)
        space = task_of(logged_prim(kernel.workload), target, kernel.target.threads).space
        if isinstance(space, ScheduleSpace):
            kernel.worth = worth_of(space, records, winner)
    except LoopwrightError as error:
        kernel.details.setdefault("analysis", str(error))


def _explained(kernel: KernelReport, target: Target, winner: MeasureRecord) -> Explained:
    prim = logged_prim(kernel.workload)
    schedule = Schedule.from_json(as_lists(winner.schedule))
    compiled = compile_kernel(prim, schedule, target)
    assert kernel.machine is not None
    threads = kernel.target.threads
    # Measured call after call: what one call touches is all that lies between two uses.
    between = prim_bytes(prim)
    near = {o.buffer.name: between for o in compiled.operands}
    work = work_of(prim, compiled, kernel.machine.seen_by(target), threads, near)
    calls = max(1, kernel.calls)
    return Explained(
        name=kernel.name,
        calls=calls,
        seconds=kernel.best * calls,
        work=work,
        roof=Roof(kernel.machine, threads if compiled.parallel else 1),
        source="",
        sketch=winner.sketch,
        choices={},
        nest="",
    )


def explanation(kernels: Sequence[KernelReport]) -> Explanation | None:
    """Returns the winners of one machine for the roofline; None if no winner is explained."""
    explained = [k.explained for k in kernels if k.explained is not None and k.calls]
    if not explained:
        return None
    machine = next(k.machine for k in kernels if k.machine is not None)
    return Explanation(tuple(explained), 0.0, machine, kernels[0].target.threads)


def _machine(target: Target, key: TargetKey, notes: Sequence[Note]) -> MachineModel:
    """Returns the measured rates of a run's machine from its note, else those known here."""
    for note in reversed(notes):
        noted = note.table("machine")
        if note.kind == "run" and noted.get("cpu") == key.cpu and noted.get("isa") == key.isa:
            made = _model(noted)
            if made is not None and made.measured:
                return made
    return known_machine(target)


def _model(noted: Mapping[str, Any]) -> MachineModel | None:
    names = {f.name for f in fields(MachineModel)}
    values = {name: value for name, value in noted.items() if name in names}
    levels = ("l1", "l2", "l3", "dram")
    tables = [values.get(n) for n in ("bandwidth_1", "bandwidth_n", "triad_1", "triad_n")]
    rates = [values.get(f"peak_flops{k}") for k in ("_1", "_n", "64_1", "64_n")]
    for table in tables:
        rates += [table.get(level) for level in levels] if isinstance(table, dict) else [None]
    if not all(isinstance(r, int | float) and 0 < r < 1e18 for r in rates):
        return None
    if not isinstance(values.get("threads"), int):
        return None
    return MachineModel(**values)


def _runs(log: TuningLog, notes: Sequence[Note]) -> list[Run]:
    took: dict[str, list[float]] = {}
    last: dict[str, float] = {}
    for r in log:
        if r.run:
            sums = took.setdefault(r.run, [0.0, 0.0, 0.0, 0.0])
            sums[3] += not r.raced
            last[r.run] = max(last.get(r.run, 0.0), r.at or 0.0)
            if r.took is not None:
                for n, value in enumerate((r.took.build, r.took.check, r.took.run)):
                    sums[n] += value
    ends = {note.text("run"): note for note in notes if note.kind == "end"}
    runs: list[Run] = []
    for note in notes:
        run = note.text("run")
        if note.kind != "run" or run not in took:
            continue
        build, check, ran, count = took[run]
        end = ends.get(run)
        runs.append(
            Run(
                id=run,
                time=note.text("time"),
                seconds=end.number("seconds") if end else last[run],
                engine=end.number("engine") if end else 0.0,
                build=build,
                check=check,
                run=ran,
                candidates=int(count),
                stopped=end.text("stopped") if end else "killed, or still at work",
                strategy=note.text("strategy"),
                seed=int(note.number("seed")),
            )
        )
    return runs
