"""``tensorize``: loops that one machine instruction runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..errors import ScheduleError
from ..loop.expr import read
from ..loop.intrinsics import is_vnni, is_zero, tile_dot_of
from ..loop.kinds import Instruction, LoopKind, Scope
from ..loop.nest import Accumulate, Alloc, If, Intrinsic, Loop, Stmt, Store, chain, statements
from ..loop.prim import Buffer
from .state import State

INSTRUCTIONS = {"vnni": LoopKind.UNROLL, "amx": LoopKind.VECTORIZE}
"""The instructions that ``tensorize`` may name, with the kind of loop that each replaces."""


def tensorize(state: State, loop: str, instruction: str) -> State:
    """Run a loop by a machine instruction, wherever its iterations match the instruction.

    ::

        unroll k in 4: acc[j] += int32(x[k]) * int32(w[j, k])    =>    unroll k in 4 by vnni: ...

    "vnni" takes the unrolled loop over four products that each lane adds up. "amx" takes the vector
    loop over the columns of a register tile in the scope ``tiles``: the tile is cleared, added to
    and stored by instructions. The remainder of an axis stays as loops; so does everything on a
    machine without the instruction. Exo and TVM call this step by the same names.
    """
    state.require_loop(loop, "tensorize")
    kind = INSTRUCTIONS.get(instruction)
    if kind is None:
        names = ", ".join(INSTRUCTIONS)
        raise ScheduleError(f"tensorize: no instruction {instruction!r}; there are {names}")
    if state.kinds.get(loop) != kind:
        raise ScheduleError(f"tensorize: {instruction} takes a loop of the kind {kind}, not {loop}")
    return replace(state, tensorized={**state.tensorized, loop: instruction})


def tensorized(
    body: Sequence[Stmt], buffers: Mapping[str, Buffer], wanted: Mapping[str, str] | None
) -> tuple[Stmt, ...]:
    """Returns the statements with intrinsics for the loops ``wanted``, or for all that match.

    Raises ScheduleError for a loop of which no iteration matches its instruction.
    """
    writer = _Writer(wanted)
    result = writer.body(body, dict(buffers), None)
    for loop, instruction in (wanted or {}).items():
        if loop not in writer.made:
            raise ScheduleError(f"tensorize: {loop} is not what {instruction} does")
    return result


class _Writer:
    def __init__(self, wanted: Mapping[str, str] | None) -> None:
        self.wanted = wanted
        self.made: set[str] = set()

    def takes(self, loop: str, instruction: str) -> bool:
        return self.wanted is None or self.wanted.get(loop) == instruction

    def body(
        self, body: Sequence[Stmt], buffers: dict[str, Buffer], lane: str | None
    ) -> tuple[Stmt, ...]:
        """Returns the statements of one body, inside of the vector loop ``lane``."""
        buffers = dict(buffers)
        done: list[Stmt] = []
        todo = list(body)
        while todo:
            stmt = todo.pop(0)
            if isinstance(stmt, Alloc):
                buffers[stmt.buffer.name] = stmt.buffer
                if stmt.scope == Scope.TILES:
                    todo[:2] = self.tile(stmt.buffer, todo[:2], buffers)
            elif isinstance(stmt, Loop):
                inner = stmt.var if stmt.kind == LoopKind.VECTORIZE else lane
                stmt = replace(stmt, body=self.body(stmt.body, buffers, inner))
                if self.takes(stmt.var, "vnni") and is_vnni(stmt, lane, buffers):
                    self.made.add(stmt.var)
                    stmt = _by(stmt, Instruction.VNNI)
            elif isinstance(stmt, If):
                then, orelse = (self.body(b, buffers, lane) for b in (stmt.then, stmt.orelse))
                stmt = If(stmt.condition, then, orelse)
            done.append(stmt)
        return tuple(done)

    def tile(
        self, buffer: Buffer, stmts: Sequence[Stmt], buffers: Mapping[str, Buffer]
    ) -> Sequence[Stmt]:
        """Returns the statements that clear a tile and add to it, and one that stores it, as
        instructions; unchanged if they do not match."""
        if len(stmts) < 2 or not all(isinstance(stmt, Loop) for stmt in stmts):
            return stmts
        clear, add = (stmt for stmt in stmts if isinstance(stmt, Loop))
        cleared = [s for s in statements((clear,)) if not isinstance(s, Loop)]
        path, sums = chain(add)
        kinds = [loop.kind for loop in path]
        if not isinstance(sums, Accumulate) or sums.buffer != buffer.name:
            return stmts
        if not all(is_zero(s, buffer.name) for s in cleared):
            return stmts
        if LoopKind.VECTORIZE not in kinds:
            return stmts
        at = kinds.index(LoopKind.VECTORIZE)
        column = path[at].var
        top = at - 1 if at and kinds[at - 1] == LoopKind.UNROLL else at
        if not self.takes(column, "amx") or tile_dot_of(path[top], buffers) is None:
            return stmts
        self.made.add(column)
        product: Loop = _by(path[top], Instruction.AMX_DOT)
        for loop in reversed(path[:top]):
            product = replace(loop, body=(product,))
        copied = read(buffer.name, sums.indices, buffer.dtype)
        stored: Stmt = Store(buffer.name, sums.indices, copied)
        for loop in reversed(path[top : at + 1]):
            stored = replace(loop, body=(stored,))
        assert isinstance(stored, Loop)
        return [_by(clear, Instruction.AMX_ZERO), product, _by(stored, Instruction.AMX_STORE)]


def _by(loop: Loop, instruction: Instruction) -> Intrinsic:
    return Intrinsic(loop.kind, loop.var, loop.extent, loop.body, instruction)
