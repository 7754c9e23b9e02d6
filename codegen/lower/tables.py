"""Tables of bytes are in registers, where a target looks the bytes of a vector up in registers.

::

    vectorize j in 20:                          registers t.held: uint8[256] by 32 of 0
      y[j] = t[int64(x[j])]               =>    vectorize t.byte in 256 by [32, 32, 32, 32, 32, 32, 32, 32]:
                                                  t.held[t.byte] = t[t.byte]
                                                vectorize j in 20:
                                                  y[j] = t.held[int64(x[j])]
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...ir.dims import symbol
from ...ir.loop.expr import Expr, Read, map_reads, read, walk
from ...ir.loop.kinds import LoopKind
from ...ir.loop.kinds import Scope as Memory
from ...ir.loop.limited_index import BYTE_VALUES, byte_of
from ...ir.loop.nest import (
    Alloc,
    Loop,
    Nest,
    S,
    Stmt,
    Store,
    Vectors,
    expressions,
    rewritten,
    statements,
)
from ...ir.loop.prim import Buffer
from .lanes import Machine
from .scope import Scope, rewrite


def hold_tables(nest: Nest, machine: Machine) -> Nest:
    """The nest whose vector loops look bytes up in registers, if the target has an instruction."""
    lanes = machine.target.vector_bytes
    unwritten = {o.buffer.name for o in nest.operands if not o.role.writes}

    def held(stmt: Stmt, _scope: Scope, _rest: Sequence[Stmt]) -> Sequence[Stmt] | None:
        if not isinstance(stmt, Loop) or stmt.kind not in (LoopKind.UNROLL, LoopKind.VECTORIZE):
            return None
        inner = statements((stmt,))
        if not any(isinstance(s, Loop) and s.kind == LoopKind.VECTORIZE for s in inner):
            return None
        reads = [n for s in inner for e in expressions(s) for n in walk(e) if isinstance(n, Read)]
        tables = {n.buffer: n.dtype for n in reads if n.buffer in unwritten and byte_of(n)}
        made: list[Stmt] = []
        for name, dtype in tables.items():
            table, byte = Buffer(_held(name), (BYTE_VALUES,), dtype), symbol(f"{name}.byte")
            made.append(Alloc(table, Memory.REGISTERS, lanes, 0))
            copied = Store(table.name, (byte,), read(name, (byte,), dtype))
            widths = (lanes,) * (BYTE_VALUES // lanes)
            made.append(Vectors(LoopKind.VECTORIZE, f"{name}.byte", BYTE_VALUES, (copied,), widths))
        return (*made, _looking_up(stmt, tables.keys())) if made else None

    return rewrite(nest, held) if machine.target.permute else nest


def _held(name: str) -> str:
    return f"{name}.held"


def _looking_up(stmt: S, tables: Collection[str]) -> S:
    """Returns a statement that reads tables in registers."""

    def instead(node: Read) -> Expr | None:
        is_held = node.buffer in tables and byte_of(node)
        return read(_held(node.buffer), node.indices, node.dtype) if is_held else None

    return rewritten(
        stmt,
        lambda body: tuple([_looking_up(s, tables) for s in body]),
        lambda expr: map_reads(expr, instead),
    )
