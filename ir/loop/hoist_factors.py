"""Multiply by a factor that all terms of a sum share, or divide by it, once::

    o[i, m] = sum(k) e[i, k] / s[i] * v[k, m]    =>    o.sum[i, m] = sum(k) e[i, k] * v[k, m]
                                                       o[i, m] = o.sum[i, m] / s[i]

The results are equal up to rounding. Softmax before a contraction then divides the elements of the
result instead of all scores. So it is with the zeros of rows without a sum, those of attention
that see nothing; what they are multiplied by is taken to be finite there, and nowhere else::

    o[i, m] = sum(k) where(s[i] > 0, e[i, k] / s[i], 0) * v[k, m]
           =>
    o.sum[i, m] = sum(k) e[i, k] * v[k, m]
    o[i, m] = where(s[i] > 0, o.sum[i, m] / s[i], 0)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from ..dims import Dim, symbol, symbols
from .expr import Const, Expr, Index, Op, Read, const, op, read, select, walk
from .prim import PrimFunc, Stage


def hoist_factors(prim: PrimFunc) -> PrimFunc:
    """``prim`` with factors and divisors that no reduced axis moves taken out of sums of floats,
    and with a divisor its test; the same object if there are none."""
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
    if _is_zero_without_sum(expr, reduced):
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


def _is_zero_without_sum(expr: Expr, reduced: set[str]) -> TypeGuard[Op]:
    """True for where(s > 0, x / s, 0) with an ``s`` that does not move along ``reduced``."""
    if not isinstance(expr, Op) or expr.name != "where":
        return False
    test, value, other = expr.args
    return (
        isinstance(test, Op)
        and test.name == "greater"
        and _is_zero(test.args[1])
        and _fixed(test.args[0], reduced)
        and isinstance(value, Op)
        and value.name == "divide"
        and value.args[1] == test.args[0]
        and _is_zero(other)
    )


def _is_zero(expr: Expr) -> bool:
    return isinstance(expr, Const) and expr.value == 0


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
