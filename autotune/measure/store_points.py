"""Chooses elements of a large result to check: some that every store in the code writes.

An error of a kernel is usually in one copy of a loop's body - a remainder, a peeled iteration, one
vector of a tile - of which random elements may all be missing. So elements are drawn per store: of
every copy that unrolling makes of it, in the first, the last and some other iterations of the loops
around it. If all results are made in the last parallel loop, a few of its iterations are enough.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir.dataclass import dataclass
from ...ir.dims import IntExpr, as_int
from ...ir.loop.decide import COMPARISONS
from ...ir.loop.evaluate import index_values
from ...ir.loop.expr import Expr, Op, index_value
from ...ir.loop.nest import Accumulate, If, Let, Loop, Nest, Stmt, Store, statements
from ...ir.loop.prim import Buffer

Points = npt.NDArray[np.int64]
_UNROLLED = ("unroll", "vectorize")
_LEAST_POINTS = 4
_ITERATIONS = 3
"""Iterations of the parallel loop in which each store is checked."""


@dataclass(frozen=True, slots=True)
class _Written:
    """The indices of a store, inside of loops, definitions and conditions (and whether they
    hold)."""

    buffer: str
    indices: tuple[IntExpr, ...]
    around: tuple[Loop | Let, ...]
    given: tuple[tuple[Expr, bool], ...]


class StorePoints:
    """The stores of a nest to its outputs.

    ``iterations`` are those of the last parallel loop that have to be run, None for all of them;
    ``loops_before`` counts the parallel loops before it.
    """

    def __init__(self, nest: Nest, outputs: Collection[str], rng: np.random.Generator) -> None:
        stores = list(_stores(nest.body, outputs, (), ()))
        self._loop, self.loops_before = _last_parallel(nest)
        self._stores = [_Values(store, self._loop, rng) for store in stores]
        self.iterations: Points | None = None
        if self._loop is not None:
            needed = np.unique(np.concatenate([v.iterations for v in self._stores]))
            if 2 * len(needed) < self._loop.trips:
                self.iterations = needed

    def of(self, output: Buffer, count: int) -> Points:
        """Returns int64[about count]: row-major indices of elements of an output, some of each
        store to it, some of them more than once."""
        shape = tuple(as_int(s) for s in output.shape)
        mine = [v for v in self._stores if v.store.buffer == output.name]
        places: list[Points] = [np.zeros(0, np.int64)]
        for values in mine if shape and prod(shape) else ():
            number = max(_LEAST_POINTS, count // len(mine))
            places.append(values.places(shape, number, self.iterations is not None))
        return np.concatenate(places)


class _Values:
    """Draws values of the loops around a store. ``iterations`` are some of ``loop`` that execute
    it: the first, the last and one between."""

    def __init__(self, store: _Written, loop: Loop | None, rng: np.random.Generator) -> None:
        self.store, self.loop, self.rng = store, loop, rng
        self.iterations = np.zeros(0, np.int64)
        if loop is not None:
            values = self._drawn(loop.trips, {loop.var: np.arange(loop.trips)})
            executed = np.flatnonzero(self._executed(values, loop.trips))
            if len(executed):
                chosen = np.linspace(0, len(executed) - 1, _ITERATIONS).astype(np.int64)
                self.iterations = executed[chosen]

    def places(self, shape: tuple[int, ...], count: int, few: bool) -> Points:
        """Returns elements that the store writes, in ``few`` iterations of the loop or in all."""
        fixed: dict[str, Any] = {}
        if few and self.loop is not None:
            if not len(self.iterations):
                return np.zeros(0, np.int64)
            drawn = self.rng.integers(0, len(self.iterations), count)
            fixed[self.loop.var] = self.iterations[drawn]
        values = self._drawn(count, fixed)
        executed = self._executed(values, count)
        places = np.zeros(count, np.int64)
        for i, size in zip(self.store.indices, shape, strict=True):
            index = index_values(i, values)
            executed &= (index >= 0) & (index < size)
            places = places * size + index
        return places[executed]

    def _drawn(self, count: int, fixed: dict[str, Any]) -> dict[str, Any]:
        """Returns values of the loops around; those of unrolled loops cover all copies evenly."""
        loops = [a for a in self.store.around if isinstance(a, Loop)]
        copies = prod(loop.trips for loop in loops if loop.kind in _UNROLLED)
        number = np.linspace(0, copies, count, endpoint=False).astype(np.int64)
        values = dict(fixed)
        for loop in reversed(loops):
            if loop.kind in _UNROLLED:
                values[loop.var] = number % max(1, loop.trips)
                number = number // max(1, loop.trips)
        for outer in self.store.around:  # in order: how often one runs may depend on those around
            if isinstance(outer, Let):
                values[outer.var] = index_values(outer.value, values)
            elif outer.var not in values:
                extent = np.maximum(1, index_values(outer.extent, values))
                # A quarter of them the first, a quarter the last, and the others any.
                drawn = (2 * extent * self.rng.random(count) - extent / 2).astype(np.int64)
                values[outer.var] = np.minimum(np.maximum(drawn, 0), extent - 1)
        return values

    def _executed(self, values: dict[str, Any], count: int) -> npt.NDArray[np.bool_]:
        """Returns where the conditions hold, as far as they can be evaluated."""
        executed = np.ones(count, bool)
        for condition, holds in self.store.given:
            if isinstance(condition, Op) and condition.name in COMPARISONS:
                left, right = map(index_value, condition.args)
                if left is not None and right is not None:
                    values_of = (index_values(side, values) for side in (left, right))
                    executed &= COMPARISONS[condition.name](*values_of) == holds
        return executed


def _stores(
    body: Sequence[Stmt],
    names: Collection[str],
    around: tuple[Loop | Let, ...],
    given: tuple[tuple[Expr, bool], ...],
) -> Iterator[_Written]:
    for stmt in body:
        if isinstance(stmt, Let):
            around = (*around, stmt)
        elif isinstance(stmt, Loop):
            yield from _stores(stmt.body, names, (*around, stmt), given)
        elif isinstance(stmt, If):
            yield from _stores(stmt.then, names, around, (*given, (stmt.condition, True)))
            yield from _stores(stmt.orelse, names, around, (*given, (stmt.condition, False)))
        elif isinstance(stmt, Store | Accumulate) and stmt.buffer in names:
            yield _Written(stmt.buffer, stmt.indices, around, given)


def _last_parallel(nest: Nest) -> tuple[Loop | None, int]:
    """Returns the parallel loop that ends a nest, and the number of those before it.

    None if the nest does not end with one, or they do not all stand in its body.
    """
    loops = [s for s in statements(nest.body) if isinstance(s, Loop) and s.kind == "parallel"]
    outer = [s for s in nest.body if isinstance(s, Loop) and s.kind == "parallel"]
    if not loops or loops != outer or nest.body[-1] is not loops[-1]:
        return None, 0
    return loops[-1], len(loops) - 1
