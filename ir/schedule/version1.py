"""Steps that schedules of version 1 implied. Nothing here may change: the logs of users hold such
schedules, and they must keep the meaning with which they were measured.

``pack`` of an operand that was not a constant arranged the loops of its copy by itself, and no step
could annotate, split or fuse the loop over the elements of a panel, which was vectorized. So a
schedule in which a step does that is of version 2 and complete; the steps are added to any other.

There was no ``tensorize``: every loop that matched an instruction was run by it. So it is in
schedules without such a step.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dtype import INT32
from ..loop.intrinsics import DOTS
from ..loop.kinds import Instruction, LoopKind
from ..loop.nest import Intrinsic, Nest, chain, statements
from ..loop.pack import SHIFTED
from ..loop.prim import PrimFunc
from .packing import copy_steps
from .schedule import Schedule, Step
from .state import State
from .tensorize import tensorize

COPIED_ROWS = 16  # rows copied of one panel before the next: a cache line of 4-byte elements
SHARED_COPY = 1 << 15  # elements of an operand that several threads pack
SAYING = ("vectorize", "unroll", "parallel", "split", "fuse")


def unsaid_copy(state: State, step: Step, later: Sequence[Step]) -> list[Step]:
    """Returns the steps on the copy that ``step`` has made, if no step of ``later`` is on it."""
    if step.name not in ("pack", "pack_grouped"):
        return []
    made = state.packs[f"{step.args[0]}.packed"]
    stages = {stage.name for stage in state.prim.stages}
    lanes = f"{made.stage.name}.i"
    if made.stage.name not in stages or any(s.name in SAYING and _names(s, lanes) for s in later):
        return []
    return copy_steps(made, COPIED_ROWS, SHARED_COPY)


def multiplies_bytes(prim: PrimFunc) -> bool:
    """False if no loop of ``prim`` can match an instruction for products of bytes."""
    dtypes = {buffer.dtype for buffer in prim.buffers.values()}
    return INT32 in dtypes and not dtypes.isdisjoint(SHIFTED)


def with_instructions(schedule: Schedule, nest: Nest) -> Schedule:
    """Returns the schedule with a ``tensorize`` after each step that annotates a loop of an
    intrinsic of its nest."""
    loops: dict[str, Step] = {}
    for stmt in statements(nest.body):
        if isinstance(stmt, Intrinsic) and stmt.instruction in DOTS:
            loops[stmt.var] = tensorize(stmt.var, str(stmt.instruction))
        elif isinstance(stmt, Intrinsic) and stmt.instruction == Instruction.AMX_DOT:
            column = next(loop for loop in chain(stmt)[0] if loop.kind == LoopKind.VECTORIZE)
            loops[column.var] = tensorize(column.var, "amx")
    steps: list[Step] = []
    for step in schedule.steps:
        steps.append(step)
        if step.name in ("vectorize", "unroll") and step.args[0] in loops:
            steps.append(loops[step.args[0]])
    return Schedule(tuple(steps))


def _names(step: Step, axis: str) -> bool:
    """True if a step is on a loop of an axis."""
    loops = step.args[0] if step.name == "fuse" else step.args[:1]
    return any(loop == axis or loop.startswith(f"{axis}.") for loop in loops)
