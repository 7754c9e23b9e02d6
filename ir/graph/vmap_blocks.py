"""Vectorising map of blocks: what a block computes for one row, computed for many rows at once.

``Rows`` emits a block for all rows. Passes over loops use it where every operator has a cheap form
for that (``vmap.py``). If it is ``complete``, as ``lw.vmap`` wants it, any block has a form: rows
that go different ways at a branch compute both, a loop runs as long as any row needs it, and an
operator without a form is computed row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from typing import Any, TypeAlias

from ..errors import UnsupportedError
from ..traits import Trait
from . import nodes
from .builder import Builder
from .loops import int64
from .nodes import Atom, Call, tensor_type
from .operator import Operator, get
from .types import TensorType, TupleType, Type
from .vmap import Batch, batched_call, call_by_row, derived_call, stacked_type
from .walk import all_bindings

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
        self.calling: tuple[nodes.Function, ...] = ()
        self.active: Atom | None = None

    def bindings(self, bindings: Iterable[nodes.Binding]) -> bool:
        """Emits ``bindings`` for all rows; False if one has no form for them."""
        return all(self.binding(b.var, b.value) for b in bindings)

    def binding(self, var: nodes.Var, value: nodes.Expr) -> bool:
        if isinstance(value, Call):
            return self.call(var, value)
        if isinstance(value, nodes.While):
            return self.while_loop(var, value)
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
        elif isinstance(value, nodes.For):
            self.for_loop(var, value)
        elif isinstance(value, nodes.Function):
            self.functions[var] = value
        else:
            assert not isinstance(value, nodes.TupleGetItem)
            self.alias(var, value)
        return True

    def inside(self, stacked: Mapping[Atom, Atom], whole: Mapping[Atom, Atom]) -> Rows:
        """Returns the rows of a block inside of this one, for which more is stacked and whole."""
        inside = copy(self)
        inside.builder = Builder(limits=self.builder.limits)
        inside.stacked, inside.whole = {**self.stacked, **stacked}, {**self.whole, **whole}
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

    # -- calls ------------------------------------------------------------------------------------

    def call(self, var: nodes.Var, call: Call) -> bool:
        """Emits a call for all rows; False if it has no form for that."""
        if not isinstance(call.op, Operator):
            return self.complete and self.call_function(var, call, call.op)
        args, batched = [self.of(a) for a in call.args], [a in self.stacked for a in call.args]
        if not self.complete and not isinstance(var.type, TensorType):
            return False
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
            if result is None and call.op.decompose is not None:
                return self.decomposed(var, call)
        if result is not None:
            self.bind(var, ((True, leaf) for leaf in _unpacked(result, self.builder)))
        elif self.complete:
            self.bind(var, ((True, leaf) for leaf in call_by_row(batch, var.type)))
        return result is not None or self.complete

    def decomposed(self, var: nodes.Var, call: Call) -> bool:
        """Emits the operators that an operator consists of."""
        builder = Builder(span=call.span, limits=self.builder.limits)
        args: list[Atom] = []
        for n, arg in enumerate(call.args):
            args.append(nodes.Var(f"x{n}", arg.type) if arg in self.stacked else self.of(arg))
            if arg in self.stacked:
                self.stacked[args[-1]] = self.stacked[arg]
        assert call.operator.decompose is not None
        result = call.operator.decompose(builder, args, call.attrs)
        made = self.bindings(builder.bindings)
        self.alias(var, result)
        return made

    def call_function(
        self, var: nodes.Var, call: Call, callee: nodes.GlobalVar | nodes.Var
    ) -> bool:
        """Emits the body of a function for all rows, or a call of it if they share its operands."""
        leaves = [leaf for arg in call.args for leaf in self.leaves(arg)]
        function: Any = self.functions.get(callee) or self.module.functions.get(callee.name)
        if callee not in self.functions and self.stacked.keys().isdisjoint(leaves):
            args = [_packed(a.type, map(self.of, self.leaves(a)), self.builder) for a in call.args]
            self.whole[var] = self.builder.emit(callee, args, call.attrs, span=call.span)
            return True
        if not isinstance(function, nodes.Function) or function in self.calling:
            raise UnsupportedError(
                f"vmap: {callee.name} calls itself with operands that differ from row to row",
                hint="a loop, such as lw.while_loop",
                span=call.span,
            )
        self.calling = (*self.calling, function)
        for param, arg in zip(function.params, call.args, strict=True):
            self.alias(param, arg)
        made = self.bindings(function.body.bindings)
        self.calling = self.calling[:-1]
        self.alias(var, function.body.result)
        return made

    # -- branches and loops -----------------------------------------------------------------------

    def branch(self, var: nodes.Var, value: nodes.If) -> None:
        """Emits a branch; where rows go both ways, both are computed and each row takes its own."""
        blocks = value.then, value.orelse
        if value.condition in self.stacked:
            condition = self.stacked[value.condition]
            for block, here in zip(blocks, (condition, self.emit("logical_not", condition))):
                outer, self.active = self.active, self.masked(here, block)
                self.bindings(block.bindings)
                self.active = outer
            pairs = zip(self.leaves(blocks[0].result), self.leaves(blocks[1].result))
            self.bind(var, iter([self.chosen(condition, a, b) for a, b in pairs]))
            return
        sides = [self.inside({}, {}) for _ in blocks]
        ends: list[list[Atom]] = []
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

    def emit(self, name: str, *args: Atom, **attrs: Any) -> nodes.Var:
        return self.builder.emit(get(name), args, attrs)

    def masked(self, here: Atom, block: nodes.Block) -> Atom | None:
        """Returns which rows take part in a block, of those ``here``; only loops ask for it."""
        if not any(isinstance(b.value, nodes.While) for b in all_bindings(block)):
            return self.active
        return here if self.active is None else self.emit("logical_and", here, self.active)

    def chosen(self, condition: Atom, then: Atom, orelse: Atom) -> Leaf:
        """Returns ``then`` for the rows for which the condition holds, ``orelse`` for others."""
        a, b = self.of(then), self.of(orelse)
        if a is b:
            return then in self.stacked, a
        return True, self.where(condition, self.spread(then), self.spread(orelse))

    def where(self, condition: Atom, then: Atom, orelse: Atom) -> Atom:
        rank = tensor_type(then).rank
        if rank > 1:
            shape = (self.count, *[1] * (rank - 1))
            condition = self.emit("reshape", condition, newshape=shape)
        return self.emit("where", condition, then, orelse)

    def while_loop(self, var: nodes.Var, loop: nodes.While) -> bool:
        """Emits a loop that goes on as long as any row does; a row that has finished stays as it
        is. Without ``complete`` it carries scalars alone, and all of them are stacked."""
        plain = all(isinstance(p.type, TensorType) and not p.type.rank for p in loop.params)
        if not self.complete and not plain:
            return False
        stacked = {p for p, a in self.carried(loop) if not self.complete or a in self.stacked}
        goes_on = loop.condition.result
        while True:
            params, standing = self.loop_params(loop, stacked)
            condition, body = self.inside(*standing), self.inside(*standing)
            if not condition.bindings(loop.condition.bindings):
                return False
            differs = goes_on in condition.stacked
            if not self.complete and not differs:
                return False
            active = None
            if differs:
                if not body.bindings(loop.condition.bindings):
                    return False
                active = body.stacked[goes_on]
                if self.active is not None:
                    active = body.emit("logical_and", active, self.active)
                body.active = body.masked(active, loop.body)
            if not body.bindings(loop.body.bindings):
                return False
            ends = body.ends(loop, params, stacked, active)
            if ends is not None:
                break
        until = condition.of(goes_on)
        if differs:
            if self.active is not None:
                until = condition.emit("logical_and", until, self.active)
            until = condition.emit("any", until)
        initial = [self.spread(a) if p in stacked else self.of(a) for p, a in self.carried(loop)]
        done = body.builder.block(body.builder.make_tuple(ends))
        test = condition.builder.block(until)
        value = self.builder.while_loop(params, initial, test, done, span=loop.span)
        self.bind(var, self.last(loop, value, stacked))
        return True

    def for_loop(self, var: nodes.Var, loop: nodes.For) -> None:
        """Emits a loop over an index; if rows have different extents, one up to the greatest, in
        which a row that has finished stays as it is."""
        stacked = {p for p, a in self.carried(loop) if a in self.stacked}
        extent = self.of(loop.extent)
        rows = extent if loop.extent in self.stacked else None
        if rows is not None:
            none = int64(0)
            padded = self.emit("concatenate", rows, self.emit("reshape", none, newshape=(1,)))
            extent = self.emit("max", padded)
        while True:
            params, (carried, whole) = self.loop_params(loop, stacked)
            index = nodes.Var(loop.index.name, loop.index.type, loop.index.span)
            body = self.inside(carried, {**whole, loop.index: index})
            active = None
            if rows is not None:
                active = body.emit("less", index, rows)
                body.active = body.masked(active, loop.body)
            body.bindings(loop.body.bindings)
            ends = body.ends(loop, params, stacked, active)
            if ends is not None:
                break
        initial = [self.spread(a) if p in stacked else self.of(a) for p, a in self.carried(loop)]
        done = body.builder.block(body.builder.make_tuple(ends))
        value = self.builder.for_loop(index, extent, params, initial, done, span=loop.span)
        self.bind(var, self.last(loop, value, stacked))

    def carried(self, loop: nodes.While | nodes.For) -> Iterator[tuple[nodes.Var, Atom]]:
        """Yields what a loop carries, and what it begins as."""
        return zip(loop.params, loop.initial, strict=True)

    def loop_params(
        self, loop: nodes.While | nodes.For, stacked: set[nodes.Var]
    ) -> tuple[list[nodes.Var], tuple[dict[Atom, Atom], dict[Atom, Atom]]]:
        """Returns what the loop for all rows carries, and what of it is stacked and whole."""
        carried: dict[Atom, Atom] = {}
        whole: dict[Atom, Atom] = {}
        for p in loop.params:
            kind = stacked_type(p.type, self.count) if p in stacked else p.type
            (carried if p in stacked else whole)[p] = nodes.Var(p.name, kind, p.span)
        params: list[Any] = [carried.get(p) or whole[p] for p in loop.params]
        return params, (carried, whole)

    def ends(
        self,
        loop: nodes.While | nodes.For,
        params: list[nodes.Var],
        stacked: set[nodes.Var],
        active: Atom | None,
    ) -> list[Atom] | None:
        """Returns what a body hands to the next iteration, of the rows that are ``active`` alone;
        None if more must be stacked, which is then entered."""
        fields, before = self.fields_of(loop.body.result), len(stacked)
        for p, param, end in zip(loop.params, params, fields, strict=True):
            stops = active is not None and self.of(end) is not param
            if stops or not self.stacked.keys().isdisjoint(self.leaves(end)):
                stacked.add(p)
        if len(stacked) > before:
            return None
        ends: list[Atom] = []
        for p, param, end in zip(loop.params, params, fields, strict=True):
            if p not in stacked:
                ends.append(_packed(p.type, map(self.of, self.leaves(end)), self.builder))
                continue
            new = self.spread(end)
            if active is not None and new is not param:
                new = self.where(active, new, param)
            ends.append(new)
        return ends

    def last(
        self, loop: nodes.While | nodes.For, value: nodes.Var, stacked: set[nodes.Var]
    ) -> Iterator[Leaf]:
        """Yields what stands for the last values of a loop."""
        for n, p in enumerate(loop.params):
            for leaf in _unpacked(self.builder.get_item(value, n), self.builder):
                yield p in stacked, leaf


class AllRows(Rows):
    """The values of any block: every operator and every kind of node has a form."""

    complete = True


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
