"""Pieces of a loop nest that a schedule asks for beside its loops: stores, prefetches, guards."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from ..dataclass import dataclass
from ..dim_proofs import prove
from ..dims import Dim, IntExpr, bounds, product, symbol
from ..dtype import BOOL
from ..errors import ScheduleError
from ..loop.decide import worked_out
from ..loop.expr import Const, Expr, Read, const, index, op, read, walk
from ..loop.kinds import LoopKind
from ..loop.nest import Accumulate, If, Loop, Prefetch, Stmt, Store
from ..loop.prim import Buffer, Stage
from ..loop.scalar import COMBINERS
from .limits import LIMITS, buffer_bytes
from .loops import Limits, LoopWriter, Values, is_masked
from .prefetching import Walk, contiguous
from .skipping import constants_of
from .state import State
from .tree import Branch, Leaf

PRIVATE_BYTES = LIMITS.stack_bytes // 4
"""Bytes up to which a private buffer of symbolic size is as large as it may ever have to be. A
larger one is part of the workspace, whole."""


@dataclass(frozen=True)
class Local:
    """A private buffer; its indices are relative to the point that the loops around it fix."""

    buffer: Buffer
    fixed: tuple[IntExpr, ...]


Locals = Mapping[str, Local]


class PieceWriter(LoopWriter):
    """Writes the statements around a loop: what comes before, behind, or instead of it."""

    def __init__(self, state: State, firm: Container[str]) -> None:
        super().__init__(state, firm)
        self.extents = state.extents
        self.workspace: dict[str, Buffer] = {}
        self.panelled: set[str] = set()  # operands whose loop of ``pack_at`` has been written
        self.mirrored: set[str] = set()  # loops of ``mirror`` that have been written
        self.kept: dict[str, tuple[Local, Expr]] = {}  # tiles that are stored, under a condition

    def skipped(self, item: Branch, values: Values, limits: Limits, local: Locals) -> list[Stmt]:
        """Returns stores of a skipped iteration's values of the stages that are read later."""
        constants = constants_of(self.state.prim, item, self.state.skips[item.loop])
        written: list[Stmt] = []
        for stage, value in constants:
            loops = [
                loop
                for loop in self.state.loops(stage)
                if not all(part in values for part in self.state.parts(loop))
                and not self.state.is_reduction(stage, loop)
            ]

            def store(
                v: Values, _l: Limits, stage: Stage = stage, value: Const = value
            ) -> list[Stmt]:
                name, indices = self.target(stage, v, local)
                return [Store(name, indices, value)]

            written += self.nest(loops, values, limits, store)
        return written

    def of_nothing(
        self, items: Sequence[Branch | Leaf], around: tuple[str, ...] = ()
    ) -> list[Stmt]:
        """Returns stores of the identity for reductions that store in some iterations of their
        loops, of which there may be none."""
        written: list[Stmt] = []
        for item in items:
            if isinstance(item, Branch):
                private = tuple(s.name for s in item.stores)
                written += self.of_nothing(item.items, (*around, *private))
                continue
            stage = item.stage
            empty = [a.extent for a in stage.reduce_axes if not prove(a.extent, ">", 0)]
            if not item.outer_reductions or not empty:
                continue
            if stage.name in around:
                raise ScheduleError(f"{stage.name} may have nothing to reduce, in private memory")
            if stage.name not in self.state.prim.outputs:
                self.workspace.setdefault(stage.name, stage.buffer)
            assert stage.combiner is not None
            dtype = stage.buffer.dtype
            identity = const(COMBINERS[stage.combiner].identity(dtype), dtype)
            stmt: Stmt = Store(stage.name, tuple(symbol(a.name) for a in stage.axes), identity)
            for axis in reversed(stage.axes):
                stmt = Loop(LoopKind.FOR, axis.name, axis.extent, (stmt,))
            nothing = op("equal", index(product(empty)), index(0))
            written.append(If(nothing, (stmt,)))
        return written

    def is_first(self, item: Leaf, values: Values) -> Expr:
        """Returns the condition that no iteration of the reduced loops around came before."""
        parts = [p for loop in item.outer_reductions for p in self.state.parts(loop)]
        if any(isinstance(self.extents[self.state.axis_of(p)], Dim) for p in parts):
            # A loop may not run, and another one go on from there, so places on the axes count.
            outer = [self.axis_value(axis, values) for axis in map(self.state.axis_of, parts)]
        else:
            outer = [values[p] for p in parts]
        if any(isinstance(n, int) and n != 0 for n in outer):
            return const(False, BOOL)
        moving = [n for n in outer if isinstance(n, Dim)]
        if not moving:
            return const(True, BOOL)
        return op("equal", index(sum(moving[1:], moving[0])), index(0))

    def prefetches(self, stage: Stage, values: Values) -> list[Stmt]:
        """Returns the prefetches of a stage: the places that it reads some iterations later, each
        once. Operands that it does not read here, in this piece of a join, are left out."""
        requests: dict[Prefetch, None] = {}
        here: set[Expr] | None = None
        for (name, buffer), (loop, distance) in self.state.prefetches.items():
            if name != stage.name:
                continue
            now = values.get(loop)
            if now is None:
                raise ScheduleError(f"prefetch: {loop} is not outside of what {name} reads")
            if isinstance(now, int):
                continue  # the last iteration, or the only one
            soon = {**values, loop: now + distance}
            if here is None:
                here = set(walk(self.instantiate(stage.expr, values, {})))
            for node in walk(stage.expr):
                if isinstance(node, Read) and node.buffer == buffer:
                    if self.instantiate(node, values, {}) not in here:
                        continue
                    place = self.instantiate(node, soon, {})
                    assert isinstance(place, Read)
                    requests[Prefetch(buffer, place.plain_indices)] = None
        for (name, buffer), loop in self.state.nexts.items():
            if name != stage.name:
                continue
            if loop not in values:
                raise ScheduleError(f"prefetch_next: {loop} is not outside of what {name} reads")
            if not isinstance(values[loop], int):
                requests.update(dict.fromkeys(self.prefetches_next(stage, buffer, loop, values)))
        return list(requests)

    def prefetches_next(
        self, stage: Stage, buffer: str, loop: str, values: Values
    ) -> list[Prefetch]:
        """Returns the prefetches of what the next iteration of an outer loop reads."""
        node = next(
            (n for n in walk(stage.expr) if isinstance(n, Read) and n.buffer == buffer), None
        )
        if node is None:  # a later step put the copy into its reader
            raise ScheduleError(f"prefetch_next: {stage.name} no longer reads {buffer}")
        panels, walked = self.state.packs[buffer].stage.buffer, Walk.of(self.state, stage, loop)
        first = self.instantiate(node, walked.next(values), {})
        last = self.instantiate(node, walked.next_end(values), {})
        assert isinstance(first, Read) and isinstance(last, Read)
        size = contiguous(self.state, walked, node, first, last, panels)
        *outer, start = first.plain_indices
        lines = walked.lines(self.state, values, size, panels.dtype)
        return [Prefetch(buffer, (*outer, start + line), later=True) for line in lines]

    def write_back(
        self,
        item: Leaf,
        tile: Local,
        spatial: Sequence[str],
        values: Values,
        limits: Limits,
        local: Locals,
    ) -> list[Stmt]:
        """Stores the tile; later iterations of reduced loops around it combine it with the values
        stored before."""
        stage = item.stage
        assert stage.combiner is not None
        combiner = stage.combiner

        def store(fresh: bool) -> list[Stmt]:
            def one(v: Values, _l: Limits) -> list[Stmt]:
                place = self.relative(stage, tile, v)
                value = read(tile.buffer.name, place, stage.buffer.dtype)
                name, indices = self.target(stage, v, local)
                if fresh:
                    stream = name in self.state.streams and not item.outer_reductions
                    return [Store(name, indices, value, stream)]
                return [Accumulate(name, indices, combiner, value)]

            return self.nest(spatial, values, limits, one)

        first = self.is_first(item, values)
        if isinstance(first, Const):
            return store(fresh=bool(first.value))
        return [If(first, tuple(store(fresh=True)), tuple(store(fresh=False)))]

    def private(self, stage: Stage, name: str, values: Values, limits: Limits) -> Local:
        shape = tuple(self.room(a.name, values, limits) for a in stage.axes)
        fixed = tuple(self.axis_value(a.name, values) for a in stage.axes)
        return Local(Buffer(name, shape, stage.buffer.dtype), fixed)

    def room(self, axis: str, values: Values, limits: Limits) -> IntExpr:
        """Returns the elements of a private buffer along an axis: also those of masked lanes."""
        ends = bounds(limits[axis], self.ranges) if is_masked(axis) in values else None
        return ends[1] if ends is not None else limits[axis]

    def bounded(self, local: Local) -> Local | None:
        """Returns a private buffer of the greatest size it may need; None if that is large."""
        shape: list[int] = []
        for size in local.buffer.shape:
            ends = bounds(size, self.ranges)
            shape.append(max(0, ends[1]) if ends is not None else LIMITS.stack_bytes)
        buffer = replace(local.buffer, shape=tuple(shape))
        if shape != list(local.buffer.shape) and buffer_bytes([buffer]) > PRIVATE_BYTES:
            return None
        return replace(local, buffer=buffer)

    def target(
        self, stage: Stage, values: Values, local: Locals
    ) -> tuple[str, tuple[IntExpr, ...]]:
        if stage.name in local:
            where = local[stage.name]
            return where.buffer.name, self.relative(stage, where, values)
        return stage.name, tuple(self.axis_value(a.name, values) for a in stage.axes)

    def relative(self, stage: Stage, where: Local, values: Values) -> tuple[IntExpr, ...]:
        return tuple(
            self.axis_value(a.name, values) - fixed
            for a, fixed in zip(stage.axes, where.fixed, strict=True)
        )

    def instantiate(self, expr: Expr, values: Values, local: Locals) -> Expr:
        """Returns the expression of one element of a stage for these values of the loops."""
        axes = {axis: self.axis_value(axis, values) for axis in self.extents}
        private = {n: (where.buffer.name, where.fixed) for n, where in local.items()}
        return worked_out(expr, axes, self.ranges, private)
