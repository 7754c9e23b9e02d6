"""Make loops of functions that call themselves last.

Before::

    def @main(%a: int64, %b: int64) -> int64 {
      @gcd(%a, %b)
    }

    def @gcd(%a: int64, %b: int64) -> int64 {
      %0 = equal(%b, 0i64);
      if (%0) {
        %a
      } else {
        %1 = floor_mod(%a, %b);
        @gcd(%b, %1)
      }
    }

After::

    def @main(%a: int64, %b: int64) -> int64 {
      @gcd(%a, %b)
    }

    def @gcd(%a: int64, %b: int64) -> int64 {
      %0 = while (%x = %a, %y = %b) {
        not_equal(%y, 0i64)
      } do {
        %2 = floor_mod(%x, %y);
        (%y, %2)
      };
      %0.0
    }

The loop carries the parameters. Where deciding takes long, the loop decides in its body, and
carries the result as well, so that nothing is computed twice. A function whose value is an integer
sum of something and its own value (or a product, a maximum, ...) carries that sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from ...dataclass import dataclass
from ...loop.scalar import SCALAR_OPS
from ...pass_context import optional
from .. import nodes
from ..builder import Builder
from ..loops import filled
from ..operator import OPERATORS, Operator
from ..types import TensorType, TupleType, Type, fields_of
from ..walk import copy_block, global_variables, rewrite_function, use_counts
from ..work import block_work
from .eliminate_dead_code import without_dead_code

REPEATED_WORK = 64
"""Instructions of a decision that is computed twice rather than carried out of the loop's body."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """The end of a function: a call of itself on ``args``, or its result. With an ``operator`` the
    value is that of the call combined with ``term``."""

    before: Sequence[nodes.Binding]
    args: Sequence[nodes.Atom] | None = None
    result: nodes.Atom | None = None
    operator: Operator | None = None
    term: nodes.Atom | None = None


@dataclass(frozen=True, slots=True)
class _Branch:
    before: Sequence[nodes.Binding]
    value: nodes.If
    then: _Tail
    orelse: _Tail


_Tail: TypeAlias = "_Leaf | _Branch"


@optional(level=1)
def tail_calls_to_loops(module: nodes.Module) -> nodes.Module:
    """Replaces recursion by loops in functions that call themselves in tail positions only."""
    for name, function in module.functions.items():
        if isinstance(function, nodes.Function) and global_variables(function)[name]:
            module = module.with_function(name, _looped(name, function))
    return module


def _looped(name: str, original: nodes.Function) -> nodes.Function:
    function = without_dead_code(_with_whole_tuples(original))
    tail = _tail(name, function.body)
    leaves = _leaves(tail)
    calls = [leaf for leaf in leaves if leaf.args is not None]
    operators = {leaf.operator for leaf in calls if leaf.operator is not None}
    if not calls or len(calls) != global_variables(function)[name] or len(calls) == len(leaves):
        return original
    if len(operators) > 1:
        return original
    return without_dead_code(_Loop(function, tail, next(iter(operators), None)).function())


def _with_whole_tuples(function: nodes.Function) -> nodes.Function:
    """``function`` with tuples that have all the fields of another, in order, replaced by that: a
    call's result that is taken apart and put together is the result."""
    items: dict[nodes.Atom, nodes.TupleGetItem] = {}

    def step(var: nodes.Var, value: nodes.Expr, _builder: Builder) -> nodes.Atom | None:
        if isinstance(value, nodes.TupleGetItem):
            items[var] = value
        if not isinstance(value, nodes.Tuple) or not value.fields or value.fields[0] not in items:
            return None
        whole = items[value.fields[0]].value
        places = [items[a].index for a in value.fields if a in items and items[a].value is whole]
        return whole if whole.type == var.type and places == [*range(len(value.fields))] else None

    return rewrite_function(function, step)


