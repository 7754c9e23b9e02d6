"""Sums that a loop carries in a private buffer begin in front of it, where registers can hold them.

::

    stack t: float32[4]                         stack t: float32[4]
    for k in 8:                                 vectorize j in 4:
      registers t.acc: float32[4]                 t[j] = 0.0
      vectorize j in 4:                         for k in 8:
        t.acc[j] = 0.0                    =>      vectorize j in 4:
      vectorize j in 4:                             t[j] += x[k] * y[k, j]
        t.acc[j] += x[k] * y[k, j]
      if index(k) == 0:
        vectorize j in 4:
          t[j] = t.acc[j]
      else:
        vectorize j in 4:
          t[j] += t.acc[j]

No branch has to say where results lie, so that ``place_registers`` finds registers for them; and a
product is added to what is there by one instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...ir.dims import symbol, symbols
from ...ir.loop.expr import Const, Read, const, index, op, read, walk
from ...ir.loop.kinds import LoopKind
from ...ir.loop.nest import (
    Accumulate,
    Alloc,
    If,
    Let,
    Loop,
    Nest,
    Sort,
    Stmt,
    Store,
    chain,
    expressions,
    statements,
    with_bodies,
)
from ...ir.loop.scalar import COMBINERS
from .lanes import Machine

SHARE = 4
"""Vector registers of which one may carry sums: those of an iteration take as many, operands the
others."""


def carry_sums(nest: Nest, machine: Machine) -> Nest:
    """The nest in which such sums begin in front of their loop."""
    room = machine.target.vector_registers // SHARE * machine.lanes

    def carried(body: tuple[Stmt, ...]) -> list[Stmt]:
        small = {
            s.buffer.name
            for s in body
            if isinstance(s, Alloc) and isinstance(s.buffer.size, int) and s.buffer.size <= room
        }
        return [new for stmt in body for new in _carried(stmt, small)]

    return with_bodies(nest, carried)


def _carried(loop: Stmt, small: set[str]) -> Sequence[Stmt]:
    """Returns what replaces a statement: itself, but for a loop that carries sums in a buffer."""
    if not isinstance(loop, Loop) or loop.kind != LoopKind.FOR or len(loop.body) < 4:
        return (loop,)
    *front, alloc, begin, add, end = loop.body
    match end:
        case If(condition, (then,), (orelse,)) if condition == op(
            "equal", index(symbol(loop.var)), index(0)
        ):
            pass
        case _:
            return (loop,)
    (loops, zero), (_, added), (_, stored), (_, joined) = chains = [
        chain(each) for each in (begin, add, then, orelse)
    ]
    match alloc, zero, added, stored, joined:
        case (
            Alloc(buffer),
            Store(_, place, Const()),
            Accumulate(_, _, combiner, value),
            Store(carried, target, Read() as result),
            Accumulate(_, _, _, _),
        ):
            pass
        case _:
            return (loop,)
    identity = const(COMBINERS[combiner].identity(buffer.dtype), buffer.dtype)
    heads = {tuple([(l.kind, l.var, l.extent) for l in around]) for around, _ in chains}
    plain = Store("", (), value)  # what is added, without the place
    indices = (*target, *(l.extent for l in loops))
    names = {n for i in indices for n in symbols(i)} - {l.var for l in loops}
    expected = (
        Store(buffer.name, place, identity),
        Accumulate(buffer.name, place, combiner, value),
        Store(carried, target, read(buffer.name, place, buffer.dtype)),
        Accumulate(carried, target, combiner, result),
    )
    if (
        carried not in small
        or len(heads) > 1
        or (zero, added, stored, joined) != expected
        or names & _declared(loop)
        or any({carried, buffer.name} & _touched(s) for s in statements((*front, plain)))
    ):
        return (loop,)
    first, more = Store(carried, target, identity), Accumulate(carried, target, combiner, value)
    body = (*front, _inside(loops, more))
    return _inside(loops, first), replace(loop, body=body)


def _inside(loops: Sequence[Loop], stmt: Stmt) -> Stmt:
    for loop in reversed(loops):
        stmt = replace(loop, body=(stmt,))
    return stmt


def _declared(loop: Loop) -> set[str]:
    """Variables that a loop and its body declare."""
    inside = statements((loop,))
    return {s.var for s in inside if isinstance(s, Loop | Let)}


def _touched(stmt: Stmt) -> set[str]:
    """Buffers that a statement itself reads or writes."""
    reads = {n.buffer for e in expressions(stmt) for n in walk(e) if isinstance(n, Read)}
    return reads | ({stmt.buffer} if isinstance(stmt, Store | Accumulate | Sort) else set())
