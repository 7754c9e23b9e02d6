"""Tuning all kernels of a program within one budget, and the report of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field

from ...ir.dataclass import dataclass
from ...ir.progress_line import log as log_line
from ...ir.progress_line import report
from ...ir.schedule.steps import Schedule
from ..budget import Budget, BudgetClock
from ..interrupts import terminable
from ..log.decision import Decision
from ..log.journal import Journal
from ..log.log_file import LogError
from ..log.tuning_log import TuningLog
from ..measure.worker_process import WorkerError
from ..model.cost_model import JudgedModel, available_model
from ..model.quality import ModelQuality, as_data
from ..progress import Progress, Silent, format_seconds, format_time
from ..protocols import Candidate, Measurer
from ..ranges import fitted
from ..record import MeasureRecord
from ..request import TuneRequest
from ..search.tuner import Tuner
from ..settings import DEFAULT_SETTINGS, TuneSettings
from ..task import Task, feature_count
from ..workload import as_lists
from .in_program import InProgram, TriedChoice, decision_line
from .scheduler import TaskScheduler, TaskState

_FLOPS_A_BYTE = 8.0
"""Operations that take as long as moving a byte, roughly and on every machine."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result for one kernel. Seconds are per call, in the program where the whole of it was
    compared, else alone; inf where nothing ran."""

    task: Task
    best: MeasureRecord | None
    before: float
    after: float
    trials: int
    errors: Mapping[str, int]
    rolled_back: bool = False
    confidence: float | None = None

    def line(self, peak_flops: float = 0.0) -> str:
        """``matmul_add   x4   0.51 -> 0.43 ms   99 % of peak    61 tried``."""
        if not math.isfinite(self.after):
            return f"nothing ran ({', '.join(self.errors) or 'not tried'})"
        text = f"{format_time(self.before)} -> {format_time(self.after)}"
        if self.task.flops and peak_flops:
            text += f"   {100 * self.task.flops / self.after / peak_flops:.0f} % of peak"
        elif self.task.flops:
            text += f"   {self.task.flops / self.after * 1e-9:.3g} GFLOP/s"
        sure = "" if self.confidence is None else f", {min(99.0, 100 * self.confidence):.0f} % sure"
        return f"{text}   {self.trials} tried{sure}{', rolled back' if self.rolled_back else ''}"


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """The result for a program; ``str`` is the report.

    ``stopped`` is "budget", "exhausted" (no space has more), "converged" (more slices are expected
    to gain less than ``settings.least_gain``), "interrupted", or what is wrong with the log.
    ``history`` has an entry per slice: seconds since the start, and seconds of the whole program
    with the best schedules so far.
    """

    tasks: tuple[TaskResult, ...]
    seconds: float
    budget: Budget
    stopped: str
    quality: ModelQuality | None = None
    peak_flops: float = 0.0
    history: tuple[tuple[float, float], ...] = field(default=(), repr=False)
    in_program: InProgram | None = None
    decisions: tuple[Decision, ...] = ()
    tried: tuple[TriedChoice, ...] = ()
    """Choices in the graph that were worth measuring before the search."""
    spent: Mapping[str, float] = field(default_factory=dict[str, float])
    """Seconds of the stages, by their kind."""
    skipped: tuple[str, ...] = ()
    """Stages that were left out, and why."""
    engine_seconds: float = 0.0
    """Spent on proposing candidates and learning from them."""
    model_failure: str | None = None
    """The reason why a simpler cost model had to take over."""

    def __repr__(self) -> str:
        return str(self)

    @property
    def before(self) -> float:
        """Seconds all calls of the kernels took together before tuning, as far as they ran."""
        return _total((t.task.weight, t.before) for t in self.tasks)

    @property
    def after(self) -> float:
        """Seconds all calls of the kernels take together with the best schedules."""
        return _total((t.task.weight, t.after) for t in self.tasks)

    @property
    def shares(self) -> dict[str, float]:
        """The share of each kernel in the time of all before tuning, by workload: in the program,
        or alone if that is not known."""
        seconds = {
            t.task.workload.hash: t.task.weight
            * _finite(t.task.seconds if math.isfinite(t.task.seconds) else t.before)
            for t in self.tasks
        }
        total = sum(seconds.values()) or 1.0
        return {workload: s / total for workload, s in seconds.items()}

    @property
    def completed(self) -> bool:
        """True if the search ended by itself: no interrupt, and no trouble with the log."""
        return self.stopped in ("budget", "exhausted", "converged")

    @property
    def is_empty(self) -> bool:
        """True if no kernel was measured, in this run or one before."""
        return not any(math.isfinite(t.after) for t in self.tasks)

    @property
    def trials(self) -> int:
        return sum(t.trials for t in self.tasks)

    @property
    def errors(self) -> Counter[str]:
        return sum((Counter(t.errors) for t in self.tasks), Counter[str]())

    @property
    def of_limit(self) -> float:
        """The share of the kernels' time that the machine's peaks and bandwidths allow no schedule
        to save, from 0 to 1."""
        floor = _total((t.task.weight, t.task.floor) for t in self.tasks)
        return min(1.0, floor / self.after) if self.after else 0.0

    def __str__(self) -> str:
        width = max((len(t.task.name) for t in self.tasks), default=0)
        shares = self.shares
        whole = self.in_program is not None and self.in_program.before  # calls were measured
        call, *rolled_back = str(self.in_program).splitlines() if whole else [""]
        lines = [
            f"  {t.task.name:<{width}}  x{t.task.weight:<3} {shares[t.task.workload.hash]:>5.1%}  "
            f"{t.line(self.peak_flops)}"
            for t in sorted(self.tasks, key=lambda t: -t.task.weight * _finite(t.before))
        ]
        before, after = self.before, self.after
        gain = f"  {before / after:.2f}x" if after > 0 else ""
        failed = "".join(f", {count} {word}" for word, count in sorted(self.errors.items()))
        spent = f"{format_seconds(self.seconds)} of {self.budget}"
        alone = "" if whole else " alone"
        kernels = f"kernels{alone} {format_time(before)} -> {format_time(after)}{gain}"
        if self.tasks and self.is_empty:
            over = "nothing was measured: the budget was over before, give a larger one"
            kernels = "every candidate failed" if self.trials else over
        elif not self.tasks:
            kernels = "nothing to tune: the log knows its kernels, or calling them takes longer"
        lines.append(f"  {kernels}   {self.trials} candidates{failed}   {spent}")
        lines += [f"  {decision_line(decision)}" for decision in self.decisions]
        lines += [f"  tried {choice}" for choice in self.tried]
        lines = [*([call] if whole else []), *lines, *rolled_back]
        lines += [f"  left out: {reason}" for reason in self.skipped]
        if self.spent:
            total = sum(self.spent.values()) or 1.0
            each = [f"{n} {s:.1f} s ({s / total:.0%})" for n, s in self.spent.items()]
            lines.append(f"  time: {', '.join(each)}")
        if self.stopped == "converged":
            left = (self.budget.seconds or self.seconds) - self.seconds
            back = f"; {format_seconds(left)} given back" if left >= 1 else ""
            less = f"less than {100 * DEFAULT_SETTINGS.least_gain:g} %"
            limit = f", {self.of_limit:.0%} of the limit" if self.of_limit else ""
            lines.append(f"  nothing to gain: {less} of a call is expected{limit}{back}")
        elif self.stopped not in ("budget", "exhausted"):
            lines.append(f"  stopped: {self.stopped}")
        return "\n".join(lines)


def tune_program(
    tasks: Sequence[Task],
    measurer_of: Callable[[Task], Measurer],
    log: TuningLog,
    request: TuneRequest | None = None,
    clock: BudgetClock | None = None,
) -> ProgramResult:
    """Tune the kernels of a program, spending where the whole program gains most.

    Tasks must be distinct; ``weight`` says how often each is called. All share the log and the
    model. Goes on from what the log has of them. Whoever makes a measurer closes it. Raises
    LogError at once, before anything is measured, if the log cannot be written. With a ``clock``
    (of a replay) the run is not noted in the log.
    """
    request = request or TuneRequest()
    log.check_writable()
    features = feature_count(tasks[0]) if tasks else None
    model = JudgedModel(request.model or available_model(request.settings, request.seed, features))
    journal = None
    if clock is None:
        clock = BudgetClock(request.limits)
        journal = Journal.begin(log, tasks, request, model.name)
    tuners: list[Tuner] = []
    failures: list[str] = []
    history: list[tuple[float, float]] = []
    for task in tasks:
        try:
            tuners.append(Tuner(task, measurer_of(task), log, request, model, journal))
        except (LogError, WorkerError):
            raise
        except Exception as error:  # of this kernel: the others go on
            failures.append(f"{task.name}: {type(error).__name__}: {error}")
    progress = request.progress or Silent()
    try:
        with terminable(), progress:
            if request.limits.quick:
                stopped = _measure_few(tuners, clock, request, progress)
            else:
                stopped = _spend(tuners, clock, request, progress, history)
                _exchange(tuners, clock, progress)
                if request.races:
                    _finish(tuners, clock)
    except KeyboardInterrupt:
        stopped = "interrupted"
    except (LogError, WorkerError) as error:
        stopped = str(error)
    results = tuple(_result(tuner) for tuner in tuners)
    engine = sum(tuner.engine_seconds for tuner in tuners)
    if journal is not None:
        journal.end(stopped, clock.elapsed, engine, as_data(model.quality()))
    failures += [f"{t.task.name}: {t.failure}" for t in tuners if t.failure]
    for result in results:
        log_line("tune", "%s: %s", result.task.name, result.line(request.peak_flops))
    return ProgramResult(
        results,
        clock.elapsed,
        clock.budget,
        stopped,
        model.quality(),
        request.peak_flops,
        tuple(history),
        skipped=tuple(failures),
        engine_seconds=engine,
        model_failure=model.failure,
    )


def _state(tuner: Tuner, peak_flops: float) -> TaskState:
    """The scheduler's state of a task before its first slice."""
    task = tuner.task
    return TaskState(
        task.weight * task.importance,
        max(task.floor, task.flops / peak_flops if peak_flops else 0.0),
        max(task.flops, _FLOPS_A_BYTE * task.bytes),
        tuner.best_seconds,
        place=task.seconds,
        start=tuner.best_seconds,
    )


