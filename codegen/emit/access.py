"""How statements reach their buffers: what is asked before a vector loop or a tile is written."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dims import Dim, symbols
from ...ir.loop.expr import Const, Index, Read, walk
from ...ir.loop.nest import Accumulate, If, Loop, Stmt, Store, statements
from ...ir.loop.prim import Buffer
from ...ir.loop.stride import stride_along

__all__ = ["element_bytes", "fits_registers", "is_smooth", "mentions"]


def element_bytes(stmt: Stmt) -> int:
    """The widest element a statement computes with; plain indices do not count."""
    if not isinstance(stmt, Store | Accumulate):
        return 1
    sizes = [stmt.value.dtype.bytes]
    sizes += [n.dtype.bytes for n in walk(stmt.value) if not isinstance(n, Index | Const)]
    return max(sizes)


def is_smooth(stmt: Stmt, var: str) -> bool:
    """Whether each place of a statement stays, or moves on by one element, where ``var`` does."""
    if not isinstance(stmt, Store | Accumulate):
        return not isinstance(stmt, If)
    places: list[Sequence[object]] = [stmt.indices]
    for node in walk(stmt.value):
        if isinstance(node, Index) and mentions(node.value, var):
            return False
        if isinstance(node, Read):
            places.append(node.indices)
    return all(_moves_on(indices, var) for indices in places)


def _moves_on(indices: Sequence[object], var: str) -> bool:
    if not all(isinstance(i, int | Dim) for i in indices):
        return False
    steps = [stride_along(i, var) for i in indices if isinstance(i, int | Dim)]
    return all(s == 0 for s in steps[:-1]) and (not steps or steps[-1] in (0, 1))


def mentions(expr: object, var: str) -> bool:
    """Whether a loop variable stands in an index."""
    return isinstance(expr, Dim) and var in symbols(expr)


def fits_registers(buffer: Buffer, rest: Sequence[Stmt], lane_axis: int) -> bool:
    """Whether every access to the buffer is at a place known when the code is written, and every
    vector lies along ``lane_axis``."""
    unrolled: dict[str, str] = {}
    for stmt in statements(tuple(rest)):
        if isinstance(stmt, Loop):
            unrolled[stmt.var] = stmt.kind

    def known(indices: Sequence[object]) -> bool:
        for dim, i in enumerate(indices):
            if not isinstance(i, int | Dim):
                return False
            for name in symbols(i):
                kind = unrolled.get(name)
                if kind == "vectorize" and (dim != lane_axis or stride_along(i, name) != 1):
                    return False
                if kind not in ("unroll", "vectorize"):
                    return False
        return True

    for stmt in statements(tuple(rest)):
        if isinstance(stmt, If) and any(
            isinstance(s, Store | Accumulate) and s.buffer == buffer.name
            for s in (*statements(stmt.then), *statements(stmt.orelse))
        ):
            return False
        if not isinstance(stmt, Store | Accumulate):
            continue
        if stmt.buffer == buffer.name and not known(stmt.indices):
            return False
        for node in walk(stmt.value):
            if isinstance(node, Read) and node.buffer == buffer.name and not known(node.indices):
                return False
    return True
