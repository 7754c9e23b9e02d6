"""Converters of operators that give elements another shape or order."""

from __future__ import annotations

import numpy as np

from .table import Value, converter, known


@converter("Reshape", since=5)
def _reshape(x: Value, shape: Value, *, allowzero: int = 0) -> Value:
    sizes = known(shape, "shape").tolist()
    if not allowzero:
        sizes = [x.shape[axis] if size == 0 else size for axis, size in enumerate(sizes)]
    return np.reshape(x, sizes)


@converter("Transpose", since=1)
def _transpose(x: Value, *, perm: tuple[int, ...] | None = None) -> Value:
    return np.transpose(x, perm)


@converter("Shape", since=1)
def _shape(x: Value, *, start: int = 0, end: int | None = None) -> Value:
    return np.array(x.shape, np.int64)[start:end]


@converter("Identity", since=1)
def _identity(x: Value) -> Value:
    return x
