"""The arithmetic that a kernel cannot do without: what a limit by the peak rate is made from.

``stage_flops`` counts the operations of an expression as often as it is evaluated. A compiler may
do less: an expression that chooses by its place (a coefficient of Winograd's transforms, the border
of a padded array) needs the branch that is taken only, and what neighbouring places have in common
once. Here such choices are resolved for every place along short axes, and equal operations counted
once. Conditions on places alone cost nothing, since loops can be cut where they flip. Of a stage
that is symmetric in two axes, one triangle is counted.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import field
from itertools import product
from math import prod
from typing import Any

from ...ir.dataclass import dataclass
from ...ir.dims import Dim, IntExpr, as_int, substitute, symbols
from ...ir.loop.expr import Const, Expr, Index, Op, walk
from ...ir.loop.prim import PrimFunc, Stage
from ...ir.loop.procedure import Procedure
from ...ir.loop.scalar import COMBINERS, SCALAR_OPS
from ...ir.loop.symmetry import symmetric_axes
from .analysis import prim_flops, stage_flops, stage_points
from .settings import SPACE

__all__ = ["least_flops"]


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
    chosen = [
        node.args[0]
        for node in walk(stage.expr)
        if isinstance(node, Op) and node.name == "where" and _is_of_places(node.args[0])
    ]
    if not chosen:
        return stage_flops(stage)
    extents = {a.name: as_int(a.extent) for a in (*stage.axes, *stage.reduce_axes)}
    names = {n for condition in chosen for n in _places_in(condition)} & extents.keys()
    short = sorted(n for n in names if extents[n] <= SPACE.max_places)
    while prod(extents[n] for n in short) > SPACE.max_places:
        short.remove(max(short, key=extents.__getitem__))
    count = _Count()
    for at in product(*(range(extents[n]) for n in short)):
        count.place(stage.expr, dict(zip(short, at)))
    places = prod(extents[n] for n in short)
    combining = 0.0
    if stage.combiner is not None:
        combining = SCALAR_OPS[COMBINERS[stage.combiner].op].cost * places
    rest = stage_points(stage) / max(1, places)
    return min(stage_flops(stage), rest * (count.cost + combining))


def _is_of_places(expr: Expr) -> bool:
    """True if a value depends on where it is computed only, not on data."""
    return all(isinstance(node, Const | Index | Op) for node in walk(expr))


def _places_in(expr: Expr) -> set[str]:
    return {
        name
        for node in walk(expr)
        if isinstance(node, Index) and isinstance(node.value, Dim)
        for name in symbols(node.value)
    }


@dataclass
class _Count:
    """Gives every distinct value a number, and adds up what computing each once costs."""

    cost: float = 0.0
    numbers: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    constants: dict[int, Any] = field(default_factory=dict[int, Any])

    def place(self, root: Expr, at: Mapping[str, int]) -> None:
        """Counts the operations of ``root`` at the point ``at``: a value of each axis."""
        done: dict[int, int] = {}

        def number(node: Expr) -> int:
            seen = done.get(id(node))
            if seen is None:
                seen = done[id(node)] = self._number(node, number, at)
            return seen

        number(root)

    def _number(self, node: Expr, number: Any, at: Mapping[str, int]) -> int:
        if isinstance(node, Const):
            return self._constant(node.value)
        if isinstance(node, Index):
            value = _moved(node.value, at)
            if isinstance(value, int):
                return self._constant(value)
            return self._number_of(("index", value))
        if not isinstance(node, Op):
            places = tuple(
                _moved(i, at) if isinstance(i, int | Dim) else number(i) for i in node.indices
            )
            return self._number_of(("read", node.buffer, places))
        cost = 0.0 if node.name == "cast" else SCALAR_OPS[node.name].cost
        if node.name == "where" and _is_of_places(node.args[0]):
            condition = self.constants.get(number(node.args[0]))
            if condition is not None:
                return number(node.args[1] if condition else node.args[2])
            cost = 0.0
        args = [number(a) for a in node.args]
        values = [self.constants.get(a) for a in args]
        if _is_of_places(node):
            if None not in values and not node.dtype.is_float:
                return self._constant(SCALAR_OPS[node.name].numpy(*values))
            return self._number_of((node.name, *args))
        return self._number_of((node.name, *args), cost)

    def _constant(self, value: Any) -> int:
        number = self._number_of(("constant", float(value)))
        self.constants[number] = value
        return number

    def _number_of(self, key: Hashable, cost: float = 0.0) -> int:
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.numbers)
            self.cost += cost
        return number


def _moved(value: IntExpr, at: Mapping[str, int]) -> IntExpr:
    return substitute(value, dict(at)) if isinstance(value, Dim) else value
