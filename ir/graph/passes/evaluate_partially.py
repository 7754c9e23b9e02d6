"""Compute recursive calls as far as known arguments decide them.

Before::

    def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
      @power(%x, 3i64)
    }

    def @power(%x: Tensor[(4), float32], %n: int64) -> Tensor[(4), float32] {
      %0 = equal(%n, 1i64);
      if (%0) {
        %x
      } else {
        %1 = subtract(%n, 1i64);
        %2 = @power(%x, %1);
        multiply(%x, %2)
      }
    }

After::

    def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
      %0 = multiply(%x, %x);
      multiply(%x, %0)
    }

Values of data types whose constructors are known decide matches, as constants decide branches. So
an interpreter of terms, called with a term that is known, becomes what that term computes
(Y. Futamura, "Partial evaluation of computation process", 1971).

A call is unfolded if that leaves no recursive call, few operators, and ends soon; a call that was
computed before is not computed twice, so Fibonacci numbers take linear time. Otherwise arguments
that are constant, and that the function hands on to itself as they are, are put into a copy of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ...dataclass import dataclass
from ...dims import Dim
from ...pass_context import optional
from ...span import Span
from ...traits import Trait
from .. import nodes, walk
from ..builder import Builder
from ..call_graph import call_graph, recursive_components
from ..operator import Operator
from ..structural import atom_key
from ..types import FuncType, TupleType, Type, bind_sizes
from ..work import elements
from .eliminate_dead_code import eliminate_dead_code

MOST_STEPS = 4000
"""Bindings that are looked at for one call."""

MOST_UNFOLDED = 128
"""Bindings that a call may leave in its place."""

MOST_BRANCHES = 8
"""Branches inside each other that a call may leave."""

MOST_COPIES = 8
"""Copies of one function for different constants."""

MOST_COMPUTED = 1024
"""Elements of a value that is computed while compiling."""


@dataclass(frozen=True, slots=True, eq=False)
class _Data:
    """A value of a data type whose constructor is known."""

    constructor: nodes.Constructor
    type: Type
    fields: tuple[_Value, ...]


_Value: TypeAlias = "nodes.Atom | tuple[_Value, ...] | _Data"
"""A value of which more or less is known; fields of tuples and data each for themselves."""

_Task: TypeAlias = "Generator[_Task, Any, _Value]"
"""A computation that yields those it waits for: Python's stack does not grow with the depth."""


@optional(level=1)
def evaluate_partially(module: nodes.Module) -> nodes.Module:
    """Unfolds recursive calls with constant arguments, or gives them functions of their own."""
    components = recursive_components(call_graph(module))
    if not components and not module.types:
        return module
    result = module
    copies = _Copies(module, components)
    for name, function in module.functions.items():
        if isinstance(function, nodes.Function) and not _stays(function):
            callees = {n for n, component in components.items() if name not in component}
            caller = _Caller(module, components, callees, copies)
            result = result.with_function(name, walk.rewrite_function(function, caller.step))
    if result is module:
        return module
    return eliminate_dead_code(result.with_functions({**result.functions, **copies.made}))


def _stays(function: nodes.Function) -> bool:
    """True for groups of fusion, and functions over types, of which no values are known."""
    return bool(function.attrs.get("primitive")) or bool(function.type_params)


class _Caller:
    """Facts about a function that calls recursive ones."""

    def __init__(
        self,
        module: nodes.Module,
        components: Mapping[str, frozenset[str]],
        callees: Collection[str],
        copies: _Copies,
    ) -> None:
        self.module, self.components, self.callees = module, components, callees
        self.copies = copies
        self.values: dict[nodes.Var, _Value] = {}

    def step(self, var: nodes.Var, value: nodes.Expr, builder: Builder) -> nodes.Atom | None:
        if isinstance(value, nodes.Tuple):
            self.values[var] = tuple(map(self.value, value.fields))
        if isinstance(value, nodes.Match) and _knows(self.value(value.value)):
            unfolding = _Unfolding(self.module, frozenset(), self.values)
            return unfolding.of_match(var, value, builder)
        if not isinstance(value, nodes.Call):
            return None
        args = tuple(map(self.value, value.args))
        if isinstance(value.op, nodes.Constructor):
            self.values[var] = _Data(value.op, var.type, args)
            return None
        if isinstance(value.op, Operator):
            computed = _computed(var, value.op, args, value.attrs)
            if computed is not None:
                self.values[var] = computed
        if not isinstance(value.op, nodes.GlobalVar) or value.op.name not in self.callees:
            return None
        if not any(map(_knows, args)):
            return None
        unfolding = _Unfolding(self.module, self.components[value.op.name], self.values)
        return unfolding.of(value.op.name, args, builder) or self.copies.call(value, builder)

    def value(self, atom: nodes.Atom) -> _Value:
        return self.values.get(atom, atom) if isinstance(atom, nodes.Var) else atom


