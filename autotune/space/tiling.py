"""Tilings: how the loops of a group of stages are cut, ordered and kept, as plain numbers.

A tiling names the axes that are cut into tiles; its *values* say how far, under these names:

vectors              native vectors along the vector axis in one register tile
rows                 steps of the row axis in one register tile, unrolled
second_rows          steps of a second row axis in it
cache_vectors        register tiles along the vector axis in one cache tile
cache_rows           register tiles along the row axis in one cache tile
k_blocks             parts of the longest reduced axis, outside of the cache tile
k_unroll             unrolled iterations of the innermost reduced loop
vectors_outer        1: the loop over vectors stands outside of that over rows
cache_vectors_outer  the same inside a cache tile
pack                 which operands are copied into panels: see ``Pack``
tiles                1: sums are kept in matrix registers (AMX)
parallel             outer loops that are fused into the parallel one
non_temporal         1: results are written by non-temporal stores
prefetch             what vectors read is prefetched: 1: one register tile along the vectors ahead;
                     n > 1: n iterations of the innermost reduced loop ahead, or n cache lines of
                     what a map reads
next_panels          1: packed constants of the next iteration of the innermost loop around a cache
                     tile that moves them are prefetched, spread over this one

Defaults are computed from these numbers. Rules name
their knobs after them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import IntEnum
from functools import cached_property
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from ...codegen.core import Core, core_of
from ...codegen.target import CACHE_LINE, Target
from ...ir.dataclass import dataclass
from ...ir.schedule.columns import most
from ...ir.schedule.steps import Schedule, Step
from ..protocols import BoolArray
from .analysis import Group

Choices: TypeAlias = Mapping[str, int]
"""One value of every knob."""
Values: TypeAlias = Mapping[str, npt.NDArray[np.int64]]
"""int64[n] by name: values of n candidates."""


class Pack(IntEnum):
    """Values of ``pack``: which operands are copied into panels.

    Those that move along the vectors, those that rows walk, or both; with ``INSIDE`` both, the
    former by the core that uses them, in each cache tile.
    """

    NONE, VECTORS, BOTH, ROWS, INSIDE = range(5)


PACKS_VECTORS = (Pack.VECTORS, Pack.BOTH, Pack.INSIDE)
PACKS_ROWS = (Pack.BOTH, Pack.ROWS, Pack.INSIDE)
_ONE = "vectors rows second_rows cache_vectors cache_rows k_blocks k_unroll"
_ZERO = "vectors_outer cache_vectors_outer pack tiles parallel non_temporal prefetch next_panels"
UNUSED: dict[str, int] = {**dict.fromkeys(_ONE.split(), 1), **dict.fromkeys(_ZERO.split(), 0)}
"""The values of a nest that is not tiled at all."""


@dataclass(frozen=True)
class Tiling:
    """The axes of a group that are cut into tiles, and the operands that may be copied.

    ``packable`` are parameters that move along the vectors, ``packable_rows`` those that rows walk,
    each with True if it is constant; ``prefetched`` those whose vectors may be prefetched.
    """

    level: ClassVar[int] = 1
    """Number of a register tile's loops: 2 where there are cache tiles around them."""

    group: Group
    target: Target
    vector_axis: str | None
    row_axis: str | None = None
    second_row_axis: str | None = None
    k_axis: str | None = None
    packable: tuple[tuple[str, bool], ...] = ()
    knobs: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    prefetched: tuple[str, ...] = ()
    packable_rows: tuple[tuple[str, bool], ...] = ()

    # -- what a rule adds ----------------------------------------------------------------------

    def build(self, **choices: int) -> list[Step]:
        """The steps for one value of each knob."""
        raise NotImplementedError

    @cached_property
    def defaults(self) -> list[Choices]:
        """A few choices that are good without a measurement, the best first."""
        raise NotImplementedError

    def fits(self, values: Values) -> BoolArray:
        """bool[n]: whether the tiles fit the registers, the stack and the axes."""
        raise NotImplementedError

    @cached_property
    def estimated(self) -> dict[str, float]:
        """Estimated cycles by the text of choices; by "" the least of those that were tried."""
        return {}

    def transposes_for_few(self, _choices: Choices) -> bool:
        """True if every call transposes an operand that few rows use: that takes longer than to
        read it again for each of them."""
        return False

    def untold(self, _values: Values) -> float | npt.NDArray[np.float64]:
        """Returns how many times longer the main stage takes than its loops tell."""
        return 1.0

    @cached_property
    def lane_axes(self) -> frozenset[str]:
        """The axes that vectors of any stage run along."""
        return frozenset({self.vector_axis} if self.vector_axis is not None else ())

    @property
    def name(self) -> str:
        """The rule that the tiling is of, and its vector axis."""
        return f"{type(self).__name__.lower()}.{self.vector_axis or 'k'}"

    # -- what follows --------------------------------------------------------------------------

    @cached_property
    def core(self) -> Core:
        return core_of(self.target)

    @cached_property
    def lanes(self) -> int:
        return self.target.lanes(self.group.element_bytes)

    @cached_property
    def outer_axes(self) -> tuple[str, ...]:
        """Shared axes that are not tiled."""
        tiled = {self.row_axis, self.second_row_axis, self.vector_axis}
        return tuple(a for a in self.group.shared if a not in tiled)

    def in_memory_order(self, axes: Sequence[str]) -> list[str]:
        """Returns axes in the order of the largest operand, where L2 does not hold it: the axes of
        a result say nothing about where operands lie."""
        reads = self.group.accesses[self.group.main.name]
        far = [a for a in reads if a.size * a.element_bytes > self.target.l2]
        largest = max(far, key=lambda a: a.size, default=None)
        if largest is None or not largest.irregular.isdisjoint(axes):
            return list(axes)
        return sorted(axes, key=lambda axis: -abs(largest.strides.get(axis, 0)))

    @cached_property
    def gathers(self) -> bool:
        """True if vectors of the main stage read elements that are not contiguous."""
        reads = self.group.accesses[self.group.main.name]
        return any(a.stride(self.vector_axis or "") not in (0, 1) for a in reads)

    def schedule(self, choices: Choices) -> Schedule:
        """The schedule of one value per knob."""
        return Schedule(tuple(self.build(**choices)))

    def extent(self, axis: str | None) -> int:
        return self.group.extents[axis] if axis is not None else 1

    def base_choices(self) -> dict[str, int]:
        """The first value of every knob."""
        return {name: table[0] for name, table in self.knobs.items()}

    def cache_width(self, values: Values) -> npt.NDArray[np.int64]:
        """int64[n]: elements along the vector axis in one cache tile."""
        return values["cache_vectors"] * values["vectors"] * self.lanes

    @cached_property
    def row_loops(self) -> frozenset[str | None]:
        """Row axes with a loop over tiles."""
        return frozenset(a for a in (self.row_axis, self.second_row_axis) if a in self.group.shared)

    def tiles_ahead(self, lines: int, vectors: int) -> int:
        """Register tiles along the vectors that so many cache lines reach over."""
        width = vectors * self.lanes * self.group.element_bytes
        return most(1, lines * CACHE_LINE // width)

    def read(self, schedule: Schedule) -> dict[str, int] | None:
        """The values of a schedule that tiles these axes, ``UNUSED`` ones of knobs without use.

        None if it tiles other axes. Its sizes may be those of another kernel of the same kind.
        """
        mine = self.group.extents.keys()
        ending = f".{self.level}"
        vectors = {axis_of(loop) for loop in schedule.vectorized if loop.endswith(ending)}
        if self.vector_axis not in {*vectors, None}:
            return None
        if self.row_axis in self.row_loops - schedule.split_axes:
            return None
        read = dict(UNUSED)
        for step in schedule.steps:
            match step.name, step.args:
                case "split", (axis, factors) if axis == self.row_axis:
                    read["cache_rows"], read["rows"] = (*factors[1:-1], 1)[0], factors[-1]
                case "split", (axis, factors) if axis == self.second_row_axis:
                    read["second_rows"] = factors[-1]
                case "split", (axis, factors) if axis == self.k_axis:
                    read["k_unroll"] = factors[-1]
                    read["k_blocks"] = factors[0] if len(factors) > 2 else 1
                case "split", (axis, factors) if axis in self.lane_axes:
                    read["cache_vectors"] = (*factors[1:-1], 1)[0]
                    read["vectors"] = max(read["vectors"], -(-factors[-1] // self.lanes))
                case "reorder", (loops,):
                    read.update(self._orders(loops))
                case "pack", (_, axis, _) if axis == self.row_axis:
                    read["pack"] = Pack.BOTH if read["pack"] else Pack.ROWS
                case "pack", _:
                    read["pack"] = Pack.VECTORS
                case "pack_at", _:
                    read["pack"] = Pack.INSIDE
                case "cache_write", (_, "tiles", _):
                    read["tiles"] = 1
                case "parallel", (loop,) if axis_of(loop.split("*")[0]) in mine:
                    read["parallel"] = loop.count("*") + 1
                case "stream", _:
                    read["non_temporal"] = 1
                case "prefetch_next", _:
                    read["next_panels"] = 1
                case "prefetch", (_, _, loop, ahead) if self.k_axis is not None:
                    read["prefetch"] = ahead
                case "prefetch", (_, _, _, ahead):
                    read["prefetch"] = self._lines_ahead(ahead, read["vectors"])
                case _:
                    pass
        return {knob: read[knob] for knob in self.knobs}

    def _orders(self, loops: tuple[str, ...]) -> dict[str, int]:
        """True if vectors stand outside the rows, among the outer loops and inside a cache tile."""
        v, r, place = self.vector_axis, self.row_axis, {loop: n for n, loop in enumerate(loops)}
        return {
            name: int(place[f"{v}.{level}"] < place[f"{r}.{level}"])
            for level, name in enumerate(("vectors_outer", "cache_vectors_outer"))
            if f"{v}.{level}" in place and f"{r}.{level}" in place
        }

    def _lines_ahead(self, tiles: int, vectors: int) -> int:
        """The least number of cache lines on offer that reaches over so many register tiles."""
        if "prefetch" not in self.knobs:
            return tiles * vectors * self.lanes * self.group.element_bytes // CACHE_LINE
        offered = [n for n in self.knobs["prefetch"] if n]
        return next(
            (n for n in offered if self.tiles_ahead(n, vectors) == tiles), max(offered, default=0)
        )


def axis_of(loop: str) -> str:
    """The axis of a loop: ``k`` of ``k.1``."""
    head, _, number = loop.rpartition(".")
    return head if number.isdigit() else loop


def reduced_axes(group: Group) -> list[str]:
    """The reduced axes of all stages, each once."""
    return list(dict.fromkeys(a.name for s in group.stages for a in s.reduce_axes))


def own_axes(group: Group) -> list[str]:
    """The axes of stages that are not shared by all of them, each once."""
    shared = group.shared
    return list(dict.fromkeys(a.name for s in group.stages for a in s.axes if a.name not in shared))
