"""Conditions on indices whose value in each lane is constant in the emitted code.

The test for the border of an image is one, once the loops that reach it are unrolled: true or false
for a row, a mask for a column.
"""

from __future__ import annotations

import functools

from ...ir.dims import IntExpr, linear
from ...ir.loop.decide import COMPARISONS
from ...ir.loop.expr import Const, Expr, Op, index_value
from .memory import Env, Memory


class StaticConditions:
    """Evaluates conditions with the values that an Env gives the unrolled loops."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.differences: dict[int, tuple[Op, IntExpr | None]] = {}  # by the identity of the Op

    def mask(self, condition: Expr, env: Env) -> tuple[bool, ...] | None:
        """Returns the condition as one bool per lane (a single one outside of a vector loop), or
        None if it is not constant."""
        if id(condition) not in env.masks:
            env.masks[id(condition)] = condition, self._mask(condition, env)
        return env.masks[id(condition)][1]

    def _mask(self, condition: Expr, env: Env) -> tuple[bool, ...] | None:
        lanes = env.lanes
        count = lanes.lanes if lanes is not None else 1
        if isinstance(condition, Const):
            return (bool(condition.value),) * count
        if not isinstance(condition, Op):
            return None
        if condition.name in ("logical_and", "logical_or"):
            left, right = (self.mask(a, env) for a in condition.args)
            return _joined(condition.name == "logical_or", left, right)
        difference = self.difference(condition)
        if difference is None:
            return None
        form = self.memory.form(difference)
        parts, value = self.memory.parts(form, env)
        if parts.terms:
            return None
        stride = 0 if lanes is None else form.stride(lanes.var)
        assert stride is not None
        return _compared(condition.name, value, stride, count)

    def difference(self, condition: Op) -> IntExpr | None:
        """Returns left - right of a comparison of linear indices; None for other operators."""
        entry = self.differences.get(id(condition))
        if entry is None:
            difference = None
            if condition.name in COMPARISONS:
                left, right = (index_value(a) for a in condition.args)
                if left is not None and right is not None and linear(left - right) is not None:
                    difference = left - right
            entry = self.differences[id(condition)] = condition, difference
        return entry[1]

    def deciding(self, expr: Op, env: Env) -> Expr | None:
        """The operand that a conjunction or disjunction is equal to, as the other is constant."""
        if expr.name in ("logical_and", "logical_or"):
            for one, other in (expr.args, expr.args[::-1]):
                sure = self.mask(one, env)
                if sure is not None and {*sure} == {expr.name == "logical_and"}:
                    return other
        return None


# An unrolled loop asks for few different masks, again and again.
@functools.lru_cache(maxsize=4096)
def _compared(name: str, value: int, stride: int, lanes: int) -> tuple[bool, ...]:
    """Returns ``value + stride * lane`` compared with zero, for each lane."""
    holds = COMPARISONS[name]
    return tuple(holds(value + stride * lane, 0) for lane in range(lanes))


@functools.lru_cache(maxsize=4096)
def _joined(
    decisive: bool, left: tuple[bool, ...] | None, right: tuple[bool, ...] | None
) -> tuple[bool, ...] | None:
    """Returns the masks' disjunction if true is ``decisive``, else their conjunction."""
    for mask in (left, right):
        if mask is not None and all(k == decisive for k in mask):
            return mask
    if left is None or right is None:
        return None
    if decisive:
        return tuple(a or b for a, b in zip(left, right, strict=True))
    return tuple(a and b for a, b in zip(left, right, strict=True))
