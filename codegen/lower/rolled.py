"""Unrolled loops whose iterations are long and share nothing are loops again.

::

    unroll i in 4:                              for i in 4:
      vectorize j in 16 by [8, 8]:        =>      vectorize j in 16 by [8, 8]:
        y[i, j] = exp(x[i, j])                      y[i, j] = exp(x[i, j])
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from ...ir.loop.expr import Expr, Index, Op, Read, walk
from ...ir.loop.kinds import Instruction, LoopKind
from ...ir.loop.nest import Intrinsic, Loop, Nest, Stmt, Store, Vectors
from ...ir.loop.scalar import SCALAR_OPS
from ...ir.loop.stride import mentions
from .lanes import Machine, moves_on
from .scope import Scope, rewrite

LONG_ITERATION = 8
"""Instructions of an iteration from which on its loop need not be unrolled."""


def roll_loops(nest: Nest, _machine: Machine) -> Nest:
    """The nest in which long iterations are not copied; rows of a block that is transposed neither,
    unless they are copies of others."""

    def rolled(stmt: Stmt, scope: Scope, _rest: Sequence[Stmt]) -> Sequence[Stmt] | None:
        if scope.lane or not isinstance(stmt, Loop) or stmt.kind != LoopKind.UNROLL:
            return None
        if not is_long(stmt, scope.registers) or stmt.trips < 2:
            return None
        if isinstance(stmt, Intrinsic):
            transposed = stmt.instruction == Instruction.TRANSPOSE
            return (replace(stmt, instruction=Instruction.TRANSPOSE_ROWS),) if transposed else None
        return (replace(stmt, kind=LoopKind.FOR),)

    return rewrite(nest, rolled)


def is_long(loop: Loop, registers: Container[str]) -> bool:
    """True if the iterations of an unrolled loop, which only store, are long and share nothing: one
    body in a loop is as fast as a copy for each, and a fraction of the code.

    ``registers`` are buffers whose elements need constant indices.
    """
    cost = 0.0
    todo: list[tuple[Stmt, int, str]] = [(stmt, 1, "") for stmt in loop.body]
    for stmt, times, lane in todo:
        if isinstance(stmt, Store) and stmt.buffer not in registers:
            nodes = list(walk(stmt.value))
            cost += times * sum(SCALAR_OPS[n.name].cost for n in nodes if isinstance(n, Op))
            if not all(_is_alike(node, loop.var, lane, registers) for node in nodes):
                return False
        elif isinstance(stmt, Vectors):
            vectors = len(stmt.widths) if isinstance(stmt.extent, int) else 1
            todo += [(inner, times * vectors, stmt.var) for inner in stmt.body]
        elif isinstance(stmt, Loop) and stmt.kind == LoopKind.UNROLL:
            todo += [(inner, times * stmt.trips, lane) for inner in stmt.body]
        else:
            return False
    return cost >= LONG_ITERATION


def _is_alike(node: Expr, var: str, lane: str, registers: Container[str]) -> bool:
    """True if the iterations of ``var`` have the same code for a node, and none in common."""
    if isinstance(node, Index):
        return not mentions(node.value, var)
    if not isinstance(node, Read):
        return True
    if node.buffer in registers:
        return not any(mentions(i, var) for i in node.indices)
    return not lane or moves_on(node.indices, lane)
