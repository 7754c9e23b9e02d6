"""Sums of integers start from what is added to them at the end.

::

    registers s: int32[8]                       registers s: int32[8]
    vectorize j in 8:                           vectorize j in 8:
      s[j] = 0:int32                              s[j] = b[j]
    for k in 20:                          =>    for k in 20:
      vectorize j in 8:                           vectorize j in 8:
        s[j] += x[k, j]                             s[j] += x[k, j]
    vectorize j in 8:                           vectorize j in 8:
      y[j] = float32(s[j] + b[j])                 y[j] = float32(s[j])

It is the same sum, as integers wrap around.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ...ir.loop.expr import Expr, Op, Read, const, op, read, walk
from ...ir.loop.expr import rewrite as rewrite_expr
from ...ir.loop.intrinsics import is_zero
from ...ir.loop.nest import (
    Accumulate,
    Alloc,
    Intrinsic,
    Let,
    Nest,
    Stmt,
    Store,
    chain,
    expressions,
    rewritten,
    statements,
    with_bodies,
)
from .lanes import Machine


def start_sums(nest: Nest, _machine: Machine) -> Nest:
    """The nest in which private sums begin with the term that one statement adds to each."""
    unwritten = {o.buffer.name for o in nest.operands if not o.role.writes}

    def started(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        for at, stmt in enumerate(body):
            if isinstance(stmt, Alloc) and stmt.buffer.dtype.is_integer:
                body = _started(body, at, stmt.buffer.name, unwritten)
        return body

    return with_bodies(nest, started)


def _started(
    body: tuple[Stmt, ...], at: int, name: str, unwritten: Collection[str]
) -> tuple[Stmt, ...]:
    """Returns statements behind the allocation of a buffer, of which the first that writes to it
    and the only one that reads it run in the same loops; ``body`` if they do not."""
    later = range(at + 1, len(body))
    inner = {n: statements((body[n],)) for n in later}
    stores = [n for n in later for s in inner[n] if isinstance(s, Store) and s.buffer == name]
    readers = [n for n in later for s in inner[n] if any(_reads(e, name) for e in expressions(s))]
    sums = [s for n in later for s in inner[n] if isinstance(s, Accumulate) and s.buffer == name]
    if len(stores) != 1 or len(readers) != 1 or any(s.combiner != "sum" for s in sums):
        return body
    (first,), (last,) = stores, readers
    (loops, start), (others, end) = chain(body[first]), chain(body[last])
    ranges = [[(s.kind, s.var, s.extent) for s in path] for path in (loops, others)]
    if ranges[0] != ranges[1] or not isinstance(start, Store) or not isinstance(end, Store):
        return body
    if not is_zero(start, name) or any(isinstance(s, Intrinsic | Let) for s in (*loops, *body)):
        return body
    total = read(name, start.indices, start.value.dtype)
    node, term = _added(end.value, total, unwritten) or (None, None)
    if term is None:
        return body
    value = rewrite_expr(end.value, lambda e, _: total if e is node else None)
    made = list(body)
    made[first] = _with_value(body[first], term)
    made[last] = _with_value(body[last], value)
    return tuple(made)


def _reads(expr: Expr, name: str) -> list[Read]:
    return [n for n in walk(expr) if isinstance(n, Read) and n.buffer == name]


def _added(value: Expr, total: Expr, unwritten: Collection[str]) -> tuple[Op, Expr] | None:
    """Returns the only operator that reads a total, and what it adds to it; None if it does not
    add, or a term that is not the same before the sum."""
    users = [n for n in walk(value) if isinstance(n, Op) and total in n.args]
    if len(users) != 1 or users[0].name not in ("add", "subtract"):
        return None
    node, (left, right) = users[0], users[0].args
    term = right if left is total else left
    reads = [n for n in walk(term) if isinstance(n, Read)]
    fixed = all(n.buffer in unwritten and len(n.plain_indices) == len(n.indices) for n in reads)
    if not fixed or (node.name == "subtract" and left is not total):
        return None
    zero = const(0, term.dtype)
    return node, op("subtract", zero, term) if node.name == "subtract" else term


def _with_value(stmt: Stmt, value: Expr) -> Stmt:
    """Returns a statement whose innermost one stores another value."""
    if isinstance(stmt, Store):
        return replace(stmt, value=value)
    return rewritten(stmt, lambda body: (_with_value(body[0], value),))
