"""Features of candidates for the cost model: named numbers, the same for every task and machine.

They are computed for whole populations from tilings, without applying a schedule, and know neither
rules nor knobs. ``feature_list`` holds their names and meanings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ...codegen.target import CACHE_LINE, Target
from ...ir.dims import as_int
from ...ir.loop.prim import PrimFunc
from ...ir.loop.procedure import Procedure
from ...ir.schedule.steps import Schedule, Step
from ..protocols import Population
from .analysis import expression_cost, prim_bytes, prim_flops, stage_flops
from .core_features import core_features
from .feature_list import ABSOLUTE, COMPARED, FEATURE_NAMES
from .footprint_features import footprints
from .reading import tiling_of
from .settings import FEATURES as ESTIMATES
from .settings import SKETCHES
from .tiling import PACKS_ROWS, PACKS_VECTORS, Kind, Tiling, Values
from .traffic_features import traffic_features
from .variant import Variant

__all__ = ["space_features"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
_COLUMNS = [FEATURE_NAMES.index(name) for name in COMPARED]


class Space(Protocol):
    """The parts of a space that features are made from."""

    prim: PrimFunc
    target: Target
    threads: int

    @property
    def variants(self) -> Sequence[Variant]: ...

    def default(self) -> Population: ...

    def values(self, rows: Population, number: int) -> Values: ...

    def schedule(self, row: npt.NDArray[np.int32]) -> Schedule: ...


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
    whole = {"flops": prim_flops(space.prim), "bytes": prim_bytes(space.prim)}
    for number in sorted(set(rows[:, 0].tolist())):  # np.unique would import numpy.ma
        mine = np.flatnonzero(rows[:, 0] == number)
        for tiling, members, v in _tilings(space, number, rows[mine]):
            variant = space.variants[number]
            values = _tiling_features(tiling, variant.prepare, v, whole, space.threads)
            values["choice"] = float(number)
            values["groups"] = float(1 + len(variant.others))
            for column, name in enumerate(FEATURE_NAMES[:ABSOLUTE]):
                out[mine[members], column] = values[name]
    return out


def _tilings(
    space: Space, number: int, rows: Population
) -> Iterator[tuple[Tiling, IntArray, Values]]:
    """The tilings of a variant's rows, each with the places of its rows and their values."""
    variant = space.variants[number]
    if variant.tiling is not None:
        tiling = variant.tiling
        values = tiling.values(space.values(rows, number), len(rows))
        yield tiling, np.arange(len(rows)), values
        return
    by_axes: dict[tuple[object, ...], list[tuple[int, Tiling, dict[str, int]]]] = {}
    for place, row in enumerate(rows):
        tiling, read = tiling_of(space.prim, space.target, space.schedule(row))
        by_axes.setdefault(tiling.axes, []).append((place, tiling, read))
    for members in by_axes.values():
        tiling = members[0][1]
        read = {name: np.array([r[name] for _, _, r in members]) for name in members[0][2]}
        yield (
            tiling,
            np.array([place for place, _, _ in members]),
            tiling.values(read, len(members)),
        )


def _log(x: FloatArray | IntArray | float) -> FloatArray:
    return np.log2(np.maximum(x, 1e-6))


