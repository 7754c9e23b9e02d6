"""Patterns of values: what makes a value, and what makes its operands, as data that is matched.

::

    pattern ::= wildcard(name) | is_var(name) | is_constant(number)
              | is_op(name, ...) | is_op(name, ...) "(" pattern, ... ")" | is_elementwise()
              | is_tuple(patterns) | is_tuple_get_item(pattern, index)
              | pattern "|" pattern | pattern.optional(function of a pattern)
              | pattern.named(name) | pattern.has_attr(attributes) | pattern.has_dtype(dtype)
              | pattern.has_shape(sizes) | pattern.has_type(type) | pattern.where(function)
              | dominates(parent, path, child)

``match`` looks for one pattern, ``rewrite`` replaces what matches, and ``partition`` moves it into
functions of its own. Operands of commutative operators match either way round. A name that is
given twice stands for the same value twice. Equations (``passes/rules.py``) are patterns, too.

>>> module = lw.parse("def @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] {"
...                   " add(1f, exp(%x)) }")
>>> pattern = is_op("add")(is_op("exp")(wildcard("x")), is_constant(1))
>>> captures = match(pattern, module.main.body.result, definitions(module.main))
>>> captures["x"] is module.main.params[0]
True
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from ..dataclass import dataclass
from ..dims import Dim
from ..errors import LoopwrightTypeError
from ..traits import Trait
from . import nodes, walk
from .builder import Builder
from .nodes import Atom, Binding, Block, Call, Constant, Expr, Function, GlobalVar, Module, Var
from .operator import OPERATORS, Operator, Pattern
from .structural import atom_key
from .types import TensorType, Type

Values: TypeAlias = Mapping[Any, Expr]
"""Values of variables. A match does not look into those that are missing."""

Captures: TypeAlias = dict[Any, Any]
"""A match: what each name stands for, and each variable that it looked into, with its value."""

_COMPARED_ELEMENTS = 1 << 20
"""A constant of more elements is not searched for being the same number everywhere."""


class DataflowPattern:
    """A pattern of a value, and what is made of patterns."""

    __slots__ = ()

    def matches(self, atom: Atom, values: Values, bound: Captures) -> Iterator[Captures]:
        """Yields each way in which ``atom`` matches: ``bound`` with what this pattern captures."""
        raise NotImplementedError

    def __or__(self, other: DataflowPattern) -> DataflowPattern:
        """Returns a pattern of what either matches; this one is tried first."""
        return Alternatives(self, other)

    def optional(self, more: Callable[[DataflowPattern], DataflowPattern]) -> DataflowPattern:
        """Returns a pattern of ``more(self)`` where that matches, and of ``self`` elsewhere."""
        return more(self) | self

    def named(self, name: str) -> DataflowPattern:
        """Returns this pattern of a value that matches have by its name."""
        return wildcard(name, self)

    def has_attr(self, attrs: Mapping[str, Any]) -> DataflowPattern:
        """Returns a pattern of calls with these attributes; a named wildcard is any value."""
        return Attributed(self, tuple(attrs.items()))

    def where(self, test: Callable[[Atom], bool]) -> DataflowPattern:
        """Returns a pattern of the values for which ``test`` is true."""
        return Tested(self, test)

    def has_dtype(self, dtype: str) -> DataflowPattern:
        """Returns a pattern of tensors of a dtype."""
        return self.where(lambda a: isinstance(a.type, TensorType) and a.type.dtype.name == dtype)

    def has_shape(self, shape: Sequence[Any]) -> DataflowPattern:
        """Returns a pattern of tensors of these sizes; None is any size."""
        return self.where(lambda atom: _has_sizes(atom.type, shape))

    def has_type(self, type: Type) -> DataflowPattern:
        """Returns a pattern of values of a type."""
        return self.where(lambda atom: atom.type == type)


@dataclass(frozen=True, slots=True)
class wildcard(DataflowPattern):
    """Any value, or one of a pattern. With a name it is the same one wherever that is given."""

    name: str = ""
    pattern: DataflowPattern | None = None

    def matches(self, atom: Atom, values: Values, bound: Captures) -> Iterator[Captures]:
        if self.name:
            other = bound.get(self.name, atom)
            if other is not atom and atom_key(other) != atom_key(atom):
                return
            bound = {self.name: atom, **bound}
        yield from (bound,) if self.pattern is None else self.pattern.matches(atom, values, bound)


@dataclass(frozen=True, slots=True)
class is_var(DataflowPattern):
    """A parameter, or another variable that nothing in sight makes; of this name unless empty."""

    name: str = ""

    def matches(self, atom: Atom, values: Values, bound: Captures) -> Iterator[Captures]:
        if isinstance(atom, Var) and atom not in values and self.name in ("", atom.name):
            yield bound


@dataclass(frozen=True, slots=True)
class is_constant(DataflowPattern):
    """A constant; with a number, an array that consists of it, also one that is broadcast. For
    floats the sign of a zero counts."""

    number: bool | int | float | None = None

    def matches(self, atom: Atom, values: Values, bound: Captures) -> Iterator[Captures]:
        if self.number is None:
            if isinstance(atom, Constant):
                yield bound
        elif _is_number(number_of(atom, values), self.number):
            yield bound


@dataclass(frozen=True, slots=True)
class CallPattern(DataflowPattern):
    """A call of one of the operators ``names``, on ``args`` unless these are None."""

    names: tuple[str, ...]
    args: tuple[DataflowPattern, ...] | None = None

    def __call__(self, *args: DataflowPattern) -> CallPattern:
        """Returns the pattern of calls on such operands."""
        return CallPattern(self.names, args)

    def matches(self, atom: Atom, values: Values, bound: Captures) -> Iterator[Captures]:
        call = values.get(atom)
        if not isinstance(call, Call) or call.op.name not in self.names:
            return
        if not isinstance(call.op, Operator):
            return
        bound = {**bound, atom: call}
        if self.args is None:
            yield bound
        elif len(self.args) == len(call.args):
            yield from _all_match(self.args, call.args, values, bound)
            if len(call.args) == 2 and Trait.COMMUTATIVE in call.op.traits:
                yield from _all_match(self.args, call.args[::-1], values, bound)


@dataclass(frozen=True, slots=True)
class is_tuple(DataflowPattern):
    """A tuple of such fields; None for any."""

    fields: Sequence[DataflowPattern] | None = None

    def matches(self, atom: Atom, values: Values, bound: Captures) -> Iterator[Captures]:
        if isinstance(value := values.get(atom), nodes.Tuple):
            wanted = self.fields or [wildcard()] * len(value.fields)
            if len(wanted) == len(value.fields):
                yield from _all_match(wanted, value.fields, values, {**bound, atom: value})


@dataclass(frozen=True, slots=True)
class is_tuple_get_item(DataflowPattern):
    """A field of such a tuple, at any index if it is None."""

    tuple: DataflowPattern
    index: int | None = None

    def matches(self, atom: Atom, values: Values, bound: Captures) -> Iterator[Captures]:
        value = values.get(atom)
        if isinstance(value, nodes.TupleGetItem) and self.index in (None, value.index):
            yield from self.tuple.matches(value.value, values, {**bound, atom: value})


class Alternatives(DataflowPattern):
    """One of several patterns, of which earlier ones are tried first."""

    def __init__(self, *options: DataflowPattern) -> None:
        self.options = options

    def matches(self, atom: Atom, values: Values, bound: Captures) -> Iterator[Captures]:
        for option in self.options:
            yield from option.matches(atom, values, bound)


@dataclass(frozen=True, slots=True)
class Attributed(DataflowPattern):
    """A call with attributes, each as a value or as a named wildcard."""

    pattern: DataflowPattern
    attrs: tuple[tuple[str, Any], ...]

    def matches(self, atom: Atom, values: Values, bound: Captures) -> Iterator[Captures]:
        call = values.get(atom)
        for name, wanted in self.attrs:
            if not isinstance(call, Call) or name not in call.attrs:
                return
            value = call.attrs[name]
            if isinstance(wanted, wildcard):
                bound = {wanted.name: value, **bound}
                wanted = bound[wanted.name]
            if type(wanted) is not type(value) or wanted != value:
                return
        yield from self.pattern.matches(atom, values, bound)


@dataclass(frozen=True, slots=True)
class Tested(DataflowPattern):
    """A value for which a function returns True."""

    pattern: DataflowPattern
    test: Callable[[Atom], bool]

    def matches(self, atom: Atom, values: Values, bound: Captures) -> Iterator[Captures]:
        if self.test(atom):
            yield from self.pattern.matches(atom, values, bound)


@dataclass(frozen=True, slots=True)
class dominates(DataflowPattern):
    """A ``child`` all of whose operands but constants lead to one value of ``parent``, by values of
    ``path``, however many and in however many branches. Names in ``path`` capture nothing."""

    parent: DataflowPattern
    path: DataflowPattern
    child: DataflowPattern

    def matches(self, atom: Atom, values: Values, bound: Captures) -> Iterator[Captures]:
        for captures in self.child.matches(atom, values, bound):
            if (value := values.get(atom)) is not None:
                yield from self._led_to(walk.operands(value), values, {**captures, atom: value})

    def _led_to(self, todo: Sequence[Atom], values: Values, bound: Captures) -> Iterator[Captures]:
        # States of a search: values that have to lead to the parent, the parent once it is known,
        # values that do lead to it, and captures. No recursion: paths may be long.
        states: list[tuple[Sequence[Atom], Atom | None, frozenset[Atom], Captures]]
        states = [(todo, None, frozenset(), bound)]
        while states:
            todo, parent, seen, bound = states.pop()
            todo = [a for a in todo if a not in seen and not isinstance(a, Constant)]
            if not todo:
                yield from (bound,) if parent is not None else ()
                continue
            first, *rest = todo
            seen |= {first}
            for captures in self.path.matches(first, values, {}) if first in values else ():
                inside = {var: v for var, v in captures.items() if isinstance(var, Var)}
                further = (*walk.operands(values[first]), *rest)
                states.append((further, parent, seen, {**bound, **inside}))
            if parent is None:
                found_parents = self.parent.matches(first, values, bound)
                states += [(rest, first, seen, captures) for captures in found_parents]


def is_op(*names: str) -> CallPattern:
    """Returns a pattern of calls of operators, whatever their operands: it is called with patterns
    of these."""
    return CallPattern(names)


def is_elementwise() -> CallPattern:
    """Returns a pattern of calls of all elementwise operators."""
    return is_op(*(name for name, op in OPERATORS.items() if op.pattern <= Pattern.BROADCAST))


def definitions(scope: Function | Block) -> dict[Var, Expr]:
    """Returns what the variables of a function or block are bound to, at any depth."""
    return {binding.var: binding.value for binding in walk.all_bindings(scope)}


def match(pattern: DataflowPattern, atom: Atom, values: Values, **named: Any) -> Captures | None:
    """Returns the first way in which a value matches, None if it does not; ``named`` are the names
    that stand for something already."""
    return next(pattern.matches(atom, values, named), None)


def rewrite(
    module: Module, pattern: DataflowPattern, callback: Callable[..., Atom | None]
) -> Module:
    """Returns ``module`` with each value that matches replaced by what ``callback`` returns for it;
    the same object if there is none.

    The callback is given a ``Builder`` to emit calls with, and what names stand for as keywords. It
    returns None for no; the next way to match is tried then. Values are visited once, operands
    first: patterns see what was emitted for their operands, but it is not replaced again. What
    nobody uses any more goes with the dead code. Raises LoopwrightTypeError for a value of another
    type.
    """

    def change(function: Function) -> Function:
        values: dict[Var, Expr] = {}

        def step(var: Var, value: Expr, builder: Builder) -> Atom | None:
            values[var] = value
            before = len(builder.bindings)
            for captures in pattern.matches(var, values, {}):
                new = callback(builder, **{k: v for k, v in captures.items() if isinstance(k, str)})
                if new is None:
                    del builder.bindings[before:]
                    continue
                values.update((b.var, b.value) for b in builder.bindings[before:])
                if new.type == var.type:
                    return new
                raise LoopwrightTypeError(
                    f"%{var.name} is a {var.type}, and what replaces it a {new.type}", span=var.span
                )
            return None

        return walk.rewrite_function(function, step)

    return walk.map_functions(module, change)


def partition(module: Module, pattern: DataflowPattern, name: str) -> Module:
    """Returns ``module`` with what each match looked into in a function of its own, which is called
    in its place; the same object if there is none.

    The functions are called ``name_0``, ``name_1`` and so on, and their attribute ``composite`` is
    ``name``. They contain the constants that they use. Later values are matched first. A match of
    which an inner value has a user outside stays, and so do those that reach over the edge of a
    block or decide a size.
    """
    made: dict[str, Function] = {}
    names = (n for n in (f"{name}_{number}" for number in count()) if n not in module.functions)

    def change(function: Function) -> Function:
        uses = walk.use_counts(function)

        def divided(block: Block) -> Block:
            values = {binding.var: binding.value for binding in block.bindings}
            places = {var: n for n, var in enumerate(values)}
            calls: dict[Var, Expr] = {}
            taken: set[Var] = set()
            for root in () if function.attrs else reversed(values):
                for captures in () if root in taken else pattern.matches(root, values, {}):
                    inside = sorted(places.keys() & captures.keys(), key=places.__getitem__)
                    members = [block.bindings[places[var]] for var in inside]
                    moved = _moved(members, uses, name) if taken.isdisjoint(inside) else None
                    if moved is not None:
                        callee = GlobalVar(next(names), moved[0].type)
                        made[callee.name] = moved[0]
                        calls[root] = Call(callee, moved[1], {}, root.span)
                        taken.update(inside)
                        break
            for var in (var for var in values if var not in taken):
                blocks = [divided(b) for b in walk.nested_blocks(values[var])]
                calls[var] = walk.with_nested_blocks(values[var], blocks)
            if all(calls.get(var) is values[var] for var in values):
                return block
            return Block(tuple(Binding(v, calls[v]) for v in values if v in calls), block.result)

        return function.with_body(divided(function.body))

    changed = walk.map_functions(module, change)
    return changed.with_functions({**changed.functions, **made}) if made else module


def _moved(
    members: Sequence[Binding], uses: Counter[Var], name: str
) -> tuple[Function, tuple[Atom, ...]] | None:
    """Returns a function of bindings, and the values that it is called with; None if one but the
    last has another user, or one decides a size."""
    reads = Counter(a for b in members for a in walk.operands(b.value) if isinstance(a, Var))
    inside = {binding.var for binding in members}
    if not members or any(reads[b.var] != uses[b.var] for b in members[:-1]):
        return None
    builder = Builder()
    given = tuple(var for var in reads if var not in inside)
    instead: dict[Var, Atom] = {var: builder.param(var.name, var.type, var.span) for var in given}
    last = members[-1].var
    builder.bindings += walk.copy_block(Block(tuple(members), last), instead).bindings
    function = builder.function(instead[last], attrs={"composite": name}, span=last.span)
    return None if walk.free_sizes(function) else (function, given)


def number_of(atom: Atom, values: Values) -> Any:
    """Returns the number that every element of ``atom`` is, or None."""
    while isinstance(call := values.get(atom), Call) and call.args:
        if not isinstance(call.op, Operator) or call.op.name not in ("broadcast_to", "reshape"):
            return None
        atom = call.args[0]
    if isinstance(atom, Constant):
        array = atom.value
        if not 0 < array.size <= _COMPARED_ELEMENTS:
            return None
        first = array.flat[0]
        if array.flat[array.size - 1].tobytes() != first.tobytes():
            return None
        return first if array.size < 2 or array.tobytes() == first.tobytes() * array.size else None
    if isinstance(call, Call) and call.op is OPERATORS["full"]:
        value, dtype = call.attrs["fill_value"], nodes.tensor_type(atom).dtype
        return None if isinstance(value, Dim) else np.asarray(value, dtype.numpy)[()]
    return None


def _has_sizes(kind: Type, shape: Sequence[Any]) -> bool:
    if not isinstance(kind, TensorType) or len(shape) != kind.rank:
        return False
    return all(wanted in (None, size) for wanted, size in zip(shape, kind.shape))


def _is_number(value: Any, literal: bool | int | float) -> bool:
    if value is None or isinstance(literal, bool) != (value.dtype == np.bool_):
        return False
    if value.dtype.kind != "f":
        return bool(value == literal)
    return bool(value == literal and np.signbit(value) == np.signbit(literal))


def _all_match(
    patterns: Sequence[DataflowPattern], atoms: Sequence[Atom], values: Values, bound: Captures
) -> Iterator[Captures]:
    if not patterns:
        yield bound
        return
    for captures in patterns[0].matches(atoms[0], values, bound):
        yield from _all_match(patterns[1:], atoms[1:], values, captures)
