"""The order of sums that ``precision="reproducible"`` asks of every schedule.

It follows from a stage alone: from how it reads its last reduced axis, and from the extents of its
reduced axes. Rows beside a row, threads, vectors and schedules change nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from ..ir.dataclass import dataclass
from ..ir.dims import symbols
from ..ir.errors import ScheduleError
from ..ir.loop.block_sums import LANE_SUMS
from ..ir.loop.expr import Expr, Op, Read, const, read, reads_of, select
from ..ir.loop.kinds import LoopKind
from ..ir.loop.nest import (
    Accumulate,
    Alloc,
    If,
    Loop,
    Nest,
    Stmt,
    Store,
    chain,
    statements,
    with_bodies,
)
from ..ir.loop.prim import PrimFunc, Stage
from ..ir.loop.procedure import Procedure
from ..ir.loop.scalar import COMBINERS
from ..ir.loop.stride import flat_index, mentions, stride_along
from ..ir.schedule.steps import Schedule, Step, rfactor, split, vectorize

V = TypeVar("V")
_SUMS = "sum", "prod"
LANES, SHORTEST = 16, 16
"""Partial sums of a contiguous row, whatever vectors are; terms of the shortest row that has
them."""


def lanes_of(prim: PrimFunc, stage: Stage) -> int:
    """Returns in how many lanes a stage adds up its last reduced axis: where all that moves along
    it is contiguous. 0: one term after the other."""
    axis = stage.reduce_axes[-1] if stage.reduce_axes else None
    if axis is None or not isinstance(axis.extent, int) or axis.extent < SHORTEST:
        return 0
    rows = [a.name for a in stage.axes]
    for r in reads_of(stage.expr):
        at = flat_index(prim.buffers[r.buffer], r.plain_indices) if _is_plain(r) else None
        if at is None or (mentions(at, axis.name) and stride_along(at, axis.name) != 1):
            return 0
        if prim.buffers[r.buffer].constant and any(mentions(at, name) for name in rows):
            return 0  # weights are packed beforehand
    return min(LANES, axis.extent)


def _is_plain(r: Read) -> bool:
    return len(r.plain_indices) == len(r.indices)


def plain_schedule(prim: PrimFunc) -> Schedule:
    """Returns plain loops in which sums have their order."""
    steps: list[Step] = []
    for stage in prim.stages:
        lanes = lanes_of(prim, stage) if _is_sum(stage) else 0
        if lanes:
            axis, extent = stage.reduce_axes[-1].name, int(str(stage.reduce_axes[-1].extent))
            steps.append(split(axis, (-(-extent // lanes), lanes)))
            steps += [rfactor(stage.name, f"{axis}.1"), vectorize(f"{axis}.1")]
    return Schedule(tuple(steps))


def _is_sum(stage: Stage) -> bool:
    return stage.combiner in _SUMS and stage.buffer.dtype.is_float


def continued(nest: Nest) -> Nest:
    """The nest in which tiles of sums that loops outside go on with begin as what they are so far.

    ::

        for k.0 in 8:                           for k.0 in 8:
          registers t.acc: float32[4]             registers t.acc: float32[4]
          vectorize j in 4:                       vectorize j in 4:
            t.acc[j] = 0.0                =>        t.acc[j] = where(index(k.0) == 0, 0.0, t[j])
          ...                                     ...
          if index(k.0) == 0:                     vectorize j in 4:
            vectorize j in 4:                       t[j] = t.acc[j]
              t[j] = t.acc[j]
          else:
            vectorize j in 4:
              t[j] += t.acc[j]

    So pieces of a sum are no sums of their own. Raises ScheduleError where it does not begin so.
    """

    def new(body: tuple[Stmt, ...]) -> Sequence[Stmt]:
        made = list(body)
        for at, stmt in enumerate(body):
            ends = stmt.orelse if isinstance(stmt, If) else (stmt,)
            loops, end = chain(ends[0]) if len(ends) == 1 else ([], stmt)
            acc = _tile_added(end)
            begin = 1 + next((n for n, s in enumerate(body) if _allocates(s, acc)), len(body))
            zero = [_stored(s) == acc for s in body[begin : begin + 2]]
            if zero != [True, False] or (isinstance(stmt, If) and len(stmt.then) != 1):
                continue
            assert isinstance(end, Accumulate) and isinstance(end.value, Read)
            name, indices, value = end.buffer, end.indices, end.value
            old: Expr = read(name, indices, value.dtype)
            if isinstance(stmt, If):
                identity = const(COMBINERS[end.combiner].identity(value.dtype), value.dtype)
                old = select(stmt.condition, identity, old)
            made[begin] = _inside(loops, Store(acc, value.plain_indices, old))
            made[at] = _inside(loops, Store(name, indices, value))
        return made

    made = with_bodies(nest, new)
    for stmt in statements(made.body):
        if _tile_added(stmt):
            raise ScheduleError(f"{_tile_added(stmt)} is a piece that does not go on with its sum")
    return made


def _tile_added(stmt: Stmt) -> str:
    """Returns the tile that a statement adds to what it is a piece of; empty if it does not."""
    value = stmt.value if isinstance(stmt, Accumulate) and stmt.combiner in _SUMS else None
    is_tile = isinstance(value, Read) and value.dtype.is_float and value.buffer.endswith(".acc")
    return value.buffer if isinstance(value, Read) and is_tile else ""


def _allocates(stmt: Stmt, name: str) -> bool:
    return isinstance(stmt, Alloc) and stmt.buffer.name == name


def _stored(stmt: Stmt) -> str:
    end = chain(stmt)[1]
    return end.buffer if isinstance(end, Store) else ""


def _inside(loops: Sequence[Loop], stmt: Stmt) -> Stmt:
    for loop in reversed(loops):
        stmt = replace(loop, body=(stmt,))
    return stmt


@dataclass(frozen=True, slots=True)
class Reproducible:
    """``Target.sums`` of code that gives the same bits by every schedule."""

    @property
    def lanes(self) -> int:
        return LANES

    def check(self, prim: PrimFunc, nest: Nest) -> None:
        check_order(prim, nest)

    def continued(self, nest: Nest) -> Nest:
        return continued(nest)

    def joined(self, vectors: list[V], combine: Callable[[V, V], V]) -> V:
        """Returns the vectors of a sum's lanes as one: the halves of all lanes, of which each is
        several vectors or a part of one."""
        while len(vectors) > 1:
            half = 1 << (len(vectors) - 1).bit_length() - 1
            both = [combine(a, b) for a, b in zip(vectors, vectors[half:])]
            vectors = both + vectors[len(both) : half]
        return vectors[0]

    def plain_schedule(self, prim: PrimFunc) -> Schedule:
        return plain_schedule(prim)


def check_order(prim: PrimFunc, nest: Nest) -> None:
    """Raises ScheduleError if a nest of ``prim`` adds floats up in another order than theirs."""
    if isinstance(prim, Procedure):  # it states the order of its sums
        return
    sums = {s.name: s for s in prim.stages if _is_sum(s)}

    def visit(body: tuple[Stmt, ...], loops: tuple[Loop, ...], begun: dict[str, int]) -> None:
        for stmt in body:
            if isinstance(stmt, Alloc):
                begun = {**begun, stmt.buffer.name: len(loops)}
            elif isinstance(stmt, Loop):
                visit(stmt.body, (*loops, stmt), begun)
            elif isinstance(stmt, If):
                visit(stmt.then, loops, begun)
                visit(stmt.orelse, loops, begun)
            elif isinstance(stmt, Accumulate) and _adds_floats(stmt):
                check(stmt, loops, begun.get(stmt.buffer, 0))

    def check(stmt: Accumulate, loops: tuple[Loop, ...], begun: int) -> None:
        name, in_lanes = stmt.buffer.removesuffix(".acc"), stmt.buffer.endswith(LANE_SUMS)
        stage = sums.get(name.removesuffix(LANE_SUMS))
        if stage is None:
            raise ScheduleError(f"{name} is a sum of a schedule's own")
        source = stmt.value.buffer if isinstance(stmt.value, Read) else ""
        if source == f"{stage.name}.acc":  # a tile that goes on with the sum
            return
        lanes, axes = lanes_of(prim, stage), [a.name for a in stage.reduce_axes]
        around, inner = loops[:begun], loops[begun:]
        moving = [l for l in inner if any(mentions(i, l.var) for i in stmt.indices)]
        reduced = [l for l in inner if l not in moving and l.extent != 1]
        if source == f"{stage.name}{LANE_SUMS}":
            good = [(l.kind, l.extent) for l in reduced] == [(LoopKind.VECTORIZE, lanes)]
        else:
            if in_lanes:
                lane = symbols(stmt.indices[-1])
                reduced += [l for l in moving if l.var in lane and l.extent == lanes]
            order = [_place(l.var.removeprefix(f"{stage.name}."), axes) for l in reduced]
            before = [_place(l.var.removeprefix(f"{stage.name}."), axes) for l in around]
            before = [place for place in before if place != (-1,)]
            order = [*before, *order]
            good = order == sorted(order) and (-1,) not in order and bool(lanes) == in_lanes
            good &= not (in_lanes and before)
            good &= in_lanes or all(l.kind != LoopKind.VECTORIZE for l in reduced)
            good &= _multiplies(stmt) == _multiplies(stage)
        if not good:
            raise ScheduleError(f"the sum {stage.name} does not have its order of all schedules")

    visit(nest.body, (), {})
    continued(nest)


def _adds_floats(stmt: Accumulate) -> bool:
    return stmt.combiner in _SUMS and stmt.value.dtype.is_float


def _multiplies(sum: Stage | Accumulate) -> bool:
    """True if the terms of a sum are products, which are not rounded before they are added."""
    value = sum.expr if isinstance(sum, Stage) else sum.value
    return isinstance(value, Op) and value.name == "multiply"


def _place(loop: str, axes: list[str]) -> tuple[int, ...]:
    """Returns the position of a reduced loop in the order of terms; (-1,) if it is of no axis."""
    axis, *parts = loop.split(".")
    is_part = axis in axes and all(p.isdigit() for p in parts)
    return (axes.index(axis), *map(int, parts)) if is_part else (-1,)
