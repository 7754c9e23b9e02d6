"""Symmetric stages: reductions in which two axes may be exchanged.

::

    t[i, j] = sum(k) x[k, i] * x[k, j]                     t[i, j] == t[j, i]
    t[i, j] = sum(k) abs(x[i, k] - x[j, k])

Equal means equal to the last bit, for all values of the operands: both sides do the same operations
in the same order, and operands are exchanged only where the operation is commutative, or where only
a sign changes that the next operation removes.
"""

from __future__ import annotations

from dataclasses import field
from itertools import combinations

from ..dataclass import dataclass
from ..dims import symbol
from ..traits import Trait
from .expr import Expr, IndexLike, Op, substitute_indices
from .prim import Axis, Stage
from .scalar import SCALAR_OPS


def symmetric_axes(stage: Stage) -> tuple[str, str] | None:
    """The first two axes in which a reduction is symmetric, None if there are none.

    Axes that no read depends on are ignored.
    """
    if stage.combiner is None:
        return None
    for a, b in combinations(stage.axes, 2):
        if a.extent == b.extent and _is_symmetric(stage, a, b):
            return a.name, b.name
    return None


def exchanged(expr: Expr, a: str, b: str) -> Expr:
    """Returns the expression with two index variables exchanged."""
    values: dict[str, IndexLike] = {a: symbol(b), b: symbol(a)}
    return substitute_indices(expr, values)


def _is_symmetric(stage: Stage, a: Axis, b: Axis) -> bool:
    other = exchanged(stage.expr, a.name, b.name)
    comparison = _Comparison(stage.combiner == "sum" or not stage.buffer.dtype.is_float)
    return other is not stage.expr and comparison.sign(stage.expr, other) == 1


@dataclass
class _Comparison:
    """Compares expressions.

    ``zeros_alike`` ignores the sign of a zero, which a sum that begins with 0.0 loses.
    """

    zeros_alike: bool
    signs: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])

    def sign(self, one: Expr, other: Expr) -> int:
        """1 if the two are equal, -1 if one is the other negated (or both are zero), 0 if neither
        can be shown."""
        if one is other:
            return 1
        if not isinstance(one, Op) or not isinstance(other, Op):
            return 0
        if one.name != other.name or one.dtype != other.dtype:
            return 0
        key = id(one), id(other)
        if key not in self.signs:
            self.signs[key] = self._sign_of_operators(one, other)
        return self.signs[key]

    def _sign_of_operators(self, one: Op, other: Op) -> int:
        orders = [other.args, other.args[::-1]] if len(one.args) == 2 else [other.args]
        straight, *crossed = [
            [self.sign(a, b) for a, b in zip(one.args, args, strict=True)] for args in orders
        ]
        if one.name == "subtract" and crossed == [[1, 1]]:
            return -1
        if one.name == "abs" and one.dtype.kind != "u":
            return abs(straight[0])
        if one.name == "multiply" and [-1, -1] in (straight, *crossed):
            return int(self.zeros_alike or one.args[0] is one.args[1])
        traits = SCALAR_OPS[one.name].traits
        if Trait.COMMUTATIVE not in traits or Trait.EITHER_ZERO in traits:
            crossed = []
        return int(any(all(sign == 1 for sign in signs) for signs in (straight, *crossed)))
