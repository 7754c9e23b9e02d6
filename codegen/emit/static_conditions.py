"""Conditions on indices whose value in each lane is constant in the emitted code.

The test for the border of an image is one, once the loops that reach it are unrolled: true or false
for a row, a mask for a column.
"""

from __future__ import annotations

import functools

from ...ir.dims import linear
from ...ir.loop.decide import COMPARISONS
from ...ir.loop.expr import Const, Expr, Op, index_value
from .memory import Env

_Linear = tuple[dict[str, int], int]


class StaticConditions:
    """Evaluates conditions with the values that an Env gives the unrolled loops."""

    def __init__(self) -> None:
        self.differences: dict[int, tuple[Op, _Linear | None]] = {}  # by the identity of the Op

    def mask(self, condition: Expr, env: Env) -> tuple[bool, ...] | None:
        """Returns the condition as one bool per lane (a single one outside of a vector loop), or
        None if it is not constant."""
        lanes = env.lanes.lanes if env.lanes is not None else 1
        if isinstance(condition, Const):
            return (bool(condition.value),) * lanes
        if not isinstance(condition, Op):
            return None
        if condition.name in ("logical_and", "logical_or"):
            return self._joined(condition, env)
        if condition.name not in COMPARISONS:
            return None
        parts = self._difference(condition)
        if parts is None:
            return None
        value, stride = parts[1], 0
        for name, coefficient in parts[0].items():
            if env.lanes is not None and name == env.lanes.var:
                value, stride = value + coefficient * env.lanes.offset, coefficient
                continue
            iteration = env.values.get(name)
            if not isinstance(iteration, int):
                return None
            value += coefficient * iteration
        return _compared(condition.name, value, stride, lanes)

    def deciding(self, expr: Op, env: Env) -> Expr | None:
        """The operand that a conjunction or disjunction is equal to, as the other is constant."""
        if expr.name in ("logical_and", "logical_or"):
            for one, other in (expr.args, expr.args[::-1]):
                sure = self.mask(one, env)
                if sure is not None and {*sure} == {expr.name == "logical_and"}:
                    return other
        return None

    def _difference(self, condition: Op) -> _Linear | None:
        """Returns left - right as coefficients and a constant; None if it is not linear."""
        entry = self.differences.get(id(condition))
        if entry is None:
            left, right = (index_value(a) for a in condition.args)
            parts = None if left is None or right is None else linear(left - right)
            entry = condition, parts
            self.differences[id(condition)] = entry
        return entry[1]

    def _joined(self, condition: Op, env: Env) -> tuple[bool, ...] | None:
        left, right = (self.mask(a, env) for a in condition.args)
        return _joined(condition.name == "logical_or", left, right)


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
