"""Vector loops of stores whose vectors are computed together.

::

    vectorize j in 16 by [8, 8]:                vectorize j in 16 by [8, 8] together:
      y[j] = exp(2.0 * x[j])              =>      y[j] = exp(2.0 * x[j])
    vectorize j in 16 by [8, 8]:                  z[j] = 1.0 + (2.0 * x[j])
      z[j] = 1.0 + (2.0 * x[j])

They are one store of a long expression, whose vectors are computed operator by operator, so that
independent chains of instructions are interleaved; or stores next to each other that share
operators, on the same lanes: these are computed once.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir.loop.expr import Op, Read, walk
from ...ir.loop.kinds import LoopKind
from ...ir.loop.nest import Intrinsic, Nest, Stmt, Store, Vectors, rewritten
from ...ir.loop.scalar import SCALAR_OPS
from .lanes import Machine

LONG_EXPRESSION = 64
"""Operators of a vector from which on a core, which looks some 500 instructions ahead, does not
overlap it with the next vectors."""
SLOW_COSTS = range(16, 25)
"""Costs of functions of which the same holds alone. Dearer ones (sines) have branches."""


def join_stores(nest: Nest, _machine: Machine) -> Nest:
    """The nest in which such loops are one, whose vectors run together."""
    body = _joined(nest.body)
    return nest if body is nest.body else replace(nest, body=body)


def _joined(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    stmts: list[Stmt] = []
    last: Vectors | None = None  # the last statement, to which stores can be added
    shared: set[int] = set()  # its operators
    read: set[str] = set()  # and the buffers that it reads
    for stmt in body:
        store = _store_of(stmt)
        if store is None or not isinstance(stmt, Vectors):
            last = None
            inside = isinstance(stmt, Vectors | Intrinsic)
            stmts.append(stmt if inside else rewritten(stmt, body=_joined))
            continue
        nodes = [*walk(store.value)]
        operators = {id(n) for n in nodes if isinstance(n, Op)}
        reads = {n.buffer for n in nodes if isinstance(n, Read)}
        alike = last and (last.var, last.extent) == (stmt.var, stmt.extent)
        if last and alike and shared & operators and store.buffer not in read:
            widths = min(last.widths, stmt.widths)
            stmts[-1] = last = replace(last, widths=widths, body=(*last.body, store), together=True)
            shared, read = shared | operators, read | reads
        else:
            last, shared, read = stmt, operators, reads
            slow = any(isinstance(n, Op) and SCALAR_OPS[n.name].cost in SLOW_COSTS for n in nodes)
            long = (slow or len(operators) > LONG_EXPRESSION) and not stmt.together
            stmts.append(replace(stmt, together=True) if long else stmt)
    same = len(stmts) == len(body) and all(a is b for a, b in zip(stmts, body))
    return body if same else tuple(stmts)


def _store_of(stmt: Stmt) -> Store | None:
    """The only statement of a vector loop, if it is a store."""
    if not isinstance(stmt, Vectors) or stmt.kind != LoopKind.VECTORIZE or len(stmt.body) != 1:
        return None
    return stmt.body[0] if isinstance(stmt.body[0], Store) else None
