"""The ``grouped`` rule: products with weights in groups, each of which has a scale.

The sums of a group are taken by themselves (``subtotal``), those of a register tile in registers,
and are added to the results when the group is done: its scales and zero points are read once.
Weights lie in panels as wide as a tile. Between bytes, four neighbours along the reduced axis are
one word of a lane, and the instruction that adds up such products takes them as they are unpacked.

Few rows are bound by memory: the panels are read in order. Between floats, unpacking is the limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from ....codegen.target import Target
from ....ir.dims import as_int
from ....ir.dtype import FLOAT32, INT32, UINT8
from ....ir.errors import ScheduleError
from ....ir.loop.expr import Op, reads_of, walk
from ....ir.loop.intrinsics import DOTS
from ....ir.loop.kinds import Instruction
from ....ir.loop.prim import PrimFunc, Stage
from ....ir.schedule import steps as primitives
from ....ir.schedule.columns import least
from ....ir.schedule.steps import Schedule, Step, cache_write, compute_at, split, state_of
from ...protocols import BoolArray
from ..analysis import Group
from ..settings import GROUPED, SKETCHES
from ..tiling import Choices, Tiling, Values
from .base import lane_sum_steps, parallel_depth, parallel_steps, split_step, up_to


class Grouped(Tiling):
    """See the module. ``k_unroll`` counts the steps of a group that are unrolled: words between
    bytes, else rows of weights; ``k_axis`` walks them."""

    @property
    def sums(self) -> Stage:
        """The stage of the sums of groups."""
        return self.group.stages[0]

    @cached_property
    def outer(self) -> str:
        """The axis of the groups."""
        return self.group.stages[1].reduce_axes[0].name

    @cached_property
    def word(self) -> int:
        """Rows of weights that one lane multiplies at once."""
        by_dots = self.sums.buffer.dtype == INT32 and self.target.dot(Instruction.VNNI) is not None
        group = DOTS[Instruction.VNNI].group
        return group if by_dots and self.extent(self.k_axis) % group == 0 else 1

    def build(self, **choices: int) -> list[Step]:
        v, r, k, g = self.vector_axis, self.row_axis, self.k_axis, self.outer
        assert v is not None and k is not None
        width = least(choices["vectors"] * self.lanes, self.extent(v))
        weights, *others = (name for name, _ in self.packable)
        steps: list[Step] = [primitives.pack(name, v, width) for name in others]
        if self.word > 1:
            steps.insert(0, primitives.pack_grouped(weights, v, width, k, self.word))
        else:
            steps.insert(0, primitives.pack(weights, v, width))
        unrolled = choices["k_unroll"]
        steps += [
            split_step(v, self.extent(v), width),
            split(g, (self.extent(g), 1)),
            split_step(k, self.extent(k), unrolled, self.word),
        ]
        outer, rows = [f"{v}.0"], list[str]()
        if r is not None:
            steps.append(split_step(r, self.extent(r), choices["rows"]))
            outer, rows = [f"{v}.0", f"{r}.0"], [f"{r}.1"]
        parts = [a.name for a in self.sums.reduce_axes if a.name != k]
        inner = [f"{k}.1", *parts]
        order = [*outer, f"{g}.0", f"{k}.0", *inner, *rows, f"{g}.1", f"{v}.1", f"{k}.2"]
        after = [s.name for s in self.group.stages[2:]]
        at = f"{g}.0"
        steps += [
            primitives.reorder(*order),
            cache_write(self.sums.name, "registers", at),
            cache_write(self.group.stages[1].name, "registers", at),
            compute_at(self.group.stages[1].name, at),
            *(compute_at(name, outer[-1]) for name in after),
            *map(primitives.unroll, (*inner, *rows, f"{k}.2")),
        ]
        if self.word > 1:
            steps.append(primitives.tensorize(f"{k}.2", str(Instruction.VNNI)))
        steps.append(primitives.vectorize(f"{v}.1"))
        steps += self._excess_steps()
        return [*steps, *parallel_steps(outer, choices["parallel"])]

    def _excess_steps(self) -> list[Step]:
        """The steps for what is taken off for zero points: sums of the rows in each group."""
        name = f"{self.group.stages[1].name}.rows"
        stages = [s for s in self.group.prim.stages if s.name == name]
        return [
            step
            for stage in stages
            for axis in stage.reduce_axes[-1:]
            for step in lane_sum_steps(name, axis.name, as_int(axis.extent), 2 * self.lanes)
        ]

    @cached_property
    def defaults(self) -> list[Choices]:
        chosen = self.base_choices()
        room, most = self._room, GROUPED.vectors
        if self.row_axis is None:
            most *= 2 if len(self.sums.reduce_axes) > 1 else 1  # codes in a byte
        elif self.word > 1:  # the sums of all groups stay in registers, too
            room //= 2
            most = room // min(self.extent(self.row_axis), GROUPED.rows)
        chosen["vectors"] = max(v for v in self.knobs["vectors"] if v <= most)
        rows = [n for n in self.knobs["rows"] if n * chosen["vectors"] <= room]
        chosen["rows"] = max(rows, default=1)
        chosen["k_unroll"] = max(u for u in self.knobs["k_unroll"] if u <= GROUPED.unroll)
        return [{**chosen, "parallel": parallel_depth(self, chosen)}]

    @property
    def _room(self) -> int:
        """Sums that registers hold beside what is unpacked and the rows' elements."""
        return self.target.vector_registers // 2

    def fits(self, values: Values) -> BoolArray:
        tile = values["vectors"] * values["rows"]
        return np.asarray(tile <= self._room)


