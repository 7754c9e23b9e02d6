"""Forward mode: the tangents of a block's values, emitted beside the values.

Before::

    fn (%x: Tensor[(4), float32]) {
      %0 = sin(%x);
      multiply(%0, %x)
    }

After, with ``%t`` for the tangent of ``%x``::

    fn (%x: Tensor[(4), float32], %t: Tensor[(4), float32]) {
      %0 = sin(%x);
      %1 = cos(%x);
      %2 = multiply(%t, %1);
      %3 = multiply(%0, %x);
      %4 = multiply(%2, %x);
      %5 = multiply(%t, %0);
      %6 = add(%4, %5);
      (%3, %6)
    }

A loop carries the tangents of what it carries, as far as these are not 0; a branch returns them.
With a ``split`` loops and branches are two each: one of the values, one of the tangents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ...errors import LoopwrightError, LoopwrightTypeError
from ...traits import Trait
from .. import nodes
from ..builder import Builder
from ..loops import filled, next_values
from ..nodes import Atom, Binding, Block, Call, Expr, For, GlobalVar, If, Tuple, Var, While
from ..operator import Operator
from ..types import TensorType, TupleType, Type, fields_of
from .rules import Derived, Step, has_tangent, no_derivative, tangent_of

Fields = list[Atom | None]
"""Tangents of the fields of a tuple."""

Split = Callable[["Tangents", Var, "If | For | While"], None]


class Tangents:
    """Values of a block and their tangents ``of`` variables, emitted into ``builder``.

    ``fields`` are the tangents of variables that are tuples. ``derived`` has the derivatives of
    functions that are called. ``split``, if there is one, emits loops and branches (see
    ``linearise.py``).
    """

    def __init__(
        self,
        builder: Builder,
        of: Mapping[Var, Atom | None],
        derived: Derived,
        split: Split | None = None,
    ) -> None:
        self.builder = builder
        self.of: dict[Var, Atom] = {v: a for v, a in of.items() if a is not None}
        self.fields: dict[Var, Fields] = {}
        self.definitions: dict[Var, Expr] = {}
        self.derived, self.split = derived, split

    def get(self, atom: Atom) -> Atom | None:
        """Returns the tangent of a value; None if it is 0."""
        return self.of.get(atom) if isinstance(atom, Var) else None

    def inside(self, more: Mapping[Var, Atom | None]) -> Tangents:
        """Returns the tangents of a block inside of this one, of which more are there."""
        builder = Builder(limits=self.builder.limits)
        inside = Tangents(builder, {**self.of, **more}, self.derived, self.split)
        inside.fields, inside.definitions = dict(self.fields), dict(self.definitions)
        return inside

    def bindings(self, bindings: Iterable[Binding]) -> None:
        """Emits values and tangents."""
        for binding in bindings:
            self.builder.span = binding.var.span or getattr(binding.value, "span", None)
            try:
                self._binding(binding.var, binding.value)
            except LoopwrightError as error:
                if error.span is None:
                    error.span = self.builder.span
                raise

    def keep(self, var: Var, value: Expr) -> None:
        """Emits a binding as it is."""
        self.builder.bindings.append(Binding(var, value))
        self.definitions[var] = value

    def _binding(self, var: Var, value: Expr) -> None:
        if isinstance(value, Call):
            self._call(var, value)
        elif isinstance(value, If | For | While):
            if self.split is not None:
                self.split(self, var, value)
            elif isinstance(value, If):
                self._branch(var, value)
            else:
                self._loop(var, value)
        else:
            self.keep(var, value)
            if isinstance(value, Tuple):
                self.fields[var] = [self.get(field) for field in value.fields]
            elif isinstance(value, nodes.TupleGetItem):
                assert isinstance(value.value, Var)
                self._set(var, self.fields[value.value][value.index])
            elif isinstance(value, Var):
                self._set(var, self.of.get(value))
                self.fields.update({var: self.fields[value]} if value in self.fields else {})
            elif isinstance(value, nodes.Function):
                raise LoopwrightTypeError("a function as a value has no derivative")

    def _set(self, var: Var, tangent: Atom | None) -> None:
        if tangent is not None:
            self.of[var] = tangent

    def _call(self, var: Var, call: Call) -> None:
        tangents = [self.get(a) for a in call.args]
        types = fields_of(var.type)
        moves = any(t is not None for t in tangents) and any(map(has_tangent, types))
        op = call.op
        jumps = isinstance(op, Operator) and Trait.JUMPS in op.traits and op.tangent is None
        if jumps or not moves:
            self.keep(var, call)
            self.fields[var] = [None] * len(types)
            return
        if isinstance(op, GlobalVar | Var):
            self._function(var, call, op, tangents)
            return
        is_linear = Trait.LINEAR in op.traits or Trait.MULTILINEAR in op.traits
        decompose = op.decompose or op.unfold
        if op.tangent is None and decompose is not None and not is_linear:
            parts = Builder(span=self.builder.span, limits=self.builder.limits)
            result = decompose(parts, call.args, call.attrs)
            self.bindings(parts.bindings)
            self.keep(var, result)
            self._set(var, self.get(result))
            if isinstance(result, Var) and result in self.fields:
                self.fields[var] = self.fields[result]
            return
        self.keep(var, call)
        if isinstance(var.type, TupleType) and op.tangent is None:
            raise no_derivative(op)
        tangent = tangent_of(Step(call, var, tangents, self.builder, self.split is not None))
        if isinstance(tangent, list):
            self.fields[var] = [None if t is None else t.atom for t in tangent]
        elif tangent is not None:
            self.of[var] = tangent.atom

    def _function(self, var: Var, call: Call, callee: GlobalVar | Var, tangents: Fields) -> None:
        """Emits a call of a function that has the tangents, too. With a ``split`` that one is for
        the linear part, and the values are computed without it."""
        types = fields_of(var.type)
        forward = self.derived.forward(callee, tuple(t is not None for t in tangents))
        args = [*call.args, *(t for t in tangents if t is not None)]
        bound = self.builder.emit(forward, args, span=call.span)
        moving = [n for n, type in enumerate(types) if has_tangent(type)]
        if self.split is None:
            self.take_apart(var, bound, len(types), moving)
            return
        self.keep(var, call)
        moved: Fields = [None] * len(types)
        for n, k in enumerate(moving):
            moved[k] = self.builder.get_item(bound, len(types) + n)
        self.fields[var] = moved
        if isinstance(var.type, TensorType):
            self._set(var, moved[0])

    # -- branches and loops ---------------------------------------------------------------------

    def outcome(self, block: Block) -> tuple[list[Atom], Fields]:
        """Emits a block but for the tuple that it results in. Returns its results, and their
        tangents."""
        fields = next_values(block)
        if fields is None:
            self.bindings(block.bindings)
            if not isinstance(block.result.type, TupleType):
                return [block.result], [self.get(block.result)]
            assert isinstance(block.result, Var)
            count = len(block.result.type.fields)
            atoms: list[Atom] = [self.builder.get_item(block.result, n) for n in range(count)]
            return atoms, self.fields[block.result]
        self.bindings(b for b in block.bindings if b.var is not block.result)
        return list(fields), [self.get(field) for field in fields]

    def bind_results(self, var: Var, values: Sequence[Atom], tangents: Fields) -> None:
        """Gives the variable of a branch or loop its value, which consists of ``values``."""
        if isinstance(var.type, TupleType):
            self.keep(var, Tuple(tuple(values), var.span))
            self.fields[var] = tangents
        else:
            self.keep(var, values[0])
            self._set(var, tangents[0])

    def _branch(self, var: Var, branch: If) -> None:
        sides = [self.inside({}), self.inside({})]
        blocks = branch.then, branch.orelse
        outcomes = [side.outcome(block) for side, block in zip(sides, blocks, strict=True)]
        (values, one), (_, other) = outcomes
        moving = [n for n in range(len(values)) if (one[n] is None) < 1 or other[n] is not None]
        whole = [
            side.builder.block(
                side.builder.make_tuple(
                    [*atoms, *(or_zeros(moved[n], atoms[n].type, side.builder) for n in moving)]
                )
            )
            for side, (atoms, moved) in zip(sides, outcomes, strict=True)
        ]
        bound = self.builder.cond(branch.condition, *whole, span=branch.span)
        self.take_apart(var, bound, len(values), moving)

    def take_apart(self, var: Var, bound: Var, count: int, moving: Sequence[int]) -> None:
        """Binds ``var`` to the first ``count`` fields of a tuple, behind which are the tangents of
        those that are ``moving``."""
        items = [self.builder.get_item(bound, n) for n in range(count + len(moving))]
        tangents: Fields = [None] * count
        for n, item in zip(moving, items[count:], strict=True):
            tangents[n] = item
        self.bind_results(var, items[:count], tangents)

    def _loop(self, var: Var, loop: For | While) -> None:
        moving, inside, tangents, ends, moved = self.traced_body(loop)
        initial = [
            or_zeros(self.get(loop.initial[n]), loop.params[n].type, self.builder) for n in moving
        ]
        ends += [or_zeros(moved[n], ends[n].type, inside.builder) for n in moving]
        body = inside.builder.block(inside.builder.make_tuple(ends))
        carried = (*loop.params, *tangents)
        begins = (*loop.initial, *initial)
        bound = self.builder.bind(
            replace(loop, params=carried, initial=begins, body=body),
            TupleType(tuple(p.type for p in carried)),
        )
        self.take_apart(var, bound, len(loop.params), moving)

    def traced_body(
        self, loop: For | While
    ) -> tuple[list[int], Tangents, list[Var], list[Atom], Fields]:
        """Emits the body of a loop. Returns the carries that have tangents, as many as go on with
        one or begin with one; what was emitted; the parameters for these tangents; and with which
        values and tangents the carries go on."""
        moving = [n for n, a in enumerate(loop.initial) if self.get(a) is not None]
        while True:
            tangents = [tangent_var(loop.params[n]) for n in moving]
            inside = self.inside({loop.params[n]: t for n, t in zip(moving, tangents)})
            ends, moved = inside.outcome(loop.body)
            more = [n for n, t in enumerate(moved) if t is not None or n in moving]
            if more == moving:
                return moving, inside, tangents, ends, moved
            moving = more


def tangent_var(var: Var) -> Var:
    """Returns a variable for the tangent of another one."""
    return Var(f"{var.name}.t", var.type, var.span)


def or_zeros(tangent: Atom | None, type: Type, builder: Builder) -> Atom:
    """Returns a tangent, or zeros of that type."""
    return filled(type, 0, builder) if tangent is None else tangent
