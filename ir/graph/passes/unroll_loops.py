"""Write the iterations of short loops one after the other.

Before::

    def @main(%x: Tensor[(64), float32]) -> Tensor[(64), float32] {
      %0 = for (%i < 3i64; %y = %x) {
        %1 = cast(%i, dtype="float32");
        %2 = add(%y, %1);
        (%2,)
      };
      %0.0
    }

After::

    def @main(%x: Tensor[(64), float32]) -> Tensor[(64), float32] {
      %0 = cast(0i64, dtype="float32");
      %1 = add(%x, %0);
      %2 = cast(1i64, dtype="float32");
      %3 = add(%1, %2);
      %4 = cast(2i64, dtype="float32");
      add(%3, %4)
    }

A few operators then become one kernel, without memory between the iterations. A loop that picks
elements of constants by its index, such as the weights of a layer of several, may become longer:
what is picked is constant, and is packed while compiling. Loops that run once are no loops.
"""

from __future__ import annotations

import numpy as np

from ...pass_context import optional
from .. import nodes
from ..builder import Builder
from ..loops import next_values
from ..operator import OPERATORS, Operator, Pattern
from ..walk import all_bindings, copy_block, map_functions
from .eliminate_dead_code import replace_by_fields

UNROLLED_BINDINGS = 16
"""Bindings of all iterations of a loop: compiling them takes less time than a kernel more."""

FOLDED_BINDINGS = 256
"""The same if constants are picked by the index."""


@optional(level=2)
def unroll_loops(module: nodes.Module) -> nodes.Module:
    """Replaces loops of few iterations by these."""
    return map_functions(module, _unroll, (nodes.For,))


def _unroll(function: nodes.Function) -> nodes.Function:
    while (after := _unroll_once(function)) is not function:
        function = after  # a loop around another may be short without it
    return function


def _unroll_once(function: nodes.Function) -> nodes.Function:
    def last_values(value: nodes.Expr, builder: Builder) -> list[nodes.Atom] | None:
        if not isinstance(value, nodes.For) or not _pays(value):
            return None
        return _iterations(value, builder)

    return replace_by_fields(function, last_values)


def _pays(loop: nodes.For) -> bool:
    if not isinstance(loop.extent, nodes.Constant) or next_values(loop.body) is None:
        return False
    trips = int(loop.extent.value)
    if trips <= 1:
        return True
    bindings = list(all_bindings(loop.body))
    picks = any(_picks(b.value, loop.index) for b in loop.body.bindings)
    if not all(_fuses(b.value) if not picks else _ends(b.value) for b in bindings):
        return False
    # The tuple of the next values is nothing to compute.
    return trips * (len(bindings) - 1) <= (FOLDED_BINDINGS if picks else UNROLLED_BINDINGS)


def _ends(value: nodes.Expr) -> bool:
    """False for calls of functions, which are longer than they look."""
    return not isinstance(value, nodes.Call) or isinstance(value.op, Operator)


def _fuses(value: nodes.Expr) -> bool:
    """True for what is a part of one kernel with the same of the next iteration."""
    if not isinstance(value, nodes.Call):
        return isinstance(value, nodes.Tuple | nodes.TupleGetItem)
    op = value.op
    return isinstance(op, Operator) and op.pattern <= Pattern.INJECTIVE


def _picks(value: nodes.Expr, index: nodes.Var) -> bool:
    """True for an array that is picked of constant ones by the index of a loop."""
    if not isinstance(value, nodes.Call) or value.op is not OPERATORS["take"]:
        return False
    array, at = value.args
    return isinstance(array, nodes.Constant) and array.value.ndim > 1 and at is index


def _iterations(loop: nodes.For, builder: Builder) -> list[nodes.Atom]:
    """Emits all iterations; returns the last values of what the loop carries."""
    assert isinstance(loop.extent, nodes.Constant)
    values = [*loop.initial]
    following = next_values(loop.body)
    assert following is not None
    bindings = tuple(b for b in loop.body.bindings if b.var is not loop.body.result)
    for number in range(int(loop.extent.value)):
        instead: dict[nodes.Var, nodes.Atom] = dict(zip(loop.params, values, strict=True))
        instead[loop.index] = nodes.Constant(np.array(number, np.int64))
        builder.bindings += copy_block(nodes.Block(bindings, loop.body.result), instead).bindings
        values = [instead.get(a, a) if isinstance(a, nodes.Var) else a for a in following]
    return values
