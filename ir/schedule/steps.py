"""All schedule primitives, and the state after the steps that they make."""

from __future__ import annotations

from ..errors import ScheduleError
from ..loop.prim import PrimFunc
from .blockwise import blockwise
from .mirror import mirror
from .packing import pack, pack_grouped
from .panels import pack_at
from .prefetching import prefetch, prefetch_next
from .primitives import (
    cache_write,
    compute_at,
    compute_inline,
    cut,
    fuse,
    parallel,
    peel,
    reorder,
    rfactor,
    split,
    split_reduction,
    stream,
    unroll,
    vectorize,
)
from .schedule import Schedule, Step
from .skipping import skip
from .state import State
from .storage import cache_read, layout, own_axis
from .subtotal import subtotal
from .tensorize import shift_bytes, tensorize
from .version1 import unsaid_copy

# fmt: off
__all__ = [
    "Schedule", "Step", "blockwise", "cache_read", "cache_write", "compute_at", "compute_inline",
    "cut", "fuse", "layout", "mirror", "own_axis", "pack", "pack_at", "pack_grouped", "parallel",
    "peel", "prefetch", "prefetch_next", "reorder", "rfactor", "shift_bytes", "skip", "split",
    "split_reduction", "stream", "subtotal", "tensorize", "unroll", "vectorize",
]
# fmt: on


def state_of(prim: PrimFunc, schedule: Schedule) -> State:
    """Returns the state after all steps; raises ScheduleError, naming the illegal step."""
    return run_steps(prim, schedule)[0]


def run_steps(prim: PrimFunc, schedule: Schedule) -> tuple[State, Schedule]:
    """Returns the state after all steps, and the schedule with those that version 1 implied for
    packed operands. Raises as ``state_of``."""
    state, steps = State.of(prim), list[Step]()
    for number, step in enumerate(schedule.steps):
        try:
            state = step.apply(state)
            implied = unsaid_copy(state, step, schedule.steps[number + 1 :])
            for other in implied:
                state = other.apply(state)
        except ScheduleError as error:
            raise ScheduleError(f"step {number}, {step}: {error.message}") from None
        steps += [step, *implied]
    return state, Schedule(tuple(steps))