def _tail(name: str, block: nodes.Block) -> _Tail:
    """Returns how ``block`` ends."""
    bindings = {b.var: b for b in block.bindings}
    last = bindings.get(block.result) if isinstance(block.result, nodes.Var) else None
    if last is None or use_counts(block)[last.var] != 1:
        return _Leaf(block.bindings, result=block.result)
    before = [b for b in block.bindings if b is not last]
    value = last.value
    if isinstance(value, nodes.If) and any(
        global_variables(b)[name] for b in (value.then, value.orelse)
    ):
        return _Branch(before, value, _tail(name, value.then), _tail(name, value.orelse))
    if _calls(value, name):
        assert isinstance(value, nodes.Call)
        return _Leaf(before, args=value.args)
    if isinstance(value, nodes.Call) and isinstance(value.op, Operator):
        for term, inner in (value.args, value.args[::-1]) if len(value.args) == 2 else ():
            call = bindings[inner].value if inner in bindings else None
            if _calls(call, name) and _is_associative(value.op, term, last.var):
                assert isinstance(call, nodes.Call) and isinstance(inner, nodes.Var)
                if use_counts(block)[inner] == 1:
                    before = [b for b in before if b.var is not inner]
                    return _Leaf(before, args=call.args, operator=value.op, term=term)
    return _Leaf(block.bindings, result=block.result)


def _calls(value: object, name: str) -> bool:
    return (
        isinstance(value, nodes.Call)
        and isinstance(value.op, nodes.GlobalVar)
        and value.op.name == name
    )


def _is_associative(op: Operator, term: nodes.Atom, result: nodes.Var) -> bool:
    """True if the terms of all iterations may be combined before the last result is."""
    one, other = term.type, result.type
    if not isinstance(one, TensorType) or not isinstance(other, TensorType):
        return False
    row = SCALAR_OPS.get(op.name)
    associates = row is not None and row.neutral is not None
    exact = other.dtype.is_integer and other.dtype == one.dtype
    return associates and exact and one.shape in ((), other.shape) and isinstance(other.size, int)


def _leaves(tail: _Tail) -> list[_Leaf]:
    if isinstance(tail, _Leaf):
        return [tail]
    return [*_leaves(tail.then), *_leaves(tail.orelse)]


def _decision(tail: _Tail) -> nodes.Block:
    """Returns whether the function calls itself."""
    builder = Builder()
    return builder.block(_emit_decision(tail, builder))


def _emit_decision(tail: _Tail, builder: Builder) -> nodes.Atom:
    if isinstance(tail, _Leaf):
        return _truth(tail.args is not None)
    builder.bindings += tail.before
    inside = Builder(), Builder()
    then, orelse = _emit_decision(tail.then, inside[0]), _emit_decision(tail.orelse, inside[1])
    condition = tail.value.condition
    if not isinstance(then, nodes.Constant) or not isinstance(orelse, nodes.Constant):
        return builder.cond(condition, inside[0].block(then), inside[1].block(orelse))
    if bool(then.value) == bool(orelse.value):
        return then
    return condition if bool(then.value) else _negated(condition, tail.before, builder)


def _negated(
    condition: nodes.Atom, before: Sequence[nodes.Binding], builder: Builder
) -> nodes.Atom:
    """Emits the opposite of a condition; of a comparison, the one that it is."""
    value = next((b.value for b in before if b.var is condition), None)
    if isinstance(value, nodes.Call) and isinstance(value.op, Operator):
        exact = all(
            isinstance(a.type, TensorType) and not a.type.dtype.is_float for a in value.args
        )
        row = SCALAR_OPS.get(value.op.name)
        if exact and row is not None and row.compares:
            return builder.emit(OPERATORS[row.negated], value.args)
    return builder.emit(OPERATORS["logical_not"], (condition,))


def _truth(value: bool) -> nodes.Constant:
    return nodes.Constant(np.array(value))


_AtLeaf: TypeAlias = Callable[[_Leaf, Builder], nodes.Atom | None]


def _emit(tail: _Tail, at_leaf: _AtLeaf, builder: Builder) -> nodes.Atom | None:
    """Emits what ``at_leaf`` makes of the leaves, under the branches that lead to them. Leaves of
    which it makes None are not reached."""
    builder.bindings += tail.before
    if isinstance(tail, _Leaf):
        return at_leaf(tail, builder)
    inside = Builder(), Builder()
    then, orelse = _emit(tail.then, at_leaf, inside[0]), _emit(tail.orelse, at_leaf, inside[1])
    if then is not None and orelse is not None:
        blocks = inside[0].block(then), inside[1].block(orelse)
        return builder.cond(tail.value.condition, *blocks, span=tail.value.span)
    if then is None and orelse is None:
        return None
    builder.bindings += inside[1].bindings if then is None else inside[0].bindings
    return orelse if then is None else then


