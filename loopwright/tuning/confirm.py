"""The last comparison of tuning: the program as it was and as the log now builds it, in turn.

::

    before, rebuild() -> seconds of each kernel in place -> decisions in the log -> rebuild()

What is not faster in place than the schedule that was built before is rolled back, by a decision in
the log, so that every later build heeds it; see ``autotune.decision``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..autotune.comparison import compare
from ..autotune.log.decision import Decision, Option
from ..autotune.log.record import own_version, robust_seconds, target_key, timestamp
from ..autotune.log.tuning_log import TuningLog
from ..autotune.program.in_program import InProgram, RolledBack
from ..autotune.workload import workload_of
from ..pipeline import Built
from .in_turn import Rounds, least_calls, run_in_turn, whole_calls

__all__ = ["Confirmed", "confirm", "schedule_decision"]

Array = np.ndarray[Any, Any]

_KERNELS_SHARE = 0.6
"""Of the seconds: for the kernels in place; the rest is for whole calls."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """What is built from now on, and the report."""

    built: Built
    report: InProgram
    calls: tuple[tuple[float, ...], ...] = ()
    """Seconds of whole calls of the first build and of this one, if there was time for them."""


def confirm(
    before: Built,
    rebuild: Callable[[], Built],
    log: TuningLog,
    arrays: Sequence[Array],
    seconds: float,
    program: str = "",
    first: Built | None = None,
    fits: Callable[[int], bool] = lambda calls: True,
) -> Confirmed:
    """Compare ``before`` with what ``rebuild`` makes of the log, and roll back what is slower.

    ``first`` is what the report compares with, if that is another graph than ``before``. Takes
    about ``seconds`` beside the builds; comparisons of whole calls are left out if so many calls do
    not fit into what is left of the budget. LogError if a decision cannot be written: then nothing
    is rolled back.
    """
    after = rebuild()
    changed = _changed(before, after)
    first = first or before
    if not changed:
        old, new = whole_calls([first, after], arrays, seconds / 4)
        report = InProgram(robust_seconds(old), robust_seconds(new))
        return Confirmed(after, report, (old, new))
    rounds = run_in_turn([before, after], arrays, seconds * _KERNELS_SHARE)
    faster = {name: _is_faster(rounds, workload) for name, workload in changed.items()}
    # What is not faster in place is not worth a change: the schedule from before stays.
    slower = {name for name in changed if not faster[name]}
    log.append([_decision(before, after, n, rounds, program, f) for n, f in faster.items()])
    built = rebuild() if slower else after

    def whole() -> tuple[tuple[float, ...], ...]:
        builds = [before, built, first]
        if not fits(least_calls(len({b.code_hash for b in builds}))):
            return ()
        return whole_calls(builds, arrays, seconds * (1 - _KERNELS_SHARE))

    calls = whole()
    still = {name for name in changed if name not in slower}
    if calls and still and compare(calls[:2]).slower:
        # Kernels that gained each on their own, but made the others lose more: none of it is kept.
        log.append([_decision(before, after, n, rounds, program, False) for n in sorted(still)])
        slower, built = {*changed}, rebuild()
        calls = whole() or (calls[0], calls[0], calls[2])
    if calls:
        old, new = calls[2], calls[1]
    else:
        undone = {changed[name] for name in slower}
        kept = {w: rounds[w not in undone].seconds[w] for w in rounds[1].seconds}
        old, new = _sums(rounds[0]), _sums(replace(rounds[1], seconds=kept))
    report = InProgram(
        robust_seconds(old),
        robust_seconds(new),
        changed=len(changed),
        confirmed=len(changed) - len(slower),
        rolled_back=tuple(_told(rounds, n, w) for n, w in changed.items() if n in slower),
    )
    return Confirmed(built, report, (old, new) if calls else ())


def _sums(rounds: Rounds) -> tuple[float, ...]:
    """Seconds of all kernels together in every round."""
    each = [[rounds.calls[w] * s for s in seconds] for w, seconds in rounds.seconds.items()]
    return tuple(map(sum, zip(*each)))


def _changed(before: Built, after: Built) -> dict[str, str]:
    """The kernels with another schedule than before: one name for each workload."""
    if before.parts is None or after.parts is None:
        return {}
    found: dict[str, str] = {}
    for name, chosen in after.chosen.items():
        old = before.chosen.get(name)
        if old is not None and old.schedule != chosen.schedule:
            found.setdefault(workload_of(after.parts.prims[name]).hash, name)
    return {name: workload for workload, name in found.items()}


def _is_faster(rounds: Sequence[Rounds], workload: str) -> bool:
    old, new = (r.seconds.get(workload, ()) for r in rounds)
    return bool(old and new) and compare([old, new]).faster


def _told(rounds: Sequence[Rounds], name: str, workload: str) -> RolledBack:
    old, new = (robust_seconds(r.seconds[workload]) for r in rounds)
    return RolledBack(name, workload, old, new)


def _decision(
    before: Built, after: Built, name: str, rounds: Sequence[Rounds], program: str, faster: bool
) -> Decision:
    assert after.parts is not None
    workload = workload_of(after.parts.prims[name]).hash
    seconds = [each.seconds[workload] for each in rounds]
    return schedule_decision((before, after), name, seconds, int(faster), program)


def schedule_decision(
    builds: Sequence[Built],
    name: str,
    seconds: Sequence[tuple[float, ...]],
    taken: int,
    program: str,
) -> Decision:
    """That a kernel gets the schedule it has in ``builds[taken]``; ``seconds`` are the samples of
    each build, in ``program``."""
    parts = builds[0].parts
    assert parts is not None
    options = tuple(
        Option(built.chosen[name].sketch, samples, tuple(built.chosen[name].schedule.to_json()))
        for built, samples in zip(builds, seconds)
    )
    return Decision(
        "schedule",
        workload_of(parts.prims[name]),
        target_key(parts.target, parts.threads),
        options,
        taken,
        program,
        timestamp(),
        own_version(),
    )
