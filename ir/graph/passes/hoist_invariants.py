"""Compute before a loop what is the same in all of its iterations.

Before::

    def @main(%x: Tensor[(64), float32], %w: Tensor[(64, 64), float32]) -> Tensor[(64), float32] {
      %0 = for (%i < 9i64; %y = %x) {
        %1 = exp(%w);
        %2 = nn.matmul(%y, %1);
        %3 = multiply(%x, 2f);
        %4 = add(%2, %3);
        (%4,)
      };
      %0.0
    }

After::

    def @main(%x: Tensor[(64), float32], %w: Tensor[(64, 64), float32]) -> Tensor[(64), float32] {
      %1 = exp(%w);
      %0 = for (%i < 9i64; %y = %x) {
        %2 = nn.matmul(%y, %1);
        %3 = multiply(%x, 2f);
        %4 = add(%2, %3);
        (%4,)
      };
      %0.0
    }

A map of few instructions stays: it costs less than reading its result. Views stay as well. Where
the loop may run not even once, what takes long is computed under the condition that it does.
"""

from __future__ import annotations

import numpy as np

from ...pass_context import optional
from ...traits import Trait
from .. import nodes, walk
from ..builder import Builder
from ..limits import DEFAULT_LIMITS, GraphLimits
from ..loops import filled
from ..operator import OPERATORS, Operator, Pattern
from ..types import TensorType
from ..work import block_work, elements, work
from .eliminate_dead_code import rewrite_without_dead_code

UNGUARDED_WORK = 10_000
"""Instructions that may be in vain: a few microseconds, once in a run of a loop."""

SCALARS = 16
"""Elements of a value that is always worth keeping: a register or two."""


@optional(level=1)
def hoist_invariants(module: nodes.Module, limits: GraphLimits = DEFAULT_LIMITS) -> nodes.Module:
    """Moves operators whose operands a loop does not change out of it."""

    def change(function: nodes.Function) -> nodes.Function:
        def step(var: nodes.Var, value: nodes.Expr, builder: Builder) -> nodes.Atom | None:
            if not isinstance(value, nodes.While | nodes.For):
                return None
            return _hoisted(var, value, limits, builder)

        return rewrite_without_dead_code(function, step)

    return walk.map_functions(module, change, (nodes.While, nodes.For))


def _hoisted(
    var: nodes.Var, loop: nodes.While | nodes.For, limits: GraphLimits, builder: Builder
) -> nodes.Atom | None:
    inside = {b.var for block in _blocks(loop) for b in block.bindings} | {*loop.params}
    if isinstance(loop, nodes.For):
        inside.add(loop.index)
    instead: dict[nodes.Var, nodes.Atom] = {}
    if isinstance(loop, nodes.While):  # its condition is computed in any case
        moved = _invariant(loop.condition, inside, limits.costly)
        instead.update(_move(moved, builder))
    moved = _invariant(loop.body, inside, limits.costly)
    # What may raise must not be called for a loop that does not run.
    harmless = not any(walk.has_trait(b.value, Trait.LIBRARY) for b in moved[0])
    unguarded = _runs(loop) or (harmless and sum(map(work, moved[0])) <= UNGUARDED_WORK)
    instead.update(_move(moved, builder) if unguarded else _guard(loop, moved, builder))
    if not instead:
        return None
    blocks = [_without(block, instead) for block in _blocks(loop)]
    return builder.bind(walk.with_nested_blocks(loop, blocks), var.type)


def _blocks(loop: nodes.While | nodes.For) -> tuple[nodes.Block, ...]:
    return (loop.condition, loop.body) if isinstance(loop, nodes.While) else (loop.body,)


