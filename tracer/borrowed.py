"""Captured arrays that a trace reads in place instead of copying them.

A copy of every weight would double the memory of a compile. What is read in place must not change
until the code is made: a fingerprint, taken when the array is captured, is compared at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..ir.errors import LoopwrightValueError

__all__ = ["Borrowed", "fingerprint"]

Array = np.ndarray[Any, Any]

LEAST_BYTES = 1 << 18
"""Smaller arrays are copied: that takes no longer than reading them twice."""

_ROW = 1024  # words of 8 bytes that are summed up
_ROWS = 128  # rows at once, which fit the L2 cache


@dataclass(slots=True)
class Borrowed:
    """Arrays by the name the user has for them, each with its fingerprint."""

    arrays: list[tuple[str, Array, int]] = field(default_factory=list[tuple[str, Array, int]])

    def borrow(self, array: Array, name: str) -> Array | None:
        """A read-only view of ``array``, or None if it has to be copied."""
        dense = array.flags.c_contiguous or array.flags.f_contiguous
        if array.nbytes < LEAST_BYTES or not dense or not array.dtype.isnative:
            return None
        view = array.view(np.ndarray)
        view.flags.writeable = False
        self.arrays.append((name, view, fingerprint(view)))
        return view

    def check(self, function: str) -> None:
        """Raises LoopwrightValueError if an array was written since it was captured."""
        for name, view, before in self.arrays:
            if fingerprint(view) != before:
                raise LoopwrightValueError(
                    f"{name or 'a captured array'} was written while {function} was compiled",
                    hint="write to it before the first call, or pass it as an argument",
                )


def fingerprint(array: Array) -> int:
    """A hash of the bytes of a dense array, taken at the speed of memory.

    It sums the array, seen as a matrix of 64-bit words, along rows and along columns: changes that
    leave both sums as they were do not happen by accident.
    """
    flat = (array if array.flags.c_contiguous else array.T).reshape(-1).view(np.uint8)
    whole = flat.size // (8 * _ROW)
    words = flat[: whole * 8 * _ROW].view(np.uint64).reshape(whole, _ROW)
    columns = np.zeros(_ROW, np.uint64)
    parts: list[bytes] = []
    for start in range(0, whole, _ROWS):
        block = words[start : start + _ROWS]
        columns += block.sum(axis=0, dtype=np.uint64)
        parts.append(block.sum(axis=1, dtype=np.uint64).tobytes())
    return hash((b"".join(parts), columns.tobytes(), flat[whole * 8 * _ROW :].tobytes()))
