"""Choices in the graph, measured both ways: algorithms, what becomes one kernel, orders of axes.

::

    sites -> flips (kernels that go, kernels that come) -> batches that do not touch each other
          -> programs run in turn, the clock between their kernels -> decisions

A flip is one site taken otherwise. Flips whose kernels have nothing to do with each other are built
into one program, so that a network of many convolutions needs few of them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from ..autotune.comparison import compare
from ..autotune.log.decision import Decision, Option
from ..autotune.log.record import TargetKey, Workload, own_version, robust_seconds, timestamp
from ..ir.graph.choices import Site
from ..ir.loop.prim import PrimFunc
from ..pipeline import Built
from .in_turn import FEWEST_ROUNDS, Rounds, run_in_turn, whole_calls
from .variants import Taken, Variants, current

__all__ = ["Decided", "Flip", "GraphTuner"]

Array = np.ndarray[Any, Any]

LEAST_SHARE = 0.01
"""Share of a call's time below which what a flip touches is not worth measuring."""

CONTENDER_SHARE = 0.05
"""Share of a call's time from which that is worth tuning kernels which may never be used."""

MOST_FLIPS = 64

FINDING, JUDGING = 0.3, 0.1
"""Shares of the time: to find out what else the graph could be, and to compare the whole."""


@dataclass(frozen=True, slots=True)
class Flip:
    """One site taken otherwise: calls of kernels that go, and that come instead."""

    site: Site
    option: str
    removed: Counter[str]
    added: Counter[str]
    prims: tuple[PrimFunc, ...] = field(default=(), repr=False)


_Measured: TypeAlias = tuple[Flip, tuple[float, ...], tuple[float, ...]]
"""A flip, and in every round the seconds of the kernels that go and of those that come."""


@dataclass(frozen=True, slots=True)
class Decided:
    """``taken`` is what the graph's choices are now; ``contenders`` are kernels of options that
    lost by little, which may win when they are tuned; ``sites`` are their keys, and ``place`` the
    seconds of a call of each, by workload."""

    taken: Taken
    decisions: tuple[Decision, ...]
    contenders: tuple[PrimFunc, ...] = ()
    sites: frozenset[str] = frozenset()
    place: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(slots=True)
