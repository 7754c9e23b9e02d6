"""Parts of several rules: steps, tables of values, and the depth of the parallel loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate
from math import prod
from operator import mul

from ....codegen.target import CACHE_LINE, Target
from ....ir.dims import as_int
from ....ir.schedule.columns import Column, least, most, when
from ....ir.schedule.packing import copy_steps, pack_of
from ....ir.schedule.steps import Step, fuse, parallel, rfactor, split, stream, vectorize
from ..analysis import Group
from ..settings import SKETCHES
from ..tiling import Choices, Tiling, axis_of


def parallel_depth(tiling: Tiling, choices: Choices) -> int:
    """Returns how many outer loops to fuse so that every thread has a few iterations.

    0 for work of a few microseconds.
    """
    return fused_depth(tiling, choices) if least_repeats(tiling) <= 1 else 0


def shared_and_stored(tiling: Tiling, c: Choices) -> dict[str, int]:
    """Returns choices with the loops that threads share, and how results are stored."""
    return {**c, "parallel": parallel_depth(tiling, c), "non_temporal": non_temporal_choice(tiling)}


def least_repeats(tiling: Tiling) -> float:
    """Returns how many times the work of a group makes sharing it among threads worth while."""
    group, core = tiling.group, tiling.core
    seconds = group.flops / core.flops_per_second, group.output_bytes / core.stored_per_second
    return core.wake_seconds / max(*seconds, 1e-12)


def fused_depth(tiling: Tiling, choices: Choices) -> int:
    """Returns how many outer loops to fuse so that every thread has a few iterations."""
    steps = tiling.build(**{**choices, "parallel": tiling.knobs["parallel"][-1]})
    totals = list(accumulate(shared_trips(steps, tiling.group.extents), mul))
    cores = tiling.target.cores
    even = (
        depth
        for depth, total in enumerate(totals, 1)
        if total >= SKETCHES.iterations_per_core * cores
        and -(-total // cores) * cores <= SKETCHES.uneven * total
    )
    depth = next(even, len(totals))
    return depth if totals and totals[depth - 1] > 1 else 0


def shared_trips(steps: Iterable[Step], extents: Mapping[str, int]) -> list[int]:
    """Returns the iterations of each loop that is shared among the threads, outermost first, for
    these extents of the axes. Loops of axes that are not among them are those of copies."""
    inner = {s.args[0]: s.args[1][1:] for s in steps if s.name == "split"}
    for step in steps:
        loops = step.args[0].split("*") if step.name == "parallel" else []
        trips: list[int] = []
        for loop in loops:
            axis = axis_of(loop)
            blocks, extent = inner.get(axis, ()), extents.get(axis)
            if extent is None:
                break
            number = int(loop.rpartition(".")[2]) if axis in inner else 0
            trips.append(blocks[number - 1] if number else -(-extent // prod(blocks)))
        if trips and len(trips) == len(loops):
            return trips
    return []


def non_temporal_choice(tiling: Tiling) -> int:
    """Non-temporal stores for results that take much of the last-level cache, or more than a core's
    part of it: who reads them next finds few of them there. Their rows are whole lines: what two
    stores write leaves in parts, which takes twice as long."""
    group, target = tiling.group, tiling.target
    buffers = [s.buffer for s in group.stages if s.name in group.prim.outputs]
    rows = [as_int(b.shape[-1]) * b.dtype.bytes for b in buffers if len(b.shape) > 1]
    most = min(target.l3 * SKETCHES.streamed_l3, target.l2 * SKETCHES.large_l2)
    is_large = group.output_bytes > most and not any(row % CACHE_LINE for row in rows)
    return tiling.knobs["non_temporal"][-1] if is_large else 0


def up_to(limit: int, values: tuple[int, ...]) -> tuple[int, ...]:
    """The values not above ``limit``; 1 if there are none."""
    return tuple(v for v in values if v <= limit) or (1,)


def split_step(axis: str, extent: int, *inner: int) -> Step:
    """A split of ``axis`` into loops of these inner sizes, with as many iterations as it takes."""
    return split(axis, (most(1, -(-extent // prod(inner))), *inner))


def lane_sum_steps(name: str, axis: str, extent: int, width: int) -> list[Step]:
    """The steps that add up along ``axis`` in vectors of ``width`` elements at most."""
    lanes = f"{axis}.1"
    return [split_step(axis, extent, min(width, extent)), rfactor(name, lanes), vectorize(lanes)]


def parallel_steps(outer: list[str], count: int) -> list[Step]:
    """The outermost ``count`` loops fused and shared among the threads."""
    count = least(count, len(outer))
    steps = when(count == 1, *map(parallel, outer[:1]))
    for depth in range(2, len(outer) + 1):
        steps += when(count == depth, fuse(*outer[:depth]), parallel("*".join(outer[:depth])))
    return steps


def pack_steps(group: Group, step: Step) -> list[Step]:
    """The step that packs a parameter, and those that arrange its copy if it is not a constant."""
    constant = any(p.constant for p in group.prim.params if p.name == step.args[0])
    if constant or isinstance(step.args[2], Column):  # of many schedules: how they copy is the same
        return [step]
    copies = copy_steps(pack_of(group.prim, step), SKETCHES.copied_rows, SKETCHES.shared_copy)
    return [step, *copies]


def non_temporal_steps(group: Group, wanted: int) -> list[Step]:
    """Returns the steps for non-temporal stores of the group's results, if ``wanted``, but of those
    that it reads back: they would come from memory."""
    read = {a.buffer for accesses in group.accesses.values() for a in accesses}
    outputs = [s.name for s in group.stages if s.name in {*group.prim.outputs} - read]
    return when(wanted, *map(stream, outputs))


def non_temporal_choices(group: Group, target: Target) -> tuple[int, ...]:
    """Returns the values of ``non_temporal``: both for results that L2 does not hold."""
    return (0, 1) if group.output_bytes >= SKETCHES.streamed_l2 * target.l2 else (0,)
