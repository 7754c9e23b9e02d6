"""Take branches that are known, and choose among scalars without a branch.

Before::

    def @main(%p: bool, %n: int64, %x: Tensor[(4), float32]) -> (int64, Tensor[(4), float32]) {
      if (%p) {
        %0 = add(%n, 1i64);
        (%0, %x)
      } else {
        %1 = subtract(%n, 1i64);
        (%1, %x)
      }
    }

After::

    def @main(%p: bool, %n: int64, %x: Tensor[(4), float32]) -> (int64, Tensor[(4), float32]) {
      %0 = add(%n, 1i64);
      %1 = subtract(%n, 1i64);
      %2 = where(%p, %0, %1);
      (%2, %x)
    }

An ``if`` becomes the branch taken if its condition is constant, or if both branches are the same.
Inside of a branch its condition is known. Fields that both branches give alike leave the ``if``.
What is left becomes a ``where`` if computing both branches takes about as long as a branch that is
mispredicted; neither may then contain a loop or a call, which might not end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import numpy as np

from ...pass_context import optional
from ...span import Span
from .. import nodes
from ..builder import Builder
from ..loops import next_values
from ..nodes import Atom, Binding, Block, Call, Constant, Expr, Function, If, Module, Tuple, Var
from ..operator import OPERATORS, Operator, Pattern
from ..structural import atom_key, equal_blocks
from ..types import TensorType
from ..walk import copy_block, free_variables, map_functions, rewrite_function, use_counts
from ..work import block_work, elements

SELECTED_WORK = 16
"""Instructions of both branches of an ``if`` that becomes a ``where``: a mispredicted branch costs
about as many cycles."""

SELECTED_ELEMENTS = 4
"""Elements of a value that a ``where`` selects instead: both values are in registers."""


@optional(level=1)
def fold_branches(module: Module) -> Module:
    """Removes branches whose outcome is known, or that cost more than what they leave out."""
    return map_functions(module, _fold, (If,))


def _fold(function: Function) -> Function:
    while (after := _fold_once(function)) is not function:
        function = after  # an outer condition is known in inner branches now
    return function


def _fold_once(function: Function) -> Function:
    negated: dict[Atom, Atom] = {}

    def step(var: Var, value: Expr, builder: Builder) -> Atom | None:
        if isinstance(value, Call) and value.op is OPERATORS["logical_not"]:
            negated[var] = value.args[0]
        return _simpler(value, negated, builder) if isinstance(value, If) else None

    return rewrite_function(function, step)


def _simpler(branch: If, negated: dict[Atom, Atom], builder: Builder) -> Atom | None:
    """Emits what is left of an ``if``; None if it stays."""
    condition, then, orelse = branch.condition, branch.then, branch.orelse
    if condition in negated:
        condition, then, orelse = negated[condition], orelse, then
    if isinstance(condition, Constant):
        return _splice(then if bool(condition.value) else orelse, builder)
    assert isinstance(condition, Var)
    then, orelse = _knowing(condition, True, then), _knowing(condition, False, orelse)
    if equal_blocks(then, orelse):
        return _splice(then, builder)
    fields, others = next_values(then), next_values(orelse)
    whole = fields is None or others is None
    pairs = [(then.result, orelse.result)]
    if fields is not None and others is not None:
        pairs = list(zip(fields, others, strict=True))
    if _is_cheap(then, orelse, pairs):
        builder.bindings += [*_without_tuple(then), *_without_tuple(orelse)]
        chosen = [_select(condition, *pair, builder) for pair in pairs]
    else:
        differing = [pair for pair in pairs if not _same(*pair)]
        if len(differing) == len(pairs):
            if then is branch.then and orelse is branch.orelse:
                return None
            return builder.cond(condition, then, orelse, span=branch.span)
        blocks = [_narrowed(b, [p[n] for p in differing]) for n, b in enumerate((then, orelse))]
        rest = iter(_cond_fields(condition, blocks, len(differing), branch.span, builder))
        chosen = [pair[0] if _same(*pair) else next(rest) for pair in pairs]
    return chosen[0] if whole else builder.make_tuple(chosen, span=branch.span)


def _splice(block: Block, builder: Builder) -> Atom:
    builder.bindings += block.bindings
    return block.result


def _same(one: Atom, other: Atom) -> bool:
    return atom_key(one) == atom_key(other)


def _knowing(condition: Var, outcome: bool, block: Block) -> Block:
    """``block`` with the condition under which it runs replaced by its outcome."""
    if condition not in free_variables(block):
        return block
    return copy_block(block, {condition: Constant(np.array(outcome))})


def _without_tuple(block: Block) -> list[Binding]:
    """Returns the bindings of ``block`` but the tuple that is made for its result only."""
    result = block.result
    made = isinstance(result, Var) and next_values(block) and use_counts(block)[result] == 1
    return [b for b in block.bindings if not (made and b.var is result)]


def _is_cheap(then: Block, orelse: Block, pairs: Sequence[tuple[Atom, Atom]]) -> bool:
    """True if both branches together are a few instructions on scalars."""
    results = [p[0].type for p in pairs]
    small = all(isinstance(t, TensorType) and elements(t) <= SELECTED_ELEMENTS for t in results)
    maps = all(map(_is_small_map, (*then.bindings, *orelse.bindings)))
    return small and maps and block_work(then) + block_work(orelse) <= SELECTED_WORK


def _is_small_map(binding: Binding) -> bool:
    value = binding.value
    if not isinstance(value, Call):
        return isinstance(value, Tuple | nodes.TupleGetItem)
    op = value.op
    maps = isinstance(op, Operator) and op.compute is not None and op.pattern <= Pattern.INJECTIVE
    return maps and elements(binding.var.type) <= SELECTED_ELEMENTS


def _select(condition: Atom, one: Atom, other: Atom, builder: Builder) -> Atom:
    if _same(one, other):
        return one
    truths = [bool(a.value) if _is_truth(a) else None for a in (one, other)]
    if truths == [True, False]:
        return condition
    if truths[0] is False or truths[1] is True:
        condition = builder.emit(OPERATORS["logical_not"], (condition,))
    match truths:
        case [False, True]:
            return condition
        case [None, False]:
            return builder.emit(OPERATORS["logical_and"], (condition, one))
        case [False, None]:
            return builder.emit(OPERATORS["logical_and"], (condition, other))
        case [True, None]:
            return builder.emit(OPERATORS["logical_or"], (condition, other))
        case [None, True]:
            return builder.emit(OPERATORS["logical_or"], (condition, one))
        case _:
            pass
    return builder.emit(OPERATORS["where"], (condition, one, other))


def _is_truth(atom: Atom) -> TypeGuard[Constant]:
    return isinstance(atom, Constant) and atom.value.shape == () and atom.value.dtype == np.bool_


def _narrowed(block: Block, fields: list[Atom]) -> Block:
    """``block`` with ``fields`` for its result."""
    inside = Builder()
    inside.bindings += _without_tuple(block)
    return inside.block(fields[0] if len(fields) == 1 else inside.make_tuple(fields))


def _cond_fields(
    condition: Atom, blocks: list[Block], count: int, span: Span | None, builder: Builder
) -> list[Atom]:
    """Emits an ``if`` of ``count`` fields; one is not in a tuple."""
    if not count:
        return []
    var = builder.cond(condition, blocks[0], blocks[1], span=span)
    return [var] if count == 1 else [builder.get_item(var, n) for n in range(count)]