def _spend(
    tuners: Sequence[Tuner],
    clock: BudgetClock,
    request: TuneRequest,
    progress: Progress,
    history: list[tuple[float, float]],
) -> str:
    """Give slices of the budget to tasks until it is spent. Returns why the search ended."""
    settings = request.settings
    states = [_state(tuner, request.peak_flops) for tuner in tuners]
    scheduler = TaskScheduler(states, settings)
    reserve = settings.leader_share * (clock.budget.seconds or 0.0) if request.races else 0.0
    while not clock.spent and clock.seconds_left > reserve:
        index = scheduler.next(_seconds_left(clock) - reserve)
        if index is None:
            return "exhausted"
        if scheduler.hope() < settings.least_gain:
            return "converged"
        tuner, state = tuners[index], states[index]
        count = settings.scheduler_batch if state.slices else _first_slice(states, clock, settings)
        left = clock.trials_left
        begun, best = clock.marked, tuner.best_seconds
        with _its_own_failure(tuner):
            tuner.step(clock, count if left is None else min(count, left), progress)
            if tuner.best_seconds < best:
                _share(tuner, tuners)
        state.start = min(state.start, tuner.first_seconds)
        state.exhausted = tuner.exhausted
        state.after_slice(clock.marked - begun, tuner.best_seconds)
        history.append((clock.elapsed, _total((s.weight, s.best) for s in states)))
    return "budget"


