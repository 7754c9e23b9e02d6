"""The time of candidates, estimated from their loops, and the choices that it says are best.

What a core and its caches do with loops is known to ``core_cycles`` and ``nest_traffic`` alone; the
numbers of a core are in its description. A rule offers values of its knobs; those of which the
estimate is least are its choices without a measurement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

from ...codegen.core import core_of
from ...codegen.target import Target
from ...ir.loop.prim import PrimFunc, Stage
from ...ir.schedule.columns import built
from .analysis import Access, expression_cost, groups_of, stage_flops, vector_work
from .core_cycles import core_cycles
from .loop_arrays import PARALLEL, LoopArrays, loop_arrays
from .nest_traffic import NestTraffic, nest_traffic, operands_of
from .settings import SPACE
from .tiling import Choices, Kind, Tiling, Values

__all__ = ["Estimate", "cycles_of", "fastest", "main_cycles", "offers", "rows_of"]

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
        """float64[n]: cycles of all stages, those of copies into panels among them."""
        cycles = sum((s.cycles for s in self.stages.values()), np.zeros(self.arrays.count))
        return np.asarray(cycles + self.packing)

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
    return cycles * _untold(tiling)


def main_cycles(tiling: Tiling, choices: Choices) -> float:
    """Returns the cycles of the main stage of a group alone, to compare rules with each other."""
    steps = tiling.build(**choices)
    (arrays,) = loop_arrays(tiling.group.prim, [(np.zeros(1, np.int64), steps)])
    main, target = tiling.group.main, tiling.target
    accesses, lanes_of = _accesses(arrays.prim, target)
    stage = core_cycles(arrays, main, accesses[main.name], target, lanes_of[main.name])
    return float(stage.cycles[0]) * _untold(tiling)


def _untold(tiling: Tiling) -> float:
    """Returns a factor for what the loops of register tiles do not tell: conditions on places,
    which are free where loops are cut or peeled, and operands that are gathered in every step."""
    main = tiling.group.main
    if tiling.kind != Kind.TILES or main.combiner is None:
        return 1.0
    tests = expression_cost(main) / (vector_work(main) + (main.combiner == "sum"))
    return max(1.0, tests) * (SPACE.gathering if _gathers(tiling) else 1.0)


def _gathers(tiling: Tiling) -> bool:
    """True if vectors of an operand that is not packed are gathered in every step."""
    reads = tiling.group.accesses[tiling.group.main.name]
    packed, v = {name for name, _ in tiling.packable}, tiling.vector_axis or ""
    return bool(tiling.k_axis) and any(
        a.lane_stride(v, tiling.lanes) not in (0, 1) and a.buffer not in packed for a in reads
    )


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