def _tiling_features(
    tiling: Tiling,
    prepare: Sequence[Step],
    v: Values,
    whole: Mapping[str, float],
    threads: int,
) -> dict[str, FloatArray | float]:
    group, target = tiling.group, tiling.target
    tile = (v["vectors"] * v["rows"] * v["second_rows"]).astype(float)
    inner = _inner_loop(tiling, v)
    footprint = footprints(tiling, v)
    trips, per_core = _parallel(tiling, v, threads)
    operations = whole["flops"] / tiling.lanes
    packed = np.isin(v["pack"], PACKS_VECTORS).astype(float)
    if tiling.always_packed:
        packed = np.ones_like(packed)
    # Bytes packed in each call: constants are packed when the kernel is compiled.
    runtime = sum(
        a.size * a.element_bytes
        for a in group.accesses[group.main.name]
        for name, constant in tiling.packable
        if a.buffer == name and not constant
    )
    # Time of one core: cycles of its arithmetic, and of what it moves from each level of memory.
    share = tiling.share(v)
    moved = {level: share * moved for level, moved in traffic_features(tiling, v).items()}
    cycles = share * inner["cycles"]
    core = tiling.core
    memory = moved["l1"] / core.bytes_from_l2 + moved["l2"] / core.bytes_from_llc
    memory = memory + moved["l3"] / core.bytes_from_memory
    used = np.minimum(trips, threads)
    last = group.main.axes[-1].name if group.main.axes else None
    smooth = tiling.kind == Kind.LANES or last == tiling.vector_axis
    return {
        "flops": float(_log(whole["flops"])),
        "bytes": float(_log(whole["bytes"])),
        "intensity": float(_log(whole["flops"] / max(1.0, whole["bytes"]))),
        "lanes_rule": float(tiling.kind == Kind.LANES),
        "stages": float(len(group.prim.stages)),
        "reductions": float(len(group.reductions)),
        "lanes": float(np.log2(tiling.lanes)),
        "registers": float(target.vector_registers),
        "threads": float(np.log2(threads)),
        "vectors": _log(v["vectors"]),
        "rows": _log(v["rows"]),
        "second_rows": _log(v["second_rows"]),
        "tile": _log(tile),
        "pressure": (tile + inner["live"]) / target.vector_registers,
        "chains": np.minimum(tile / core.fma_latency / core.fma_ports, ESTIMATES.max_chains),
        "loads_per_op": inner["loads"] / tile,
        "gathers_per_op": inner["gathers"] / tile,
        "unroll": _log(v["k_unroll"]),
        "code": _log(tile * v["k_unroll"] * tiling.taps),
        "inner_trips": _log(inner["trips"]),
        "depth": _log(inner["depth"]),
        "vector_waste": inner["waste"],
        "row_tail": _tail(tiling.extent(tiling.row_axis), v["rows"]),
        "second_row_tail": _tail(tiling.extent(tiling.second_row_axis), v["second_rows"]),
        "tile_bytes": _log(footprint["tile"] / target.l1),
        "cache_tile_bytes": _log(footprint["cache"] / target.l2),
        "panel_bytes": _log(footprint["panel"] / target.l2),
        "sweep_bytes": _log(footprint["sweep"] / target.l3),
        "tile_pages": _log(footprint["pages"]),
        "k_blocks": _log(v["k_blocks"]),
        "cache_vectors": _log(v["cache_vectors"]),
        "cache_rows": _log(v["cache_rows"]),
        "vectors_outer": v["vectors_outer"].astype(float),
        "cache_vectors_outer": v["cache_vectors_outer"].astype(float),
        "packed": packed,
        "non_temporal": v["non_temporal"].astype(float),
        "prefetched": _log(v["prefetch"] + 1),
        "row_packed": np.isin(v["pack"], PACKS_ROWS).astype(float) * bool(tiling.packable_rows),
        "pack_bytes": packed * runtime / max(1.0, whole["bytes"]),
        "parallel": _log(trips),
        "chunks": _log(per_core),
        "imbalance": np.ceil(per_core) / np.maximum(per_core, 1e-6) - 1.0,
        "ideal_ratio": _log(cycles / operations),
        "cycles": _log(cycles / used),
        "store_smooth": float(smooth),
        "rule": float(tiling.kind),
        "element": float(np.log2(group.element_bytes)),
        "work": expression_cost(group.main),
        **_prepared(tiling, prepare, whole),
        "l1_bytes": _log(moved["l1"] / operations),
        "l2_bytes": _log(moved["l2"] / operations),
        "memory_bytes": _log(moved["l3"] / operations),
        "estimate": _log(np.maximum(cycles, memory) / operations / used),
        "bound": _log(memory / cycles),
        "tiles": _log(inner["tiles"]),
        "tile_steps": _log(inner["steps"] * tile),
        **_layout(tiling, v),
        **_core(tiling, v, memory, operations, used, trips, inner["tiles"]),
    }


