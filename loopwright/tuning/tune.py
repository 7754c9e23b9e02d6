"""Tunes a traced module: its kernels become tasks of the search engine.

::

    first build -> choices in the graph -> search of the kernels -> kernels in place
                -> the first build against the last

Loaded only when something is tuned, so that ``import loopwright`` stays quick.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..autotune.budget import Budget, parse_budget
from ..autotune.interrupts import terminable
from ..autotune.log.decision import Decision
from ..autotune.log.log_file import LogError
from ..autotune.log.log_index import log_index
from ..autotune.log.lookup import best_of, shipped_logs
from ..autotune.log.note import Note
from ..autotune.log.tuning_log import TuningLog
from ..autotune.measure.kernels import TOOLCHAIN, machine_floor, tasks_of
from ..autotune.program.in_program import InProgram, RolledBack
from ..autotune.program.native_tuning import tune_tasks
from ..autotune.program.program_tuner import ProgramResult, TaskResult
from ..autotune.progress import Silent, make_progress
from ..autotune.ranges import AtPoint, Weights
from ..autotune.record import robust_seconds, target_key
from ..autotune.request import TuneRequest
from ..autotune.search.strategies import STRATEGIES
from ..autotune.selection.select import Chosen
from ..autotune.task import Task
from ..autotune.workload import workload_of
from ..codegen.machine import known_machine
from ..codegen.runtime import pool
from ..codegen.target import Target
from ..driver.pipeline import (
    Built,
    build,
    called_kernels,
    logged_choices,
    lower_module,
    preferences_of,
    session_log,
)
from ..extras import extra
from ..face.release import give_back
from ..ir.dataclass import dataclass
from ..ir.errors import LoopwrightValueError
from ..ir.graph.nodes import Module
from ..ir.graph.structural import structural_hash
from ..ir.loop.prim import PrimFunc
from ..ir.pass_context import PassContext
from ..ir.program.analysis import calls
from ..ir.progress_line import progress
from .at_sizes import Arguments, SizeWeights, arguments_of, kernel_weights
from .by_hand import Given, schedules_by_hand
from .graph_choices import Decided, GraphTuner
from .in_place import Kept, keep_faster, with_runners_up
from .interleaved import Rounds, kernel_rounds, least_calls
from .last_comparison import ComparedAt, GraphChange, Settled, compare_at, schedule_at, settle
from .reuse import bytes_between, results_in_place
from .time_plan import Stages, TimePlan
from .variants import Taken, Variants

Array = np.ndarray[Any, Any]

SETTLE_CALLS = 6
"""Fewest calls of the program for the last comparison: without time for them it is left out, unless
it may have to undo something."""

LEAST_WORK = 2048
"""Operations or bytes of a kernel below which calling it takes longer than running it."""

PROFILE_SHARE = 0.1
"""Share of the time for choices in the graph that is spent on timing the current kernels."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """A tuned module: its build with the new log, and the report of the search."""

    built: Built
    report: ProgramResult


def tune(
    module: Module,
    arrays: Sequence[Array] | None = None,
    request: TuneRequest | None = None,
    *,
    schedules: Mapping[str, Given] | None = None,
    runner: Any = None,
    begun: float | None = None,
    weights: SizeWeights | None = None,
    **options: Any,
) -> Tuned:
    """Searches for faster schedules of the module's kernels, and appends records to the log.

    Goes on from the log's records; without a log they last as long as this process. Choices in the
    graph are measured both ways first, so that only kernels of the program are searched. In the end
    the module as it was and as it is now run interleaved on ``arrays``, those of a call (random
    ones by default): what is slower there is rolled back. With the budget "quick" there is neither:
    of every kernel that the log does not know a few candidates are measured, the default first.

    ``schedules`` are the user's own, measured first; see ``schedules_by_hand``. ``runner`` measures
    elsewhere (see ``elsewhere.py``): then nothing runs here. ``begun``, on the monotonic clock, is
    when the budget began to be spent: now by default. A module with symbolic sizes is tuned at a
    few of them, or at those that ``weights`` name, with how often each is met (``at_sizes.py``).
    ``options`` are those of ``pipeline.build``:
    target, log, threads, precision, passes, updates.
    """
    request = (request or TuneRequest()).resolved()
    if request.strategy not in STRATEGIES:
        raise LoopwrightValueError(
            f"there is no strategy {request.strategy!r}; the strategies are {', '.join(STRATEGIES)}"
        )
    arguments = arguments_of(module, arrays, weights, request.seed)
    session = _Session(module, arguments, request, schedules or {}, begun, options)
    given = session.by_hand(session.variants.of(session.logged).prims)
    session.records.check_writable()  # makes the file: only once all of the request makes sense
    if runner is not None:
        return session.elsewhere(runner)
    if session.limits.quick:
        report = session.measure_few()
        return Tuned(session.build(session.logged), report)
    tuned = session.run(given)
    return replace(tuned, report=replace(tuned.report, spent=session.stages.spent))


def measure_few(module: Module, **options: Any) -> ProgramResult:
    """Measures what the budget "quick" does, and builds nothing; ``options`` are those of
    ``pipeline.build``."""
    arguments = arguments_of(module, None, None, 0)
    session = _Session(module, arguments, TuneRequest("quick").resolved(), {}, None, options)
    session.records.check_writable()
    return session.measure_few()


def limits_of(budget: str | float | Budget | None, trials: int | None) -> Budget:
    """Returns a budget of seconds and trials; trials alone set no limit in seconds."""
    limits = parse_budget(budget) if budget is not None else Budget(trials=trials)
    return limits if trials is None else replace(limits, trials=trials)


class _Session:
    """One run of ``tune``: the state that its phases share, and the phases in their order."""

    def __init__(
        self,
        module: Module,
        arguments: Sequence[Arguments],
        request: TuneRequest,
        schedules: Mapping[str, Given],
        begun: float | None,
        options: Mapping[str, Any],
    ) -> None:
        self.module = module
        self.request = request
        self.schedules = schedules
        self.limits = request.limits
        start = time.monotonic() if begun is None else begun
        self.plan = TimePlan(self.limits, start - self.limits.spent)
        self.stages = Stages(self.plan)
        self.target: Target = options.get("target") or Target.host()
        self.threads: int = options.get("threads") or pool.get_threads()
        log = options.get("log") or session_log()
        log_index(log)  # before there is a file: it warns of a log that was removed meanwhile
        self.records = TuningLog(log)
        passes = (options.get("passes") or PassContext()).quiet()
        self.options: dict[str, Any] = {
            **options,
            "target": self.target,
            "log": log,
            "passes": passes,
        }
        self.precision = options.get("precision")
        self.passes = passes
        self.variants = Variants(module, preferences_of(self.precision, self.target), passes)
        self.key = target_key(self.target, self.threads)
        self.logged = logged_choices([self.records, *shipped_logs()], self.key)
        self.program = f"main {structural_hash(module)[:16]}"
        self.graph = GraphTuner(
            self.variants, self.build, self.key, self.program, [self.records, *shipped_logs()]
        )
        self.arguments = arguments
        """The calls on which builds are compared: one for each size."""
        self.arrays = arguments[len(arguments) // 2].arrays  # choices in the graph go by one size
        self.schedule_before: dict[str, Chosen] = {}
        """The schedule of the first build that has a workload, by its hash."""
        self.weights: dict[str, Weights] = {}
        """The points at which a kernel with symbolic sizes is tuned, by workload."""
        self.between: dict[str, dict[str, int]] = {}
        """The bytes that are touched between two uses of each operand of a kernel, by workload."""
        self.in_place: dict[str, dict[str, str]] = {}
        """The results of a kernel that are written over a parameter, by workload."""
        self.inlined: set[str] = set()
        """Workloads of kernels that are a part of the code around them: a schedule does nothing."""

    def build(
        self,
        taken: Taken | None = None,
        schedules: Mapping[str, Chosen] | None = None,
    ) -> Built:
        """Builds the module by the log, with the given choices and schedules instead."""
        built = build(self.module, **self.options, taken=taken, schedules=schedules)
        if built.parts is not None:
            for name, chosen in built.chosen.items():
                workload = workload_of(built.parts.prims[name]).hash
                self.schedule_before.setdefault(workload, chosen)
        return built

    def by_hand(self, prims: Sequence[PrimFunc]) -> dict[str, list[Any]]:
        """Returns the user's schedules as data, by workload."""
        if not self.schedules:
            return {}
        return schedules_by_hand(tasks_of(prims, self.target, self.threads), self.schedules)

    def elsewhere(self, runner: Any) -> Tuned:
        """Tunes on other machines; nothing is compared here."""

        def kernels_for(target: Target) -> list[PrimFunc]:
            preferences = preferences_of(self.precision, target)
            return called_kernels(lower_module(self.module, preferences, None, self.passes))

        request = replace(self.request, progress=self.request.progress or make_progress())
        threads = self.options.get("threads")
        report = extra("elsewhere")(
            runner, kernels_for, self.records, request, threads, self.schedules
        )
        return Tuned(self.build(self.logged), report)

    def run(self, given: Mapping[str, Sequence[Any]]) -> Tuned:
        """Runs all phases. A log that cannot be written and an interrupt end them early."""
        self.plan.build = self.plan.elapsed
        first = self.build(self.logged)
        self.plan.build = self.plan.elapsed - self.plan.build
        report = ProgramResult((), self.plan.elapsed, self.limits, "budget")
        try:
            with terminable():
                profile = self.profile(first)
                decided = self.choose(profile)
            give_back(first)
            report = self.search(decided, profile, given)
            give_back(first)
            if report.completed:
                with terminable():
                    return self.compare(first, decided, report)
            report = replace(report, decisions=decided.decisions, tried=decided.tried)
        except (LogError, KeyboardInterrupt) as error:
            stopped = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
            report = replace(report, stopped=stopped)
        skipped = (*self.stages.skipped, *report.skipped)
        return Tuned(self.build(), replace(report, skipped=skipped))

    def measure_few(self) -> ProgramResult:
        """Measures a few candidates of each kernel that the log does not know."""
        tasks = [
            task
            for task in self.tasks(self.variants.of(self.logged).prims, Decided(self.logged), None)
            if best_of([self.records], task.workload.hash, task.key) is None
            and max(task.flops, task.bytes) >= LEAST_WORK
        ]
        report = ProgramResult((), self.plan.elapsed, self.limits, "budget")
        try:
            if tasks:
                request = replace(self.request, progress=self.request.progress or Silent())
                with terminable(), progress("tuning"):
                    report = tune_tasks(tasks, TOOLCHAIN, self.records, request, shipped_logs())
        except (LogError, KeyboardInterrupt) as error:
            stopped = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
            report = replace(report, stopped=stopped)
        return replace(report, seconds=self.plan.elapsed)

    def profile(self, first: Built) -> Rounds | None:
        """Returns the times of the kernels in the current program, None if they cannot be
        measured."""

        parts = first.parts
        if parts is not None:
            self.between, self.in_place = bytes_between(parts), results_in_place(parts)
            called = {call.kernel for call in calls(parts.program) if not call.inline}
            prims = parts.prims.items()
            self.inlined |= {workload_of(p).hash for n, p in prims if n not in called}

        def measured() -> Rounds:
            (rounds,) = kernel_rounds([first], self.arrays, PROFILE_SHARE * self.plan.graph)
            each = rounds.seconds.items()
            self.plan.call = sum(robust_seconds(s) * rounds.calls[w] for w, s in each)
            constants = parts.program.constants if parts is not None else ()
            self.plan.expect_fresh(sum(c.value.nbytes for c in constants if c.value is not None))
            return rounds

        return self.stages.run("the profile", measured, None)

    def choose(self, profile: Rounds | None) -> Decided:
        """Measures choices in the graph, and logs decisions."""
        decided = self.stages.run(
            "choices in the graph",
            lambda: self.graph.decide(self.logged, self.arrays, self.plan.graph, profile),
            Decided(self.logged),
        )
        self.records.append([*decided.records, *decided.decisions])
        return decided

    def search(
        self, decided: Decided, profile: Rounds | None, given: Mapping[str, Sequence[Any]]
    ) -> ProgramResult:
        """Tunes the kernels of the program."""
        prims = self.variants.of(decided.taken).prims
        symbolic = bool(self.arguments[0].values)
        if symbolic:
            parts = self.build(decided.taken).parts
            assert parts is not None
            self.weights = kernel_weights(parts.program, parts.prims, self.arguments)
        tasks = self.tasks(prims, decided, profile)
        machine = known_machine(self.target)
        # A share of an estimated peak would say nothing.
        peak = machine.peak_flops(self.threads) if machine.measured else 0.0

        def searched() -> ProgramResult:
            by_hand = self.by_hand([*prims, *self.variants.of(self.logged).prims])
            self.plan.compete = not symbolic and len(tasks) > 1
            request = replace(
                self.request,
                races=not self.plan.compete,
                budget=self.plan.search,
                given={**by_hand, **given},
                progress=self.request.progress or make_progress(peak_flops=peak),
                peak_flops=peak,
            )
            return tune_tasks(tasks, TOOLCHAIN, self.records, request, shipped_logs())

        unsearched = ProgramResult((), self.plan.elapsed, self.limits, "budget")
        report = self.stages.run("the search", searched, unsearched)
        return replace(report, budget=self.limits, tried=decided.tried)

    def tasks(
        self, prims: Sequence[PrimFunc], decided: Decided, profile: Rounds | None
    ) -> list[Task]:
        """Returns the tasks of kernels, with the time of each in the program and its floor."""
        profiled = {} if profile is None else profile.seconds
        trips = {
            **decided.trips,
            **({w: profile.trips(w) for w in profile.places} if profile else {}),
        }
        place = {**decided.place, **{w: robust_seconds(s) for w, s in profiled.items()}}
        machine = known_machine(self.target)
        tasks = tasks_of(
            prims,
            self.target,
            self.threads,
            self.stages.failed,
            self.between,
            self.weights,
            self.in_place,
        )
        return [
            replace(
                task,
                # A kernel in a loop counts as often as the loop ran it with these arguments.
                weight=max(1, round(task.weight * trips.get(task.workload.kernel, 1.0))),
                seconds=place.get(task.workload.hash, math.inf),
                floor=machine_floor(task, machine),
                handed=self.handed(task),
            )
            for task in tasks
            if trips.get(task.workload.kernel, 1.0) and task.workload.kernel not in self.inlined
        ]

    def handed(self, task: Task) -> tuple[tuple[Any, str], ...]:
        """Returns what a kernel with symbolic sizes has so far at the point of a task."""
        chosen = self.schedule_before.get(task.workload.kernel)
        if chosen is None or not isinstance(task.compiled, AtPoint):
            return ()
        steps = schedule_at(task.compiled.prim, chosen, dict(task.compiled.point)).to_json()
        return ((steps, chosen.sketch),)

    def compare(self, first: Built, decided: Decided, report: ProgramResult) -> Tuned:
        """Runs the first and the current program interleaved, and rolls back what is slower."""
        if self.arguments[0].values:
            return self.compare_at_sizes(first, decided, report)
        seconds = self.plan.comparison
        # The graph as it is now with the schedules from before: only schedules are compared.
        before = self.build(decided.taken, dict(self.schedule_before))

        def confirmed() -> Kept:
            end = self.plan.elapsed + self.plan.leaders
            enough = 0.5 * (self.plan.elapsed + end)
            others = with_runners_up(
                self.build(decided.taken),
                before,
                self.records,
                lambda: self.plan.elapsed < enough,
            )
            share = 0.5 * seconds + max(0.0, end - self.plan.elapsed)
            return keep_faster(before, others, self.arrays, share, self.program, self.plan.fits)

        kept = self.stages.run(
            "the leaders in the program",
            confirmed,
            Kept(before, before=self.plan.call, after=self.plan.call),
            calls=least_calls(2),
            builds=1,
            late=self.plan.grace,
        )
        self.records.append(kept.decisions)
        settled = self.settle(first, before, kept, kept.built, decided.taken, 0.5 * seconds)
        self.records.append(settled.decisions)
        return self.finished(
            settled,
            kept,
            decided.taken,
            report,
            (*decided.decisions, *settled.decisions),
        )

    def compare_at_sizes(self, first: Built, decided: Decided, report: ProgramResult) -> Tuned:
        """Compares at each size: kernels in their places, then whole calls."""
        seconds = self.plan.comparison / len(self.arguments)
        compared: dict[Arguments, ComparedAt] = {}
        built = self.build(decided.taken)
        for whole, share in ((False, 0.6), (True, 0.4)):
            decisions: list[Decision] = []
            for at in self.arguments:
                if not whole or compared[at].before:
                    result = self.stages.run(
                        f"the comparison at {at.text}",
                        partial(compare_at, first, built, at, share * seconds, self.program, whole),
                        ComparedAt(0.0, 0.0),
                        late=self.plan.grace,
                    )
                    decisions += result.decisions
                    lost = (*compared[at].lost, *result.lost) if whole else result.lost
                    won = 0 if result.lost and whole else compared.get(at, result).won
                    compared[at] = replace(result, won=won, lost=lost)
                else:
                    continue
            self.records.append(decisions)
            if decisions:
                built = self.build(decided.taken)
        return self.finished_at_sizes(built, compared, decided, report)

    def finished_at_sizes(
        self,
        built: Built,
        compared: Mapping[Arguments, ComparedAt],
        decided: Decided,
        report: ProgramResult,
    ) -> Tuned:
        """Returns the report of all stages."""
        there = [(a.weight or 1.0, c) for a, c in compared.items()]
        rolled_back = tuple(r for _, c in there for r in c.lost)
        won = sum(c.won for _, c in there)
        in_program = InProgram(
            sum(w * c.before for w, c in there),
            sum(w * c.after for w, c in there),
            won + len(rolled_back),
            won,
            rolled_back,
        )
        report = replace(
            report,
            seconds=self.plan.elapsed,
            in_program=in_program if in_program.before else None,
            decisions=decided.decisions,
            skipped=(*self.stages.skipped, *report.skipped),
        )
        return Tuned(built, report)

    def settle(
        self,
        first: Built,
        before: Built,
        kept: Kept,
        last: Built,
        taken: Taken,
        seconds: float,
    ) -> Settled:
        """Compares the first build with the last."""
        points = {**self.variants.of(self.logged).sites, **self.variants.of(taken).sites}
        # Without time for more calls, those of the comparison before this one have to do.
        same = before.code_hash == first.code_hash and last is kept.built
        calls = kept.calls if same and not self.plan.fits(SETTLE_CALLS) else ()
        return self.stages.run(
            "the first build beside the last",
            lambda: settle(
                first,
                last,
                GraphChange(points, self.logged, taken),
                self.arrays,
                seconds,
                self.program,
                calls,
                seconds if self.plan.affords_fresh else 0.0,
            ),
            Settled(last, (), kept.before, kept.after),
            calls=SETTLE_CALLS if first.code_hash == last.code_hash else 0,
        )

    def finished(
        self,
        settled: Settled,
        kept: Kept,
        taken: Taken,
        report: ProgramResult,
        decisions: Sequence[Decision],
    ) -> Tuned:
        """Returns the report of all stages."""
        undone = {n: v for n, v in kept.verdicts.items() if n not in kept.won}
        rolled_back = tuple(
            RolledBack(name, kept.workloads[name], *map(float, verdict.seconds))
            for name, verdict in undone.items()
        )
        how = settled.fresh, settled.undone
        last_decisions = {d.workload.hash: d for d in decisions if d.about != "schedule"}
        calls = _called(self.variants.of(taken).workloads, report.tasks)
        with suppress(LogError):  # everything that counts is written
            data = {"program": self.program, "calls": _calls(settled.built)}
            seconds = {"before": settled.before, "after": settled.after}
            self.records.append(Note("program", {**data, **seconds}))
        report = replace(
            report,
            tasks=_as_built(report.tasks, calls, kept, settled.undone, self.records),
            seconds=self.plan.elapsed,
            in_program=InProgram(
                settled.before, settled.after, len(kept.verdicts), len(kept.won), rolled_back, *how
            ),
            decisions=tuple(last_decisions.values()),
            skipped=(*self.stages.skipped, *report.skipped),
        )
        return Tuned(settled.built, report)


