"""Rows of a population: the loops that the steps of many schedules make of one PrimFunc.

::

    order       i.0   j.0   k     i.1                   extent, kind: int64[n] by loop
    row 0       8     4     64    4                     for i in 8: for j in 4: for k in 64: ...
    row 1       16    2     64    2

All rows have the same loops in the same order, with other iterations and kinds. Each primitive
declares what its step does to them beside what it does to one nest; what it says of buffers
(panels, prefetches, places of tiles) are arrays as well. No row is refused here: the nest of a row
that is measured may be.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dataclass import dataclass
from ..dims import as_int
from ..loop.kinds import LoopKind
from ..loop.prim import PrimFunc, Stage
from .columns import BoolArray, Guarded, IntArray, array_of

FOR, PARALLEL, UNROLL, VECTORIZE, INSTRUCTION = range(5)
KINDS: dict[LoopKind, int] = dict(
    zip((LoopKind.FOR, LoopKind.PARALLEL, LoopKind.UNROLL, LoopKind.VECTORIZE), range(4))
)
"""Numbers of the kinds of loops; ``INSTRUCTION`` is a loop that one instruction runs in a lane."""


@dataclass(frozen=True, slots=True)
class PackedAlong:
    """An operand that is copied into panels along an axis: ``tile``, int64[n], elements wide, 0 in
    the rows that do not; ``depth``, int64[n], counts the loops outside of the copy: 0 where it is
    made before all loops."""

    axis: str
    tile: IntArray
    depth: IntArray


class Rows:
    """``members``, int64[n], are the places of the rows in their population; ``where``, bool[n], is
    true of those for which the step is meant that is applied now.

    ``shifted`` names the stage whose bytes a stage of sums has shifted. ``tiles`` and ``at`` are
    the loops in which a stage is accumulated, or computed. ``ahead`` are
    the iterations, int64[n], that reads of a buffer are prefetched ahead, ``nexts`` the buffers
    whose next panels are, by bool[n]. ``matrix`` says by bool[n] that matrix registers hold the
    sums; ``mirrors`` holds the width, int64[n], of a mirrored stage's blocks.
    """

    def __init__(self, prim: PrimFunc, members: IntArray) -> None:
        self.prim, self.members = prim, members
        axes = (a for s in prim.stages for a in (*s.axes, *s.reduce_axes))
        sizes = {a.name: as_int(a.extent) for a in axes}
        n = len(members)
        self.where = self.all_rows = np.ones(n, np.bool_)
        self.order = [*sizes]
        self.axis = {name: name for name in sizes}
        self.extent: dict[str, IntArray] = {
            name: np.full(n, size, np.int64) for name, size in sizes.items()
        }
        self.kind: dict[str, IntArray] = {}
        self.shifted: dict[str, str] = {}
        self.tiles: dict[str, str] = {}
        self.at: dict[str, str] = {}
        self.panels: dict[str, dict[str, PackedAlong]] = {}
        self.ahead: dict[str, IntArray] = {}
        self.nexts: dict[str, BoolArray] = {}
        self.streams = np.zeros(n, np.bool_)
        self.matrix = np.zeros(n, np.bool_)
        self.mirrors: dict[str, IntArray] = {}

    def apply(self, given: Any) -> None:
        """Applies one step, as ``columns.built`` yields it, to the rows for which it is meant."""
        step, self.where = given, self.all_rows
        if isinstance(given, Guarded):
            step, self.where = given.step, given.where
        if step.primitive.on_rows is not None:
            step.primitive.on_rows(self, *step.spread)

    def parts(self, name: str) -> list[str]:
        """Returns the loops that a name stands for: those of a fused one, none of a copy's."""
        return [part for part in name.split("*") if part in self.extent]

    def array(self, value: Any) -> IntArray:
        """Returns int64[n] of an argument of a step, 0 in rows for which it is not meant."""
        return np.where(self.where, array_of(value, len(self.members)), 0)

    def annotate(self, name: str, kind: int) -> None:
        """Gives the loops that a name stands for a kind."""
        for part in self.parts(name):
            self.kind[part] = np.where(self.where, kind, self.kind.get(part, FOR))

    def pack(self, buffer: str, axis: str, tile: Any, depth: int = 0) -> None:
        """Copies an operand into panels inside of ``depth`` loops."""
        tiles, depths = self.array(tile), self.array(depth)
        panels = self.panels.setdefault(buffer, {})
        if axis in panels:
            tiles, depths = tiles | panels[axis].tile, depths | panels[axis].depth
        panels[axis] = PackedAlong(axis, tiles, depths)

    def depth_in(self, loop: str) -> int:
        """Returns how many loops, of all in order, stand outside of the body of a loop."""
        return self.order.index(loop) + 1

    def depth(self, stage: Stage) -> int:
        """Returns how many loops, of all in order, stand outside of a reduction's tile."""
        if stage.name in self.tiles:
            return self.depth_in(self.tiles[stage.name])
        reduced = {a.name for a in stage.reduce_axes}
        inside = [n for n, loop in enumerate(self.order) if self.axis[loop] in reduced]
        return inside[0] if inside else len(self.order)
