"""A sum of products over an index grid as one matrix product.

``sum over k... of a[i...] * b[i...]`` where neither factor needs the whole grid: the axes that both
factors and the result have are a batch, those of the sum that both have are contracted, the others
are rows and columns. NumPy's BLAS does that thousands of times faster than the grid's elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..dtype import Array


def sum_of_products(left: Array, right: Array, extents: Sequence[int], rank: int) -> Array:
    """The sum of ``left * right`` over the axes from ``rank`` on, in the factors' dtype.

    The factors have one axis per entry of ``extents``, of that size or of size 1 where they do not
    depend on it. The result has the shape ``extents[:rank]``.

    >>> x, w = np.ones((2, 1, 5)), np.ones((1, 3, 5))
    >>> sum_of_products(x, w, (2, 3, 5), 2)
    array([[5., 5., 5.],
           [5., 5., 5.]])
    """
    summed = range(rank, len(extents))
    a = _sum_alone(left, [d for d in summed if right.shape[d] == 1])
    b = _sum_alone(right, [d for d in summed if left.shape[d] == 1])
    in_neither = [extents[d] for d in summed if left.shape[d] == right.shape[d] == 1]
    has_a = [d for d in range(len(extents)) if a.shape[d] != 1]
    has_b = [d for d in range(len(extents)) if b.shape[d] != 1]
    batch = [d for d in has_a if d in has_b and d < rank]
    inner = [d for d in has_a if d in has_b and d >= rank]
    rows = [d for d in has_a if d not in has_b]
    columns = [d for d in has_b if d not in has_a]
    matrix_a = _grouped(a, (batch, rows, inner), extents)
    matrix_b = _grouped(b, (batch, inner, columns), extents)
    product = np.matmul(matrix_a, matrix_b) * matrix_a.dtype.type(prod(in_neither))
    order = [*batch, *rows, *columns]
    spread = product.reshape([extents[d] for d in order]).transpose(np.argsort(order))
    shape = [extents[d] if d in order else 1 for d in range(rank)]
    return np.broadcast_to(spread.reshape(shape), tuple(extents[:rank]))


def _sum_alone(factor: Array, axes: list[int]) -> Array:
    """The factor summed over axes that the other one does not have."""
    return factor.sum(axis=tuple(axes), keepdims=True, dtype=factor.dtype) if axes else factor


def _grouped(factor: Array, groups: Sequence[list[int]], extents: Sequence[int]) -> Array:
    """The factor as a stack of matrices, each of whose axes is a group of its own axes."""
    order = [d for group in groups for d in group]
    rest = [d for d in range(factor.ndim) if d not in order]
    sizes = [prod(extents[d] for d in group) for group in groups]
    return np.ascontiguousarray(factor.transpose([*order, *rest])).reshape(sizes)
