"""Conditions that the ranges of the loops decide when the nest is written."""

from __future__ import annotations

from collections.abc import Mapping

from ..dims import IntExpr, bounds
from ..dtype import BOOL
from ..loop.expr import Const, Expr, Index, const, op

__all__ = ["COMPARISONS", "decide", "join"]

COMPARISONS = {
    "less": lambda low, high: True if high < 0 else False if low >= 0 else None,
    "less_equal": lambda low, high: True if high <= 0 else False if low > 0 else None,
    "greater": lambda low, high: True if low > 0 else False if high <= 0 else None,
    "greater_equal": lambda low, high: True if low >= 0 else False if high < 0 else None,
}


def decide(name: str, left: Expr, right: Expr, ranges: Mapping[str, tuple[int, int]]) -> Expr:
    """A comparison of indices, worked out where the ranges of the loops decide it."""
    a, b = _index_value(left), _index_value(right)
    if a is not None and b is not None:
        inside = bounds(a - b, ranges)
        known = COMPARISONS[name](*inside) if inside is not None else None
        if known is not None:
            return const(known, BOOL)
    return op(name, left, right)


def _index_value(expr: Expr) -> IntExpr | None:
    if isinstance(expr, Index):
        return expr.value
    if isinstance(expr, Const) and isinstance(expr.value, int):
        return expr.value
    return None


def join(name: str, left: Expr, right: Expr) -> Expr:
    """``logical_and`` or ``logical_or``, worked out where one side is known."""
    decisive = name == "logical_or"
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Const):
            return one if bool(one.value) == decisive else other
    return op(name, left, right)
