"""Softmax in pieces: no step reads a whole row, however long it is.

The method is that of "Online normalizer calculation for softmax" (Milakov and Gimelshein, 2018) and
"FlashAttention" (Dao et al., 2022) in the form that keeps one result per piece and joins them at
the end: exp(x - max) is exp(x - m) * exp(m - max) for the maximum m of a piece, and sums that
are linear in it can be scaled once per piece instead of once per element.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..dataclass import dataclass
from ..dim_proofs import prove
from ..dims import IntExpr, as_int, ceildiv, int_min, substitute, symbol
from ..errors import ScheduleError
from ..loop import expr as exprs
from ..loop.expr import Expr, Index, IndexLike, Op, Read, buffers_of, const, index, op, read, select
from ..loop.prim import Axis, Buffer, PrimFunc, Stage
from ..loop.scalar import COMBINERS
from .schedule import Preparation
from .state import State
from .storage import require_no_loops, with_prim


@Preparation
def blockwise(state: State, name: str, parts: int) -> State:
    """Cut the rows of which ``name`` is the maximum into pieces, each with a maximum of its own.

    ::

        m = max(k: 100) x[k]                 m.part[b] = max(k: 25) x[25 * b + k]
                                             m.base[b] = maximum(m.part[b], lowest)
        e[l] = exp(x[l] - m)           =>    e[b, l] = exp(x[25 * b + l] - m.base[b])
        s = sum(r: 100) e[r] * v[r]          s.part[b] = sum(r: 25) e[b, r] * v[25 * b + r]
                                             m = max(b: 4) m.base[b]
                                             m.scale[b] = exp(m.base[b] - m)
                                             s = sum(b: 4) m.scale[b] * s.part[b]

    The maximum may only be subtracted in exponents, and those may only be read by sums that are
    linear in them. A piece whose elements are all minus infinity counts nothing; a row of such
    pieces is divided by zero, as the whole row is.
    """
    stage = state.require_stage(name, "blockwise")
    require_no_loops(state, "blockwise")
    if stage.combiner != "max" or len(stage.reduce_axes) != 1 or not stage.buffer.dtype.is_float:
        raise ScheduleError(f"blockwise: {name} is not the maximum of a row of floats")
    length = stage.reduce_axes[0].extent
    size = ceildiv(length, max(1, parts))
    if not prove(length, ">", 0):
        raise _refuse(f"{length} elements may be none")
    if parts < 2 or (isinstance(length, int) and (parts - 1) * as_int(size) >= length):
        raise ScheduleError(f"blockwise: {length} elements cannot be cut into {parts} pieces")
    rows = _rows_of(state.prim, stage)
    return with_prim(state, _Blocks(state.prim, stage, rows, length, parts, size).prim())


@dataclass(frozen=True)
class _Rows:
    """``keys`` are the axes that walk along a row, by stage; ``folded`` are the stages that reduce
    over theirs, ``exponents`` those that subtract the maximum."""

    keys: dict[str, str]
    folded: frozenset[str]
    exponents: frozenset[str]


def _refuse(what: str) -> ScheduleError:
    return ScheduleError(f"blockwise: {what}")


def _rows_of(prim: PrimFunc, maximum: Stage) -> _Rows:
    """Returns the stages along the rows; ScheduleError unless pieces give the same result."""
    keys = _key_axes(prim, maximum)
    key_stages = [s for s in prim.stages if s.name in keys]
    folded = {s.name for s in key_stages if keys[s.name] in {a.name for a in s.reduce_axes}}
    exponents = {s.name for s in prim.stages if maximum.name in buffers_of(s.expr)}
    for stage in prim.stages:
        reads = buffers_of(stage.expr)
        if stage.name in exponents and (
            stage.name not in keys or not _is_exponent(stage, maximum.name)
        ):
            raise _refuse(f"{stage.name} reads {maximum.name} otherwise than in exp(x - maximum)")
        if stage.name in keys and (reads & folded) - {maximum.name}:
            raise _refuse(f"{stage.name} needs a whole row before it is done")
        if reads & exponents and (
            stage.name not in folded or stage.combiner != "sum" or not _linear(stage, exponents)
        ):
            raise _refuse(f"{stage.name} is not a sum that is linear in the exponentials")
        if stage.name in folded - {maximum.name} and not reads & exponents:
            raise _refuse(f"{stage.name} is not a sum that is linear in the exponentials")
    for stage in key_stages:
        names = {a.name for a in stage.axes}
        if not {a.name for a in maximum.axes} <= names:
            raise _refuse(f"{stage.name} does not walk the rows of {maximum.name}")
        if stage.name in prim.outputs and stage.name not in folded:
            raise _refuse(f"{stage.name} is an output")
    return _Rows(keys, frozenset(folded), frozenset(exponents))


def _key_axes(prim: PrimFunc, maximum: Stage) -> dict[str, str]:
    """The axis along the row of every stage that walks one, by one-to-one reads."""
    stages = {s.name: s for s in prim.stages}
    row = maximum.reduce_axes[0]
    keys = {maximum.name: row.name}
    for stage in prim.stages:  # the exponents walk along the row, whatever they are made of
        along = [a for a in stage.axes if a not in maximum.axes]
        if maximum.name in buffers_of(stage.expr) and [a.extent for a in along] == [row.extent]:
            keys[stage.name] = along[0].name
    while True:
        before = len(keys)
        for stage in prim.stages:
            for node in exprs.walk(stage.expr):
                if not isinstance(node, Read) or node.buffer not in stages:
                    continue
                producer = stages[node.buffer]
                for axis, i in zip(producer.axes, node.indices, strict=True):
                    is_key = keys.get(producer.name) == axis.name
                    at = next((a.name for a in _axes(stage) if i == symbol(a.name)), None)
                    if is_key and (at is None or keys.setdefault(stage.name, at) != at):
                        raise _refuse(f"{stage.name} does not walk {producer.name} one by one")
                    if at is not None and keys.get(stage.name) == at:
                        keys.setdefault(producer.name, axis.name)
                    elif not is_key and not _aligned(axis, i, maximum, keys, producer, stage):
                        raise _refuse(f"{stage.name} reads {producer.name} in another row")
        if len(keys) == before:
            return keys


def _aligned(
    axis: Axis, i: object, maximum: Stage, keys: dict[str, str], producer: Stage, stage: Stage
) -> bool:
    """True if rows are read by themselves."""
    if axis.name not in {a.name for a in maximum.axes}:
        return True
    return producer.name not in keys or stage.name not in keys or i == symbol(axis.name)


def _axes(stage: Stage) -> tuple[Axis, ...]:
    return (*stage.axes, *stage.reduce_axes)


def _is_exponent(stage: Stage, maximum: str) -> bool:
    """True if a map is ``exp(x - maximum)``."""
    value = stage.expr
    if stage.combiner is not None or not isinstance(value, Op) or value.name != "exp":
        return False
    inside = value.args[0]
    if not isinstance(inside, Op) or inside.name != "subtract":
        return False
    x, subtracted = inside.args
    plain = isinstance(subtracted, Read) and subtracted.buffer == maximum
    return plain and maximum not in buffers_of(x)


def _linear(stage: Stage, exponents: set[str]) -> bool:
    def linear(expr: Expr) -> bool:
        if isinstance(expr, Read):
            return expr.buffer in exponents
        if not isinstance(expr, Op) or expr.name != "multiply":
            return False
        left, right = expr.args
        if buffers_of(left) & exponents:
            return linear(left) and not buffers_of(right) & exponents
        return linear(right)

    return linear(stage.expr)


@dataclass(frozen=True)
class _Blocks:
    """Writes the stages anew."""

    source: PrimFunc
    maximum: Stage
    rows: _Rows
    length: IntExpr
    parts: int
    size: IntExpr

    @property
    def block(self) -> Axis:
        return Axis(f"{self.maximum.name}.b", self.parts)

    def prim(self) -> PrimFunc:
        pieces: list[Stage] = []
        joined: list[Stage] = []
        after: list[Stage] = []
        late = set(self.rows.folded)
        for stage in self.source.stages:
            if stage.name in self.rows.folded:
                pieces.append(self.part(stage))
                if stage is self.maximum:
                    pieces.append(self.base())
                    joined = [self.whole_maximum(), self.scale(), *joined]
                else:
                    joined.append(self.whole_sum(stage))
            elif stage.name in self.rows.keys:
                pieces.append(self.piece(stage))
            elif buffers_of(stage.expr) & late:
                late.add(stage.name)
                after.append(stage)
            else:
                pieces.append(stage)
        return replace(self.source, stages=(*pieces, *joined, *after))

    def piece(self, stage: Stage) -> Stage:
        """A stage that walks along the row: its axis becomes two."""
        key = self.rows.keys[stage.name]
        value = self.in_block(stage.expr, key)
        if stage.name in self.rows.exponents:
            assert isinstance(value, Op) and isinstance(value.args[0], Op)
            x, base = value.args[0].args
            x = self.kept(x, key, const(-np.inf, x.dtype))
            value = op("exp", op("subtract", x, base))
        return replace(
            stage,
            buffer=replace(stage.buffer, shape=tuple(a.extent for a in self.cut(stage.axes, key))),
            axes=self.cut(stage.axes, key),
            expr=value,
        )

    def part(self, stage: Stage) -> Stage:
        """Returns the part of a reduction over the row that belongs to one piece."""
        key = self.rows.keys[stage.name]
        assert stage.combiner is not None
        value = self.in_block(stage.expr, key)
        if stage is self.maximum:
            dtype = stage.buffer.dtype
            value = self.kept(value, key, const(COMBINERS["max"].identity(dtype), dtype))
        names: dict[str, IndexLike] = {
            a.name: symbol(f"{stage.name}.{a.name}") for a in stage.axes if a.name not in self.ij
        }
        axes = tuple(
            Axis(f"{stage.name}.{a.name}" if a.name in names else a.name, a.extent)
            for a in stage.axes
        )
        return Stage(
            Buffer(f"{stage.name}.part", (self.parts, *stage.buffer.shape), stage.buffer.dtype),
            (self.block, *axes),
            exprs.substitute_indices(value, names),
            tuple(Axis(key, self.size) if a.name == key else a for a in stage.reduce_axes),
            stage.combiner,
        )

    def base(self) -> Stage:
        """Returns the stage of the number subtracted in each piece: its maximum, if finite."""
        dtype = self.maximum.buffer.dtype
        lowest = const(float(np.finfo(dtype.numpy).min), dtype)
        axes = (self.block, *self.maximum.axes)
        buffer = Buffer(f"{self.maximum.name}.base", tuple(a.extent for a in axes), dtype)
        part = read(f"{self.maximum.name}.part", [symbol(a.name) for a in axes], dtype)
        return Stage(buffer, axes, op("maximum", part, lowest))

    def whole_maximum(self) -> Stage:
        over = Axis(f"{self.maximum.name}.r", self.parts)
        value = self.row_value("base", over)
        return replace(self.maximum, expr=value, reduce_axes=(over,))

    def scale(self) -> Stage:
        """Returns the stage of the weight of each piece: 1 for the one with the row's maximum."""
        axes = (self.block, *self.maximum.axes)
        dtype = self.maximum.buffer.dtype
        buffer = Buffer(f"{self.maximum.name}.scale", tuple(a.extent for a in axes), dtype)
        whole = read(self.maximum.name, [symbol(a.name) for a in self.maximum.axes], dtype)
        below = op("subtract", self.row_value("base", self.block), whole)
        return Stage(buffer, axes, op("exp", below))

    def whole_sum(self, stage: Stage) -> Stage:
        over = Axis(f"{stage.name}.r", self.parts)
        indices = (symbol(over.name), *(symbol(a.name) for a in stage.axes))
        part = read(f"{stage.name}.part", indices, stage.buffer.dtype)
        value = op("multiply", self.row_value("scale", over), part)
        return replace(stage, expr=value, reduce_axes=(over,))

    def row_value(self, what: str, block: Axis) -> Expr:
        indices = [symbol(a.name) for a in (block, *self.maximum.axes)]
        return read(f"{self.maximum.name}.{what}", indices, self.maximum.buffer.dtype)

    # -- expressions ---------------------------------------------------------------------------

    @property
    def ij(self) -> set[str]:
        """The axes of the rows."""
        return {a.name for a in self.maximum.axes}

    def cut(self, axes: tuple[Axis, ...], key: str) -> tuple[Axis, ...]:
        pieces: list[Axis] = []
        for axis in axes:
            pieces += [self.block, Axis(key, self.size)] if axis.name == key else [axis]
        return tuple(pieces)

    def position(self, key: str) -> IntExpr:
        return symbol(self.block.name) * self.size + symbol(key)

    def kept(self, value: Expr, key: str, outside: Expr) -> Expr:
        """Returns ``value`` inside the row, ``outside`` where the last piece exceeds it."""
        if self.parts * self.size == self.length:
            return value
        there = op("less", index(self.position(key)), index(self.length))
        return select(there, value, outside)

    def in_block(self, expr: Expr, key: str) -> Expr:
        """Returns an expression at the place ``key`` of a piece, with reads of stages in pieces."""
        there = self.position(key)
        near = there
        if self.parts * self.size != self.length:  # beyond the end: any element will do
            near = int_min(there, self.length - 1)
        stages = {s.name: s for s in self.source.stages}
        block = symbol(self.block.name)

        def leaf(node: Expr, done: dict[int, Expr]) -> Expr | None:
            if isinstance(node, Index):
                return index(substitute(node.value, {key: there}))
            if not isinstance(node, Read):
                return None
            if node.buffer == self.maximum.name:
                return read(f"{node.buffer}.base", (block, *node.indices), node.dtype)
            along = self.rows.keys.get(node.buffer)
            if along is not None:
                names = [a.name for a in stages[node.buffer].axes]
                at = names.index(along)
                indices = (*node.indices[:at], block, *node.indices[at:])
                return read(node.buffer, indices, node.dtype)
            moved = exprs.rebuilt_indices(node, done, lambda i: substitute(i, {key: near}))
            return read(node.buffer, moved, node.dtype)

        return exprs.rewrite(expr, leaf)