def grouped_sketches(prim: PrimFunc, target: Target) -> Iterator[tuple[tuple[Step, ...], Grouped]]:
    """The sketch of such a product, with the step that comes before it; nothing for others."""
    for stage in prim.stages:
        if stage.combiner != "sum" or stage.buffer.dtype != FLOAT32 or len(stage.reduce_axes) < 2:
            continue
        if not _unpacks(stage):
            continue
        for axis in stage.reduce_axes:
            step = primitives.subtotal(stage.name, axis.name)
            try:
                prepared = state_of(prim, Schedule((step,))).prim
            except ScheduleError:
                continue
            made = _sketch_of(prepared, stage.name, target)
            if made is not None:
                yield (step,), made
            return


def _unpacks(stage: Stage) -> bool:
    """True if bytes are widened in a sum."""
    return any(r.dtype == UINT8 for r in reads_of(stage.expr)) and any(
        isinstance(n, Op) and n.name == "cast" for n in walk(stage.expr)
    )


def _sketch_of(prim: PrimFunc, name: str, target: Target) -> Grouped | None:
    at = next(n for n, s in enumerate(prim.stages) if s.name == name)
    sums, whole = prim.stages[at - 1 : at + 1]
    shared = tuple(a.name for a in whole.axes)
    if not shared:
        return None
    group = Group(prim, (sums, *prim.stages[at:]), shared)
    later = prim.stages[at + 1 :]
    same = all(tuple(a.name for a in s.axes) == shared and s.combiner is None for s in later)
    weights = [
        a for a in group.accesses[sums.name] if a.element_bytes == 1 and a.stride(shared[-1]) == 1
    ]
    if not same or len(weights) != 1 or weights[0].irregular:
        return None
    v = shared[-1]
    rows = [a for a in shared[:-1] if group.extents[a] > 1]
    k = [a.name for a in sums.reduce_axes if weights[0].depends(a.name)]
    if len(k) != 1 or len(rows) > 1 or any(weights[0].depends(r) for r in rows):
        return None
    packed = [weights[0], *(a for a in group.accesses[name] if a.stride(v) == 1)]
    constants = {p.name for p in prim.params if p.constant}
    names = list(dict.fromkeys(a.buffer for a in packed if a.buffer != sums.name))
    if not constants.issuperset(names):
        return None
    return _grouped_of(group, target, v, rows, k[0], names)


def _grouped_of(
    group: Group, target: Target, v: str, rows: list[str], k: str, packed: list[str]
) -> Grouped:
    wide = -(-group.extents[v] // target.lanes(4))
    tall = group.extents[rows[0]] if rows else 1
    depth = group.extents[k]
    tables: dict[str, tuple[int, ...]] = {
        "vectors": up_to(wide, (1, 2, 3, 4, 6, 8)),
        "rows": up_to(tall, (1, 2, 3, 4, 6, 8)),
        "k_unroll": tuple(u for u in (1, 2, 4, 8) if depth % (4 * u) == 0) or (1,),
        "parallel": tuple(range(min(SKETCHES.max_parallel, 1 + len(rows)) + 1)),
    }
    constants = tuple((name, True) for name in packed)
    return Grouped(group, target, v, rows[0] if rows else None, None, k, constants, tables)
