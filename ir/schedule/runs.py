"""The iterations of a loop in runs with the same body: the pieces of a cut axis, peeled iterations,
and the rest of a split that does not divide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from ..loop.cases import pieces
from .state import State

__all__ = ["Limits", "Run", "runs"]

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
    """The runs of a plain loop; ``short`` holds the rest of some axes in its last iteration."""
    axis, block = state.axis_of(loop), state.block(loop)
    if axis in short:
        last = limits[axis] - 1
        whole = [Run(0, last - 1, 0, 0, 1)] if last else []
        return [*whole, Run(last, last, 0, 0, 1, short[axis])]
    parts = [(0, limits[axis])]
    if axis in state.cuts and loop == state.loops_of_axis(axis)[0]:
        parts = pieces(state.cuts[axis], limits[axis])
    first, last = state.peels.get(loop, (0, 0))
    found: list[Run] = []
    base = 0
    for start, size in parts:
        full, rest = divmod(size, block)
        count = full + (rest > 0)
        head = min(first, count)
        tail = max(head, full - max(0, last - (rest > 0)))
        for begin, end in pairwise(sorted({*range(head + 1), *range(tail, count + 1)})):
            limit = block if begin < full else rest
            found.append(Run(base + begin, base + end - 1, base, start, limit))
        base += count
    return found
