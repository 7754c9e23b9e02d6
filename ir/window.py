"""Slices of arrays, one for every axis, and how they lie in memory."""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["Window", "dense_offset"]

Window: TypeAlias = tuple[tuple[int, int, int], ...]
"""A slice of every axis: its begin, its step (at least 1) and its size."""


def dense_offset(shape: tuple[int, ...], window: Window | None) -> int | None:
    """Returns the number of elements before a window that is contiguous in row-major memory, None
    if it is not. Without a window, the whole array is meant.

    >>> dense_offset((4, 5), ((1, 1, 2), (0, 1, 5)))
    5
    >>> dense_offset((4, 5), ((0, 1, 4), (1, 1, 2))) is None
    True
    """
    offset, stride, partial = 0, 1, False
    for size, (begin, step, count) in zip(reversed(shape), reversed(window or ()), strict=False):
        if count > 1 and (partial or step != 1):
            return None
        partial = partial or count != size
        offset += begin * stride
        stride *= size
    return offset
