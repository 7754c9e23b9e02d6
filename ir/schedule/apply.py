"""Applying a schedule: PrimFunc and Schedule in, loop nest out.

The stages are first laid into a tree of loops (``tree.py``); then the tree is written out with
constant extents: where a split does not divide its axis, the body stands once more for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..dims import Dim, IntExpr, as_int, resolve, substitute, symbol
from ..errors import ScheduleError
from ..loop.expr import (
    Expr,
    Index,
    Op,
    Read,
    children,
    const,
    index,
    op,
    read,
    rewrite,
    select,
    walk,
)
from ..loop.nest import Accumulate, Alloc, If, Let, Loop, Nest, Operand, Prefetch, Stmt, Store
from ..loop.prim import Buffer, PrimFunc, Stage
from ..loop.scalar import COMBINERS
from .decide import COMPARISONS, decide, join
from .primitives import state_of
from .state import State
from .steps import Schedule
from .tree import Branch, Leaf, build_forest

__all__ = ["apply_schedule"]

MAX_STATEMENTS = (
    20_000  # a nest larger than this would take LLVM seconds; nothing good is that large
)


def apply_schedule(prim: PrimFunc, schedule: Schedule) -> Nest:
    """The loop nest of ``prim`` under ``schedule``.

    Raises ScheduleError if a step is illegal, names what is not there, or changes the result.
    """
    state = state_of(prim, schedule)
    forest = build_forest(state)
    writer = _Writer(state)
    body: list[Stmt] = []
    limits = state.extents
    for root in forest:
        body += writer.items((root,), {}, limits, {})
    _check_private(body, set(), None)
    return Nest(prim.name, _operands(prim, state), tuple(writer.workspace.values()), tuple(body))


def _check_private(body: Sequence[Stmt], private: set[str], parallel: str | None) -> None:
    """Threads share no private buffer: ``private`` are those from outside the parallel loop."""
    own = {s.buffer.name for s in body if isinstance(s, Alloc)}
    outside = private - own if parallel else private | own
    for stmt in body:
        if isinstance(stmt, Loop):
            inside = stmt.var if stmt.kind == "parallel" else parallel
            if outside or inside is None:
                _check_private(stmt.body, outside, inside)
        elif isinstance(stmt, If):
            _check_private((*stmt.then, *stmt.orelse), outside, parallel)
        elif parallel and isinstance(stmt, Store | Accumulate):
            used = {stmt.buffer} | {n.buffer for n in walk(stmt.value) if isinstance(n, Read)}
            for name in sorted(used & outside):
                raise ScheduleError(f"parallel: the turns of {parallel} would share {name}")


def _operands(prim: PrimFunc, state: State) -> tuple[Operand, ...]:
    operands: list[Operand] = []
    for param in state.prim.params:
        if param.name in state.packs:
            operands.append(Operand(param, "packed", state.packs[param.name]))
        else:
            operands.append(Operand(param, "const" if param.constant else "in"))
    operands += [Operand(b, "out") for b in prim.output_buffers]
    return tuple(operands)


@dataclass(frozen=True)
class _Local:
    """A private buffer: indices are relative to what the loops around it have fixed."""

    buffer: Buffer
    fixed: tuple[IntExpr, ...]


Values = Mapping[str, IntExpr]  # a loop's value: its symbol, or a constant where it runs once
Limits = Mapping[str, int]  # how much of an axis is left inside the loops so far
Locals = Mapping[str, _Local]


def _short_panels(state: State) -> dict[str, Limits]:
    """By the loop over the panels of an operand packed at run time: how much of its last panel
    there is. Nobody reads the rest, so only that much is copied, and no element needs a guard.

    Panels of a schedule that takes these loops apart are copied with the guard.
    """
    found: dict[str, Limits] = {}
    for stage in state.prim.stages:
        pack = state.packs.get(stage.name)
        if pack is None or not pack.rest:
            continue
        panels, lanes = stage.axes[0].name, stage.axes[-1].name
        places = [n for n, loop in enumerate(state.order) if panels in state.parts(loop)]
        inside = [n for n, l in enumerate(state.order) if l in state.loops_of_axis(lanes)]
        if places and len(inside) == len(state.loops_of_axis(lanes)) and places[0] < min(inside):
            found[panels] = {lanes: pack.rest}
    return found


class _Writer:
    def __init__(self, state: State) -> None:
        self.state = state
        self.extents = state.extents
        self.workspace: dict[str, Buffer] = {}
        self.count = 0
        self.short = _short_panels(state)

    # -- the tree ------------------------------------------------------------------------------

    def items(
        self, items: Sequence[Branch | Leaf], values: Values, limits: Limits, local: Locals
    ) -> list[Stmt]:
        """The statements of what stands in one loop body, in order."""
        written: list[Stmt] = []
        for item in items:
            if isinstance(item, Leaf):
                stmts, local = self.stage(item, values, limits, local)
                written += stmts
                continue

            def body(
                v: Values, l: Limits, item: Branch = item, local: Locals = local
            ) -> list[Stmt]:
                return self.branch_body(item, v, l, local)

            written += self.loop(item.loop, values, limits, body)
        return written

    def branch_body(
        self, item: Branch, values: Values, limits: Limits, local: Locals
    ) -> list[Stmt]:
        allocs: list[Stmt] = []
        for stage in item.stores:
            made = self.private(stage, stage.buffer.name, values, limits)
            allocs.append(Alloc(made.buffer, "stack"))
            local = {**local, stage.name: made}
        return allocs + self.items(item.items, values, limits, local)

    def loop(
        self,
        name: str,
        values: Values,
        limits: Limits,
        body: Callable[[Values, Limits], list[Stmt]],
    ) -> list[Stmt]:
        """A loop around ``body``, which is written again where the axis has a rest."""
        if name in self.state.fused:
            return self.fused_loop(name, values, limits, body)
        axis, block = self.state.axis_of(name), self.state.block(name)
        full, rest, short = self.turns(name, limits)
        kind = self.state.kinds.get(name, "for")
        self.count += 1
        if self.count > MAX_STATEMENTS:
            raise ScheduleError(f"the nest has more than {MAX_STATEMENTS} statements")

        def at(value: IntExpr, limit: int) -> list[Stmt]:
            last = short if limit != block or value == full else {}
            return body({**values, name: value}, {**limits, axis: limit, **last})

        if kind == "parallel" and full and rest:
            inside = op("less", index(symbol(name)), index(full))
            both = If(inside, tuple(at(symbol(name), block)), tuple(at(full, rest)))
            return [Loop(kind, name, full + 1, (both,))]
        written: list[Stmt] = []
        if full == 1:
            written += at(0, block)
        elif full > 1:
            written.append(Loop(kind, name, full, tuple(at(symbol(name), block))))
        if rest:
            written += at(full, rest)
        return written

    def turns(self, name: str, limits: Limits) -> tuple[int, int, Limits]:
        """Whole turns of a loop, how much of its axis is left for one more, and what other limits
        hold in that one: the last panel of a packed operand may be filled in part."""
        axis, block = self.state.axis_of(name), self.state.block(name)
        full, rest = divmod(limits[axis], block)
        if axis in self.short:
            return full - 1, 1, self.short[axis]
        return full, rest, {}

    def fused_loop(
        self,
        name: str,
        values: Values,
        limits: Limits,
        body: Callable[[Values, Limits], list[Stmt]],
    ) -> list[Stmt]:
        parts = self.state.fused[name]
        counts = [-(-limits[self.state.axis_of(p)] // self.state.block(p)) for p in parts]
        total = 1
        for count in counts:
            total *= count
        if total == 0:
            return []
        lets: list[Stmt] = []
        inner_values = dict(values)
        left: IntExpr = symbol(name)
        stride = total
        for part, count in zip(parts, counts):
            stride //= count
            value = resolve(left // stride, {name: (0, total - 1)}) if total > 1 else 0
            left = left % stride if total > 1 else 0
            if isinstance(value, Dim):
                lets.append(Let(part, value))
                inner_values[part] = symbol(part)
            else:
                inner_values[part] = value

        def inside(index_of: int, inner_limits: Limits, fixed: Values) -> list[Stmt]:
            if index_of == len(parts):
                return body(fixed, inner_limits)
            part = parts[index_of]
            axis, block = self.state.axis_of(part), self.state.block(part)
            full, rest, short = self.turns(part, limits)
            if not rest:
                return inside(index_of + 1, {**inner_limits, axis: block}, fixed)
            if not full:
                last = {**inner_limits, axis: rest, **short}
                return inside(index_of + 1, last, {**fixed, part: 0})
            main = inside(index_of + 1, {**inner_limits, axis: block}, fixed)
            left = {**inner_limits, axis: rest, **short}
            tail = inside(index_of + 1, left, {**fixed, part: full})
            return [If(op("less", index(symbol(part)), index(full)), tuple(main), tuple(tail))]

        stmts = inside(0, limits, inner_values)
        if total == 1:
            return stmts
        kind = self.state.kinds.get(name, "for")
        return [Loop(kind, name, total, (*lets, *stmts))]

    def nest(
        self,
        loops: Sequence[str],
        values: Values,
        limits: Limits,
        leaf: Callable[[Values, Limits], list[Stmt]],
    ) -> list[Stmt]:
        if not loops:
            return leaf(values, limits)
        return self.loop(loops[0], values, limits, lambda v, l: self.nest(loops[1:], v, l, leaf))

    # -- stages --------------------------------------------------------------------------------

    def stage(
        self, item: Leaf, values: Values, limits: Limits, local: Locals
    ) -> tuple[list[Stmt], Locals]:
        stage = item.stage
        if item.stored and stage.name not in local and stage.name not in self.state.prim.outputs:
            self.workspace.setdefault(stage.name, stage.buffer)
        if stage.combiner is None:
            copied = stage.axes[0].name in self.short if stage.axes else False
            expr = children(stage.expr)[1] if copied else stage.expr

            def store(v: Values, l: Limits) -> list[Stmt]:
                value = self.instantiate(expr, v, l, local)
                name, indices = self.target(stage, v, l, local)
                stored = Store(name, indices, value, name in self.state.streams)
                return [*self.prefetches(stage, v, l), stored]

            return self.nest(item.inner, values, limits, store), local
        return self.reduction(item, values, limits, local)

    def reduction(
        self, item: Leaf, values: Values, limits: Limits, local: Locals
    ) -> tuple[list[Stmt], Locals]:
        stage, state = item.stage, self.state
        assert stage.combiner is not None
        combiner = stage.combiner
        cache = state.caches.get(stage.name)
        scope = cache.scope if cache else "registers"
        tile = self.private(stage, f"{stage.name}.acc", values, limits)
        spatial = [l for l in item.inner if not state.is_reduction(stage, l)]
        reduced = [l for l in item.inner if state.is_reduction(stage, l)]
        identity = const(COMBINERS[combiner].identity(stage.buffer.dtype), stage.buffer.dtype)
        own = {**local, stage.name: tile}
        lanes = state.rfactors.get(stage.name)
        acc, acc_spatial = tile, spatial
        allocs: list[Stmt] = [Alloc(tile.buffer, scope)]
        if lanes:
            if lanes not in reduced:
                raise ScheduleError(f"rfactor: {lanes} is not inside the tile of {stage.name}")
            width = (
                state.splits[state.axis_of(lanes)][-1]
                if lanes in self.split_loops
                else limits[state.axis_of(lanes)]
            )
            wide = replace(tile.buffer, name=f"{stage.name}.rf", shape=(*tile.buffer.shape, width))
            acc = _Local(wide, tile.fixed)
            allocs.append(Alloc(wide, scope))

        def at(where: _Local, v: Values, l: Limits, *extra: IntExpr) -> tuple[IntExpr, ...]:
            return (*self.relative(stage, where, v, l), *extra)

        def lane_loop(
            make: Callable[[Values, Limits], list[Stmt]], v: Values, l: Limits
        ) -> list[Stmt]:
            if not lanes:
                return make(v, l)
            kind = state.kinds.get(lanes, "for")
            width = as_int(acc.buffer.shape[-1])
            if width == 1:
                return make({**v, lanes: 0}, l)
            return [Loop(kind, lanes, width, tuple(make({**v, lanes: symbol(lanes)}, l)))]

        def extra(v: Values) -> tuple[IntExpr, ...]:
            return (v[lanes],) if lanes else ()

        def init(v: Values, l: Limits) -> list[Stmt]:
            def one(v: Values, l: Limits) -> list[Stmt]:
                return [Store(acc.buffer.name, at(acc, v, l, *extra(v)), identity)]

            return lane_loop(one, v, l)

        def accumulate(v: Values, l: Limits) -> list[Stmt]:
            value = self.instantiate(stage.expr, v, l, local)
            joined = Accumulate(acc.buffer.name, at(acc, v, l, *extra(v)), combiner, value)
            return [*self.prefetches(stage, v, l), joined]

        written = allocs + self.nest(acc_spatial, values, limits, init)
        written += self.nest(item.inner, values, limits, accumulate)
        if lanes:

            def join(v: Values, l: Limits) -> list[Stmt]:
                start = Store(tile.buffer.name, at(tile, v, l), identity)

                def one(v: Values, l: Limits) -> list[Stmt]:
                    value = read(acc.buffer.name, at(acc, v, l, *extra(v)), stage.buffer.dtype)
                    return [Accumulate(tile.buffer.name, at(tile, v, l), combiner, value)]

                return [start, *lane_loop(one, v, l)]

            written += self.nest(spatial, values, limits, join)
        if item.stored:
            written += self.write_back(item, tile, spatial, values, limits, local)
        return written, own if item.in_tile else local

    def prefetches(self, stage: Stage, values: Values, limits: Limits) -> list[Stmt]:
        """What the stage reads of its prefetched operands some turns ahead, each place once."""
        found: dict[Prefetch, None] = {}
        for (name, buffer), (loop, turns) in self.state.prefetches.items():
            if name != stage.name:
                continue
            now = values.get(loop)
            if now is None:
                raise ScheduleError(f"prefetch: {loop} is not outside of what {name} reads")
            if isinstance(now, int):
                continue  # the last turn, or the only one
            soon = {**values, loop: now + turns}
            for node in walk(stage.expr):
                if isinstance(node, Read) and node.buffer == buffer:
                    place = self.instantiate(node, soon, limits, {})
                    assert isinstance(place, Read)
                    indices = tuple(i for i in place.indices if isinstance(i, int | Dim))
                    found[Prefetch(buffer, indices)] = None
        return list(found)

    def write_back(
        self,
        item: Leaf,
        tile: _Local,
        spatial: Sequence[str],
        values: Values,
        limits: Limits,
        local: Locals,
    ) -> list[Stmt]:
        """Store the tile; in later turns of reduced loops around it, join it to what is there."""
        stage = item.stage
        assert stage.combiner is not None
        combiner = stage.combiner

        def store(fresh: bool) -> list[Stmt]:
            def one(v: Values, l: Limits) -> list[Stmt]:
                place = self.relative(stage, tile, v, l)
                value = read(tile.buffer.name, place, stage.buffer.dtype)
                name, indices = self.target(stage, v, l, local)
                if fresh:
                    stream = name in self.state.streams and not item.outer_reductions
                    return [Store(name, indices, value, stream)]
                return [Accumulate(name, indices, combiner, value)]

            return self.nest(spatial, values, limits, one)

        turns = [values[p] for loop in item.outer_reductions for p in self.state.parts(loop)]
        if any(isinstance(turn, int) and turn != 0 for turn in turns):
            return store(fresh=False)
        moving = [turn for turn in turns if isinstance(turn, Dim)]
        if not moving:
            return store(fresh=True)
        first = op("equal", index(sum(moving[1:], moving[0])), index(0))
        return [If(first, tuple(store(fresh=True)), tuple(store(fresh=False)))]

    @property
    def split_loops(self) -> set[str]:
        return {l for axis in self.state.splits for l in self.state.loops_of_axis(axis)}

    # -- buffers and indices -------------------------------------------------------------------

    def private(self, stage: Stage, name: str, values: Values, limits: Limits) -> _Local:
        shape = tuple(limits[a.name] for a in stage.axes)
        fixed = tuple(self.axis_value(a.name, values) for a in stage.axes)
        return _Local(Buffer(name, shape, stage.buffer.dtype), fixed)

    def axis_value(self, axis: str, values: Values) -> IntExpr:
        total: IntExpr = 0
        for loop in self.state.loops_of_axis(axis):
            if loop in values:
                total = total + values[loop] * self.state.block(loop)
        return total

    def target(
        self, stage: Stage, values: Values, limits: Limits, local: Locals
    ) -> tuple[str, tuple[IntExpr, ...]]:
        if stage.name in local:
            where = local[stage.name]
            return where.buffer.name, self.relative(stage, where, values, limits)
        return stage.name, tuple(self.axis_value(a.name, values) for a in stage.axes)

    def relative(
        self, stage: Stage, where: _Local, values: Values, limits: Limits
    ) -> tuple[IntExpr, ...]:
        return tuple(
            self.axis_value(a.name, values) - fixed
            for a, fixed in zip(stage.axes, where.fixed, strict=True)
        )

    def instantiate(self, expr: Expr, values: Values, limits: Limits, local: Locals) -> Expr:
        """The expression of one stage element where the loops have these values."""
        axes: dict[str, IntExpr] = {}
        ranges: dict[str, tuple[int, int]] = {}
        for axis in self.extents:
            axes[axis] = self.axis_value(axis, values)
        for loop, value in values.items():
            if isinstance(value, Dim):
                axis = self.state.axis_of(loop)
                ranges[loop] = (0, max(0, -(-self.extents[axis] // self.state.block(loop)) - 1))
                if axis in self.state.splits:
                    factor = self.state.splits[axis][int(loop.rpartition(".")[2])]
                    ranges[loop] = (0, factor - 1)

        def place_index(i: IntExpr) -> IntExpr:
            return resolve(substitute(i, axes), ranges)

        def leaf(node: Expr, done: dict[int, Expr]) -> Expr | None:
            if isinstance(node, Index):
                return index(place_index(node.value))
            if isinstance(node, Read):
                indices = tuple(
                    place_index(i) if isinstance(i, int | Dim) else done[id(i)]
                    for i in node.indices
                )
                if node.buffer in local:
                    where = local[node.buffer]
                    indices = tuple(_minus(i, f) for i, f in zip(indices, where.fixed, strict=True))
                    return read(where.buffer.name, indices, node.dtype)
                return read(node.buffer, indices, node.dtype)
            if isinstance(node, Op) and node.name in COMPARISONS:
                return decide(node.name, done[id(node.args[0])], done[id(node.args[1])], ranges)
            if isinstance(node, Op) and node.name == "where":
                return select(*(done[id(a)] for a in node.args))
            if isinstance(node, Op) and node.name in ("logical_and", "logical_or"):
                return join(node.name, done[id(node.args[0])], done[id(node.args[1])])
            return None

        return rewrite(expr, leaf)


def _minus(value: IntExpr | Expr, fixed: IntExpr) -> IntExpr | Expr:
    if isinstance(value, int | Dim):
        return value - fixed
    return value if fixed == 0 else op("subtract", value, index(fixed))
