"""``tensorize``: loops that one machine instruction runs; ``shift_bytes``, which it may need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..dims import Dim, IntExpr, symbol, symbols
from ..dtype import UINT8
from ..errors import ScheduleError
from ..loop import expr as exprs
from ..loop.expr import Expr, Index, Op, Read, buffers_of, const, map_reads, op, read, walk
from ..loop.intrinsics import DOTS, is_dot, is_zero, tile_dot_of
from ..loop.kinds import Instruction, LoopKind, Scope
from ..loop.nest import (
    Accumulate,
    Alloc,
    If,
    Intrinsic,
    Loop,
    Prefetch,
    Stmt,
    Store,
    chain,
    statements,
    substituted,
)
from ..loop.pack import SHIFTED
from ..loop.prim import Axis, Buffer, Stage
from .rows import INSTRUCTION, Rows
from .schedule import Primitive
from .state import State

INSTRUCTIONS = {**dict.fromkeys(map(str, DOTS), LoopKind.UNROLL), "amx": LoopKind.VECTORIZE}
"""The instructions that ``tensorize`` may name, with the kind of loop that each replaces."""


@Primitive
def tensorize(state: State, loop: str, instruction: str) -> State:
    """Run a loop by a machine instruction, wherever its iterations match the instruction.

    ::

        unroll k in 4: acc[j] += int32(x[k]) * int32(w[j, k])    =>    unroll k in 4 by vnni: ...

    "vnni" takes the unrolled loop over four products of bytes that each lane adds up, "bf16" that
    over two products of bfloat16. "amx" takes the vector loop over the columns of a register tile
    in the scope ``tiles``: the tile is cleared, added to and stored by instructions. The remainder
    of an axis stays as loops; so does everything on a machine without the instruction. Exo and TVM
    call this step by the same names.
    """
    state.require_loop(loop, "tensorize")
    kind = INSTRUCTIONS.get(instruction)
    if kind is None:
        names = ", ".join(INSTRUCTIONS)
        raise ScheduleError(f"tensorize: no instruction {instruction!r}; there are {names}")
    if state.kinds.get(loop) != kind:
        raise ScheduleError(f"tensorize: {instruction} takes a loop of the kind {kind}, not {loop}")
    return replace(state, tensorized={**state.tensorized, loop: instruction})


@tensorize.rows
def _tensorize_rows(rows: Rows, loop: str, instruction: str) -> None:
    if instruction == "amx":
        rows.matrix |= rows.where & (loop in rows.order)
    else:
        rows.annotate(loop, INSTRUCTION)


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
                ahead = [s for s in stmt.body if isinstance(s, Prefetch)]
                sums = replace(stmt, body=tuple(s for s in stmt.body if s not in ahead))
                for name in DOTS:
                    if self.takes(stmt.var, name) and is_dot(name, sums, lane, buffers):
                        self.made.add(stmt.var)
                        done += [substituted(s, {stmt.var: 0}) for s in ahead]
                        stmt = _by(sums, Instruction(name))
                        break
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


SHIFT = 128


@Primitive
def shift_bytes(state: State, name: str, packed: str) -> State:
    """Shift the packed bytes that a sum of products reads by 128, and subtract the excess.

    ::

        t[i, j] = sum(k) int32(x[i, k]) * int32(w.packed[...])         w.packed: int8
          =>
        t.shift[i]  = sum(k) int32(x[i, k])
        t.raw[i, j] = sum(k) int32(x[i, k]) * int32(w.packed[...])     w.packed: uint8
        t[i, j]     = t.raw[i, j] + t.shift[i] * -128

    Bytes without signs become bytes with signs, and 128 times the sums is added. Instructions that
    add up products in fours (VNNI) take one operand of each kind (oneDNN, "Int8 inference").
    """
    stage = state.require_stage(name, "shift_bytes")
    pack = state.packs.get(packed)
    if pack is None or pack.stage.buffer.dtype not in SHIFTED or pack.shifted:
        raise ScheduleError(f"shift_bytes: {packed!r} is not a packed operand of bytes")
    if not set(state.splits) <= {a.name for p in state.packs.values() for a in p.stage.axes}:
        raise ScheduleError("shift_bytes: must come before splits")
    other = _other_factor(stage, packed)
    readers = [s for s in state.prim.stages if packed in buffers_of(s.expr)]
    if other is None or readers != [stage]:
        raise ScheduleError(f"shift_bytes: {name} is not the one sum of products with {packed}")
    # The excess is 128 times the sum of the other factor, which must run over all reduced axes.
    walked = {n for node in walk(other) for n in _symbols(node)}
    if not {a.name for a in stage.reduce_axes} <= walked:
        raise ScheduleError(f"shift_bytes: not every axis that {name} reduces moves both operands")
    moved = pack.shift()
    dtype, buffer = stage.buffer.dtype, moved.stage.buffer
    sums = _sums_of(stage, other, walked)
    raw = Buffer(f"{name}.raw", stage.buffer.shape, dtype)
    if {sums.name, raw.name} & set(state.prim.buffers):
        raise ScheduleError(f"shift_bytes: the products of {name} are shifted already")

    # The products read the shifted bytes; a map after them subtracts the excess.
    def shifted(node: Read) -> Expr | None:
        return read(packed, node.indices, buffer.dtype) if node.buffer == packed else None

    added = SHIFT if buffer.dtype == UINT8 else -SHIFT
    place = [symbol(a.name) for a in stage.axes]
    excess = read(sums.name, [i for i, a in zip(place, stage.axes) if a.name in walked], dtype)
    total = op("multiply", excess, const(-added, dtype))
    total = op("add", read(raw.name, place, dtype), total)
    stages: list[Stage] = []
    for s in state.prim.stages:
        if s is stage:
            products = replace(stage, buffer=raw, expr=map_reads(stage.expr, shifted))
            stages += [sums, products, Stage(stage.buffer, stage.axes, total)]
        else:
            stages.append(moved.stage if s.name == packed else s)
    params = tuple(
        replace(buffer, constant=True) if p.name == packed else p for p in state.prim.params
    )
    prim = replace(state.prim, params=params, stages=tuple(stages))
    order = (*(a.name for a in (*sums.axes, *sums.reduce_axes)), *state.order)
    return replace(state, prim=prim, order=order, packs={**state.packs, packed: moved})


@shift_bytes.rows
def _shift_bytes_rows(rows: Rows, name: str, _packed: str) -> None:
    rows.shifted[f"{name}.raw"] = name


def _other_factor(stage: Stage, packed: str) -> Expr | None:
    """Returns the factor of the widened bytes of ``packed`` in a sum of products of integers."""
    expr = stage.expr
    if stage.combiner != "sum" or not isinstance(expr, Op) or expr.name != "multiply":
        return None
    widened = [_is_widened(f, packed) for f in expr.args]
    if sum(widened) != 1 or stage.buffer.dtype.bits < 32 or not stage.buffer.dtype.is_integer:
        return None
    return expr.args[widened.index(False)]


def _is_widened(factor: Expr, packed: str) -> bool:
    if not isinstance(factor, Op) or factor.name != "cast" or not factor.dtype.is_integer:
        return False
    inner = factor.args[0]
    return isinstance(inner, Read) and inner.buffer == packed and factor.dtype.bits >= 32


def _symbols(node: Expr) -> set[str]:
    """Returns the axes that a read, or the value of an index, depends on."""
    indices = node.indices if isinstance(node, Read) else ()
    values = [i for i in indices if isinstance(i, Dim)]
    if isinstance(node, Index) and isinstance(node.value, Dim):
        values.append(node.value)
    return {name for i in values for name in symbols(i)}


def _sums_of(stage: Stage, factor: Expr, walked: set[str]) -> Stage:
    """Returns the stage of the sums of a factor alone, with separate axes."""
    name = f"{stage.name}.shift"
    names: dict[str, IntExpr | Expr] = {
        a.name: symbol(f"{name}.{a.name}") for a in (*stage.axes, *stage.reduce_axes)
    }
    axes = tuple(Axis(f"{name}.{a.name}", a.extent) for a in stage.axes if a.name in walked)
    reduced = tuple(Axis(f"{name}.{a.name}", a.extent) for a in stage.reduce_axes)
    buffer = Buffer(name, tuple(a.extent for a in axes), stage.buffer.dtype)
    return Stage(buffer, axes, exprs.substitute_indices(factor, names), reduced, "sum")
