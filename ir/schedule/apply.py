"""Applying a schedule: PrimFunc and Schedule in, loop nest out.

The stages are first laid into a tree of loops (``tree.py``); then the tree is written, loop by
loop (``loops.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..dims import Dim, IntExpr, as_int, symbol
from ..errors import ScheduleError, UnsupportedError
from ..loop.decide import is_skipped
from ..loop.expr import Const, Expr, Read, children, const, read, walk
from ..loop.kinds import LoopKind, Role, Scope
from ..loop.nest import Accumulate, Alloc, If, Loop, Nest, Operand, Stmt, Store
from ..loop.prim import PrimFunc
from ..loop.procedure import Procedure
from ..loop.scalar import COMBINERS
from .loops import Body, Limits, Values
from .mirror import Block, check_mirrored, mirror_image, on_diagonal
from .panels import packed_inside
from .pieces import Local, Locals, PieceWriter
from .procedures import scheduled
from .skipping import is_needed
from .state import State
from .steps import Schedule, run_steps, state_of
from .tensorize import tensorized
from .tree import Branch, Leaf, build_forest, firm_loops
from .version1 import multiplies_bytes, with_instructions
from .weights import with_weights

NESTS_KEPT = 4


def apply_schedule(prim: PrimFunc, schedule: Schedule) -> Nest:
    """Returns the loop nest of ``prim`` under ``schedule``.

    Raises ScheduleError if a step is illegal, names a stage or loop that does not exist,
    or changes the result. The PrimFunc caches its last ``NESTS_KEPT`` nests: choosing a schedule,
    checking it and compiling it need the same one.
    """
    nests: dict[Schedule, Nest] = prim.derived.setdefault("nests", {})
    nest = nests.get(schedule)
    if nest is None:
        try:
            if isinstance(prim, Procedure):
                nest = scheduled(prim, schedule)
            else:
                nest = _applied(prim, schedule)
        except (TypeError, UnsupportedError) as error:  # a constant is needed, and a size is none
            if not prim.sizes:
                raise
            raise ScheduleError(f"@{prim.name}: {error}") from error
        while len(nests) >= NESTS_KEPT:
            del nests[next(iter(nests))]
        nests[schedule] = nest
    return nest


def _applied(prim: PrimFunc, schedule: Schedule) -> Nest:
    state = state_of(prim, schedule)
    state = replace(state, prim=with_weights(state.prim))
    forest = build_forest(state)
    writer = _Writer(state, firm_loops(state, forest) if prim.sizes else ())
    body = writer.of_nothing(forest) if prim.sizes else []
    limits = state.extents
    for root in forest:
        body += writer.items((root,), {}, limits, {})
    for loop in sorted(set(state.mirrors) - writer.mirrored):
        raise ScheduleError(f"mirror: no stage shares the loop {loop}")
    for name in sorted(set(state.panels) - writer.panelled):
        raise ScheduleError(f"pack_at: {state.panels[name].loop} is inside a register tile")
    check_private(body)
    workspace = tuple(writer.workspace.values())
    nest = Nest(prim.name, _operands(prim, state), workspace, tuple(body), prim.sizes)
    if not state.tensorized and not multiplies_bytes(prim):
        return nest
    wanted = state.tensorized or None  # schedules of version 1 name no instruction
    return replace(nest, body=tensorized(body, nest.buffers, wanted))


def completed(prim: PrimFunc, schedule: Schedule) -> Schedule:
    """Returns the schedule with the steps that version 1 implied. Raises as ``apply_schedule``."""
    if isinstance(prim, Procedure):
        apply_schedule(prim, schedule)
        return schedule
    state, said = run_steps(prim, schedule)
    if state.tensorized or not multiplies_bytes(prim):
        return said
    return with_instructions(said, apply_schedule(prim, schedule))


def _operands(prim: PrimFunc, state: State) -> tuple[Operand, ...]:
    operands: list[Operand] = []
    for param in state.prim.params:
        if param.name in state.packs:
            operands.append(Operand(param, Role.PACKED, state.packs[param.name]))
        else:
            operands.append(Operand(param, Role.CONST if param.constant else Role.IN))
    operands += [Operand(b, Role.OUT) for b in prim.output_buffers]
    return tuple(operands)


def _only_if(condition: Expr, stmts: Sequence[Stmt]) -> list[Stmt]:
    """Returns the statements under a condition, unless it is decided."""
    if isinstance(condition, Const):
        return [*stmts] if condition.value else []
    return [If(condition, tuple(stmts))]


class _Writer(PieceWriter):
    # -- the tree ------------------------------------------------------------------------------

    def items(
        self, items: Sequence[Branch | Leaf], values: Values, limits: Limits, local: Locals
    ) -> list[Stmt]:
        """Returns the statements of one loop body, in order."""
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
        mirror = self.state.mirrors.get(item.loop)
        if mirror is None:
            return self.block(item, values, limits, local)
        leaf = check_mirrored(self.state, item, mirror, values, local)
        self.mirrored.add(item.loop)
        axes = {axis: self.axis_value(axis, values) for axis in self.extents}
        computed, above = on_diagonal(mirror, axes, self.ranges)
        kept: Local | None = None
        if not leaf.stored:  # it is read in its register tiles only
            kept = self.private(leaf.stage, f"{mirror.stage}.block", values, limits)
            self.kept[mirror.stage] = kept, above

        def image(local: Locals) -> list[Stmt]:
            whole = Local(leaf.stage.buffer, (0,) * len(leaf.stage.axes))
            where = kept or local.get(mirror.stage, whole)
            source = Block(where.buffer, where.fixed, axes, limits, self.ranges)
            return _only_if(above, mirror_image(self.state, mirror, item, leaf.stage, source))

        stmts = self.block(item, values, limits, local, image)
        self.kept.clear()
        allocs = [Alloc(kept.buffer, Scope.STACK)] if kept is not None else []
        return _only_if(computed, [*allocs, *stmts])

    def block(
        self,
        item: Branch,
        values: Values,
        limits: Limits,
        local: Locals,
        behind: Callable[[Locals], list[Stmt]] = lambda _local: [],
    ) -> list[Stmt]:
        """Returns the body of a loop; ``behind`` makes the statements at its end."""
        allocs: list[Stmt] = []
        for stage in item.stores:
            made = self.bounded(self.private(stage, stage.buffer.name, values, limits))
            if made is not None:
                allocs.append(Alloc(made.buffer, Scope.STACK))
                local = {**local, stage.name: made}
        inner = self.items(item.items, values, limits, local)
        for name, panels in self.state.panels.items():
            if panels.loop == item.loop:
                if self.state.kinds.get(item.loop) in (LoopKind.VECTORIZE, LoopKind.UNROLL):
                    raise ScheduleError(f"pack_at: {item.loop} runs in lanes or unrolled")
                blocks = {a: (self.axis_value(a, values), limits[a]) for a in self.extents}
                inner = packed_inside(panels, inner, self.ranges, self.state.prim, blocks)
                self.panelled.add(name)
        inner += behind(local)
        masked = self.state.skips.get(item.loop)
        if masked is None:
            return allocs + inner
        starts = {a: self.axis_value(a, values) for a in self.extents}
        needed = is_needed(self.state.prim.stage(masked), starts, limits)
        if isinstance(needed, Const):
            return allocs + inner if needed.value else self.skipped(item, values, limits, local)
        return [If(needed, (*allocs, *inner), tuple(self.skipped(item, values, limits, local)))]

    # -- stages --------------------------------------------------------------------------------

    def stage(
        self, item: Leaf, values: Values, limits: Limits, local: Locals
    ) -> tuple[list[Stmt], Locals]:
        stage = item.stage
        if item.stored and stage.name not in local and stage.name not in self.state.prim.outputs:
            self.workspace.setdefault(stage.name, stage.buffer)
        if stage.combiner is None:
            copied = any(axis.name in self.short for axis in stage.axes)
            expr = children(stage.expr)[1] if copied else stage.expr

            def store(v: Values, _l: Limits) -> list[Stmt]:
                value = self.instantiate(expr, v, local)
                name, indices = self.target(stage, v, local)
                stored = Store(name, indices, value, name in self.state.streams)
                return [*self.prefetches(stage, v), stored]

            return self.nest(item.inner, values, limits, store), local
        return self.reduction(item, values, limits, local)

    def reduction(
        self, item: Leaf, values: Values, limits: Limits, local: Locals
    ) -> tuple[list[Stmt], Locals]:
        """Writes a reduction: a private tile is set to the identity, accumulated, written back."""
        stage, state = item.stage, self.state
        assert stage.combiner is not None
        combiner = stage.combiner
        # The tile covers what the loops around leave open; loops over it exist once per phase.
        cache = state.caches.get(stage.name)
        scope = cache.scope if cache else Scope.REGISTERS
        tile = self.private(stage, f"{stage.name}.acc", values, limits)
        if any(isinstance(size, Dim) for size in tile.buffer.shape):
            return self.reduction_in_place(item, values, limits, local), local
        spatial = [l for l in item.inner if not state.is_reduction(stage, l)]
        reduced = [l for l in item.inner if state.is_reduction(stage, l)]
        identity = const(COMBINERS[combiner].identity(stage.buffer.dtype), stage.buffer.dtype)
        with_tile = {**local, stage.name: tile}
        lanes = state.rfactors.get(stage.name)
        acc, acc_spatial = tile, spatial
        allocs: list[Stmt] = [Alloc(tile.buffer, scope)]
        if lanes:  # one accumulator for each iteration of the rfactored loop, joined at the end
            if lanes not in reduced:
                raise ScheduleError(f"rfactor: {lanes} is not inside the tile of {stage.name}")
            width = (
                state.splits[state.axis_of(lanes)][-1]
                if lanes in self.split_loops
                else limits[state.axis_of(lanes)]
            )
            wide = replace(tile.buffer, name=f"{stage.name}.rf", shape=(*tile.buffer.shape, width))
            acc = Local(wide, tile.fixed)
            allocs.append(Alloc(wide, scope))

        def at(where: Local, v: Values, *extra: IntExpr) -> tuple[IntExpr, ...]:
            return (*self.relative(stage, where, v), *extra)

        def lane_loop(make: Body, v: Values, l: Limits) -> list[Stmt]:
            if not lanes:
                return make(v, l)
            kind = state.kinds.get(lanes, LoopKind.FOR)
            width = as_int(acc.buffer.shape[-1])
            if width == 1:
                return make({**v, lanes: 0}, l)
            self.ranges[lanes] = (0, width - 1)
            return [Loop(kind, lanes, width, tuple(make({**v, lanes: symbol(lanes)}, l)))]

        def extra(v: Values) -> tuple[IntExpr, ...]:
            return (v[lanes],) if lanes else ()

        def init(v: Values, l: Limits) -> list[Stmt]:
            def one(v: Values, _l: Limits) -> list[Stmt]:
                return [Store(acc.buffer.name, at(acc, v, *extra(v)), identity)]

            return lane_loop(one, v, l)

        def accumulate(v: Values, _l: Limits) -> list[Stmt]:
            value = self.instantiate(stage.expr, v, local)
            if is_skipped(stage.expr, value, combiner):
                return []
            joined = Accumulate(acc.buffer.name, at(acc, v, *extra(v)), combiner, value)
            return [*self.prefetches(stage, v), joined]

        # Setting and writing back walk the elements of the tile, accumulating walks all loops.
        written = allocs + self.nest(acc_spatial, values, limits, init)
        written += self.nest(item.inner, values, limits, accumulate)
        if lanes:

            def join(v: Values, l: Limits) -> list[Stmt]:
                start = Store(tile.buffer.name, at(tile, v), identity)

                def one(v: Values, _l: Limits) -> list[Stmt]:
                    value = read(acc.buffer.name, at(acc, v, *extra(v)), stage.buffer.dtype)
                    return [Accumulate(tile.buffer.name, at(tile, v), combiner, value)]

                return [start, *lane_loop(one, v, l)]

            written += self.nest(spatial, values, limits, join)
        if stage.name in self.kept:  # the mirror image of the block is computed from a copy of it
            block, needed = self.kept[stage.name]

            def keep(v: Values, _l: Limits) -> list[Stmt]:
                value = read(tile.buffer.name, at(tile, v), stage.buffer.dtype)
                return [Store(block.buffer.name, at(block, v), value)]

            written += _only_if(needed, self.nest(spatial, values, limits, keep))
        if item.stored:
            written += self.write_back(item, tile, spatial, values, limits, local)
        return written, with_tile if item.in_tile else local

    def reduction_in_place(
        self, item: Leaf, values: Values, limits: Limits, local: Locals
    ) -> list[Stmt]:
        """Writes a reduction that accumulates in the stage's buffer: the elements that the loops
        around leave open are not of constant number."""
        stage, state = item.stage, self.state
        assert stage.combiner is not None
        combiner = stage.combiner
        if stage.name in state.rfactors or stage.name in self.kept:
            raise ScheduleError(f"the tile of {stage.name} is not of constant size")
        if stage.name not in local and stage.name not in state.prim.outputs:
            self.workspace.setdefault(stage.name, stage.buffer)
        identity = const(COMBINERS[combiner].identity(stage.buffer.dtype), stage.buffer.dtype)
        spatial = [l for l in item.inner if not state.is_reduction(stage, l)]

        def init(v: Values, _l: Limits) -> list[Stmt]:
            name, indices = self.target(stage, v, local)
            return [Store(name, indices, identity)]

        def accumulate(v: Values, _l: Limits) -> list[Stmt]:
            value = self.instantiate(stage.expr, v, local)
            if is_skipped(stage.expr, value, combiner):
                return []
            name, indices = self.target(stage, v, local)
            return [*self.prefetches(stage, v), Accumulate(name, indices, combiner, value)]

        first = self.is_first(item, values)
        written = _only_if(first, self.nest(spatial, values, limits, init))
        return written + self.nest(item.inner, values, limits, accumulate)

    @property
    def split_loops(self) -> set[str]:
        return {l for axis in self.state.splits for l in self.state.loops_of_axis(axis)}

    # -- buffers and indices -------------------------------------------------------------------


def check_private(body: Sequence[Stmt]) -> None:
    """Raises ScheduleError if iterations of a parallel loop share a private buffer of its nest."""
    _check(body, set(), None)


def _check(body: Sequence[Stmt], private: set[str], parallel: str | None) -> None:
    """Checks that threads share no buffer of ``private``, those outside of the parallel loop."""
    allocated = {s.buffer.name for s in body if isinstance(s, Alloc)}
    outside = private - allocated if parallel else private | allocated
    for stmt in body:
        if isinstance(stmt, Loop):
            inside = stmt.var if stmt.kind == LoopKind.PARALLEL else parallel
            if outside or inside is None:
                _check(stmt.body, outside, inside)
        elif isinstance(stmt, If):
            _check((*stmt.then, *stmt.orelse), outside, parallel)
        elif parallel and isinstance(stmt, Store | Accumulate):
            used = {stmt.buffer} | {n.buffer for n in walk(stmt.value) if isinstance(n, Read)}
            for name in sorted(used & outside):
                raise ScheduleError(f"parallel: the iterations of {parallel} would share {name}")
