"""The bytes and pages that parts of a nest touch, for whole populations from the arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ...codegen.target import CACHE_LINE
from .analysis import Access
from .tiling import Tiling
from .traffic_features import touched

__all__ = ["footprints"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def footprints(tiling: Tiling, v: Mapping[str, IntArray]) -> dict[str, FloatArray]:
    """Bytes touched by a register tile, a cache tile, and passes of the outer loops."""
    group = tiling.group
    reads = [a for accesses in group.accesses.values() for a in accesses]
    whole = {a: np.full(len(v["rows"]), e, np.int64) for a, e in group.extents.items()}
    tile = {a: np.ones(len(v["rows"]), np.int64) for a in group.shared}
    tile.update(_sizes(tiling, v))
    inner = {a: e for a, e in whole.items() if a not in group.shared}
    if tiling.k_axis in inner:
        inner[tiling.k_axis] = -(-inner[tiling.k_axis] // v["k_blocks"])
    register = {**tile, **inner}
    cache = dict(register)
    for axis, knob in ((tiling.vector_axis, "cache_vectors"), (tiling.row_axis, "cache_rows")):
        if tiling.in_tiles and axis is not None:
            cache[axis] = np.minimum(cache[axis] * v[knob], whole[axis])
    order = v["vectors_outer"] == 1
    panel, sweep = dict(cache), dict(cache)
    for axis, is_inner in ((tiling.row_axis, order), (tiling.vector_axis, ~order)):
        if axis is not None and axis in panel:
            panel[axis] = np.where(is_inner, whole[axis], panel[axis])
            sweep[axis] = whole[axis]
    pages = (
        sum((_touched(a, register, tiling.core.page) for a in reads), np.zeros(len(v["rows"])))
        / tiling.core.page
    )
    return {
        "tile": _all_touched(reads, register),
        "cache": _all_touched(reads, cache),
        "panel": _all_touched(reads, panel),
        "sweep": _all_touched(reads, sweep),
        "pages": pages,
    }


def _all_touched(reads: list[Access], sizes: Mapping[str, IntArray]) -> FloatArray:
    total = sum((_touched(a, sizes, CACHE_LINE) for a in reads), np.zeros(1))
    return np.asarray(total, np.float64)


def _touched(access: Access, sizes: Mapping[str, IntArray], unit: int) -> FloatArray:
    rough = np.zeros(max((len(s) for s in sizes.values()), default=1), np.bool_)
    return touched(access, sizes, unit, rough)


def _sizes(tiling: Tiling, v: Mapping[str, IntArray]) -> dict[str, IntArray]:
    """Steps of each tiled axis in one register tile."""
    sizes: dict[str, IntArray] = {}
    if tiling.in_tiles and tiling.vector_axis is not None:
        wide = v["vectors"] * tiling.lanes
        sizes[tiling.vector_axis] = np.minimum(wide, tiling.extent(tiling.vector_axis))
    if tiling.row_axis is not None:
        sizes[tiling.row_axis] = np.minimum(v["rows"], tiling.extent(tiling.row_axis))
    if tiling.second_row_axis is not None:
        sizes[tiling.second_row_axis] = np.minimum(
            v["second_rows"], tiling.extent(tiling.second_row_axis)
        )
    return sizes
