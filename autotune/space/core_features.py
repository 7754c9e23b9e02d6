"""Cycles of one core in one call, estimated for whole populations.

The steps of the main stage are counted tile by tile, the smaller tiles at the ends of the axes for
themselves. A step takes as long as the fullest of the core's units: arithmetic, loads, shuffles
(strided lanes are picked, inserted, or transposed in blocks, as the code generator does it),
the front end, or the latency of its chain. What does not fit the registers comes on top.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from ...codegen.emit.cover import MAX_WINDOWS, SPARSE_BLOCK
from ...codegen.target import CACHE_LINE
from ...ir.dims import as_int
from .analysis import Access, expression_cost
from .tiling import PACKS_VECTORS, Tiling

__all__ = ["core_features"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def core_features(tiling: Tiling, v: Mapping[str, IntArray]) -> dict[str, FloatArray]:
    """float64[n] for each name: ``cycles`` of all steps on one core, ``arithmetic``, ``loads``,
    ``shuffles``, ``latency`` and ``spilled`` of them as far as each unit alone would take,
    ``around`` for loops and tiles, ``tails`` those of smaller tiles; ``written``, instructions in
    the innermost loop; ``crowded``, lines that fall into one set of L1 over those it keeps."""
    n = len(v["rows"])
    main = tiling.group.main
    reduced = {a.name for a in main.reduce_axes}
    axis = tiling.inner_axis
    along_reduced = axis in reduced
    depth = float(np.prod([as_int(a.extent) for a in main.reduce_axes]))
    steps = depth / tiling.extent(axis) if along_reduced else depth
    points = 1.0
    for name in tiling.group.shared:
        if name not in (axis, tiling.row_axis, tiling.second_row_axis):
            points *= tiling.extent(name)
    units = ("arithmetic", "loads", "shuffles", "latency", "spilled", "loop", "tails", "cycles")
    totals: dict[str, FloatArray] = {name: np.zeros(n) for name in units}
    written: FloatArray = np.zeros(n)
    for whole, times, size, rows, second_rows in _tiles(tiling, v):
        one = _step(tiling, v, size, rows, second_rows)
        iteration = tiling.core.iteration / v["k_unroll"] / tiling.taps
        core = np.maximum.reduce(
            [one["arithmetic"], one["loads"], one["shuffles"], one["front"], one["latency"]]
        )
        spilled = one["spilled"] * tiling.core.spill
        tile = np.full(n, tiling.core.tile if depth > 1 else tiling.core.iteration)
        if along_reduced:  # the tiles along the vectors are steps, too: joined once at the end
            pieces = -(-tiling.extent(axis) // np.maximum(1, np.minimum(size, 1 << 40)))
            join = rows * second_rows * tiling.core.lane_join * np.log2(max(2, tiling.lanes))
            tile = np.where(times > 0, (tiling.core.tile + join) / np.maximum(1, pieces), 0.0)
        each = points * times
        total = each * (steps * (core + spilled + iteration) + tile)
        for name in ("arithmetic", "loads", "shuffles", "latency"):
            totals[name] += each * steps * one[name]
        totals["spilled"] += each * steps * spilled
        totals["loop"] += each * (steps * iteration + tile)
        totals["cycles"] += total
        if whole:
            written = np.where(times > 0, one["instructions"], written)
        else:
            totals["tails"] += total
            written = np.where(written == 0, one["instructions"], written)
    totals["instructions"] = written * v["k_unroll"] * tiling.taps
    totals["set_conflicts"] = _crowded(tiling, v)
    return totals


def _tiles(
    tiling: Tiling, v: Mapping[str, IntArray]
) -> Iterator[tuple[bool, IntArray, IntArray, IntArray, IntArray]]:
    """Kinds of register tiles: whether it is the whole one, how often it runs (within one point of
    the other axes), and its size along the vectors, rows and second rows."""
    n = len(v["rows"])
    parts: list[list[tuple[IntArray, IntArray]]] = []
    for axis, wanted in (
        (tiling.inner_axis, v["vectors"] * tiling.lanes),
        (tiling.row_axis, v["rows"]),
        (tiling.second_row_axis, v["second_rows"]),
    ):
        extent = np.full(n, tiling.extent(axis), np.int64)
        size = np.maximum(1, np.minimum(wanted, extent))
        rest = extent % size
        kinds = [(extent // size, size)]
        if rest.any():
            kinds.append(((rest > 0).astype(np.int64), rest))
        parts.append(kinds)
    for a, (n_v, size) in enumerate(parts[0]):
        for b, (n_r, rows) in enumerate(parts[1]):
            for c, (n_q, second_rows) in enumerate(parts[2]):
                yield not (a or b or c), n_v * n_r * n_q, size, rows, second_rows


def _step(
    tiling: Tiling, v: Mapping[str, IntArray], size: IntArray, rows: IntArray, second_rows: IntArray
) -> dict[str, FloatArray]:
    """One step of a tile: cycles of every unit, registers that are missing, instructions."""
    main = tiling.group.main
    lanes = tiling.lanes
    axis = tiling.inner_axis
    wide = -(-size // lanes)
    chains = (wide * rows * second_rows).astype(float)
    reads = tiling.group.accesses[main.name]
    packable = {name for name, _ in tiling.packable}
    packed = np.isin(v["pack"], PACKS_VECTORS)
    loads, shuffles, live = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows))
    for access in reads:
        count = np.ones(len(rows))
        for name, tile in ((tiling.row_axis, rows), (tiling.second_row_axis, second_rows)):
            if name is not None and access.depends(name):
                count = count * tile
        moves = axis is not None and access.lane_stride(axis, lanes) != 0
        if moves:
            count = count * wide
            load, shuffle = _vector(tiling, access, axis or "", rows, size)
            smooth = packed & (access.buffer in packable)
            loads += count * np.where(smooth, 1.0, load)
            shuffles += count * np.where(smooth, 0.0, shuffle)
        else:
            loads += count
        live += wide if moves and len(reads) > 1 else 1.0
    work = max(0.5, expression_cost(main) / 2.0)
    stores = np.zeros(len(rows))
    if main.combiner is None:
        stores = chains
        if main.axes and axis is not None and main.axes[-1].name != axis:
            run = rows if main.axes[-1].name == tiling.row_axis else second_rows
            blocks = chains / np.maximum(1, run)  # transposed in registers, as far as rows reach
            transposed = blocks * np.ceil(run / lanes) * lanes
            stores, shuffles = transposed, shuffles + transposed * np.log2(max(2, lanes))
    wanted = chains + np.minimum(live, wide + 1) if main.combiner is not None else live + work
    written = chains * 2 * work + loads + shuffles + stores
    latency = np.full(len(rows), tiling.core.fma_latency if main.combiner is not None else 0.0)
    return {
        "arithmetic": chains * work,
        "loads": loads / tiling.core.loads,
        "shuffles": shuffles / tiling.core.shuffles,
        "front": written / tiling.core.issue,
        "latency": latency,
        "spilled": np.maximum(0.0, wanted - tiling.target.vector_registers),
        "instructions": written,
    }


def _vector(
    tiling: Tiling, access: Access, axis: str, rows: IntArray, size: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Loads and shuffles that put one vector of an operand together."""
    lanes = tiling.lanes
    one, none = np.ones(len(rows)), np.zeros(len(rows))
    step = access.stride(axis)
    if step is None:
        return (2.0 * one, one) if axis in access.runs else (lanes * one, lanes * one)
    if step in (1, -1):
        return one, none if step == 1 else one
    if abs(step) <= MAX_WINDOWS:
        return float(abs(step)) * one, float(abs(step)) * one
    row = tiling.row_axis
    if row is None or access.stride(row) != 1:
        return lanes * one, lanes * one
    # A block of ``lanes`` rows of the operand is transposed: it gives as many vectors as fit.
    block = np.maximum(1, np.minimum(rows, lanes))
    transposed = block * np.minimum(size, lanes) * SPARSE_BLOCK >= lanes * lanes
    each = np.minimum(size, lanes) / block
    return (
        np.where(transposed, each, lanes),
        np.where(transposed, lanes * np.log2(max(2, lanes)) / block, lanes),
    )