def _core(
    tiling: Tiling,
    v: Mapping[str, IntArray],
    memory: FloatArray,
    operations: float,
    used: FloatArray,
    trips: FloatArray,
    tiles: FloatArray,
) -> dict[str, FloatArray]:
    """Features of the core's work: shares of its cycles, and them beside those of ``memory``."""
    core = core_features(tiling, v)
    cycles = tiling.share(v) * core["cycles"]
    arithmetic = np.maximum(core["arithmetic"], 1e-6)
    return {
        "core": _log(cycles / operations),
        "expected": _log(np.maximum(cycles, memory) / operations / used),
        "together": _log((cycles + memory) / operations / used),
        "core_share": _log(cycles / np.maximum(memory, 1e-6)),
        "load_share": np.minimum(core["loads"] / arithmetic, ESTIMATES.max_load_share),
        "shuffle_share": _log(core["shuffles"] / arithmetic + 1.0),
        "latency_share": _log(core["latency"] / arithmetic + 1.0),
        "spill_share": core["spilled"] / cycles,
        "loop_share": core["loop"] / cycles,
        "tail_share": core["tails"] / cycles,
        "instructions": _log(core["instructions"]),
        "set_conflicts": _log(core["set_conflicts"] + 1.0),
        "tiles_per_iteration": _log(tiles / np.maximum(1.0, trips)),
        "tile_cycles": _log(cycles / tiles),
    }


def _prepared(
    tiling: Tiling, prepare: Sequence[Step], whole: Mapping[str, float]
) -> dict[str, float]:
    """Features of the preparing steps: stages inlined, work repeated, reductions cut."""
    group = tiling.group
    prim = group.prim
    flops = max(prim_flops(prim), 1.0)  # arrays without elements
    pieces = [s.args[2] for s in prepare if s.name == "split_reduction"]
    outside = [s for s in prim.stages if s not in group.stages and s.name not in prim.outputs]
    kept = sum(as_int(s.buffer.size) * s.buffer.dtype.bytes for s in outside)
    return {
        "inlined": float(sum(s.name == "compute_inline" for s in prepare)),
        "repeated": float(_log(flops / max(whole["flops"], 1.0))),
        "reduction_parts": float(np.log2(pieces[0])) if pieces else 0.0,
        "stored_between": float(_log(max(kept, 1) / tiling.target.l2)),
        "other_work": 1.0 - group.flops / flops,
        "stage_work": 1.0 - stage_flops(group.main) / flops,
    }


