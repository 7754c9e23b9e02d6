"""Bytes shifted by 128, so that one operand of a product has signs and the other has none."""

from __future__ import annotations

from dataclasses import replace

from ..dims import Dim, IntExpr, symbol, symbols
from ..dtype import UINT8
from ..errors import ScheduleError
from ..loop.expr import (
    Expr,
    Index,
    Op,
    Read,
    buffers_of,
    const,
    map_reads,
    op,
    read,
    substitute_indices,
    walk,
)
from ..loop.nest import SHIFTED
from ..loop.prim import Axis, Buffer, Stage
from .state import State

SHIFT = 128


def shift_bytes(state: State, name: str, packed: str) -> State:
    """Shift the packed bytes that a sum of products reads by 128, and subtract the excess.

    ::

        t[i, j] = sum(k) int32(x[i, k]) * int32(w.packed[...])         w.packed: int8
          =>
        t.shift[i]  = sum(k) int32(x[i, k])
        t.raw[i, j] = sum(k) int32(x[i, k]) * int32(w.packed[...])     w.packed: uint8
        t[i, j]     = t.raw[i, j] + t.shift[i] * -128

    Bytes without signs become bytes with signs, and 128 times the sums is added. Instructions that
    add up products in fours (VNNI) take one operand of each kind (oneDNN, "Int8 inference").
    """
    stage = state.require_stage(name, "shift_bytes")
    pack = state.packs.get(packed)
    if pack is None or pack.stage.buffer.dtype not in SHIFTED or pack.shifted:
        raise ScheduleError(f"shift_bytes: {packed!r} is not a packed operand of bytes")
    if not set(state.splits) <= {a.name for p in state.packs.values() for a in p.stage.axes}:
        raise ScheduleError("shift_bytes: must come before splits")
    other = _other_factor(stage, packed)
    readers = [s for s in state.prim.stages if packed in buffers_of(s.expr)]
    if other is None or readers != [stage]:
        raise ScheduleError(f"shift_bytes: {name} is not the one sum of products with {packed}")
    # The excess is 128 times the sum of the other factor, which must run over all reduced axes.
    walked = {n for node in walk(other) for n in _symbols(node)}
    if not {a.name for a in stage.reduce_axes} <= walked:
        raise ScheduleError(f"shift_bytes: not every axis that {name} reduces moves both operands")
    moved = pack.shift()
    dtype, buffer = stage.buffer.dtype, moved.stage.buffer
    sums = _sums_of(stage, other, walked)
    raw = Buffer(f"{name}.raw", stage.buffer.shape, dtype)
    if {sums.name, raw.name} & set(state.prim.buffers):
        raise ScheduleError(f"shift_bytes: the products of {name} are shifted already")

    # The products read the shifted bytes; a map after them subtracts the excess.
    def shifted(node: Read) -> Expr | None:
        return read(packed, node.indices, buffer.dtype) if node.buffer == packed else None

    added = SHIFT if buffer.dtype == UINT8 else -SHIFT
    place = [symbol(a.name) for a in stage.axes]
    excess = read(sums.name, [i for i, a in zip(place, stage.axes) if a.name in walked], dtype)
    total = op("multiply", excess, const(-added, dtype))
    total = op("add", read(raw.name, place, dtype), total)
    stages: list[Stage] = []
    for s in state.prim.stages:
        if s is stage:
            products = replace(stage, buffer=raw, expr=map_reads(stage.expr, shifted))
            stages += [sums, products, Stage(stage.buffer, stage.axes, total)]
        else:
            stages.append(moved.stage if s.name == packed else s)
    params = tuple(
        replace(buffer, constant=True) if p.name == packed else p for p in state.prim.params
    )
    prim = replace(state.prim, params=params, stages=tuple(stages))
    order = (*(a.name for a in (*sums.axes, *sums.reduce_axes)), *state.order)
    return replace(state, prim=prim, order=order, packs={**state.packs, packed: moved})


def _other_factor(stage: Stage, packed: str) -> Expr | None:
    """Returns the factor of the widened bytes of ``packed`` in a sum of products of integers."""
    expr = stage.expr
    if stage.combiner != "sum" or not isinstance(expr, Op) or expr.name != "multiply":
        return None
    widened = [_is_widened(f, packed) for f in expr.args]
    if sum(widened) != 1 or stage.buffer.dtype.bits < 32 or not stage.buffer.dtype.is_integer:
        return None
    return expr.args[widened.index(False)]


def _is_widened(factor: Expr, packed: str) -> bool:
    if not isinstance(factor, Op) or factor.name != "cast" or not factor.dtype.is_integer:
        return False
    inner = factor.args[0]
    return isinstance(inner, Read) and inner.buffer == packed and factor.dtype.bits >= 32


def _symbols(node: Expr) -> set[str]:
    """Returns the axes that a read, or the value of an index, depends on."""
    indices = node.indices if isinstance(node, Read) else ()
    values = [i for i in indices if isinstance(i, Dim)]
    if isinstance(node, Index) and isinstance(node.value, Dim):
        values.append(node.value)
    return {name for i in values for name in symbols(i)}


def _sums_of(stage: Stage, factor: Expr, walked: set[str]) -> Stage:
    """Returns the stage of the sums of a factor alone, with separate axes."""
    name = f"{stage.name}.shift"
    names: dict[str, IntExpr | Expr] = {
        a.name: symbol(f"{name}.{a.name}") for a in (*stage.axes, *stage.reduce_axes)
    }
    axes = tuple(Axis(f"{name}.{a.name}", a.extent) for a in stage.axes if a.name in walked)
    reduced = tuple(Axis(f"{name}.{a.name}", a.extent) for a in stage.reduce_axes)
    buffer = Buffer(name, tuple(a.extent for a in axes), stage.buffer.dtype)
    return Stage(buffer, axes, substitute_indices(factor, names), reduced, "sum")
