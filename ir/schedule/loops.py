"""The loops of a nest.

Where a split does not divide its axis, or an axis is cut or peeled, the iterations are *runs* with
a body each.

What is left of an axis inside of some loops, its *limit*, may be symbolic. Vector lanes, unrolled
loops and register tiles have constant extents. So the loop around these (a *firm* one) runs over
whole blocks, and then over what is left in blocks of powers of four. Inside of any other loop, the
limit is an expression of the loop's variable::

    for i.0 in n // 8:                              for i.0 in ceildiv(n, 8):
      unroll i.1 in 8: s[8 * i.0 + i.1]               for i.1 in min(8, n - 8 * i.0):
    for i.0.rest in n % 8 // 4:                         s[8 * i.0 + i.1]
      unroll i.1 in 4: s[8 * (n // 8) + i.1]
    for i.0.rest in n % 4: s[4 * (n // 4) + i.0.rest]

Tiles of five rows or more share so much that a rest takes one pass: rows that do not exist read the
last one (see ``clamp``). What is left of lanes runs in masked ones:
``vectorize i.1 in min(16, n % 64 - 16 * i.0.rest)``.
In a parallel or fused loop a firm one has a further iteration for what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from math import prod

from .. import dims
from ..dataclass import dataclass
from ..errors import ScheduleError
from ..loop.cases import pieces
from ..loop.expr import index, op
from ..loop.kinds import LoopKind
from ..loop.nest import If, Let, Loop, Stmt
from .clamp import clamped
from .limits import LIMITS
from .state import State

LEAST_CLAMPED = 5  # rows of tiles that may lack some; rests of shorter tiles run row by row
MOST_ADDRESSES = 8  # of rows, in registers at once
MASKED_LANES = 16  # of the vectors of a rest: those of float32 in 64 bytes

Limits = Mapping[str, dims.IntExpr]  # how much of an axis is left inside the loops so far


@dataclass(frozen=True, slots=True)
class Run:
    """Iterations with one body: from ``first`` to ``last`` of the loop, in the piece of the axis
    that begins at index ``start`` and iteration ``base``; each covers ``limit`` of the axis."""

    first: int
    last: int
    base: int
    start: int
    limit: int
    others: Limits = field(default_factory=dict[str, dims.IntExpr])  # limits of other axes in it

    @property
    def count(self) -> int:
        return self.last + 1 - self.first


def runs(state: State, loop: str, limits: Limits, short: Mapping[str, Limits]) -> list[Run]:
    """Returns the runs of a plain loop; ``short``: sizes of axes in its last iteration."""
    axis, block = state.axis_of(loop), state.block(loop)
    limit_around = dims.as_int(limits[axis])
    if axis in short:
        last = limit_around - 1
        whole = [Run(0, last - 1, 0, 0, 1)] if last else []
        return [*whole, Run(last, last, 0, 0, 1, short[axis])]
    parts = [(0, limit_around)]
    if axis in state.cuts and loop == state.loops_of_axis(axis)[0]:
        points = tuple(p for p in state.cuts[axis] if p < limit_around)  # the last panel is short
        parts = pieces(points, limit_around)
    first, last = state.peels.get(loop, (0, 0))
    result: list[Run] = []
    base = 0
    for start, size in parts:
        full, rest = divmod(size, block)
        count = full + (rest > 0)
        head = min(first, count)
        tail = max(head, full - max(0, last - (rest > 0)))
        for begin, end in pairwise(sorted({*range(head + 1), *range(tail, count + 1)})):
            limit = block if begin < full else rest
            result.append(Run(base + begin, base + end - 1, base, start, limit))
        base += count
    return result


Values = Mapping[str, dims.IntExpr]  # a loop's value: its symbol, or a constant where it runs once
Body = Callable[[Values, Limits], list[Stmt]]


def _start_of(axis: str) -> str:
    """Returns the key in ``Values`` of the start, on its axis, of the piece around the loops."""
    return f"{axis}@"


def is_masked(axis: str) -> str:
    """Returns the key in ``Values`` that is there where the limit of an axis is a number of lanes:
    each loop inside has one iteration, but for the lanes."""
    return f"{axis}%"


def _short_panels(state: State) -> dict[str, Limits]:
    """Returns the size of the last panel of operands packed at run time, by the loop over panels.

    The rest of that panel is never read, so it is not copied, and no element needs a guard. In a
    schedule that splits or reorders these loops, the copy keeps the guard.
    """
    rests: dict[str, Limits] = {}
    for stage in state.prim.stages:
        pack = state.packs.get(stage.name)
        if pack is None or pack.group or isinstance(pack.rest, dims.Dim) or not pack.rest:
            continue
        panels, lanes = pack.stage.axes[0].name, pack.stage.axes[-1].name  # before any ``layout``
        places = [n for n, loop in enumerate(state.order) if panels in state.parts(loop)]
        inside = [n for n, l in enumerate(state.order) if l in state.loops_of_axis(lanes)]
        if places and len(inside) == len(state.loops_of_axis(lanes)) and places[0] < min(inside):
            rests[panels] = {lanes: pack.rest}
    return rests


def _divides(block: int, limit: dims.IntExpr) -> bool:
    """True if a limit is known to be a multiple of ``block``."""
    if dims.mod(limit, block) == 0:
        return True
    match limit.terms if isinstance(limit, dims.Dim) else ():
        case (((dims.Min() | dims.Max() as atom,), 1),):
            return _divides(block, atom.left) and _divides(block, atom.right)
        case _:
            return False


class LoopWriter:
    """Writes loops around bodies; ``ranges`` are those of the loops around what is written now."""

    def __init__(self, state: State, firm: Container[str]) -> None:
        self.state = state
        self.firm = firm
        self.count = 0
        self.short = _short_panels(state)
        self.steps = {  # the loops of each axis, and how far the axis moves with one step of them
            axis: [(loop, state.block(loop)) for loop in state.loops_of_axis(axis)]
            for axis in state.extents
        }
        self.ranges: dict[str, tuple[int, int]] = {}

    def loop(self, name: str, values: Values, limits: Limits, body: Body) -> list[Stmt]:
        """Returns a loop around ``body``; each piece or remainder of the axis has a further one."""
        if name in self.state.fused:
            return self.fused_loop(name, values, limits, body)
        kind = self.state.kinds.get(name, LoopKind.FOR)
        self.count += 1
        if self.count > LIMITS.loops:
            raise ScheduleError(f"the nest has more than {LIMITS.loops} loops")
        if isinstance(limits[self.state.axis_of(name)], dims.Dim):
            return self.symbolic_loop(name, kind, values, limits, body)
        loop_runs = runs(self.state, name, limits, self.short)
        if kind == LoopKind.PARALLEL and len(loop_runs) > 1:
            total = loop_runs[-1].last + 1
            return [
                Loop(kind, name, total, tuple(self.branches(name, loop_runs, values, limits, body)))
            ]
        written: list[Stmt] = []
        for run in loop_runs:
            self.ranges[name] = (0, run.count - 1)
            skipped = run.first - run.base
            value = dims.symbol(name) + skipped if run.count > 1 else skipped
            inner = tuple(body(*self.enter(name, run, value, values, limits)))
            written += [Loop(kind, name, run.count, inner)] if run.count > 1 else inner
        return written

    def enter(
        self, name: str, run: Run, value: dims.IntExpr, values: Values, limits: Limits
    ) -> tuple[Values, Limits]:
        """Returns values and limits in a run; ``value`` counts from the first of its piece."""
        axis = self.state.axis_of(name)
        if run.start:
            values = {**values, _start_of(axis): run.start}
        return {**values, name: value}, {**limits, axis: run.limit, **run.others}

    def branches(
        self,
        name: str,
        loop_runs: Sequence[Run],
        values: Values,
        limits: Limits,
        body: Body,
    ) -> list[Stmt]:
        """Returns the body of any iteration, with conditions that select its run."""
        run, *others = loop_runs
        self.ranges[name] = (run.first, run.last)
        value = dims.symbol(name) - run.base if run.count > 1 else run.first - run.base
        mine = body(*self.enter(name, run, value, values, limits))
        if not others:
            return mine
        inside = op("less", index(dims.symbol(name)), index(run.last + 1))
        rest = self.branches(name, others, values, limits, body)
        return [If(inside, tuple(mine), tuple(rest))]

    def fused_loop(
        self,
        name: str,
        values: Values,
        limits: Limits,
        body: Body,
    ) -> list[Stmt]:
        parts = self.state.fused[name]
        if any(isinstance(limits[self.state.axis_of(part)], dims.Dim) for part in parts):
            return self.symbolic_fused_loop(name, values, limits, body)
        part_runs = [runs(self.state, part, limits, self.short) for part in parts]
        counts = [each[-1].last + 1 if each else 0 for each in part_runs]
        total = prod(counts)
        if total == 0:
            return []
        lets: list[Stmt] = []
        left: dims.IntExpr = dims.symbol(name)
        stride = total
        for part, count in zip(parts, counts):
            stride //= count
            value = dims.resolve(left // stride, {name: (0, total - 1)}) if total > 1 else 0
            left = left % stride if total > 1 else 0
            if isinstance(value, dims.Dim):
                lets.append(Let(part, value))
        stmts = self.fused_parts(list(zip(parts, part_runs)), values, limits, body)
        if total == 1:
            return stmts
        kind = self.state.kinds.get(name, LoopKind.FOR)
        return [Loop(kind, name, total, (*lets, *stmts))]

    def fused_parts(
        self,
        parts: Sequence[tuple[str, Sequence[Run] | None]],
        values: Values,
        limits: Limits,
        body: Body,
    ) -> list[Stmt]:
        if not parts:
            return body(values, limits)
        (name, loop_runs), *others = parts

        def inner(v: Values, l: Limits) -> list[Stmt]:
            return self.fused_parts(others, v, l, body)

        if loop_runs is None:
            return self.iteration(name, values, limits, inner)
        return self.branches(name, loop_runs, values, limits, inner)

    # -- symbolic limits -----------------------------------------------------------------------

    def symbolic_loop(
        self, name: str, kind: LoopKind, values: Values, limits: Limits, body: Body
    ) -> list[Stmt]:
        """Returns the loop, and those over the rest, where the limit around it is symbolic."""
        axis, block = self.state.axis_of(name), self.state.block(name)
        limit = limits[axis]
        if is_masked(axis) in values:
            return self.masked_loop(name, kind, values, limits, body)
        if kind == LoopKind.VECTORIZE:
            raise ScheduleError(f"vectorize: {name} has {limit} iterations, which are not constant")
        kind = LoopKind.FOR if kind == LoopKind.UNROLL else kind
        split = kind == LoopKind.FOR and name in self.firm and not _divides(block, limit)
        count = self.wholes(name, limit) if split else dims.ceildiv(limit, block)
        written: list[Stmt] = []
        if self.may_run(name, count):
            if split:
                inner = self.whole(name, values, limits, body)
            else:
                inner = self.iteration(name, values, limits, body)
            written.append(Loop(kind, name, count, tuple(inner)))
        if split:
            written += self.rest(name, values, limits, body)
        return written

    def masked_loop(
        self, name: str, kind: LoopKind, values: Values, limits: Limits, body: Body
    ) -> list[Stmt]:
        """Returns a loop over the lanes that are left, or the only iteration of one around it."""
        axis = self.state.axis_of(name)
        if kind != LoopKind.VECTORIZE:
            return body({**values, name: 0}, limits)
        self.may_run(name, limits[axis])
        inner = body({**values, name: dims.symbol(name)}, {**limits, axis: 1})
        return [Loop(kind, name, limits[axis], tuple(inner))]

    def may_run(self, name: str, count: dims.IntExpr) -> bool:
        """Notes the range of a loop; False if it never runs."""
        ends = dims.bounds(count, self.ranges)
        assert ends is not None
        self.ranges[name] = (0, max(0, ends[1] - 1))
        return ends[1] > 0

    def iteration(self, name: str, values: Values, limits: Limits, body: Body) -> list[Stmt]:
        """Returns the body of any iteration, the last of which may cover less than the others."""
        axis, block, number = self.state.axis_of(name), self.state.block(name), dims.symbol(name)
        limit, inside = limits[axis], {**values, name: number}
        if is_masked(axis) in values:
            return body({**values, name: 0}, limits)
        even = block == 1 or _divides(block, limit)
        if not even and name not in self.firm:
            left = dims.resolve(dims.int_min(block, limit - number * block), self.ranges)
            return body(inside, {**limits, axis: left})
        if even:
            return body(inside, {**limits, axis: block})
        whole = self.whole(name, values, limits, body)
        rest = self.rest(name, values, limits, body)
        is_whole = op("less", index(number), index(self.wholes(name, limit)))
        return [If(is_whole, tuple(whole), tuple(rest))]

    def row_tile(self, name: str) -> int:
        """Returns the rows of the short tile of a firm loop whose tiles may have rows that do not
        exist; 0 for other loops."""
        state, axis = self.state, self.state.axis_of(name)
        inner = state.loops_of_axis(axis)[-1]
        block = state.block(name)
        readers = [s for s in state.prim.stages if any(a.name == axis for a in s.axes)]
        beside = {loop for stage in readers for loop in state.loops(stage)}
        lanes = [n for n, l in enumerate(state.order) if l in beside and self.lanes_of(l)]
        place = next((n for n, loop in enumerate(state.order) if inner in state.parts(loop)), 0)
        reduced = any(a.name == axis for s in state.prim.stages for a in s.reduce_axes)
        other = state.panels or state.skips or state.mirrors or state.tensorized or state.cuts
        if block < LEAST_CLAMPED or reduced or other or state.peels or axis not in state.splits:
            return 0
        if state.splits[axis][-1] != block:
            return 0
        if state.kinds.get(inner) != LoopKind.UNROLL or min(lanes, default=place) < place:
            return 0
        return 1 << (block - 1).bit_length() - 1

    def lanes_of(self, loop: str) -> bool:
        return self.state.kinds.get(loop) == LoopKind.VECTORIZE

    def wholes(self, name: str, limit: dims.IntExpr) -> dims.IntExpr:
        """Returns the iterations of a firm loop that are not rests; the last may lack rows."""
        block, tile = self.state.block(name), self.row_tile(name)
        return dims.floordiv(
            limit + max(0, block - tile - 1 if self.lacks_rows(name) else 0), block
        )

    def lacks_rows(self, name: str) -> bool:
        """True if the last whole tile may have rows that do not exist: each row has an address of
        its own then, which takes a register."""
        return self.row_tile(name) > 0 and self.state.block(name) <= MOST_ADDRESSES

    def whole(self, name: str, values: Values, limits: Limits, body: Body) -> list[Stmt]:
        """Returns the body of an iteration that is not a rest."""
        axis, block = self.state.axis_of(name), self.state.block(name)
        inner = body({**values, name: dims.symbol(name)}, {**limits, axis: block})
        if not self.lacks_rows(name):
            return inner
        left = limits[axis] - dims.symbol(name) * block
        return clamped(inner, self.state.loops_of_axis(axis)[-1], left)

    def short_tiles(self, name: str, values: Values, limits: Limits, body: Body) -> list[Stmt]:
        """Returns the loops over rows behind whole tiles: of at least two rows, and of one."""
        axis, block, var = self.state.axis_of(name), self.state.block(name), f"{name}.rest"
        limit, start = limits[axis], values.get(_start_of(axis), 0)
        number, tile = self.wholes(name, limit), self.row_tile(name)
        left = dims.int_max(0, limit - number * block)
        count = dims.floordiv(left + tile - 2, tile)
        tiles = [(tile, count, 0), (1, dims.int_max(0, left - count * tile), count * tile)]
        written: list[Stmt] = []
        for rows, times, done in tiles:
            if not self.may_run(var, times):
                continue
            place = start + done + dims.symbol(var) * rows
            inside = {**values, name: number, _start_of(axis): place}
            inner = body(inside, {**limits, axis: rows})
            if rows > 1:
                valid = left - dims.symbol(var) * rows
                inner = clamped(inner, self.state.loops_of_axis(axis)[-1], valid)
            written.append(Loop(LoopKind.FOR, var, times, tuple(inner)))
        return written

    def rest(self, name: str, values: Values, limits: Limits, body: Body) -> list[Stmt]:
        """Returns the loops over what is left of an axis behind whole blocks."""
        axis, block, var = self.state.axis_of(name), self.state.block(name), f"{name}.rest"
        limit, start = limits[axis], values.get(_start_of(axis), 0)
        number, left = dims.floordiv(limit, block), dims.mod(limit, block)
        if self.state.kinds.get(self.state.loops_of_axis(axis)[-1]) == LoopKind.VECTORIZE:
            count = dims.ceildiv(left, MASKED_LANES)
            if not self.may_run(var, count):
                return []
            place = start + dims.symbol(var) * MASKED_LANES
            inside = {**values, name: number, _start_of(axis): place, is_masked(axis): 1}
            lanes = dims.resolve(
                dims.int_min(MASKED_LANES, left - dims.symbol(var) * MASKED_LANES), self.ranges
            )
            inner = body(inside, {**limits, axis: lanes})
            return [Loop(LoopKind.FOR, var, count, tuple(inner))]
        if self.row_tile(name):
            return self.short_tiles(name, values, limits, body)
        done, tile = number * block, 1 << 2 * (((block - 1).bit_length() - 1) // 2)
        written: list[Stmt] = []
        while tile:
            count = dims.resolve(dims.floordiv(left, tile), self.ranges)
            if self.may_run(var, count):
                place = start + (done - number * block) + dims.symbol(var) * tile
                inside = {**values, name: number, _start_of(axis): place}
                inner = body(inside, {**limits, axis: tile})
                written.append(Loop(LoopKind.FOR, var, count, tuple(inner)))
            if block % tile == 0:
                done, left = dims.floordiv(limit, tile) * tile, dims.mod(limit, tile)
            else:
                done, left = done + count * tile, dims.mod(left, tile)
            tile //= 4
        return written

    def symbolic_fused_loop(
        self, name: str, values: Values, limits: Limits, body: Body
    ) -> list[Stmt]:
        """Returns a fused loop some of whose parts have a symbolic limit."""
        parts = self.state.fused[name]
        part_runs: list[tuple[str, Sequence[Run] | None]] = []
        counts: list[dims.IntExpr] = []
        for part in parts:
            limit = limits[self.state.axis_of(part)]
            if isinstance(limit, dims.Dim):
                part_runs.append((part, None))
                one = is_masked(self.state.axis_of(part)) in values
                counts.append(1 if one else dims.ceildiv(limit, self.state.block(part)))
            else:
                each = runs(self.state, part, limits, self.short)
                part_runs.append((part, each))
                counts.append(each[-1].last + 1 if each else 0)
        total = dims.product(counts)
        if not self.may_run(name, total):
            return []
        lets: list[Stmt] = []
        left: dims.IntExpr = dims.symbol(name)
        for n, (part, count) in enumerate(zip(parts, counts)):
            stride = dims.product(counts[n + 1 :])
            if count != 1:
                self.may_run(part, count)
                lets.append(Let(part, dims.floordiv(left, stride), count))
                left = dims.mod(left, stride)
        stmts = self.fused_parts(part_runs, values, limits, body)
        kind = self.state.kinds.get(name, LoopKind.FOR)
        return [Loop(kind, name, total, (*lets, *stmts))]

    def nest(
        self,
        loops: Sequence[str],
        values: Values,
        limits: Limits,
        leaf: Body,
    ) -> list[Stmt]:
        if not loops:
            return leaf(values, limits)
        return self.loop(loops[0], values, limits, lambda v, l: self.nest(loops[1:], v, l, leaf))

    def axis_value(self, axis: str, values: Values) -> dims.IntExpr:
        total = values.get(_start_of(axis), 0)
        for loop, step in self.steps[axis]:
            if loop in values:
                total = total + values[loop] * step
        return total
