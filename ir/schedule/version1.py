"""What schedules of version 1 left unsaid, and what it stood for. Nothing here may change: the logs
of users hold such schedules, and they must mean what they meant when they were measured.

``pack`` of an operand that is no constant arranged the loops of its copy by itself, and no step
could annotate, split or fuse the loop over the elements of a panel, which was vectorized. So a
schedule in which a step does that is of version 2, and says all; in any other the steps are added.
"""

from __future__ import annotations

from collections.abc import Sequence

from .packing import copy_steps
from .state import State
from .steps import Step

__all__ = ["unsaid_copy"]

COPIED_ROWS = 16  # rows copied of one panel before the next: a cache line of 4-byte elements
SHARED_COPY = 1 << 15  # elements of an operand that several threads pack
SAYING = ("vectorize", "unroll", "parallel", "split", "fuse")


def unsaid_copy(state: State, step: Step, later: Sequence[Step]) -> list[Step]:
    """The steps on the copy that ``step`` has just made, if none of the ``later`` ones says how."""
    if step.name not in ("pack", "pack_grouped"):
        return []
    made = state.packs[f"{step.args[0]}.packed"]
    stages = {stage.name for stage in state.prim.stages}
    lanes = f"{made.stage.name}.i"
    if made.stage.name not in stages or any(s.name in SAYING and _names(s, lanes) for s in later):
        return []
    return copy_steps(made, COPIED_ROWS, SHARED_COPY)


def _names(step: Step, axis: str) -> bool:
    """True if a step is on a loop of an axis."""
    loops = step.args[0] if step.name == "fuse" else step.args[:1]
    return any(loop == axis or loop.startswith(f"{axis}.") for loop in loops)
