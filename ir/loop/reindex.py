"""Index expressions that read a reshaped tensor from its source.

A reshape keeps the row-major order of the elements. Axes are matched group by group, each group
the shortest run of old and new axes with the same product, so that an axis that is only kept,
split or merged costs nothing on the others::

    (a * b, c) -> (a, b, c)     x[b * i + j, k]
    (a, b, c) -> (a * b, c)     x[i // b, i % b, k]
    (4, 6) -> (2, 12)           x[2 * i + j // 6, j % 6]
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dims import IntExpr, product
from .expr import IndexLike
from .tensor import index_add, index_div, index_mod, index_mul


def linearise(indices: Sequence[IndexLike], shape: Sequence[IntExpr]) -> IndexLike:
    """The position of an element in row-major order.

    >>> from loopwright.ir.dims import symbol
    >>> str(linearise([symbol("i"), symbol("j")], [3, 5]))
    '5 * i + j'
    """
    flat: IndexLike = 0
    for i, size in zip(indices, shape, strict=True):
        flat = index_add(index_mul(flat, size), i)
    return flat


def delinearise(flat: IndexLike, shape: Sequence[IntExpr]) -> list[IndexLike]:
    """The indices of the element at a row-major position; ``flat`` lies inside ``shape``.

    >>> from loopwright.ir.dims import symbol
    >>> [str(i) for i in delinearise(symbol("p"), [3, 5])]
    ['(p // 5)', '(p % 5)']
    """
    indices: list[IndexLike] = []
    for axis, size in enumerate(shape):
        inner = product(shape[axis + 1 :])
        i = index_div(flat, inner)
        indices.append(i if axis == 0 else index_mod(i, size))
    return indices


def reshape_groups(
    old: Sequence[IntExpr], new: Sequence[IntExpr]
) -> list[tuple[list[int], list[int]]]:
    """Pairs (old axes, new axes) of the same product, in order; axes of size 1 are left out.

    >>> reshape_groups((6, 4), (3, 2, 4))
    [([0], [0, 1]), ([1], [2])]
    """
    old_axes = [axis for axis, size in enumerate(old) if size != 1]
    new_axes = [axis for axis, size in enumerate(new) if size != 1]
    groups: list[tuple[list[int], list[int]]] = []
    start_old = start_new = 0
    while start_old < len(old_axes) or start_new < len(new_axes):
        end_old, end_new = _shortest_match(
            [old[a] for a in old_axes[start_old:]], [new[a] for a in new_axes[start_new:]]
        )
        groups.append(
            (old_axes[start_old : start_old + end_old], new_axes[start_new : start_new + end_new])
        )
        start_old, start_new = start_old + end_old, start_new + end_new
    return groups


def _shortest_match(old: Sequence[IntExpr], new: Sequence[IntExpr]) -> tuple[int, int]:
    products: dict[IntExpr, int] = {}
    total: IntExpr = 1
    for count, size in enumerate(new, 1):
        total = total * size
        products.setdefault(total, count)
    total = 1
    for count, size in enumerate(old, 1):
        total = total * size
        if total in products:
            return count, products[total]
    return len(old), len(new)


def reshape_index(
    indices: Sequence[IndexLike], new: Sequence[IntExpr], old: Sequence[IntExpr]
) -> list[IndexLike]:
    """The indices into a tensor of shape ``old`` of element ``indices`` of its reshape to ``new``.

    >>> from loopwright.ir.dims import symbol
    >>> i, j, k = symbol("i"), symbol("j"), symbol("k")
    >>> [str(e) for e in reshape_index([i, j, k], (3, 2, 4), (6, 4))]
    ['2 * i + j', 'k']
    """
    source: list[IndexLike] = [0] * len(old)
    if any(size == 0 for size in old):
        return source
    for old_axes, new_axes in reshape_groups(old, new):
        flat = linearise([indices[a] for a in new_axes], [new[a] for a in new_axes])
        for axis, i in zip(old_axes, delinearise(flat, [old[a] for a in old_axes]), strict=True):
            source[axis] = i
    return source
