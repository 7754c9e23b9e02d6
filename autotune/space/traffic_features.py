"""Bytes moved between the levels of memory, estimated for whole populations.

The loops of a candidate are listed from the innermost to the outermost, with their iterations. The
largest part of the nest whose data a cache holds is run through once from there; what is read in it
comes from the next level in every iteration of the loops around it, but for operands that the first
of them does not move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

import numpy as np
import numpy.typing as npt

from ...codegen.target import CACHE_LINE
from ...ir.dims import as_int
from .analysis import Access, Group
from .settings import FEATURES
from .tiling import Tiling, own_axes, reduced_axes

__all__ = ["loops_of", "touched", "traffic_features"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Loop = tuple[str, IntArray]
"""An axis and the iterations int64[n] of one of its loops."""


def loops_of(tiling: Tiling, v: Mapping[str, IntArray]) -> list[Loop]:
    """The loops of the main stage, innermost first, as the rules order them."""
    one = np.ones(len(v["rows"]), np.int64)
    axis = tiling.inner_axis
    sizes: dict[str, IntArray] = {}
    if axis is not None:
        sizes[axis] = np.minimum(v["vectors"] * tiling.lanes, tiling.extent(axis)) * one
    for name, knob in ((tiling.row_axis, "rows"), (tiling.second_row_axis, "second_rows")):
        if name is not None:
            sizes[name] = np.minimum(v[knob], tiling.extent(name)) * one
    names = [a.name for a in (*tiling.group.main.axes, *tiling.group.main.reduce_axes)]
    names += [a for a in (*own_axes(tiling.group), *reduced_axes(tiling.group)) if a not in names]
    loops: list[Loop] = list(sizes.items())
    done = dict(sizes)

    def add(name: str | None, trips: IntArray | int) -> None:
        if name is not None:
            trips = np.minimum(trips, rest(name))  # a tile that is larger than the axis ends there
            loops.append((name, trips * one))
            done[name] = done.get(name, one) * trips

    def rest(name: str) -> IntArray:
        return -(-tiling.extent(name) // done.get(name, one))

    blocks = v["k_blocks"]
    inside = [a for a in names if a not in tiling.group.shared]
    for name in reversed(inside):
        whole = rest(name)
        add(name, -(-whole // blocks) if name == tiling.k_axis else whole)
    if tiling.in_tiles:
        _alternating(
            add,
            v["cache_vectors_outer"] == 1,
            [(tiling.row_axis, v["cache_rows"])],
            (axis, v["cache_vectors"]),
        )
        if tiling.k_axis is not None:
            add(tiling.k_axis, blocks)
    tiled = [a for a in (tiling.row_axis, tiling.second_row_axis) if a is not None]
    outer = [(a, rest(a)) for a in tiled]
    if axis is not None and axis in tiling.group.shared:
        _alternating(add, v["vectors_outer"] == 1, outer, (axis, rest(axis)))
    else:
        for name, trips in outer:
            add(name, trips)
    for name in reversed(tiling.group.shared):
        if name not in tiled and name != axis:
            add(name, rest(name))
    return loops


def _alternating(
    add: object,
    vectors_outside: npt.NDArray[np.bool_],
    rows: Sequence[tuple[str | None, IntArray]],
    vector: tuple[str | None, IntArray],
) -> None:
    """Loops over rows and vectors, of which one or the other stands inside: written twice, each
    time with the iterations of those candidates where it stands there."""
    assert callable(add)
    name, trips = vector
    add(name, np.where(vectors_outside, 1, trips))
    for row, count in rows:
        add(row, count)
    add(name, np.where(vectors_outside, trips, 1))


def _operands(group: Group) -> list[Access]:
    """All reads of the group's stages, and the results it stores."""
    operands = {
        a.buffer + str(sorted(a.strides.items())): a for r in group.accesses.values() for a in r
    }
    for stage in group.stages:
        if stage.name not in group.prim.outputs:
            continue
        step = 1
        strides: dict[str, int] = {}
        for axis in reversed(stage.axes):
            strides[axis.name] = step
            step *= as_int(axis.extent)
        size = as_int(stage.buffer.size)
        operands[f"{stage.name}="] = Access(
            stage.name, stage.buffer.dtype.bytes, strides, frozenset(), size
        )
    return list(operands.values())


def touched(
    access: Access, sizes: Mapping[str, IntArray], unit: int, smooth_anyway: npt.NDArray[np.bool_]
) -> FloatArray:
    """Returns the bytes of an operand reached within ``sizes``, in whole units (lines or pages).

    ``smooth_anyway``: the operand was packed in the order in which it is read.
    """
    count: FloatArray = np.ones(len(smooth_anyway))
    run: FloatArray = np.ones(1)
    for axis, size in sizes.items():
        if not access.depends(axis):
            continue
        if access.stride(axis) == 1:
            run = run * size
        else:
            count = count * size
    element = access.element_bytes
    reached = count * np.ceil(run * element / unit) * unit
    if smooth_anyway.any():
        close = np.ceil(count * run * element / unit) * unit
        reached = np.where(smooth_anyway, close, reached)
    return np.minimum(reached, ceil(access.size * element / unit) * unit)


def traffic_features(tiling: Tiling, v: Mapping[str, IntArray]) -> dict[str, FloatArray]:
    """Returns the bytes that all cores together move into L1 (``l1``), into L2 (``l2``) and from
    memory (``l3``) in one call, for each candidate."""
    n = len(v["rows"])
    target = tiling.target
    loops = loops_of(tiling, v)
    operands = _operands(tiling.group)
    if not operands:
        return {level: np.zeros(n) for level in ("l1", "l2", "l3")}
    names = {name for name, _ in (*tiling.packable, *tiling.packable_rows)}
    always = tiling.always_packed
    packed = [
        (v["pack"] > 0) & (a.buffer in names) | np.full(n, a.buffer in always) for a in operands
    ]
    sizes: dict[str, IntArray] = {a: np.ones(n, np.int64) for a in tiling.group.extents}
    reached = np.stack([touched(a, sizes, CACHE_LINE, p) for a, p in zip(operands, packed)])
    by_level = {level: reached.copy() for level in ("l1", "l2", "l3")}
    inside = {level: np.ones(n, np.bool_) for level in by_level}
    room = {"l1": target.l1, "l2": target.l2, "l3": target.l3}
    repeats = {level: np.ones((len(operands), n)) for level in by_level}
    for name, trips in loops:
        full = tiling.group.extents[name]
        sizes[name] = np.minimum(sizes[name] * trips, full)
        moved = [i for i, a in enumerate(operands) if a.depends(name)]
        reached = reached.copy()
        for i in moved:
            reached[i] = touched(operands[i], sizes, CACHE_LINE, packed[i])
        total = reached.sum(axis=0)
        stays = np.array([not a.depends(name) for a in operands])[:, None]
        for level, part in by_level.items():
            fits = inside[level] & (total <= room[level])
            leaves = inside[level] & ~fits & (trips > 1)
            # The first loop that no longer fits leaves alone what it does not move.
            first = np.where(stays & leaves, 1.0, np.where(inside[level] & fits, 1.0, trips))
            repeats[level] = repeats[level] * np.where(fits, 1.0, first)
            by_level[level] = np.where(fits, reached, part)
            inside[level] = fits | (inside[level] & (trips == 1))
    out: dict[str, FloatArray] = {}
    for level, part in by_level.items():
        moved_bytes = (part * repeats[level]).sum(axis=0)
        out[level] = np.where(inside[level], moved_bytes * FEATURES.warm, moved_bytes)
    return out
