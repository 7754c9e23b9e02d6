"""The loop of a kernel in which it spends its time, as the target runs it."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.dims import typical
from ..ir.loop.expr import Op, walk
from ..ir.loop.kinds import LoopKind
from ..ir.loop.nest import At, If, Loop, Nest, Stmt, expressions, statement_lines
from ..ir.loop.scalar import SCALAR_OPS

LONGEST_QUOTE = 12
"""Lines of a loop that are quoted at most."""


def hottest_loop(nest: Nest) -> list[str]:
    """Returns the lines of the innermost loop, with the vectors and copies in it, that computes the
    most; those of the whole body without a loop."""
    body, loop = nest.body, nest.body
    while body:
        stmt = max(body, key=lambda each: _cost((each,)))
        if isinstance(stmt, Loop) and stmt.kind in (LoopKind.FOR, LoopKind.PARALLEL):
            loop = (stmt,)
        body = _inside(stmt)
    lines = [line for line, _ in statement_lines(loop, 0)]
    return lines if len(lines) <= LONGEST_QUOTE else [*lines[: LONGEST_QUOTE - 1], "..."]


def _inside(stmt: Stmt) -> tuple[Stmt, ...]:
    if isinstance(stmt, If):
        return max(stmt.then, stmt.orelse, key=_cost)
    return stmt.body if isinstance(stmt, Loop) else ()


def _cost(body: Sequence[Stmt]) -> float:
    """Returns the instructions that statements execute at typical sizes, counted without lanes."""
    cost = 0.0
    for stmt in body:
        operators = [n for expr in expressions(stmt) for n in walk(expr) if isinstance(n, Op)]
        cost += 1 + sum(SCALAR_OPS[node.name].cost for node in operators)
        times = typical(stmt.extent) if isinstance(stmt, Loop) and not isinstance(stmt, At) else 1
        cost += times * _cost(_inside(stmt))
    return cost
