"""Properties of expressions, and the parts of indices."""

from __future__ import annotations

from math import copysign

from ...ir.dims import Dim, IntExpr
from ...ir.dtype import INT64
from ...ir.loop.expr import Const, Expr, Index, IndexLike, Op, op


def is_zero(expr: Expr) -> bool:
    """True for the constant whose bits are zero."""
    return isinstance(expr, Const) and expr.value == 0 and copysign(1, expr.value) > 0


def index_parts(index: IndexLike) -> tuple[Expr | None, IntExpr]:
    """Splits an index into what data say (None: nothing) and what the loops do: they are added."""
    if isinstance(index, int | Dim):
        return None, index
    if isinstance(index, Index):
        return None, index.value
    if isinstance(index, Const) and index.dtype == INT64:
        return None, int(index.value)
    if not isinstance(index, Op) or index.name not in ("add", "subtract") or index.dtype != INT64:
        return index, 0
    (one, first), (other, second) = map(index_parts, index.args)
    if index.name == "add":
        both = one if other is None else other if one is None else op("add", one, other)
        return both, first + second
    return (one, first - second) if other is None else (index, 0)