def _measure_few(
    tuners: Sequence[Tuner], clock: BudgetClock, request: TuneRequest, progress: Progress
) -> str:
    """Measures the model's best few candidates of each kernel, and races them."""
    settings = request.settings
    clock.mark()  # what was made for all kernels is not the first one's time
    for number, tuner in enumerate(tuners):
        report(number, len(tuners), "kernels measured")
        with _its_own_failure(tuner):
            tuner.step(clock, settings.quick_candidates, progress, settings.quick_seconds)
            tuner.finish(clock)
    return "budget"


def _seconds_left(clock: BudgetClock) -> float:
    """Returns the seconds that are left by the clock's marks, so that a replay decides the same."""
    left = math.inf
    if clock.budget.seconds is not None:
        left = clock.budget.seconds - clock.marked
    if clock.trials_left is not None and clock.trials:
        left = min(left, clock.marked / clock.trials * clock.trials_left)
    return left


def _first_slice(states: Sequence[TaskState], clock: BudgetClock, settings: TuneSettings) -> int:
    """Candidates of a task's first slice: few where there are many tasks for the time.

    It goes by the clock's marks, so that a replay gives the same slices.
    """
    limits, most = clock.budget, settings.scheduler_batch
    affordable = float(limits.trials or math.inf)
    if limits.seconds is not None and clock.marked:
        affordable = min(affordable, clock.trials / clock.marked * limits.seconds)
    if not math.isfinite(affordable):
        return most
    each = settings.first_slice_share * affordable / max(1, len(states))
    return round(max(settings.least_first_slice, min(most, each)))


