"""The transpose of linear bindings: from the cotangents of results to those of the inputs.

Before, where ``%t`` is the input::

    %0 = multiply(%t, %a);
    %1 = sum(%0, axis=[0])

After, with ``%ct`` for the cotangent of ``%1``::

    %2 = broadcast_to(%ct, shape=[4]);
    %3 = multiply(%2, %a)

A value that is used twice gets the sum of two cotangents. A loop runs backward, and carries the
cotangents of what it carried, and the sums for what its body takes from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from ...errors import LoopwrightError
from ..builder import Builder
from ..compose import Value, call
from ..loops import int64
from ..nodes import Atom, Binding, Block, Call, Expr, For, GlobalVar, If, Tuple, TupleGetItem, Var
from ..types import TensorType, fields_of
from ..walk import all_uses, copy_block
from .forward import Fields, or_zeros
from .rules import Derived, Transposition, no_derivative


def partition(bindings: Iterable[Binding], linear: set[Var]) -> tuple[list[Binding], list[Binding]]:
    """Returns the bindings that do not depend on the variables of ``linear``, and those that do,
    whose variables join these."""
    rest: list[Binding] = []
    depending: list[Binding] = []
    for binding in bindings:
        if linear.isdisjoint(all_uses(binding.value)):
            rest.append(binding)
        else:
            depending.append(binding)
            linear.add(binding.var)
    return rest, depending


class Cotangents:
    """Cotangents ``of`` linear variables, emitted into ``builder``.

    ``linear`` are all variables that have some; ``instead`` says what stands for others, where the
    bindings of a body are emitted once more.
    """

    def __init__(
        self,
        builder: Builder,
        linear: set[Var],
        derived: Derived,
        instead: Mapping[Var, Atom] | None = None,
    ) -> None:
        self.builder, self.linear, self.derived = builder, linear, derived
        self.instead: dict[Var, Atom] = dict(instead or {})
        self.of: dict[Var, Atom] = {}
        self.fields: dict[Var, Fields] = {}

    def add(self, atom: Atom, cotangent: Atom | None) -> None:
        """Adds to the cotangent of a value, if that is linear."""
        if cotangent is None or not isinstance(atom, Var) or atom not in self.linear:
            return
        total = self.of.get(atom)
        if total is not None:
            cotangent = call(self.builder, "add", total, cotangent)
        self.of[atom] = cotangent

    def value(self, atom: Atom) -> Atom:
        """Returns what stands for a value that is not linear."""
        return self.instead.get(atom, atom) if isinstance(atom, Var) else atom

    def run(self, bindings: Sequence[Binding]) -> None:
        """Goes through bindings, of which all are linear, from the last to the first."""
        for binding in reversed(bindings):
            var, value = binding.var, binding.value
            if var not in self.of and all(f is None for f in self.fields.get(var, ())):
                continue
            self.builder.span = var.span
            try:
                self._binding(var, value)
            except LoopwrightError as error:
                if error.span is None:
                    error.span = var.span
                raise

    def _binding(self, var: Var, value: Expr) -> None:
        if isinstance(value, TupleGetItem):
            assert isinstance(value.value, Var)
            self._field(value.value, value.index, self.of.pop(var))
        elif isinstance(value, Tuple):
            for field, cotangent in zip(value.fields, self.fields.pop(var), strict=True):
                self.add(field, cotangent)
        elif isinstance(value, Var):
            self.add(value, self.of.pop(var, None))
            for n, cotangent in enumerate(self.fields.pop(var, [])):
                if cotangent is not None:
                    self._field(value, n, cotangent)
        elif isinstance(value, Call):
            self._call(value, self.of.pop(var, int64(0)), self.fields.pop(var, []))
        elif isinstance(value, If):
            self._branch(value, self.fields.pop(var))
        else:
            assert isinstance(value, For)
            self._loop(value, self.fields.pop(var))

    def _field(self, var: Var, index: int, cotangent: Atom) -> None:
        fields = self.fields.setdefault(var, [None] * len(var.type.fields))  # pyright: ignore
        total = fields[index]
        if total is not None:
            cotangent = call(self.builder, "add", total, cotangent)
        fields[index] = cotangent

    def _call(self, linear_call: Call, cotangent: Atom, fields: Fields) -> None:
        if isinstance(linear_call.op, GlobalVar):
            self._function(linear_call, linear_call.op, fields)
            return
        op = linear_call.operator
        if op.transpose is None:
            if op.decompose is None:
                raise no_derivative(op)
            self._composite(linear_call, cotangent)
            return
        args = linear_call.args
        is_linear = [isinstance(a, Var) and a in self.linear for a in args]
        args = [a if n else self.value(a) for a, n in zip(args, is_linear, strict=True)]
        ct = Value(self.builder, cotangent)
        op.transpose(Transposition(linear_call, args, is_linear, ct, self.of, self.builder, fields))

    def _function(self, linear_call: Call, forward: GlobalVar, fields: Fields) -> None:
        """Emits the call that is the transpose of one which ``Derived.forward`` made."""
        backward = self.derived.backward(forward)
        inputs = linear_call.args[-len(fields_of(backward.type.result)) :]
        args = [self.value(a) for a in linear_call.args[: -len(inputs)]]
        types = backward.type.params[len(args) :]
        cotangents = zip(fields[-len(types) :], types, strict=True)
        args += (or_zeros(c, t, self.builder) for c, t in cotangents)
        bound = self.builder.emit(backward, args)
        for n, tangent in enumerate(inputs):
            self.add(tangent, self.builder.get_item(bound, n))

    def _composite(self, linear_call: Call, cotangent: Atom) -> None:
        """Transposes what a composite consists of."""
        assert linear_call.operator.decompose is not None
        attrs = linear_call.attrs
        if linear_call.operator.algorithms is not None:
            attrs = {**attrs, "algorithm": "direct"}
        parts = Builder(limits=self.builder.limits)
        args = [a if a in self.linear else self.value(a) for a in linear_call.args]
        result = linear_call.operator.decompose(parts, args, attrs)
        rest, linear = partition(parts.bindings, self.linear)
        self.builder.bindings += rest
        self.add(result, cotangent)
        self.run(linear)

    def _inside(
        self,
        block: Block,
        cotangents: Fields,
        instead: Mapping[Var, Atom],
        params: Sequence[Var] = (),
        sums: Mapping[Var, Atom] = MappingProxyType({}),
    ) -> Cotangents:
        """Transposes a block inside of a branch or loop, from the ``cotangents`` of its fields.
        What is not linear in it is emitted first; ``sums`` are the cotangents to add to."""
        inside = Cotangents(
            Builder(limits=self.builder.limits),
            {*self.linear, *params},
            self.derived,
            {**self.instead, **instead},
        )
        copied = copy_block(block, inside.instead)  # with sizes of its own
        rest, linear = partition(copied.bindings, inside.linear)
        inside.builder.bindings += rest
        inside.of.update(sums)
        assert isinstance(copied.result, Var)
        inside.fields[copied.result] = list(cotangents)
        inside.run(linear)
        return inside

    def _taken(self, *blocks: Block) -> list[Var]:
        """Returns the linear variables from outside that blocks use."""
        uses = dict.fromkeys(u for b in blocks for each in b.bindings for u in _uses(each.value))
        return [u for u in uses if u in self.linear]

    def _branch(self, branch: If, cotangents: Fields) -> None:
        blocks = branch.then, branch.orelse
        taken = [v for v in self._taken(*blocks) if isinstance(v.type, TensorType)]
        sides = [self._inside(block, cotangents, {}) for block in blocks]
        given = [v for v in taken if any(v in side.of for side in sides)]
        if not given:
            return
        whole = [
            side.builder.block(
                side.builder.make_tuple(
                    [or_zeros(side.of.get(v), v.type, side.builder) for v in given]
                )
            )
            for side in sides
        ]
        bound = self.builder.cond(self.value(branch.condition), *whole, span=branch.span)
        for n, var in enumerate(given):
            self.add(var, self.builder.get_item(bound, n))

    def _loop(self, loop: For, cotangents: Fields) -> None:
        """Emits the loop that runs backward. It carries cotangents of the carries, as many as have
        one or get one, and of what is taken from outside."""
        taken = [v for v in self._taken(loop.body) if isinstance(v.type, TensorType)]
        extent = self.value(loop.extent)
        moving = [n for n, c in enumerate(cotangents) if c is not None]
        summed: list[Var] = []
        while True:
            index = Var(loop.index.name, loop.index.type, loop.index.span)
            params = {n: _cotangent_var(loop.params[n]) for n in moving}
            sums = {v: _cotangent_var(v) for v in summed}
            before = Builder()
            at = call(before, "subtract", extent, int64(1))
            at = call(before, "subtract", at, index)
            ends_as: Fields = [params.get(n) for n in range(len(cotangents))]
            inside = self._inside(loop.body, ends_as, {loop.index: at}, loop.params, sums)
            inside.builder.bindings[:0] = before.bindings
            more = [n for n, p in enumerate(loop.params) if n in params or p in inside.of]
            given = [v for v in taken if v in inside.of]
            if more == moving and given == summed:
                break
            moving, summed = more, given
        types = [loop.params[n].type for n in moving]
        begins = [or_zeros(cotangents[n], t, self.builder) for n, t in zip(moving, types)]
        begins += [or_zeros(None, v.type, self.builder) for v in summed]
        ends = [
            or_zeros(inside.of.get(loop.params[n]), loop.params[n].type, inside.builder)
            for n in moving
        ]
        ends += [inside.of[v] for v in summed]
        body = inside.builder.block(inside.builder.make_tuple(ends))
        carried = [*params.values(), *sums.values()]
        bound = self.builder.for_loop(index, extent, carried, begins, body, span=loop.span)
        items = [self.builder.get_item(bound, n) for n in range(len(carried))]
        for n, item in zip(moving, items):
            self.add(loop.initial[n], item)
        for var, item in zip(summed, items[len(moving) :]):
            self.add(var, item)


def _uses(value: Expr) -> list[Var]:
    return sorted(all_uses(value), key=lambda v: v.name)


def _cotangent_var(var: Var) -> Var:
    return Var(f"{var.name}.ct", var.type, var.span)