class _Loop:
    """The loop of a function. ``carried`` are its parameters, and the accumulator if there is an
    ``operator`` that combines the values of its calls."""

    def __init__(self, function: nodes.Function, tail: _Tail, operator: Operator | None) -> None:
        self.original, self.tail, self.operator = function, tail, operator
        self.builder = Builder(span=function.span)
        self.carried = list(function.params)
        self.initial: list[nodes.Atom] = list(function.params)
        self.total: nodes.Var | None = None
        if operator is not None:
            kind = function.body.result.type
            assert isinstance(kind, TensorType)
            identity = int(SCALAR_OPS[operator.name].identity(kind.dtype))
            self.total = nodes.Var("total", kind)
            self.carried.append(self.total)
            self.initial.append(filled(kind, identity, self.builder))

    def function(self) -> nodes.Function:
        decision = without_dead_code(nodes.Function((), _decision(self.tail))).body
        kind = self.original.body.result.type
        sized = all(map(_is_sized, fields_of(kind)))
        if sized and block_work(decision) > REPEATED_WORK:
            result = self._deciding_inside(kind)
        else:
            result = self._deciding_first(decision)
        return self.original.with_body(self.builder.block(result))

    def _deciding_first(self, decision: nodes.Block) -> nodes.Atom:
        """Emits a loop whose condition is ``decision``, and after it what the last call does."""
        body, after = Builder(), Builder()
        values = self._loop(decision, body.block(_certain(_emit(self.tail, self._next, body))))
        block = after.block(_certain(_emit(self.tail, self._last, after)))
        block = copy_block(block, dict(zip(self.carried, values, strict=True)))
        self.builder.bindings += block.bindings
        return block.result

    def _deciding_inside(self, kind: Type) -> nodes.Atom:
        """Emits a loop that carries whether to go on, and the result."""
        fields = fields_of(kind)
        going = nodes.Var("going", _truth(True).type)
        results = [nodes.Var("result", f) for f in fields]
        count = len(self.carried)

        def at_leaf(leaf: _Leaf, builder: Builder) -> nodes.Atom:
            if leaf.args is not None:
                return builder.make_tuple(
                    [*self._carried_on(leaf, builder), _truth(True), *results]
                )
            result = _certain(self._last(leaf, builder))
            parts = [result]
            if isinstance(kind, TupleType):
                parts = [builder.get_item(result, n) for n in range(len(fields))]
            return builder.make_tuple([*self.carried[:count], _truth(False), *parts])

        body = Builder()
        result = _certain(_emit(self.tail, at_leaf, body))
        self.carried += [going, *results]
        self.initial += [_truth(True), *(filled(f, 0, self.builder) for f in fields)]
        values = self._loop(nodes.Block((), going), body.block(result))[count + 1 :]
        return self.builder.make_tuple(values) if isinstance(kind, TupleType) else values[0]

    def _loop(self, condition: nodes.Block, body: nodes.Block) -> list[nodes.Atom]:
        params = [nodes.Var(v.name, v.type, v.span) for v in self.carried]
        blocks = [copy_block(b, dict(zip(self.carried, params))) for b in (condition, body)]
        loop = self.builder.while_loop(params, self.initial, *blocks, span=self.builder.span)
        return [self.builder.get_item(loop, n) for n in range(len(params))]

    def _next(self, leaf: _Leaf, builder: Builder) -> nodes.Atom | None:
        """Emits what a call is given."""
        return (
            builder.make_tuple(self._carried_on(leaf, builder)) if leaf.args is not None else None
        )

    def _carried_on(self, leaf: _Leaf, builder: Builder) -> list[nodes.Atom]:
        assert leaf.args is not None
        if self.total is None:
            return [*leaf.args]
        if leaf.operator is None or leaf.term is None:
            return [*leaf.args, self.total]
        return [*leaf.args, builder.emit(leaf.operator, (self.total, leaf.term))]

    def _last(self, leaf: _Leaf, builder: Builder) -> nodes.Atom | None:
        """Emits the value of a call that makes no further one."""
        if leaf.result is None or self.operator is None or self.total is None:
            return leaf.result
        return builder.emit(self.operator, (self.total, leaf.result))


def _certain(atom: nodes.Atom | None) -> nodes.Atom:
    assert atom is not None  # there are calls, and there are results
    return atom


def _is_sized(kind: Type) -> bool:
    """True for a tensor of known size."""
    return isinstance(kind, TensorType) and isinstance(kind.size, int)