def _siblings(tuner: Tuner, tuners: Sequence[Tuner]) -> list[Tuner]:
    """Returns the tuners of the same kernel at other sizes."""
    whole = tuner.task.workload.range
    alike = [t for t in tuners if t is not tuner and t.task.key == tuner.task.key]
    return [t for t in alike if whole and t.task.workload.range == whole]


def _share(tuner: Tuner, tuners: Sequence[Tuner]) -> None:
    """Has the best schedule of a kernel measured at its other sizes as well, with their next
    steps: it may be good there, and cases can share only what was measured at both."""
    best = tuner.best()
    for sibling in _siblings(tuner, tuners) if best is not None else ():
        assert best is not None
        schedule = fitted(Schedule.from_json(as_lists(best.schedule)), sibling.task.prim)
        sibling.hand([Candidate(tuple(schedule.to_json()), best.sketch)])


def _exchange(tuners: Sequence[Tuner], clock: BudgetClock, progress: Progress) -> None:
    """Measures what is still to be measured of what was shared, while there is time."""
    for tuner in tuners:
        if tuner.task.workload.range and not clock.spent:
            with _its_own_failure(tuner):
                tuner.step(clock, 0, progress)


def _finish(tuners: Sequence[Tuner], clock: BudgetClock) -> None:
    """Races of the leaders, the most important kernels first, while there is time."""
    order = sorted(tuners, key=lambda t: -t.task.weight * _finite(t.best_seconds))
    for tuner in order:
        if tuner.trials and (clock.budget.seconds is None or clock.seconds_left > 0):
            with _its_own_failure(tuner):
                tuner.finish(clock)


@contextmanager
def _its_own_failure(tuner: Tuner) -> Iterator[None]:
    """Ends the search of one kernel if it fails; the others go on."""
    try:
        yield
    except (LogError, WorkerError):
        raise
    except Exception as error:
        tuner.fail(error)


def _result(tuner: Tuner) -> TaskResult:
    best = tuner.best()
    return TaskResult(
        tuner.task,
        best,
        tuner.first_seconds,
        tuner.best_seconds,
        tuner.trials,
        dict(tuner.errors),
        confidence=tuner.confidence,
    )


def _finite(seconds: float) -> float:
    return seconds if math.isfinite(seconds) else 0.0


def _total(weighted: Iterable[tuple[float, float]]) -> float:
    return sum(weight * _finite(seconds) for weight, seconds in weighted)
