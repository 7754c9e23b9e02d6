"""Applying a schedule: PrimFunc and Schedule in, loop nest out.

The stages are first laid into a tree of loops (``tree.py``); then the tree is written out with
constant extents: where a split does not divide its axis, the body stands once more for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from ..dims import Dim, IntExpr, as_int, resolve, symbol
from ..errors import ScheduleError
from ..loop.border import is_skipped
from ..loop.decide import worked_out
from ..loop.expr import (
    Const,
    Expr,
    Read,
    children,
    const,
    index,
    op,
    read,
    walk,
)
from ..loop.nest import Accumulate, Alloc, If, Let, Loop, Nest, Operand, Prefetch, Stmt, Store
from ..loop.prim import Buffer, PrimFunc, Stage
from ..loop.scalar import COMBINERS
from .limits import LIMITS
from .mirror import check_mirrored, compared, mirrored_stage
from .panels import packed_inside
from .primitives import state_of
from .private import check_private
from .runs import Limits, Run, runs
from .skipping import constants_of, is_needed
from .state import Mirror, State
from .steps import Schedule
from .tree import Branch, Leaf, build_forest

__all__ = ["apply_schedule"]


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
    for loop in sorted(set(state.mirrors) - writer.mirrored):
        raise ScheduleError(f"mirror: no stage shares the loop {loop}")
    for name in sorted(set(state.panels) - writer.panelled):
        raise ScheduleError(f"pack_at: {state.panels[name].loop} is inside a register tile")
    check_private(body)
    return Nest(prim.name, _operands(prim, state), tuple(writer.workspace.values()), tuple(body))


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


def _start_of(axis: str) -> str:
    """The key in ``Values`` of where on its axis the piece begins that the loops are in."""
    return f"{axis}@"


def _only_if(condition: Expr, stmts: Sequence[Stmt]) -> list[Stmt]:
    """The statements under a condition, if it is not known."""
    if isinstance(condition, Const):
        return [*stmts] if condition.value else []
    return [If(condition, tuple(stmts))]


Values = Mapping[str, IntExpr]  # a loop's value: its symbol, or a constant where it runs once
Locals = Mapping[str, _Local]


def _short_panels(state: State) -> dict[str, Limits]:
    """By the loop over the panels of an operand packed at run time: how much of its last panel
    there is. Nobody reads the rest, so only that much is copied, and no element needs a guard.

    Panels of a schedule that takes these loops apart are copied with the guard.
    """
    found: dict[str, Limits] = {}
    for stage in state.prim.stages:
        pack = state.packs.get(stage.name)
        if pack is None or pack.group or not pack.rest:
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
        self.panelled: set[str] = set()  # operands whose loop of ``pack_at`` has been written
        self.mirrored: set[str] = set()  # loops of ``mirror`` that have been written
        self.mirror: tuple[Mirror, Expr] | None = None  # around, and where a block has an image
        self.short = _short_panels(state)
        self.ranges: dict[str, tuple[int, int]] = {}  # of the loops around what is written now

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
        found = self.state.mirrors.get(item.loop)
        if found is None:
            return self.block(item, values, limits, local)
        check_mirrored(self.state, item, found, values, local)
        a, b = (self.axis_value(axis, values) for axis in found.axes)
        computed, above = (compared(name, a - b, self.ranges) for name in ("less_equal", "less"))
        self.mirror = found, above
        stmts = self.block(item, values, limits, local)
        self.mirror = None
        self.mirrored.add(item.loop)
        return _only_if(computed, stmts)

    def block(self, item: Branch, values: Values, limits: Limits, local: Locals) -> list[Stmt]:
        allocs: list[Stmt] = []
        for stage in item.stores:
            made = self.private(stage, stage.buffer.name, values, limits)
            allocs.append(Alloc(made.buffer, "stack"))
            local = {**local, stage.name: made}
        inner = self.items(item.items, values, limits, local)
        for name, panels in self.state.panels.items():
            if panels.loop == item.loop:
                if self.state.kinds.get(item.loop) in ("vectorize", "unroll"):
                    raise ScheduleError(f"pack_at: {item.loop} is written out")
                inner = packed_inside(panels, inner, self.ranges)
                self.panelled.add(name)
        masked = self.state.skips.get(item.loop)
        if masked is None:
            return allocs + inner
        starts = {a: self.axis_value(a, values) for a in self.extents}
        needed = is_needed(self.state.prim.stage(masked), starts, limits)
        if isinstance(needed, Const):
            return allocs + inner if needed.value else self.skipped(item, values, limits, local)
        return [If(needed, (*allocs, *inner), tuple(self.skipped(item, values, limits, local)))]

    def skipped(self, item: Branch, values: Values, limits: Limits, local: Locals) -> list[Stmt]:
        """What a turn that is left out would have made of the stages that are read later."""
        known = constants_of(self.state.prim, item, self.state.skips[item.loop])
        written: list[Stmt] = []
        for stage, value in known:
            loops = [
                loop
                for loop in self.state.loops(stage)
                if not all(part in values for part in self.state.parts(loop))
                and not self.state.is_reduction(stage, loop)
            ]

            def store(
                v: Values, l: Limits, stage: Stage = stage, value: Const = value
            ) -> list[Stmt]:
                name, indices = self.target(stage, v, l, local)
                return [Store(name, indices, value)]

            written += self.nest(loops, values, limits, store)
        return written

    def loop(
        self,
        name: str,
        values: Values,
        limits: Limits,
        body: Callable[[Values, Limits], list[Stmt]],
    ) -> list[Stmt]:
        """A loop around ``body``, which is written again where the axis has a rest or is cut."""
        if name in self.state.fused:
            return self.fused_loop(name, values, limits, body)
        kind = self.state.kinds.get(name, "for")
        self.count += 1
        if self.count > LIMITS.loops:
            raise ScheduleError(f"the nest has more than {LIMITS.loops} loops")
        turns = runs(self.state, name, limits, self.short)
        if kind == "parallel" and len(turns) > 1:
            total = turns[-1].last + 1
            return [
                Loop(kind, name, total, tuple(self.branches(name, turns, values, limits, body)))
            ]
        written: list[Stmt] = []
        for run in turns:
            self.ranges[name] = (0, run.count - 1)
            skipped = run.first - run.base
            value = symbol(name) + skipped if run.count > 1 else skipped
            inner = tuple(body(*self.enter(name, run, value, values, limits)))
            written += [Loop(kind, name, run.count, inner)] if run.count > 1 else inner
        return written

    def enter(
        self, name: str, run: Run, value: IntExpr, values: Values, limits: Limits
    ) -> tuple[Values, Limits]:
        """Values and limits in the turns of a run; ``value`` counts from its piece's first."""
        axis = self.state.axis_of(name)
        if run.start:
            values = {**values, _start_of(axis): run.start}
        return {**values, name: value}, {**limits, axis: run.limit, **run.others}

    def branches(
        self,
        name: str,
        turns: Sequence[Run],
        values: Values,
        limits: Limits,
        body: Callable[[Values, Limits], list[Stmt]],
    ) -> list[Stmt]:
        """What a turn of a loop does: which run it belongs to is asked in each."""
        run, *others = turns
        self.ranges[name] = (run.first, run.last)
        value = symbol(name) - run.base if run.count > 1 else run.first - run.base
        mine = body(*self.enter(name, run, value, values, limits))
        if not others:
            return mine
        inside = op("less", index(symbol(name)), index(run.last + 1))
        rest = self.branches(name, others, values, limits, body)
        return [If(inside, tuple(mine), tuple(rest))]

    def fused_loop(
        self,
        name: str,
        values: Values,
        limits: Limits,
        body: Callable[[Values, Limits], list[Stmt]],
    ) -> list[Stmt]:
        parts = self.state.fused[name]
        turns = [runs(self.state, part, limits, self.short) for part in parts]
        counts = [found[-1].last + 1 if found else 0 for found in turns]
        total = prod(counts)
        if total == 0:
            return []
        lets: list[Stmt] = []
        left: IntExpr = symbol(name)
        stride = total
        for part, count in zip(parts, counts):
            stride //= count
            value = resolve(left // stride, {name: (0, total - 1)}) if total > 1 else 0
            left = left % stride if total > 1 else 0
            if isinstance(value, Dim):
                lets.append(Let(part, value))
        stmts = self.fused_parts(list(zip(parts, turns)), values, limits, body)
        if total == 1:
            return stmts
        kind = self.state.kinds.get(name, "for")
        return [Loop(kind, name, total, (*lets, *stmts))]

    def fused_parts(
        self,
        parts: Sequence[tuple[str, Sequence[Run]]],
        values: Values,
        limits: Limits,
        body: Callable[[Values, Limits], list[Stmt]],
    ) -> list[Stmt]:
        if not parts:
            return body(values, limits)
        (name, turns), *others = parts
        return self.branches(
            name, turns, values, limits, lambda v, l: self.fused_parts(others, v, l, body)
        )

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

            def image(v: Values, l: Limits, other: Stage) -> list[Stmt]:
                name, indices = self.target(other, v, l, local)
                return [Store(name, indices, self.instantiate(other.expr, v, l, local))]

            written = self.nest(item.inner, values, limits, store)
            return written + self.image(stage, item.inner, values, limits, image), local
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
            self.ranges[lanes] = (0, width - 1)
            return [Loop(kind, lanes, width, tuple(make({**v, lanes: symbol(lanes)}, l)))]

        def extra(v: Values) -> tuple[IntExpr, ...]:
            return (v[lanes],) if lanes else ()

        def init(v: Values, l: Limits) -> list[Stmt]:
            def one(v: Values, l: Limits) -> list[Stmt]:
                return [Store(acc.buffer.name, at(acc, v, l, *extra(v)), identity)]

            return lane_loop(one, v, l)

        def accumulate(v: Values, l: Limits) -> list[Stmt]:
            value = self.instantiate(stage.expr, v, l, local)
            if is_skipped(stage.expr, value, combiner):
                return []
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
        """What the stage reads of its prefetched operands some turns ahead, each place once, as far
        as it reads of them here: a piece of a join reads one of its operands."""
        found: dict[Prefetch, None] = {}
        here: set[Expr] | None = None
        for (name, buffer), (loop, turns) in self.state.prefetches.items():
            if name != stage.name:
                continue
            now = values.get(loop)
            if now is None:
                raise ScheduleError(f"prefetch: {loop} is not outside of what {name} reads")
            if isinstance(now, int):
                continue  # the last turn, or the only one
            soon = {**values, loop: now + turns}
            if here is None:
                here = set(walk(self.instantiate(stage.expr, values, limits, {})))
            for node in walk(stage.expr):
                if isinstance(node, Read) and node.buffer == buffer:
                    if self.instantiate(node, values, limits, {}) not in here:
                        continue
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
            def one(v: Values, l: Limits, at: Stage = stage) -> list[Stmt]:
                place = self.relative(stage, tile, v, l)
                value = read(tile.buffer.name, place, stage.buffer.dtype)
                name, indices = self.target(at, v, l, local)
                if fresh:
                    stream = name in self.state.streams and not item.outer_reductions
                    return [Store(name, indices, value, stream and at is stage)]
                return [Accumulate(name, indices, combiner, value)]

            written = self.nest(spatial, values, limits, one)
            if stage.name in local:
                return written
            return written + self.image(stage, spatial, values, limits, one)

        turns = [values[p] for loop in item.outer_reductions for p in self.state.parts(loop)]
        if any(isinstance(turn, int) and turn != 0 for turn in turns):
            return store(fresh=False)
        moving = [turn for turn in turns if isinstance(turn, Dim)]
        if not moving:
            return store(fresh=True)
        first = op("equal", index(sum(moving[1:], moving[0])), index(0))
        return [If(first, tuple(store(fresh=True)), tuple(store(fresh=False)))]

    def image(
        self,
        stage: Stage,
        loops: Sequence[str],
        values: Values,
        limits: Limits,
        store: Callable[[Values, Limits, Stage], list[Stmt]],
    ) -> list[Stmt]:
        """What a block of a mirrored stage stores on the other side of the diagonal."""
        if self.mirror is None:
            return []
        found, above = self.mirror
        other = mirrored_stage(stage, found)
        stmts = self.nest(loops, values, limits, lambda v, l: store(v, l, other))
        return _only_if(above, stmts)

    @property
    def split_loops(self) -> set[str]:
        return {l for axis in self.state.splits for l in self.state.loops_of_axis(axis)}

    # -- buffers and indices -------------------------------------------------------------------

    def private(self, stage: Stage, name: str, values: Values, limits: Limits) -> _Local:
        shape = tuple(limits[a.name] for a in stage.axes)
        fixed = tuple(self.axis_value(a.name, values) for a in stage.axes)
        return _Local(Buffer(name, shape, stage.buffer.dtype), fixed)

    def axis_value(self, axis: str, values: Values) -> IntExpr:
        total = values.get(_start_of(axis), 0)
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
        axes = {axis: self.axis_value(axis, values) for axis in self.extents}
        private = {n: (where.buffer.name, where.fixed) for n, where in local.items()}
        return worked_out(expr, axes, self.ranges, private)
