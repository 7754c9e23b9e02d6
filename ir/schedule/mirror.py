"""``mirror``: one triangle of the blocks of a symmetric result is computed, and stored twice."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from ..dims import Dim, IntExpr
from ..dtype import BOOL
from ..errors import ScheduleError
from ..loop.decide import decide
from ..loop.expr import Expr, Read, const, index, map_reads
from ..loop.prim import Stage
from ..loop.symmetry import exchanged, symmetric_axes
from .state import Mirror, State
from .tree import Branch, Leaf

__all__ = ["check_mirrored", "compared", "mirror", "mirrored_stage"]


def mirror(state: State, name: str, loop: str) -> State:
    """Compute only blocks of a symmetric reduction on one side of the diagonal, and store each of
    them to the other side as well. ``loop`` is the innermost of the loops over blocks.

    ::

        for j.0: for i.0:                        for j.0: for i.0:
          t.acc[..] = 0.0                          if i.0 - j.0 <= 0:
          for k: t.acc[i, j] += ..         =>        t.acc[..] = 0.0
          for i.1: for j.1:                          for k: t.acc[i, j] += ..
            out[i, j] = t.acc[i, j] * s[j]           for i.1: for j.1:
                                                       out[i, j] = t.acc[i, j] * s[j]
                                                     if i.0 - j.0 < 0:
                                                       for i.1: for j.1:
                                                         out[j, i] = t.acc[i, j] * s[i]

    Blocks must be squares, so that the mirror image of a block is one. Maps that follow need not be
    symmetric: they are computed for both sides.
    """
    stage = state.require_stage(name, "mirror")
    state.require_loop(loop, "mirror")
    axes = symmetric_axes(stage)
    if axes is None:
        raise ScheduleError(f"mirror: {name} is not symmetric")
    if state.mirrors:
        raise ScheduleError("mirror: a stage is mirrored already")
    if not set(axes) & {state.axis_of(part) for part in state.parts(loop)}:
        raise ScheduleError(f"mirror: {loop} walks neither {axes[0]} nor {axes[1]}")
    if any(axis in state.cuts or axis in state.peels for axis in axes):
        raise ScheduleError(f"mirror: {axes[0]} or {axes[1]} is in pieces")
    return replace(state, mirrors={loop: Mirror(name, axes)})


def check_mirrored(
    state: State,
    branch: Branch,
    found: Mirror,
    values: Mapping[str, IntExpr],
    private: Container[str],
) -> None:
    """ScheduleError unless the body of ``branch`` is a square block of the mirrored stage, followed
    by maps whose values leave the kernel. ``private`` are buffers that live around the branch."""
    around = [[l for l in state.loops_of_axis(axis) if l in values] for axis in found.axes]
    sizes = [state.block(loops[-1]) if loops else 0 for loops in around]
    if sizes[0] != sizes[1] or not sizes[0]:
        raise ScheduleError(f"mirror: the blocks in {branch.loop} are not squares")
    if any(axis in state.cuts or axis in state.peels for axis in found.axes):
        raise ScheduleError(f"mirror: {found.axes[0]} or {found.axes[1]} is in pieces")
    stages = _stages(branch)
    if found.stage not in {s.name for s in stages} or found.stage in private:
        raise ScheduleError(f"mirror: {found.stage} is not computed in {branch.loop}")
    for stage in stages:
        stored = stage.combiner is None and stage.name in state.prim.outputs
        both = set(found.axes) <= {a.name for a in stage.axes}
        if stage.name != found.stage and not (stored and both):
            raise ScheduleError(f"mirror: {stage.name} would be computed for one side only")


def _stages(branch: Branch) -> list[Stage]:
    found: list[Stage] = []
    for item in branch.items:
        found += [item.stage] if isinstance(item, Leaf) else _stages(item)
    return found


def compared(name: str, difference: IntExpr, ranges: Mapping[str, tuple[int, int]]) -> Expr:
    """How a block's ``difference`` of places along the two axes compares with 0: it is above the
    diagonal (``less``), or on it."""
    if isinstance(difference, Dim):
        return decide(name, index(difference), index(0), ranges)
    return const(difference < 0 or (difference == 0 and name == "less_equal"), BOOL)


def mirrored_stage(stage: Stage, found: Mirror) -> Stage:
    """The stage at the place on the other side of the diagonal; what it reads of the mirrored stage
    it reads on this side."""
    a, b = found.axes
    other = {a: b, b: a}

    def same(node: Read) -> Expr | None:
        return exchanged(node, a, b) if node.buffer == found.stage else None

    expr = map_reads(exchanged(stage.expr, a, b), same)
    axes = tuple(replace(x, name=other.get(x.name, x.name)) for x in stage.axes)
    return replace(stage, expr=expr, axes=axes)
