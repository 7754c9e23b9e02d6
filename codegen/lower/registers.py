"""Private buffers are held in vector registers, where all their indices are constants of the
code, tile registers, or memory.

::

    registers acc: float32[2, 20]               registers acc: float32[2, 20] by 8 of 1
    unroll i in 2:                              unroll i in 2:
      vectorize j in 20:                  =>      vectorize j in 20:
        acc[i, j] = 0.0                             acc[i, j] = 0.0
    registers row: float32[20]                  stack row: float32[20]
    for k in 20:                                for k in 20:
      row[k] = x[k]                               row[k] = x[k]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...ir.dims import Dim, symbols
from ...ir.loop.expr import Expr, Read, walk
from ...ir.loop.intrinsics import tile_dot_behind
from ...ir.loop.kinds import LoopKind
from ...ir.loop.kinds import Scope as Memory
from ...ir.loop.nest import Accumulate, Alloc, At, If, Loop, Nest, Sort, Stmt, Store, statements
from ...ir.loop.prim import Buffer
from ...ir.loop.stride import stride_along
from .lanes import Machine, lanes_for
from .scope import Scope, greatest_of, rewrite

MAX_REGISTER_ELEMENTS = 4096
"""Elements of a private buffer beyond which it is an array on the stack."""


def place_registers(nest: Nest, machine: Machine) -> Nest:
    """The nest in which each private buffer is in registers of so many lanes, in tiles that the
    target has, or on the stack."""

    def place(stmt: Stmt, scope: Scope, rest: Sequence[Stmt]) -> Sequence[Stmt] | None:
        if not isinstance(stmt, Alloc):
            return None
        buffer, layout = stmt.buffer, None
        in_tiles = stmt.scope == Memory.TILES and machine.target.has_tiles
        if in_tiles and tile_dot_behind(stmt, rest, scope.memory) is not None:
            return (stmt,)
        if greatest_of(buffer.size, scope.ranges) <= MAX_REGISTER_ELEMENTS:
            layout = register_axis(buffer, rest)
        if layout is None:
            return (replace(stmt, scope=Memory.STACK),) if stmt.scope != Memory.STACK else None
        dim, in_vectors = layout
        width = buffer.shape[dim] if buffer.shape else 1
        lanes = lanes_for(greatest_of(width, scope.ranges), machine.lanes) if in_vectors else 1
        placed = Alloc(buffer, Memory.REGISTERS, lanes, dim)
        return None if placed == stmt else (placed,)

    return rewrite(nest, place)


def register_axis(buffer: Buffer, rest: Sequence[Stmt]) -> tuple[int, bool] | None:
    """Returns the axis along which registers hold the buffer, and True if vector loops use it.

    None if the position of some element that is used is not a constant of the emitted code.
    """
    kinds: dict[str, LoopKind] = {}
    uses: list[Sequence[object]] = []
    for stmt in statements(tuple(rest)):
        if isinstance(stmt, At | If):  # nothing but memory carries results out of a branch
            bodies = (stmt.body,) if isinstance(stmt, At) else (stmt.then, stmt.orelse)
            inside = tuple(s for body in bodies for s in statements(body))
            if any(isinstance(s, Store | Accumulate) and s.buffer == buffer.name for s in inside):
                return None
            read = stmt.value if isinstance(stmt, At) else stmt.condition
            uses += _uses(read, buffer)
        elif isinstance(stmt, Loop):
            kinds[stmt.var] = stmt.kind
        elif isinstance(stmt, Store | Accumulate):
            if stmt.buffer == buffer.name:
                uses.append(stmt.indices)
            uses += _uses(stmt.value, buffer)
        elif isinstance(stmt, Sort) and stmt.buffer == buffer.name:  # in memory
            return None
    moves: set[tuple[int, str]] = set()  # (dimension, vector loop that walks it)
    steps: set[int | None] = set()
    for indices in uses:
        for dim, i in enumerate(indices):
            if not isinstance(i, int | Dim):
                return None
            for name in symbols(i):
                kind = kinds.get(name)
                if kind == LoopKind.VECTORIZE:
                    moves.add((dim, name))
                    steps.add(stride_along(i, name))
                elif kind != LoopKind.UNROLL:
                    return None
    walked = {dim for dim, _ in moves}
    if len(walked) > 1 or not steps <= {1}:
        return None
    return (walked.pop(), True) if walked else (max(0, len(buffer.shape) - 1), False)


def _uses(expr: Expr, buffer: Buffer) -> list[Sequence[object]]:
    """Returns the indices at which an expression reads a buffer."""
    return [n.indices for n in walk(expr) if isinstance(n, Read) and n.buffer == buffer.name]
