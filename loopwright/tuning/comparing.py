"""Comparisons of the builds that tuning made with the code that ran before."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from ..autotune.log.decision import Decision
from ..autotune.log.log_file import LogError
from ..autotune.log.log_index import log_index
from ..autotune.log.lookup import best_of, shipped_logs
from ..autotune.log.note import Note
from ..autotune.log.tuning_log import TuningLog
from ..autotune.program.in_program import InProgram, RolledBack
from ..autotune.program.program_tuner import ProgramResult, TaskResult
from ..autotune.ranges import Weights
from ..autotune.record import target_key
from ..autotune.request import TuneRequest
from ..autotune.selection.select import Chosen
from ..autotune.workload import workload_of
from ..codegen.runtime import pool
from ..codegen.target import Target
from ..driver.built import Built
from ..driver.options import session_log
from ..driver.pipeline import build, logged_choices, preferences_of, target_of
from ..ir.dataclass import dataclass
from ..ir.graph.nodes import Module
from ..ir.graph.structural import structural_hash
from ..ir.pass_context import PassContext
from ..ir.program.analysis import calls
from .at_sizes import Arguments
from .by_hand import Given
from .graph_choices import Decided, GraphTuner
from .in_place import Kept, keep_faster, with_runners_up
from .interleaved import least_calls
from .last_comparison import ComparedAt, GraphChange, Settled, compare_at, settle
from .time_plan import Stages, TimePlan
from .variants import Taken, Variants

SETTLE_CALLS = 6
"""Fewest calls of the program for the last comparison: without time for them it is left out, unless
it may have to undo something."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """A tuned module: its build with the new log, and the report of the search."""

    built: Built
    report: ProgramResult


class Comparing:
    """Compares builds, and keeps the faster one."""

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
        self.target: Target = target_of(options.get("target"), options.get("precision"))
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