class _Abandoned(Exception):
    """The unfolding of a call takes too long, or leaves too much."""


class _Unfolding:
    """One call of a recursive function, or a match, computed on what is known of its arguments;
    ``values`` has what is known of its result then."""

    def __init__(
        self,
        module: nodes.Module,
        component: frozenset[str],
        values: dict[nodes.Var, _Value],
    ) -> None:
        self.module, self.component, self.values = module, component, values
        self.steps = self.left = self.nested = 0
        self.results: dict[Hashable, _Value] = {}

    def of(self, name: str, args: tuple[_Value, ...], builder: Builder) -> nodes.Atom | None:
        """Emits the call's value; None, with nothing emitted, if it is better called."""
        return self.emitted(lambda inside: self.call(name, args, inside), builder)

    def of_match(
        self,
        var: nodes.Var,
        match: nodes.Match,
        builder: Builder,
    ) -> nodes.Atom | None:
        """Emits the case that a value decides; None if it does not."""
        values = dict(self.values)
        if _case_of(match, _look_up(match.value, values), values) is None:
            return None
        binding = nodes.Binding(var, match)
        return self.emitted(lambda inside: self.value(binding, values, inside), builder)

    def emitted(self, task: Callable[[Builder], _Task], builder: Builder) -> nodes.Atom | None:
        inside = Builder(span=builder.span)
        try:
            value = _run(task(inside))
        except _Abandoned:
            return None
        result = _atom(value, inside)
        builder.bindings += inside.bindings
        if isinstance(result, nodes.Var) and result is not value:
            self.values[result] = value
        return result

    def call(self, name: str, args: tuple[_Value, ...], builder: Builder) -> _Task:
        if not any(map(_knows, args)):
            raise _Abandoned
        key = (name, tuple(map(_key, args))) if all(map(_is_constant, args)) else None
        if key in self.results:
            return self.results[key]
        function = self.module.functions[name]
        assert isinstance(function, nodes.Function)
        if function.type_params:
            raise _Abandoned
        env: dict[nodes.Var, _Value] = dict(zip(function.params, args, strict=True))
        # Each call has sizes of its own: those of its operands, and those that data decides.
        sizes = bind_sizes([p.type for p in function.params], [_type(a) for a in args])
        body = function.body
        if sizes or walk.setters(function):
            body = walk.copy_block(body, {}, sizes)
        result: _Value = yield self.block(body, env, builder)
        if key is not None and _is_constant(result):
            self.results[key] = result
        return result

    def block(self, block: nodes.Block, env: dict[nodes.Var, _Value], builder: Builder) -> _Task:
        for binding in block.bindings:
            self.steps += 1
            if self.steps > MOST_STEPS or self.left > MOST_UNFOLDED:
                raise _Abandoned
            env[binding.var] = yield self.value(binding, env, builder)
        return _look_up(block.result, env)

    def value(
        self, binding: nodes.Binding, env: dict[nodes.Var, _Value], builder: Builder
    ) -> _Task:
        var, value = binding.var, binding.value
        if isinstance(value, nodes.Call):
            args = tuple(_look_up(a, env) for a in value.args)
            if isinstance(value.op, nodes.Constructor):
                return _Data(value.op, var.type, args)
            if isinstance(value.op, Operator):
                computed = _computed(var, value.op, args, value.attrs)
                if computed is not None:
                    return computed
                callee = value.op
            else:
                callee = _look_up(value.op, env)
                assert isinstance(callee, nodes.GlobalVar | nodes.Var)
                if callee.name in self.component and isinstance(callee, nodes.GlobalVar):
                    return (yield self.call(callee.name, args, builder))
            self.left += 1
            atoms = [_atom(a, builder) for a in args]
            return builder.emit(callee, atoms, value.attrs, span=value.span)
        if isinstance(value, nodes.Tuple):
            return tuple(_look_up(f, env) for f in value.fields)
        if isinstance(value, nodes.TupleGetItem):
            whole = _look_up(value.value, env)
            if isinstance(whole, tuple):
                return whole[value.index]
            return builder.get_item(_atom(whole, builder), value.index, span=value.span)
        if isinstance(value, nodes.If):
            return (yield self.branch(value, env, builder))
        if isinstance(value, nodes.Match):
            return (yield self.match(value, env, builder))
        if isinstance(value, nodes.Var | nodes.Constant | nodes.GlobalVar):
            return _look_up(value, env)
        return self.copy(binding, env, builder)

    def branch(self, value: nodes.If, env: dict[nodes.Var, _Value], builder: Builder) -> _Task:
        condition = _look_up(value.condition, env)
        if isinstance(condition, nodes.Constant):
            taken = value.then if bool(condition.value) else value.orelse
            return (yield self.block(taken, env, builder))
        blocks: list[nodes.Block] = yield self.blocks((value.then, value.orelse), env, value.span)
        return builder.cond(_atom(condition, builder), blocks[0], blocks[1], span=value.span)

    def match(self, value: nodes.Match, env: dict[nodes.Var, _Value], builder: Builder) -> _Task:
        subject = _look_up(value.value, env)
        taken = _case_of(value, subject, env)
        if taken is not None:
            return (yield self.block(taken, env, builder))
        old = walk.nested_params(value)
        params = [nodes.Var(p.name, p.type, p.span) for p in old]
        env.update(zip(old, params))
        inside = tuple(case.block for case in value.cases)
        blocks: list[nodes.Block] = yield self.blocks(inside, env, value.span)
        whole = replace(value, value=_atom(subject, builder))
        made = walk.with_nested_blocks(whole, blocks, params)
        assert isinstance(made, nodes.Match)
        return builder.bind(made, blocks[0].result.type)

    def blocks(
        self,
        blocks: Sequence[nodes.Block],
        env: dict[nodes.Var, _Value],
        span: Span | None,
    ) -> Generator[_Task, Any, Any]:
        """The blocks of which values decide one when the program runs."""
        self.nested += 1
        self.left += 1
        if self.nested > MOST_BRANCHES:
            raise _Abandoned
        made: list[nodes.Block] = []
        for block in blocks:
            inside = Builder(span=span)
            result = yield self.block(block, env, inside)
            made.append(inside.block(_atom(result, inside)))
        self.nested -= 1
        return made

    def copy(
        self, binding: nodes.Binding, env: Mapping[nodes.Var, _Value], builder: Builder
    ) -> nodes.Atom:
        """Emits a loop or a function as it stands, on the values of the variables it uses."""
        block = nodes.Block((binding,), binding.var)
        if not self.component.isdisjoint(walk.global_variables(block)):
            raise _Abandoned
        instead = {v: _atom(_look_up(v, env), builder) for v in walk.free_variables(block)}
        copied = walk.copy_block(block, instead)
        self.left += len(copied.bindings)
        builder.bindings += copied.bindings
        return copied.result