def _invariant(
    block: nodes.Block, inside: set[nodes.Var], costly: float
) -> tuple[list[nodes.Binding], list[nodes.Var]]:
    """Returns the bindings to move, in order, and those of their variables that are worth it; the
    others are computed in both places, if the loop needs them."""
    set_inside = walk.setters(block)
    cost: dict[
        nodes.Var, float
    ] = {}  # of the variables that do not change: instructions per element
    worth: list[nodes.Var] = []
    for binding in block.bindings:
        value, var = binding.value, binding.var
        used = [a for a in walk.operands(value) if isinstance(a, nodes.Var)]
        if any(a in inside and a not in cost for a in used) or not _can_move(value):
            continue
        if set_inside and not set_inside.keys().isdisjoint(walk.sizes_used(var, value)):
            continue
        before = sum(cost.get(a, 0.0) for a in used)
        cost[var] = before
        if not isinstance(value, nodes.Call) or not isinstance(value.op, Operator):
            continue
        op = value.op
        whole = op.compute is None or op.pattern > Pattern.INJECTIVE
        free = not op.params or op.pattern == Pattern.INJECTIVE or Trait.PICKS in op.traits
        cost[var] += 0.0 if free else op.cost
        small = cost[var] > 0 and elements(var.type) <= SCALARS
        if whole or small or cost[var] >= costly:
            worth.append(var)
            cost[var] = 0.0  # what follows starts from a value that is kept
    needed: set[nodes.Atom] = set(worth)
    moved: list[nodes.Binding] = []
    for binding in reversed(block.bindings):
        if binding.var in needed:
            moved.append(binding)
            needed.update(walk.operands(binding.value))
    return moved[::-1], worth


def _can_move(value: nodes.Expr) -> bool:
    """True for operators, which end."""
    return isinstance(value, nodes.Tuple | nodes.TupleGetItem) or (
        isinstance(value, nodes.Call)
        and isinstance(value.op, Operator)
        and not value.op.traits & (Trait.SETS_SIZE | Trait.UNSET)
    )


def _runs(loop: nodes.While | nodes.For) -> bool:
    """True if the loop certainly runs once."""
    if not isinstance(loop, nodes.For) or not isinstance(loop.extent, nodes.Constant):
        return False
    return int(loop.extent.value) > 0


def _move(
    moved: tuple[list[nodes.Binding], list[nodes.Var]], builder: Builder
) -> dict[nodes.Var, nodes.Atom]:
    """Emits copies of bindings; returns them for the variables that they are worth it for."""
    bindings, worth = moved
    if not worth:
        return {}
    copies: dict[nodes.Var, nodes.Atom] = {}
    builder.bindings += walk.copy_block(nodes.Block(tuple(bindings), worth[-1]), copies).bindings
    return {var: copies[var] for var in worth}


def _guard(
    loop: nodes.While | nodes.For,
    moved: tuple[list[nodes.Binding], list[nodes.Var]],
    builder: Builder,
) -> dict[nodes.Var, nodes.Atom]:
    """Emits an ``if`` that computes what moves if the loop runs at all, and zeros otherwise, which
    nobody reads."""
    worth = moved[1]
    if not all(isinstance(v.type, TensorType) and isinstance(v.type.size, int) for v in worth):
        return {}
    if isinstance(loop, nodes.For):
        zero = nodes.Constant(np.zeros((), np.int64))
        runs: nodes.Atom = builder.emit(OPERATORS["greater"], (loop.extent, zero))
    elif block_work(loop.condition) <= UNGUARDED_WORK:
        begin: dict[nodes.Var, nodes.Atom] = dict(zip(loop.params, loop.initial, strict=True))
        condition = walk.copy_block(loop.condition, begin)
        builder.bindings += condition.bindings
        runs = condition.result
    else:
        return {}
    then, orelse = Builder(), Builder()
    copies = _move(moved, then)
    zeros = [filled(v.type, 0, orelse) for v in worth]
    blocks = then.block(then.make_tuple([*copies.values()])), orelse.block(orelse.make_tuple(zeros))
    kept = builder.cond(runs, *blocks, span=loop.span)
    return {var: builder.get_item(kept, n) for n, var in enumerate(copies)}


def _without(block: nodes.Block, instead: dict[nodes.Var, nodes.Atom]) -> nodes.Block:
    """``block`` with what moved out of it replaced."""
    left = tuple(b for b in block.bindings if b.var not in instead)
    return walk.copy_block(nodes.Block(left, block.result), dict(instead))
