"""The last word of tuning: never slower than what was there before, nor than plain NumPy.

::

    the first build, what tuning ended with, NumPy -> whole calls in turn -> the fastest, for good

Kernels and choices have been compared each by itself, in its place; this looks at all of them
together. Where the first build turns out to be faster than the last one, its choices and schedules
are written down as decisions, so that every later build makes them again. Where NumPy is faster
than either, it is what runs the function.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..autotune.comparison import COMPARISON, compare
from ..autotune.log.decision import COMPILED, Decision, Option
from ..autotune.log.record import TargetKey, Workload, own_version, robust_seconds, timestamp
from ..autotune.log.tuning_log import TuningLog
from ..autotune.workload import workload_of
from ..ir.errors import LoopwrightError
from ..ir.graph.choices import Site
from ..pipeline import Built, by_plain_numpy
from ..release import is_plain
from .confirm import schedule_decision
from .in_turn import whole_calls
from .plain_numpy import PlainNumpy, numpy_name, program_key
from .variants import Taken, current

__all__ = ["Settled", "settle"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Settled:
    """What is built from now on, what was decided, and seconds of whole calls: of the first build
    and of the last."""

    built: Built
    decisions: tuple[Decision, ...]
    before: float
    after: float


def settle(
    first: Built,
    ended: Built,
    choices: tuple[Mapping[str, Site], Taken, Taken],
    rebuild: Callable[[], Built],
    log: TuningLog,
    key: TargetKey,
    arrays: Sequence[Array],
    seconds: float,
    program: str = "",
    calls: Sequence[tuple[float, ...]] = (),
) -> Settled:
    """Compare for about ``seconds``. ``choices`` are the sites of the graph, and what was taken at
    first and in the end; ``rebuild`` builds by the log, to which decisions are appended at once.
    ``calls`` are seconds of whole calls of the two builds, if there is no time to run them again,
    nor NumPy."""
    assert ended.source is not None
    module = ended.source.module
    plain = by_plain_numpy(ended) if PlainNumpy.fits(module) and not calls else None
    if plain is not None and _is_hopeless(plain, ended, arrays):
        plain = None
    others = [plain] if plain is not None else []
    rounds = calls or _apart([first, ended, *others], arrays, seconds)
    decisions: list[Decision] = []
    built, took = ended, rounds[1]
    left_alone = is_plain(first)
    if not left_alone and compare(rounds[:2]).slower:
        decisions += _back(first, ended, choices, key, rounds, program)
        log.append(decisions)
        built, took = rebuild(), rounds[0]
    if plain is not None:
        taken = compare([took, rounds[2]]).clearly_faster
        options = Option(COMPILED, took), Option(numpy_name(), rounds[2])
        site = Workload(program_key(module), f"the whole of {program}" if program else "all")
        decision = _decision("route", site, key, options, int(taken), program)
        log.append([decision])
        decisions.append(decision)
        if taken:
            built, took = by_plain_numpy(built), rounds[2]
    return Settled(built, tuple(decisions), robust_seconds(rounds[0]), robust_seconds(took))


def _apart(
    builds: Sequence[Built], arrays: Sequence[Array], seconds: float
) -> list[tuple[float, ...]]:
    """Whole calls, code of ours in turn, and then NumPy's: not in turn with ours, because the
    threads of its library keep cores that ours wants after every call. A program on both of two
    cores seemed to take twice as long so."""
    found: dict[int, tuple[float, ...]] = {}
    for plain in (False, True):
        mine = [n for n, built in enumerate(builds) if is_plain(built) is plain]
        if mine:
            share = seconds * len(mine) / len(builds)
            found |= zip(mine, whole_calls([builds[n] for n in mine], arrays, share))
    return [found[n] for n in range(len(builds))]


def _is_hopeless(plain: Built, ended: Built, arrays: Sequence[Array]) -> bool:
    (once,) = whole_calls([ended], arrays, 0.0)
    begun = time.perf_counter()
    try:
        plain.call(arrays)
    except LoopwrightError:  # NumPy does not give what the graph promises
        return True
    return time.perf_counter() - begun > COMPARISON.hopeless * min(once)


def _back(
    first: Built,
    ended: Built,
    choices: tuple[Mapping[str, Site], Taken, Taken],
    key: TargetKey,
    rounds: Sequence[tuple[float, ...]],
    program: str,
) -> Iterator[Decision]:
    """Decisions for all that the first build did otherwise; the seconds are of whole calls."""
    sites, before, after = choices
    for site in sites.values():
        old, new = current(site, before), current(site, after)
        if old != new:
            options = Option(new, rounds[1]), Option(old, rounds[0])
            where = Workload(site.key, site.text)
            yield _decision(site.about, where, key, options, 1, program)
    assert first.parts is not None and ended.parts is not None
    now = {workload_of(p).hash: ended.chosen[n] for n, p in ended.parts.prims.items()}
    for name, prim in first.parts.prims.items():
        workload = workload_of(prim)
        old, new = first.chosen[name], now.get(workload.hash)
        if new is None or old == new:
            continue
        ways = [COMPILED if c.origin != "library" else c.sketch for c in (old, new)]
        if ways[0] != ways[1]:
            options = Option(ways[1], rounds[1]), Option(ways[0], rounds[0])
            yield _decision("route", workload, key, options, 1, program)
        elif old.schedule != new.schedule:
            both = first, _named(ended, name, workload.hash)
            yield schedule_decision(both, name, rounds[:2], 0, program)


def _named(built: Built, name: str, workload: str) -> Built:
    """A build in which the kernel of a workload has a certain name."""
    assert built.parts is not None
    other = next(n for n, p in built.parts.prims.items() if workload_of(p).hash == workload)
    return replace(built, chosen={**built.chosen, name: built.chosen[other]})


def _decision(
    about: str,
    workload: Workload,
    key: TargetKey,
    options: tuple[Option, ...],
    taken: int,
    program: str,
) -> Decision:
    return Decision(about, workload, key, options, taken, program, timestamp(), own_version())
