"""Prefetching: what a stage reads some iterations later, and what the next iteration of an outer
loop reads, a little in each iteration of the loops inside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import gcd, prod
from typing import Any

import numpy as np

from ..dataclass import dataclass
from ..dims import Dim, IntExpr, as_int, ceildiv, mod, symbols, typical
from ..dtype import DType
from ..errors import ScheduleError
from ..loop.expr import Read, walk
from ..loop.kinds import LoopKind
from ..loop.prim import Buffer, Stage
from .loops import Values
from .rows import Rows
from .schedule import Primitive
from .state import State

LINE_BYTES = 64
"""Bytes of a cache line."""

MOST_LINES = 8
"""Lines that an iteration prefetches at most: a core cannot wait for many more at a time."""


@Primitive
def prefetch(state: State, name: str, buffer: str, loop: str, distance: int = 1) -> State:
    """Prefetch what a stage reads of an operand ``distance`` iterations of ``loop`` later.

    ::

        for i: for j: t[i, j] = x[i, j]  =>  for i: for j: prefetch x[i + 1, j]; t[i, j] = x[i, j]

    It pays if the stage computes for longer than it reads and another one would wait for the next
    row, or if the strides of an operand are too long for the hardware prefetcher. A packed operand
    has the name of its panels. An address outside of the operand has no effect.
    """
    stage = state.require_stage(name, "prefetch")
    state.require_loop(loop, "prefetch")
    operands = {p.name for p in state.prim.params} | set(state.packs)
    if distance < 1:
        raise ScheduleError("prefetch: the distance is one iteration at least")
    if loop in state.fused or buffer not in operands:
        raise ScheduleError(f"prefetch: {loop} is a fused loop, or {buffer!r} not a parameter")
    axis = state.axis_of(loop)
    reads = [n for n in walk(stage.expr) if isinstance(n, Read) and n.buffer == buffer]
    moved = any(axis in symbols(i) for n in reads for i in n.plain_indices)
    if not moved or any(len(n.plain_indices) < len(n.indices) for n in reads):
        raise ScheduleError(f"prefetch: {loop} does not move what {name} reads of {buffer}")
    return replace(state, prefetches={**state.prefetches, (name, buffer): (loop, distance)})


@prefetch.rows
def _prefetch_rows(rows: Rows, _name: str, buffer: str, _loop: str, distance: Any) -> None:
    buffer = buffer.removesuffix(".packed")
    rows.ahead[buffer] = np.maximum(rows.array(distance), rows.ahead.get(buffer, 0))


@Primitive
def prefetch_next(state: State, name: str, buffer: str, loop: str) -> State:
    """Prefetch what a stage reads of a packed operand in the next iteration of ``loop``, the same
    number of cache lines in each iteration of the loops inside it.

    ::

        for j.0: for i in 16: for k in 48:           for j.0: for i in 16: for k in 48:
          t[i, j] += x[i, k] * w.packed[j.0, k, 0]  =>   prefetch w.packed[j.0 + 1, 0, n] in L2
                                                         t[i, j] += ...

    with n = 16 * ((48 * i + k) // 16), where one iteration of j.0 reads 48 lines of 16 elements.
    The first rows that use a panel from memory wait for it. This way it comes while all rows of the
    panel before are computed; into L2, as two panels may be more than L1 holds. An address outside
    of the operand has no effect.
    """
    stage = state.require_stage(name, "prefetch_next")
    if loop not in (part for order in state.order for part in state.parts(order)):
        state.require_loop(loop, "prefetch_next")
    if buffer not in state.packs:
        raise ScheduleError(f"prefetch_next: {buffer!r} is not packed")
    reads = [n for n in walk(stage.expr) if isinstance(n, Read) and n.buffer == buffer]
    if len(reads) != 1 or len(reads[0].plain_indices) < len(reads[0].indices):
        raise ScheduleError(f"prefetch_next: {name} does not read {buffer} at one place")
    if not any(state.axis_of(loop) in symbols(i) for i in reads[0].plain_indices):
        raise ScheduleError(f"prefetch_next: {loop} does not move what {name} reads of {buffer}")
    return replace(state, nexts={**state.nexts, (name, buffer): loop})


@prefetch_next.rows
def _prefetch_next_rows(rows: Rows, _name: str, buffer: str, _loop: str) -> None:
    buffer = buffer.removesuffix(".packed")
    rows.nexts[buffer] = rows.where | rows.nexts.get(buffer, False)


@dataclass(frozen=True, slots=True)
class Walk:
    """The loops of a stage inside ``loop``, outermost first, and their iterations."""

    loop: str
    inner: Mapping[str, int]

    @staticmethod
    def of(state: State, stage: Stage, loop: str) -> Walk:
        loops = [part for order in state.loops(stage) for part in state.parts(order)]
        if loop not in loops:
            raise ScheduleError(f"prefetch_next: {loop} is not a loop of {stage.name}")
        inner = loops[loops.index(loop) + 1 :]
        return Walk(loop, {name: _trips(state, name) for name in inner})

    def next(self, values: Values) -> Values:
        """Returns the loops' values where the next iteration of ``loop`` begins."""
        return {**values, **dict.fromkeys(self.inner, 0), self.loop: values[self.loop] + 1}

    def next_end(self, values: Values) -> Values:
        """Returns the loops' values where the next iteration of ``loop`` ends."""
        last = {name: trips - 1 for name, trips in self.inner.items()}
        return {**self.next(values), **last}

    def lines(self, state: State, values: Values, size: int, dtype: DType) -> list[IntExpr]:
        """Returns where, behind the first of ``size`` contiguous elements, the lines begin that one
        iteration of all these loops prefetches."""
        number: IntExpr = 0
        total = 1
        for name, trips in reversed([*self.inner.items()]):
            if state.kinds.get(name) not in (LoopKind.UNROLL, LoopKind.VECTORIZE):
                # A size may ask for more iterations than a likely one: these prefetch it again.
                value = mod(values[name], trips) if _is_open(state, name) else values[name]
                number = number + value * total
                total *= trips
        line = LINE_BYTES // dtype.bytes
        lines = -(-size // line)
        count = min(-(-lines // total), MOST_LINES)
        common = gcd(lines, total)
        begin = number * (lines // common) // (total // common)
        return [(begin + n) * line for n in range(count)]


def _is_open(state: State, loop: str) -> bool:
    """True if a symbolic size decides how often a loop runs."""
    axis = state.axis_of(loop)
    return isinstance(state.extents[axis], Dim) and state.loops_of_axis(axis)[0] == loop


def _trips(state: State, loop: str) -> int:
    """Returns the iterations of a loop, for a likely value of a symbolic size."""
    axis = state.axis_of(loop)
    if _is_open(state, loop):
        return max(1, typical(ceildiv(state.extents[axis], state.block(loop))))
    if axis == loop:
        return as_int(state.extents[axis])
    return state.splits[axis][int(loop.rpartition(".")[2])]


def contiguous(
    state: State, walked: Walk, place: Read, first: Read, last: Read, panels: Buffer
) -> int:
    """Returns how many elements ``place`` reads in one iteration, from ``first`` to ``last``.

    ScheduleError if others lie between them.
    """
    moving = {axis for i in place.plain_indices for axis in symbols(i)}
    count = prod(trips for name, trips in walked.inner.items() if state.axis_of(name) in moving)
    distance: IntExpr = 1
    stride = 1
    for a, b, size in reversed(
        list(zip(first.plain_indices, last.plain_indices, panels.shape, strict=True))
    ):
        distance = distance + (b - a) * stride
        stride *= as_int(size)
    if distance != count:
        raise ScheduleError(f"prefetch_next: {walked.loop} reads parts of {panels.name}")
    return count
