"""Compute a large map of small values in each reduction that reads it, rather than store it.

Before::

    def @main(%x: Tensor[(64, 1), float32]) -> (Tensor[(64), float32], Tensor[(64), float32]) {
      %0 = transpose(%x, axes=[1, 0]);
      %1 = subtract(%x, %0);
      %2 = sum(%1, axis=[0]);
      %3 = sum(%1, axis=[1]);
      (%2, %3)
    }

After::

    def @main(%x: Tensor[(64, 1), float32]) -> (Tensor[(64), float32], Tensor[(64), float32]) {
      %0 = transpose(%x, axes=[1, 0]);
      %1 = subtract(%x, %0);
      %2 = subtract(%x, %0);
      %3 = sum(%2, axis=[0]);
      %4 = subtract(%x, %0);
      %5 = sum(%4, axis=[1]);
      (%3, %5)
    }

Reductions along different axes do not share a kernel, so that a map that both read would be written
to memory. A gradient has many: the differences of all pairs, summed over either. (A map that nobody
reads any more goes with the dead code.)
"""

from __future__ import annotations

import math
from collections import defaultdict

from ...pass_context import optional
from ...traits import Trait
from ..builder import Builder
from ..limits import DEFAULT_LIMITS, GraphLimits
from ..nodes import Atom, Call, Function, Module, Var
from ..operator import Operator, Pattern
from ..walk import Calls, CallStep, all_bindings, all_uses, map_functions, rewrite_blocks
from ..work import elements


@optional(level=2)
def repeat_maps(module: Module, limits: GraphLimits = DEFAULT_LIMITS) -> Module:
    """Gives each reduction of a large map of small values, which others read too, its own one."""

    def repeated(function: Function) -> Function:
        users: dict[Atom, set[Var]] = defaultdict(set)
        for binding in all_bindings(function.body):
            for use in all_uses(binding.value):
                users[use].add(binding.var)
        return rewrite_blocks(function, lambda calls: _step(calls, users, limits))

    return map_functions(module, repeated)


def _step(calls: Calls, users: dict[Atom, set[Var]], limits: GraphLimits) -> CallStep:
    def step(var: Var, value: Call, builder: Builder) -> Atom | None:
        if value.operator.pattern != Pattern.REDUCTION or len(value.args) != 1:
            return None
        chain = _chain(value.args[0], calls, limits)
        if all(users[v] <= {*chain, var} for v in chain):
            return None
        instead: dict[Atom, Atom] = {}
        for member in [v for v in calls if v in chain]:
            call = calls[member]
            args = [instead.get(a, a) for a in call.args]
            instead[member] = builder.emit(call.op, args, call.attrs, span=call.span)
        return builder.emit(value.op, [instead[value.args[0]]], value.attrs)

    return step


def _chain(last: Atom, calls: Calls, limits: GraphLimits) -> set[Atom]:
    """Returns the calls that a large map of known size consists of: none if they cost much, or if
    what they are computed of is not small."""
    size, cost, chain, inputs = elements(last.type), 0.0, set[Atom](), set[Atom]()
    todo = [last] if size < math.inf else []
    while todo:
        atom = todo.pop()
        call = calls.get(atom)
        if call is None or elements(atom.type) < size or not _is_map(call):
            inputs.add(atom)
        elif atom not in chain:
            chain.add(atom)
            cost += call.operator.cost
            todo += call.args
        if cost >= limits.costly:
            return set()
    is_small = limits.large_map * sum(elements(a.type) for a in inputs) <= size
    return chain if is_small else set()


def _is_map(call: Call) -> bool:
    op = call.op
    return isinstance(op, Operator) and (op.pattern <= Pattern.BROADCAST or Trait.VIEW in op.traits)
