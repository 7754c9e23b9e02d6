"""rsqrt and cbrt."""

from __future__ import annotations

from .emitter import Emitter, Value

__all__ = ["rsqrt"]


def rsqrt(e: Emitter, x: Value) -> Value:
    """1 / sqrt(x), both correctly rounded: 1.5 ulp."""
    return 1.0 / e.sqrt(x)
