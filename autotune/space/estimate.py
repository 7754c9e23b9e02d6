"""The time of candidates, estimated from their loops, and the choices that it says are best.

What a core and its caches do with loops is known to ``core_cycles`` and ``nest_traffic`` below
alone; the numbers of a core are in its description. A rule offers values of its knobs; those of
which the estimate is least are its choices without a measurement.

Of the bytes that a nest touches, and moves between the levels of memory: from the innermost loop to
the outermost, ``reach`` is what the loops so far touch in whole cache lines. The largest part of
the nest whose data a cache holds is run through once from there; what is read in it comes from the
next level in every iteration of the loops around it, but for operands that the first of them does
not move (McKinley, Carr and Tseng, TOPLAS 1996, with capacities).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import ceil, gcd, inf, prod

import numpy as np

from ...codegen.core import Core, core_of
from ...codegen.target import CACHE_LINE, Target
from ...ir.dataclass import dataclass
from ...ir.dims import as_int
from ...ir.loop.prim import PrimFunc, Stage
from ...ir.loop.work import stage_flops, stage_points, vector_work
from ...ir.schedule.columns import BoolArray, FloatArray, IntArray, built
from ...ir.schedule.rows import PARALLEL
from .analysis import Access, groups_of
from .core_cycles import computed_share, core_cycles
from .loop_arrays import LoopArrays, loop_arrays
from .settings import FEATURES, MIRROR
from .sketch import AnySketch
from .tiling import Choices, Tiling, Values


@dataclass(frozen=True, slots=True)
class NestTraffic:
    """Bytes, float64[n]: what all cores move into L1 (``l1``), into L2 (``l2``) and from memory
    (``l3``) in one call; ``reach`` float64[slots + 1, n] what the loops from each slot on touch,
    the last row what one iteration of the innermost one does; ``cycles``, float64[n], what the
    moves take on one core, longer for operands of which a step reads many places of a page."""

    l1: FloatArray
    l2: FloatArray
    l3: FloatArray
    reach: FloatArray
    cycles: FloatArray


@dataclass(frozen=True, slots=True)
class Operand:
    """A read or a result of a nest, and the ``axes`` of the stages that use it: loops of others are
    not around them."""

    access: Access
    axes: frozenset[str]


def operands_of(
    arrays: LoopArrays, stages: Sequence[Stage], accesses: Sequence[Sequence[Access]]
) -> list[Operand]:
    """Returns all reads of a nest's stages, each once, and the results that it stores. What one
    stage of a nest makes for another stays in registers, or in L1."""
    operands: dict[str, Operand] = {}
    made = {stage.name for stage in stages}
    for stage, reads in zip(stages, accesses, strict=True):
        axes = frozenset(a.name for a in (*stage.axes, *stage.reduce_axes))
        for access in (a for a in reads if a.buffer not in made):
            key = access.buffer + str(sorted(access.strides.items()))
            shared = operands[key].axes if key in operands else frozenset[str]()
            operands[key] = Operand(access, axes | shared)
        if stage.name not in arrays.prim.outputs:
            continue
        step, strides = 1, dict[str, int]()
        for axis in reversed(stage.axes):
            strides[axis.name] = step
            step *= as_int(axis.extent)
        size, mine = as_int(stage.buffer.size), frozenset(a.name for a in stage.axes)
        access = Access(stage.name, stage.buffer.dtype.bytes, strides, frozenset(), size)
        operands[f"{stage.name}="] = Operand(access, mine)
    return list(operands.values())


def nest_traffic(
    arrays: LoopArrays, stages: Sequence[Stage], operands: Sequence[Operand], target: Target
) -> NestTraffic:
    """Returns the traffic of one nest of the PrimFunc."""
    n, core = arrays.count, core_of(target)
    zero = np.zeros(n)
    if not operands:
        return NestTraffic(zero, zero, zero, np.zeros((len(arrays.axes) + 1, n)), zero)
    extents = {a.name: as_int(a.extent) for s in stages for a in (*s.axes, *s.reduce_axes)}
    packed = [_packed(arrays, o.access.buffer) for o in operands]
    sizes: dict[str, IntArray] = {}
    touched = np.stack([_touched(o.access, sizes, p, n) for o, p in zip(operands, packed)])
    rooms = np.array([target.l1, target.l2, target.l3], np.float64)[:, None, None]
    moved = np.zeros((3, len(operands), n))
    inside = np.ones((3, len(operands), n))
    step = _of_step(arrays, extents)
    crowded = np.stack([_crowded(o, p, step, target) for o, p in zip(operands, packed)])
    reach = np.empty((len(arrays.axes) + 1, n))
    reach[-1] = total = touched.sum(axis=0)
    for slot in range(len(arrays.axes) - 1, -1, -1):
        axis, trips = arrays.axes[slot], arrays.extent[slot]
        reach[slot] = total
        if axis not in extents or not (trips > 1).any():
            continue
        sizes[axis] = np.minimum(sizes.get(axis, 1) * trips, extents[axis])
        moves = np.array([o.access.depends(axis) for o in operands])
        around = np.array([axis in o.axes for o in operands])[:, None]
        before, touched = touched, touched.copy()
        for place in np.flatnonzero(moves).tolist():
            touched[place] = _touched(operands[place].access, sizes, packed[place], n)
        total = np.where(trips > 1, touched.sum(axis=0, where=around), total)
        reach[slot] = total
        # The first loop that no longer fits brings all once: what an iteration reads is there when
        # the next one reads it again. Those around it bring it all anew.
        repeats = np.where(around, trips, 1)
        # Lines that push each other out of their set are not.
        lost = np.where(slot == arrays.body - 1, around * crowded, 0.0)
        inside[0] -= lost
        over = np.clip((total / rooms - 1) / FEATURES.kept, 0.0, 1.0) * ((trips > 1) & around)
        leaves = inside * over
        moved = moved * repeats + leaves * touched
        inside -= leaves
        moved[0] += lost * before * np.where(moves[:, None], repeats, 1)
    late = np.stack([_delay(o, p, step, core) for o, p in zip(operands, packed)])
    moved += inside * touched * FEATURES.warm
    l1, l2, l3 = moved.sum(axis=1)
    delayed = (moved * late).sum(axis=1)
    rates = np.array([core.bytes_from_l2, core.bytes_from_llc, core.bytes_from_memory])
    return NestTraffic(l1, l2, l3, reach, (delayed / rates[:, None]).sum(axis=0))


def _of_step(arrays: LoopArrays, extents: Mapping[str, int]) -> dict[str, IntArray]:
    """Returns int64[n] by axis: the elements that one step takes, with all loops inside of the
    innermost serial one, of axes along which they are several."""
    inner = np.where(np.arange(len(arrays.axes))[:, None] >= arrays.body, arrays.extent, 1)
    sizes = {
        axis: np.minimum(inner[slots].prod(axis=0), extents[axis])
        for axis, slots in arrays.slots_of.items()
        if axis in extents
    }
    return {axis: size for axis, size in sizes.items() if (size > 1).any()}


def _delay(
    operand: Operand, packed: BoolArray, step: Mapping[str, IntArray], core: Core
) -> FloatArray:
    """Returns float64[n]: how many times longer lines of an operand take where one step reads more
    places of a page than prefetchers follow."""
    access, n = operand.access, len(packed)
    bytes_of = {axis: abs(access.stride(axis) or 0) * access.element_bytes for axis in step}
    near = [axis for axis in step if axis in operand.axes and 0 < bytes_of[axis] < core.page]
    if not near:
        return np.ones(n)
    moving = [(abs(access.stride(axis) or 0), step[axis]) for axis in near]
    streams = _reached(moving, access.element_bytes, n, runs=True)
    streams = np.minimum(streams, core.page / max(CACHE_LINE, min(bytes_of[a] for a in near)))
    more = np.clip(streams - core.streams, 0.0, core.streams)
    return np.asarray(np.where(packed, 1.0, 1.0 + more / core.streams))


def _crowded(
    operand: Operand, packed: BoolArray, step: Mapping[str, IntArray], target: Target
) -> FloatArray:
    """Returns float64[n]: the share of an operand's lines that one step reads from a set of L1 that
    is too small for them."""
    core, lines, access = core_of(target), np.ones(len(packed)), operand.access
    ways = max(core.l1_ways, target.l1 // core.page)
    for axis, size in step.items():
        apart = abs(access.stride(axis) or 0) * access.element_bytes
        if apart >= CACHE_LINE and axis in operand.axes:
            lines = lines * np.maximum(1.0, size / (core.page // gcd(apart, core.page)))
    return np.asarray(np.where(packed, 0.0, np.clip(lines / ways - 1.0, 0.0, 1.0)))


def _packed(arrays: LoopArrays, buffer: str) -> BoolArray:
    """True for rows that read an operand from panels."""
    packed = np.zeros(arrays.count, np.bool_)
    for panels in arrays.panels.get(buffer, ()):
        packed |= panels.tile > 0
    return packed


def _touched(
    access: Access, sizes: Mapping[str, IntArray], packed: BoolArray, n: int
) -> FloatArray:
    """Returns the bytes of an operand reached within ``sizes`` (1 along other axes), in whole cache
    lines; panels lie in the order in which they are read.

    Axes are taken in the order of their strides. What several of them reach is one ``span`` of
    places ``base`` elements apart, as long as the next one moves by no more than the span: windows
    that overlap are counted once.
    """
    element = access.element_bytes
    others, moving = np.ones(n), list[tuple[int, IntArray]]()
    for axis, size in sizes.items():
        stride = access.stride(axis)
        if stride is None:
            others = others * np.ceil(size / access.runs.get(axis, 1))
        elif stride:
            moving.append((abs(stride), size))
    most = ceil(access.size * element / CACHE_LINE)
    lines = others
    if not packed.all():
        lines = others * _reached(moving, element, n)
    if packed.any():
        places = np.prod([others, *(size for _, size in moving)], axis=0)
        lines = np.where(packed, np.ceil(places * element / CACHE_LINE), lines)
    return np.minimum(lines, most) * CACHE_LINE


def _reached(
    moving: Sequence[tuple[int, IntArray]], element: int, n: int, runs: bool = False
) -> FloatArray:
    """Returns the cache lines that steps of some axes reach, each given by the elements that it
    moves on and its number; or the ``runs`` of adjacent lines."""
    lines, base, span = np.ones(n), np.ones(n), np.ones(n)

    def closed() -> FloatArray:
        adjacent = 1.0 if runs else np.ceil(((span - 1) * base + 1) * (element / CACHE_LINE))
        return np.asarray(lines * np.where(base * element < CACHE_LINE, adjacent, span))

    for stride, size in sorted(moving, key=lambda item: item[0]):
        ratio = stride / base
        apart = (ratio > span) & (size > 1)
        if apart.any():
            lines = np.where(apart, closed(), lines)
            span = np.where(apart, size, span + (size - 1) * ratio)
            base = np.where(apart, stride, base)
        else:
            span = span + (size - 1) * ratio
    return closed()


class Estimate:
    """Cycles of every stage (of these ``stages``) and traffic of every nest on one core, for the
    rows of ``arrays``; ``main`` is the stage with the most work."""

    def __init__(
        self, arrays: LoopArrays, target: Target, stages: Sequence[Stage] | None = None
    ) -> None:
        self.arrays, self.target = arrays, target
        self.core = core_of(target)
        self.accesses, self.lanes_of = _accesses(arrays.prim, target)
        stages = arrays.prim.stages if stages is None else stages
        self.main = max(stages, key=stage_flops)
        self.stages = {
            s.name: core_cycles(arrays, s, self.accesses[s.name], target, self.lanes_of[s.name])
            for s in stages
        }
        self.traffic: list[NestTraffic] = []
        for nest in (n for n in arrays.nests if set(n) & set(stages)):
            reads = [self.accesses[s.name] for s in nest]
            operands = operands_of(arrays, nest, reads)
            self.traffic.append(nest_traffic(arrays, nest, operands, target))
            if self.main in nest:
                self.nest, self.main_traffic, self.operands = nest, self.traffic[-1], operands

    @property
    def cycles(self) -> FloatArray:
        """float64[n]: cycles of all stages, those of copies into panels and of mirrored elements
        among them."""
        cycles = sum((s.cycles for s in self.stages.values()), np.zeros(self.arrays.count))
        return np.asarray(cycles + self.packing + self._images)

    @property
    def packing(self) -> FloatArray:
        """float64[n]: cycles of the copies into panels that every call makes."""
        cycles = np.zeros(self.arrays.count)
        for access, size in self.copied():
            lanes = self.target.vector_bytes // access.element_bytes
            is_strided = all(s != 1 for s in access.strides.values())
            each = 2.0 / lanes * (np.log2(max(2, lanes)) if is_strided else 1.0)
            cycles = cycles + size * each
        return cycles

    @property
    def _images(self) -> FloatArray:
        """float64[n]: cycles to transpose and store what mirrored stages do not compute."""
        cycles = np.zeros(self.arrays.count)
        for stage in self.arrays.prim.stages:
            share = computed_share(self.arrays, stage)
            if share is not None:
                size = as_int(stage.buffer.size)
                far = size * stage.buffer.dtype.bytes > self.target.l2
                cycles += (1 - share) * size * (MIRROR.far_image if far else MIRROR.image)
        return cycles

    def copied(self) -> Iterator[tuple[Access, FloatArray]]:
        """Yields the operands that are packed in a call, with the elements that are copied."""
        constants = {p.name for p in self.arrays.prim.params if p.constant}
        for name, several in self.arrays.panels.items():
            access = next((a for a in self.accesses[self.main.name] if a.buffer == name), None)
            if name in constants or access is None:
                continue
            for panels in several:
                # Every iteration of the loops around a copy makes it anew.
                times = np.ones(self.arrays.count)
                for slot, axis in enumerate(self.arrays.axes[: panels.depth.max(initial=0)]):
                    if not access.depends(axis):
                        repeats = np.where(slot < panels.depth, self.arrays.extent[slot], 1)
                        times = times * repeats
                yield access, np.where(panels.tile > 0, access.size * times, 0.0)

    @property
    def memory(self) -> FloatArray:
        """float64[n]: cycles of one core for what moves between the caches and memory."""
        return sum((moved.cycles for moved in self.traffic), np.zeros(self.arrays.count))

    @property
    def time(self) -> FloatArray:
        """float64[n]: cycles for all, where arithmetic and memory hide most of each other, if cores
        share the iterations of the parallel loop."""
        cores, trips = self.target.cores, self.trips
        core, memory = self.cycles, self.memory
        time = np.maximum(core, memory) + (1 - self.core.overlap) * np.minimum(core, memory)
        longest = np.ceil(trips / cores) * cores / trips  # of the cores' shares
        return np.asarray(longest * time)

    @property
    def trips(self) -> FloatArray:
        """float64[n]: iterations of the parallel loop of the main nest."""
        axes = {a.name for s in self.nest for a in s.axes}
        each = [self.arrays.product(axis, PARALLEL) for axis in axes]
        return np.asarray(prod(each, start=1.0) * np.ones(self.arrays.count))


def _accesses(
    prim: PrimFunc, target: Target
) -> tuple[dict[str, tuple[Access, ...]], dict[str, int]]:
    """Returns the reads of every stage, and the lanes of its vectors."""
    by_isa = prim.derived.setdefault("accesses", {})
    if target.isa not in by_isa:
        groups = groups_of(prim)
        by_isa[target.isa] = (
            {s.name: g.accesses[s.name] for g in groups for s in g.stages},
            {s.name: target.lanes(g.element_bytes) for g in groups for s in g.stages},
        )
    return by_isa[target.isa]


def offers(tiling: Tiling, *bases: Choices, **knobs: Sequence[int]) -> Values:
    """Returns all combinations of these values of some knobs that fit, with the values of the
    others in each of ``bases`` (the first values): int64[n] by knob; one row where none fits."""
    rows = np.array(list(product(*knobs.values())), np.int64).reshape(-1, len(knobs))
    bases = bases or (tiling.base_choices(),)
    values = {
        name: np.repeat(np.array([base[name] for base in bases], np.int64), len(rows))
        for name in tiling.knobs
    }
    values |= {name: np.tile(rows[:, place], len(bases)) for place, name in enumerate(knobs)}
    keep = np.flatnonzero(tiling.fits(values))
    keep = keep if len(keep) else np.zeros(1, np.int64)
    return {name: column[keep] for name, column in values.items()}


def cycles_of(tiling: Tiling, values: Values, stages: Sequence[Stage] | None = None) -> FloatArray:
    """Returns float64[n]: the estimated cycles of ``stages`` of a group (all) with these choices,
    and of all that their nests move."""
    count = len(next(iter(values.values())))
    cycles = np.zeros(count)
    for arrays in loop_arrays(tiling.group.prim, built(tiling.build, values, count)):
        estimate = Estimate(arrays, tiling.target, stages or tiling.group.stages)
        cycles[arrays.rows] = estimate.time
    return cycles * tiling.untold(values)


def sketch_cycles(sketch: AnySketch, defaults: Sequence[Choices]) -> float:
    """Returns the estimated cycles of a sketch with the first of these choices, to compare rules
    with each other; infinite without any, where no tiling describes it, and where a copy is made
    in every call for few rows."""
    if not isinstance(sketch, Tiling) or not defaults or sketch.transposes_for_few(defaults[0]):
        return inf
    key = str(defaults[0])
    if key not in sketch.estimated:
        values = {name: np.array([value]) for name, value in defaults[0].items()}
        sketch.estimated[key] = float(cycles_of(sketch, values)[0])
    return sketch.estimated[key]


def least_cycles(stages: Sequence[Stage], size: float, element: int, target: Target) -> float:
    """Returns the cycles of one core for the arithmetic of some stages on elements of so many
    bytes, and for ``size`` bytes from L2, if nothing were in their way."""
    core = core_of(target)
    work = sum(vector_work(s) * stage_points(s) for s in stages)
    return max(work / target.lanes(element) / core.fma_ports, size / core.bytes_from_l2)


def fastest(
    tiling: Tiling, values: Values, most: int, stages: Sequence[Stage] | None = None
) -> list[dict[str, int]]:
    """Returns the choices of which the estimate is least, the best first; of equal ones the
    largest register tile, and the largest cache tile."""
    size = np.prod([values[k] for k in ("vectors", "rows", "second_rows") if k in values], axis=0)
    cache = values.get("cache_vectors", size)
    cycles = cycles_of(tiling, values, stages)
    tiling.estimated[""] = float(cycles.min(initial=inf))
    order = np.lexsort((-cache, -size, cycles))[:most]
    return rows_of({name: column[order] for name, column in values.items()})


def rows_of(values: Values) -> list[dict[str, int]]:
    """Returns the choices of every row."""
    return [dict(zip(values, row)) for row in zip(*(c.tolist() for c in values.values()))]
