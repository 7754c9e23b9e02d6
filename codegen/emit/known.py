"""Conditions on indices that are known while the code is written, lane by lane.

The border of an image is such a condition once the loops that reach it are unrolled: of a row it
is true or false, of a column it is a mask.
"""

from __future__ import annotations

import operator

from ...ir.dims import linear
from ...ir.loop.decide import COMPARISONS
from ...ir.loop.expr import Const, Expr, Op, index_value
from .memory import Env

__all__ = ["Known"]

_COMPARISONS = {**COMPARISONS, "not_equal": operator.ne}

_Linear = tuple[dict[str, int], int]


class Known:
    """Works conditions out by the values that an Env gives the unrolled loops."""

    def __init__(self) -> None:
        self.differences: dict[int, tuple[Op, _Linear | None]] = {}  # by the identity of the Op

    def mask(self, condition: Expr, env: Env) -> tuple[bool, ...] | None:
        """The condition as one bool per lane (one alone outside of a vector loop), or
        None if that is not known."""
        lanes = env.lanes.lanes if env.lanes is not None else 1
        if isinstance(condition, Const):
            return (bool(condition.value),) * lanes
        if not isinstance(condition, Op):
            return None
        if condition.name in ("logical_and", "logical_or"):
            return self._joined(condition, env)
        if condition.name not in _COMPARISONS:
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
        holds = _COMPARISONS[condition.name]
        if stride == 0:
            return (holds(value, 0),) * lanes
        return tuple(holds(value + stride * lane, 0) for lane in range(lanes))

    def _difference(self, condition: Op) -> _Linear | None:
        """What is compared with zero, as coefficients and a constant; None if it is not linear."""
        found = self.differences.get(id(condition))
        if found is None:
            left, right = (index_value(a) for a in condition.args)
            parts = None if left is None or right is None else linear(left - right)
            found = condition, parts
            self.differences[id(condition)] = found
        return found[1]

    def _joined(self, condition: Op, env: Env) -> tuple[bool, ...] | None:
        decisive = condition.name == "logical_or"
        one, other = (self.mask(a, env) for a in condition.args)
        for known in (one, other):
            if known is not None and all(k == decisive for k in known):
                return known
        if one is None or other is None:
            return None
        if decisive:
            return tuple(a or b for a, b in zip(one, other, strict=True))
        return tuple(a and b for a, b in zip(one, other, strict=True))
