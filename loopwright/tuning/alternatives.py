"""Alternatives to the choices in a program's graph, and what each would cost.

::

    choice points, the largest first -> alternatives: kernels that go, kernels that come
    pairs that touch the same kernels -> what differs if both are taken
    seconds of all these kernels -> costs that add up -> the cheapest options

Nothing is run here: a program is lowered with other options, which tells its kernels, and what
these take is measured, logged or expected (``kernel_times.py``).

The cheapest options are found by dynamic programming: ``cost(options)`` is the sum of all
``cost(p)`` and, of choice points that interact, ``cost(p, q)``. A choice point is eliminated by
writing down, for every option of its neighbours, the cost of its best option there; at the end the
options are read off backwards. With few neighbours at a time - in chains, trees, and
series-parallel graphs such as residual networks - that takes a time linear in the number of points
(Bertelè and Brioschi, "Nonserial Dynamic Programming", 1972; for layouts of convolutional networks:
Liu et al., "Optimizing CNN Model Inference on CPUs", USENIX ATC 2019).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from ..ir.dataclass import dataclass
from ..ir.graph.choices import Site
from ..ir.loop.prim import PrimFunc
from .kernel_times import KernelTimes
from .variants import Taken, Variants, current

_Table: TypeAlias = np.ndarray[Any, Any]
Option: TypeAlias = tuple[str, str]
"""A choice point and one of its options."""

MOST_ENTRIES = 1 << 16
"""Entries of a table beyond which a choice point stays as it is instead."""


@dataclass(slots=True)
class Costs:
    """Costs of options, 0 where nothing is said. The first option of a point is the current one.

    >>> costs = Costs({"a": ("kept", "blocked"), "b": ("kept", "blocked")})
    >>> costs.alone[("a", "blocked")] = costs.alone[("b", "blocked")] = 1.0
    >>> costs.together[(("a", "blocked"), ("b", "blocked"))] = -3.0  # both beside each other
    >>> costs.cheapest()
    {'a': 'blocked', 'b': 'blocked'}
    """

    points: Mapping[str, Sequence[str]]
    alone: dict[Option, float] = field(default_factory=dict[Option, float])
    together: dict[tuple[Option, Option], float] = field(
        default_factory=dict[tuple[Option, Option], float]
    )

    def of(self, options: Mapping[str, str]) -> float:
        """Returns the cost of these options; points that are not named stay as they are."""
        taken = set(options.items())
        alone = sum(cost for option, cost in self.alone.items() if option in taken)
        return alone + sum(c for (p, q), c in self.together.items() if p in taken and q in taken)

    def cheapest(self) -> dict[str, str]:
        """Returns the cheapest options of the points at which they are not the current ones."""
        factors = self._factors()
        order: list[tuple[str, tuple[str, ...], _Table]] = []
        waiting = set(self.points)
        while waiting:
            neighbours = {p: {q for f, _ in factors if p in f for q in f} for p in waiting}
            point = min(sorted(waiting), key=lambda p: len(neighbours[p]))
            around = tuple(sorted(neighbours[point] - {point}))
            table = self._joined([f for f in factors if point in f[0]], (point, *around))
            factors = [f for f in factors if point not in f[0]]
            order.append((point, around, table.argmin(axis=0)))
            factors.append((around, table.min(axis=0)))
            waiting.remove(point)
        place: dict[str, int] = {}
        for point, around, best in reversed(order):
            place[point] = int(best[tuple(place[p] for p in around)])
        return {p: options[place[p]] for p, options in self.points.items() if place[p]}

    def _factors(self) -> list[tuple[tuple[str, ...], _Table]]:
        """Returns a table for each point and for each pair that interacts."""
        tables: dict[tuple[str, ...], _Table] = {}
        costs = [((option,), c) for option, c in self.alone.items()]
        for options, cost in [*costs, *self.together.items()]:
            points = tuple(point for point, _ in options)
            sizes = [len(self.points[p]) for p in points]
            table = tables.setdefault(points, np.zeros(sizes))
            table[tuple(self.points[p].index(o) for p, o in options)] += cost
        return list(tables.items())

    def _joined(
        self, factors: Sequence[tuple[tuple[str, ...], _Table]], points: tuple[str, ...]
    ) -> _Table:
        """Returns the sum of tables, over ``points``."""
        sizes = [len(self.points[p]) for p in points]
        if np.prod(sizes) > MOST_ENTRIES:
            stays = [_at_first(names, table, points[0]) for names, table in factors]
            rest = self._joined(stays, points[1:])
            return np.concatenate([rest[None], np.full((sizes[0] - 1, *rest.shape), np.inf)])
        total = np.zeros(sizes)
        for names, table in factors:
            axes = sorted(range(len(names)), key=lambda n: points.index(names[n]))
            there = [size if p in names else 1 for p, size in zip(points, sizes)]
            total += table.transpose(axes).reshape(there)
        return total


def _at_first(names: tuple[str, ...], table: _Table, point: str) -> tuple[tuple[str, ...], _Table]:
    """Returns a table where the first option of a point is taken."""
    if point not in names:
        return names, table
    return tuple(n for n in names if n != point), table.take(0, axis=names.index(point))


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
