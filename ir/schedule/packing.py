"""Primitives that pack a whole operand into panels, and the steps that arrange its copy.

A constant operand is packed when the kernel is compiled. Any other is packed at the start of each
call by a separate stage ``x.packed``, whose loops are scheduled like all others::

    pack("x", "i", 32)                                  panels x.packed.o, rows x.packed.0, ...
    split("x.packed.0", (63, 16))                       ... and x.packed.i within a panel
    reorder("x.packed.0.0", "x.packed.o", "x.packed.0.1", "x.packed.i")
    vectorize("x.packed.i")
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from ..dims import Dim, floordiv, mod, typical
from ..errors import ScheduleError
from ..loop.expr import Expr, Read, map_reads, read
from ..loop.pack import Pack
from ..loop.prim import PrimFunc
from .limits import LIMITS, buffer_bytes
from .primitives import fuse, parallel, reorder, split, unroll, vectorize
from .rows import Rows
from .schedule import Primitive, Step
from .state import State
from .storage import walked_dimension

WIDEST_COPY, COPIED_WIDTH = 256, 128
"""Elements of a panel beyond which they are copied in several parts, and elements of a part."""


@Primitive
def pack(state: State, name: str, axis: str, tile: int) -> State:
    """Copy an operand into panels of ``tile`` elements along the dimension that ``axis`` walks.

    ::

        w[k, j]    =>   w.packed[j // 48, k, j % 48]         the last panel is filled up with zeros
        w[k, j]    =>   w.packed[0, k, j]                    one panel: w is transposed

    Where no later step vectorizes, splits or otherwise uses the loop over the elements of a panel,
    the schedule is one of version 1, and the loops of the copy are arranged as ``version1`` says.
    """
    return _packed(state, Step("pack", (name, axis, tile)))


@Primitive
def pack_grouped(state: State, name: str, axis: str, tile: int, along: str, group: int) -> State:
    """Pack as ``pack`` does, with ``group`` neighbours along another axis contiguous.

    ::

        w[k, j]    =>   w.packed[j // 32, k // 4, j % 32, k % 4]

    Instructions that multiply short integers add up such groups in one lane.
    """
    return _packed(state, Step("pack_grouped", (name, axis, tile, along, group)))


@pack.rows
@pack_grouped.rows
def _pack_rows(rows: Rows, name: str, axis: str, tile: Any, *_group: Any) -> None:
    rows.pack(name, axis, tile)


def pack_of(prim: PrimFunc, step: Step) -> Pack:
    """Returns the packed copy that a ``pack`` or ``pack_grouped`` step makes of a parameter."""
    name, axis, tile, *grouped = step.args
    source = next((b for b in prim.params if b.name == name), None)
    if source is None or tile < 1:
        raise ScheduleError(f"{step.name}: {name!r} is not a parameter that can be packed")
    dim = walked_dimension(prim, step.name, name, axis)
    if not grouped:
        return Pack.of(source, dim, tile)
    along, size = walked_dimension(prim, step.name, name, grouped[0]), grouped[1]
    if along == dim or size < 1:
        raise ScheduleError(f"{step.name}: {grouped[0]} of {name} cannot be grouped by {size}")
    return Pack.of(source, dim, tile, (along, size))


def _packed(state: State, step: Step) -> State:
    name = step.args[0]
    if name in {*state.packs, *(p.source for p in state.packs.values())}:
        raise ScheduleError(f"{step.name}: {name!r} is not a parameter that can be packed")
    # The loops of earlier copies may be split and fused by now, those of other stages not.
    copies = {a.name for p in state.packs.values() for a in p.stage.axes}
    fused = {state.axis_of(part) for parts in state.fused.values() for part in parts}
    if not {*state.splits, *fused} <= copies:
        raise ScheduleError(f"{step.name}: must come before splits")
    made = pack_of(state.prim, step)
    source, stage, group = state.prim.buffers[name], made.stage, made.group
    LIMITS.check_copies(
        f"{step.name}: {name}", buffer_bytes([stage.buffer]), buffer_bytes([source])
    )

    def packed(node: Read) -> Expr | None:
        if node.buffer != name:
            return None
        along, size = group or (made.dim, 1)
        at, inner = node.indices[made.dim], node.indices[along]
        if not isinstance(at, int | Dim) or not isinstance(inner, int | Dim):
            raise ScheduleError(f"{step.name}: {name} is indexed by data")
        indices = list(node.indices)
        indices[along] = floordiv(inner, size)
        rest = (i for d, i in enumerate(indices) if d != made.dim)
        panel, place = floordiv(at, made.tile), mod(at, made.tile)
        if made.stage.axes[0].extent == 1:  # also where a condition keeps it from what lies outside
            panel, place = 0, at
        places = (place, mod(inner, size)) if group else (place,)
        return read(stage.name, (panel, *rest, *places), source.dtype)

    stages = tuple(replace(s, expr=map_reads(s.expr, packed)) for s in state.prim.stages)
    packs = {**state.packs, stage.name: made}
    if source.constant:
        constant = replace(stage.buffer, constant=True)
        params = tuple(constant if p is source else p for p in state.prim.params)
        return replace(state, prim=replace(state.prim, params=params, stages=stages), packs=packs)
    order = (*(a.name for a in stage.axes), *state.order)
    prim = replace(state.prim, stages=(stage, *stages))
    return replace(state, prim=prim, packs=packs, order=order)


def copy_steps(made: Pack, rows: int, shared: int) -> list[Step]:
    """Returns the steps for loops that pack an operand at run time, reading whole cache lines.

    Where a panel's elements are contiguous in the source, ``rows`` rows of each panel are copied in
    a row. Where they are strided, the loop over so many rows is unrolled, so that square blocks are
    transposed in registers. Groups are interleaved in registers. Operands of ``shared`` elements
    and more are copied by several threads.
    """
    panels, *outer = (a.name for a in made.stage.axes)
    steps: list[Step] = []
    if made.group:  # rows of a group are read together
        *outer, lanes, group = outer
        order = [*outer, panels, lanes, group]
        annotated = [vectorize(lanes), unroll(group)]
        around = order[:1]
    else:
        *outer, lanes = outer
        blocks, row = list[str](), list[str]()
        if outer:
            last = outer.pop()
            size = typical(made.shape[int(last.rpartition(".")[2])])
            blocks, row = [last], []
            if size > rows:
                steps.append(split(last, (-(-size // rows), rows)))
                blocks, row = [f"{last}.0"], [f"{last}.1"]
            elif made.strided:
                blocks, row = [], blocks
        strided = made.strided and bool(row)
        around = [*outer, panels] if strided else [*outer, *blocks, panels]
        if made.tile > WIDEST_COPY:
            steps.append(split(lanes, (-(-made.tile // COPIED_WIDTH), COPIED_WIDTH)))
            (blocks if strided else around).append(f"{lanes}.0")
            lanes = f"{lanes}.1"
        order = [*around, *(blocks if strided else []), *row, lanes]
        annotated = [*(unroll(loop) for loop in row if strided), vectorize(lanes)]
    steps += [reorder(*order), *annotated]
    if prod(map(typical, made.shape)) >= shared:
        steps += [fuse(*around)] if len(around) > 1 else []
        steps.append(parallel("*".join(around)))
    return steps
