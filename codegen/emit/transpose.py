"""Transposing blocks of vectors in registers."""

from __future__ import annotations

from collections.abc import Sequence

from .writer import FunctionWriter, Value

__all__ = ["transpose"]


def transpose(w: FunctionWriter, rows: Sequence[Value]) -> list[Value]:
    """The columns of vectors of equally many lanes, in ``n log n`` shuffles.

    As many columns as there are lanes, each of ``n`` lanes, where ``n`` is the number of rows
    filled up to a power of two (with rows of no meaning); there may be no more rows than lanes.

    Halves are exchanged across the diagonal at every distance from ``n / 2`` down to 1, as in
    J. O. Eklundh, "A fast computer method for matrix transposing", IEEE Trans. Comput. C-21, 1972.
    Fewer rows than lanes are square blocks side by side, taken apart at the end.
    """
    lanes = rows[0].lanes
    count = 1 << (len(rows) - 1).bit_length()
    block = [*rows, *[Value("poison", rows[0].type, lanes)] * (count - len(rows))]
    distance = count // 2
    while distance:
        # Lane k of a pair (a, b): the first half of each run of 2 * distance lanes, or the second.
        first = [k % (2 * distance) < distance for k in range(lanes)]
        low = tuple(k if first[k] else lanes + k - distance for k in range(lanes))
        high = tuple(k + distance if first[k] else lanes + k for k in range(lanes))
        for i in range(count):
            if i % (2 * distance) < distance:
                a, b = block[i], block[i + distance]
                block[i], block[i + distance] = w.shuffle(a, b, low), w.shuffle(a, b, high)
        distance //= 2
    if count == lanes:
        return block
    return [
        w.shuffle(block[c % count], block[c % count], _run(c // count * count, count))
        if count > 1
        else w.extract(block[0], c)
        for c in range(lanes)
    ]


def _run(start: int, count: int) -> tuple[int, ...]:
    return tuple(range(start, start + count))
