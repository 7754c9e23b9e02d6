"""Sets of bytes of a region, as ranges whose ends may depend on sizes, and proofs about them."""

from __future__ import annotations

from typing import TypeAlias

from .. import dims
from ..dim_proofs import prove

Ranges: TypeAlias = "tuple[tuple[dims.IntExpr, dims.IntExpr], ...]"
"""Half-open ranges of bytes, disjoint and in order as far as sizes tell."""

Written: TypeAlias = "dict[str, Ranges]"
"""The bytes that are written on every path, by root."""


def holds(left: dims.IntExpr, relation: str, right: dims.IntExpr) -> bool:
    """True if a relation is proved for all sizes."""
    return prove(left, relation, right) is True


SAMPLES = (0, 1, 2, 3, 7, 31, 64, 65, 100, 1000, 4097, 1 << 40)
"""Values of sizes, as far as their ranges permit, at which a plan is checked."""


def at_most(left: dims.IntExpr, right: dims.IntExpr) -> bool:
    """True if ``left <= right`` is proved, or holds at all samples where no proof is found.

    The planner compares sizes before it rounds them, which makes proofs afterwards harder."""
    proved = prove(left, "<=", right)
    if proved is not None:
        return proved
    sizes = dims.size_symbols(left, right).values()
    rows = [[max(s.low or 0, min(v, s.high or v)) for v in SAMPLES] for s in sizes]
    rotated = [row[n:] + row[:n] for n, row in enumerate(rows)]
    names = [s.name for s in sizes]
    every = [*zip(*rows, strict=True), *zip(*rotated, strict=True)]
    difference = right - left
    return all(dims.evaluate(difference, dict(zip(names, values))) >= 0 for values in every)


def added(ranges: Ranges, begin: dims.IntExpr, end: dims.IntExpr) -> Ranges:
    """Returns ``ranges`` with the bytes from ``begin`` to ``end``."""
    apart = [r for r in ranges if not (holds(r[0], "<=", end) and holds(begin, "<=", r[1]))]
    joined = [r for r in ranges if r not in apart]
    for low, high in joined:
        begin, end = dims.int_min(begin, low), dims.int_max(end, high)
    return tuple(sorted([*apart, (begin, end)], key=lambda r: (dims.typical(r[0]), str(r))))


def cover(ranges: Ranges, begin: dims.IntExpr, end: dims.IntExpr) -> bool:
    """True if one of ``ranges`` is proved to hold the bytes from ``begin`` to ``end``."""
    return begin == end or any(holds(b, "<=", begin) and holds(end, "<=", e) for b, e in ranges)


def intersected(one: Written, other: Written) -> Written:
    """Returns the bytes that are written on both of two paths."""
    return {
        root: tuple(
            (dims.int_max(a, c), dims.int_min(b, d))
            for a, b in one[root]
            for c, d in other[root]
            if not holds(dims.int_min(b, d), "<=", dims.int_max(a, c))
        )
        for root in one
        if root in other
    }
