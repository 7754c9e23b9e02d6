"""The time of candidates, estimated from their loops, and the choices that it says are best.

What a core and its caches do with loops is known to ``core_cycles`` and ``nest_traffic`` alone; the
numbers of a core are in its description. A rule offers values of its knobs; those of which the
estimate is least are its choices without a measurement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import inf

import numpy as np
import numpy.typing as npt

from ...codegen.core import core_of
from ...codegen.target import Target
from ...ir.dims import as_int
from ...ir.loop.prim import PrimFunc, Stage
from ...ir.schedule.columns import built
from .analysis import Access, groups_of, stage_flops, stage_points, vector_work
from .core_cycles import computed_share, core_cycles
from .loop_arrays import PARALLEL, LoopArrays, loop_arrays
from .nest_traffic import NestTraffic, nest_traffic, operands_of
from .settings import MIRROR
from .sketch import AnySketch
from .tiling import Choices, Tiling, Values

FloatArray = npt.NDArray[np.float64]


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
        trips = np.ones(self.arrays.count)
        for axis in axes:
            trips = trips * self.arrays.product(axis, PARALLEL)
        return trips


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
    order = np.lexsort((-cache, -size, cycles_of(tiling, values, stages)))[:most]
    return rows_of({name: column[order] for name, column in values.items()})


def rows_of(values: Values) -> list[dict[str, int]]:
    """Returns the choices of every row."""
    return [dict(zip(values, row)) for row in zip(*(c.tolist() for c in values.values()))]
