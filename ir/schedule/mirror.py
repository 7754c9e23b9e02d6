"""``mirror``: one triangle of the blocks of a symmetric result is computed, and stored twice."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from math import prod

from ..dataclass import dataclass
from ..dims import Dim, IntExpr, as_int, symbol
from ..dtype import BOOL
from ..errors import ScheduleError
from ..loop.decide import decide, worked_out
from ..loop.expr import Expr, const, index, map_reads, read
from ..loop.kinds import LoopKind, Scope
from ..loop.nest import Alloc, Loop, Stmt, Store
from ..loop.prim import Buffer, Stage
from ..loop.symmetry import symmetric_axes
from .panels import TRANSPOSED_ROWS
from .rows import Rows
from .schedule import Primitive
from .state import Mirror, State
from .tree import Branch, Leaf

Axes = Mapping[str, IntExpr]
Ranges = Mapping[str, tuple[int, int]]


@Primitive
def mirror(state: State, name: str, loop: str) -> State:
    """Compute only blocks of a symmetric reduction on one side of the diagonal, and store each of
    them to the other side as well. ``loop`` is the innermost of the loops over blocks.

    ::

        for j.0: for i.0:                        for j.0: for i.0:
          t.acc[..] = 0.0                          if i.0 - j.0 <= 0:
          for k: t.acc[i, j] += ..         =>        t.acc[..] = 0.0
          for i.1: for j.1:                          for k: t.acc[i, j] += ..
            out[i, j] = t.acc[i, j] * s[j]           for i.1: for j.1: t.block[i, j] = t.acc[i, j]
                                                     for i.1: for j.1:
                                                       out[i, j] = t.acc[i, j] * s[j]
                                                     if i.0 - j.0 < 0:
                                                       t.image[j, i] = t.block[i, j]
                                                       for j.1: for i.1:
                                                         out[j, i] = t.image[j, i] * s[i]

    Blocks must be squares, so that the mirror image of a block is one. It is transposed in L1
    and stored in whole lines. Maps that follow need not be symmetric: they are computed for
    both sides.
    """
    stage = state.require_stage(name, "mirror")
    state.require_loop(loop, "mirror")
    axes = symmetric_axes(stage)
    if axes is None:
        raise ScheduleError(f"mirror: {name} is not symmetric")
    if any(isinstance(a.extent, Dim) for a in stage.axes if a.name in axes):
        raise ScheduleError(f"mirror: {name} is not of constant size")
    if state.mirrors:
        raise ScheduleError("mirror: a stage is mirrored already")
    if not set(axes) & {state.axis_of(part) for part in state.parts(loop)}:
        raise ScheduleError(f"mirror: {loop} walks neither {axes[0]} nor {axes[1]}")
    if any(axis in state.cuts or axis in state.peels for axis in axes):
        raise ScheduleError(f"mirror: {axes[0]} or {axes[1]} is in pieces")
    return replace(state, mirrors={loop: Mirror(name, axes)})


@mirror.rows
def _mirror_rows(rows: Rows, name: str, loop: str) -> None:
    """The width of a block is what the loops inside of ``loop`` cover of its last axis."""
    last = rows.parts(loop)[-1]
    inside = rows.order[rows.depth_in(last) :]
    extents = (rows.extent[l] for l in inside if rows.axis[l] == rows.axis[last])
    rows.mirrors[name] = rows.array(prod(extents, start=1))


def check_mirrored(
    state: State,
    branch: Branch,
    mirrored: Mirror,
    values: Mapping[str, IntExpr],
    private: Container[str],
) -> Leaf:
    """Returns the mirrored stage in the body of ``branch``.

    ``private`` are the buffers of the loops around it.

    ScheduleError unless the body is a square block of that stage, followed by maps whose values
    leave the kernel.
    """
    around = [[l for l in state.loops_of_axis(axis) if l in values] for axis in mirrored.axes]
    sizes = [state.block(loops[-1]) if loops else 0 for loops in around]
    if sizes[0] != sizes[1] or not sizes[0]:
        raise ScheduleError(f"mirror: the blocks in {branch.loop} are not squares")
    if any(axis in state.cuts or axis in state.peels for axis in mirrored.axes):
        raise ScheduleError(f"mirror: {mirrored.axes[0]} or {mirrored.axes[1]} is in pieces")
    leaves = {leaf.stage.name: leaf for leaf in _leaves(branch)}
    if mirrored.stage not in leaves or mirrored.stage in private:
        raise ScheduleError(f"mirror: {mirrored.stage} is not computed in {branch.loop}")
    for name, leaf in leaves.items():
        stored = leaf.stage.combiner is None and name in state.prim.outputs
        both = set(mirrored.axes) <= {a.name for a in leaf.stage.axes}
        if name != mirrored.stage and not (stored and both):
            raise ScheduleError(f"mirror: {name} would be computed for one side only")
        for axis in leaf.stage.axes:
            inside = axis.name not in mirrored.axes and axis.extent != 1
            if inside and not set(state.loops_of_axis(axis.name)) <= values.keys():
                raise ScheduleError(f"mirror: {axis.name} is walked inside of a block")
    return leaves[mirrored.stage]


def _leaves(branch: Branch) -> list[Leaf]:
    leaves: list[Leaf] = []
    for item in branch.items:
        leaves += [item] if isinstance(item, Leaf) else _leaves(item)
    return leaves


def on_diagonal(mirrored: Mirror, axes: Axes, ranges: Ranges) -> tuple[Expr, Expr]:
    """Returns two conditions on a block that begins at ``axes``: it is on the diagonal or above;
    it is above."""
    difference = axes[mirrored.axes[0]] - axes[mirrored.axes[1]]
    if not isinstance(difference, Dim):
        return const(difference <= 0, BOOL), const(difference < 0, BOOL)
    at = index(difference), index(0)
    return decide("less_equal", *at, ranges), decide("less", *at, ranges)


@dataclass(frozen=True)
class Block:
    """A block of the mirrored stage in ``buffer``, whose indices begin at ``fixed``; the
    block begins at ``axes`` and has the extents ``sizes``."""

    buffer: Buffer
    fixed: tuple[IntExpr, ...]
    axes: Axes
    sizes: Mapping[str, IntExpr]
    ranges: Ranges


def mirror_image(
    state: State, mirrored: Mirror, branch: Branch, stage: Stage, block: Block
) -> list[Stmt]:
    """Returns the statements that store the mirror image of a block: it is transposed, and the
    stages of ``branch`` are computed from it."""
    a, b = mirrored.axes
    row, column = f"{stage.name}.row", f"{stage.name}.column"
    rows, columns = as_int(block.sizes[b]), as_int(block.sizes[a])
    image = Buffer(f"{stage.name}.image", (rows, columns), stage.buffer.dtype)
    stmts: list[Stmt] = [Alloc(image, Scope.STACK)]

    def transposed(at: IntExpr) -> Stmt:
        here = {**block.axes, a: block.axes[a] + symbol(column), b: block.axes[b] + at}
        places = [here[x.name] - f for x, f in zip(stage.axes, block.fixed, strict=True)]
        value = read(block.buffer.name, places, image.dtype)
        return Loop(
            LoopKind.VECTORIZE, column, columns, (Store(image.name, (at, symbol(column)), value),)
        )

    whole, rest = divmod(rows, TRANSPOSED_ROWS)
    if whole:
        first = symbol(f"{row}.0") * TRANSPOSED_ROWS if whole > 1 else 0
        inner = transposed(first + symbol(row))
        inner = Loop(LoopKind.UNROLL, row, TRANSPOSED_ROWS, (inner,))
        stmts.append(Loop(LoopKind.FOR, f"{row}.0", whole, (inner,)) if whole > 1 else inner)
    if rest:
        inner = transposed(symbol(row) + whole * TRANSPOSED_ROWS)
        stmts.append(Loop(LoopKind.UNROLL, row, rest, (inner,)))
    element = read(image.name, (symbol(row), symbol(column)), image.dtype)
    there = {**block.axes, a: block.axes[b] + symbol(row), b: block.axes[a] + symbol(column)}
    ranges = {**block.ranges, row: (0, rows - 1), column: (0, columns - 1)}
    for leaf in _leaves(branch):
        target = leaf.stage
        if target is stage and (not leaf.stored or block.buffer is not stage.buffer):
            continue  # its elements are in private memory only
        value = element
        if target is not stage:
            value = map_reads(target.expr, lambda n: element if n.buffer == stage.name else None)
            value = worked_out(value, there, ranges, {})
        places = tuple(there[x.name] for x in target.axes)
        stored = Store(target.name, places, value, target.name in state.streams)
        lanes = Loop(LoopKind.VECTORIZE, column, columns, (stored,))
        stmts.append(Loop(LoopKind.FOR, row, rows, (lanes,)))
    return stmts
