"""Walks over nests that know what each statement sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from ...ir.dataclass import dataclass
from ...ir.dims import IntExpr, bounds
from ...ir.loop.expr import Expr, Op, index_value
from ...ir.loop.kinds import LoopKind
from ...ir.loop.kinds import Scope as Memory
from ...ir.loop.nest import Alloc, If, Let, Loop, Nest, Stmt
from ...ir.loop.prim import Buffer

Ranges: TypeAlias = Mapping[str, tuple[int, int]]
"""The ranges of variables, both ends inclusive."""


def greatest_of(size: IntExpr, ranges: Ranges) -> int:
    """Returns the greatest value of a size."""
    if isinstance(size, int):
        return size
    inside = bounds(size, ranges)
    assert inside is not None, f"the range of {size} is not known"
    return inside[1]


def declare_range(let: Let, ranges: dict[str, tuple[int, int]]) -> None:
    """Adds the range of the variable of a let, if that is known."""
    inside = bounds(let.value, ranges)
    if inside is None and let.extent is not None:
        inside = 0, greatest_of(let.extent, ranges) - 1
    ranges.pop(let.var, None)  # a loop may reuse a variable's name
    ranges |= {} if inside is None else {let.var: inside}


@dataclass(slots=True)
class Scope:
    """Buffers in memory and in registers, those of tile registers, which are stored from there,
    ranges of variables, those of unrolled loops, and that of the lanes that run here, if any."""

    memory: dict[str, Buffer]
    registers: dict[str, Alloc]
    tiles: set[str]
    ranges: dict[str, tuple[int, int]]
    copied: frozenset[str] = frozenset()
    lane: str = ""

    def inner(self, ranges: Ranges, loop: Loop | None = None) -> Scope:
        """Returns the scope of a body with these ranges."""
        copied, lane = self.copied, self.lane
        if loop is not None and loop.kind == LoopKind.UNROLL:
            copied |= {loop.var}
        elif loop is not None and loop.kind in (LoopKind.VECTORIZE, LoopKind.REDUCE):
            lane = loop.var
        held = dict(self.memory), dict(self.registers), set(self.tiles)
        return Scope(*held, dict(ranges), copied, lane)

    def declare(self, stmt: Alloc | Let) -> None:
        """Adds what a statement declares for those behind it."""
        if isinstance(stmt, Alloc):
            name = stmt.buffer.name
            self.memory.pop(name, None)
            self.registers.pop(name, None)
            self.tiles -= {name}
            self.tiles |= {name} if stmt.scope == Memory.TILES else set()
            if stmt.scope == Memory.REGISTERS:
                self.registers[name] = stmt
            else:
                self.memory[name] = stmt.buffer
        else:
            declare_range(stmt, self.ranges)


Visit: TypeAlias = Callable[[Stmt, Scope, Sequence[Stmt]], Sequence[Stmt] | None]
"""Returns what replaces a statement, in whose scope others follow; None to go on inside of it."""


def rewrite(nest: Nest, visit: Visit) -> Nest:
    """Returns a nest with statements replaced, outer ones first; itself if none is."""
    buffers = (*(o.buffer for o in nest.operands), *nest.workspace)
    body = _body(nest.body, Scope({b.name: b for b in buffers}, {}, set(), {}), visit)
    return nest if body is nest.body else replace(nest, body=body)


def _body(body: tuple[Stmt, ...], scope: Scope, visit: Visit) -> tuple[Stmt, ...]:
    stmts: list[Stmt] = []
    same = True
    for number, stmt in enumerate(body):
        made = visit(stmt, scope, body[number + 1 :])
        if made is None:
            made = (_inside(stmt, scope, visit) if isinstance(stmt, (Loop, If)) else stmt,)
        same = same and len(made) == 1 and made[0] is stmt
        stmts += made
        for each in made:
            if isinstance(each, (Alloc, Let)):
                scope.declare(each)
    return body if same else tuple(stmts)


def _inside(stmt: Loop | If, scope: Scope, visit: Visit) -> Stmt:
    if isinstance(stmt, If):
        then, orelse = (
            _body(body, scope.inner(ranges_where(stmt.condition, holds, scope.ranges)), visit)
            for body, holds in ((stmt.then, True), (stmt.orelse, False))
        )
        same = then is stmt.then and orelse is stmt.orelse
        return stmt if same else replace(stmt, then=then, orelse=orelse)
    last = greatest_of(stmt.extent, scope.ranges) - 1
    inner = scope.inner({**scope.ranges, stmt.var: (0, last)}, stmt)
    body = stmt.body if last < 0 else _body(stmt.body, inner, visit)
    return stmt if body is stmt.body else replace(stmt, body=body)


def ranges_where(condition: Expr, holds: bool, ranges: Ranges) -> dict[str, tuple[int, int]]:
    """Returns the variables' ranges where a condition holds, or does not: a comparison with a
    number, which parts whole tiles from the last one, narrows that of one."""
    inside = dict(ranges)
    if isinstance(condition, Op) and condition.name == "less":
        var, end = (index_value(a) for a in condition.args)
        first, last = ranges.get(str(var), (0, 0))
        if isinstance(end, int) and str(var) in ranges:
            inside[str(var)] = (first, min(last, end - 1)) if holds else (max(first, end), last)
    return inside
