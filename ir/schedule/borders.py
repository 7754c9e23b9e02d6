"""The primitive for the borders of images: taps outside are skipped, not multiplied with zeros.

``compute_inline`` brings the condition that a tap is inside to where the tap is used; ``peel``
gives separate bodies to the iterations in which it does not always hold. Taps that are then outside
are not accumulated, and the other iterations need no condition.
"""

from __future__ import annotations

from dataclasses import replace

from ..errors import ScheduleError
from ..loop.kinds import LoopKind
from .state import State

MAX_PEELED = 16  # iterations that one step peels


def peel(state: State, loop: str, first: int, last: int) -> State:
    """Give the first and the last iterations of a loop separate bodies, each with its number.

    ::

        for i in 8: s    =>    s[i := 0]; for i in 6: s[i := i + 1]; s[i := 7]

    Conditions that hold or fail except in these iterations, the borders of an image, are thereby
    decided in all of them. The remainder of the axis counts among the last iterations.
    """
    state.require_loop(loop, "peel")
    if loop in state.fused or loop in state.peels or first + last > MAX_PEELED:
        raise ScheduleError(f"peel: {loop} is fused, peeled, or peeled of more than {MAX_PEELED}")
    if state.kinds.get(loop) == LoopKind.VECTORIZE:
        raise ScheduleError(f"peel: {loop} runs in vector lanes")
    if any(state.is_reduction(s, loop) for s in state.prim.stages):
        raise ScheduleError(f"peel: {loop} is a reduced loop")
    return replace(state, peels={**state.peels, loop: (first, last)})
