"""Indices that data decides, as kernels limit them to their axis."""

from __future__ import annotations

from typing import NamedTuple

from ..dtype import INT8, UINT8
from .expr import Const, Expr, Op, Read, const, op

BYTE_VALUES = 256
"""Elements of a table that a byte is looked up in."""


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
    ends = from_end(counted)
    if ends is None:
        is_choice = isinstance(counted, Op) and counted.name == "where"
        return None if is_choice else Limited(counted, int(last.value) + 1, 0)
    return Limited(ends[0], int(last.value) + 1, ends[1])


def from_end(index: Expr) -> tuple[Expr, int] | None:
    """Returns ``x`` and ``n`` if an index is ``where(x < 0, x + n, x)``."""
    if not (isinstance(index, Op) and index.name == "where"):
        return None
    below, counted, free = index.args
    if below is not op("less", free, const(0, free.dtype)):
        return None
    if not (isinstance(counted, Op) and counted.name == "add" and free in counted.args):
        return None
    others = [a for a in counted.args if a is not free]
    return (free, int(others[0].value)) if others and isinstance(others[0], Const) else None


def byte_of(node: Read) -> Expr | None:
    """Returns the uint8 at whose place a byte is read; None for any other read."""
    (index, *others) = node.indices or (0,)
    if others or node.dtype not in (INT8, UINT8) or not isinstance(index, Op):
        return None
    is_byte = index.name == "cast" and index.args[0].dtype == UINT8
    return index.args[0] if is_byte else None
