"""The default schedule of a kernel with symbolic sizes: that of the typical ones, and the same on
one thread for sizes of too little work to be shared.

::

    n <= 40:    split('i', (1, 1, 8)); ...                       the same code, its parallel loop
    otherwise:  split('i', (1, 1, 8)); ...; parallel('i.0')      run by the caller
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import accumulate
from operator import mul

from ...codegen.target import Target
from ...ir.dims import as_int, bounds
from ...ir.loop.prim import PrimFunc
from ...ir.schedule.cases import Cases, on_one_thread
from ...ir.schedule.steps import Schedule
from ..ranges import decided_by, fitted, point_of, specialised, typical_point, value_at
from ..space.rules.base import fused_depth, least_repeats, shared_trips
from ..space.settings import SKETCHES
from ..space.sketch import AnySketch
from ..space.space import ScheduleSpace, default_choices, is_legal, plain_schedule
from ..space.tiling import Choices
from ..space.variant import Variant


def default_cases(
    prim: PrimFunc, target: Target, refused: Collection[Schedule | Cases] = ()
) -> tuple[Schedule | Cases, str]:
    """Returns the first default of a PrimFunc that is not ``refused``, and its sketch; the plain
    nest where there is none. Without symbolic sizes it is ``default_variant``'s."""
    for schedule, variant, choices in default_choices(prim, target):
        for offer in _offers(prim, target, schedule, variant, choices):
            if offer not in refused:
                return offer, variant.name
    return plain_schedule(prim, target), "plain"


def for_all_sizes(
    prim: PrimFunc, target: Target, threads: int, schedule: Schedule
) -> Schedule | Cases | None:
    """Returns a schedule for the typical sizes as one for all of them, None if it is not legal."""
    space = ScheduleSpace(specialised(prim, typical_point(prim)), target, threads)
    row, whole = space.row_of(schedule), fitted(schedule, prim)
    if not is_legal(prim, whole, target):
        return None
    if row is None:
        return whole
    return next(_offers(prim, target, whole, space.variants[int(row[0])], space.choices(row)))


def _offers(
    prim: PrimFunc, target: Target, schedule: Schedule, variant: Variant, choices: Choices
) -> Iterator[Schedule | Cases]:
    """Yields a schedule for small and for large sizes, then the schedule itself."""
    tiling, whole = variant.tiling, bounds(decided_by(prim), {}) if prim.sizes else None
    if tiling is not None and whole is not None and "parallel" in tiling.knobs:
        # Work grows with the sizes; it is shared from where that pays.
        at_most = int(value_at(prim, typical_point(prim)) * least_repeats(tiling))
        depth = max(
            choices["parallel"] or fused_depth(tiling, choices),
            _least_depth(prim, target, variant.sketch, choices),
        )
        others = [_shared_at_least(prim, target, other) for other in variant.others]
        wanted = _in_caches(prim, {**choices, "parallel": depth})
        shared = fitted(variant.schedule(wanted, others), prim)
        if depth and at_most < whole[1] and is_legal(prim, shared, target):
            if at_most <= whole[0]:
                yield shared
            else:
                yield Cases(decided_by(prim), ((at_most, on_one_thread(shared)),), shared)
    yield schedule


def _shared_at_least(prim: PrimFunc, target: Target, sketch: AnySketch) -> Choices:
    """Returns the default choices of a further group, shared at the least sizes as well."""
    choices = sketch.defaults[0]
    if choices.get("parallel"):
        depth = max(choices["parallel"], _least_depth(prim, target, sketch, choices))
        choices = {**choices, "parallel": depth}
    return _in_caches(prim, choices)


def _in_caches(prim: PrimFunc, choices: Choices) -> Choices:
    """Returns the choices without non-temporal stores where there are several sizes: with typical
    values of all, operands are far larger than most that the kernel meets."""
    several = len(prim.sizes) > 1 and "non_temporal" in choices
    return {**choices, "non_temporal": 0} if several else choices


def _least_depth(prim: PrimFunc, target: Target, sketch: AnySketch, choices: Choices) -> int:
    """Returns how many outer loops of a group to fuse to give every thread a few iterations at the
    least sizes: a batch of one image has to be shared as well."""
    most = sketch.schedule({**choices, "parallel": sketch.knobs["parallel"][-1]})
    least = specialised(prim, point_of(prim, 1))
    extents = {
        name: as_int(a.extent)
        for s in least.stages
        for a in s.axes
        for name in (a.name, f"{s.name}.{a.name}")  # the latter where stages are apart
    }
    totals = list(accumulate(shared_trips(most.steps, extents), mul))
    wanted = SKETCHES.least_per_core * target.cores
    return next((depth for depth, n in enumerate(totals, 1) if n >= wanted), len(totals))
