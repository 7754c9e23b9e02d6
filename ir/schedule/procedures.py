"""Schedules of procedures: steps that change loops whose iterations are independent.

Before, and after ``split("j", (2, 16))`` and ``vectorize("j.1")``::

    for j in 32:                            for j.0 in 2:
      registers sum: float32[1]               registers sum: float32[1, 16]
      sum[0] = 0.0                            vectorize j.1 in 16:
      for k in 9:                               sum[0, j.1] = 0.0
        sum[0] += x[k, j]                     for k in 9:
        out[k, j] = sum[0]                      vectorize j.1 in 16:
                                                  sum[0, j.1] += x[k, 16 * j.0 + j.1]
                                                vectorize j.1 in 16:
                                                  out[k, 16 * j.0 + j.1] = sum[0, j.1]

Iterations are independent if each touches elements of its own in every buffer that the loop writes
and does not declare. They may then run in any order: on threads (``parallel``), or statement by
statement in vector lanes, with a copy of the loop's own buffers for each lane (``vectorize``).
``split`` and ``unroll`` keep the order, and are legal for every loop. A split that leaves a rest
gives it a loop of its own behind, called as the last part. ``pack("x", "j.1", 16)`` is for constant
operands: ``x[k, 16 * j.0 + j.1]`` is read as ``x.packed[j.0, k, j.1]``, where rows of a panel are
neighbours in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf

from .. import dims
from ..errors import ScheduleError
from ..loop import nest as nests
from ..loop.expr import Expr, IndexLike, Read, map_reads, read, walk
from ..loop.kinds import LoopKind, Role
from ..loop.nest import (
    Accumulate,
    Alloc,
    At,
    Let,
    Loop,
    Nest,
    Operand,
    Sort,
    Stmt,
    Store,
    statements,
)
from ..loop.pack import Pack
from ..loop.prim import Buffer
from ..loop.procedure import Procedure, plain_nest
from .limits import LIMITS
from .schedule import Schedule

Ranges = dict[str, tuple[int, int]]


def scheduled(prim: Procedure, schedule: Schedule) -> Nest:
    """Returns the nest of a procedure under a schedule; ScheduleError if a step is illegal."""
    nest = plain_nest(prim)
    for step in schedule.steps:
        if step.name == "pack":
            nest = _packed(nest, *step.args)
            continue
        rewrite = _STEPS.get(step.name)
        if rewrite is None:
            raise ScheduleError(f"{step.name}: @{prim.name} is a procedure, which has loops alone")
        done: list[str] = []
        body = _rewritten(nest.body, {}, step.args, rewrite, done)
        if not done:
            raise ScheduleError(f"{step.name}: @{prim.name} has no loop {step.args[0]}")
        nest = replace(nest, body=body)
    return nest


Rewrite = Callable[[Loop, Ranges, tuple[object, ...]], list[Stmt]]


def _rewritten(
    body: Sequence[Stmt],
    ranges: Ranges,
    args: tuple[object, ...],
    rewrite: Rewrite,
    done: list[str],
) -> tuple[Stmt, ...]:
    """``body`` with every loop called ``args[0]`` rewritten."""
    ranges, result = dict(ranges), []
    for stmt in body:
        if isinstance(stmt, Let):
            inside = dims.bounds(stmt.value, ranges)
            if inside is not None:
                ranges[stmt.var] = inside
        if isinstance(stmt, Loop) and not isinstance(stmt, At) and stmt.var == args[0]:
            if stmt.kind != LoopKind.FOR:
                raise ScheduleError(f"{stmt.var} is a {stmt.kind} loop already")
            done.append(stmt.var)
            result += rewrite(stmt, ranges, args)
            continue
        inner = ranges
        if isinstance(stmt, Loop):
            most = (dims.bounds(stmt.extent, ranges) or (0, dims.LARGEST_SIZE))[1]
            inner = {**ranges, stmt.var: (0, most - 1)}

        def below(body: Sequence[Stmt], inner: Ranges = inner) -> tuple[Stmt, ...]:
            return _rewritten(body, inner, args, rewrite, done)

        result.append(nests.rewritten(stmt, below))
    return tuple(result)


# -- independence -----------------------------------------------------------------------------


def independent(loop: Loop, ranges: Ranges) -> bool:
    """True if no iteration of a loop touches an element that another one writes.

    Buffers that are declared in the loop belong to the iteration. Of any other one that is written
    there must be a dimension in which no two iterations have an index in common.
    """
    inside = tuple(statements(loop.body))
    private = {s.buffer.name for s in inside if isinstance(s, Alloc)}
    written = {s.buffer for s in inside if isinstance(s, Store | Accumulate | Sort)} - private
    places: dict[str, list[Sequence[IndexLike]]] = {name: [] for name in written}
    inner: Ranges = {}
    lets: dict[str, dims.IntExpr] = {}
    for stmt in inside:
        if isinstance(stmt, Loop):
            most = (dims.bounds(stmt.extent, {**ranges, **inner}) or (0, dims.LARGEST_SIZE))[1]
            inner[stmt.var] = (0, max(most - 1, inner.get(stmt.var, (0, 0))[1]))
        if isinstance(stmt, Let):
            lets[stmt.var] = dims.substitute(stmt.value, lets)
        if isinstance(stmt, Store | Accumulate) and stmt.buffer in places:
            places[stmt.buffer].append(stmt.indices)
        if isinstance(stmt, Sort) and stmt.buffer in places:
            places[stmt.buffer] += [stmt.indices, stmt.last]
        for expr in nests.expressions(stmt):
            for node in walk(expr):
                if isinstance(node, Read) and node.buffer in places:
                    places[node.buffer].append(node.indices)
    return all(
        any(
            _apart([indices[dim] for indices in accesses], loop.var, lets, inner)
            for dim in range(len(accesses[0]))
        )
        for accesses in places.values()
    )


def _apart(
    indices: Sequence[IndexLike], var: str, lets: Mapping[str, dims.IntExpr], inner: Ranges
) -> bool:
    """True if no two iterations of ``var`` have an element of these indices in common.

    Each is ``step * var``, plus the same of loops around it, plus a rest: all rests together span
    less than a step.
    """
    steps: set[int] = set()
    around: set[tuple[tuple[str, int], ...]] = set()
    low, high = inf, -inf
    for index in indices:
        plain = dims.substitute(index, lets) if isinstance(index, dims.Dim) else index
        parts = dims.linear(plain) if isinstance(plain, dims.Dim) else None
        if parts is None:
            return False
        factors, rest = dict(parts[0]), (parts[1], parts[1])
        steps.add(factors.pop(var, 0))
        for name in [n for n in factors if n in inner]:
            most = factors.pop(name) * inner[name][1]
            rest = rest[0] + min(0, most), rest[1] + max(0, most)
        around.add(tuple(sorted(factors.items())))
        low, high = min(low, rest[0]), max(high, rest[1])
    return len(steps) == len(around) == 1 and high - low < abs(steps.pop())


# -- steps ------------------------------------------------------------------------------------


def _parallel(loop: Loop, ranges: Ranges, _args: tuple[object, ...]) -> list[Stmt]:
    if not independent(loop, ranges):
        raise ScheduleError(f"parallel: the iterations of {loop.var} depend on one another")
    return [replace(loop, kind=LoopKind.PARALLEL)]


def _unroll(loop: Loop, _ranges: Ranges, _args: tuple[object, ...]) -> list[Stmt]:
    if isinstance(loop.extent, dims.Dim) or loop.extent > LIMITS.unrolled:
        raise ScheduleError(f"unroll: {loop.var} has {loop.extent} iterations")
    return [replace(loop, kind=LoopKind.UNROLL)]


def _split(loop: Loop, _ranges: Ranges, args: tuple[object, ...]) -> list[Stmt]:
    factors = args[1]
    if not isinstance(factors, tuple) or len(factors) != 2 or factors[1] < 1:
        raise ScheduleError(f"split: {loop.var} is split in two, not by {factors}")
    width, extent = factors[1], loop.extent
    if isinstance(extent, int):
        width = min(width, extent)
    count, rest = (dims.floordiv(extent, width), dims.mod(extent, width)) if width else (0, 0)
    outer, inner = f"{loop.var}.0", f"{loop.var}.1"

    def part(extent: dims.IntExpr, begin: dims.IntExpr) -> Loop:
        place = {loop.var: begin + dims.symbol(inner)}
        return Loop(loop.kind, inner, extent, tuple(nests.substituted(s, place) for s in loop.body))

    parts: list[Stmt] = []
    if count != 0:
        parts.append(Loop(loop.kind, outer, count, (part(width, dims.symbol(outer) * width),)))
    if isinstance(rest, int):
        return [*parts, part(rest, count * width)] if rest else parts
    # The loop over the rest has a name of its own, so that no step asks for lanes in it.
    inner = f"{loop.var}.rest"
    return [*parts, part(rest, count * width)]


def _vectorize(loop: Loop, ranges: Ranges, _args: tuple[object, ...]) -> list[Stmt]:
    if isinstance(loop.extent, dims.Dim) or loop.extent > LIMITS.lanes:
        raise ScheduleError(f"vectorize: {loop.var} has {loop.extent} iterations")
    if not independent(loop, ranges):
        raise ScheduleError(f"vectorize: the iterations of {loop.var} depend on one another")
    private = {s.buffer.name for s in statements(loop.body) if isinstance(s, Alloc)}
    return [_in_lanes(stmt, loop, private) for stmt in loop.body]


def _in_lanes(stmt: Stmt, loop: Loop, private: set[str]) -> Stmt:
    """A statement of a loop, run by all iterations at once; each has its part of ``private``."""
    if isinstance(stmt, Alloc):
        buffer = stmt.buffer
        wide = Buffer(buffer.name, (*buffer.shape, loop.extent), buffer.dtype)
        return Alloc(wide, stmt.scope)
    if isinstance(stmt, Loop) and not isinstance(stmt, At) and stmt.kind != LoopKind.VECTORIZE:
        return nests.map_bodies(stmt, lambda s: _in_lanes(s, loop, private))
    if isinstance(stmt, Store | Accumulate):
        lane = dims.symbol(loop.var)

        def mine(node: Read) -> Expr | None:
            if node.buffer not in private:
                return None
            return read(node.buffer, (*node.indices, lane), node.dtype)

        changed = replace(stmt, value=map_reads(stmt.value, mine))
        if stmt.buffer in private:
            changed = replace(changed, indices=(*stmt.indices, lane))
        return Loop(LoopKind.VECTORIZE, loop.var, loop.extent, (changed,))
    if isinstance(stmt, Let) and loop.var not in dims.symbols(stmt.value):
        return stmt
    if isinstance(stmt, nests.Prefetch):
        return stmt
    raise ScheduleError(f"vectorize: data decides which statements an iteration of {loop.var} runs")


def _packed(nest: Nest, name: str, axis: str, tile: int) -> Nest:
    """The nest with a constant operand in panels along the dimension that the loop walks."""
    operand = next((o for o in nest.operands if o.buffer.name == name), None)
    if operand is None or operand.role != Role.CONST or tile < 1:
        raise ScheduleError(f"pack: {name!r} is not a constant operand that can be packed")
    reads = [node for stmt in statements(nest.body) for node in _reads_of(name, stmt)]
    walked = {
        dim
        for node in reads
        for dim, index in enumerate(node.indices)
        if isinstance(index, dims.Dim) and axis in dims.symbols(index)
    }
    if len(walked) != 1:
        raise ScheduleError(f"pack: {axis} does not walk exactly one dimension of {name}")
    made = Pack.of(operand.buffer, walked.pop(), tile)
    buffer = replace(made.stage.buffer, constant=True)

    def in_panels(stmt: Stmt, ranges: Ranges) -> Stmt:
        if isinstance(stmt, Loop):
            most = (dims.bounds(stmt.extent, ranges) or (0, dims.LARGEST_SIZE))[1]
            ranges = {**ranges, stmt.var: (0, max(most - 1, 0))}

        def at(node: Read) -> Expr | None:
            if node.buffer != name:
                return None
            rest, index = list(node.indices), node.indices[made.dim]
            del rest[made.dim]
            if not isinstance(index, int | dims.Dim):
                raise ScheduleError(f"pack: {name} is indexed by data")
            places = (dims.floordiv(index, tile), dims.mod(index, tile))
            panel, place = (dims.resolve(i, ranges) for i in places)
            if any(isinstance(i, dims.Dim) and dims.linear(i) is None for i in (panel, place)):
                raise ScheduleError(f"pack: {index} of {name} is not in one panel of {tile}")
            return read(buffer.name, (panel, *rest, place), node.dtype)

        return nests.rewritten(
            stmt,
            lambda body: tuple([in_panels(s, ranges) for s in body]),
            lambda expr: map_reads(expr, at),
        )

    operands = [Operand(buffer, Role.PACKED, made) if o is operand else o for o in nest.operands]
    body = tuple([in_panels(stmt, {}) for stmt in nest.body])
    return replace(nest, operands=tuple(operands), body=body)


def _reads_of(name: str, stmt: Stmt) -> list[Read]:
    return [
        node
        for expr in nests.expressions(stmt)
        for node in walk(expr)
        if isinstance(node, Read) and node.buffer == name
    ]


_STEPS: dict[str, Rewrite] = {
    "parallel": _parallel,
    "split": _split,
    "unroll": _unroll,
    "vectorize": _vectorize,
}
