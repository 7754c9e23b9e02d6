"""Lanes of several rows are joined at once, where the rows' results are contiguous.

::

    registers acc: float32[4]                   registers acc: float32[4]
    unroll i in 4:                              vectorize i.row in 4:
      acc[i] = 0.0                                acc[i.row] = 0.0
      vectorize k in 8:                         vectorize k in 8:
        acc[i] += x[i, k]               =>        unroll i in 4:
    unroll i in 4:                                  acc[i] += x[i, k]
      y[i] = 2.0 * acc[i]                       vectorize i.row in 4:
                                                  y[i.row] = 2.0 * acc[i.row]

The steps of one row's tree leave half of a vector idle, then three quarters; those of several rows
share vectors, and so do their results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...ir.dims import IntExpr, symbol
from ...ir.loop import nest as nests
from ...ir.loop.expr import Read, walk
from ...ir.loop.kinds import LoopKind
from ...ir.loop.nest import Accumulate, Alloc, Loop, Nest, Stmt, Store
from ...ir.loop.stride import flat_index, stride_along
from .lanes import Machine, moves_on
from .scope import Scope, rewrite

ROWS = (4, 8)
"""Rows of which the lanes are transposed: more take more shuffles than their trees."""


def join_rows(nest: Nest, machine: Machine) -> Nest:
    """The nest in which such rows share their vectors."""
    joined: set[str] = set()  # their sums

    def visit(stmt: Stmt, scope: Scope, rest: Sequence[Stmt]) -> Sequence[Stmt] | None:
        if isinstance(stmt, Alloc):
            joined.discard(stmt.buffer.name)
        if type(stmt) is not Loop or stmt.kind != LoopKind.UNROLL or scope.lane:
            return None
        if stmt.trips not in ROWS or stmt.trips > machine.lanes:
            return None
        match stmt.body:
            case (Store(name, at) as start, Loop(LoopKind.VECTORIZE, body=(Accumulate() as add,))):
                readers = [s for s in rest if any(_reads(i, name) for i in nests.statements((s,)))]
                is_row = (add.buffer, add.indices) == (name, at) and name in scope.registers
                if is_row and len(readers) == 1 and _is_stored(readers[0], stmt, at, scope):
                    joined.add(name)
                    rows = replace(stmt, body=(add,))
                    return _lanes(stmt, start), replace(stmt.body[1], body=(rows,))
            case (Store() as store,) if any(_reads(store, name) for name in joined):
                return (_lanes(stmt, store),)
            case _:
                pass
        return None

    return rewrite(nest, visit)


def _is_stored(stmt: Stmt, rows: Loop, at: Sequence[IntExpr], scope: Scope) -> bool:
    """True if a statement stores what it makes of the sums of rows, which move as their index
    ``at`` does, next to each other in memory."""
    if not isinstance(stmt, Loop) or (stmt.var, stmt.extent) != (rows.var, rows.extent):
        return False
    match stmt.body:
        case (Store(target, indices) as store,) if target in scope.memory:
            buffer = scope.memory[target]
        case _:
            return False
    steps = [stride_along(i, rows.var) for i in at]
    reads = [n for e in nests.expressions(store) for n in walk(e) if isinstance(n, Read)]
    return (
        sorted(map(str, steps)) == ["0"] * (len(steps) - 1) + ["1"]
        and stride_along(flat_index(buffer, indices), rows.var) == 1
        and not buffer.dtype.is_bool
        and all(n.buffer != target and moves_on(n.indices, rows.var) for n in reads)
    )


def _lanes(rows: Loop, stmt: Stmt) -> Loop:
    """A statement of all rows, as lanes."""
    lane = f"{rows.var}.row"
    body = (nests.substituted(stmt, {rows.var: symbol(lane)}),)
    return Loop(LoopKind.VECTORIZE, lane, rows.extent, body)


def _reads(stmt: Stmt, name: str) -> bool:
    """True if a statement itself reads a buffer."""
    nodes = (node for e in nests.expressions(stmt) for node in walk(e))
    return any(isinstance(node, Read) and node.buffer == name for node in nodes)
