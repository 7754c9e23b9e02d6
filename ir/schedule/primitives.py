"""The schedule primitives: each documents its rewrite, guards it, then does it.

A primitive takes a State and the arguments of its step and gives a new State; what it refuses is a
ScheduleError, which the search reads as "not in the space".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from ..dims import Dim, IntExpr, ceildiv, symbol
from ..errors import ScheduleError
from ..loop import expr
from ..loop.kinds import LoopKind, Scope
from ..loop.prim import Axis, Buffer, Stage
from ..loop.scalar import COMBINERS
from .columns import array_of
from .limits import LIMITS
from .rows import KINDS, Rows
from .schedule import Preparation, Primitive
from .state import Cache, State


@Primitive
def peel(state: State, loop: str, first: int, last: int) -> State:
    """Give the first and the last iterations of a loop separate bodies, each with its number.

    ::

        for i in 8: s    =>    s[i := 0]; for i in 6: s[i := i + 1]; s[i := 7]

    Conditions that hold or fail except in these iterations, the borders of an image, are thereby
    decided in all of them. The remainder of the axis counts among the last iterations.
    """
    state.require_loop(loop, "peel")
    if loop in state.fused or loop in state.peels or first + last > LIMITS.peeled:
        raise ScheduleError(
            f"peel: {loop} is fused, peeled, or peeled of more than {LIMITS.peeled}"
        )
    if state.kinds.get(loop) == LoopKind.VECTORIZE:
        raise ScheduleError(f"peel: {loop} runs in vector lanes")
    if any(state.is_reduction(s, loop) for s in state.prim.stages):
        raise ScheduleError(f"peel: {loop} is a reduced loop")
    return replace(state, peels={**state.peels, loop: (first, last)})


@Primitive
def split(state: State, axis: str, factors: Sequence[int]) -> State:
    """Split an axis into one loop per factor, outermost first.

    ::

        for i in 100: s        =>   for i.0 in 13: for i.1 in 8: s[i := 8 * i.0 + i.1]

    The first factor must be the extent divided by the others, rounded up. Where they do not divide,
    the rest of the axis runs in a copy of the body of its own. Of a symbolic extent the first
    factor may be any.
    """
    extents = state.extents
    if axis not in extents or axis in state.splits or axis not in state.order:
        raise ScheduleError(f"split: {axis!r} is not an axis that can still be split")
    if axis in state.kinds or axis in state.peels:
        raise ScheduleError(f"split: {axis} is already {state.kinds.get(axis, 'peeled')}")
    inner = prod(factors[1:])
    extent = extents[axis]
    is_open = isinstance(extent, Dim)
    if len(factors) < 2 or inner < 1 or not (is_open or factors[0] == max(1, -(-extent // inner))):
        raise ScheduleError(f"split: {factors} does not cover {axis} of extent {extent}")
    if len(factors) > LIMITS.factors or inner >= LIMITS.block:
        raise ScheduleError(f"split: {axis} into more than {LIMITS.factors} loops, or larger ones")
    loops = tuple(f"{axis}.{p}" for p in range(len(factors)))
    at = state.order.index(axis)
    order = state.order[:at] + loops + state.order[at + 1 :]
    return replace(state, order=order, splits={**state.splits, axis: factors})


@split.rows
def _split_rows(rows: Rows, axis: str, factors: Sequence[Any]) -> None:
    """The iterations of a loop are those inside of whole iterations of the loops around it."""
    if axis not in rows.extent:  # of a copy
        return
    names = [f"{axis}.{n}" for n in range(len(factors))]
    at = rows.order.index(axis)
    rows.order[at : at + 1] = names
    limit = rows.extent.pop(axis)
    for number, name in enumerate(names):
        block = prod((array_of(f, len(limit)) for f in factors[number + 1 :]), start=1)
        rows.axis[name] = axis
        rows.extent[name] = -(-limit // block)
        limit = np.minimum(limit, block)


@Primitive
def reorder(state: State, *loops: str) -> State:
    """Put the named loops in this order, into the places they hold together."""
    for loop in loops:
        state.require_loop(loop, "reorder")
    if len(set(loops)) != len(loops):
        raise ScheduleError("reorder: a loop is named twice")
    places = iter(loops)
    named = set(loops)
    return replace(state, order=tuple(next(places) if l in named else l for l in state.order))


@reorder.rows
def _reorder_rows(rows: Rows, *loops: str) -> None:
    moved = [part for loop in loops for part in rows.parts(loop)]
    for place, loop in zip(sorted(map(rows.order.index, moved)), moved):
        rows.order[place] = loop


@Primitive
def fuse(state: State, *loops: str) -> State:
    """Make one loop of several that are directly inside one another.

    ::

        for i in 4: for j in 6: s   =>   for i*j in 24: let i = i*j // 6; let j = i*j % 6; s
    """
    if len(loops) < 2:
        raise ScheduleError("fuse: needs at least two loops")
    for loop in loops:
        state.require_loop(loop, "fuse")
        if loop in state.fused or state.kinds.get(loop):
            raise ScheduleError(f"fuse: {loop} is already fused or annotated")
    at = state.order.index(loops[0])
    if state.order[at : at + len(loops)] != loops:
        raise ScheduleError(f"fuse: {', '.join(loops)} do not stand directly inside one another")
    axes = [state.axis_of(loop) for loop in loops]
    for axis in axes:
        if axes.count(axis) > 1:
            raise ScheduleError(f"fuse: {', '.join(loops)} are not all of different axes")
    name = "*".join(loops)
    order = (*state.order[:at], name, *state.order[at + len(loops) :])
    for user, loop in (*state.at.items(), *((s, c.at) for s, c in state.caches.items())):
        if loop in loops[:-1]:
            raise ScheduleError(f"fuse: {user} is placed inside {loop}, between the fused loops")
    inside = {loops[-1]: name}
    return replace(
        state,
        order=order,
        fused={**state.fused, name: loops},
        at={s: inside.get(l, l) for s, l in state.at.items()},
        caches={s: Cache(c.scope, inside.get(c.at, c.at)) for s, c in state.caches.items()},
    )


def _annotation(kind: LoopKind, text: str) -> Primitive[[str]]:
    def annotate(state: State, loop: str) -> State:
        state.require_loop(loop, kind)
        if loop in state.kinds:
            raise ScheduleError(f"{kind}: {loop} is already {state.kinds[loop]}")
        if kind != LoopKind.PARALLEL and loop in state.fused:
            raise ScheduleError(f"{kind}: {loop} is a fused loop")
        if kind == LoopKind.VECTORIZE and loop in state.peels:
            raise ScheduleError(f"{kind}: {loop} is peeled")
        return replace(state, kinds={**state.kinds, loop: kind})

    annotate.__name__, annotate.__doc__ = str(kind), text
    made = Primitive(annotate)
    made.rows(lambda rows, loop: rows.annotate(loop, KINDS[kind]))
    return made


parallel = _annotation(LoopKind.PARALLEL, "Share the iterations of a loop among the threads.")
vectorize = _annotation(LoopKind.VECTORIZE, "Run a loop in vector lanes.")
unroll = _annotation(LoopKind.UNROLL, "Write the body of a loop once per iteration.")


@Preparation
def compute_inline(state: State, name: str) -> State:
    """Put the expression of a map stage into its readers.

    ::

        e[i] = exp(x[i]);  out[i] = e[i] * 2    =>   out[i] = exp(x[i]) * 2
    """
    stage = state.require_stage(name, "compute_inline")
    if stage.combiner is not None or name in state.prim.outputs:
        raise ScheduleError(f"compute_inline: {name} is a reduction or an output")
    names = [a.name for a in stage.axes]

    def inlined(node: expr.Read) -> expr.Expr | None:
        if node.buffer != name:
            return None
        return expr.substitute_indices(stage.expr, dict(zip(names, node.indices, strict=True)))

    stages = tuple(
        replace(s, expr=expr.map_reads(s.expr, inlined))
        for s in state.prim.stages
        if s is not stage
    )
    new = replace(state, prim=replace(state.prim, stages=stages))
    axes = new.extents
    keep: list[str] = []
    for loop in state.order:
        used = [state.axis_of(part) in axes for part in state.parts(loop)]
        if any(used) and not all(used):
            raise ScheduleError(f"compute_inline: only {name} runs all of the fused loop {loop}")
        keep += [loop] if all(used) else []
    return replace(new, order=tuple(keep))


@Primitive
def compute_at(state: State, name: str, loop: str) -> State:
    """Compute a stage inside a loop of the stages before it, sharing the loops down to there.

    ::

        for i: for k: t[i] += ...                    for i:
        for i: out[i] = t[i] * 2             =>        for k: t[i] += ...
                                                       out[i] = t[i] * 2
    """
    state.require_stage(name, "compute_at")
    state.require_loop(loop, "compute_at")
    return replace(state, at={**state.at, name: loop})


@compute_at.rows
def _compute_at_rows(rows: Rows, name: str, loop: str) -> None:
    if name not in rows.shifted.values():
        rows.at[name] = rows.parts(loop)[-1]


@Primitive
def cache_write(state: State, name: str, scope: str, at: str) -> State:
    """Accumulate a reduction in a private tile that lives inside the loop ``at``.

    ::

        for i.0: for k: for i.1: t[...] += v    =>   for i.0: registers t.acc[f]
                                                       for k: for i.1: t.acc[i.1] += v
                                                       for i.1: t[...] = t.acc[i.1]
    """
    stage = state.require_stage(name, "cache_write")
    state.require_loop(at, "cache_write")
    if stage.combiner is None or scope not in tuple(Scope):
        raise ScheduleError(
            f"cache_write: {name} is not a reduction, or {scope!r} not a private scope"
        )
    return replace(state, caches={**state.caches, name: Cache(Scope(scope), at)})


@cache_write.rows
def _cache_write_rows(rows: Rows, name: str, scope: str, at: str) -> None:
    rows.tiles[rows.shifted.get(name, name)] = rows.parts(at)[-1]
    rows.matrix |= rows.where & (scope == Scope.TILES)


@Primitive
def rfactor(state: State, name: str, loop: str) -> State:
    """Give each iteration of an innermost reduction loop a separate accumulator.

    ::

        for k.0: vectorize k.1 in 64: t += v    =>   for k.0: vectorize k.1 in 64: t.rf[k.1] += v
                                                     vectorize k.1 in 64: t += t.rf[k.1]

    This is what lets a reduction run in vector lanes (Suriana et al., CGO 2017).
    """
    stage = state.require_stage(name, "rfactor")
    state.require_loop(loop, "rfactor")
    innermost = loop not in state.fused and loop == state.loops_of_axis(state.axis_of(loop))[-1]
    if not innermost or not state.is_reduction(stage, loop):
        raise ScheduleError(f"rfactor: {loop} is not an innermost reduction loop of {name}")
    return replace(state, rfactors={**state.rfactors, name: loop})


@Preparation
def split_reduction(state: State, name: str, axis: str, parts: int) -> State:
    """Make two stages of a reduction: one over each of ``parts`` pieces, one that joins them.

    ::

        t = sum(k: 100) v[k]    =>   t.part[p] = sum(k: 25) v[25 * p + k];   t = sum(p: 4) t.part[p]
    """
    stage = state.require_stage(name, "split_reduction")
    extent = next((a.extent for a in stage.reduce_axes if a.name == axis), 0)
    many = parts > 1 if isinstance(extent, Dim) else 1 < parts <= extent
    if stage.combiner is None or not many:
        raise ScheduleError(f"split_reduction: {axis} of {name} cannot be cut into {parts}")
    placed = state.at or state.caches or state.rfactors
    if state.splits or state.fused or placed or state.order != State.of(state.prim).order:
        raise ScheduleError("split_reduction: must come before all steps on loops")
    # The first stage reduces each chunk; what the last chunk has too much adds the identity.
    chunk = ceildiv(extent, parts)
    outer, inner = f"{name}.{axis}o", f"{name}.{axis}i"
    joined = f"{name}.{axis}j"
    index: IntExpr = symbol(outer) * chunk + symbol(inner)
    piece = expr.substitute_indices(stage.expr, {axis: index})
    identity = expr.const(
        COMBINERS[stage.combiner].identity(stage.buffer.dtype), stage.buffer.dtype
    )
    if parts * chunk != extent:
        piece = expr.select(expr.within(index, 0, extent), piece, identity)
    buffer = Buffer(f"{name}.part", (parts, *stage.buffer.shape), stage.buffer.dtype)
    # Its axes get names of their own: it runs before the other stages and shares no loop.
    rest = tuple(a for a in stage.reduce_axes if a.name != axis)
    renamed = tuple(Axis(f"{name}.{a.name}", a.extent) for a in stage.axes)
    names: dict[str, IntExpr | expr.Expr] = {
        a.name: symbol(r.name) for a, r in zip(stage.axes, renamed, strict=True)
    }
    first = Stage(
        buffer,
        (Axis(outer, parts), *renamed),
        expr.substitute_indices(piece, names),
        (*rest, Axis(inner, chunk)),
        stage.combiner,
    )
    indices = (symbol(joined), *(symbol(a.name) for a in stage.axes))
    second = replace(
        stage,
        expr=expr.read(buffer.name, indices, buffer.dtype),
        reduce_axes=(Axis(joined, parts),),
    )
    stages: list[Stage] = []
    for s in state.prim.stages:
        stages += [first, second] if s is stage else [s]
    new = State.of(replace(state.prim, stages=tuple(stages)))
    return replace(new, packs=state.packs, kinds=state.kinds, streams=state.streams)


@Primitive
def stream(state: State, name: str) -> State:
    """Write an output with non-temporal stores: for one that is larger than the caches.

    ::

        out[i] = v    =>    stream out[i] = v
    """
    state.require_stage(name, "stream")
    if name not in state.prim.outputs:
        raise ScheduleError(f"stream: {name} is not an output")
    return replace(state, streams=state.streams | {name})


@stream.rows
def _stream_rows(rows: Rows, _name: str) -> None:
    rows.streams |= rows.where


@Primitive
def cut(state: State, axis: str, points: Sequence[int]) -> State:
    """Run an axis in pieces that begin at these points, each with a separate body.

    ::

        for i in 100: out[i] = where(i < 92, x[i], 0)     =>    for i in 92: out[i] = x[i]
                                                                for i in 8: out[i + 92] = 0

    Conditions in a body are decided by the ranges of its loops, so that a piece in which no
    condition changes has none. In a parallel or fused loop each iteration tests which piece
    it belongs to.
    """
    extents = state.extents
    if axis not in extents or axis in state.cuts:
        raise ScheduleError(f"cut: {axis!r} is not an axis that can still be cut")
    if any(axis == a.name for s in state.prim.stages for a in s.reduce_axes):
        raise ScheduleError(f"cut: {axis} is reduced")
    extent = extents[axis]
    if isinstance(extent, Dim):
        raise ScheduleError(f"cut: the extent of {axis} is {extent}, which is not constant")
    if not points or list(points) != sorted({*points} - {0}) or points[-1] >= extent:
        raise ScheduleError(f"cut: {points} are no points inside {axis} of extent {extent}")
    return replace(state, cuts={**state.cuts, axis: points})