def _case_of(
    match: nodes.Match, subject: _Value, env: dict[nodes.Var, _Value]
) -> nodes.Block | None:
    """Returns the block that is taken for a value, whose parts ``env`` has then; None if more has
    to be known of it."""
    for case in match.cases:
        fits = _fits(case.pattern, subject, env)
        if fits is not False:
            return case.block if fits else None
    return None


def _fits(pattern: nodes.Pattern, subject: _Value, env: dict[nodes.Var, _Value]) -> bool | None:
    """Returns whether a pattern fits a value; None if more has to be known of it."""
    if isinstance(pattern, nodes.Var):
        env[pattern] = subject
    if not isinstance(pattern, nodes.ConstructorPattern):
        return True
    if isinstance(subject, _Data):
        made = pattern.constructor
        if made is None or made.name != subject.constructor.name:
            return False
    elif not isinstance(subject, tuple):
        return None
    fields = subject.fields if isinstance(subject, _Data) else subject
    inside = [_fits(p, f, env) for p, f in zip(pattern.fields, fields, strict=True)]
    return False if False in inside else None if None in inside else True


def _run(task: _Task) -> _Value:
    """Returns the result of a task, after those of the tasks it waits for."""
    stack = [task]
    value: Any = None
    while stack:
        try:
            stack.append(stack[-1].send(value))
            value = None
        except StopIteration as end:
            stack.pop()
            value = end.value
    return value


def _look_up(atom: nodes.Atom, env: Mapping[nodes.Var, _Value]) -> _Value:
    return env.get(atom, atom) if isinstance(atom, nodes.Var) else atom


def _computed(
    var: nodes.Var, op: Operator, args: tuple[_Value, ...], attrs: Mapping[str, Any]
) -> _Value | None:
    """Returns the value of an operator on constants if it is small."""
    if Trait.LIBRARY in op.traits:
        return None  # it may raise, which is for the call to do
    arrays = [a.value for a in args if isinstance(a, nodes.Constant)]
    size = elements(var.type) + sum(a.size for a in arrays)
    if len(arrays) < len(args) or size > MOST_COMPUTED or any(map(_has_symbols, attrs.values())):
        return None
    with np.errstate(all="ignore"):
        result: Any = op.reference(arrays, attrs)
    if isinstance(result, tuple | list):
        return tuple(_constant(r) for r in result)
    return _constant(result)