class GraphTuner:
    """Measures the choices of one module. ``make`` builds it with some choices."""

    variants: Variants
    make: Callable[[Taken], Built]
    key: TargetKey
    program: str = ""

    def flips(
        self, taken: Taken, only: frozenset[str] | None = None, end: float = float("inf")
    ) -> list[Flip]:
        """Every site taken otherwise than ``taken`` does, where that makes other kernels; those
        that are found until ``end`` on the monotonic clock."""
        base = self.variants.of(taken)
        found: list[Flip] = []
        for key, site in base.sites.items():
            if only is not None and key not in only:
                continue
            for option in site.options:
                if option == current(site, taken) or len(found) >= MOST_FLIPS:
                    continue
                if found and time.monotonic() > end:
                    return found
                other = self.variants.of({**taken, key: option})
                added = other.workloads - base.workloads
                removed = base.workloads - other.workloads
                if added or removed:
                    prims = tuple(p for p in other.prims if self.variants.hash_of(p) in added)
                    found.append(Flip(site, option, removed, added, prims))
        return found

    def decide(
        self,
        taken: Taken,
        arrays: Sequence[Array],
        seconds: float,
        only: frozenset[str] | None = None,
        profile: Rounds | None = None,
    ) -> Decided:
        """Measure each flip beside what ``taken`` gives, the weightiest first, for ``seconds``.

        ``profile`` is what the kernels take as it is, if that is known. No batch is begun
        that would end late, going by those before. What is taken otherwise in the end is quicker as
        a whole, too; if it is not, nothing is.
        """
        begun = time.monotonic()
        flips = self.flips(taken, only, begun + FINDING * seconds) if seconds > 0 else []
        if not flips:
            return Decided(taken, ())
        base = self.make(taken)
        alone = profile or run_in_turn([base], arrays, min(0.1 * seconds, 1.0))[0]
        whole = sum(_cost(alone, alone.calls))
        weight = {id(f): sum(_cost(alone, f.removed)) for f in flips}
        worth = [f for f in flips if weight[id(f)] >= LEAST_SHARE * whole]
        worth.sort(key=lambda f: -weight[id(f)])
        measured: list[_Measured] = []
        place: dict[str, float] = {}
        batches = self._batches(taken, worth)
        # The last comparison takes its time as well, if anything is found.
        end = begun + (1 - JUDGING) * seconds
        longest = 0.0
        for number, batch in enumerate(batches):
            start = time.monotonic()
            if start > end or (number and start + longest > end):
                break
            built = self.make({**taken, **{f.site.key: f.option for f in batch}})
            share = (end - start) / (len(batches) - number) - (time.monotonic() - start)
            old, new = run_in_turn([base, built], arrays, max(0.0, share))
            place |= {w: robust_seconds(s) for w, s in new.seconds.items()}
            measured += [(f, _cost(old, f.removed), _cost(new, f.added)) for f in batch]
            least = (2 * FEWEST_ROUNDS + 2) * whole  # seconds that calls take, at the very least
            longest = max(longest, least, 0.5 * (time.monotonic() - start))
        large = {id(f) for f in worth if weight[id(f)] >= CONTENDER_SHARE * whole}
        near = [f for f, old, new in measured if id(f) in large and compare([old, new]).close]
        decided = self._judged(taken, base, measured, near, arrays, min(1.0, JUDGING * seconds))
        return replace(decided, place=place)

    def _batches(self, taken: Taken, flips: Sequence[Flip]) -> list[list[Flip]]:
        """Flips that can be built together: none changes what another one changes."""
        base = self.variants.of(taken).workloads
        batches: list[list[Flip]] = []
        for flip in flips:
            for batch in batches:
                if all(_apart(flip, other) for other in batch):
                    batch.append(flip)
                    break
            else:
                batches.append([flip])
        result: list[list[Flip]] = []
        for batch in batches:
            expected = Counter(base)
            for flip in batch:
                expected.subtract(flip.removed)
                expected.update(flip.added)
            made = self.variants.of({**taken, **{f.site.key: f.option for f in batch}}).workloads
            same = {k: n for k, n in expected.items() if n} == dict(made)
            result += [batch] if same else [[f] for f in batch]
        return result

    def _judged(
        self,
        taken: Taken,
        base: Built,
        measured: Sequence[_Measured],
        near: Sequence[Flip],
        arrays: Sequence[Array],
        seconds: float,
    ) -> Decided:
        by_site: dict[str, list[_Measured]] = {}
        for entry in measured:
            by_site.setdefault(entry[0].site.key, []).append(entry)
        wanted = dict(taken)
        for key, entries in by_site.items():
            quicker = [e for e in entries if compare(e[1:]).faster]
            if quicker:
                best = min(quicker, key=lambda e: robust_seconds(e[2]) / robust_seconds(e[1]))
                wanted[key] = best[0].option
        if wanted != dict(taken):
            old, new = whole_calls([base, self.make(wanted)], arrays, seconds)
            if compare([old, new]).slower:
                wanted = dict(taken)
        decisions = tuple(self._decision(entries, taken, wanted) for entries in by_site.values())
        prims = [p for f in near for p in f.prims]
        return Decided(wanted, decisions, tuple(prims), frozenset(f.site.key for f in near))

    def _decision(
        self,
        entries: Sequence[_Measured],
        taken: Taken,
        wanted: Taken,
    ) -> Decision:
        site = entries[0][0].site
        options = [Option(current(site, taken), entries[0][1])]
        options += [Option(flip.option, new) for flip, _, new in entries]
        names = [o.name for o in options]
        return Decision(
            site.about,
            Workload(site.key, site.text),
            self.key,
            tuple(options),
            names.index(current(site, wanted)),
            self.program,
            timestamp(),
            own_version(),
        )


def _apart(one: Flip, other: Flip) -> bool:
    if one.site.key == other.site.key or one.removed.keys() & other.removed.keys():
        return False
    return not (one.added.keys() & other.added.keys())


def _cost(rounds: Rounds, calls: Mapping[str, int]) -> tuple[float, ...]:
    """Seconds of these calls in every round."""
    if not calls:
        return (1e-9,) * max((len(s) for s in rounds.seconds.values()), default=1)
    each = [[n * s for s in rounds.seconds[workload]] for workload, n in calls.items()]
    return tuple(max(1e-9, sum(seconds)) for seconds in zip(*each))
