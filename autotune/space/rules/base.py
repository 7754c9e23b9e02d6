"""What several rules do alike: steps, tables of values, costs, and how many loops are shared."""

from __future__ import annotations

from math import prod

import numpy as np

from ....codegen.target import Target
from ....ir.schedule.packing import copy_steps, pack_of
from ....ir.schedule.steps import Step, fuse, parallel, split, stream
from ..analysis import Access, Group
from ..sketch import Sketch
from ..tiling import Choices, Tiling

__all__ = [
    "MAX_PARALLEL",
    "described",
    "parallel_depth",
    "pack_steps",
    "parallel_steps",
    "rough_cost",
    "split_step",
    "stream_choice",
    "stream_choices",
    "stream_steps",
    "tail",
    "up_to",
]

MAX_PARALLEL = 4
COPIED_ROWS = 16  # rows of a panel copied in a row: a cache line of 4-byte elements
SHARED_COPY = 1 << 15  # elements of an operand that several threads pack
PARALLEL_SECONDS = 8e-6  # work shorter than this is not worth waking a thread for
TYPICAL_BYTES = 4e10  # a second written by one thread, and as many read
TYPICAL_FLOPS = 2e10  # of one thread on plain code; only to tell microseconds from milliseconds


def described(rule: str, tiling: Tiling, cost: float = 0.0) -> Sketch:
    """The sketch of a rule whose tiling builds its schedules."""
    name = f"{rule}.{tiling.vector_axis or 'k'}"
    return Sketch(name, tiling.build, **tiling.knobs).described(tiling, cost)


def parallel_depth(tiling: Tiling, choices: Choices) -> int:
    """How many outer loops to fuse so that every thread has a few iterations; 0 for work of a few
    microseconds."""
    group = tiling.group
    seconds = group.flops / TYPICAL_FLOPS, group.output_bytes / TYPICAL_BYTES
    if max(seconds) < PARALLEL_SECONDS:
        return 0
    values = tiling.values({name: np.array([value]) for name, value in choices.items()}, 1)
    depth, total = 0, 1
    for depth, trips in enumerate(tiling.outer_trips(values), 1):
        total *= int(trips[0])
        if total >= 4 * tiling.target.cores or depth == tiling.knobs["parallel"][-1]:
            break
    return depth if total > 1 else 0


def stream_choice(tiling: Tiling) -> int:
    """Non-temporal stores for results that are larger than all caches."""
    return tiling.knobs["stream"][-1] if tiling.group.output_bytes > tiling.target.l3 else 0


def tail(extent: int, tile: int) -> list[tuple[int, int]]:
    """(count, size) of the tiles along an axis: the whole ones, and the rest if there is one."""
    full, rest = divmod(extent, tile)
    return [(n, size) for n, size in ((full, tile), (1 if rest else 0, rest)) if n]


def up_to(limit: int, values: tuple[int, ...]) -> tuple[int, ...]:
    """The values not above ``limit``; 1 if there are none."""
    return tuple(v for v in values if v <= limit) or (1,)


def split_step(axis: str, extent: int, *inner: int) -> Step:
    """A split of ``axis`` into loops of these inner sizes, with as many turns as it takes."""
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
    copies = () if constant else copy_steps(pack_of(group.prim, step), COPIED_ROWS, SHARED_COPY)
    return [step, *copies]


def stream_steps(group: Group, wanted: int) -> list[Step]:
    """The results of the group stored past the caches, if ``wanted``."""
    outputs = [s.name for s in group.stages if s.name in group.prim.outputs]
    return [stream(name) for name in outputs] if wanted else []


def stream_choices(group: Group, target: Target) -> tuple[int, ...]:
    """Storing past the caches is on offer for results that no near cache holds."""
    return (0, 1) if group.output_bytes >= 2 * target.l2 else (0,)


def rough_cost(reads: tuple[Access, ...], axis: str | None, points: float) -> float:
    """Cost of the reads of a stage whose vectors run along ``axis``."""
    cost = 0.0
    for a in reads:
        step = a.stride(axis) if axis is not None else 0
        cost += points * (0.1 if step == 0 else 0.2 if step in (1, -1) else 3.0)
    return cost
