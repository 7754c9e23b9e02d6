"""Parts of several rules: steps, tables of values, costs, and the depth of the parallel loop."""

from __future__ import annotations

from math import prod

import numpy as np

from ....codegen.target import Target
from ....ir.schedule.packing import copy_steps, pack_of
from ....ir.schedule.steps import Step, fuse, parallel, split, stream
from ..analysis import Access, Group
from ..settings import COSTS, SKETCHES
from ..sketch import Sketch
from ..tiling import Choices, Tiling

__all__ = [
    "described",
    "fused_depth",
    "least_repeats",
    "parallel_depth",
    "pack_steps",
    "parallel_steps",
    "rough_cost",
    "split_step",
    "non_temporal_choice",
    "non_temporal_choices",
    "non_temporal_steps",
    "tail",
    "up_to",
]


def described(rule: str, tiling: Tiling, cost: float = 0.0) -> Sketch:
    """The sketch of a rule whose tiling builds its schedules."""
    name = f"{rule}.{tiling.vector_axis or 'k'}"
    return Sketch(name, tiling.build, **tiling.knobs).described(tiling).ranked(cost)


def parallel_depth(tiling: Tiling, choices: Choices) -> int:
    """Returns how many outer loops to fuse so that every thread has a few iterations.

    0 for work of a few microseconds.
    """
    return fused_depth(tiling, choices) if least_repeats(tiling) <= 1 else 0


def least_repeats(tiling: Tiling) -> float:
    """Returns how many times the work of a group makes sharing it among threads worth while."""
    group = tiling.group
    seconds = (
        group.flops / tiling.core.flops_per_second,
        group.output_bytes / tiling.core.stored_per_second,
    )
    return tiling.core.wake_seconds / max(*seconds, 1e-12)


def fused_depth(tiling: Tiling, choices: Choices) -> int:
    """Returns how many outer loops to fuse so that every thread has a few iterations."""
    values = tiling.values({name: np.array([value]) for name, value in choices.items()}, 1)
    depth, total = 0, 1
    for depth, trips in enumerate(tiling.outer_trips(values), 1):
        total *= int(trips[0])
        if (
            total >= SKETCHES.iterations_per_core * tiling.target.cores
            or depth == tiling.knobs["parallel"][-1]
        ):
            break
    return depth if total > 1 else 0


def non_temporal_choice(tiling: Tiling) -> int:
    """Non-temporal stores for results that are larger than all caches."""
    return tiling.knobs["non_temporal"][-1] if tiling.group.output_bytes > tiling.target.l3 else 0


def tail(extent: int, tile: int) -> list[tuple[int, int]]:
    """(count, size) of the tiles along an axis: the whole ones, and the rest if there is one."""
    full, rest = divmod(extent, tile)
    return [(n, size) for n, size in ((full, tile), (1 if rest else 0, rest)) if n]


def up_to(limit: int, values: tuple[int, ...]) -> tuple[int, ...]:
    """The values not above ``limit``; 1 if there are none."""
    return tuple(v for v in values if v <= limit) or (1,)


def split_step(axis: str, extent: int, *inner: int) -> Step:
    """A split of ``axis`` into loops of these inner sizes, with as many iterations as it takes."""
    return split(axis, (max(1, -(-extent // prod(inner))), *inner))


def parallel_steps(outer: list[str], count: int) -> list[Step]:
    """The outermost ``count`` loops fused and shared among the threads."""
    count = min(count, len(outer))
    if count == 0:
        return []
    if count == 1:
        return [parallel(outer[0])]
    return [fuse(*outer[:count]), parallel("*".join(outer[:count]))]


def pack_steps(group: Group, step: Step) -> list[Step]:
    """The step that packs a parameter, and those that arrange its copy if it is not a constant."""
    constant = any(p.constant for p in group.prim.params if p.name == step.args[0])
    copies = (
        ()
        if constant
        else copy_steps(pack_of(group.prim, step), SKETCHES.copied_rows, SKETCHES.shared_copy)
    )
    return [step, *copies]


def non_temporal_steps(group: Group, wanted: int) -> list[Step]:
    """Returns the steps for non-temporal stores of the group's results, if ``wanted``."""
    outputs = [s.name for s in group.stages if s.name in group.prim.outputs]
    return [stream(name) for name in outputs] if wanted else []


def non_temporal_choices(group: Group, target: Target) -> tuple[int, ...]:
    """Returns the values of ``non_temporal``: both for results that L2 does not hold."""
    return (0, 1) if group.output_bytes >= SKETCHES.streamed_l2 * target.l2 else (0,)


def rough_cost(reads: tuple[Access, ...], axis: str | None, points: float) -> float:
    """Cost of the reads of a stage whose vectors run along ``axis``."""
    cost = 0.0
    for a in reads:
        step = a.stride(axis) if axis is not None else 0
        smooth = COSTS.contiguous if step in (1, -1) else COSTS.gathered
        cost += points * (COSTS.broadcast if step == 0 else smooth)
    return cost
