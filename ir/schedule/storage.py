"""Primitives on storage: the order of a buffer's dimensions, copies, separate loops of a stage.

They come before all steps on loops, since they change which axes there are.
"""

from __future__ import annotations

from dataclasses import replace

from ..dim_proofs import prove
from ..dims import Dim, IntExpr, symbol, symbols
from ..errors import ScheduleError
from ..loop.expr import Expr, Read, map_reads, read, substitute_indices, walk
from ..loop.prim import Axis, Buffer, PrimFunc, Stage
from .schedule import Preparation
from .state import State


@Preparation
def layout(state: State, name: str, *axes: str) -> State:
    """Keep an intermediate value with its dimensions in the order of ``axes``.

    ::

        t[i, j]: f32[4, 6] = v;  out[i] = t[i, 2]    =>    t[j, i]: f32[6, 4] = v;  out[i] = t[2, i]
    """
    stage = state.require_stage(name, "layout")
    require_no_loops(state, "layout")
    names = [a.name for a in stage.axes]
    if name in state.prim.outputs or sorted(axes) != sorted(names):
        raise ScheduleError(
            f"layout: {name} is an output, or its axes are not {', '.join(axes)} but "
            f"{', '.join(names)}"
        )
    places = [names.index(a) for a in axes]

    def permuted(node: Read) -> Expr | None:
        if node.buffer != name:
            return None
        return read(name, [node.indices[p] for p in places], node.dtype)

    shape = tuple(stage.buffer.shape[p] for p in places)
    changed = replace(
        stage,
        buffer=replace(stage.buffer, shape=shape),
        axes=tuple(stage.axes[p] for p in places),
    )
    stages = (
        changed if s is stage else replace(s, expr=map_reads(s.expr, permuted))
        for s in state.prim.stages
    )
    return with_prim(state, replace(state.prim, stages=tuple(stages)))


@Preparation
def cache_read(state: State, name: str, *axes: str) -> State:
    """Copy what is read of a buffer into a new stage that walks ``axes``, in this order.

    ::

        out[i, j] = sum(k) x[i, k] * w[k, j]    =>    x.copy[k, i] = x[i, k]
                                                      out[i, j] = sum(k) x.copy[k, i] * w[k, j]

    All reads must be at the same place. A parameter is copied before all else.
    """
    buffer = state.prim.buffers.get(name)
    require_no_loops(state, "cache_read")
    nodes = {
        node
        for s in state.prim.stages
        for node in walk(s.expr)
        if isinstance(node, Read) and node.buffer == name
    }
    if buffer is None or len(nodes) != 1:
        raise ScheduleError(f"cache_read: {name} is not read at exactly one place")
    (node,) = nodes
    # The copy reads every index, without the conditions around the read, so all must be inside.
    extents = state.extents
    ranges = {axis: (0, extent - 1) for axis, extent in extents.items()}
    used: set[str] = set()
    for i, size in zip(node.indices, buffer.shape, strict=True):
        if not isinstance(i, int | Dim):
            raise ScheduleError(f"cache_read: {name} is indexed by data")
        used |= symbols(i)
        if not (prove(i, ">=", 0, ranges) and prove(i, "<", size, ranges)):
            raise ScheduleError(f"cache_read: {name} is read outside of it, under a condition")
    if not used <= set(axes) or not set(axes) <= set(extents) or len(set(axes)) != len(axes):
        raise ScheduleError(
            f"cache_read: {name} is read along {', '.join(sorted(used))}, not {', '.join(axes)}"
        )
    # Every reader must walk the axes of the copy.
    for stage in state.prim.stages:
        walked = {a.name for a in (*stage.axes, *stage.reduce_axes)}
        if node in walk(stage.expr) and not set(axes) <= walked:
            raise ScheduleError(f"cache_read: {stage.name} does not walk {', '.join(axes)}")
    made = Buffer(f"{name}.copy", tuple(extents[a] for a in axes), buffer.dtype)
    if made.name in state.prim.buffers:
        raise ScheduleError(f"cache_read: {name} is copied already")
    copy = Stage(made, tuple(Axis(a, extents[a]) for a in axes), node)
    instead = read(made.name, [symbol(a) for a in axes], buffer.dtype)

    def copied(node: Read) -> Expr | None:
        return instead if node.buffer == name else None

    # The copy stands behind the stage it copies, and that of a parameter first.
    stages = [replace(s, expr=map_reads(s.expr, copied)) for s in state.prim.stages]
    made_by = [n for n, s in enumerate(stages) if s.name == name]
    stages.insert(made_by[0] + 1 if made_by else 0, copy)
    return with_prim(state, replace(state.prim, stages=tuple(stages)))


@Preparation
def own_axis(state: State, name: str, axis: str) -> State:
    """Let a stage walk one of its axes in a separate loop, which no other stage runs.

    ::

        t[i] = v;  out[i] = t[i] + 1    =>    t[i] = v;  out[out.i] = t[out.i] + 1
    """
    stage = state.require_stage(name, "own_axis")
    require_no_loops(state, "own_axis")
    new = f"{name}.{axis}"
    if axis not in {a.name for a in stage.axes} or new in state.extents:
        raise ScheduleError(f"own_axis: {axis} is not an axis of {name}")
    values: dict[str, IntExpr | Expr] = {axis: symbol(new)}
    changed = replace(
        stage,
        axes=tuple(Axis(new, a.extent) if a.name == axis else a for a in stage.axes),
        expr=substitute_indices(stage.expr, values),
    )
    stages = tuple(changed if s is stage else s for s in state.prim.stages)
    return with_prim(state, replace(state.prim, stages=stages))


def require_no_loops(state: State, step: str) -> None:
    """Raise ScheduleError if a step on loops came before."""
    placed = state.at or state.caches or state.rfactors
    if state.splits or state.fused or placed or state.order != State.of(state.prim).order:
        raise ScheduleError(f"{step}: must come before all steps on loops")


def with_prim(state: State, prim: PrimFunc) -> State:
    """Returns the state of another PrimFunc, with the decisions on buffers so far."""
    new = State.of(prim)
    return replace(new, packs=state.packs, kinds=state.kinds, streams=state.streams)


def walked_dimension(prim: PrimFunc, step: str, name: str, axis: str) -> int:
    """Returns the one dimension of a parameter that an axis walks."""
    dims = walked_dimensions(prim, name, axis)
    if len(dims) != 1:
        raise ScheduleError(f"{step}: {axis} does not walk exactly one dimension of {name}")
    return dims.pop()


def walked_dimensions(prim: PrimFunc, name: str, axis: str) -> set[int]:
    """Returns the dimensions of a parameter that an axis walks: both of ``x[i, i]``."""
    return {
        d
        for s in prim.stages
        for node in walk(s.expr)
        if isinstance(node, Read) and node.buffer == name
        for d, i in enumerate(node.indices)
        if isinstance(i, Dim) and axis in symbols(i)
    }
