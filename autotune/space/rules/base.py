"""What all sketches share: a rule applied to a group, with one table of values for each knob."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ....codegen.target import Target
from ....ir.schedule.packing import copy_steps, pack_of
from ....ir.schedule.steps import Schedule, Step, fuse, parallel, split, stream
from ...protocols import BoolArray
from ..analysis import Access, Group

__all__ = [
    "KNOBS",
    "MAX_PARALLEL",
    "PACKS_INSIDE",
    "PACKS_ROWS",
    "PACKS_VECTORS",
    "Choices",
    "Sketch",
    "own_axes",
    "pack_steps",
    "parallel_steps",
    "reduced_axes",
    "rough_cost",
    "split_step",
    "stream_choices",
    "stream_steps",
    "up_to",
]

Choices = Mapping[str, int]
Values = Mapping[str, npt.NDArray[np.int64]]

KNOBS: tuple[str, ...] = (
    "vectors",
    "rows",
    "rows2",
    "mid_v",
    "mid_r",
    "k_blocks",
    "k_unroll",
    "order",
    "mid_order",
    "pack",
    "parallel",
    "stream",
    "prefetch",
)
"""Knobs of every sketch, in the order of a population's columns; unused ones have one value.

vectors    native vectors along the vector axis in one register tile
rows       steps of the row axis in one register tile, unrolled
rows2      steps of a second row axis in it
mid_v      register tiles along the vector axis in one cache tile
mid_r      register tiles along the row axis in one cache tile
k_blocks   pieces the longest reduced axis is cut into, outside of the cache tile
k_unroll   turns of the innermost reduced loop written out
order      0: rows outside vectors; 1: the other way round
mid_order  the same inside a cache tile
pack       1: operands that move along the vector axis are packed into panels; 2: and those that
           the rows walk; 3: only those; 4: both, but the former inside of each cache tile
parallel   how many of the outer loops are fused into the parallel one
stream     1: results are stored past the caches
prefetch   what vectors read is asked for: 1: a register tile along the vectors ahead; n > 1: n
           turns of the innermost reduced loop ahead; of a map, n cache lines ahead
