"""Alternatives to the choices in a program's graph, and what each would cost.

::

    choice points, the largest first -> alternatives: kernels that go, kernels that come
    pairs that touch the same kernels -> what differs if both are taken
    seconds of all these kernels -> costs that add up -> the cheapest options (``elimination.py``)

Nothing is run here: a program is lowered with other options, which tells its kernels, and what
these take is measured, logged or expected (``kernel_times.py``).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from itertools import combinations
from typing import TypeAlias

from ..ir.dataclass import dataclass
from ..ir.graph.choices import Site
from ..ir.loop.prim import PrimFunc
from .elimination import Costs
from .kernel_times import KernelTimes
from .variants import Taken, Variants, current

Move: TypeAlias = frozenset[tuple[str, str]]
"""Options, by the keys of their choice points, that are taken together."""

INDEPENDENT = 1e-6
"""Share of the cost of two options by which that of both may differ if they do not interact."""


@dataclass(frozen=True, slots=True)
class Change:
    """Calls of kernels, by workload, that a move removes from a program and adds to it."""

    removed: Counter[str]
    added: Counter[str]

    def touches(self, other: Change) -> bool:
        """True if both remove calls of the same kernel."""
        return not self.removed.keys().isdisjoint(other.removed)


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another option at a choice point, and what it changes."""

    point: Site
    option: str
    change: Change

    @property
    def move(self) -> Move:
        """The option alone."""
        return frozenset({(self.point.key, self.option)})


@dataclass(slots=True)
class Graph:
    """The alternatives to the choices ``taken``, with kernels as long as ``times`` says."""

    variants: Variants
    taken: Taken
    times: KernelTimes
    alternatives: list[Alternative] = field(default_factory=list[Alternative])
    prims: dict[str, PrimFunc] = field(default_factory=dict[str, PrimFunc])
    changes: dict[Move, Change] = field(default_factory=dict[Move, Change])

    def find(self, end: float = float("inf")) -> None:
        """Finds alternatives at choice points, those with the most work first, until ``end`` on the
        monotonic clock."""
        sites = self.variants.of(self.taken).sites
        for point in sorted(sites.values(), key=lambda site: -site.work):
            for option in point.options:
                if option == current(point, self.taken):
                    continue
                if self.alternatives and time.monotonic() > end:
                    return
                change = self.change(frozenset({(point.key, option)}))
                if change.removed or change.added:
                    self.alternatives.append(Alternative(point, option, change))

    def find_pairs(self, least: float, end: float) -> None:
        """Finds out what pairs of alternatives change together that touch the same kernels, those
        of the longest kernels first, until ``end`` on the monotonic clock. Pairs whose kernels take
        less than ``least`` seconds are left out."""

        def seconds(pair: tuple[Alternative, Alternative]) -> float:
            shared = pair[0].change.removed & pair[1].change.removed
            return self._sum(shared, self.times.expected)

        pairs = [
            (a, b)
            for a, b in combinations(self.alternatives, 2)
            if a.point.key != b.point.key and a.change.touches(b.change)
        ]
        for a, b in sorted(pairs, key=seconds, reverse=True):
            if seconds((a, b)) < least or time.monotonic() > end:
                return
            self.change(a.move | b.move)

    def change(self, move: Move) -> Change:
        """Returns what a move changes: the program is lowered with it."""
        if move not in self.changes:
            base, other = (
                self.variants.of(self.taken),
                self.variants.of({**self.taken, **dict(move)}),
            )
            for prim in (*base.prims, *other.prims):
                self.prims.setdefault(self.variants.hash_of(prim), prim)
            change = Change(base.workloads - other.workloads, other.workloads - base.workloads)
            self.times.expect(change.added, change.removed, self.prims)
            self.changes[move] = change
        return self.changes[move]

    def unknown(self, move: Move) -> set[str]:
        """Returns the kernels of a move that were not measured in the program."""
        return {w for w in self.change(move).added if not self.times.known(w)}

    def gain(self, move: Move, hoped: bool = True) -> float:
        """Returns the seconds of a call that a move gains: as hoped, or as expected."""
        change = self.change(move)
        old = self._sum(change.removed, self.times.expected)
        return old - self._sum(change.added, self.times.hoped if hoped else self.times.expected)

    def costs(self) -> Costs:
        """Returns what the options of all choice points cost beside the current ones, as hoped."""
        points: dict[str, tuple[str, ...]] = {}
        for a in self.alternatives:
            first = points.get(a.point.key) or (current(a.point, self.taken),)
            points[a.point.key] = (*first, a.option)
        costs = Costs(points)
        for move in sorted(self.changes, key=len):
            if all(p in points and o in points[p] for p, o in move):
                alone = sum(costs.alone.get(option, 0.0) for option in move)
                p, *q = sorted(move)
                if q:
                    costs.together[p, q[0]] = -self.gain(move) - alone
                else:
                    costs.alone[p] = -self.gain(move)
        return costs

    def moves(self) -> list[Move]:
        """Returns the cheapest options of all choice points as moves that do not depend on each
        other, those that gain most first."""
        costs = self.costs()
        options = costs.cheapest()
        groups = {point: frozenset({(point, option)}) for point, option in options.items()}
        for (p, q), cost in costs.together.items():
            taken = options.get(p[0]) == p[1] and options.get(q[0]) == q[1]
            if taken and abs(cost) > INDEPENDENT * abs(costs.alone[p] + costs.alone[q]):
                joined = groups[p[0]] | groups[q[0]]
                groups |= {point: joined for point, _ in joined}
        return sorted(set(groups.values()), key=lambda move: (-self.gain(move), sorted(move)))

    def is_sum(self, moves: Sequence[Move]) -> bool:
        """True if moves change together what each of them changes alone."""
        expected = Counter(self.variants.of(self.taken).workloads)
        for move in moves:
            expected.subtract(self.change(move).removed)
            expected.update(self.change(move).added)
        options = dict(option for move in moves for option in move)
        together = self.variants.of({**self.taken, **options}).workloads
        return {w: n for w, n in expected.items() if n} == dict(together)

    def _sum(self, calls: Mapping[str, int], seconds: Callable[[str], float]) -> float:
        return sum(n * seconds(workload) for workload, n in calls.items())
