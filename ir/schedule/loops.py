"""The loops of a nest, written with constant extents.

Where a split does not divide its axis, or an axis is cut or peeled, the iterations are *runs* with
a body each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from math import prod

from ..dataclass import dataclass
from ..dims import Dim, IntExpr, resolve, symbol
from ..errors import ScheduleError
from ..loop.cases import pieces
from ..loop.expr import index, op
from ..loop.kinds import LoopKind
from ..loop.nest import If, Let, Loop, Stmt
from .limits import LIMITS
from .state import State

__all__ = ["Body", "Limits", "LoopWriter", "Values"]

Limits = Mapping[str, int]  # how much of an axis is left inside the loops so far


@dataclass(frozen=True, slots=True)
class Run:
    """Iterations with one body: from ``first`` to ``last`` of the loop, in the piece of the axis
    that begins at index ``start`` and iteration ``base``; each covers ``limit`` of the axis."""

    first: int
    last: int
    base: int
    start: int
    limit: int
    others: Limits = field(default_factory=dict[str, int])  # limits of other axes in it

    @property
    def count(self) -> int:
        return self.last + 1 - self.first


def runs(state: State, loop: str, limits: Limits, short: Mapping[str, Limits]) -> list[Run]:
    """Returns the runs of a plain loop; ``short``: sizes of axes in its last iteration."""
    axis, block = state.axis_of(loop), state.block(loop)
    if axis in short:
        last = limits[axis] - 1
        whole = [Run(0, last - 1, 0, 0, 1)] if last else []
        return [*whole, Run(last, last, 0, 0, 1, short[axis])]
    parts = [(0, limits[axis])]
    if axis in state.cuts and loop == state.loops_of_axis(axis)[0]:
        parts = pieces(state.cuts[axis], limits[axis])
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


Values = Mapping[str, IntExpr]  # a loop's value: its symbol, or a constant where it runs once
Body = Callable[[Values, Limits], list[Stmt]]


def _start_of(axis: str) -> str:
    """Returns the key in ``Values`` of the start, on its axis, of the piece around the loops."""
    return f"{axis}@"


def _short_panels(state: State) -> dict[str, Limits]:
    """Returns the size of the last panel of operands packed at run time, by the loop over panels.

    The rest of that panel is never read, so it is not copied, and no element needs a guard. In a
    schedule that splits or reorders these loops, the copy keeps the guard.
    """
    rests: dict[str, Limits] = {}
    for stage in state.prim.stages:
        pack = state.packs.get(stage.name)
        if pack is None or pack.group or not pack.rest:
            continue
        panels, lanes = pack.stage.axes[0].name, pack.stage.axes[-1].name  # before any ``layout``
        places = [n for n, loop in enumerate(state.order) if panels in state.parts(loop)]
        inside = [n for n, l in enumerate(state.order) if l in state.loops_of_axis(lanes)]
        if places and len(inside) == len(state.loops_of_axis(lanes)) and places[0] < min(inside):
            rests[panels] = {lanes: pack.rest}
    return rests


class LoopWriter:
    """Writes loops around bodies; ``ranges`` are those of the loops around what is written now."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.count = 0
        self.short = _short_panels(state)
        self.steps = {  # the loops of each axis, and how far the axis moves with one step of them
            axis: [(loop, state.block(loop)) for loop in state.loops_of_axis(axis)]
            for axis in state.extents
        }
        self.ranges: dict[str, tuple[int, int]] = {}

    def loop(
        self,
        name: str,
        values: Values,
        limits: Limits,
        body: Body,
    ) -> list[Stmt]:
        """Returns a loop around ``body``; each piece or remainder of the axis has a further one."""
        if name in self.state.fused:
            return self.fused_loop(name, values, limits, body)
        kind = self.state.kinds.get(name, LoopKind.FOR)
        self.count += 1
        if self.count > LIMITS.loops:
            raise ScheduleError(f"the nest has more than {LIMITS.loops} loops")
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
            value = symbol(name) + skipped if run.count > 1 else skipped
            inner = tuple(body(*self.enter(name, run, value, values, limits)))
            written += [Loop(kind, name, run.count, inner)] if run.count > 1 else inner
        return written

    def enter(
        self, name: str, run: Run, value: IntExpr, values: Values, limits: Limits
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
        body: Body,
    ) -> list[Stmt]:
        parts = self.state.fused[name]
        part_runs = [runs(self.state, part, limits, self.short) for part in parts]
        counts = [each[-1].last + 1 if each else 0 for each in part_runs]
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
        stmts = self.fused_parts(list(zip(parts, part_runs)), values, limits, body)
        if total == 1:
            return stmts
        kind = self.state.kinds.get(name, LoopKind.FOR)
        return [Loop(kind, name, total, (*lets, *stmts))]

    def fused_parts(
        self,
        parts: Sequence[tuple[str, Sequence[Run]]],
        values: Values,
        limits: Limits,
        body: Body,
    ) -> list[Stmt]:
        if not parts:
            return body(values, limits)
        (name, loop_runs), *others = parts
        return self.branches(
            name, loop_runs, values, limits, lambda v, l: self.fused_parts(others, v, l, body)
        )

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

    def axis_value(self, axis: str, values: Values) -> IntExpr:
        total = values.get(_start_of(axis), 0)
        for loop, step in self.steps[axis]:
            if loop in values:
                total = total + values[loop] * step
        return total
