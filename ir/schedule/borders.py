"""Primitives for the borders of images: taps outside are skipped, not multiplied with zeros.

``unpad`` (or ``compute_inline``) brings the condition that a tap is inside to where the tap is
used; ``peel`` gives separate bodies to the iterations in which it does not always hold. Taps that
are then outside are not accumulated, and the other iterations need no condition.
"""

from __future__ import annotations

from dataclasses import replace

from ..dims import Dim, IntExpr, as_int, linear, symbol
from ..dtype import BOOL
from ..errors import ScheduleError
from ..loop.expr import (
    Const,
    Expr,
    Op,
    Read,
    index_value,
    map_reads,
    read,
    select,
    substitute_indices,
    walk,
)
from ..loop.kinds import LoopKind
from ..loop.prim import Axis, Stage
from .state import State

__all__ = ["peel", "unpad"]

MAX_PEELED = 16  # iterations that one step peels


def unpad(state: State, name: str) -> State:
    """Keep only what is inside of a padded stage: its readers test whether they are inside.

    ::

        t[i: 10] = where(1 <= i <= 8, x[i - 1], 0)
        out[i] = sum(k: 3) t[i + k]
    =>
        t[i: 8] = x[i]
        out[i] = sum(k: 3) where(1 <= i + k <= 8, t[i + k - 1], 0)

    A tap that is known to lie outside is then skipped: see ``peel``.
    """
    stage = state.require_stage(name, "unpad")
    if state.order != State.of(state.prim).order or state.splits or state.fused or state.packs:
        raise ScheduleError("unpad: must come before all steps on loops")
    if stage.combiner is not None or name in state.prim.outputs:
        raise ScheduleError(f"unpad: {name} is a reduction or an output")
    value = stage.expr
    if not isinstance(value, Op) or value.name != "where" or not isinstance(value.args[2], Const):
        raise ScheduleError(f"unpad: {name} is not padded with a constant")
    inside = _box(value.args[0], stage)
    moved: dict[str, IntExpr | Expr] = {}
    axes: list[Axis] = []
    for axis in stage.axes:
        low, high = inside.get(axis.name, (0, as_int(axis.extent) - 1))
        if high < low:
            raise ScheduleError(f"unpad: nothing of {name} is inside")
        moved[axis.name] = symbol(axis.name) + low
        axes.append(Axis(axis.name, high - low + 1))
    buffer = replace(stage.buffer, shape=tuple(a.extent for a in axes))
    kept = Stage(buffer, tuple(axes), substitute_indices(value.args[1], moved))
    names = [a.name for a in stage.axes]

    # Readers take over the condition, on the indices they read at.
    def guarded(node: Read) -> Expr | None:
        if node.buffer != name:
            return None
        if len(node.plain_indices) < len(node.indices):
            raise ScheduleError(f"unpad: {name} is indexed by data")
        at = dict(zip(names, node.indices, strict=True))
        condition = substitute_indices(value.args[0], at)
        shifted = [
            i - inside[n][0] if n in inside and isinstance(i, int | Dim) else i
            for n, i in at.items()
        ]
        return select(condition, read(name, shifted, node.dtype), value.args[2])

    # The axes of the stage shrink, so no other stage may share them.
    users = {s.name for s in state.prim.stages for n in walk(s.expr) if _reads(n, name)}
    for other in state.prim.stages:
        shared = {a.name for a in (*other.axes, *other.reduce_axes)} & set(names)
        if other is not stage and shared:
            raise ScheduleError(f"unpad: {other.name} shares the axes of {name}")
    stages = tuple(
        kept
        if s is stage
        else replace(s, expr=map_reads(s.expr, guarded))
        if s.name in users
        else s
        for s in state.prim.stages
    )
    return replace(state, prim=replace(state.prim, stages=stages))


def _reads(node: Expr, name: str) -> bool:
    return isinstance(node, Read) and node.buffer == name


def _box(condition: Expr, stage: Stage) -> dict[str, tuple[int, int]]:
    """Returns the ranges of the axes that a conjunction of ``axis <= constant`` limits."""
    ranges = {a.name: (0, as_int(a.extent) - 1) for a in stage.axes}
    limited: set[str] = set()
    parts = [condition]
    while parts:
        part = parts.pop()
        if isinstance(part, Op) and part.name == "logical_and":
            parts += part.args
            continue
        sides = [index_value(a) for a in part.args] if isinstance(part, Op) else []
        if part.dtype != BOOL or len(sides) != 2 or sides[0] is None or sides[1] is None:
            raise ScheduleError(f"unpad: {condition} is not a box")
        assert isinstance(part, Op)
        difference = linear(sides[0] - sides[1])
        if part.name != "less_equal" or difference is None or len(difference[0]) != 1:
            raise ScheduleError(f"unpad: {condition} is not a box")
        ((name, step),), constant = difference[0].items(), difference[1]
        if name not in ranges or step not in (1, -1):
            raise ScheduleError(f"unpad: {condition} is not a box")
        low, high = ranges[name]
        ranges[name] = (low, min(high, -constant)) if step == 1 else (max(low, constant), high)
        limited.add(name)
    return {name: ranges[name] for name in limited}


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
