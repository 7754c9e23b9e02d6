"""Indices that data decides, as kernels limit them to their axis."""

from __future__ import annotations

from typing import NamedTuple

from .expr import Const, Expr, Op, const, op


class Limited(NamedTuple):
    """An index that is limited to ``size``; ``more`` is added to a negative one before."""

    free: Expr
    size: int
    more: int


def limited(index: Expr) -> Limited | None:
    """Returns ``x`` and ``n`` if an index is ``minimum(maximum(y, 0), n - 1)``, where ``y`` is
    ``x``, or counts a negative ``x`` from the end."""
    if not (isinstance(index, Op) and index.name == "minimum"):
        return None
    low, last = index.args
    if not (isinstance(low, Op) and low.name == "maximum" and isinstance(last, Const)):
        return None
    counted, zero = low.args
    if not (isinstance(zero, Const) and zero.value == 0):
        return None
    free, size = from_end(counted), int(last.value) + 1
    return Limited(counted, size, 0) if free is None else Limited(free, size, size)


def from_end(index: Expr) -> Expr | None:
    """Returns ``x`` if an index is ``where(x < 0, x + n, x)``."""
    if not (isinstance(index, Op) and index.name == "where"):
        return None
    below, _, free = index.args
    return free if below is op("less", free, const(0, free.dtype)) else None
