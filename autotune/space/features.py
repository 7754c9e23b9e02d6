"""Features of candidates for the cost model: named numbers, the same for every task and machine.

They are functions of arrays of loops (``loop_arrays``) and of how stages read buffers, for whole
populations at once, and know neither rules nor knobs. ``feature_list`` holds names and meanings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ...codegen.target import Target
from ...ir.dims import as_int
from ...ir.loop.prim import PrimFunc
from ...ir.loop.procedure import Procedure
from ...ir.loop.work import expression_cost, prim_bytes, prim_flops, stage_flops
from ...ir.schedule.columns import FloatArray, IntArray
from ...ir.schedule.rows import UNROLL, VECTORIZE
from ..protocols import Population
from .core_cycles import CoreCycles
from .estimate import Estimate
from .feature_list import ABSOLUTE, COMPARED, FEATURE_NAMES
from .loop_arrays import LoopArrays
from .settings import FEATURES as ESTIMATES
from .tiling import Values

_COLUMNS = [FEATURE_NAMES.index(name) for name in COMPARED]


class Space(Protocol):
    """The parts of a space that features are made from."""

    prim: PrimFunc
    target: Target
    threads: int

    def default(self) -> Population: ...

    def values(self, rows: Population, number: int) -> Values: ...

    def loops(self, rows: Population) -> Iterator[LoopArrays]: ...


def space_features(space: Space, rows: Population) -> npt.NDArray[np.float32]:
    """float32[n, len(FEATURE_NAMES)] of rows of a space."""
    absolute = _absolute(space, np.concatenate([space.default()[:1], rows]))
    if len(absolute) == len(rows):
        return np.concatenate([absolute, np.zeros((len(rows), len(COMPARED)), np.float32)], axis=1)
    beside = absolute[1:, _COLUMNS] - absolute[:1, _COLUMNS]
    return np.concatenate([absolute[1:], beside], axis=1)


def _absolute(space: Space, rows: Population) -> npt.NDArray[np.float32]:
    out = np.zeros((len(rows), ABSOLUTE), np.float32)
    if isinstance(space.prim, Procedure):  # its knobs, beside what is the same for all its rows
        out[:, FEATURE_NAMES.index("flops")] = _log(prim_flops(space.prim))
        out[:, FEATURE_NAMES.index("bytes")] = _log(prim_bytes(space.prim))
        values = space.values(rows, 0)
        for name in ("parallel", "vectors"):
            if name in values:
                out[:, FEATURE_NAMES.index(name)] = _log(values[name] + 1)
        return out
    for arrays in space.loops(rows):
        values = _features(space, arrays)
        for column, name in enumerate(FEATURE_NAMES[:ABSOLUTE]):
            out[arrays.rows, column] = values[name]
    return out


def _log(x: FloatArray | IntArray | float) -> FloatArray:
    return np.log2(np.maximum(x, 1e-6))


def _features(space: Space, arrays: LoopArrays) -> dict[str, FloatArray | float]:
    prim, target, threads = space.prim, space.target, space.threads
    estimate = Estimate(arrays, target)
    core, main = estimate.core, estimate.main
    stage: CoreCycles = estimate.stages[main.name]
    lanes = estimate.lanes_of[main.name]
    flops, size = prim_flops(prim), prim_bytes(prim)
    operations = flops / lanes
    cycles, memory, trips = estimate.cycles, estimate.memory, estimate.trips
    used = np.minimum(trips, threads)
    arithmetic = np.maximum(stage.arithmetic, 1e-6)
    per_core = trips / threads
    moved = {
        level: sum((getattr(t, level) for t in estimate.traffic), np.zeros(arrays.count))
        for level in ("l1", "l2", "l3")
    }
    body = stage.tile * stage.copies
    return {
        "flops": float(_log(flops)),
        "bytes": float(_log(size)),
        "intensity": float(_log(flops / max(1.0, size))),
        "lanes": float(np.log2(lanes)),
        "registers": float(target.vector_registers),
        "threads": float(np.log2(threads)),
        "work": expression_cost(main),
        **_prepared(estimate, flops),
        "vectors": _log(stage.vectors),
        "rows": _log(stage.tile / stage.vectors),
        "tile": _log(stage.tile),
        "unroll": _log(stage.copies),
        "code": _log(body),
        "pressure": stage.wanted / target.vector_registers,
        "chains": np.minimum(stage.tile / core.fma_latency / core.fma_ports, ESTIMATES.max_chains),
        "loads_per_op": stage.loaded / body,
        "gathers_per_op": stage.gathered / body,
        "instructions": _log(stage.instructions),
        "lane_waste": stage.waste,
        "tiles": _log(stage.tiles),
        "tile_steps": _log(stage.steps * body / np.maximum(1.0, stage.tiles)),
        "tile_cycles": _log(stage.cycles / np.maximum(1.0, stage.tiles)),
        **_loops(estimate),
        **_layout(estimate, size),
        "non_temporal": arrays.streams.astype(float),
        "parallel": _log(trips),
        "chunks": _log(per_core),
        "imbalance": np.ceil(per_core) / np.maximum(per_core, 1e-6) - 1.0,
        "tiles_per_iteration": _log(stage.tiles / np.maximum(1.0, trips)),
        "l1_bytes": _log(moved["l1"] / operations),
        "l2_bytes": _log(moved["l2"] / operations),
        "memory_bytes": _log(moved["l3"] / operations),
        "cycles": _log(cycles / used),
        "core": _log(cycles / operations),
        "expected": _log(np.maximum(cycles, memory) / operations / used),
        "together": _log((cycles + memory) / operations / used),
        "core_share": _log(cycles / np.maximum(memory, 1e-6)),
        "load_share": np.minimum(stage.loads / arithmetic, ESTIMATES.max_load_share),
        "shuffle_share": _log(stage.shuffles / arithmetic + 1.0),
        "latency_share": _log(stage.latency / arithmetic + 1.0),
        "front_share": _log(stage.front / arithmetic + 1.0),
        "spill_share": stage.spilled / stage.cycles,
        "loop_share": stage.loop / stage.cycles,
        "tail_share": stage.tails / stage.cycles,
        "other_share": 1.0 - stage.cycles / np.maximum(cycles, 1e-6),
        "pack_share": estimate.packing / np.maximum(cycles, 1e-6),
    }


def _prepared(estimate: Estimate, flops: float) -> dict[str, float]:
    """Features of the steps that make other stages: work repeated, values stored between nests."""
    prim = estimate.arrays.prim
    now = max(prim_flops(prim), 1.0)  # arrays without elements
    outside = [s for s in prim.stages if s not in estimate.nest and s.name not in prim.outputs]
    kept = sum(as_int(s.buffer.size) * s.buffer.dtype.bytes for s in outside)
    nest = sum(stage_flops(s) for s in estimate.nest)
    return {
        "repeated": float(_log(now / max(flops, 1.0))),
        "stored_between": float(_log(max(kept, 1) / estimate.target.l2)),
        "other_work": 1.0 - nest / now,
        "stage_work": 1.0 - stage_flops(estimate.main) / now,
    }


def _loops(estimate: Estimate) -> dict[str, FloatArray]:
    """Features of the serial loops around the register tile, from the innermost one."""
    arrays, main, target = estimate.arrays, estimate.main, estimate.target
    n, reach = arrays.count, estimate.main_traffic.reach
    axes = {a.name for s in estimate.nest for a in (*s.axes, *s.reduce_axes)}
    reduced = {a.name for a in main.reduce_axes}
    number = np.zeros(n, np.int64)
    trips = [np.ones(n) for _ in range(ESTIMATES.around)]
    reached = [np.full(n, reach[0]) for _ in range(ESTIMATES.around)]
    inner = np.ones(n)
    inside = reach[-1].copy()
    for slot in range(len(arrays.axes) - 1, -1, -1):
        axis, extent = arrays.axes[slot], arrays.extent[slot]
        if axis not in axes or not (extent > 1).any():
            continue
        serial = arrays.serial[slot]
        inside = np.where(~serial & (number == 0), reach[slot], inside)
        for place in range(ESTIMATES.around):
            here = serial & (number == place)
            trips[place] = np.where(here, extent, trips[place])
            reached[place] = np.where(here, reach[slot], reached[place])
        if axis in reduced:
            inner = np.where(serial & (inner == 1), extent, inner)
        number += serial
    depth = float(np.prod([as_int(a.extent) for a in main.reduce_axes]))
    features = {
        "inner_trips": _log(inner),
        "depth": np.full(n, float(_log(depth))),
        "body_bytes": _log(inside / target.l1),
    }
    for place in range(ESTIMATES.around):
        features[f"trips_{place + 1}"] = _log(trips[place])
        features[f"reach_{place + 1}"] = _log(reached[place] / target.l2)
    if main.combiner is not None:
        outside = arrays.depths[main.name]
    else:
        outside = np.full(n, len(arrays.axes))
    tile = np.take_along_axis(reach, np.minimum(outside, len(reach) - 1)[None], axis=0)[0]
    features["tile_bytes"] = _log(tile / target.l1)
    return features


def _layout(estimate: Estimate, size: float) -> dict[str, FloatArray]:
    """Features of the elements along the lanes, of panels and of prefetches."""
    arrays, main = estimate.arrays, estimate.main
    none, run = np.zeros(arrays.count), np.ones(arrays.count)
    for axis in (*main.axes, *main.reduce_axes):
        vector = arrays.product(axis.name, VECTORIZE) > 1
        wide = arrays.product(axis.name, VECTORIZE, UNROLL)
        inner = wide * arrays.extent[arrays.slots_of[axis.name][1:-1]].prod(axis=0)
        run = np.where(vector, np.maximum(wide, inner), run)
    packed, inside, copied = none, none, none
    for several in arrays.panels.values():
        for panels in several:
            packed = packed + (panels.tile > 0)
            inside = np.maximum(inside, panels.depth > 0)
    for access, elements in estimate.copied():
        copied = copied + elements * access.element_bytes
    return {
        "contiguous_bytes": _log(
            run * (estimate.target.vector_bytes // estimate.lanes_of[main.name])
        ),
        "packed": packed,
        "packed_inside": inside,
        "pack_bytes": copied / max(1.0, size),
        "prefetched": _log(np.maximum.reduce([none, *arrays.ahead.values()]) + 1.0),
        "prefetched_next": np.maximum.reduce([none, *arrays.nexts.values()]),
    }
