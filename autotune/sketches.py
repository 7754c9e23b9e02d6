"""Sketch rules: what kinds of schedule a group of stages is offered, with their integer choices.

Two rules cover what the language can express today, by structure and not by operator:

``tile``   vectors run along an axis that all stages share, and a register tile of rows and vectors
           is kept while reduced axes are walked: maps, contractions, convolutions, pooling,
           reductions over outer axes, softmax over an outer axis.
``lanes``  vectors run along each stage's own innermost axis, reductions in lanes that are joined at
           the end: softmax and layer_norm over the last axis, row sums, dot products.

A sketch turns one choice per knob into schedule steps; ``space.py`` holds the choices as arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from ..codegen.target import Target
from ..ir.dims import as_int
from ..ir.loop.prim import Stage
from ..ir.schedule.steps import (
    Step,
    cache_write,
    compute_at,
    fuse,
    pack,
    parallel,
    reorder,
    rfactor,
    split,
    stream,
    unroll,
    vectorize,
)
from .analysis import Access, Group

__all__ = ["KNOBS", "Choices", "Sketch", "sketches_of"]

Choices = Mapping[str, int]

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
pack       1: operands that move along the vector axis are packed into panels
parallel   how many of the outer loops are fused into the parallel one
stream     1: results are stored past the caches
"""

MAX_PARALLEL = 4
PARALLEL_SECONDS = 8e-6  # work shorter than this is not worth waking a thread for
TYPICAL_FLOPS = 2e10  # of one thread on plain code; only to tell microseconds from milliseconds


