"""The cheapest options of choice points whose costs add up, by dynamic programming.

::

    cost(options) = sum of cost(p) + sum of cost(p, q)         p, q: choice points that interact

A choice point is eliminated by writing down, for every option of its neighbours, the cost of its
best option there; at the end the options are read off backwards. With few neighbours at a time - in
chains, trees, and series-parallel graphs such as residual networks - that takes a time linear in
the number of points (Bertelè and Brioschi, "Nonserial Dynamic Programming", 1972; for layouts of
convolutional networks: Liu et al., "Optimizing CNN Model Inference on CPUs", USENIX ATC 2019).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np

from ..ir.dataclass import dataclass

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
