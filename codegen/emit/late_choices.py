"""Choices of scalars that wait long for themselves: they are jumps.

::

    low = where(((middle * middle) * middle) < x, middle, low)        middle = 0.5 * (low + high)

A ``where`` is an instruction that waits for its condition. If that is computed from what the
``where`` gave in the iteration before, each iteration takes as long as all of it. Behind a jump the
processor goes on with the value that it expects; that is wrong at most half the time.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.loop.expr import Expr, Op, Read, children, walk
from ...ir.loop.scalar import SCALAR_OPS
from ..llvm.writer import Value
from .scalars import ScalarEmitter

FLOAT_LATENCY = 4
"""Cycles of an instruction on floats; those on integers take one."""

MISPREDICTED = 16
"""Cycles that a jump costs which is mispredicted; half of them are, if nothing can be expected."""


def late_choice(scalars: ScalarEmitter, expr: Op, value: Callable[[Expr], Value]) -> Value | None:
    """Writes a ``where`` of scalars that keeps what its condition is computed from, if that takes
    longer than a jump; None for others."""
    if expr.name != "where" or not any(map(_is_scalar, expr.args[1:])):
        return None
    cycles = max(_latency(expr.args[0], arm) for arm in expr.args[1:] if _is_scalar(arm))
    if cycles < MISPREDICTED:
        return None
    test, then, orelse = map(value, expr.args)
    if max(test.lanes, then.lanes, orelse.lanes) > 1 or not test.name.startswith("%"):
        return None
    return scalars.w.select(test, then, orelse, unlikely=True)


def _is_scalar(expr: Expr) -> bool:
    return isinstance(expr, Read) and not expr.indices


def _latency(expr: Expr, source: Expr) -> float:
    """The cycles from a scalar to what is computed from it; 0 if it is not."""
    cycles: dict[int, float] = {}
    for node in walk(expr):
        before = [c for child in children(node) if (c := cycles.get(id(child))) is not None]
        if node is source or (before and not isinstance(node, Op)):
            cycles[id(node)] = max(before, default=0)
        elif before and isinstance(node, Op):
            is_float = any(arg.dtype.is_float for arg in node.args)
            cost = SCALAR_OPS[node.name].cost * (FLOAT_LATENCY if is_float else 1)
            cycles[id(node)] = max(before) + cost
    return cycles.get(id(expr), 0)
