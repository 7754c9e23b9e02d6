"""The number of lanes of vectors."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dataclass import dataclass
from ...ir.dims import Dim
from ...ir.loop.expr import Const, Index, Read, walk
from ...ir.loop.kinds import LoopKind
from ...ir.loop.limited_index import byte_of
from ...ir.loop.nest import Accumulate, At, If, Loop, Nest, Stmt, Store, statements
from ...ir.loop.stride import mentions, stride_along
from ..target import Target

SHORTEST = 4
"""Lanes of the last vector of a row at least: shorter ones are no faster."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A target, and the lanes of its vectors of a nest's widest elements."""

    target: Target
    lanes: int

    @staticmethod
    def of(nest: Nest, target: Target) -> Machine:
        """Elements of less than four bytes fill vectors only where all of them are contiguous."""
        inside = [
            (loop.var, inner)
            for loop in statements(nest.body)
            if isinstance(loop, Loop) and loop.kind in (LoopKind.VECTORIZE, LoopKind.REDUCE)
            for inner in statements(loop.body)
        ]
        least = 1 if inside and all(_is_smooth(inner, var) for var, inner in inside) else 4
        widest = max([least, *(_element_bytes(inner) for _, inner in inside)])
        return Machine(target, target.lanes(widest))


def lanes_for(width: int, native: int, least: int = 1) -> int:
    """Lanes of the shortest vector with room for ``width`` elements, or of a ``native`` one; no
    fewer than ``least``.

    Cores that run wide vectors in halves run a short one in half of the time.
    """
    lanes = native
    while lanes // 2 >= max(width, least):
        lanes //= 2
    return lanes


def _element_bytes(stmt: Stmt) -> int:
    """The widest element a statement computes with; plain indices do not count."""
    if not isinstance(stmt, Store | Accumulate):
        return 1
    sizes = [stmt.value.dtype.bytes]
    nodes = list(walk(stmt.value))
    places = {id(i) for n in nodes if isinstance(n, Read) and byte_of(n) for i in n.indices}
    sizes += [
        n.dtype.bytes for n in nodes if not isinstance(n, Index | Const) and id(n) not in places
    ]
    return max(sizes)


def _is_smooth(stmt: Stmt, var: str) -> bool:
    """True if each place of a statement stays, or moves on by one element, where ``var`` does."""
    if not isinstance(stmt, Store | Accumulate):
        return not isinstance(stmt, At | If)
    places: list[Sequence[object]] = [stmt.indices]
    for node in walk(stmt.value):
        if isinstance(node, Index) and mentions(node.value, var):
            return False
        if isinstance(node, Read) and not byte_of(node):
            places.append(node.indices)
    return all(moves_on(indices, var) for indices in places)


def moves_on(indices: Sequence[object], var: str) -> bool:
    """True if a place stays where ``var`` moves on, or moves on by one in its last dimension."""
    if not all(isinstance(i, int | Dim) for i in indices):
        return False
    steps = [stride_along(i, var) for i in indices if isinstance(i, int | Dim)]
    return all(s == 0 for s in steps[:-1]) and (not steps or steps[-1] in (0, 1))