def _crowded(tiling: Tiling, v: Mapping[str, IntArray]) -> FloatArray:
    """Returns the lines of one operand that fall into one set of L1, over those a set keeps.

    Counts the steps of one axis of a cache tile; the worst operand and axis."""
    worst = np.zeros(len(v["rows"]))
    packable = {name for name, _ in (*tiling.packable, *tiling.packable_rows)}
    reach: dict[str, IntArray] = {}
    axis = tiling.inner_axis
    for name, tile in (
        (axis, v["vectors"] * tiling.lanes * v["cache_vectors"]),
        (tiling.row_axis, v["rows"] * v["cache_rows"]),
        (tiling.second_row_axis, v["second_rows"]),
    ):
        if name is not None:
            reach[name] = np.minimum(tile, tiling.extent(name))
    for reduced in tiling.group.main.reduce_axes:
        whole = np.full(len(worst), as_int(reduced.extent), np.int64)
        if reduced.name == tiling.k_axis:
            whole = -(-whole // v["k_blocks"])
        reach.setdefault(reduced.name, whole)
    for access in tiling.group.accesses[tiling.group.main.name]:
        for name, count in reach.items():
            step = abs((access.stride(name) or 0) * access.element_bytes)
            if step < CACHE_LINE:
                continue
            sets = max(1, tiling.core.page // max(CACHE_LINE, int(np.gcd(step, tiling.core.page))))
            lines = count / np.minimum(sets, np.maximum(1, count)) / tiling.core.l1_ways
            if access.buffer in packable:
                lines = np.where(v["pack"] > 0, 0.0, lines)
            worst = np.maximum(worst, lines)
    return worst
