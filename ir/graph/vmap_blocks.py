"""Vectorising map of blocks: what a block computes for one row, computed for many rows at once.

``Rows`` emits a block for all rows. Passes over loops use it where every operator has a cheap form
for that (``vmap.py``). If it is ``complete``, as ``lw.vmap`` wants it, any block has a form: rows
that go different ways at a branch compute both, a loop runs as long as any row needs it, and an
operator without a form is computed row by row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import copy
from typing import Any, TypeAlias

import numpy as np

from ..dtype import INT64
from ..errors import UnsupportedError
from ..traits import Trait
from . import nodes
from .builder import Builder
from .call_graph import call_graph, recursive_components
from .loops import filled, int64
from .nodes import Atom, Call, tensor_type
from .operator import Operator, get
from .types import TensorType, TupleType, Type
from .vmap import Batch, batched_call, derived_call, stacked_type
from .walk import all_bindings, all_uses, copy_block, has_trait, nested_blocks

Leaf: TypeAlias = tuple[bool, Atom]
"""True for a stack, and the atom that stands for a tensor of one row."""


class Rows:
    """The values of a block for ``count`` rows, emitted into ``builder``: by variable those that
    are ``stacked``, and those that are ``whole``. Other atoms stand for themselves. A tuple is the
    atoms of one row that are its ``fields``.

    ``module`` has the functions that are called. Where only some rows take part, ``active`` is a
    bool of each row.
    """

    complete = False

    def __init__(
        self,
        count: Any,
        builder: Builder,
        stacked: dict[Atom, Atom],
        whole: dict[Atom, Atom],
        module: nodes.Module | None = None,
    ) -> None:
        self.count, self.builder = count, builder
        self.stacked, self.whole = stacked, whole
        self.module = module or nodes.Module()
        self.fields: dict[Atom, tuple[Atom, ...]] = {}
        self.functions: dict[Atom, nodes.Function] = {}
        self.active: Atom | None = None

    def bindings(self, bindings: Iterable[nodes.Binding]) -> bool:
        """Emits ``bindings`` for all rows; False if one has no form for them."""
        return all(self.binding(b.var, b.value) for b in bindings)

    def binding(self, var: nodes.Var, value: nodes.Expr) -> bool:
        if isinstance(value, Call):
            return self.call(var, value)
        if isinstance(value, nodes.While | nodes.For):
            return self.loop(var, value)
        if isinstance(value, nodes.Tuple):
            self.fields[var] = value.fields
        elif isinstance(value, nodes.TupleGetItem) and (
            self.complete or value.value in self.fields
        ):
            self.alias(var, self.fields_of(value.value)[value.index])
        elif not self.complete:
            return False
        elif isinstance(value, nodes.If):
            self.branch(var, value)
        elif isinstance(value, nodes.Function):
            self.functions[var] = value
        else:
            assert isinstance(value, nodes.Var | nodes.Constant | nodes.GlobalVar)
            self.alias(var, value)
        return True

    def inside(self, params: Mapping[nodes.Var, Atom], stacked: Collection[nodes.Var]) -> Rows:
        """Returns the rows of a block inside of this one, with what stands for its ``params``."""
        inside = copy(self)
        inside.builder = Builder(limits=self.builder.limits)
        inside.stacked = {**self.stacked, **{p: a for p, a in params.items() if p in stacked}}
        inside.whole = {**self.whole, **{p: a for p, a in params.items() if p not in stacked}}
        inside.fields, inside.functions = dict(self.fields), dict(self.functions)
        return inside

    # -- what stands for the values of one row ----------------------------------------------------

    def of(self, atom: Atom) -> Atom:
        """Returns what stands for an atom of one row."""
        return self.stacked.get(atom) or self.whole.get(atom, atom)

    def spread(self, atom: Atom) -> Atom:
        """Returns the stack of an atom of one row."""
        if atom in self.stacked:
            return self.stacked[atom]
        whole = self.of(atom)
        shape = {"shape": (self.count, *tensor_type(whole).shape)}
        return self.builder.emit(get("broadcast_to"), (whole,), shape)

    def alias(self, var: nodes.Var, atom: Atom) -> None:
        """Lets ``var`` stand for what another atom of one row stands for."""
        if atom in self.fields:
            self.fields[var] = self.fields[atom]
        elif atom in self.functions:
            self.functions[var] = self.functions[atom]
        elif atom in self.stacked:
            self.stacked[var] = self.stacked[atom]
        else:
            self.whole[var] = self.of(atom)

    def bind(self, var: nodes.Var, leaves: Iterator[Leaf]) -> nodes.Var:
        """Lets ``var`` stand for the next of ``leaves``, a tuple for as many as it has."""
        if isinstance(var.type, TupleType):
            kinds = enumerate(var.type.fields)
            self.fields[var] = tuple(
                self.bind(nodes.Var(f"{var.name}.{n}", kind, var.span), leaves) for n, kind in kinds
            )
            return var
        many, atom = next(leaves)
        (self.stacked if many else self.whole)[var] = atom
        return var

    def fields_of(self, atom: Atom) -> tuple[Atom, ...]:
        """Returns the atoms of one row that are the fields of a tuple."""
        if atom not in self.fields:
            whole = nodes.Var("fields", atom.type)
            many, stands = atom in self.stacked, self.of(atom)
            leaves = ((many, leaf) for leaf in _unpacked(stands, self.builder))
            self.fields[atom] = self.fields[self.bind(whole, leaves)]
        return self.fields[atom]

    def leaves(self, atom: Atom) -> Iterator[Atom]:
        """Yields the tensors of one row in an atom, which may be a tuple."""
        if not isinstance(atom.type, TupleType):
            yield atom
            return
        for field in self.fields_of(atom):
            yield from self.leaves(field)

    def differs(self, atom: Atom) -> bool:
        """True if an atom is not the same for all rows."""
        return not self.stacked.keys().isdisjoint(self.leaves(atom))

    def shared(self, atom: Atom) -> Atom:
        """Returns what stands for an atom that is the same for all rows."""
        return _packed(atom.type, map(self.of, self.leaves(atom)), self.builder)

    # -- calls ------------------------------------------------------------------------------------

    def call(self, var: nodes.Var, call: Call) -> bool:
        """Emits a call for all rows; False if it has no form for that."""
        if not isinstance(call.op, Operator):
            return self.complete and self.call_function(var, call, call.op)
        if not self.complete and not isinstance(var.type, TensorType):
            return False
        args, batched = [self.of(a) for a in call.args], [a in self.stacked for a in call.args]
        if not any(batched):
            self.whole[var] = self.builder.emit(call.op, args, call.attrs, span=call.span)
            return True
        shape = var.type.shape if isinstance(var.type, TensorType) else ()
        batch = Batch(call, args, batched, self.count, shape, self.builder, self.complete)
        result = batched_call(batch)
        if result is None and self.complete:
            if Trait.SETS_SIZE in call.op.traits:
                raise UnsupportedError(
                    "vmap: a size that the values of a row decide differs from row to row",
                    hint="give it a bound that all rows share, or mask what is not wanted",
                    span=call.span,
                )
            result = derived_call(batch, var.type)
        if result is not None:
            self.bind(var, ((True, leaf) for leaf in _unpacked(result, self.builder)))
        elif self.complete and call.op.decompose is not None:
            self.decomposed(var, call)
        elif self.complete:
            self.by_row(var, call)
        return result is not None or self.complete

    def by_row(self, var: nodes.Var, value: nodes.Expr) -> None:
        """Emits a loop over the rows that computes a value for one after the other."""
        kinds = [stacked_type(kind, self.count) for kind in _tensors(var.type)]
        stacks: list[Atom] = [filled(kind, 0, self.builder) for kind in kinds]
        if self.count == 0:
            self.bind(var, ((True, stack) for stack in stacks))
            return
        index = nodes.Var("row", TensorType((), INT64))
        inside = Builder(limits=self.builder.limits)
        uses, instead = all_uses(value), dict[nodes.Var, Atom]()

        def of_row(leaf: Atom) -> Atom:
            many, atom = leaf in self.stacked, self.of(leaf)
            return inside.emit(get("take"), (atom, index), {"axis": 0}) if many else atom

        for atom in [*self.fields, *self.stacked, *self.whole]:
            if isinstance(atom, nodes.Var) and atom in uses and atom not in instead:
                instead[atom] = _packed(atom.type, map(of_row, self.leaves(atom)), inside)
        row = copy_block(nodes.Block((nodes.Binding(var, value),), var), instead)
        result = row.result
        if self.active is None or not isinstance(value, Call) or isinstance(value.op, Operator):
            inside.bindings += row.bindings
        else:  # a function may never end for a row that does not take part
            takes_part = inside.emit(get("take"), (self.active, index), {"axis": 0})
            rest = Builder(limits=self.builder.limits)
            zeros = _packed(var.type, (filled(t, 0, rest) for t in _tensors(var.type)), rest)
            result = inside.cond(takes_part, row, rest.block(zeros))
        params = [nodes.Var(f"rows{n}", kind) for n, kind in enumerate(kinds)]
        ends = [
            inside.emit(get("index_update"), (param, end, index), {"axes": (0,)})
            for param, end in zip(params, _unpacked(result, inside), strict=True)
        ]
        body, count = inside.block(inside.make_tuple(ends)), self.count
        attrs = {"shape": (), "fill_value": count, "dtype": "int64"}
        constant = isinstance(count, int)
        extent = int64(count) if constant else self.builder.emit(get("full"), (), attrs)
        loop = self.builder.for_loop(index, extent, params, stacks, body)
        self.bind(var, ((True, stack) for stack in _unpacked(loop, self.builder)))

    def decomposed(self, var: nodes.Var, call: Call) -> None:
        """Emits the operators that an operator consists of."""
        builder = Builder(span=call.span, limits=self.builder.limits)
        args = [
            nodes.Var(f"x{n}", arg.type) if arg in self.stacked else self.of(arg)
            for n, arg in enumerate(call.args)
        ]
        self.stacked |= {
            a: self.stacked[arg] for a, arg in zip(args, call.args) if arg in self.stacked
        }
        assert call.operator.decompose is not None
        result = call.operator.decompose(builder, args, call.attrs)
        self.bindings(builder.bindings)
        self.alias(var, result)

    def call_function(
        self, var: nodes.Var, call: Call, callee: nodes.GlobalVar | nodes.Var
    ) -> bool:
        """Emits the body of a function for all rows, or a call of it if they share its operands."""
        function: Any = self.functions.get(callee) or self.module.functions.get(callee.name)
        is_recursive = callee.name in recursive_components(call_graph(self.module))
        if callee not in self.functions and not any(map(self.differs, call.args)):
            args = [self.shared(arg) for arg in call.args]
            self.whole[var] = self.builder.emit(callee, args, call.attrs, span=call.span)
        elif isinstance(function, nodes.Function) and not is_recursive:
            for param, arg in zip(function.params, call.args, strict=True):
                self.alias(param, arg)
            self.bindings(function.body.bindings)
            self.alias(var, function.body.result)
        else:  # a kernel, or one whose depth may differ from row to row
            self.by_row(var, call)
        return True

    # -- branches and loops -----------------------------------------------------------------------

    def emit(self, name: str, *args: Atom, **attrs: Any) -> nodes.Var:
        return self.builder.emit(get(name), args, attrs)

    def where(self, condition: Atom, then: Atom, orelse: Atom) -> Atom:
        rank = tensor_type(then).rank
        if rank > 1:
            shape = (self.count, *[1] * (rank - 1))
            condition = self.emit("reshape", condition, newshape=shape)
        return self.emit("where", condition, then, orelse)

    def both(self, here: Atom) -> Atom:
        """Returns which of the rows ``here`` take part."""
        return here if self.active is None else self.emit("logical_and", here, self.active)

    def branch(self, var: nodes.Var, value: nodes.If) -> None:
        """Emits a branch; where rows go both ways, both are computed and each row takes its own."""
        blocks, ends = (value.then, value.orelse), list[list[Atom]]()
        condition = self.stacked.get(value.condition)
        if condition is not None and may_fail(value):
            self.by_row(var, value)
            return
        if condition is not None:
            outer = self.active
            for block, here in zip(blocks, (condition, self.emit("logical_not", condition))):
                self.active = outer
                self.active = self.both(here)
                self.bindings(block.bindings)
                ends.append([*self.leaves(block.result)])
            self.active = outer
            leaves: list[Leaf] = []
            for a, b in zip(*ends, strict=True):
                leaf = a in self.stacked, self.of(a)
                if self.of(b) is not self.of(a):
                    leaf = True, self.where(condition, self.spread(a), self.spread(b))
                leaves.append(leaf)
            self.bind(var, iter(leaves))
            return
        sides = [self.inside({}, ()) for _ in blocks]
        for side, block in zip(sides, blocks, strict=True):
            side.bindings(block.bindings)
            ends.append([*side.leaves(block.result)])
        many = [any(e in s.stacked for s, e in zip(sides, pair)) for pair in zip(*ends)]
        made: list[nodes.Block] = []
        for side, end in zip(sides, ends, strict=True):
            atoms = [side.spread(e) if m else side.of(e) for e, m in zip(end, many, strict=True)]
            made.append(side.builder.block(_packed(var.type, iter(atoms), side.builder)))
        result = self.builder.cond(self.of(value.condition), *made, span=value.span)
        self.bind(var, zip(many, _unpacked(result, self.builder), strict=True))

    def loop(self, var: nodes.Var, loop: nodes.While | nodes.For) -> bool:
        """Emits a loop that goes on as long as any row does; a row that has finished stays as it
        is. Without ``complete`` it is a ``While`` of scalars, all of which are stacked."""
        plain = all(isinstance(p.type, TensorType) and not p.type.rank for p in loop.params)
        if not self.complete and not (plain and isinstance(loop, nodes.While)):
            return False
        begins = dict(zip(loop.params, loop.initial, strict=True))
        stacked = {p for p, a in begins.items() if not self.complete or a in self.stacked}
        index = nodes.Var("i", TensorType((), INT64))
        while True:  # until no more of what is carried becomes a stack
            kinds = [stacked_type(p.type, self.count) if p in stacked else p.type for p in begins]
            params = {p: nodes.Var(p.name, kind, p.span) for p, kind in zip(begins, kinds)}
            test, body = self.inside(params, stacked), self.inside(params, stacked)
            if isinstance(loop, nodes.While):
                if not test.bindings(loop.condition.bindings):
                    return False
                differs = loop.condition.result in test.stacked
            else:
                body.whole[loop.index] = index
                differs = loop.extent in self.stacked
            if not self.complete and not differs:
                return False
            if differs and self.complete and may_fail(loop):
                self.by_row(var, loop)
                return True
            active = None
            if differs and isinstance(loop, nodes.While):
                if not body.bindings(loop.condition.bindings):
                    return False
                active = body.both(body.stacked[loop.condition.result])
            elif isinstance(loop, nodes.For) and differs:
                active = body.both(body.emit("less", index, self.stacked[loop.extent]))
            if self.complete:
                body.active = active or self.active
            if not body.bindings(loop.body.bindings):
                return False
            ends = dict(zip(begins, body.fields_of(loop.body.result), strict=True))
            changed = {p for p, end in ends.items() if body.of(end) is not params[p]}
            grown = {p for p, end in ends.items() if body.differs(end)}
            grown |= changed if differs else set()
            if grown <= stacked:
                break
            stacked |= grown
        following: list[Atom] = []
        for p, end in ends.items():
            new = body.spread(end) if p in stacked else body.shared(end)
            if active is not None and p in changed:
                new = body.where(active, new, params[p])
            following.append(new)
        initial = [self.spread(a) if p in stacked else self.shared(a) for p, a in begins.items()]
        done = body.builder.block(body.builder.make_tuple(following))
        carries = [*params.values()], initial
        if isinstance(loop, nodes.While):
            until = test.of(loop.condition.result)
            until = test.emit("any", test.both(until)) if differs else until
            check = test.builder.block(until)
            value = self.builder.while_loop(*carries, check, done, span=loop.span)
        else:
            extent = self.of(loop.extent)
            if differs:
                none = nodes.Constant(np.zeros(1, np.int64))
                extent = self.emit("max", self.emit("concatenate", extent, none))
            value = self.builder.for_loop(index, extent, *carries, done, span=loop.span)
        items = [self.builder.get_item(value, n) for n in range(len(begins))]
        self.bind(
            var,
            ((p in stacked, a) for p, i in zip(begins, items) for a in _unpacked(i, self.builder)),
        )
        return True


class AllRows(Rows):
    """The values of any block: every operator and every kind of node has a form."""

    complete = True


def _tensors(type: Type) -> Iterator[Type]:
    """Yields the types of the tensors in a type, which may be that of a tuple."""
    if not isinstance(type, TupleType):
        yield type
        return
    for field in type.fields:
        yield from _tensors(field)


def _unpacked(atom: Atom, builder: Builder) -> Iterator[Atom]:
    """Yields the tensors in an atom, which may be a tuple."""
    if not isinstance(atom.type, TupleType):
        yield atom
        return
    for n in range(len(atom.type.fields)):
        yield from _unpacked(builder.get_item(atom, n), builder)


def _packed(type: Type, leaves: Iterator[Atom], builder: Builder) -> Atom:
    """Returns an atom of a type, or of one with other tensors, that is made of tensors."""
    if not isinstance(type, TupleType):
        return next(leaves)
    return builder.make_tuple([_packed(field, leaves, builder) for field in type.fields])


def may_fail(value: nodes.Expr) -> bool:
    """True if a branch or loop calls a library. It raises errors for operands of rows that do not
    take part, so that these must not be given to it."""
    bindings = (b for block in nested_blocks(value) for b in all_bindings(block))
    return any(has_trait(b.value, Trait.LIBRARY) for b in bindings)
