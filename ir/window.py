"""Slices of arrays, one for every axis, and how they lie in memory."""

from __future__ import annotations

from typing import TypeAlias

from .dim_proofs import prove
from .dims import IntExpr

Window: TypeAlias = tuple[tuple[IntExpr, int, IntExpr], ...]
"""A slice of every axis: its begin, its step (at least 1) and its size."""


def dense_offset(shape: tuple[IntExpr, ...], window: Window | None) -> IntExpr | None:
    """Returns the number of elements before a window that is contiguous in row-major memory, None
    if it is not known to be. Without a window, the whole array is meant.

    >>> dense_offset((4, 5), ((1, 1, 2), (0, 1, 5)))
    5
    >>> dense_offset((4, 5), ((0, 1, 4), (1, 1, 2))) is None
    True
    """
    offset: IntExpr = 0
    stride: IntExpr = 1
    partial = False
    for size, (begin, step, count) in zip(reversed(shape), reversed(window or ()), strict=False):
        if (partial or step != 1) and prove(count, "<=", 1) is not True:
            return None
        partial = partial or count != size
        offset = offset + begin * stride
        stride = stride * size
    return offset
