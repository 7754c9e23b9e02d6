"""Measures choices in the graph: algorithms, fusion, orders of axes.

::

    choice points -> alternatives (kernels that go, kernels that come) -> batches without overlap
                  -> interleaved rounds, the clock read between kernels -> decisions

An alternative is one choice point with another option. Alternatives whose kernels have nothing to
do with each other are built into one program, so that a network of many convolutions needs few.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from ..autotune.comparison import Verdict, compare
from ..autotune.log.decision import Decision, Option
from ..autotune.log.record import TargetKey, Workload, robust_seconds
from ..ir.dataclass import dataclass
from ..ir.graph.choices import Site
from ..ir.loop.prim import PrimFunc
from ..pipeline import Built
from .interleaved import FEWEST_ROUNDS, Rounds, kernel_rounds, whole_calls
from .variants import Taken, Variants, current

__all__ = ["Alternative", "Decided", "GraphTuner"]

Array = np.ndarray[Any, Any]

LEAST_SHARE = 0.01
"""Share of a call's time below which the kernels of an alternative are not worth measuring."""

CONTENDER_SHARE = 0.05
"""Share of a call's time from which on kernels that may never be used are tuned."""

MOST_ALTERNATIVES = 64

FINDING, JUDGING = 0.3, 0.1
"""Shares of the time for finding the alternatives, and for the final comparison of the program."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another option at a choice point: calls of kernels that it removes and adds."""

    point: Site
    option: str
    removed: Counter[str]
    added: Counter[str]
    prims: tuple[PrimFunc, ...] = field(default=(), repr=False)

    def overlaps(self, other: Alternative) -> bool:
        """True if the two change the same kernels, so that they cannot be told apart together."""
        return (
            self.point.key == other.point.key
            or not self.removed.keys().isdisjoint(other.removed)
            or not self.added.keys().isdisjoint(other.added)
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """An alternative, with the seconds per round of the kernels it removes and of those it adds."""

    alternative: Alternative
    old: tuple[float, ...]
    new: tuple[float, ...]

    @property
    def verdict(self) -> Verdict:
        """True if the alternative is faster."""
        return compare([self.old, self.new])


@dataclass(frozen=True, slots=True)
class Decided:
    """The outcome. ``taken`` are the graph's choices from now on. ``contenders`` are kernels of
    options that lost by little and may win once they are tuned, ``points`` the keys of their choice
    points. ``place`` are the seconds of a call of each kernel in the program, by workload, and
    ``trips`` the calls for each place that calls it."""

    taken: Taken
    decisions: tuple[Decision, ...] = ()
    contenders: tuple[PrimFunc, ...] = ()
    points: frozenset[str] = frozenset()
    place: Mapping[str, float] = field(default_factory=dict[str, float])
    trips: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(slots=True)
class GraphTuner:
    """Measures the choices of one module. ``make`` builds it with some choices."""

    variants: Variants
    make: Callable[[Taken], Built]
    key: TargetKey
    program: str = ""

    def alternatives(
        self, taken: Taken, only: frozenset[str] | None = None, end: float = float("inf")
    ) -> list[Alternative]:
        """Returns the options of choice points (with the keys ``only``) that are not taken and make
        other kernels, as far as they are found until ``end`` on the monotonic clock."""
        base = self.variants.of(taken)
        alternatives: list[Alternative] = []
        for key, point in base.sites.items():
            if only is not None and key not in only:
                continue
            for option in point.options:
                if option == current(point, taken) or len(alternatives) >= MOST_ALTERNATIVES:
                    continue
                if alternatives and time.monotonic() > end:
                    return alternatives
                other = self.variants.of({**taken, key: option})
                added = other.workloads - base.workloads
                removed = base.workloads - other.workloads
                if added or removed:
                    prims = tuple(p for p in other.prims if self.variants.hash_of(p) in added)
                    alternatives.append(Alternative(point, option, removed, added, prims))
        return alternatives

    def decide(
        self,
        taken: Taken,
        arrays: Sequence[Array],
        seconds: float,
        only: frozenset[str] | None = None,
        profile: Rounds | None = None,
    ) -> Decided:
        """Measures alternatives to ``taken`` for ``seconds``, those with the most time first.

        ``profile`` has the times of the kernels as they are, if known. No batch is begun that
        would end late, judging by those before. Other options are taken only if the whole program
        is not slower with all of them.
        """
        begun = time.monotonic()
        if seconds <= 0:
            return Decided(taken)
        alternatives = self.alternatives(taken, only, begun + FINDING * seconds)
        if not alternatives:
            return Decided(taken)
        base = self.make(taken)
        alone = profile or kernel_rounds([base], arrays, min(0.1 * seconds, 1.0))[0]
        whole = sum(_cost(alone, alone.places))
        weights = [(sum(_cost(alone, a.removed)), a) for a in alternatives]
        weights = [(w, a) for w, a in weights if w >= LEAST_SHARE * whole]
        weights.sort(key=lambda entry: -entry[0])
        measured: list[Measured] = []
        place: dict[str, float] = {}
        trips: dict[str, float] = {}
        batches = self._batches(taken, [a for _, a in weights])
        end = begun + (1 - JUDGING) * seconds  # the comparison of the whole takes time as well
        longest = 0.0
        for number, batch in enumerate(batches):
            start = time.monotonic()
            if start > end or (number and start + longest > end):
                break
            built = self.make({**taken, **{a.point.key: a.option for a in batch}})
            share = (end - start) / (len(batches) - number) - (time.monotonic() - start)
            old, new = kernel_rounds([base, built], arrays, max(0.0, share))
            place |= {w: robust_seconds(s) for w, s in new.seconds.items()}
            trips |= {w: new.trips(w) for w in new.places}
            measured += [Measured(a, _cost(old, a.removed), _cost(new, a.added)) for a in batch]
            least = (2 * FEWEST_ROUNDS + 2) * whole  # the calls of a batch take this long at least
            longest = max(longest, least, 0.5 * (time.monotonic() - start))
        decided = self._judged(taken, base, measured, arrays, min(1.0, JUDGING * seconds))
        large = {id(a) for weight, a in weights if weight >= CONTENDER_SHARE * whole}
        close = [m.alternative for m in measured if id(m.alternative) in large and m.verdict.close]
        prims = tuple(p for a in close for p in a.prims)
        points = frozenset(a.point.key for a in close)
        return replace(decided, contenders=prims, points=points, place=place, trips=trips)

    def _batches(
        self, taken: Taken, alternatives: Sequence[Alternative]
    ) -> list[list[Alternative]]:
        """Returns alternatives that can be built together: none changes what another one
        changes."""
        base = self.variants.of(taken).workloads
        batches: list[list[Alternative]] = []
        for alternative in alternatives:
            for batch in batches:
                if not any(alternative.overlaps(other) for other in batch):
                    batch.append(alternative)
                    break
            else:
                batches.append([alternative])
        result: list[list[Alternative]] = []
        for batch in batches:
            # Choices may interact after all: then each alternative is a batch of its own.
            expected = Counter(base)
            for alternative in batch:
                expected.subtract(alternative.removed)
                expected.update(alternative.added)
            options = {a.point.key: a.option for a in batch}
            together = self.variants.of({**taken, **options}).workloads
            same = {w: n for w, n in expected.items() if n} == dict(together)
            result += [batch] if same else [[a] for a in batch]
        return result

    def _judged(
        self,
        taken: Taken,
        base: Built,
        measured: Sequence[Measured],
        arrays: Sequence[Array],
        seconds: float,
    ) -> Decided:
        """Takes the fastest option of each choice point, unless they slow the whole program
        down."""
        by_point: dict[str, list[Measured]] = {}
        for entry in measured:
            by_point.setdefault(entry.alternative.point.key, []).append(entry)
        wanted = dict(taken)
        for key, entries in by_point.items():
            faster = [m for m in entries if m.verdict.faster]
            if faster:
                best = max(faster, key=lambda m: m.verdict.speedup)
                wanted[key] = best.alternative.option
        if wanted != dict(taken):
            calls = whole_calls([base, self.make(wanted)], arrays, seconds)
            if compare(calls).slower:
                wanted = dict(taken)
        return Decided(
            wanted, tuple(self._decision(entries, taken, wanted) for entries in by_point.values())
        )

    def _decision(self, entries: Sequence[Measured], taken: Taken, wanted: Taken) -> Decision:
        point = entries[0].alternative.point
        options = [Option(current(point, taken), entries[0].old)]
        options += [Option(m.alternative.option, m.new) for m in entries]
        place = [o.name for o in options].index(current(point, wanted))
        where = Workload(point.key, point.text)
        return Decision(point.about, where, self.key, tuple(options), place, self.program)


def _cost(rounds: Rounds, calls: Mapping[str, int]) -> tuple[float, ...]:
    """Returns the seconds of these calls in every round, each as often as its loops run it."""
    each = [
        [n * rounds.trips(workload) * s for s in rounds.seconds[workload]]
        for workload, n in calls.items()
        if workload in rounds.seconds
    ]
    if not each:
        return (1e-9,) * max((len(s) for s in rounds.seconds.values()), default=1)
    return tuple(max(1e-9, sum(seconds)) for seconds in zip(*each))
