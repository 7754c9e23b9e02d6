"""Estimates of the work that expressions do, for passes that copy, move or select them."""

from __future__ import annotations

import math

from ..traits import Trait
from .nodes import Binding, Block, Call, Constant, For, If, While
from .operator import Operator, Pattern
from .types import TensorType, TupleType, Type
from .walk import nested_blocks


def work(binding: Binding) -> float:
    """Returns the arithmetic instructions that computing a binding takes, roughly; infinity where
    nobody can tell, as for a loop without a known number of iterations or a call of a function."""
    value = binding.value
    if isinstance(value, Call):
        return call_work(value, binding.var.type)
    if isinstance(value, If):
        return max(map(block_work, nested_blocks(value)))
    if isinstance(value, While):
        return math.inf
    if isinstance(value, For):
        trips = float(value.extent.value) if isinstance(value.extent, Constant) else math.inf
        return max(trips, 0) * (1 + block_work(value.body))
    return 0.0


def block_work(block: Block) -> float:
    """Returns the instructions of all bindings of a block; see ``work``."""
    return sum(map(work, block.bindings))


def elements(type: Type) -> float:
    """Returns the number of elements of a value; infinity if it is symbolic or a function."""
    if isinstance(type, TupleType):
        return sum(map(elements, type.fields))
    if isinstance(type, TensorType) and isinstance(type.size, int):
        return type.size
    return math.inf


def call_work(call: Call, result: Type) -> float:
    """Returns the instructions of a call of an operator; see ``work``."""
    op = call.op
    if not isinstance(op, Operator):
        return math.inf
    if Trait.VIEW in op.traits:
        return 0.0
    count = elements(result)
    if op.compute is not None and op.pattern <= Pattern.INJECTIVE:
        return count * op.cost
    read = [elements(a.type) for a in call.args]
    if op.pattern == Pattern.CONTRACTION:
        # A product of matrices (m, k) and (k, n) takes m k n: the root of mk * kn * mn.
        product = count * math.prod(read)
        return math.sqrt(product) if product else 0.0
    return (count + sum(read)) * max(op.cost, 1.0)
