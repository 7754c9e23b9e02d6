"""Lanes joined in a tree of halves, those of several rows at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..llvm.writer import FunctionWriter, Value

UNIT = 16
"""Bytes in which x86 interleaves the elements of two vectors by one instruction."""


def join_lanes(
    w: FunctionWriter, rows: Sequence[Value], size: int, combine: Callable[[Value, Value], Value]
) -> Value:
    """Returns what each row's lanes give, of elements of ``size`` bytes, as a value or a vector.

    There are as many rows as a power of two, and no more than lanes. Two vectors of rows become
    one: halves of ``UNIT`` bytes lie behind each other in it, shorter ones are interleaved.
    """
    joined, width = rows[0], rows[0].lanes
    while len(rows) == 1 and joined.lanes > 1:
        joined = combine(*_halves(w, joined))
    if len(rows) == 1:
        return joined
    vectors, order = list(rows), [[n] for n in range(len(rows))]
    while width > 1:
        if len(vectors) == 1:
            vectors, middle = _halves(w, vectors[0]), len(rows) // 2
            order = [order[0][:middle], order[0][middle:]]
        lanes = vectors[0].lanes
        run = lanes if width * size >= 2 * UNIT else min(lanes, UNIT // size)
        low, high = (tuple(_picked(lanes, run, width, first)) for first in (True, False))
        pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
        vectors = [combine(w.shuffle(a, b, low), w.shuffle(a, b, high)) for a, b in pairs]
        held = run // width  # rows
        order = [
            [
                n
                for at in range(0, len(pair[0]), held)
                for each in pair
                for n in each[at : at + held]
            ]
            for pair in zip(order[::2], order[1::2], strict=True)
        ]
        width //= 2
    return w.shuffle(vectors[0], vectors[0], tuple([order[0].index(n) for n in range(len(rows))]))


def _halves(w: FunctionWriter, vector: Value) -> list[Value]:
    half = vector.lanes // 2
    if half == 1:
        return [w.extract(vector, 0), w.extract(vector, 1)]
    return [w.shuffle(vector, vector, tuple(range(at, at + half))) for at in (0, half)]


def _picked(lanes: int, run: int, width: int, first: bool) -> Iterator[int]:
    """The lanes of the first or the last halves of rows in two vectors, run by run."""
    for start in range(0, lanes, run):
        for vector in (0, lanes):
            for lane in range(start, start + run):
                if (lane % width < width // 2) == first:
                    yield vector + lane
