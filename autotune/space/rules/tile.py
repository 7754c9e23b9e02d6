"""The ``tile`` rule: vectors run along an axis that all stages share, and a register tile of rows
and vectors is kept while reduced axes are walked: maps, contractions, convolutions, pooling,
reductions over outer axes, softmax over an outer axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import prod
from typing import ClassVar

import numpy as np

from ....codegen.target import CACHE_LINE, Target
from ....ir.dims import IntExpr, as_int, linear
from ....ir.loop.expr import Read, walk
from ....ir.loop.prim import Stage
from ....ir.loop.work import expression_cost, vector_work
from ....ir.schedule import steps as primitives
from ....ir.schedule.columns import among, least, when
from ....ir.schedule.steps import Step, cache_write, pack, pack_at, prefetch, prefetch_next, unroll
from ....ir.schedule.storage import walked_dimension, walked_dimensions
from ...protocols import BoolArray
from .. import tiling
from ..analysis import Access, Group, index_step
from ..settings import SKETCHES, SPACE, TILE
from . import base
from .tile_defaults import map_defaults, panel_loops, tile_defaults

CACHE_ROWS = (*range(1, 17), 18, 20, 22, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128)
"""Register tiles along the rows of a cache tile: enough to divide any number of them evenly."""


class Tile(tiling.Tiling):
    """See the module."""

    level: ClassVar[int] = 2

    def build(self, **choices: int) -> list[Step]:
        group, v, r, r2 = self.group, self.vector_axis, self.row_axis, self.second_row_axis
        assert v is not None
        # Every axis is split into loops over cache tiles (.0), over register tiles in one of them
        # (.1) and in a register tile (.2).
        width = least(choices["vectors"] * self.lanes, self.extent(v))
        steps = [base.split_step(v, self.extent(v), choices["cache_vectors"], width)]
        rows, cache, tile = list[str](), [f"{v}.1"], list[str]()
        if r2 is not None:
            steps.append(base.split_step(r2, self.extent(r2), choices["second_rows"]))
            rows.append(f"{r2}.0")
            tile.append(f"{r2}.1")
        if r is not None:
            steps.append(base.split_step(r, self.extent(r), choices["cache_rows"], choices["rows"]))
            rows.append(f"{r}.0")
            cache.insert(choices["cache_vectors_outer"], f"{r}.1")
            tile.append(f"{r}.2")
        outer = [f"{v}.0", *rows] if choices["vectors_outer"] else [*rows, f"{v}.0"]
        outer = [*self.outer_axes, *outer]
        reduced = self.in_memory_order(tiling.reduced_axes(group))
        private = [a for a in tiling.own_axes(group) if a not in reduced]
        blocks, unrolled = list[str](), [unroll(loop) for loop in tile]
        if self.k_axis is not None:
            k = self.k_axis
            steps.append(self._split_of_k(choices))
            place = reduced.index(k)
            reduced[place : place + 1] = [f"{k}.0", f"{k}.1", f"{k}.2"]
            unrolled += when(choices["k_unroll"] > 1, unroll(f"{k}.2"))
            if choices["k_blocks"] > 1:  # sums of a cache tile are kept between blocks of k
                blocks.append(reduced.pop(place))
        reads = group.accesses[group.main.name]
        kinds = {tuple(a.depends(axis or "") for axis in (v, r, r2)) for a in reads}
        if {(True, False, True), (False, True, False)} <= kinds and choices["second_rows"] > 1:
            tile.reverse()  # one element for all lanes at a time is kept, not those of all rows
        steps.append(
            primitives.reorder(*outer, *blocks, *cache, *private, *reduced, *tile, f"{v}.2")
        )
        join = outer[-1] if blocks else cache[-1]
        steps += [cache_write(s.name, "registers", cache[-1]) for s in group.reductions]
        steps += [primitives.compute_at(s.name, join) for s in group.stages[1:]]
        steps += unrolled
        steps += self._prefetches(choices)
        steps += [primitives.vectorize(f"{v}.2"), *base.parallel_steps(outer, choices["parallel"])]
        steps += [primitives.cut(axis, points) for axis, points in group.cuts.items()]
        # By the core that uses the panels, before it does.
        inside = choices["pack"] == tiling.Pack.INSIDE
        made = [name for name, fixed in self.packable if not fixed]
        last = panel_loops(self)
        fused = [d for d in range(last, len(outer) + 1) if not blocks]
        for depth in fused:  # the loop is one of those that are fused
            at = "*".join(outer[:depth])
            here = among(choices["parallel"], (depth,)) & inside
            steps += when(here, *(pack_at(name, v, width, at) for name in made))
        alone = blocks[0] if blocks else outer[last - 1]
        rest = inside if blocks else inside & (choices["parallel"] < last)
        steps += when(rest, *(pack_at(name, v, width, alone) for name in made))
        stores = base.non_temporal_steps(group, choices["non_temporal"])
        return [*self._pack_steps(choices, width), *steps, *stores]

    def _split_of_k(self, choices: tiling.Choices) -> Step:
        """Returns the split of the longest reduced axis into blocks, iterations, and unrolled ones.

        The last block may be shorter, so there may be fewer blocks than chosen.
        """
        extent, unrolled = self.extent(self.k_axis), choices["k_unroll"]
        block = -(-extent // choices["k_blocks"])
        iterations = -(-block // unrolled)
        return base.split_step(self.k_axis or "", extent, iterations, unrolled)

    def _is_packed(self, choices: tiling.Choices, fixed: bool) -> bool:
        """Returns whether an operand is packed for the vectors before any loop."""
        packed = among(choices["pack"], tiling.PACKS_VECTORS)
        return packed if fixed else packed & (choices["pack"] != tiling.Pack.INSIDE)

    def _pack_steps(self, choices: tiling.Choices, width: int) -> list[Step]:
        steps: list[Step] = []
        for name, fixed in self.packable:
            panel = self.whole.get(name, width)
            copy = base.pack_steps(self.group, pack(name, self.vector_axis or "", panel))
            steps += when(self._is_packed(choices, fixed), *copy)
        for name, _ in self.packable_rows:
            copy = base.pack_steps(self.group, pack(name, self.row_axis or "", choices["rows"]))
            steps += when(among(choices["pack"], tiling.PACKS_ROWS), *copy)
        return steps

    @cached_property
    def whole(self) -> dict[str, int]:
        """The widths of operands that windows slide over: they are one panel, that is,
        transposed."""
        axis, prim = self.vector_axis or "", self.group.prim
        return {
            name: as_int(prim.buffers[name].shape[walked_dimension(prim, "pack", name, axis)])
            for name, _ in self.packable
            if _slides(self.group.main, name, axis)
        }

    @cached_property
    def _aligned(self) -> Sequence[int]:
        """Vectors of a tile that ends where a run of an operand's index does, or inside of it: any
        number where none does. A tile across that end reads the operand lane by lane (0.06 of the
        speed of a grouped convolution)."""
        widths = self.knobs["vectors"]
        for access in self.group.accesses[self.group.main.name]:
            run = access.runs.get(self.vector_axis or "", 1)
            even = [v for v in widths if 0 in (run % (v * self.lanes), v * self.lanes % run)]
            widths = even or widths
        return widths

    @cached_property
    def accumulators(self) -> int:
        """Sums that are kept for every place in a tile: more than one along axes that only some
        stages have."""
        private = [
            prod(as_int(a.extent) for a in stage.axes if a.name not in self.group.shared)
            for stage in self.group.reductions
        ]
        return max(private, default=1)

    def _prefetches(self, choices: tiling.Choices) -> list[Step]:
        """Returns the steps that prefetch what vectors read."""
        steps = self._next_panels(choices)
        constant = dict(self.packable)
        ahead, k, stage = choices["prefetch"], self.k_axis, self.group.main.name
        for name in self.prefetched:
            packed = name in constant and self._is_packed(choices, constant[name])
            for copy, is_read in ((f"{name}.packed", packed), (name, among(packed, (0,)))):
                if k is None:
                    tiles = self.tiles_ahead(ahead, choices["vectors"])
                    step = prefetch(stage, copy, f"{self.vector_axis}.0", tiles)
                    steps += when((ahead > 0) & is_read, step)
                    continue
                step = prefetch(stage, copy, f"{self.vector_axis}.1", 1)
                steps += when((ahead == 1) & is_read, step)
                steps += when((ahead > 1) & is_read, prefetch(stage, copy, f"{k}.1", ahead))
        return steps

    def _next_panels(self, choices: tiling.Choices) -> list[Step]:
        """Returns the steps that prefetch the panels of constants that come next: those of the next
        block of the reduced axis, or of the next vectors."""
        blocks = (choices["k_blocks"] > 1) & (len(self.group.main.reduce_axes) == 1)
        wanted, stage, steps = choices["next_panels"], self.group.main.name, list[Step]()
        for name in (f"{name}.packed" for name, fixed in self.packable if fixed):
            by_block = prefetch_next(stage, name, f"{self.k_axis}.0")
            by_vectors = prefetch_next(stage, name, f"{self.vector_axis}.0")
            steps += when(among(wanted, (1,)) & blocks, by_block)
            steps += when(among(wanted, (1,)) & among(blocks, (0,)), by_vectors)
        return steps

    def transposes_for_few(self, choices: tiling.Choices) -> bool:
        names = {name for name, fixed in self.packable if not fixed}
        return choices["pack"] in tiling.PACKS_VECTORS and any(
            prod(self.extent(axis) for axis in self.group.shared if not a.depends(axis))
            < (TILE.few_rows_far if a.size * a.element_bytes > self.target.l2 else TILE.few_rows_l2)
            for a in self.group.accesses[self.group.main.name]
            if a.buffer in names and _is_strided(self.group, a, self.vector_axis or "")
        )

    def untold(self, _values: tiling.Values) -> float:
        """A factor for conditions on places, which are free where loops are cut or peeled, and for
        operands that are gathered in every step: those that are not packed, or in panels too."""
        main, v = self.group.main, self.vector_axis or ""
        if main.combiner is None:
            return 1.0
        tests = expression_cost(main) / (vector_work(main) + (main.combiner == "sum"))
        packed = {name for name, _ in self.packable}
        gathered = any(
            a.lane_stride(v, self.lanes) not in (0, 1)
            and (a.buffer not in packed or index_step(main, a.buffer, v) != 1)
            for a in self.group.accesses[main.name]
        )
        return max(1.0, tests) * (SPACE.gathering if gathered and self.k_axis else 1.0)

    @cached_property
    def defaults(self) -> list[tiling.Choices]:
        if self.group.main.combiner is None:
            return map_defaults(self)
        return tile_defaults(self)

    def fits(self, values: tiling.Values) -> BoolArray:
        v, main = values, self.group.main
        tile = v["vectors"] * v["rows"] * v["second_rows"]
        limit = self.target.vector_registers * (1 if main.combiner else 2)
        good = (tile * self.accumulators <= limit) & np.isin(v["vectors"], self._aligned)
        statements = max(1.0, expression_cost(main) / TILE.plain_cost)
        good &= tile * v["k_unroll"] <= max(TILE.min_statements, TILE.max_statements / statements)
        wide = -(-self.extent(self.vector_axis) // self.lanes)
        good &= (v["cache_vectors"] - 1) * v["vectors"] < wide
        good &= (v["cache_rows"] - 1) * v["rows"] < self.extent(self.row_axis)
        if self.k_axis is None:
            good &= v["k_blocks"] == 1
            if main.combiner is None and not self.gathers:
                good &= (v["cache_vectors"] == 1) & (v["cache_rows"] == 1)
            return np.asarray(good)
        whole = v["k_blocks"] == 1
        block = -(-self.extent(self.k_axis) // v["k_blocks"])
        good &= whole | (block % v["k_unroll"] == 0)
        width = self.cache_width(v) * self.group.element_bytes
        if len(self.group.stages) > 1:  # the sums of a cache tile are kept between blocks
            kept = width * v["cache_rows"] * v["rows"] * v["second_rows"]
            good &= whole | (kept <= TILE.max_kept)
        passed = np.isin(v["pack"], tiling.PACKS_VECTORS)
        passed &= (v["vectors_outer"] == 1) | (v["cache_vectors"] == 1)
        # Blocks of the reduced axis, and other matrices, lie between the panels of a cache tile.
        narrow = (v["cache_vectors"] == 1) | (whole & (not self.outer_axes))
        good &= (v["next_panels"] == 0) | (passed & narrow)
        if tiling.Pack.INSIDE in self.knobs["pack"]:
            panels = width * block * v["second_rows"]  # each of which may have panels of its own
            alone = (v["vectors_outer"] == 1) & (v["parallel"] <= panel_loops(self))
            inside = (panels <= TILE.max_panels) & (~whole | alone)
            good &= (v["pack"] != tiling.Pack.INSIDE) | inside
        return np.asarray(good)


def sketches(group: Group, target: Target) -> Iterator[Tile]:
    """A sketch for every axis that vectors may run along."""
    for axis in _vector_axes(group):
        yield tile_of(group, target, axis)


def _vector_axes(group: Group) -> list[str]:
    """Shared axes along which vectors may run: the last one, where most reads are smooth, and where
    no operand has to be transposed at run time that would be along the last one."""
    shared = [a for a in group.shared if group.extents[a] > 1]
    if not shared:
        return []
    reads = [a for axes in group.accesses.values() for a in axes]

    def smooth(axis: str) -> int:
        return sum(a.size for a in reads if a.stride(axis) == 1)

    main, axes, best = group.main, [shared[-1]], max(shared, key=smooth)
    across = main.combiner is not None or any(a.stride(shared[-1]) not in (0, 1) for a in reads)
    across &= not main.buffer.dtype.is_bool  # truth values would be stored one by one
    if across and smooth(best) > smooth(shared[-1]):
        axes.append(best)
    if main.combiner is None and len(shared) > 1 and group.extents[shared[-1]] <= TILE.short_axis:
        longer = max(shared[:-1], key=lambda a: group.extents[a])
        axes = [longer, *(a for a in axes if a != longer)]
    if across and group.extents[shared[-1]] < SKETCHES.lanes / 2:
        axes = list(dict.fromkeys([*axes, max(shared, key=lambda a: group.extents[a])]))
    for access in group.accesses[main.name]:
        if _is_strided(group, access, shared[-1]) and is_packable(group, main, access, shared[-1]):
            wide = [a for a in shared if group.extents[a] >= SKETCHES.lanes]
            axes += [a for a in wide if a not in axes and not access.depends(a)][-1:]
    return axes


def _is_strided(group: Group, access: Access, axis: str) -> bool:
    """True if vectors along an axis take strided elements of a run-time parameter."""
    constants = {p.name for p in group.prim.params if p.constant}
    return access.stride(axis) not in (0, 1) and access.buffer not in constants


def is_packable(group: Group, stage: Stage, access: Access, axis: str) -> bool:
    """A parameter read again by other rows, at places that follow from the axis alone, and that it
    walks along one dimension."""
    return (
        access.buffer in group.own_params
        and stage.combiner is not None
        and not access.irregular
        and access.depends(axis)
        and any(access.depends(a.name) for a in stage.reduce_axes)
        and len(walked_dimensions(group.prim, access.buffer, axis)) == 1
    )


def _slides(stage: Stage, buffer: str, axis: str) -> bool:
    """True if another axis moves the same index by less than a vector, as the taps of a window do:
    vectors of panels along it would begin in one panel and end in the next."""

    def slides(index: IntExpr) -> bool:
        coefficients, _ = linear(index) or ({}, 0)
        others = [step for name, step in coefficients.items() if name != axis]
        return axis in coefficients and any(step % SKETCHES.lanes for step in others)

    reads = (r for r in walk(stage.expr) if isinstance(r, Read) and r.buffer == buffer)
    return any(slides(index) for r in reads for index in r.plain_indices)


def tile_of(group: Group, target: Target, v: str, rows: Sequence[str] | None = None) -> Tile:
    """Returns the sketch with vectors along ``v``, and rows along the best axes or ``rows``."""
    main = group.main
    reads = group.accesses[main.name]
    rows = _row_axes(group, v) if rows is None else rows
    row = rows[0] if rows else None
    row2 = rows[1] if len(rows) > 1 and main.combiner is not None else None
    long = [a.name for a in main.reduce_axes if as_int(a.extent) > 1]
    k = max(long, key=lambda n: (group.extents[n], long.index(n)), default=None)
    constants = {p.name: p.constant for p in group.prim.params}
    # Packing at run time pays only if several rows reuse the panel.
    packable = [
        (a.buffer, constants[a.buffer])
        for a in reads
        if is_packable(group, main, a, v)
        and (constants[a.buffer] if not row else not a.depends(row))
    ]
    packable = list(dict.fromkeys(packable))[: None if row else 1]
    prefetched = _prefetched(group, v, k, target.l2 // 2)
    packable_rows = _packable_rows(group, row, v, k)
    if not packable:
        packable_rows = tuple((name, fixed) for name, fixed in packable_rows if fixed)
    # Tables of the knobs, cut to the extents of this group.
    lanes = target.lanes(group.element_bytes)
    wide = -(-group.extents[v] // lanes)
    tall = group.extents[row] if row is not None else 1
    k_extent = group.extents[k] if k is not None else 1
    single = len(group.reductions) == 1
    ahead = (0, 8, 16, 32, 64) if k is None else (0, 1, 8, 32)
    tables: dict[str, tuple[int, ...]] = {
        "vectors": base.up_to(wide, (1, 2, 3, 4, 5, 6, 8, 12, 16)),
        "rows": base.up_to(tall, (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16)),
        "second_rows": base.up_to(group.extents[row2], (1, 2, 3, 4)) if row2 else (1,),
        "cache_vectors": base.up_to(
            wide, (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 64)
        ),
        "cache_rows": base.up_to(tall, CACHE_ROWS) if row else (1,),
        "k_blocks": tuple(
            b
            for b in (1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256, 512, 1024)
            if b == 1 or (single and k_extent // b >= (8 if row else 4))
        ),
        "k_unroll": tuple(u for u in (1, 2, 4, 8) if k_extent % u == 0) if k else (1,),
        "vectors_outer": (0, 1) if row else (0,),
        "cache_vectors_outer": (0, 1) if row else (0,),
        "pack": _packs(group, v, row, packable, packable_rows),
        "parallel": tuple(range(min(SKETCHES.max_parallel, len(group.shared)) + 1)),
        "non_temporal": base.non_temporal_choices(group, target),
        "next_panels": (0, 1) if row and k and any(fixed for _, fixed in packable) else (0,),
        "prefetch": ahead if prefetched else (0,),
    }
    return Tile(group, target, v, row, row2, k, tuple(packable), tables, prefetched, packable_rows)


def _packs(
    group: Group,
    v: str,
    row: str | None,
    packable: list[tuple[str, bool]],
    packable_rows: tuple[tuple[str, bool], ...],
) -> tuple[int, ...]:
    """Values of the knob ``pack``. Panels are made inside of cache tiles where what a tile reads of
    the operand is a block."""
    block = row is not None and len(group.main.reduce_axes) == 1 and not group.cuts
    names = [a.buffer for a in group.accesses[group.main.name]]
    inside = block and any(
        not fixed and names.count(name) == 1 and not _slides(group.main, name, v)
        for name, fixed in packable
    )
    return tuple(
        n
        for n in range(5)
        if (packable or n not in tiling.PACKS_VECTORS)
        and (packable_rows or n not in tiling.PACKS_ROWS or n == tiling.Pack.INSIDE)
        and (inside or n != tiling.Pack.INSIDE)
    )


def _prefetched(group: Group, v: str, k: str | None, near: int) -> tuple[str, ...]:
    """Parameters whose next vectors can be prefetched, each once: of a reduction those that vectors
    walk along the reduced axis, of a map those of more than ``near`` bytes, read in order."""
    params = {p.name for p in group.prim.params}
    accesses = group.accesses[group.main.name]
    reads = [a for a in accesses if a.buffer in params and not (a.irregular or a.looked_up)]
    if group.main.combiner is not None:
        moving = [a for a in reads if k is not None and a.depends(v) and a.depends(k)]
    else:
        moving = [a for a in reads if a.stride(v) == 1 and a.size * a.element_bytes > near]
    return tuple(dict.fromkeys(a.buffer for a in moving))


def _packable_rows(
    group: Group, row: str | None, v: str, k: str | None
) -> tuple[tuple[str, bool], ...]:
    """Operands whose elements for the rows of a tile lie lines apart from step to step."""
    main = group.main
    operands: dict[str, bool] = {}
    constants = {p.name: p.constant for p in group.prim.params}
    names = [a.buffer for a in group.accesses[main.name]]
    for access in group.accesses[main.name]:
        far = (access.stride(k or "") or 0) * access.element_bytes >= CACHE_LINE
        once = names.count(access.buffer) == 1 and not access.depends(v)
        if row and far and once and is_packable(group, main, access, row):
            operands[access.buffer] = constants[access.buffer]
    return tuple(operands.items())


def _row_axes(group: Group, v: str) -> list[str]:
    """Axes for the rows of a tile: where vector loads are used again first, then innermost."""
    reads = group.accesses[group.main.name]
    moving = [a for a in reads if a.depends(v)]
    candidates = [a for a in reversed(group.shared) if a != v and group.extents[a] > 1]

    def reuse(axis: str) -> int:
        return -sum(1 for a in moving if not a.depends(axis) or axis in a.runs)

    if group.main.combiner is None:
        strided = [a for a in moving if a.stride(v) not in (0, 1)]
        if strided:  # the axis along which the rough reads are smooth shares their cache lines
            candidates.sort(key=lambda axis: -sum(1 for a in strided if a.stride(axis) == 1))
        return candidates[:1]
    return sorted(candidates, key=reuse)[:2]
