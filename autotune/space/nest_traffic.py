"""Bytes that a nest touches and moves between the levels of memory, for whole populations.

From the innermost loop to the outermost, ``reach`` is what the loops so far touch in whole cache
lines. The largest part of the nest whose data a cache holds is run through once from there; what is
read in it comes from the next level in every iteration of the loops around it, but for operands
that the first of them does not move (McKinley, Carr and Tseng, TOPLAS 1996, with capacities).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, gcd

import numpy as np
import numpy.typing as npt

from ...codegen.core import Core, core_of
from ...codegen.target import CACHE_LINE, Target
from ...ir.dataclass import dataclass
from ...ir.dims import as_int
from ...ir.loop.prim import Stage
from .analysis import Access
from .loop_arrays import LoopArrays
from .settings import FEATURES

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


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
    operand: Operand, packed: npt.NDArray[np.bool_], step: Mapping[str, IntArray], core: Core
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
    operand: Operand, packed: npt.NDArray[np.bool_], step: Mapping[str, IntArray], target: Target
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


def _packed(arrays: LoopArrays, buffer: str) -> npt.NDArray[np.bool_]:
    """True for rows that read an operand from panels."""
    packed = np.zeros(arrays.count, np.bool_)
    for panels in arrays.panels.get(buffer, ()):
        packed |= panels.tile > 0
    return packed


def _touched(
    access: Access, sizes: Mapping[str, IntArray], packed: npt.NDArray[np.bool_], n: int
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
