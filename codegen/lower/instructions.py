"""Loops that an instruction runs as a whole stay loops where a target has no such instruction.

::

    stack acc: int32[2, 8]                      stack acc: int32[2, 8]
    unroll i in 2 by amx.zero:                  unroll i in 2:
      vectorize j in 8:                   =>      vectorize j in 8:
        acc[i, j] = 0:int32                         acc[i, j] = 0:int32
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.loop.intrinsics import DOTS
from ...ir.loop.kinds import Instruction
from ...ir.loop.nest import Accumulate, Intrinsic, Loop, Nest, Stmt, Store, statements
from .lanes import Machine
from .scope import Scope, rewrite


def select_instructions(nest: Nest, machine: Machine) -> Nest:
    """The nest without instructions that the target lacks; those on tiles need a buffer in tile
    registers, and nothing is to be stored if it is elsewhere."""

    def selected(stmt: Stmt, scope: Scope, _rest: Sequence[Stmt]) -> Sequence[Stmt] | None:
        if not isinstance(stmt, Intrinsic):
            return None
        writes = (s for s in statements(stmt.body) if isinstance(s, Store | Accumulate))
        in_tiles = any(s.buffer in scope.tiles for s in writes)
        if machine.target.dot(stmt.instruction) if stmt.instruction in DOTS else in_tiles:
            return None
        loop = Loop(stmt.kind, stmt.var, stmt.extent, stmt.body)
        return () if stmt.instruction == Instruction.AMX_STORE else (loop,)

    plainer = rewrite(nest, selected)  # its loops may have held other instructions
    return nest if plainer is nest else select_instructions(plainer, machine)
