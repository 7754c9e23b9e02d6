"""Counts the additions that a term of a sum goes through in a loop nest, whose errors add up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..ir.dims import symbols
from ..ir.loop.block_tiles import greatest
from ..ir.loop.expr import Expr, Read, walk
from ..ir.loop.kinds import LoopKind
from ..ir.loop.nest import Accumulate, Alloc, If, Loop, Nest, Stmt, Store


class _Sum:
    """An accumulator: the additions to one of its elements, and the most that came before them.
    ``around`` are the loops that it lives in."""

    def __init__(self, around: int) -> None:
        self.around, self.added, self.before = around, 0, 0

    @property
    def depth(self) -> int:
        """Additions of a term on its way into this one, and of those that follow in it."""
        return self.added + self.before


def additions(nest: Nest) -> dict[str, int]:
    """Returns the most additions that a term of each sum goes through, by the name of its stage:
    the loops of a nest add into partial sums, these into others, and the lanes of a vector are
    joined in halves."""
    roots: dict[str, int] = {}
    _walk(nest.body, [], {}, roots)
    return roots


def _walk(
    body: Sequence[Stmt], loops: list[Loop], sums: dict[str, _Sum], roots: dict[str, int]
) -> None:
    for stmt in body:
        if isinstance(stmt, Alloc):
            sums[stmt.buffer.name] = _Sum(len(loops))
        elif isinstance(stmt, Loop):
            _walk(stmt.body, [*loops, stmt], _inside(sums), roots)
        elif isinstance(stmt, If):
            _walk(stmt.then, loops, _inside(sums), roots)
            _walk(stmt.orelse, loops, _inside(sums), roots)
        elif isinstance(stmt, Accumulate | Store):
            into = sums.setdefault(stmt.buffer, _Sum(0))
            into.before = max(into.before, _before(stmt.value, stmt.buffer, sums))
            if isinstance(stmt, Accumulate) and stmt.combiner == "sum":
                into.added += _times(stmt, loops[into.around :])
            root = stmt.buffer.partition(".")[0]
            roots[root] = max(roots.get(root, 0), into.depth)


def _inside(sums: Mapping[str, _Sum]) -> dict[str, _Sum]:
    """Returns the sums that a body begins with: those it allocates itself end with it."""
    return {**sums}


def _before(value: Expr, buffer: str, sums: Mapping[str, _Sum]) -> int:
    """Returns the additions of partial sums of the same stage that a value reads."""
    root = buffer.partition(".")[0]
    reads = (n.buffer for n in walk(value) if isinstance(n, Read))
    parts = (n for n in reads if n != buffer and n.partition(".")[0] == root and n in sums)
    return max((sums[name].depth for name in parts), default=0)


def _times(stmt: Accumulate, loops: Sequence[Loop]) -> int:
    """Returns how often loops add to one element."""
    kept: set[str] = set()
    for index in stmt.indices:
        kept |= {*symbols(index)}
    times = 1
    for loop in loops:
        if loop.var in kept:
            continue
        extent = max(1, greatest(loop.extent))
        is_tree = loop.kind == LoopKind.VECTORIZE
        times *= math.ceil(math.log2(extent)) + 1 if is_tree else extent
    return times
