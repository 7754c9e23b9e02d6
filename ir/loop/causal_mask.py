"""Causal (triangular) masks: constants that are a comparison of their indices, as ``np.tri`` is.

A kernel that knows the comparison does not read the mask, and skips blocks that it masks entirely.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dims import Dim
from ..dtype import BOOL
from .expr import Expr, IndexLike, index, op, read
from .prim import Buffer
from .tensor import Tensor


def causal_offset(mask: np.ndarray[Any, Any]) -> int | None:
    """Returns ``k`` if the array is ``np.tri(rows, columns, k)`` and is not constant, else None.

    >>> causal_offset(np.tri(3, 4, 1, dtype=bool))
    1
    """
    if mask.dtype != np.bool_ or mask.ndim < 2 or mask.size != mask.shape[-2] * mask.shape[-1]:
        return None
    rows = mask.reshape(mask.shape[-2:])
    if not rows.size or rows.all() or not rows.any():
        return None
    counts = rows.sum(axis=1)
    first = int(np.argmax(counts > 0))
    offset = int(counts[first]) - 1 - first
    height, width = rows.shape
    return offset if np.array_equal(rows, np.tri(height, width, offset, dtype=bool)) else None


def causal_mask(buffer: Buffer, offset: int) -> Tensor:
    """The mask ``np.tri(rows, columns, offset)`` that ``buffer`` holds, without reading it."""

    def element(*indices: IndexLike) -> Expr:
        row, column = indices[-2:]
        if not isinstance(row, int | Dim) or not isinstance(column, int | Dim):
            return read(buffer.name, indices, buffer.dtype)
        return op("less_equal", index(column), index(row + offset))

    return Tensor(buffer.shape, BOOL, element)