"""

PACKS_VECTORS = (1, 2, 4)  # values of pack for which what moves along the vectors is packed
PACKS_ROWS = (2, 3, 4)  # and for which what the rows walk is
PACKS_INSIDE = 4  # panels are made in each cache tile
MAX_PARALLEL = 4
COPIED_ROWS = 16  # rows of a panel copied in a row: a cache line of 4-byte elements
SHARED_COPY = 1 << 15  # elements of an operand that several threads pack
PARALLEL_SECONDS = 8e-6  # work shorter than this is not worth waking a thread for
TYPICAL_BYTES = 4e10  # a second written by one thread, and as many read
TYPICAL_FLOPS = 2e10  # of one thread on plain code; only to tell microseconds from milliseconds
# Choices of which a knob that a schedule does not mention has made no use.
UNUSED = {
    **dict.fromkeys(KNOBS, 1),
    **dict.fromkeys(("order", "mid_order", "pack", "parallel", "stream", "prefetch"), 0),
}


@dataclass(frozen=True)
class Sketch:
    """One rule applied to one group: ``tables`` hold the values of each knob.

    A rule is a subclass; what it must say is below, the most important first.
    """

    rule: ClassVar[str]
    in_tiles: ClassVar[bool] = False  # vectors run along an axis that is cut into register tiles

    group: Group
    target: Target
    vector_axis: str | None
    row_axis: str | None = None
    row_axis2: str | None = None
    k_axis: str | None = None
    packable: tuple[tuple[str, bool], ...] = ()  # parameter, and whether it is constant
    tables: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    streamed: tuple[str, ...] = ()  # parameters whose vectors may be asked for early
    packable_rows: tuple[tuple[str, bool], ...] = ()  # the same for operands that rows walk

    # -- what a rule says ----------------------------------------------------------------------

    def steps(self, choices: Choices) -> tuple[list[Step], list[Step]]:
        """Steps that must come before all splits, and the others."""
        raise NotImplementedError

    def favourites(self) -> list[Choices]:
        """A few good choices, best first: what is used without any log."""
        raise NotImplementedError

    def fits(self, values: Values) -> BoolArray:
        """bool[n]: whether the tiles fit the registers, the stack and the axes."""
        raise NotImplementedError

    def decode(self, schedule: Schedule) -> dict[str, int] | None:
        """The choices that make this schedule; None if this rule cannot make it."""
        raise NotImplementedError

    def outer_trips(self, choices: Choices) -> tuple[int, ...]:
        """Trip counts of the outer loops, outermost first: what ``parallel`` fuses."""
        raise NotImplementedError

    def inner_axis(self) -> str | None:
        """The axis the main stage's vectors run along."""
        return self.vector_axis

    def tiled_axes(self) -> set[str | None]:
        """Shared axes that are cut into register tiles."""
        return {self.row_axis, self.row_axis2}

    def settled(self, values: Values) -> Values:
        """The values with those of knobs that follow from others."""
        return values

    def share(self, values: Values) -> npt.NDArray[np.float64]:
        """The share of the main stage's elements that are computed: others are known from them."""
        return np.ones(len(values["vectors"]))

    def transposes_for_few(self, choices: Choices) -> bool:
        """Whether every call transposes an operand that few rows use: that takes longer than to
        read it again for each of them."""
        return False

    # -- what follows --------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return f"{self.rule}.{self.vector_axis or 'k'}"

    @property
    def always_packed(self) -> frozenset[str]:
        """Operands that are packed whatever is chosen."""
        return frozenset()

    @property
    def taps(self) -> int:
        """Turns of reduced loops that the rule writes out whatever is chosen."""
        return 1

    @cached_property
    def lanes(self) -> int:
        return self.target.lanes(self.group.element_bytes)

    @cached_property
    def outer_axes(self) -> tuple[str, ...]:
        """Shared axes that are not tiled."""
        tiled = self.tiled_axes()
        return tuple(a for a in self.group.shared if a not in tiled)

    @cached_property
    def gathers(self) -> bool:
        """Whether vectors of the main stage read elements that do not lie side by side."""
        reads = self.group.accesses[self.group.main.name]
        return any(a.stride(self.vector_axis or "") not in (0, 1) for a in reads)

    def extent(self, axis: str | None) -> int:
        return self.group.extents[axis] if axis is not None else 1

    def favourite(self) -> Choices:
        """The best of the favourites."""
        return self.favourites()[0]

    def base_choices(self) -> dict[str, int]:
        """The first value of every knob."""
        return {name: self.tables[name][0] for name in KNOBS}

    def shared_choices(self, schedule: Schedule) -> dict[str, int]:
        """What every rule reads back in the same way: threads and stores past the caches. Other
        knobs have the value that says they are not used."""
        choices = dict(UNUSED)
        for step in schedule.steps:
            match step.name, step.args:
                case "stream", _:
                    choices["stream"] = 1
                case "fuse", (loops,) if loops and self._has_loop(loops[0]):
                    choices["parallel"] = len(loops)
                case "parallel", (loop,) if "*" not in loop and self._has_loop(loop):
                    choices["parallel"] = 1
                case _:
                    pass
        return choices

    def _has_loop(self, loop: str) -> bool:
        """Whether a loop is one of this group's, and not of a nest before or after it."""
        return loop in self.group.extents or loop.rpartition(".")[0] in self.group.extents

    def orders(self, schedule: Schedule) -> dict[str, int]:
        """Whether vectors stand outside the rows, among the outer loops and inside a cache tile."""
        v, r = self.vector_axis, self.row_axis
        found: dict[str, int] = {}
        for step in schedule.steps:
            if step.name != "reorder" or r is None:
                continue
            place = {loop: n for n, loop in enumerate(step.args[0])}
            for knob, level in (("order", 0), ("mid_order", 1)):
                if f"{v}.{level}" in place and f"{r}.{level}" in place:
                    found[knob] = int(place[f"{v}.{level}"] < place[f"{r}.{level}"])
        return found

    def cache_tile_trips(self, choices: Choices) -> tuple[int, ...]:
        """``outer_trips`` of rules whose register tiles are joined to cache tiles."""
        others = [self.extent(a) for a in self.outer_axes]
        rows: list[int] = []
        if self.row_axis2 is not None:
            rows.append(-(-self.extent(self.row_axis2) // choices["rows2"]))
        if self.row_axis is not None:
            rows.append(-(-self.extent(self.row_axis) // (choices["rows"] * choices["mid_r"])))
        width = choices["vectors"] * self.lanes * choices["mid_v"]
        wide = -(-self.extent(self.vector_axis) // width)
        return (*others, *rows, wide) if choices["order"] == 0 else (*others, wide, *rows)

    def parallel_depth(self, choices: Choices) -> int:
        """Fuse outer loops until every thread has a few turns; none for a few microseconds."""
        seconds = self.group.flops / TYPICAL_FLOPS, self.group.output_bytes / TYPICAL_BYTES
        if max(seconds) < PARALLEL_SECONDS:
            return 0
        trips = self.outer_trips(choices)
        enough = 4 * self.target.cores
        depth = 0
        total = 1
        for depth, trip in enumerate(trips, 1):
            total *= trip
            if total >= enough or depth == self.tables["parallel"][-1]:
                break
        return depth if total > 1 else 0

    def stream_choice(self) -> int:
        """Past the caches with what is larger than all of them."""
        return self.tables["stream"][-1] if self.group.output_bytes > self.target.l3 else 0


def up_to(limit: int, values: tuple[int, ...]) -> tuple[int, ...]:
    """The values not above ``limit``; 1 if there are none."""
    return tuple(v for v in values if v <= limit) or (1,)


def split_step(axis: str, extent: int, *inner: int) -> Step:
    """A split of ``axis`` into loops of these inner sizes, with as many turns as it takes."""
    return split(axis, (max(1, -(-extent // prod(inner))), *inner))


def parallel_steps(outer: list[str], count: int) -> list[Step]:
    """The outermost ``count`` loops fused and shared among the threads."""
    count = min(count, len(outer))
    if count == 0:
        return []
    if count == 1:
        return [parallel(outer[0])]
    return [fuse(*outer[:count]), parallel("*".join(outer[:count]))]


def pack_steps(group: Group, step: Step) -> list[Step]:
    """The step that packs a parameter, and those that arrange its copy if it is not a constant."""
    constant = any(p.constant for p in group.prim.params if p.name == step.args[0])
    copies = () if constant else copy_steps(pack_of(group.prim, step), COPIED_ROWS, SHARED_COPY)
    return [step, *copies]


def stream_steps(group: Group, wanted: int) -> list[Step]:
    """The results of the group stored past the caches, if ``wanted``."""
    outputs = [s.name for s in group.stages if s.name in group.prim.outputs]
    return [stream(name) for name in outputs] if wanted else []


def stream_choices(group: Group, target: Target) -> tuple[int, ...]:
    """Storing past the caches is on offer for results that no near cache holds."""
    return (0, 1) if group.output_bytes >= 2 * target.l2 else (0,)


def reduced_axes(group: Group) -> list[str]:
    """The reduced axes of all stages, each once."""
    names: dict[str, None] = {}
    for stage in group.stages:
        names.update((a.name, None) for a in stage.reduce_axes)
    return list(names)


def own_axes(group: Group) -> list[str]:
    """The axes of stages that are not shared by all of them, each once."""
    names: dict[str, None] = {}
    for stage in group.stages:
        names.update((a.name, None) for a in stage.axes if a.name not in group.shared)
    return list(names)


def rough_cost(reads: tuple[Access, ...], axis: str | None, points: float) -> float:
    """Cost of the reads of a stage whose vectors run along ``axis``."""
    cost = 0.0
    for a in reads:
        step = a.stride(axis) if axis is not None else 0
        cost += points * (0.1 if step == 0 else 0.2 if step in (1, -1) else 3.0)
    return cost
