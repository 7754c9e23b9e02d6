"""Bytes that a nest touches and moves between the levels of memory, for whole populations.

From the innermost loop to the outermost, ``reach`` is what the loops so far touch in whole cache
lines. The largest part of the nest whose data a cache holds is run through once from there; what is
read in it comes from the next level in every iteration of the loops around it, but for operands
that the first of them does not move (McKinley, Carr and Tseng, TOPLAS 1996, with capacities).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np
import numpy.typing as npt

from ...codegen.core import core_of
from ...codegen.target import CACHE_LINE, Target
from ...ir.dataclass import dataclass
from ...ir.dims import as_int
from ...ir.loop.prim import Stage
from .analysis import Access
from .loop_arrays import LoopArrays
from .settings import FEATURES

__all__ = ["NestTraffic", "nest_traffic", "operands_of", "set_conflicts"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NestTraffic:
    """Bytes, float64[n]: what all cores move into L1 (``l1``), into L2 (``l2``) and from memory
    (``l3``) in one call; ``reach`` float64[slots + 1, n] what the loops from each slot on touch,
    the last row what one iteration of the innermost one does."""

    l1: FloatArray
    l2: FloatArray
    l3: FloatArray
    reach: FloatArray


def operands_of(
    arrays: LoopArrays, stages: Sequence[Stage], accesses: Sequence[Sequence[Access]]
) -> list[Access]:
    """Returns all reads of a nest's stages, each once, and the results that it stores."""
    operands = {a.buffer + str(sorted(a.strides.items())): a for reads in accesses for a in reads}
    for stage in stages:
        if stage.name not in arrays.prim.outputs:
            continue
        step, strides = 1, dict[str, int]()
        for axis in reversed(stage.axes):
            strides[axis.name] = step
            step *= as_int(axis.extent)
        size = as_int(stage.buffer.size)
        operands[f"{stage.name}="] = Access(
            stage.name, stage.buffer.dtype.bytes, strides, frozenset(), size
        )
    return list(operands.values())


def nest_traffic(
    arrays: LoopArrays, stages: Sequence[Stage], operands: Sequence[Access], target: Target
) -> NestTraffic:
    """Returns the traffic of one nest of the PrimFunc."""
    n = arrays.count
    zero = np.zeros(n)
    if not operands:
        return NestTraffic(zero, zero, zero, np.zeros((len(arrays.axes) + 1, n)))
    extents = {a.name: as_int(a.extent) for s in stages for a in (*s.axes, *s.reduce_axes)}
    packed = [_packed(arrays, a.buffer) for a in operands]
    sizes: dict[str, IntArray] = {a: np.ones(n, np.int64) for a in extents}
    touched = np.stack([_touched(a, sizes, p, n) for a, p in zip(operands, packed)])
    rooms = {"l1": target.l1, "l2": target.l2, "l3": target.l3}
    part = {level: touched.copy() for level in rooms}
    inside = {level: np.ones(n, np.bool_) for level in rooms}
    repeats = {level: np.ones((len(operands), n)) for level in rooms}
    reach = np.empty((len(arrays.axes) + 1, n))
    reach[-1] = total = touched.sum(axis=0)
    for slot in range(len(arrays.axes) - 1, -1, -1):
        axis, trips = arrays.axes[slot], arrays.extent[slot]
        reach[slot] = total
        if axis not in extents or not (trips > 1).any():
            continue
        sizes[axis] = np.minimum(sizes[axis] * trips, extents[axis])
        moves = np.array([a.depends(axis) for a in operands])
        touched = touched.copy()
        for place, operand in enumerate(operands):
            if moves[place]:
                touched[place] = _touched(operand, sizes, packed[place], n)
        reach[slot] = total = touched.sum(axis=0)
        many, stays = trips > 1, ~moves[:, None]
        for level, room in rooms.items():
            was = inside[level]
            fits = was & (total <= room)
            leaves = was & ~fits & many
            # The first loop that no longer fits leaves alone what it does not move.
            first = np.where((stays & leaves) | fits, 1.0, trips)
            repeats[level] *= first
            part[level] = np.where(fits, touched, part[level])
            inside[level] = fits | (was & ~many)
    moved = {level: (part[level] * repeats[level]).sum(axis=0) for level in rooms}
    for level, value in moved.items():
        moved[level] = np.where(inside[level], value * FEATURES.warm, value)
    return NestTraffic(moved["l1"], moved["l2"], moved["l3"], reach)


def _packed(arrays: LoopArrays, buffer: str) -> npt.NDArray[np.bool_]:
    """True for rows that read an operand from panels."""
    packed = np.zeros(arrays.count, np.bool_)
    for panels in arrays.panels.get(buffer, ()):
        packed |= panels.tile > 0
    return packed


def _touched(
    access: Access, sizes: dict[str, IntArray], packed: npt.NDArray[np.bool_], n: int
) -> FloatArray:
    """Returns the bytes of an operand reached within ``sizes``, in whole cache lines; panels lie in
    the order in which they are read."""
    count: FloatArray = np.ones(n)
    run: FloatArray = np.ones(n)
    for axis, size in sizes.items():
        if access.depends(axis):
            if access.stride(axis) == 1:
                run = run * size
            else:
                count = count * size
    element = access.element_bytes
    reached = count * np.ceil(run * element / CACHE_LINE) * CACHE_LINE
    if packed.any():
        close = np.ceil(count * run * element / CACHE_LINE) * CACHE_LINE
        reached = np.where(packed, close, reached)
    return np.minimum(reached, ceil(access.size * element / CACHE_LINE) * CACHE_LINE)


def set_conflicts(
    arrays: LoopArrays, stage: Stage, accesses: Sequence[Access], target: Target, outside: IntArray
) -> FloatArray:
    """Returns the lines of one operand that fall into one set of L1, over those a set keeps: of the
    worst operand and axis, counted over the loops inside of the first ``outside``, int64[n]."""
    core = core_of(target)
    worst = np.zeros(arrays.count)
    for axis in (*stage.axes, *stage.reduce_axes):
        reached = np.ones(arrays.count, np.int64)
        for slot in arrays.slots_of[axis.name]:
            reached = reached * np.where(slot >= outside, arrays.extent[slot], 1)
        reached = np.minimum(reached, as_int(axis.extent))
        for access in accesses:
            step = abs((access.stride(axis.name) or 0) * access.element_bytes)
            if step < CACHE_LINE:
                continue
            sets = max(1, core.page // max(CACHE_LINE, int(np.gcd(step, core.page))))
            lines = reached / np.minimum(sets, np.maximum(1, reached)) / core.l1_ways
            worst = np.maximum(worst, np.where(_packed(arrays, access.buffer), 0.0, lines))
    return worst
