"""Compares kernels of builds of one graph inside the program, and keeps the fastest of each.

::

    base, others -> seconds of each kernel in its place -> kernels that are faster than in base
                 -> whole calls of base with these -> all of them, or none

A kernel measured alone finds its operands where it left them itself, and has a core to itself. In a
program neither need be so: a schedule that is faster alone has to prove itself here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from itertools import islice, takewhile
from typing import Any

import numpy as np

from ..autotune.comparison import COMPARISON, Verdict, compare
from ..autotune.log.decision import Decision, Option
from ..autotune.log.lookup import LogView
from ..autotune.record import robust_seconds, target_key
from ..autotune.selection.select import Chosen, Origin, candidates
from ..autotune.workload import workload_of
from ..driver.built import Built
from ..driver.pipeline import rebuilt
from ..ir.dataclass import dataclass
from ..ir.dims import typical
from .interleaved import Rounds, kernel_rounds, least_calls, whole_calls

Array = np.ndarray[Any, Any]

KERNELS_SHARE = 0.6
"""Share of the seconds for comparing kernels; the rest is for whole calls."""

FINDING_SHARE = 0.3
"""Share of the seconds for finding the fastest of several ways to make each kernel."""

RUNNERS_UP = 3
"""Schedules of a kernel that are tried in the program beside the one that is fastest alone."""
MOST_WEIGHTS = 1 << 30
"""Bytes of their packed constants."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The outcome. ``built`` has the faster kernels, ``won`` names those taken from other builds;
    ``decisions`` are for the log.

    ``workloads`` of the kernels that differ, and the ``verdicts`` on the fastest of each, are by
    name. ``before`` and ``after`` are seconds of a call of the base and of ``built``: of whole
    ``calls``, if there was time for them, else of all kernels. ``place`` has the seconds of a call
    of each kernel in the base and in ``built``, by workload.
    """

    built: Built
    workloads: Mapping[str, str] = field(default_factory=dict[str, str])
    verdicts: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])
    won: frozenset[str] = frozenset()
    decisions: tuple[Decision, ...] = ()
    before: float = 0.0
    after: float = 0.0
    calls: tuple[tuple[float, ...], ...] = ()
    place: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])


def keep_faster(
    base: Built,
    others: Sequence[Built],
    arrays: Sequence[Array],
    seconds: float,
    program: str = "",
    fits: Callable[[int], bool] = lambda _calls: True,
) -> Kept:
    """Compares builds of the same graph for about ``seconds``, and keeps the faster kernels.

    Of several ``others``, the fastest way to make each kernel is found first: it is taken if it is
    faster than that of ``base`` in rounds of these two. Whole calls are left out if that many do
    not fit into the time that is left.
    """
    changed = changed_kernels(base, *others)
    finding = FINDING_SHARE * seconds if len(others) > 1 and changed else 0.0
    tried = kernel_rounds([base, *others], arrays, finding) if finding else ()
    # What these arguments never run is as good as the log says.
    changed = {n: w for n, w in changed.items() if not tried or tried[0].calls.get(w)}
    if not changed:
        return Kept(others[0])
    other = _fastest(base, others, tried[1:], changed) if tried else others[0]
    old, new = kernel_rounds([base, other], arrays, KERNELS_SHARE * seconds - finding)
    changed = {n: w for n, w in changed.items() if old.calls.get(w)}
    if not changed:
        return Kept(other)
    verdicts = {n: compare([old.seconds[w], new.seconds[w]]) for n, w in changed.items()}
    won = frozenset(n for n, verdict in verdicts.items() if verdict.faster)
    built, calls = _with(base, other, changed, won), ()
    if won and fits(least_calls(2)):
        calls = whole_calls([base, built], arrays, (1 - KERNELS_SHARE) * seconds)
        if compare(calls).slower:
            # Each kernel gained alone but made others lose more: none is kept.
            built, won, calls = base, frozenset[str](), (calls[0], calls[0])
    taken = {changed[name] for name in won}
    place = {
        w: (robust_seconds(s), robust_seconds((new if w in taken else old).seconds[w]))
        for w, s in old.seconds.items()
    }
    ways = [(base, old), (other, new), *zip(others, tried[1:])]
    decisions = [_decision(ways, n, w, int(n in won), program) for n, w in changed.items()]
    before, after = [robust_seconds(samples) for samples in calls] or [
        sum(old.calls[w] * each[n] for w, each in place.items()) for n in (0, 1)
    ]
    return Kept(built, changed, verdicts, won, tuple(decisions), before, after, calls, place)


def _fastest(
    base: Built, others: Sequence[Built], tried: Sequence[Rounds], changed: Mapping[str, str]
) -> Built:
    """Returns ``base`` with each kernel made as in the fastest of the ``others``."""
    chosen: dict[str, Chosen] = {}
    for name, workload in changed.items():
        old = base.chosen[name].schedule
        times = {
            robust_seconds(rounds.seconds[workload]): built.chosen[name]
            for built, rounds in zip(others, tried)
            if built.chosen[name].schedule != old
        }
        chosen[workload] = times[min(times)]
    return rebuilt(base, chosen)


def _with(base: Built, other: Built, changed: Mapping[str, str], won: frozenset[str]) -> Built:
    """Returns ``base`` with the kernels of ``other`` that have won."""
    if not won or len(won) == len(changed):
        return other if won else base
    return rebuilt(base, {changed[name]: other.chosen[name] for name in won})


def with_runners_up(
    last: Built, first: Built, log: LogView, in_time: Callable[[], bool]
) -> list[Built]:
    """Returns ``last`` and builds that make each kernel by its next best schedules in a log, other
    than those of ``first``, while ``in_time`` says so."""
    assert last.parts is not None
    parts, builds = last.parts, [last]
    next_best: dict[str, list[Chosen]] = {}
    for name, prim in parts.prims.items():
        built = (last.chosen[name].schedule, first.chosen[name].schedule)
        several = candidates(prim, parts.target, parts.threads, [log])
        logged = list(takewhile(lambda chosen: chosen.origin == Origin.EXACT, several))
        limit = COMPARISON.contender * logged[0].seconds if logged else 0.0
        close = (c for c in logged if c.schedule not in built and c.seconds <= limit)
        next_best[workload_of(prim).hash] = list(islice(close, RUNNERS_UP))
    weights = sum(typical(c.region.nbytes) for c in parts.program.constants)
    for place in range(min(RUNNERS_UP, MOST_WEIGHTS // max(1, weights))):
        chosen = {w: several[place] for w, several in next_best.items() if place < len(several)}
        if not chosen or not in_time():
            break
        builds.append(rebuilt(last, chosen))
    return builds


def changed_kernels(base: Built, *others: Built) -> dict[str, str]:
    """Returns the workloads of kernels that ``others`` make by another schedule, by name, with one
    name for each workload."""
    if base.parts is None:
        return {}
    names: dict[str, str] = {}
    for name, old in base.chosen.items():
        if any(b.parts and b.chosen[name].schedule != old.schedule for b in others):
            names.setdefault(workload_of(base.parts.prims[name]).hash, name)
    return {name: workload for workload, name in names.items()}


def _decision(
    ways: Sequence[tuple[Built, Rounds]], name: str, workload: str, taken: int, program: str
) -> Decision:
    """Returns the decision about a kernel: builds with the same schedule are one option."""
    first = {built.chosen[name].schedule: n for n, (built, _) in reversed([*enumerate(ways)])}
    distinct = [ways[n] for n in sorted(first.values())]
    seconds = [rounds.seconds[workload] for _, rounds in distinct]
    return decision_between([built for built, _ in distinct], name, seconds, taken, program)


def decision_between(
    builds: Sequence[Built],
    name: str,
    seconds: Sequence[Sequence[float]],
    taken: int,
    program: str,
) -> Decision:
    """Returns the decision to make a kernel as in ``builds[taken]``; ``seconds`` are the samples of
    each build, in ``program``."""
    parts = builds[0].parts
    assert parts is not None
    ways = [built.chosen[name] for built in builds]

    def option(way: Chosen, samples: Sequence[float]) -> Option:
        return Option(way.sketch, tuple(samples), tuple(way.schedule.to_json()))

    return Decision(
        "schedule",
        workload_of(parts.prims[name]),
        target_key(parts.target, parts.threads),
        tuple(map(option, ways, seconds)),
        taken,
        program,
    )
