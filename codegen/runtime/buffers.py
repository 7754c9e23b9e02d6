"""Memory for arrays that native code writes: results and arenas."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["ALIGNMENT", "ArraySpec", "aligned_bytes", "empty"]

ALIGNMENT = 64
"""Bytes: one cache line, and the widest vector."""


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """The shape and dtype of a dense row-major array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def aligned_bytes(nbytes: int) -> np.ndarray[Any, Any]:
    """``nbytes`` fresh bytes (uint8) that start on a multiple of ``ALIGNMENT``."""
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes]


def empty(spec: ArraySpec) -> np.ndarray[Any, Any]:
    """A new array whose elements have no defined value yet.

    >>> empty(ArraySpec((2, 3), np.dtype("float32"))).shape
    (2, 3)
    """
    return np.empty(spec.shape, spec.dtype)
