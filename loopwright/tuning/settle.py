"""The last comparison: the tuned program is never slower than before, nor than plain NumPy.

::

    the first build, the last build; plain NumPy -> whole calls -> the fastest, for good

Kernels and choices in the graph were compared one by one, each in its place; this comparison is of
all of them together. If the first build is faster than the last one, its choices and schedules
become decisions in the log, so that every later build makes them again. If plain NumPy is clearly
faster than compiled code, NumPy runs the function.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..autotune.comparison import COMPARISON, compare
from ..autotune.log.decision import COMPILED, Decision, Option
from ..autotune.log.record import Workload, robust_seconds, target_key
from ..autotune.select import Origin
from ..autotune.workload import workload_of
from ..ir.dataclass import dataclass
from ..ir.errors import LoopwrightError
from ..ir.graph.choices import Site
from ..pipeline import Built, by_plain_numpy
from ..release import is_plain
from .in_place import decision_between
from .interleaved import whole_calls
from .plain_numpy import PlainNumpy, numpy_name, program_key
from .variants import Taken, current

__all__ = ["GraphChange", "Settled", "settle"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class GraphChange:
    """The choice points of a graph by key, and the options of the first and of the last build."""

    points: Mapping[str, Site]
    before: Taken
    after: Taken


@dataclass(frozen=True, slots=True)
class Settled:
    """The build to use from now on, decisions for the log, and seconds of whole calls: ``before``
    of the first build and ``after`` of this one."""

    built: Built
    decisions: tuple[Decision, ...]
    before: float
    after: float


def settle(
    first: Built,
    last: Built,
    change: GraphChange,
    arrays: Sequence[Array],
    seconds: float,
    program: str = "",
    calls: Sequence[Sequence[float]] = (),
) -> Settled:
    """Compares for about ``seconds``. ``calls`` are seconds of whole calls of the two builds, for
    when there is no time to run them and NumPy again."""
    plain = None if calls else _plain_numpy(last, arrays)
    rounds = calls or _whole_calls([first, last, *([plain] if plain else [])], arrays, seconds)
    built, took = last, rounds[1]
    decisions: list[Decision] = []
    if not is_plain(first) and compare(rounds[:2]).slower:
        decisions += _back(first, last, change, rounds, program)
        built, took = first, rounds[0]
    if plain is not None:
        faster = compare([took, rounds[2]]).clearly_faster
        options = Option(COMPILED, tuple(took)), Option(numpy_name(), tuple(rounds[2]))
        decisions.append(_about_numpy(last, options, faster, program))
        if faster:
            built, took = by_plain_numpy(built), rounds[2]
    before, after = (robust_seconds(tuple(samples)) for samples in (rounds[0], took))
    return Settled(built, tuple(decisions), before, after)


def _plain_numpy(last: Built, arrays: Sequence[Array]) -> Built | None:
    """Returns the function run by NumPy; None if NumPy lacks an operator of it, or is far
    slower."""
    assert last.source is not None
    if not PlainNumpy.fits(last.source.module):
        return None
    plain = by_plain_numpy(last)
    (once,) = whole_calls([last], arrays, 0.0)
    begun = time.perf_counter()
    try:
        plain.call(arrays)
    except LoopwrightError:  # NumPy's results are not what the graph promises
        return None
    took = time.perf_counter() - begun
    return plain if took <= COMPARISON.hopeless * min(once) else None


def _whole_calls(
    builds: Sequence[Built], arrays: Sequence[Array], seconds: float
) -> list[tuple[float, ...]]:
    """Returns whole calls of compiled builds, interleaved, and those of NumPy after them: the
    threads of NumPy's library keep cores busy after every call, and made a program on two cores
    seem to take twice as long."""
    samples: dict[int, tuple[float, ...]] = {}
    for plain in (False, True):
        group = [n for n, built in enumerate(builds) if is_plain(built) is plain]
        if group:
            share = seconds * len(group) / len(builds)
            samples |= zip(group, whole_calls([builds[n] for n in group], arrays, share))
    return [samples[n] for n in range(len(builds))]


def _about_numpy(
    built: Built, options: tuple[Option, Option], taken: bool, program: str
) -> Decision:
    assert built.source is not None and built.parts is not None
    text = f"the whole of {program}" if program else "all"
    where = Workload(program_key(built.source.module), text)
    key = target_key(built.parts.target, built.parts.threads)
    return Decision("route", where, key, options, int(taken), program)


def _back(
    first: Built,
    last: Built,
    change: GraphChange,
    rounds: Sequence[Sequence[float]],
    program: str,
) -> Iterator[Decision]:
    """Returns decisions for all choices in which the first build differs, with the seconds of whole
    calls."""
    assert first.parts is not None and last.parts is not None
    key = target_key(first.parts.target, first.parts.threads)
    seconds = [tuple(samples) for samples in rounds]
    for point in change.points.values():
        ways = current(point, change.before), current(point, change.after)
        if ways[0] != ways[1]:
            options = Option(ways[0], seconds[0]), Option(ways[1], seconds[1])
            where = Workload(point.key, point.text)
            yield Decision(point.about, where, key, options, 0, program)
    now = {workload_of(p).hash: last.chosen[n] for n, p in last.parts.prims.items()}
    for name, prim in first.parts.prims.items():
        old, new = first.chosen[name], now.get(workload_of(prim).hash)
        library = new is not None and Origin.LIBRARY in (old.origin, new.origin)
        if new is not None and old != new and (library or old.schedule != new.schedule):
            named = replace(last, chosen={name: new})
            yield decision_between([first, named], name, seconds[:2], 0, program)
