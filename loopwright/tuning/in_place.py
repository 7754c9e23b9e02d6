"""Compares kernels of two builds of one graph inside the program, and keeps the faster of each.

::

    base, other -> seconds of each kernel in its place -> kernels of ``other`` that are faster
                -> whole calls of base with these -> all of them, or none

A kernel measured alone finds its operands where it left them itself, and has a core to itself. In a
program neither need be so: a schedule that is faster alone has to prove itself here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ..autotune.comparison import Verdict, compare
from ..autotune.log.decision import Decision, Option
from ..autotune.log.record import robust_seconds, target_key
from ..autotune.select import Chosen
from ..autotune.workload import workload_of
from ..ir.dataclass import dataclass
from ..pipeline import Built, rebuilt
from .interleaved import kernel_rounds, least_calls, whole_calls

__all__ = ["Kept", "changed_kernels", "decision_between", "keep_faster"]

Array = np.ndarray[Any, Any]

KERNELS_SHARE = 0.6
"""Share of the seconds for comparing kernels; the rest is for whole calls."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The outcome. ``built`` has the faster kernels, ``won`` names those taken from the other
    build; ``decisions`` are for the log.

    ``workloads`` of the kernels that differ, and their ``verdicts``, are by name. ``before`` and
    ``after`` are seconds of a call of the base and of ``built``: of whole ``calls``, if there was
    time for them, else of all kernels.
    """

    built: Built
    workloads: Mapping[str, str] = field(default_factory=dict[str, str])
    verdicts: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])
    won: frozenset[str] = frozenset()
    decisions: tuple[Decision, ...] = ()
    before: float = 0.0
    after: float = 0.0
    calls: tuple[tuple[float, ...], ...] = ()


def keep_faster(
    base: Built,
    other: Built,
    arrays: Sequence[Array],
    seconds: float,
    program: str = "",
    fits: Callable[[int], bool] = lambda calls: True,
) -> Kept:
    """Compares two builds of the same graph for about ``seconds``, and keeps the faster kernels.

    A kernel of ``other`` is taken if it is faster in its place. Whole calls are left out if that
    many calls do not fit into the time that is left.
    """
    changed = changed_kernels(base, other)
    if not changed:
        return Kept(other)
    old, new = kernel_rounds([base, other], arrays, KERNELS_SHARE * seconds)
    # What these arguments never run is as good as the log says.
    unseen = frozenset(n for n, w in changed.items() if not old.calls.get(w))
    changed = {n: w for n, w in changed.items() if n not in unseen}
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
    now = {w: (new if w in taken else old).seconds[w] for w in old.seconds}
    decisions = [
        decision_between([base, other], n, [old.seconds[w], new.seconds[w]], int(n in won), program)
        for n, w in changed.items()
    ]
    before, after = [robust_seconds(samples) for samples in calls] or [
        sum(old.calls[w] * robust_seconds(s) for w, s in each.items())
        for each in (old.seconds, now)
    ]
    return Kept(built, changed, verdicts, won, tuple(decisions), before, after, calls)


def changed_kernels(base: Built, other: Built) -> dict[str, str]:
    """Returns the workloads of kernels that ``other`` makes by another schedule, by name, with one
    name for each workload."""
    if base.parts is None or other.parts is None:
        return {}
    names: dict[str, str] = {}
    for name, chosen in other.chosen.items():
        old = base.chosen.get(name)
        if old is not None and old.schedule != chosen.schedule:
            names.setdefault(workload_of(other.parts.prims[name]).hash, name)
    return {name: workload for workload, name in names.items()}


def _with(base: Built, other: Built, changed: Mapping[str, str], won: frozenset[str]) -> Built:
    """Returns ``base`` with the kernels of ``other`` that have won."""
    if not won or len(won) == len(changed):
        return other if won else base
    return rebuilt(base, {changed[name]: other.chosen[name] for name in won})


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
