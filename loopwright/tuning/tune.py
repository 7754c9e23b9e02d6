"""Tuning a traced module: its kernels become tasks of the search engine.

Loaded only when something is tuned, so that ``import loopwright`` stays quick.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..autotune.budget import Budget, parse_budget
from ..autotune.interrupts import terminable
from ..autotune.log.decision import Decision
from ..autotune.log.log_file import LogError
from ..autotune.log.log_index import log_index
from ..autotune.log.lookup import best_of, shipped_logs
from ..autotune.log.note import Note
from ..autotune.log.record import robust_seconds, target_key
from ..autotune.log.tuning_log import TuningLog
from ..autotune.measure.kernels import TOOLCHAIN, machine_floor, tasks_of
from ..autotune.program.in_program import InProgram
from ..autotune.program.native_tuning import tune_tasks
from ..autotune.program.program_tuner import ProgramResult, TaskResult
from ..autotune.progress import Progress, make_progress
from ..autotune.request import TuneRequest
from ..autotune.search.strategies import DEFAULT_STRATEGY, STRATEGIES
from ..autotune.select import Chosen
from ..autotune.workload import workload_of
from ..codegen.machine import known_machine
from ..codegen.program_from_graph import NewValue
from ..codegen.runtime import pool
from ..codegen.target import Target
from ..extras import extra
from ..ir.errors import LoopwrightValueError
from ..ir.graph.nodes import Module
from ..ir.graph.structural import structural_hash
from ..ir.loop.prim import PrimFunc
from ..ir.pass_context import PassContext
from ..ir.program.nodes import Call
from ..pipeline import (
    Built,
    build,
    logged_choices,
    logged_routes,
    own_schedules,
    preferences_of,
    refuse_symbolic,
    session_log,
)
from ..precision import Precision
from ..release import give_back
from .by_hand import Given, schedules_by_hand
from .confirm import Confirmed, confirm
from .graph_choices import Decided, GraphTuner
from .in_turn import Rounds, least_calls, random_arrays, run_in_turn
from .library_route import Routed, route
from .settle import Settled, settle
from .stages import Stages
from .time_plan import TimePlan
from .variants import Taken, Variants

__all__ = ["Tuned", "tune"]

Array = np.ndarray[Any, Any]

NO_ROUTES: Mapping[str, str] = {}

ROUTE_CALLS, SETTLE_CALLS = 8, 6
"""Calls of the program that two comparisons make at least: without time for them they are left out,
unless the second may have to undo something."""

PROFILE_SHARE = 0.1
"""Of the time for choices in the graph: to see what each kernel takes in the program as it is."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """The module as the log now builds it, and the report of the search."""

    built: Built
    report: ProgramResult


def tune(
    module: Module,
    arrays: Sequence[Array] | None = None,
    *,
    target: Target | None = None,
    log: Path | None = None,
    threads: int | None = None,
    precision: Precision | None = None,
    budget: str | float | Budget | None = None,
    trials: int | None = None,
    seed: int = 0,
    strategy: str = DEFAULT_STRATEGY,
    schedules: Mapping[str, Given] | None = None,
    progress: Progress | None = None,
    passes: PassContext | None = None,
    runner: Any = None,
    begun: float | None = None,
    updates: Sequence[NewValue] = (),
) -> Tuned:
    """Search for faster schedules of the module's kernels, and append what is measured to ``log``.

    Goes on from what the log knows. Without a log the records last as long as this process. First
    the choices in the graph are measured both ways, and those that were near once more when their
    kernels are tuned; see ``graph_choices``. At the end the module as it was and as it is now are
    run in turn on ``arrays``, those of a call (random ones if there are none): what is slower there
    is rolled back, see ``confirm``. ``schedules`` are measured first; see ``schedules_by_hand``.
    ``runner`` measures elsewhere (see ``elsewhere``): then nothing runs here, nor at the end.
    ``begun``, on the monotonic clock, is when the budget began to be spent: now by default.
    ``updates`` are the results that are new values of parameters.
    """
    refuse_symbolic(module)
    limits = _limits(budget, trials)
    plan = TimePlan(limits, (time.monotonic() if begun is None else begun) - limits.spent)
    if strategy not in STRATEGIES:
        raise LoopwrightValueError(
            f"there is no strategy {strategy!r}; the strategies are {', '.join(STRATEGIES)}"
        )
    target = target or Target.host()
    used = threads or pool.get_threads()
    own = log or session_log()
    log_index(own)  # before there is a file: it warns of a log that was removed in the meantime
    records = TuningLog(own)
    passes = (passes or PassContext()).quiet()
    variants = Variants(module, preferences_of(precision, target), passes)
    key = target_key(target, used)
    logged = logged_choices([records, *shipped_logs()], key)
    known: dict[str, Chosen] = {}  # by workload: the schedule that was built first

    def made(
        taken: Taken | None = None,
        older: Mapping[str, Chosen] | None = None,
        routes: Mapping[str, str] | None = NO_ROUTES,  # a library is asked for last
    ) -> Built:
        built = build(
            module,
            target=target,
            log=own,
            threads=threads,
            precision=precision,
            passes=passes,
            taken=taken,
            schedules=older,
            routes=routes,
            updates=updates,
        )
        if built.parts is not None and routes is NO_ROUTES:
            for name, chosen in built.chosen.items():
                known.setdefault(workload_of(built.parts.prims[name]).hash, chosen)
        return built

    def by_hand(prims: Sequence[PrimFunc]) -> dict[str, list[Any]]:
        names = {prim.name for prim in prims}
        own = {n: s for n, s in own_schedules(module).items() if n in names}
        by_kernel = {**own, **(schedules or {})}
        return schedules_by_hand(tasks_of(prims, target, used), by_kernel) if by_kernel else {}

    given = by_hand(variants.of(logged).prims)
    records.check_writable()  # makes the file: only once all that was asked for makes sense
    if runner is not None:
        report = extra("elsewhere")(
            runner,
            module,
            records,
            limits,
            threads,
            precision,
            passes,
            strategy,
            seed,
            progress,
            schedules,
        )
        return Tuned(made(logged, routes=None), report)
    plan.build = plan.elapsed
    first = made(logged)
    plan.build = plan.elapsed - plan.build
    if logged_routes([records, *shipped_logs()], key):
        first = made(logged, routes=None)
    operands = random_arrays(module, seed) if arrays is None else list(arrays)
    graph = GraphTuner(variants, made, key, _name(module))
    stages = Stages(plan)
    unprofiled = Rounds({}, {})

    def profiled() -> Rounds:
        (profile,) = run_in_turn([first], operands, PROFILE_SHARE * plan.graph)
        plan.call = sum(robust_seconds(s) * profile.calls[w] for w, s in profile.seconds.items())
        return profile

    try:
        with terminable():
            profile = stages.run("the profile", profiled, lambda: unprofiled)
            known_profile = None if profile is unprofiled else profile
            decided = stages.run(
                "choices in the graph",
                lambda: graph.decide(logged, operands, plan.graph, profile=known_profile),
                lambda: Decided(logged, ()),
            )
            records.append(decided.decisions)
    except KeyboardInterrupt:
        stopped = ProgramResult((), plan.elapsed, limits, "interrupted")
        return Tuned(made(routes=None), stopped)
    give_back(first)
    machine = known_machine(target)
    # A share of an estimated peak would say nothing.
    peak = machine.peak_flops(used) if machine.measured else 0.0
    # Kernels that are only used if a choice is made again, and the sites of those.
    contenders, sites = (decided.contenders, decided.sites) if plan.again else ((), frozenset())
    prims = [*variants.of(decided.taken).prims, *contenders]
    place = {**decided.place, **{w: robust_seconds(s) for w, s in profile.seconds.items()}}
    tasks = [
        replace(
            task,
            seconds=place.get(task.workload.hash, math.inf),
            floor=machine_floor(task, machine),
        )
        for task in tasks_of(prims, target, used, stages.failed)
    ]

    def searched() -> ProgramResult:
        return tune_tasks(
            tasks,
            TOOLCHAIN,
            records,
            TuneRequest(
                plan.search(again=bool(sites)),
                strategy,
                seed,
                given={**by_hand([*prims, *variants.of(logged).prims]), **given},
                progress=progress or make_progress(peak_flops=peak),
                peak_flops=peak,
            ),
            shipped_logs(),
        )

    report = stages.run(
        "the search", searched, lambda: ProgramResult((), plan.elapsed, limits, "budget")
    )
    report = replace(report, budget=limits)
    give_back(first)
    if report.stopped not in ("budget", "exhausted", "converged"):
        report = replace(
            report, decisions=decided.decisions, skipped=(*stages.skipped, *report.skipped)
        )
        return Tuned(made(routes=None), report)

    def confirmed() -> Confirmed:
        # The graph as it is now, with the schedules from before: only those are compared.
        before = made(again.taken, dict(known))
        return confirm(
            before, made, records, operands, 0.5 * seconds, graph.program, first, plan.fits
        )

    def unconfirmed() -> Confirmed:
        return Confirmed(made(again.taken, dict(known)), InProgram(plan.call, plan.call))

    try:
        with terminable():
            again = stages.run(
                "choices in the graph, again",
                lambda: graph.decide(decided.taken, operands, plan.again, sites),
                lambda: Decided(decided.taken, ()),
            )
            records.append(again.decisions)
            seconds = plan.comparison
            ended = stages.run(
                "the last comparison",
                confirmed,
                unconfirmed,
                calls=least_calls(2),
                builds=1,
                late=plan.grace,
            )
            routed = stages.run(
                "the library",
                lambda: route(ended.built, operands, 0.2 * seconds, graph.program),
                lambda: Routed(ended.built),
                calls=ROUTE_CALLS,
                builds=1,
            )
            records.append(routed.decisions)
            sites_of = {**variants.of(logged).sites, **variants.of(again.taken).sites}
            # What was just compared need not be again if there is no time for it.
            compared = ended.calls if routed.built is ended.built else ()
            in_time = plan.fits(SETTLE_CALLS)
            settled = stages.run(
                "the first build beside the last",
                lambda: settle(
                    first,
                    routed.built,
                    (sites_of, logged, again.taken),
                    lambda: made(routes=None),
                    records,
                    key,
                    operands,
                    0.3 * seconds,
                    graph.program,
                    () if in_time else compared,
                ),
                lambda: Settled(routed.built, (), ended.report.before, ended.report.after),
                calls=SETTLE_CALLS if first.code_hash == routed.built.code_hash else 0,
            )
    except (LogError, KeyboardInterrupt) as error:
        stopped = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        return Tuned(made(routes=None), replace(report, stopped=stopped))
    final = replace(ended.report, before=settled.before, after=settled.after)
    made_choices = (*decided.decisions, *again.decisions, *routed.decisions, *settled.decisions)
    undone = {r.workload for r in ended.report.rolled_back}
    calls = variants.of(again.taken).workloads
    with suppress(LogError):  # everything that counts is written
        records.append(Note("program", {"program": graph.program, "calls": _calls(settled.built)}))
    report = replace(
        report,
        tasks=_as_built(report.tasks, calls, undone, records),
        seconds=plan.elapsed,
        in_program=final,
        decisions=_last_of([d for d in made_choices if d.about != "schedule"]),
        skipped=(*stages.skipped, *report.skipped),
    )
    return Tuned(settled.built, report)


def _as_built(
    results: Sequence[TaskResult], calls: Counter[str], undone: Set[str], log: TuningLog
) -> tuple[TaskResult, ...]:
    """What tuning did for the kernels that are built in the end, called so often, given that some
    new schedules were rolled back."""
    found: list[TaskResult] = []
    for result in results:
        task = result.task
        if task.workload.hash not in calls:
            continue
        result = replace(result, task=replace(task, weight=calls[task.workload.hash]))
        kept = best_of([log], task.workload.hash, task.key)
        if task.workload.hash in undone and kept is not None:
            result = replace(result, best=kept[1], after=kept[1].cost, rolled_back=True)
        found.append(result)
    return tuple(found)


def _calls(built: Built) -> Counter[str]:
    """How often a build calls its kernels, by workload."""
    assert built.parts is not None
    hashes = {name: workload_of(prim).hash for name, prim in built.parts.prims.items()}
    return Counter(hashes[i.kernel] for i in built.parts.program.body if isinstance(i, Call))


def _last_of(decisions: Sequence[Decision]) -> tuple[Decision, ...]:
    """The last decision about each site."""
    return tuple({d.workload.hash: d for d in decisions}.values())


def _name(module: Module) -> str:
    """Which program it is, for people and for comparing."""
    return f"main {structural_hash(module)[:16]}"


def _limits(budget: str | float | Budget | None, trials: int | None) -> Budget:
    """Seconds and trials together; trials alone set no limit in seconds."""
    limits = parse_budget(budget) if budget is not None else Budget(trials=trials)
    return limits if trials is None else replace(limits, trials=trials)