def _up_to(limit: int, values: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(v for v in values if v <= limit) or (1,)


@dataclass(frozen=True)
class Sketch:
    """One rule applied to one group: ``tables`` hold the values of each knob."""

    rule: str
    group: Group
    target: Target
    vector_axis: str | None
    row_axis: str | None = None
    row_axis2: str | None = None
    k_axis: str | None = None
    packable: tuple[tuple[str, bool], ...] = ()  # parameter, and whether it is constant
    tables: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @cached_property
    def lanes(self) -> int:
        return self.target.lanes(self.group.element_bytes)

    @cached_property
    def outer_axes(self) -> tuple[str, ...]:
        """Shared axes that are not tiled."""
        tiled = {self.row_axis, self.row_axis2}
        if self.rule == "tile":
            tiled.add(self.vector_axis)
        return tuple(a for a in self.group.shared if a not in tiled)

    @cached_property
    def gathers(self) -> bool:
        """Whether vectors of the main stage read elements that do not lie side by side."""
        reads = self.group.accesses[self.group.main.name]
        return any(a.stride(self.vector_axis or "") not in (0, 1) for a in reads)

    def extent(self, axis: str | None) -> int:
        return self.group.extents[axis] if axis is not None else 1

    # -- schedule ------------------------------------------------------------------------------

    def steps(self, choices: Choices) -> tuple[list[Step], list[Step]]:
        """Steps that must come before all splits, and the others."""
        return self._tile_steps(choices) if self.rule == "tile" else self._lane_steps(choices)

    def _tile_steps(self, c: Choices) -> tuple[list[Step], list[Step]]:
        group, v, r, r2, k = (
            self.group,
            self.vector_axis,
            self.row_axis,
            self.row_axis2,
            self.k_axis,
        )
        assert v is not None
        width = c["vectors"] * self.lanes
        if self.extent(v) < width:
            width = self.extent(v)
        first: list[Step] = []
        if c["pack"]:
            first = [pack(name, v, width) for name, _ in self.packable]
        steps = [_split(v, self.extent(v), c["mid_v"], width)]
        row_loops: list[str] = []
        mid = [f"{v}.1"]
        tile: list[str] = []
        if r2 is not None:
            steps.append(_split(r2, self.extent(r2), c["rows2"]))
            row_loops.append(f"{r2}.0")
            tile.append(f"{r2}.1")
        if r is not None:
            steps.append(_split(r, self.extent(r), c["mid_r"], c["rows"]))
            row_loops.append(f"{r}.0")
            mid = [f"{r}.1", f"{v}.1"] if c["mid_order"] == 0 else [f"{v}.1", f"{r}.1"]
            tile.append(f"{r}.2")
        tile.append(f"{v}.2")
        outer = [*self.outer_axes]
        outer += [*row_loops, f"{v}.0"] if c["order"] == 0 else [f"{v}.0", *row_loops]
        blocked = k is not None and c["k_blocks"] > 1
        reduced: list[str] = []
        unrolled = list(tile[:-1])
        for axis in _reduced_axes(group):
            if k is not None and axis == k:
                blocks = c["k_blocks"]
                chunk = -(-self.extent(k) // blocks)
                turns = -(-chunk // c["k_unroll"])
                steps.append(
                    split(
                        k,
                        (
                            -(-self.extent(k) // (turns * c["k_unroll"])),
                            turns,
                            c["k_unroll"],
                        ),
                    )
                )
                reduced += [f"{k}.1", f"{k}.2"] if blocked else [f"{k}.0", f"{k}.1", f"{k}.2"]
                if c["k_unroll"] > 1:
                    unrolled.append(f"{k}.2")
            else:
                reduced.append(axis)
        own = [a for a in _own_axes(group) if a not in reduced]
        order = [*outer, *([f"{k}.0"] if blocked else []), *mid, *own, *reduced, *tile]
        steps.append(reorder(*order))
        at = mid[-1]
        join = outer[-1] if blocked else at
        steps += [cache_write(s.name, "registers", at) for s in group.reductions]
        steps += [compute_at(s.name, join) for s in group.stages[1:]]
        steps += [unroll(loop) for loop in unrolled]
        steps += [vectorize(f"{v}.2"), *_parallel(outer, c["parallel"])]
        return first, [*steps, *_streams(group, c["stream"])]

    def _lane_steps(self, c: Choices) -> tuple[list[Step], list[Step]]:
        group, r = self.group, self.row_axis
        steps: list[Step] = []
        outer = list(self.outer_axes)
        rows: list[str] = []
        if r is not None:
            steps.append(_split(r, self.extent(r), c["rows"]))
            outer.append(f"{r}.0")
            rows = [f"{r}.1"]
        inner: list[str] = []
        vectors: list[str] = []
        after: list[Step] = []
        for stage in group.stages:
            axis = lane_axis(group, stage)
            names = [a.name for a in (*stage.axes, *stage.reduce_axes)]
            own = [n for n in names if n not in group.shared and n not in inner]
            for name in own:
                if name != axis:
                    inner.append(name)
            if axis is None or f"{axis}.0" in inner:
                if axis is not None and stage.combiner is not None:
                    after.append(rfactor(stage.name, f"{axis}.1"))
                continue
            extent = self.extent(axis)
            width = min(c["vectors"] * self.lanes, extent)
            steps.append(_split(axis, extent, width))
            inner.append(f"{axis}.0")
            vectors.append(f"{axis}.1")
            if stage.combiner is not None:
                after.append(rfactor(stage.name, f"{axis}.1"))
        steps.append(reorder(*outer, *inner, *rows, *vectors))
        if outer:
            steps += [cache_write(s.name, "registers", outer[-1]) for s in group.reductions]
            steps += [compute_at(s.name, outer[-1]) for s in group.stages[1:]]
        steps += after
        steps += [unroll(loop) for loop in rows]
        steps += [vectorize(loop) for loop in vectors]
        steps += _parallel(outer, c["parallel"])
        return [], [*steps, *_streams(group, c["stream"])]

    def outer_trips(self, c: Choices) -> tuple[int, ...]:
        """Trip counts of the outer loops, outermost first: what ``parallel`` fuses."""
        others = [self.extent(a) for a in self.outer_axes]
        rows: list[int] = []
        if self.rule == "lanes":
            if self.row_axis is not None:
                rows.append(-(-self.extent(self.row_axis) // c["rows"]))
            return (*others, *rows)
        if self.row_axis2 is not None:
            rows.append(-(-self.extent(self.row_axis2) // c["rows2"]))
        if self.row_axis is not None:
            rows.append(-(-self.extent(self.row_axis) // (c["rows"] * c["mid_r"])))
        wide = -(-self.extent(self.vector_axis) // (c["vectors"] * self.lanes * c["mid_v"]))
        return (*others, *rows, wide) if c["order"] == 0 else (*others, wide, *rows)


def _split(axis: str, extent: int, *inner: int) -> Step:
    return split(axis, (max(1, -(-extent // prod(inner))), *inner))


def _parallel(outer: list[str], count: int) -> list[Step]:
    count = min(count, len(outer))
    if count == 0:
        return []
    if count == 1:
        return [parallel(outer[0])]
    return [fuse(*outer[:count]), parallel("*".join(outer[:count]))]


def _streams(group: Group, wanted: int) -> list[Step]:
    outputs = [s.name for s in group.stages if s.name in group.prim.outputs]
    return [stream(name) for name in outputs] if wanted else []


def _stream_choices(group: Group, target: Target) -> tuple[int, ...]:
    """Storing past the caches is on offer for results that no near cache holds."""
    return (0, 1) if group.output_bytes > 2 * target.l2 else (0,)


def _reduced_axes(group: Group) -> list[str]:
    names: dict[str, None] = {}
    for stage in group.stages:
        names.update((a.name, None) for a in stage.reduce_axes)
    return list(names)


def _own_axes(group: Group) -> list[str]:
    names: dict[str, None] = {}
    for stage in group.stages:
        names.update((a.name, None) for a in stage.axes if a.name not in group.shared)
    return list(names)


def lane_axis(group: Group, stage: Stage) -> str | None:
    """The axis a stage's vectors run along in the ``lanes`` rule, None if it has none."""
    axes = stage.reduce_axes or tuple(a for a in stage.axes if a.name not in group.shared)
    names = [a.name for a in axes if as_int(a.extent) > 1]
    if not names:
        return None
    if stage.combiner is None:
        return names[-1]
    reads = group.accesses[stage.name]

    def goodness(name: str) -> tuple[int, int]:
        smooth = sum(a.size for a in reads if a.stride(name) == 1)
        return smooth, group.extents[name]

    return max(names, key=goodness)


def sketches_of(group: Group, target: Target) -> list[Sketch]:
    """The sketches the rules offer for a group, the most promising first."""
    offers = [(_tile_cost(group, v), _tile_sketch(group, target, v)) for v in _vector_axes(group)]
    if _lanes_apply(group):
        offers.append((_lane_cost(group), _lane_sketch(group, target)))
    offers.sort(key=lambda offer: offer[0])
    return [sketch for _, sketch in offers]


def _vector_axes(group: Group) -> list[str]:
    """Shared axes along which vectors may run: the last one, and where most reads are smooth."""
    shared = [a for a in group.shared if group.extents[a] > 1]
    if not shared:
        return []
    reads = [a for found in group.accesses.values() for a in found]

    def smooth(axis: str) -> int:
        return sum(a.size for a in reads if a.stride(axis) == 1)

    best = max(shared, key=smooth)
    found = [shared[-1]]
    if best not in found and smooth(best) > smooth(shared[-1]):
        found.append(best)
    return found


def _lanes_apply(group: Group) -> bool:
    return any(lane_axis(group, s) is not None and s.combiner is not None for s in group.stages)


def _rough(reads: tuple[Access, ...], axis: str | None, points: float) -> float:
    """Cost of the reads of a stage whose vectors run along ``axis``."""
    cost = 0.0
    for a in reads:
        step = a.stride(axis) if axis is not None else 0
        cost += points * (0.1 if step == 0 else 0.2 if step in (1, -1) else 3.0)
    return cost


def _tile_cost(group: Group, axis: str) -> float:
    from .analysis import stage_points

    cost = 0.0
    width = group.extents[axis]
    waste = -(-width // 16) * 16 / width  # lanes of short axes run empty
    for stage in group.stages:
        points = float(stage_points(stage))
        reads = group.accesses[stage.name]
        for access in reads:
            step = access.stride(axis)
            packed = step not in (0, 1) and _is_packable(group, stage, access, axis)
            if packed:
                cost += 0.2 * points + 3.0 * access.size
            else:
                cost += _rough((access,), axis, points)
        last = stage.axes[-1].name if stage.axes else None
        if last != axis:
            cost += 3.0 * points / max(1, prod(as_int(a.extent) for a in stage.reduce_axes))
    return cost * waste


def _lane_cost(group: Group) -> float:
    from .analysis import stage_points

    cost = 0.0
    for stage in group.stages:
        axis = lane_axis(group, stage)
        points = float(stage_points(stage))
        width = group.extents[axis] if axis is not None else 1
        waste = -(-width // 16) * 16 / width
        cost += _rough(group.accesses[stage.name], axis, points) * (waste if axis else 10.0)
        if stage.combiner is not None:  # joining the lanes of every output element
            cost += 6.0 * prod(as_int(a.extent) for a in stage.axes)
    return cost


def _is_packable(group: Group, stage: Stage, access: Access, axis: str) -> bool:
    """A parameter read again by other rows, at places that follow from the axis alone."""
    params = {p.name for p in group.prim.params}
    return (
        access.buffer in params
        and stage.combiner is not None
        and not access.irregular
        and access.depends(axis)
        and any(access.depends(a.name) for a in stage.reduce_axes)
    )


def _tile_sketch(group: Group, target: Target, v: str) -> Sketch:
    main = group.main
    reads = group.accesses[main.name]
    rows = _row_axes(group, v)
    row = rows[0] if rows else None
    row2 = rows[1] if len(rows) > 1 and main.combiner is not None else None
    k = _longest_reduced(group) if main.combiner is not None else None
    packable: list[tuple[str, bool]] = []
    if main.combiner is not None and row is not None:
        constants = {p.name: p.constant for p in group.prim.params}
        for access in reads:
            reused = not access.depends(row)
            known = access.buffer in {name for name, _ in packable}
            if reused and not known and _is_packable(group, main, access, v):
                packable.append((access.buffer, constants[access.buffer]))
    elif main.combiner is not None:
        constants = {p.name: p.constant for p in group.prim.params}
        for access in reads:
            if constants.get(access.buffer) and _is_packable(group, main, access, v):
                packable.append((access.buffer, True))
                break
    lanes = target.lanes(group.element_bytes)
    wide = -(-group.extents[v] // lanes)
    tall = group.extents[row] if row is not None else 1
    k_extent = group.extents[k] if k is not None else 1
    single = len(group.reductions) == 1
    tables: dict[str, tuple[int, ...]] = {
        "vectors": _up_to(wide, (1, 2, 3, 4, 5, 6, 8, 12, 16)),
        "rows": _up_to(tall, (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16)),
        "rows2": _up_to(group.extents[row2], (1, 2, 3, 4)) if row2 else (1,),
        "mid_v": _up_to(wide, (1, 2, 4, 8, 16)),
        "mid_r": _up_to(tall, (1, 2, 4, 8, 16, 32)) if row else (1,),
        "k_blocks": tuple(
            b
            for b in ((1, 2, 3, 4, 6, 8, 12, 16) if row else (1, 4, 16, 64, 128, 256, 512, 1024))
            if b == 1 or (single and k_extent // b >= (64 if row else 4))
        ),
        "k_unroll": tuple(u for u in (1, 2, 4, 8) if k_extent % u == 0) if k else (1,),
        "order": (0, 1) if row else (0,),
        "mid_order": (0, 1) if row else (0,),
        "pack": (0, 1) if packable else (0,),
        "parallel": tuple(range(min(MAX_PARALLEL, len(group.shared)) + 1)),
        "stream": _stream_choices(group, target),
    }
    return Sketch("tile", group, target, v, row, row2, k, tuple(packable), tables)


def _row_axes(group: Group, v: str) -> list[str]:
    """Axes for the rows of a tile: where vector loads are used again first, then innermost."""
    reads = group.accesses[group.main.name]
    moving = [a for a in reads if a.depends(v)]
    candidates = [a for a in reversed(group.shared) if a != v and group.extents[a] > 1]

    def reuse(axis: str) -> int:
        return -sum(1 for a in moving if not a.depends(axis))

    if group.main.combiner is None:
        strided = [a for a in moving if a.stride(v) not in (0, 1)]
        if strided:  # the axis along which the rough reads are smooth shares their cache lines
            candidates.sort(key=lambda axis: -sum(1 for a in strided if a.stride(axis) == 1))
        return candidates[:1]
    return sorted(candidates, key=reuse)[:2]


def _longest_reduced(group: Group) -> str | None:
    names = [a.name for a in group.main.reduce_axes if as_int(a.extent) > 1]
    return max(names, key=lambda n: (group.extents[n], names.index(n))) if names else None


def _lane_sketch(group: Group, target: Target) -> Sketch:
    shared = [a for a in group.shared if group.extents[a] > 1]
    row = shared[-1] if shared else None
    tall = group.extents[row] if row is not None else 1
    widest = max(
        (group.extents[axis] for s in group.stages if (axis := lane_axis(group, s)) is not None),
        default=1,
    )
    lanes = target.lanes(group.element_bytes)
    tables: dict[str, tuple[int, ...]] = {
        **dict.fromkeys(KNOBS, (1,)),
        "order": (0,),
        "mid_order": (0,),
        "pack": (0,),
        "vectors": _up_to(-(-widest // lanes), (1, 2, 3, 4, 6, 8)),
        "rows": _up_to(tall, (1, 2, 3, 4, 6, 8)),
        "parallel": tuple(range(min(MAX_PARALLEL, len(shared)) + 1)),
        "stream": _stream_choices(group, target),
    }
    return Sketch("lanes", group, target, None, row, None, None, (), tables)
