"""The arithmetic that a kernel cannot do without: what a limit by the peak rate is made from.

``stage_flops`` counts the operations of an expression as often as it is evaluated. A compiler may
do less: an expression that chooses by its place (a coefficient of Winograd's transforms, the border
of a padded array) needs the branch that is taken only, and what neighbouring places have in common
once. Here such choices are resolved for every place along short axes, and equal operations counted
once. Conditions on places alone cost nothing, since loops can be cut where they flip. Of a stage
that is symmetric in two axes, one triangle is counted.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import product
from math import prod

from ...ir.dims import Dim, as_int, symbols
from ...ir.loop.decide import worked_out
from ...ir.loop.expr import Expr, Index, Op, Read, children, walk
from ...ir.loop.prim import PrimFunc, Stage
from ...ir.loop.procedure import Procedure
from ...ir.loop.scalar import COMBINERS, SCALAR_OPS
from ...ir.loop.symmetry import symmetric_axes
from ...ir.loop.work import prim_flops, stage_flops, stage_points
from .settings import SPACE


def least_flops(prim: PrimFunc) -> float:
    """Arithmetic instructions that one call of ``prim`` takes at least.

    Never more than ``prim_flops``, and the same where no place is chosen by and nothing is
    symmetric.
    """
    if isinstance(prim, Procedure):
        return prim_flops(prim)
    return sum(_least(stage) * _triangle(stage) for stage in prim.stages)


def _triangle(stage: Stage) -> float:
    """The share of a stage's elements that the others do not follow from."""
    axes = symmetric_axes(stage)
    if axes is None:
        return 1.0
    extent = next(as_int(a.extent) for a in stage.axes if a.name == axes[0])
    return (extent + 1) / (2 * extent)


def _least(stage: Stage) -> float:
    names = {
        name
        for node in walk(stage.expr)
        if isinstance(node, Op) and node.name == "where"
        if not any(isinstance(below, Read) for below in walk(node.args[0]))
        for place in walk(node.args[0])
        if isinstance(place, Index) and isinstance(place.value, Dim)
        for name in symbols(place.value)
    }
    if not names:
        return stage_flops(stage)
    extents = {a.name: as_int(a.extent) for a in (*stage.axes, *stage.reduce_axes)}
    short = sorted(n for n in names & extents.keys() if extents[n] <= SPACE.max_places)
    while prod(extents[n] for n in short) > SPACE.max_places:
        short.remove(max(short, key=extents.__getitem__))
    values: set[Expr] = set()  # that depend on data; equal expressions are the same object
    for at in product(*(range(extents[n]) for n in short)):
        for node in walk(worked_out(stage.expr, dict(zip(short, at)), {}, {})):
            if isinstance(node, Read) or not values.isdisjoint(children(node)):
                values.add(node)
    cost = sum(_cost(node, values) for node in values)
    places = prod(extents[n] for n in short)
    if stage.combiner is not None:
        cost += SCALAR_OPS[COMBINERS[stage.combiner].op].cost * places
    return min(stage_flops(stage), cost * stage_points(stage) / max(1, places))


def _cost(node: Expr, values: Collection[Expr]) -> float:
    """Returns the instructions of a value that others are computed from, none for a choice by
    place."""
    if not isinstance(node, Op) or node.name == "cast":
        return 0.0
    by_place = node.name == "where" and node.args[0] not in values
    return 0.0 if by_place else SCALAR_OPS[node.name].cost
