"""Multiply by a factor that all terms of a sum share, or divide by it, once::

    o[i, m] = sum(k) e[i, k] / s[i] * v[k, m]    =>    o.sum[i, m] = sum(k) e[i, k] * v[k, m]
                                                       o[i, m] = o.sum[i, m] / s[i]

The results are equal up to rounding. Softmax before a contraction then divides the elements of the
result instead of all scores. So it is with what is zero under a condition, where the other factors
are taken to be finite::

    o[i, m] = sum(k) where(c[i], e[i, k], 0) * v[k, m]
           =>
    o.sum[i, m] = sum(k) e[i, k] * v[k, m]
    o[i, m] = where(c[i], o.sum[i, m], 0)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from ..dims import Dim, symbol, symbols
from .expr import Const, Expr, Index, Op, Read, const, op, read, select, walk
from .prim import PrimFunc, Stage

__all__ = ["hoist_factors"]


def hoist_factors(prim: PrimFunc) -> PrimFunc:
    """``prim`` with factors, divisors and conditions that no reduced axis moves taken out of sums
    of floats; the same object if there are none."""
    stages: list[Stage] = []
    for stage in prim.stages:
        stages += _hoisted(stage)
    if len(stages) == len(prim.stages):
        return prim
    return replace(prim, stages=tuple(stages))


def _hoisted(stage: Stage) -> list[Stage]:
    if stage.combiner != "sum" or not stage.buffer.dtype.is_float:
        return [stage]
    reduced = {a.name for a in stage.reduce_axes}
    outside: list[tuple[str, Expr]] = []
    inside = _without(stage.expr, reduced, outside)
    if not outside or not _walks(inside) & reduced:
        return [stage]
    name = f"{stage.name}.sum"
    summed = replace(stage, buffer=replace(stage.buffer, name=name), expr=inside)
    value: Expr = read(name, [symbol(a.name) for a in stage.axes], stage.buffer.dtype)
    if any(how == "where" for how, _ in outside):  # a quotient inside of a choice stays there
        outside.reverse()
    for how, factor in outside:
        if how == "where":
            value = select(factor, value, const(0, value.dtype))
        else:
            value = op(how, value, factor)
    return [summed, replace(stage, expr=value, reduce_axes=(), combiner=None)]


def _without(expr: Expr, reduced: set[str], outside: list[tuple[str, Expr]]) -> Expr:
    """A product without the factors, constants aside, that do not move along ``reduced``."""
    if _is_zero_unless_fixed(expr, reduced):
        test, value, _ = expr.args
        outside.append(("where", test))
        return _without(value, reduced, outside)
    if not isinstance(expr, Op) or expr.name not in ("multiply", "divide"):
        return expr
    left, right = expr.args
    if _fixed(right, reduced):
        outside.append((expr.name, right))
        return _without(left, reduced, outside)
    if expr.name == "multiply" and _fixed(left, reduced):
        outside.append(("multiply", left))
        return _without(right, reduced, outside)
    new = _without(left, reduced, outside)
    if expr.name == "multiply":
        right = _without(right, reduced, outside)
    return op(expr.name, new, right)


def _is_zero_unless_fixed(expr: Expr, reduced: set[str]) -> TypeGuard[Op]:
    """True for where(condition that does not move along ``reduced``, anything, 0)."""
    if not isinstance(expr, Op) or expr.name != "where" or not _fixed(expr.args[0], reduced):
        return False
    other = expr.args[2]
    return isinstance(other, Const) and other.value == 0


def _fixed(expr: Expr, reduced: set[str]) -> bool:
    return any(isinstance(n, Read) for n in walk(expr)) and not _walks(expr) & reduced


def _walks(expr: Expr) -> set[str]:
    names: set[str] = set()
    for node in walk(expr):
        if isinstance(node, Read):
            for i in node.indices:
                names |= symbols(i) if isinstance(i, Dim) else set()
        elif isinstance(node, Index):
            names |= symbols(node.value)
    return names
