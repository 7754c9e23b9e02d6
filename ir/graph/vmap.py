"""Vectorising map: what a body computes for one row, computed for many rows at once.

A value is *stacked* if it has a leading axis of one row each, and *whole* if all rows share it. An
operator's declaration says what it is on stacks of its operands (``batch=``); views, elementwise
operators and reductions need not say it. ``Rows`` takes a block from one row to all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any

from ..dataclass import dataclass
from ..traits import Trait
from . import nodes
from .builder import Builder
from .loops import next_values
from .nodes import Atom, Call, tensor_type
from .operator import OPERATORS, Pattern, get
from .types import TensorType


@dataclass(frozen=True, slots=True)
class Batch:
    """Operands of one call. ``batched`` says which have a leading axis of ``count`` rows, and
    ``shape`` is that of the result of one row."""

    call: Call
    args: Sequence[Atom]
    batched: Sequence[bool]
    count: Any
    shape: tuple[Any, ...]
    builder: Builder

    @property
    def attrs(self) -> Mapping[str, Any]:
        return self.call.attrs

    def emit(self, name: str, *args: Atom, **attrs: Any) -> Atom:
        return self.builder.emit(OPERATORS[name], args, attrs, span=self.call.span)

    def shape_of(self, n: int) -> tuple[Any, ...]:
        """Returns the shape of one row of an operand."""
        shape = tensor_type(self.args[n]).shape
        return shape[1:] if self.batched[n] else shape

    def rank(self, n: int) -> int:
        """Returns the number of axes of one row of an operand."""
        return len(self.shape_of(n))

    def axes(self, axis: Any, n: int = 0) -> tuple[int, ...]:
        """Returns axes of one row of an operand (an int, a tuple, None for all) as axes of all."""
        rank = self.rank(n)
        axes = range(rank) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        return tuple(a % rank + 1 for a in axes)

    def reshaped(self, atom: Atom, shape: Sequence[Any]) -> Atom:
        shape = tuple(shape)
        same = tensor_type(atom).shape == shape
        return atom if same else self.emit("reshape", atom, newshape=shape)

    def aligned(self, n: int, rank: int) -> Atom:
        """Returns an operand whose rows broadcast as if it had ``rank`` axes besides the first."""
        atom = self.args[n]
        if not self.batched[n]:
            return atom
        row = self.shape_of(n)
        return self.reshaped(atom, (self.count, *[1] * (rank - len(row)), *row))


def batched_call(batch: Batch) -> Atom | None:
    """Emits ``batch.call`` for all rows at once; None if its operator has no form for that."""
    op, attrs = batch.call.operator, batch.attrs
    if op.batch is not None:
        return op.batch(batch)
    if Trait.VIEW in op.traits:
        return batch.reshaped(batch.args[0], (batch.count, *batch.shape))
    if op.compute is None or not op.params:
        return None
    args = batch.args
    if op.pattern <= Pattern.BROADCAST and set(attrs) <= {"dtype", "a_min", "a_max"}:
        args = [batch.aligned(n, len(batch.shape)) for n in range(len(args))]
    elif op.pattern == Pattern.REDUCTION and set(attrs) == {"axis", "keepdims"} and batch.rank(0):
        attrs = {**attrs, "axis": batch.axes(attrs["axis"])}
    else:
        return None
    return batch.builder.emit(op, args, attrs, span=batch.call.span)


class Rows:
    """The values of a block for ``count`` rows, emitted into ``builder``: by variable those that
    are ``stacked``, and those that are ``whole``. Other atoms stand for themselves."""

    def __init__(
        self, count: int, builder: Builder, stacked: dict[Atom, Atom], whole: dict[Atom, Atom]
    ) -> None:
        self.count, self.builder = count, builder
        self.stacked, self.whole = stacked, whole
        self.loops: dict[Atom, nodes.Var] = {}

    def of(self, atom: Atom) -> Atom:
        """Returns what stands for an atom of one row."""
        return self.stacked.get(atom) or self.whole.get(atom, atom)

    def spread(self, atom: Atom) -> Atom:
        """Returns an array with a scalar of each row."""
        if atom in self.stacked:
            return self.stacked[atom]
        shape = {"shape": (self.count,)}
        return self.builder.emit(get("broadcast_to"), (self.of(atom),), shape)

    def bindings(self, bindings: Iterable[nodes.Binding]) -> bool:
        """Emits ``bindings`` for all rows, but for their tuples; False if one has no form for
        them."""
        return all(self.binding(b.var, b.value) for b in bindings)

    def binding(self, var: nodes.Var, value: nodes.Expr) -> bool:
        if isinstance(value, Call):
            return self.call(var, value)
        if isinstance(value, nodes.While):
            return self.loop(var, value)
        if isinstance(value, nodes.TupleGetItem) and value.value in self.loops:
            self.stacked[var] = self.builder.get_item(self.loops[value.value], value.index)
            return True
        return isinstance(value, nodes.Tuple)

    def call(self, var: nodes.Var, call: Call) -> bool:
        """Emits an operator for all rows; False if it has no form for that."""
        if not isinstance(var.type, TensorType):
            return False
        args, batched = [self.of(a) for a in call.args], [a in self.stacked for a in call.args]
        if not any(batched):
            self.whole[var] = self.builder.emit(call.operator, args, call.attrs, span=call.span)
            return True
        batch = Batch(call, args, batched, self.count, var.type.shape, self.builder)
        result = batched_call(batch)
        if result is not None:
            self.stacked[var] = result
        return result is not None

    def inside(self, stacked: Mapping[Atom, Atom]) -> Rows:
        """Returns the rows of a block inside of this one, in which more is stacked."""
        inside = copy(self)
        inside.builder, inside.loops = Builder(), dict(self.loops)
        inside.stacked, inside.whole = {**self.stacked, **stacked}, dict(self.whole)
        return inside

    def loop(self, var: nodes.Var, loop: nodes.While) -> bool:
        """Emits a loop that carries scalars: it goes on as long as any row does, and a row that has
        finished stays as it is."""
        following = next_values(loop.body)
        types = [p.type for p in loop.params]
        if following is None or not all(isinstance(t, TensorType) and not t.rank for t in types):
            return False
        initial = [self.spread(a) for a in loop.initial]
        params = [
            nodes.Var(p.name, a.type, p.span) for p, a in zip(loop.params, initial, strict=True)
        ]
        carried: dict[Atom, Atom] = dict(zip(loop.params, params, strict=True))
        condition, body = self.inside(carried), self.inside(carried)
        goes_on, test = loop.condition.result, loop.condition.bindings
        if not condition.bindings(test) or not body.bindings(test):
            return False
        if goes_on not in condition.stacked or not body.bindings(loop.body.bindings):
            return False
        any_row = condition.builder.emit(get("any"), (condition.of(goes_on),))
        active = body.of(goes_on)
        ends: list[Atom] = []
        for old, end in zip(params, following, strict=True):
            new = body.of(end)
            same = new is old
            ends.append(old if same else body.builder.emit(get("where"), (active, new, old)))
        done = body.builder.block(body.builder.make_tuple(ends))
        until = condition.builder.block(any_row)
        self.loops[var] = self.builder.while_loop(params, initial, until, done, span=loop.span)
        return True
