"""Which elements of a large result to look at: some that every store in the code writes.

What goes wrong in a kernel goes wrong in one copy of a loop's body - a rest, a peeled turn, one
vector of a tile - and drawn by chance a few hundred elements of a million may all come from the
others. So elements are drawn per store: of every copy that unrolling makes of it, in the first, the
last and some other turns of the loops around.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ..ir.dims import Dim, IntExpr, as_int
from ..ir.loop.evaluate import index_values
from ..ir.loop.nest import Accumulate, If, Let, Loop, Nest, Stmt, Store
from ..ir.loop.prim import Buffer

__all__ = ["store_points"]

Points = npt.NDArray[np.int64]
_WRITTEN_OUT = ("unroll", "vectorize")
_LEAST = 4


@dataclass(frozen=True, slots=True)
class _Written:
    """Where a store writes, inside of these loops and definitions."""

    indices: tuple[IntExpr, ...]
    around: tuple[Loop | Let, ...]


def store_points(nest: Nest, output: Buffer, count: int, rng: np.random.Generator) -> Points:
    """int64[about count, rank]: indices of elements of ``output``, some of each store to it."""
    shape = tuple(as_int(s) for s in output.shape)
    stores = list(_stores(nest.body, output.name, ()))
    found: list[Points] = [np.zeros((0, len(shape)), np.int64)]
    for store in stores if shape and prod(shape) else ():
        found.append(_points(store, shape, max(_LEAST, count // len(stores)), rng))
    return np.unique(np.concatenate(found), axis=0)


def _stores(body: Sequence[Stmt], name: str, around: tuple[Loop | Let, ...]) -> Iterator[_Written]:
    for stmt in body:
        if isinstance(stmt, Let):
            around = (*around, stmt)
        elif isinstance(stmt, Loop):
            yield from _stores(stmt.body, name, (*around, stmt))
        elif isinstance(stmt, If):
            yield from _stores(stmt.then, name, around)
            yield from _stores(stmt.orelse, name, around)
        elif isinstance(stmt, Store | Accumulate) and stmt.buffer == name:
            yield _Written(stmt.indices, around)


def _points(
    store: _Written, shape: tuple[int, ...], count: int, rng: np.random.Generator
) -> Points:
    """Copies of the store spread evenly, or all of them; a condition around may hold for few."""
    loops = [a for a in store.around if isinstance(a, Loop)]
    copies = prod(loop.extent for loop in loops if loop.kind in _WRITTEN_OUT)
    number = np.linspace(0, copies, count, endpoint=False).astype(np.int64)
    values: dict[str, Any] = {}
    for loop in reversed(loops):
        if loop.kind in _WRITTEN_OUT:
            values[loop.var] = number % max(1, loop.extent)
            number = number // max(1, loop.extent)
            continue
        any_turn = rng.integers(0, max(1, loop.extent), count)
        border = np.where(rng.random(count) < 0.5, 0, loop.extent - 1)
        values[loop.var] = np.where(rng.random(count) < 0.5, any_turn, border)
    for let in store.around:
        if isinstance(let, Let):
            values[let.var] = index_values(let.value, values)
    places = [
        np.broadcast_to(index_values(i, values) if isinstance(i, Dim) else i, count)
        for i in store.indices
    ]
    points = np.stack(places, axis=1).astype(np.int64)
    return points[((points >= 0) & (points < np.array(shape))).all(axis=1)]