def _as_built(
    results: Sequence[TaskResult], calls: Counter[str], kept: Kept, undone: bool, log: TuningLog
) -> tuple[TaskResult, ...]:
    """Returns the results of the kernels of the last build, with how often each is called, with
    their seconds in the program, so that they add up to a call, and without the new schedules that
    were rolled back: all of them if ``undone``."""
    lost = {w for name, w in kept.workloads.items() if undone or name not in kept.won}
    built: list[TaskResult] = []
    for result in results:
        task, workload = result.task, result.task.workload.hash
        if workload not in calls:
            continue
        best = best_of([log], workload, task.key)
        if workload in lost and best is not None:
            result = replace(result, best=best[1], rolled_back=True)
        # What was not compared is built as it was.
        before, after = kept.place.get(workload, (task.seconds, task.seconds))
        if math.isfinite(before):
            result = replace(result, before=before, after=before if undone else after)
        built.append(replace(result, task=replace(task, weight=calls[workload])))
    return tuple(built)


def _called(places: Counter[str], results: Sequence[TaskResult]) -> Counter[str]:
    """Returns the calls of each workload: of those that were tasks, as often as loops ran them."""
    weights = {r.task.workload.hash: r.task.weight for r in results}
    return Counter({w: max(n, weights.get(w, n)) for w, n in places.items()})


def _calls(built: Built) -> Counter[str]:
    """Returns the number of calls of each workload in a build, as its text has them."""
    assert built.parts is not None
    hashes = {name: workload_of(prim).hash for name, prim in built.parts.prims.items()}
    return Counter(hashes[call.kernel] for call in calls(built.parts.program))
