"""The ``dots`` rule: products of short numbers added up to 32 bits, by the instructions for it.

Neighbours of the reduced axis that fill 32 bits are one group, four bytes or two of 16 bits, and an
operand is packed so that the groups of a vector's lanes are contiguous. Either a register tile of
vectors is kept, as in the ``tile`` rule (the dot products of ``ir/loop/intrinsics.py``), or a tile
of up to 32 x 32 sums of bytes in tile registers (AMX). VNNI multiplies bytes with signs by bytes
without: where both operands are of one kind, the packed one is shifted by 128.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import ClassVar

import numpy as np

from ....codegen.core import core_of
from ....codegen.target import Target
from ....ir.loop.expr import Op, Read
from ....ir.loop.intrinsics import DOTS as KINDS
from ....ir.loop.intrinsics import DotKind
from ....ir.loop.kinds import Instruction
from ....ir.loop.pack import SHIFTED
from ....ir.loop.prim import Stage
from ....ir.schedule import steps as primitives
from ....ir.schedule.columns import when
from ....ir.schedule.steps import Schedule, Step, cache_write, compute_at, tensorize, vectorize
from ....ir.schedule.storage import walked_dimensions
from ...protocols import BoolArray
from ..analysis import Access, Group
from ..estimate import fastest, offers
from ..settings import DOTS, SKETCHES
from ..tiling import Choices, Tiling, Values, own_axes, reduced_axes
from . import base
from .tile_defaults import comes_from_far

VECTORS, TILES = range(2)  # values of the knob ``tiles``: sums in vector or in matrix registers


class Dots(Tiling):
    """See the module. ``k_unroll`` counts groups, and ``pack`` says where the sums are kept."""

    level: ClassVar[int] = 2

    def build(self, **choices: int) -> list[Step]:
        group, v, r, k = self.group, self.vector_axis, self.row_axis, self.k_axis
        assert v is not None and k is not None
        width = choices["vectors"] * self.lanes
        groups = choices["k_unroll"]
        packs = [
            primitives.pack_grouped(name, v, width, k, self.kind.group) for name, _ in self.packable
        ]
        first = [s for step in packs for s in base.pack_steps(group, step)]
        main, after = group.main.name, [s.name for s in group.stages[1:]]
        sums: list[Step] = []
        if self.shifts and choices["tiles"] == VECTORS:
            first += [primitives.shift_bytes(main, f"{name}.packed") for name, _ in self.packable]
            sums = self._shift_steps(choices)
            if main in group.prim.outputs:
                after = [main, *after]
            else:
                first.append(primitives.compute_inline(main))
            main = f"{main}.raw"
        iterations = -(-self.extent(k) // (self.kind.group * groups))
        steps = [
            base.split_step(v, self.extent(v), choices["cache_vectors"], width),
            primitives.split(k, (iterations, groups, self.kind.group)),
        ]
        rows, mid, tile = [], [f"{v}.1"], [f"{v}.2"]
        if r is not None:
            steps.append(base.split_step(r, self.extent(r), choices["cache_rows"], choices["rows"]))
            rows = [f"{r}.0"]
            mid.insert(choices["cache_vectors_outer"], f"{r}.1")
            tile = [f"{r}.2", f"{v}.2"]
        outer = [*self.outer_axes]
        outer += [*rows, f"{v}.0"] if choices["vectors_outer"] == 0 else [f"{v}.0", *rows]
        others = [a for a in reduced_axes(group) if a != k]
        private = [a for a in own_axes(group) if a not in (*others, k)]
        if choices["tiles"] == TILES:  # tile registers take several groups at once
            scope, inner = "tiles", [*tile, f"{k}.1", f"{k}.2"]
        else:  # what one group reads stays in registers
            scope, inner = "registers", [f"{k}.1", *tile, f"{k}.2"]
        steps.append(primitives.reorder(*outer, *mid, *private, *others, f"{k}.0", *inner))
        at = mid[-1]
        steps += [cache_write(main, scope, at)]
        steps += [compute_at(name, at) for name in after]
        steps += [primitives.unroll(loop) for loop in inner if loop != tile[-1]]
        if choices["tiles"] == VECTORS or not self.shifts:  # also where there are no tile registers
            steps.append(tensorize(f"{k}.2", str(self.instruction)))
        steps.append(vectorize(f"{v}.2"))
        steps += [tensorize(f"{v}.2", "amx")] if choices["tiles"] == TILES else []
        for name, is_fixed in self.packable:
            if is_fixed:
                following = primitives.prefetch_next(main, f"{name}.packed", f"{v}.0")
                steps += when(choices["next_panels"], following)
        steps += base.parallel_steps(outer, choices["parallel"])
        return [*first, *sums, *steps, *base.non_temporal_steps(group, choices["non_temporal"])]

    @cached_property
    def instruction(self) -> Instruction:
        """The dot products of lanes that the sums are made of."""
        dot = _dot_of(self.group.main)
        assert dot is not None
        return dot

    @cached_property
    def kind(self) -> DotKind:
        """The row of that instruction."""
        return KINDS[self.instruction]

    @cached_property
    def shifts(self) -> bool:
        """True if both operands are bytes with signs, or bytes without."""
        return not _is_exact(self.group.main, self.kind)

    @cached_property
    def is_batched(self) -> bool:
        """True if there are panels of several matrices, between those of one."""
        reads = self.group.accesses[self.group.main.name]
        packed = next(r for r in reads if r.buffer == self.packable[0][0])
        return any(packed.depends(a) for a in self.group.shared if a != self.vector_axis)

    def _shift_steps(self, choices: Choices) -> list[Step]:
        """The sums that are taken off, in vectors along the reduced axis."""
        name, width = f"{self.group.main.name}.shift", DOTS.shift_vectors * self.lanes
        steps = base.lane_sum_steps(name, f"{name}.{self.k_axis}", self.extent(self.k_axis), width)
        if choices["parallel"] and self.row_axis is not None:
            steps.append(primitives.parallel(f"{self.group.main.name}.shift.{self.row_axis}"))
        return steps

    @cached_property
    def defaults(self) -> list[Choices]:
        candidates: list[Choices] = []
        for where in sorted(self.knobs["tiles"], reverse=True):
            tables = {name: self.knobs[name] for name in ("vectors", "rows", "cache_vectors")}
            tables["vectors_outer"] = self.knobs["vectors_outer"][-1:]
            values = offers(self, tiles=[where], k_unroll=[self._groups(where)], **tables)
            sums = values["rows"] * values["vectors"]
            held = sums + values["vectors"] + DOTS.spare < self.target.vector_registers
            if where == VECTORS and held.any():
                values = {name: column[held] for name, column in values.items()}
            chosen = fastest(self, values, DOTS.most)
            for c in chosen:  # panels that all rows pass over, while the next ones come
                outside = c["vectors_outer"] and self.extent(self.row_axis) > c["rows"]
                outside = outside and (c["cache_vectors"] == 1 or not self.is_batched)
                c["next_panels"] = self.knobs["next_panels"][-1] * int(
                    outside and comes_from_far(self)
                )
            candidates += [base.shared_and_stored(self, c) for c in chosen]
        return candidates

    def _groups(self, where: int) -> int:
        """Returns how many groups to unroll: those left over run in plain, slow code."""
        wanted = [g for g in self.knobs["k_unroll"] if where == TILES or g <= DOTS.few_groups]
        whole = self.extent(self.k_axis) // self.kind.group
        return min(wanted, key=lambda g: (whole // g + DOTS.leftover * (whole % g), -g))

    def fits(self, values: Values) -> BoolArray:
        v = values
        tile = v["vectors"] * v["rows"]
        width = v["vectors"] * self.lanes
        vector = tile + v["vectors"] + DOTS.spare <= self.target.vector_registers
        vector &= (v["k_unroll"] <= DOTS.max_groups) & (tile * v["k_unroll"] <= DOTS.max_statements)
        tiled = (width <= DOTS.tile_side) & (v["rows"] <= DOTS.tile_side)
        good = np.where(v["tiles"] == TILES, tiled, vector)
        good &= (v["cache_vectors"] - 1) * width < self.extent(self.vector_axis)
        good &= (v["cache_rows"] - 1) * v["rows"] < self.extent(self.row_axis)
        adjacent = (v["cache_vectors"] == 1) | (not self.is_batched)  # panels that come next
        panels = (v["vectors_outer"] == 1) & (v["tiles"] == VECTORS) & adjacent
        good &= (v["next_panels"] == 0) | panels
        return np.asarray(good)

    def read(self, schedule: Schedule) -> dict[str, int] | None:
        grouped = any(step.name == "pack_grouped" for step in schedule.steps)
        read = super().read(schedule) if grouped else None
        if read is None:
            return None
        splits = {step.args[0]: step.args[1] for step in schedule.steps if step.name == "split"}
        # The last loop is that of a lane.
        return {**read, "k_unroll": splits.get(self.k_axis, (1, 1))[-2]}


def sketches(group: Group, target: Target) -> Iterator[Dots]:
    """The sketch of this rule, if it applies."""
    main = group.main
    if group.reductions != (group.stages[0],) or main is not group.stages[0]:
        return
    if (dot := _dot_of(main)) is None:
        return
    reads = group.accesses[main.name]
    if len(reads) != 2:  # an operand is read where another says
        return
    reduced = sorted((a.name for a in main.reduce_axes), key=lambda n: -group.extents[n])
    for left, right in (reads, reads[::-1]):
        for k in reduced:
            for v in reversed(group.shared):
                if _fits(group, left, right, v, k, KINDS[dot].group):
                    if KINDS[dot].sums == "float32" and _is_read_once(group, right, k):
                        return  # packing it takes longer than reading it in lanes
                    yield from _dots_of(group, target, dot, right, v, k)
                    return


def _dot_of(stage: Stage) -> Instruction | None:
    """Returns the dot products whose sums a stage of two different operands is; None if it is
    something else."""
    reads = _widened_reads(stage)
    if stage.combiner != "sum" or len({r.buffer for r in reads}) != 2:
        return None
    for name, kind in KINDS.items():
        is_bytes = name == Instruction.VNNI and all(r.dtype in SHIFTED for r in reads)
        if stage.buffer.dtype.name == kind.sums and (is_bytes or _is_exact(stage, kind)):
            return Instruction(name)
    return None


def _is_exact(stage: Stage, kind: DotKind) -> bool:
    """True if the factors are of the dtypes that the instruction takes."""
    return sorted(r.dtype.name for r in _widened_reads(stage)) == sorted([kind.left, kind.right])


def _widened_reads(stage: Stage) -> list[Read]:
    """Returns the reads whose elements, widened, are the factors of a product."""
    is_product = isinstance(stage.expr, Op) and stage.expr.name == "multiply"
    args = stage.expr.args if isinstance(stage.expr, Op) and is_product else ()
    reads = [a.args[0] for a in args if isinstance(a, Op) and a.name == "cast"]
    return [r for r in reads if isinstance(r, Read)]


def _fits(group: Group, left: Access, right: Access, v: str, k: str, least: int) -> bool:
    """True if groups along ``k`` are contiguous on the left, and the right can be packed so."""
    dims = [walked_dimensions(group.prim, right.buffer, axis) for axis in (v, k)]
    return (
        not left.irregular
        and not right.irregular
        and left.stride(k) == 1
        and not left.depends(v)
        and right.buffer in {p.name for p in group.prim.params}
        and right.depends(v)
        and right.depends(k)
        and [len(d) for d in (*dims, dims[0] | dims[1])] == [1, 1, 2]
        and all(left.depends(a.name) for a in group.main.reduce_axes)
        and group.extents[k] >= least
        and group.extents[v] >= least
    )


def _is_read_once(group: Group, right: Access, k: str) -> bool:
    """True for a vector times a matrix that is not constant, with ``k`` contiguous in it."""
    is_weight = any(p.constant for p in group.prim.params if p.name == right.buffer)
    others = (a for a in group.shared if group.extents[a] > 1 and not right.depends(a))
    return right.stride(k) == 1 and not is_weight and not any(others)


def _dots_of(
    group: Group, target: Target, dot: Instruction, packed: Access, v: str, k: str
) -> Iterator[Dots]:
    rows = [a for a in reversed(group.shared) if a != v and group.extents[a] > 1]
    row = next((a for a in rows if not packed.depends(a)), None)
    lanes = target.lanes(group.element_bytes)
    wide = -(-group.extents[v] // lanes)
    tall = group.extents[row] if row is not None else 1
    places = [VECTORS] if target.dot(dot) else []
    places += [TILES] if target.has_tiles and dot == Instruction.VNNI and row is not None else []
    constant = next(p.constant for p in group.prim.params if p.name == packed.buffer)
    heights = base.up_to(tall, (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 32))
    tables: dict[str, tuple[int, ...]] = {
        "vectors": base.up_to(wide, (1, 2, 3, 4, 6)),
        "rows": tuple(sorted({*heights, min(tall, DOTS.tile_side)})),
        "cache_vectors": base.up_to(
            wide, tuple(sorted({1, 2, 4, 8, 16, 32, *(-(-wide // v) for v in (1, 2))}))
        ),
        "cache_rows": base.up_to(tall, (1, 2, 4, 8, 16)),
        "k_unroll": base.up_to(
            group.extents[k] // KINDS[dot].group, tuple(range(1, core_of(target).matrix_rows + 1))
        ),
        "vectors_outer": (0, 1) if row else (0,),
        "cache_vectors_outer": (0, 1) if row else (0,),
        "tiles": tuple(places),
        "next_panels": (0, 1) if constant and row is not None else (0,),
        "parallel": tuple(range(min(SKETCHES.max_parallel, len(group.shared)) + 1)),
        "non_temporal": base.non_temporal_choices(group, target),
    }
    if places:
        yield Dots(group, target, v, row, None, k, ((packed.buffer, constant),), tables)
