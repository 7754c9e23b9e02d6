"""Transposing a square block of vectors in registers."""

from __future__ import annotations

from collections.abc import Sequence

from .writer import FunctionWriter, Value

__all__ = ["transpose"]


def transpose(w: FunctionWriter, rows: Sequence[Value]) -> list[Value]:
    """The columns of ``n`` vectors of ``n`` lanes, ``n`` a power of two, in ``n log n`` shuffles.

    Halves are exchanged across the diagonal at every distance from ``n / 2`` down to 1, as in
    J. O. Eklundh, "A fast computer method for matrix transposing", IEEE Trans. Comput. C-21, 1972.
    """
    block = list(rows)
    count = len(block)
    distance = count // 2
    while distance:
        # Lane k of a pair (a, b): the first half of each run of 2 * distance lanes, or the second.
        first = [k % (2 * distance) < distance for k in range(count)]
        low = tuple(k if first[k] else count + k - distance for k in range(count))
        high = tuple(k + distance if first[k] else count + k for k in range(count))
        for i in range(count):
            if i % (2 * distance) < distance:
                a, b = block[i], block[i + distance]
                block[i], block[i + distance] = w.shuffle(a, b, low), w.shuffle(a, b, high)
        distance //= 2
    return block
