"""Tunes a traced module: its kernels become tasks of the search engine.

::

    first build -> choices in the graph -> search of the kernels -> kernels in place
                -> the first build against the last

Loaded only when something is tuned, so that ``import loopwright`` stays quick.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..autotune.budget import Budget, parse_budget
from ..autotune.interrupts import terminable
from ..autotune.log.log_file import LogError
from ..autotune.log.lookup import best_of, shipped_logs
from ..autotune.measure.kernels import TOOLCHAIN, machine_floor, tasks_of
from ..autotune.program.native_tuning import tune_tasks
from ..autotune.program.program_tuner import ProgramResult
from ..autotune.progress import Progress, Silent, make_progress
from ..autotune.ranges import AtPoint
from ..autotune.record import robust_seconds
from ..autotune.request import TuneRequest
from ..autotune.search.strategies import STRATEGIES
from ..autotune.task import Task
from ..autotune.workload import workload_of
from ..codegen.machine import known_machine
from ..codegen.target import Target
from ..driver.built import Built
from ..driver.pipeline import called_kernels, lower_module, preferences_of
from ..extras import extra
from ..face.release import give_back
from ..ir.errors import LoopwrightValueError
from ..ir.graph.nodes import Module
from ..ir.loop.prim import PrimFunc
from ..ir.program.analysis import calls
from ..ir.progress_line import progress
from .at_sizes import SizeWeights, arguments_of, kernel_weights
from .by_hand import Given, schedules_by_hand
from .comparing import Comparing, Tuned
from .graph_choices import Decided
from .interleaved import Rounds, kernel_rounds
from .last_comparison import schedule_at
from .reuse import bytes_between, results_in_place

Array = np.ndarray[Any, Any]


LEAST_WORK = 2048
"""Operations or bytes of a kernel below which calling it takes longer than running it."""

PROFILE_SHARE = 0.1
"""Share of the time for choices in the graph that is spent on timing the current kernels."""


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


def displayed(peak: float = 0.0) -> Progress:
    """Returns the display that suits the terminal, the file or the notebook that this runs in."""
    if "ipykernel" in sys.modules and find_spec("ipywidgets"):  # tqdm's bar is made of these
        return extra("notebook_progress")()
    return make_progress(peak_flops=peak)


class _Session(Comparing):
    """One run of ``tune``: the state that its phases share, and the phases in their order."""

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

        request = replace(self.request, progress=self.request.progress or displayed())
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
                progress=self.request.progress or displayed(peak),
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
