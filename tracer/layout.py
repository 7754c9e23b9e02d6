"""Where an array's elements lie in memory: the strides NumPy would give it.

Strides count elements. ``None`` stands for strides that are not known. They decide one thing: a
reshape is a view where the strides allow it, and a copy elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ..ir.dims import IntExpr

__all__ = ["Strides", "dense", "dense_strides", "elementwise_strides", "is_reshape_a_view"]

Strides: TypeAlias = tuple[int, ...] | None


def dense_strides(shape: Sequence[IntExpr]) -> Strides:
    """The strides of an array in C order; None where a size is symbolic.

    >>> dense_strides((2, 3, 4))
    (12, 4, 1)
    """
    if not all(isinstance(size, int) for size in shape):
        return None
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        assert isinstance(size, int)
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def dense(shape: Sequence[IntExpr], strides: Strides) -> bool:
    """Whether an array of ``shape`` with ``strides`` is in C order without gaps."""
    wanted = dense_strides(shape)
    if strides is None or wanted is None:
        return False
    pairs = zip(shape, strides, wanted, strict=True)
    return 0 in shape or all(size == 1 or s == w for size, s, w in pairs)


def reshaped_strides(shape: Sequence[int], strides: Sequence[int], to: Sequence[int]) -> Strides:
    """The strides of a reshape that is a view; None if it has to be a copy.

    >>> reshaped_strides((4, 6), (6, 1), (24,))
    (1,)
    >>> reshaped_strides((4, 6), (1, 4), (24,)) is None
    True
    """
    if math.prod(shape) == 0:
        return dense_strides(to)
    old = [(size, s) for size, s in zip(shape, strides, strict=True) if size != 1]
    found = [1] * len(to)
    o = n = 0
    while o < len(old) and n < len(to):
        first_o, first_n = o, n
        taken, made = old[o][0], to[n]
        o, n = o + 1, n + 1
        while taken != made:
            if made < taken:
                made, n = made * to[n], n + 1
            else:
                taken, o = taken * old[o][0], o + 1
        for k in range(first_o, o - 1):
            if old[k][1] != old[k + 1][0] * old[k + 1][1]:
                return None
        step = old[o - 1][1]
        for k in reversed(range(first_n, n)):
            found[k] = step
            step *= to[k]
    return tuple(found)


def is_reshape_a_view(
    shape: Sequence[IntExpr], strides: Strides, to: Sequence[IntExpr]
) -> tuple[bool | None, Strides]:
    """Whether NumPy's reshape is a view, None where that is not known; and the strides of it."""
    if strides is None:
        ones = [s for s in shape if s != 1] == [s for s in to if s != 1]
        return (True if ones else None), None
    if not all(isinstance(size, int) for size in to):
        return None, None
    sizes, wanted = [int(str(s)) for s in shape], [int(str(s)) for s in to]
    found = reshaped_strides(sizes, strides, wanted)
    return (True, found) if found is not None else (False, dense_strides(to))


def elementwise_strides(
    shape: Sequence[IntExpr], operands: Sequence[tuple[Sequence[IntExpr], Strides]]
) -> Strides:
    """The strides NumPy gives the result of an elementwise function of such operands: those of
    ``order="K"``. NumPy itself says so, for small arrays whose strides have the same order."""
    if dense_strides(shape) is None:
        return None
    small: list[Any] = []
    for sizes, strides in operands:
        if strides is None:
            return None
        ranks = {s: i + 1 for i, s in enumerate(sorted({abs(s) for s in strides if s}))}
        signed = [8 * ranks[abs(s)] * (1 if s > 0 else -1) if s else 0 for s in strides]
        little = [min(int(str(size)), 2) for size in sizes]
        memory = np.zeros(64, np.int64)
        start = memory[32:] if any(s < 0 for s in signed) else memory
        small.append(np.lib.stride_tricks.as_strided(start, little, signed))
    flags: Any = ["zerosize_ok"]
    allocated: Any = [["readonly"]] * len(small) + [["writeonly", "allocate"]]
    with np.nditer([*small, None], flags, allocated, order="K") as walk:
        given = walk.operands[-1].strides
    order = sorted(range(len(shape)), key=lambda axis: (-abs(given[axis]), axis))
    found = [0] * len(shape)
    step = 1
    for axis in reversed(order):
        found[axis] = step
        step *= max(int(str(shape[axis])), 1)
    return tuple(found)
