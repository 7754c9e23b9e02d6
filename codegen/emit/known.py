"""Conditions on indices that are known while the code is written, lane by lane.

The border of an image is such a condition once the loops that reach it are written out: of a row it
is true or false, of a column it is a mask.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.loop.expr import Const, Expr, Op, index_value
from .memory import Env, Memory

__all__ = ["Known"]

_COMPARE: dict[str, Callable[[int], bool]] = {
    "less": lambda difference: difference < 0,
    "less_equal": lambda difference: difference <= 0,
    "greater": lambda difference: difference > 0,
    "greater_equal": lambda difference: difference >= 0,
    "equal": lambda difference: difference == 0,
    "not_equal": lambda difference: difference != 0,
}


class Known:
    """Works conditions out through the values that ``memory`` gives indices."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def mask(self, condition: Expr, env: Env) -> tuple[bool, ...] | None:
        """Whether the condition holds, one entry per lane (one alone outside of a vector loop), or
        None if that is not known."""
        lanes = env.lanes.lanes if env.lanes is not None else 1
        if isinstance(condition, Const):
            return (bool(condition.value),) * lanes
        if not isinstance(condition, Op):
            return None
        if condition.name in ("logical_and", "logical_or"):
            return self._joined(condition, env)
        if condition.name not in _COMPARE:
            return None
        left, right = (index_value(a) for a in condition.args)
        if left is None or right is None:
            return None
        difference = left - right
        stride = self.memory.lane_stride(difference, env)
        if stride is None:
            return None
        value = self.memory.constant(difference, env)
        if value is None:
            return None
        holds = _COMPARE[condition.name]
        return tuple(holds(value + stride * lane) for lane in range(lanes))

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