def _layout(tiling: Tiling, v: Mapping[str, IntArray]) -> dict[str, FloatArray | float]:
    """Features of the operands' layouts along vectors and rows of the main stage."""
    group = tiling.group
    reads = group.accesses[group.main.name]
    axis, lanes = tiling.inner_axis, tiling.lanes
    extent = tiling.extent(axis)
    width = np.minimum(v["vectors"] * lanes, extent)
    tiles = -(-extent // width)
    used = extent / (tiles * (-(-width // lanes)) * lanes)
    rest = extent - (tiles - 1) * width
    used = np.maximum(
        used, extent / ((tiles - 1) * (-(-width // lanes)) * lanes + -(-rest // lanes) * lanes)
    )
    strides = [(a.stride(tiling.row_axis or "") or 0) * a.element_bytes for a in reads]
    steps = [(a.stride(tiling.k_axis or "") or 0) * a.element_bytes for a in reads]
    vectors = [a for a in reads if axis is not None and a.stride(axis) == 1]
    rows = [
        any(s * a.element_bytes % CACHE_LINE for x, s in a.strides.items() if x != axis)
        for a in vectors
    ]
    deep = tiling.extent(tiling.k_axis)
    run = width * group.element_bytes * v["cache_vectors"]
    return {
        "depth_tail": (deep % tiling.step(v)) / deep,
        "last_lanes": 1.0 - used,
        "same_sets": sum(s > 0 and s % tiling.core.page == 0 for s in strides) / max(1, len(reads)),
        "page_walks": float(sum(abs(s) >= tiling.core.page for s in steps)),
        "crossing": sum(rows) / max(1, len(rows)),
        "contiguous_bytes": _log(run),
    }


def _tail(extent: int, tile: IntArray) -> FloatArray:
    return (extent % tile) / extent


def _inner_loop(tiling: Tiling, v: Mapping[str, IntArray]) -> dict[str, FloatArray]:
    """Returns loads, live registers, trips and modelled cycles of the main stage's inner loop."""
    group = tiling.group
    main = group.main
    axis = tiling.inner_axis
    width = tiling.extent(axis)
    lanes = tiling.lanes
    reached = np.minimum(v["vectors"] * lanes, width)
    vectors = -(-reached // lanes)
    packed = {name for name, _ in tiling.packable}
    # Loads of one step: an operand is loaded once per vector or row of the tile that moves it.
    loads = np.zeros(len(reached))
    gathers = np.zeros(len(reached))
    live = np.zeros(len(reached))
    for access in group.accesses[main.name]:
        count = np.ones(len(reached))
        moves = axis is not None and access.depends(axis)
        if moves:
            count = count * vectors
        for row, knob in ((tiling.row_axis, "rows"), (tiling.second_row_axis, "second_rows")):
            if row is not None and access.depends(row):
                count = count * v[knob]
        rough = moves and access.stride(axis or "") not in (1, -1)
        if rough:
            smoothed = np.isin(v["pack"], PACKS_VECTORS) & (access.buffer in packed)
            gathers += np.where(smoothed, 0.0, count * lanes)
        loads += count
        live += vectors if moves else 1.0
    # Steps of the whole stage: the reduced points, for each tile, for each point of other axes.
    depth = 1
    for reduced in main.reduce_axes:
        depth *= as_int(reduced.extent)
    points = 1.0
    for name in group.shared:
        if name not in (axis, tiling.row_axis, tiling.second_row_axis):
            points *= group.extents[name]
    tiles = (
        -(-width // np.maximum(1, reached))
        * -(-tiling.extent(tiling.row_axis) // v["rows"])
        * -(-tiling.extent(tiling.second_row_axis) // v["second_rows"])
    )
    steps = float(depth) if tiling.in_tiles else depth / max(1, width)
    # A step takes as long as its slowest unit; a tile that does not fit the registers spills.
    chains = vectors * v["rows"] * v["second_rows"]
    work = np.full(len(reached), max(1.0, expression_cost(main) / 2.0))
    if tiling.kind == Kind.DOTS:  # four products of a lane at once, or sixteen in tile registers
        work = work / np.where(v["tiles"] == 1, 4 * SKETCHES.group, SKETCHES.group)
    wanted = chains + np.minimum(live, vectors + 1)
    spilled = np.maximum(0.0, wanted - tiling.target.vector_registers)
    per_step = np.maximum(
        np.maximum(chains * work, (loads + gathers) * tiling.core.load), tiling.core.fma_latency
    )
    per_step = (
        per_step + spilled * tiling.core.spill + tiling.core.iteration / v["k_unroll"] / tiling.taps
    )
    return {
        "loads": loads,
        "gathers": gathers,
        "live": np.minimum(live, vectors + 1.0),
        "trips": _inner_trips(tiling, v, axis, reached),
        "depth": np.full(len(reached), float(depth)),
        "waste": 1.0 - width / (-(-width // lanes) * lanes) * np.ones(len(reached)),
        "cycles": np.asarray(points * tiles * (steps * per_step + tiling.core.tile), np.float64),
        "tiles": np.asarray(points * tiles, np.float64),
        "steps": np.full(len(reached), steps),
    }


def _inner_trips(
    tiling: Tiling, v: Mapping[str, IntArray], axis: str | None, reached: IntArray
) -> FloatArray:
    """Iterations of the innermost reduced loop of the main stage that has several, else 1."""
    main = tiling.group.main
    reduced = [a.name for a in main.reduce_axes]
    one = np.ones(len(v["rows"]), np.int64)
    loops: list[IntArray] = []
    if tiling.taps > 1:
        return one.astype(float)
    if tiling.kind == Kind.LANES:
        others = [name for name in reduced if name != axis]
        loops += [one * tiling.extent(name) for name in others]
        if axis in reduced:
            loops.append(tiling.extent(axis) // np.maximum(1, reached))
    else:
        blocks = v["k_blocks"]
        loops.append(blocks)
        for name in reduced:
            chunk = -(-tiling.extent(name) // blocks)
            loops.append(
                chunk // tiling.step(v) if name == tiling.k_axis else one * tiling.extent(name)
            )
    trips = one
    for count in loops:
        trips = np.where(count > 1, count, trips)
    return trips.astype(float)


def _parallel(
    tiling: Tiling, v: Mapping[str, IntArray], threads: int
) -> tuple[FloatArray, FloatArray]:
    """Iterations of the parallel loop, and iterations per thread."""
    n = len(v["rows"])
    if "shared" in v:
        return v["shared"].astype(float), v["shared"] / threads
    trips = np.ones(n)
    for depth, column in enumerate(tiling.outer_trips(v)):
        trips = np.where(v["parallel"] > depth, trips * column, trips)
    return trips, trips / threads
