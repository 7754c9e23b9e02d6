"""The work that stages and PrimFuncs of constant sizes do: instructions, evaluations, bytes."""

from __future__ import annotations

from math import prod

from ..dims import as_int
from .expr import Op, Read, walk
from .prim import PrimFunc, Stage
from .procedure import Procedure, executions
from .scalar import COMBINERS, SCALAR_OPS


def expression_cost(stage: Stage) -> float:
    """Arithmetic instructions for one evaluation of the stage's expression."""
    cost = 0.0 if stage.combiner is None else SCALAR_OPS[COMBINERS[stage.combiner].op].cost
    for node in walk(stage.expr):
        if isinstance(node, Op) and node.name != "cast":
            cost += SCALAR_OPS[node.name].cost
    return max(cost, 0.5)


def vector_work(stage: Stage) -> float:
    """Returns the arithmetic instructions of one evaluation of a stage's expression, where a
    product that is summed is one multiply-add. Conditions on places are decided where loops are
    cut, and cost nothing."""
    cost = 0.0
    nodes = [node for node in walk(stage.expr) if isinstance(node, Op)]
    has_data = any(
        isinstance(leaf, Read) for n in nodes if n.name == "where" for leaf in walk(n.args[0])
    )
    for node in nodes:
        row = SCALAR_OPS[node.name]
        of_conditions = row.compares or node.name in ("where", "logical_and")
        if node.name != "cast" and (has_data or not of_conditions):
            cost += row.cost
    if stage.combiner is not None:
        fused = stage.combiner == "sum" and any(node.name == "multiply" for node in nodes)
        cost += 0.0 if fused else SCALAR_OPS[COMBINERS[stage.combiner].op].cost
    return max(cost, 0.5)


def stage_points(stage: Stage) -> int:
    """Returns the number of times that a stage's expression is evaluated."""
    return prod(as_int(a.extent) for a in (*stage.axes, *stage.reduce_axes))


def stage_flops(stage: Stage) -> float:
    """Returns the arithmetic instructions of one run of a stage."""
    return expression_cost(stage) * stage_points(stage)


def prim_flops(prim: PrimFunc) -> float:
    """Arithmetic instructions of one call: twice the multiply-adds for a matmul."""
    if isinstance(prim, Procedure):
        return float(executions(prim.body))
    return sum(stage_flops(s) for s in prim.stages)


def prim_bytes(prim: PrimFunc) -> float:
    """Bytes that must be read and written at least once."""
    outputs = sum(as_int(b.size) * b.dtype.bytes for b in prim.output_buffers)
    return float(sum(as_int(p.size) * p.dtype.bytes for p in prim.params) + outputs)
