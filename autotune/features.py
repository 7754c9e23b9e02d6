"""What the cost model sees of a candidate: named numbers, the same for every task and machine.

They are computed for whole populations from the integer arrays, without applying a schedule. Sizes
and counts are log2; shares are plain. Version 3 is the list below; another list is another version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..ir.dims import as_int
from .analysis import Access, expression_cost, prim_bytes, prim_flops, stage_flops
from .protocols import Population
from .rules import KNOBS, Sketch
from .rules.base import PACKS_ROWS, PACKS_VECTORS
from .rules.tile_favourites import LATENCY, LOAD, SPILL, TILE, TURN
from .traffic_features import LINE, touched, traffic_features

if TYPE_CHECKING:
    from .space import ScheduleSpace, Variant

__all__ = ["FEATURES", "FEATURE_NAMES", "FEATURE_VERSION", "space_features"]

FEATURE_VERSION = 3
FEATURES: dict[str, str] = {
    "flops": "log2 of the arithmetic instructions of one call",
    "bytes": "log2 of the bytes read and written at least once",
    "intensity": "log2 of instructions per byte",
    "lanes_rule": "1 if vectors run along reduced axes and are joined at the end",
    "stages": "stages that are computed, after inlining",
    "reductions": "reductions among them",
    "groups": "nests that run one after the other",
    "lanes": "log2 of the elements of a vector",
    "registers": "vector registers of the machine",
    "threads": "log2 of the threads that run the kernel",
    "vectors": "log2 of the vectors of the register tile",
    "rows": "log2 of its rows",
    "rows2": "log2 of its second rows",
    "tile": "log2 of the vectors accumulated at once",
    "pressure": "registers wanted over registers there are",
    "chains": "accumulators over those needed to hide the latency of a multiply-add, at most 2",
    "loads_per_op": "vector loads and broadcasts per vector operation",
    "gathers_per_op": "loads that must be put together lane by lane, per vector operation",
    "unroll": "log2 of the turns of the innermost loop written out",
    "code": "log2 of the vector operations written out",
    "inner_trips": "log2 of the turns of the innermost reduced loop that is not written out",
    "depth": "log2 of the reduced elements per output",
    "vector_waste": "share of vector lanes that compute nothing",
    "row_tail": "share of the rows that run in a smaller tile",
    "row2_tail": "share of the second rows that run in a smaller tile",
    "tile_bytes": "log2 of the bytes one register tile touches, over the L1 cache",
    "cache_tile_bytes": "log2 of the bytes one cache tile touches, over the L2 cache",
    "panel_bytes": "log2 of the bytes the innermost outer loop touches in one pass, over L2",
    "sweep_bytes": "log2 of the bytes the two innermost outer loops touch, over L3",
    "tile_pages": "log2 of the pages one register tile touches",
    "k_blocks": "log2 of the pieces the longest reduced axis is cut into",
    "mid_v": "log2 of the register tiles along the vectors in a cache tile",
    "mid_r": "log2 of the register tiles along the rows in a cache tile",
    "vectors_outer": "1 if the vector axis stands outside the rows",
    "vectors_mid": "1 if it does inside a cache tile",
    "packed": "1 if an operand is packed",
    "streamed": "1 if results are stored past the caches",
    "prefetched": "log2 of the turns ahead that operands are asked for, 0 if not",
    "row_packed": "1 if an operand that rows walk is packed, too",
    "pack_bytes": "bytes packed at run time over the bytes of the call",
    "parallel": "log2 of the turns of the parallel loop",
    "chunks": "log2 of the parallel turns per thread",
    "imbalance": "share of the cores' time that the last turns leave idle",
    "ideal_ratio": "log2 of the tile model's cycles over one operation per cycle",
    "cycles": "log2 of the tile model's cycles on all cores",
    "store_smooth": "1 if vectors are stored to neighbouring elements",
    "rule": "number of the sketch rule, in the order of ``RULES``",
    "choice": "place of the sketch among those the rules offer, most promising first",
    "element": "log2 of the bytes of an element",
    "work": "arithmetic instructions of one evaluation of the main stage",
    "inlined": "stages that were written into their readers",
    "repeated": "log2 of the instructions after inlining over those before",
    "pieces": "log2 of the pieces a long reduction was cut into for the threads",
    "kept": "log2 of the bytes stored between nests and read again, over the L2 cache",
    "other_work": "share of the instructions outside of the main nest",
    "stage_work": "share of the instructions outside of the main stage",
    "near_bytes": "log2 of the bytes moved into the first cache, per vector operation",
    "far_bytes": "log2 of the bytes moved into the second cache, per vector operation",
    "memory_bytes": "log2 of the bytes moved from memory, per vector operation",
    "estimate": "log2 of the cycles per vector operation, by the tile model or by memory",
    "bound": "log2 of the cycles for memory over those of the tile model",
    "tiles": "log2 of the register tiles of one call",
    "tile_steps": "log2 of the vector operations of one register tile",
    "depth_tail": "share of the innermost reduced axis that turns written out leave over",
    "last_lanes": "share of the lanes of the vector axis's tiles that compute nothing",
    "same_sets": "share of the operands whose rows are a multiple of a page apart",
    "walks": "operands that move to another page with every step of the innermost reduced axis",
    "crossing": "share of the vector loads that begin within a cache line",
    "run": "log2 of the bytes read or written side by side by the loops of the vector axis",
}
COMPARED = (
    "estimate", "cycles", "near_bytes", "far_bytes", "memory_bytes", "tile", "loads_per_op",
    "pressure", "code", "tiles", "vectors", "rows", "inner_trips", "tile_bytes", "chunks",
    "parallel", "last_lanes", "choice", "run", "bound",
)  # fmt: skip
"""Features that are also given as their difference from those of the rules' favourite: how large a
number is says less than on which side of a good choice it lies."""
FEATURES.update(
    {f"{name}_beside": f"{name} beside that of the rules' favourite" for name in COMPARED}
)
FEATURE_NAMES = tuple(FEATURES)
_COMPARED = [FEATURE_NAMES.index(name) for name in COMPARED]
_ABSOLUTE = len(FEATURE_NAMES) - len(COMPARED)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
PAGE = 4096  # bytes
BYTES_AT_ONCE = 4  # neighbours of a reduced axis that the ``dots`` rule adds up in one lane
RULES = ("tile", "lanes", "window", "dots", "chain", "pick")
NEAR_BYTES, FAR_BYTES, MEMORY_BYTES = 48.0, 12.0, 6.0  # a cycle, into the first cache and so on


def space_features(space: ScheduleSpace, rows: Population) -> npt.NDArray[np.float32]:
    """float32[n, len(FEATURE_NAMES)] of rows of a space."""
    found = _absolute(space, np.concatenate([space.default()[:1], rows]))
    if len(found) == len(rows):
        return np.concatenate([found, np.zeros((len(rows), len(COMPARED)), np.float32)], axis=1)
    beside = found[1:, _COMPARED] - found[:1, _COMPARED]
    return np.concatenate([found[1:], beside], axis=1)


def _absolute(space: ScheduleSpace, rows: Population) -> npt.NDArray[np.float32]:
    out = np.zeros((len(rows), _ABSOLUTE), np.float32)
    values = space.values(rows)
    whole = {"flops": prim_flops(space.prim), "bytes": prim_bytes(space.prim)}
    for number, variant in enumerate(space.variants):
        mine = rows[:, 0] == number
        if mine.any():
            v = {name: values[mine, c] for c, name in enumerate(KNOBS)}
            found = _variant_features(variant, number, v, whole, space.threads)
            count = int(mine.sum())
            for column, name in enumerate(FEATURE_NAMES[:_ABSOLUTE]):
                out[mine, column] = np.broadcast_to(found[name], count)
    return out


def _log(x: FloatArray | IntArray | float) -> FloatArray:
    return np.log2(np.maximum(x, 1e-6))


def _variant_features(
    variant: Variant,
    number: int,
    v: Mapping[str, IntArray],
    whole: Mapping[str, float],
    threads: int,
) -> dict[str, FloatArray | float]:
    sketch = variant.sketch
    group, target = sketch.group, sketch.target
    tile = (v["vectors"] * v["rows"] * v["rows2"]).astype(float)
    inner = _inner_loop(sketch, v)
    footprint = _footprints(sketch, v)
    trips, per_core = _parallel(sketch, v, threads)
    operations = whole["flops"] / sketch.lanes
    packed = np.isin(v["pack"], PACKS_VECTORS).astype(float)
    runtime = sum(
        a.size * a.element_bytes
        for a in group.accesses[group.main.name]
        for name, constant in sketch.packable
        if a.buffer == name and not constant
    )
    moved = traffic_features(sketch, v)
    cycles = inner["cycles"]
    memory = moved["l1"] / NEAR_BYTES + moved["l2"] / FAR_BYTES + moved["l3"] / MEMORY_BYTES
    used = np.minimum(trips, threads)
    last = group.main.axes[-1].name if group.main.axes else None
    smooth = sketch.rule == "lanes" or last == sketch.vector_axis
    return {
        "flops": float(_log(whole["flops"])),
        "bytes": float(_log(whole["bytes"])),
        "intensity": float(_log(whole["flops"] / max(1.0, whole["bytes"]))),
        "lanes_rule": float(sketch.rule == "lanes"),
        "stages": float(len(group.prim.stages)),
        "reductions": float(len(group.reductions)),
        "groups": float(1 + len(variant.others)),
        "lanes": float(np.log2(sketch.lanes)),
        "registers": float(target.vector_registers),
        "threads": float(np.log2(threads)),
        "vectors": _log(v["vectors"]),
        "rows": _log(v["rows"]),
        "rows2": _log(v["rows2"]),
        "tile": _log(tile),
        "pressure": (tile + inner["live"]) / target.vector_registers,
        "chains": np.minimum(tile / LATENCY / 2, 2.0),
        "loads_per_op": inner["loads"] / tile,
        "gathers_per_op": inner["gathers"] / tile,
        "unroll": _log(v["k_unroll"]),
        "code": _log(tile * v["k_unroll"] * sketch.taps),
        "inner_trips": _log(inner["trips"]),
        "depth": _log(inner["depth"]),
        "vector_waste": inner["waste"],
        "row_tail": _tail(sketch.extent(sketch.row_axis), v["rows"]),
        "row2_tail": _tail(sketch.extent(sketch.row_axis2), v["rows2"]),
        "tile_bytes": _log(footprint["tile"] / target.l1),
        "cache_tile_bytes": _log(footprint["cache"] / target.l2),
        "panel_bytes": _log(footprint["panel"] / target.l2),
        "sweep_bytes": _log(footprint["sweep"] / target.l3),
        "tile_pages": _log(footprint["pages"]),
        "k_blocks": _log(v["k_blocks"]),
        "mid_v": _log(v["mid_v"]),
        "mid_r": _log(v["mid_r"]),
        "vectors_outer": v["order"].astype(float),
        "vectors_mid": v["mid_order"].astype(float),
        "packed": packed,
        "streamed": v["stream"].astype(float),
        "prefetched": _log(v["prefetch"] + 1),
        "row_packed": np.isin(v["pack"], PACKS_ROWS).astype(float) * bool(sketch.packable_rows),
        "pack_bytes": packed * runtime / max(1.0, whole["bytes"]),
        "parallel": _log(trips),
        "chunks": _log(per_core),
        "imbalance": np.ceil(per_core) / np.maximum(per_core, 1e-6) - 1.0,
        "ideal_ratio": _log(cycles / operations),
        "cycles": _log(cycles / used),
        "store_smooth": float(smooth),
        "rule": float(RULES.index(sketch.rule)) if sketch.rule in RULES else float(len(RULES)),
        "choice": float(number),
        "element": float(np.log2(group.element_bytes)),
        "work": expression_cost(group.main),
        **_prepared(variant, whole),
        "near_bytes": _log(moved["l1"] / operations),
        "far_bytes": _log(moved["l2"] / operations),
        "memory_bytes": _log(moved["l3"] / operations),
        "estimate": _log(np.maximum(cycles, memory) / operations / used),
        "bound": _log(memory / cycles),
        "tiles": _log(inner["tiles"]),
        "tile_steps": _log(inner["steps"] * tile),
        **_layout(sketch, v),
    }


def _prepared(variant: Variant, whole: Mapping[str, float]) -> dict[str, float]:
    """What the preparing steps of a variant have made of the kernel."""
    group = variant.sketch.group
    prim = group.prim
    flops = prim_flops(prim)
    pieces = [s.args[2] for s in variant.prepare if s.name == "split_reduction"]
    outside = [s for s in prim.stages if s not in group.stages and s.name not in prim.outputs]
    kept = sum(as_int(s.buffer.size) * s.buffer.dtype.bytes for s in outside)
    return {
        "inlined": float(sum(s.name == "compute_inline" for s in variant.prepare)),
        "repeated": float(_log(flops / whole["flops"])),
        "pieces": float(np.log2(pieces[0])) if pieces else 0.0,
        "kept": float(_log(max(kept, 1) / variant.sketch.target.l2)),
        "other_work": 1.0 - group.flops / flops,
        "stage_work": 1.0 - stage_flops(group.main) / flops,
    }


def _layout(sketch: Sketch, v: Mapping[str, IntArray]) -> dict[str, FloatArray | float]:
    """How the operands of the main stage lie, as far as vectors and rows walk them."""
    group = sketch.group
    reads = group.accesses[group.main.name]
    axis, lanes = sketch.inner_axis(), sketch.lanes
    extent = sketch.extent(axis)
    width = np.minimum(v["vectors"] * lanes, extent)
    tiles = -(-extent // width)
    used = extent / (tiles * (-(-width // lanes)) * lanes)
    rest = extent - (tiles - 1) * width
    used = np.maximum(
        used, extent / ((tiles - 1) * (-(-width // lanes)) * lanes + -(-rest // lanes) * lanes)
    )
    strides = [(a.stride(sketch.row_axis or "") or 0) * a.element_bytes for a in reads]
    steps = [(a.stride(sketch.k_axis or "") or 0) * a.element_bytes for a in reads]
    vectors = [a for a in reads if axis is not None and a.stride(axis) == 1]
    rows = [
        any(s * a.element_bytes % LINE for x, s in a.strides.items() if x != axis) for a in vectors
    ]
    turn = v["k_unroll"] * (BYTES_AT_ONCE if sketch.rule == "dots" else 1)
    deep = sketch.extent(sketch.k_axis)
    run = width * group.element_bytes * v["mid_v"]
    return {
        "depth_tail": (deep % turn) / deep,
        "last_lanes": 1.0 - used,
        "same_sets": sum(s > 0 and s % PAGE == 0 for s in strides) / max(1, len(reads)),
        "walks": float(sum(abs(s) >= PAGE for s in steps)),
        "crossing": sum(rows) / max(1, len(rows)),
        "run": _log(run),
    }


def _tail(extent: int, tile: IntArray) -> FloatArray:
    return (extent % tile) / extent


def _sizes(sketch: Sketch, v: Mapping[str, IntArray]) -> dict[str, IntArray]:
    """How far each tiled axis reaches in one register tile."""
    sizes: dict[str, IntArray] = {}
    if sketch.in_tiles and sketch.vector_axis is not None:
        wide = v["vectors"] * sketch.lanes
        sizes[sketch.vector_axis] = np.minimum(wide, sketch.extent(sketch.vector_axis))
    if sketch.row_axis is not None:
        sizes[sketch.row_axis] = np.minimum(v["rows"], sketch.extent(sketch.row_axis))
    if sketch.row_axis2 is not None:
        sizes[sketch.row_axis2] = np.minimum(v["rows2"], sketch.extent(sketch.row_axis2))
    return sizes


def _inner_loop(sketch: Sketch, v: Mapping[str, IntArray]) -> dict[str, FloatArray]:
    """The innermost loop of the main stage: loads, live registers, trips, modelled cycles."""
    group = sketch.group
    main = group.main
    axis = sketch.inner_axis()
    width = sketch.extent(axis)
    lanes = sketch.lanes
    reached = np.minimum(v["vectors"] * lanes, width)
    vectors = -(-reached // lanes)
    packed = {name for name, _ in sketch.packable}
    loads = np.zeros(len(reached))
    gathers = np.zeros(len(reached))
    live = np.zeros(len(reached))
    for access in group.accesses[main.name]:
        count = np.ones(len(reached))
        moves = axis is not None and access.depends(axis)
        if moves:
            count = count * vectors
        for row, knob in ((sketch.row_axis, "rows"), (sketch.row_axis2, "rows2")):
            if row is not None and access.depends(row):
                count = count * v[knob]
        rough = moves and access.stride(axis or "") not in (1, -1)
        if rough:
            smoothed = np.isin(v["pack"], PACKS_VECTORS) & (access.buffer in packed)
            gathers += np.where(smoothed, 0.0, count * lanes)
        loads += count
        live += vectors if moves else 1.0
    depth = 1
    for reduced in main.reduce_axes:
        depth *= as_int(reduced.extent)
    points = 1.0
    for name in group.shared:
        if name not in (axis, sketch.row_axis, sketch.row_axis2):
            points *= group.extents[name]
    tiles = (
        -(-width // np.maximum(1, reached))
        * -(-sketch.extent(sketch.row_axis) // v["rows"])
        * -(-sketch.extent(sketch.row_axis2) // v["rows2"])
    )
    steps = float(depth) if sketch.in_tiles else depth / max(1, width)
    chains = vectors * v["rows"] * v["rows2"]
    work = np.full(len(reached), max(1.0, expression_cost(main) / 2.0))
    if sketch.rule == "dots":  # four products of a lane at once, or sixteen in tile registers
        work = work / np.where(v["pack"] == 2, 4 * BYTES_AT_ONCE, BYTES_AT_ONCE)
    wanted = chains + np.minimum(live, vectors + 1)
    spilled = np.maximum(0.0, wanted - sketch.target.vector_registers)
    per_step = np.maximum(np.maximum(chains * work, (loads + gathers) * LOAD), LATENCY)
    per_step = per_step + spilled * SPILL + TURN / v["k_unroll"] / sketch.taps
    return {
        "loads": loads,
        "gathers": gathers,
        "live": np.minimum(live, vectors + 1.0),
        "trips": _inner_trips(sketch, v, axis, reached),
        "depth": np.full(len(reached), float(depth)),
        "waste": 1.0 - width / (-(-width // lanes) * lanes) * np.ones(len(reached)),
        "cycles": np.asarray(points * tiles * (steps * per_step + TILE), np.float64),
        "tiles": np.asarray(points * tiles, np.float64),
        "steps": np.full(len(reached), steps),
    }


def _inner_trips(
    sketch: Sketch, v: Mapping[str, IntArray], axis: str | None, reached: IntArray
) -> FloatArray:
    """Turns of the innermost reduced loop of the main stage with more than one turn, else 1."""
    main = sketch.group.main
    reduced = [a.name for a in main.reduce_axes]
    one = np.ones(len(v["rows"]), np.int64)
    loops: list[IntArray] = []
    if sketch.taps > 1:
        return one.astype(float)
    if sketch.rule == "lanes":
        others = [name for name in reduced if name != axis]
        loops += [one * sketch.extent(name) for name in others]
        if axis in reduced:
            loops.append(sketch.extent(axis) // np.maximum(1, reached))
    else:
        blocks = v["k_blocks"]
        loops.append(blocks)
        for name in reduced:
            chunk = -(-sketch.extent(name) // blocks)
            loops.append(
                chunk // v["k_unroll"] if name == sketch.k_axis else one * sketch.extent(name)
            )
    trips = one
    for turns in loops:
        trips = np.where(turns > 1, turns, trips)
    return trips.astype(float)


def _footprints(sketch: Sketch, v: Mapping[str, IntArray]) -> dict[str, FloatArray]:
    """Bytes touched by a register tile, a cache tile, and passes of the outer loops."""
    group = sketch.group
    reads = [a for found in group.accesses.values() for a in found]
    whole = {a: np.full(len(v["rows"]), e, np.int64) for a, e in group.extents.items()}
    tile = {a: np.ones(len(v["rows"]), np.int64) for a in group.shared}
    tile.update(_sizes(sketch, v))
    inner = {a: e for a, e in whole.items() if a not in group.shared}
    if sketch.k_axis in inner:
        inner[sketch.k_axis] = -(-inner[sketch.k_axis] // v["k_blocks"])
    register = {**tile, **inner}
    cache = dict(register)
    for axis, knob in ((sketch.vector_axis, "mid_v"), (sketch.row_axis, "mid_r")):
        if sketch.in_tiles and axis is not None:
            cache[axis] = np.minimum(cache[axis] * v[knob], whole[axis])
    order = v["order"] == 1
    panel, sweep = dict(cache), dict(cache)
    for axis, is_inner in ((sketch.row_axis, order), (sketch.vector_axis, ~order)):
        if axis is not None and axis in panel:
            panel[axis] = np.where(is_inner, whole[axis], panel[axis])
            sweep[axis] = whole[axis]
    pages = sum((_touched(a, register, PAGE) for a in reads), np.zeros(len(v["rows"]))) / PAGE
    return {
        "tile": _all_touched(reads, register),
        "cache": _all_touched(reads, cache),
        "panel": _all_touched(reads, panel),
        "sweep": _all_touched(reads, sweep),
        "pages": pages,
    }


def _all_touched(reads: list[Access], sizes: Mapping[str, IntArray]) -> FloatArray:
    total = sum((_touched(a, sizes, LINE) for a in reads), np.zeros(1))
    return np.asarray(total, np.float64)


def _touched(access: Access, sizes: Mapping[str, IntArray], unit: int) -> FloatArray:
    rough = np.zeros(max((len(s) for s in sizes.values()), default=1), np.bool_)
    return touched(access, sizes, unit, rough)


def _parallel(
    sketch: Sketch, v: Mapping[str, IntArray], threads: int
) -> tuple[FloatArray, FloatArray]:
    """Turns of the parallel loop, and turns per thread."""
    others = [sketch.extent(a) for a in sketch.outer_axes]
    n = len(v["rows"])
    columns: list[FloatArray] = [np.full(n, float(e)) for e in others]
    rows: list[FloatArray] = []
    if sketch.row_axis2 is not None:
        rows.append(np.ceil(sketch.extent(sketch.row_axis2) / v["rows2"]))
    if sketch.row_axis is not None:
        rows.append(np.ceil(sketch.extent(sketch.row_axis) / (v["rows"] * v["mid_r"])))
    if sketch.in_tiles:
        tile = v["vectors"] * sketch.lanes * v["mid_v"]
        wide = np.ceil(sketch.extent(sketch.vector_axis) / tile)
        outer = v["order"] == 1
        columns.append(np.where(outer, wide, rows[0] if rows else wide))
        for place, row in enumerate(rows):
            after = rows[place + 1] if place + 1 < len(rows) else wide
            columns.append(np.where(outer, row, after))
    else:
        columns += rows
    trips = np.ones(n)
    for depth, column in enumerate(columns):
        trips = np.where(v["parallel"] > depth, trips * column, trips)
    return trips, trips / threads