def _has_symbols(value: object) -> bool:
    return isinstance(value, Dim) or (isinstance(value, tuple) and any(map(_has_symbols, value)))


def _constant(value: Any) -> nodes.Constant:
    array = np.array(value)
    array.flags.writeable = False
    return nodes.Constant(array)


def _knows(value: _Value) -> bool:
    """True if a part of ``value`` is constant."""
    if isinstance(value, tuple):
        return any(map(_knows, value))
    return isinstance(value, nodes.Constant | _Data)


def _is_constant(value: _Value) -> bool:
    if isinstance(value, tuple | _Data):
        return all(map(_is_constant, value if isinstance(value, tuple) else value.fields))
    return isinstance(value, nodes.Constant)


def _key(value: _Value) -> Hashable:
    if isinstance(value, _Data):
        return value.constructor.name, str(value.type), tuple(map(_key, value.fields))
    return tuple(map(_key, value)) if isinstance(value, tuple) else atom_key(value)


def _type(value: _Value) -> Type:
    return TupleType(tuple(map(_type, value))) if isinstance(value, tuple) else value.type


def _atom(value: _Value, builder: Builder) -> nodes.Atom:
    if isinstance(value, tuple):
        return builder.make_tuple([_atom(v, builder) for v in value])
    if isinstance(value, _Data):
        fields = tuple(_atom(v, builder) for v in value.fields)
        return builder.bind(nodes.Call(value.constructor, fields), value.type)
    return value


class _Copies:
    """Functions for constant arguments, by the function and these constants."""

    def __init__(self, module: nodes.Module, components: Mapping[str, frozenset[str]]) -> None:
        self.module, self.components = module, components
        self.made: dict[str, nodes.Function] = {}
        self.names: dict[str, dict[Hashable, nodes.GlobalVar]] = {}

    def call(self, call: nodes.Call, builder: Builder) -> nodes.Atom | None:
        """Emits a call of a copy that has the constants among the arguments in it; None if there
        are none that the function hands on."""
        assert isinstance(call.op, nodes.GlobalVar)
        name = call.op.name
        function = self.module.functions[name]
        assert isinstance(function, nodes.Function)
        if len(self.components[name]) > 1:
            return None
        constants = {n: a for n, a in enumerate(call.args) if isinstance(a, nodes.Constant)}
        fixed = {n: a for n, a in constants.items() if _hands_on(function, name, n)}
        key = tuple((n, atom_key(a)) for n, a in fixed.items())
        names = self.names.setdefault(name, {})
        if not fixed or (key not in names and len(names) >= MOST_COPIES):
            return None
        if key not in names:
            names[key] = self._copy(name, function, fixed)
        args = [a for n, a in enumerate(call.args) if n not in fixed]
        return builder.emit(names[key], args, span=call.span)

    def _copy(
        self, name: str, function: nodes.Function, fixed: Mapping[int, nodes.Constant]
    ) -> nodes.GlobalVar:
        """Adds a copy of ``function`` without the parameters that are ``fixed``."""
        number = 1
        while f"{name}_{number}" in self.module.functions or f"{name}_{number}" in self.made:
            number += 1
        left = [p for n, p in enumerate(function.params) if n not in fixed]
        params = [nodes.Var(p.name, p.type, p.span) for p in left]
        instead: dict[nodes.Var, nodes.Atom] = {function.params[n]: a for n, a in fixed.items()}
        instead.update(zip(left, params))
        body = walk.copy_block(function.body, instead)
        kind = FuncType(tuple(p.type for p in params), function.body.result.type)
        copy = nodes.GlobalVar(f"{name}_{number}", kind)

        def step(_var: nodes.Var, value: nodes.Expr, builder: Builder) -> nodes.Atom | None:
            if not isinstance(value, nodes.Call) or not isinstance(value.op, nodes.GlobalVar):
                return None
            if value.op.name != name:
                return None
            args = [a for n, a in enumerate(value.args) if n not in fixed]
            return builder.emit(copy, args, span=value.span)

        made = replace(function, params=tuple(params), body=body)
        self.made[copy.name] = walk.rewrite_function(made, step)
        return copy


def _hands_on(function: nodes.Function, name: str, position: int) -> bool:
    """True if each reference of ``function`` to itself, by its ``name``, is a call that is given
    the function's own parameter at ``position``."""
    calls = [
        b.value
        for b in walk.all_bindings(function.body)
        if isinstance(b.value, nodes.Call)
        and isinstance(b.value.op, nodes.GlobalVar)
        and b.value.op.name == name
    ]
    same = all(call.args[position] is function.params[position] for call in calls)
    return same and len(calls) == walk.global_variables(function)[name]
