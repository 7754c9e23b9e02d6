"""Express every operator in primitive ones: those that have a tensor expression of their own.

Before::

    def @main(%x: Tensor[(4, 8), float32]) -> Tensor[(4, 8), float32] {
      nn.silu(%x)
    }

After::

    def @main(%x: Tensor[(4, 8), float32]) -> Tensor[(4, 8), float32] {
      %0 = sigmoid(%x);
      multiply(%x, %0)
    }

Operators such as ``nn.softmax`` stay whole for as long as a pass may profit from knowing them; from
here on only ``compute`` counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import LoopwrightError
from ..builder import Builder
from ..limits import DEFAULT_LIMITS, GraphLimits
from ..nodes import (
    Atom,
    Binding,
    Block,
    Call,
    Expr,
    Function,
    GlobalVar,
    Module,
    Tuple,
    TupleGetItem,
    Var,
)
from ..walk import (
    map_functions,
    map_operands,
    nested_blocks,
    rewrite_function,
    with_nested_blocks,
)


def lower_to_primitives(module: Module, limits: GraphLimits = DEFAULT_LIMITS) -> Module:
    """Expands the ``decompose`` of every operator, and of operators in it, until none is left."""
    return map_functions(module, lambda function: _lower_function(function, limits))


def _lower_function(function: Function, limits: GraphLimits) -> Function:
    tuples: dict[Var, Tuple] = {}

    def step(var: Var, value: Expr, builder: Builder) -> Atom | None:
        if isinstance(value, Tuple):
            tuples[var] = value
        if isinstance(value, TupleGetItem) and isinstance(value.value, Var):
            fields = tuples.get(value.value)
            return fields.fields[value.index] if fields is not None else None
        if isinstance(value, Call) and not isinstance(value.op, GlobalVar | Var):
            return _lower(var, value, builder, tuples, limits)
        return None

    return rewrite_function(function, step)


def _lower(
    var: Var, call: Call, builder: Builder, tuples: dict[Var, Tuple], limits: GraphLimits
) -> Atom | None:
    """Returns the result of ``call`` in primitives, or None if it is a primitive."""
    op = call.op
    if isinstance(op, GlobalVar | Var) or op.decompose is None:
        return None
    inner = Builder(span=call.span or var.span, limits=limits)
    try:
        result = op.decompose(inner, call.args, call.attrs)
    except LoopwrightError as error:
        error.span = error.span or inner.span
        raise
    instead: dict[Var, Atom] = {}
    _bind(inner.bindings, builder, instead, tuples, limits)
    return instead.get(result, result) if isinstance(result, Var) else result


def _bind(
    bindings: Sequence[Binding],
    builder: Builder,
    instead: dict[Var, Atom],
    tuples: dict[Var, Tuple],
    limits: GraphLimits,
) -> None:
    """Binds what an operator consists of, in primitives, and records what is ``instead`` of it."""

    def resolve(atom: Atom) -> Atom:
        return instead.get(atom, atom) if isinstance(atom, Var) else atom

    for binding in bindings:
        value = map_operands(binding.value, resolve)
        blocks: list[Block] = []
        for block in nested_blocks(value):
            inner = Builder(span=builder.span, limits=limits)
            _bind(block.bindings, inner, instead, tuples, limits)
            blocks.append(inner.block(resolve(block.result)))
        value = with_nested_blocks(value, blocks)
        lowered: Atom | None = None
        if isinstance(value, Call):
            lowered = _lower(binding.var, value, builder, tuples, limits)
        elif isinstance(value, TupleGetItem) and isinstance(value.value, Var):
            fields = tuples.get(value.value)
            lowered = fields.fields[value.index] if fields is not None else None
        if lowered is None:
            lowered = builder.bind(value, binding.var.type)
            if isinstance(value, Tuple):
                tuples[lowered] = value
        instead[binding.var] = lowered
