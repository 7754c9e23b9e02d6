"""Access patterns of statements, which decide how a vector loop or a tile is emitted."""

from __future__ import annotations

from collections.abc import Container, Sequence
from math import copysign

from ...ir.dims import Dim, IntExpr, symbols
from ...ir.dtype import INT64
from ...ir.loop.expr import Const, Expr, Index, IndexLike, Op, Read, op, walk
from ...ir.loop.kinds import LoopKind
from ...ir.loop.nest import Accumulate, At, If, Loop, Sort, Stmt, Store, statements
from ...ir.loop.prim import Buffer
from ...ir.loop.scalar import SCALAR_OPS
from ...ir.loop.stride import stride_along

LONG_ITERATION = 8
"""Instructions of an iteration from which on its loop need not be unrolled."""


def element_bytes(stmt: Stmt) -> int:
    """The widest element a statement computes with; plain indices do not count."""
    if not isinstance(stmt, Store | Accumulate):
        return 1
    sizes = [stmt.value.dtype.bytes]
    sizes += [n.dtype.bytes for n in walk(stmt.value) if not isinstance(n, Index | Const)]
    return max(sizes)


def is_smooth(stmt: Stmt, var: str) -> bool:
    """True if each place of a statement stays, or moves on by one element, where ``var`` does."""
    if not isinstance(stmt, Store | Accumulate):
        return not isinstance(stmt, At | If)
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


def is_long(loop: Loop, registers: Container[str], lanes: int) -> bool:
    """True if the iterations of an unrolled loop, which only store, are long and share nothing: one
    body in a loop is as fast as a copy for each, and a fraction of the code.

    ``registers`` are buffers whose elements need constant indices; vectors have ``lanes``.
    """
    cost = 0.0
    todo: list[tuple[Stmt, int, str]] = [(stmt, 1, "") for stmt in loop.body]
    for stmt, times, lane in todo:
        if isinstance(stmt, Store) and stmt.buffer not in registers:
            nodes = list(walk(stmt.value))
            cost += times * sum(SCALAR_OPS[n.name].cost for n in nodes if isinstance(n, Op))
            if not all(_is_alike(node, loop.var, lane, registers) for node in nodes):
                return False
        elif isinstance(stmt, Loop) and stmt.kind == LoopKind.VECTORIZE:
            vectors = -(-stmt.trips // lanes) if isinstance(stmt.extent, int) else 1
            todo += [(inner, times * vectors, stmt.var) for inner in stmt.body]
        elif isinstance(stmt, Loop) and stmt.kind == LoopKind.UNROLL:
            todo += [(inner, times * stmt.trips, lane) for inner in stmt.body]
        else:
            return False
    return cost >= LONG_ITERATION


def _is_alike(node: Expr, var: str, lane: str, registers: Container[str]) -> bool:
    """True if the iterations of ``var`` have the same code for a node, and none in common."""
    if isinstance(node, Index):
        return not mentions(node.value, var)
    if not isinstance(node, Read):
        return True
    if node.buffer in registers:
        return not any(mentions(i, var) for i in node.indices)
    return not lane or _moves_on(node.indices, lane)


def is_zero(expr: Expr) -> bool:
    """True for the constant whose bits are zero."""
    return isinstance(expr, Const) and expr.value == 0 and copysign(1, expr.value) > 0


def mentions(expr: object, var: str) -> bool:
    """True if a loop variable stands in an index."""
    return isinstance(expr, Dim) and var in symbols(expr)


def is_below(value: Expr, extent: int) -> bool:
    """True if an expression is one of 0 to ``extent - 1`` by its last operators.

    >>> from loopwright.ir.dtype import INT64
    >>> from loopwright.ir.loop.expr import const, op, read
    >>> is_below(op("bitwise_and", read("x", (0,), INT64), const(255, INT64)), 256)
    True
    """
    if isinstance(value, Const):
        return 0 <= value.value < extent
    if isinstance(value, Op) and value.name == "cast" and value.args[0].dtype.is_integer:
        inner = value.args[0].dtype
        if inner.bits >= value.dtype.bits:
            return False
        wide = inner.is_signed or 1 << inner.bits > extent
        return not wide or is_below(value.args[0], extent)
    if isinstance(value, Op) and value.name == "bitwise_and":
        masks = [a.value for a in value.args if isinstance(a, Const)]
        return any(0 <= mask < extent for mask in masks)
    return False


def index_parts(index: IndexLike) -> tuple[Expr | None, IntExpr]:
    """Splits an index into what data say (None: nothing) and what the loops do: they are added."""
    if isinstance(index, int | Dim):
        return None, index
    if isinstance(index, Index):
        return None, index.value
    if isinstance(index, Const) and index.dtype == INT64:
        return None, int(index.value)
    if not isinstance(index, Op) or index.name not in ("add", "subtract") or index.dtype != INT64:
        return index, 0
    (one, first), (other, second) = map(index_parts, index.args)
    if index.name == "add":
        both = one if other is None else other if one is None else op("add", one, other)
        return both, first + second
    return (one, first - second) if other is None else (index, 0)


def register_axis(buffer: Buffer, rest: Sequence[Stmt]) -> tuple[int, bool] | None:
    """Returns the axis along which registers hold the buffer, and True if vector loops use it.

    None if the position of some element that is used is not a constant of the emitted code.
    """
    kinds: dict[str, LoopKind] = {}
    uses: list[Sequence[object]] = []
    for stmt in statements(tuple(rest)):
        if isinstance(stmt, At | If):  # nothing but memory carries results out of a branch
            bodies = (stmt.body,) if isinstance(stmt, At) else (stmt.then, stmt.orelse)
            inside = tuple(s for body in bodies for s in statements(body))
            if any(isinstance(s, Store | Accumulate) and s.buffer == buffer.name for s in inside):
                return None
            read = stmt.value if isinstance(stmt, At) else stmt.condition
            uses += _uses(read, buffer)
        elif isinstance(stmt, Loop):
            kinds[stmt.var] = stmt.kind
        elif isinstance(stmt, Store | Accumulate):
            if stmt.buffer == buffer.name:
                uses.append(stmt.indices)
            uses += _uses(stmt.value, buffer)
        elif isinstance(stmt, Sort) and stmt.buffer == buffer.name:  # in memory
            return None
    moves: set[tuple[int, str]] = set()  # (dimension, vector loop that walks it)
    steps: set[int | None] = set()
    for indices in uses:
        for dim, i in enumerate(indices):
            if not isinstance(i, int | Dim):
                return None
            for name in symbols(i):
                kind = kinds.get(name)
                if kind == LoopKind.VECTORIZE:
                    moves.add((dim, name))
                    steps.add(stride_along(i, name))
                elif kind != LoopKind.UNROLL:
                    return None
    walked = {dim for dim, _ in moves}
    if len(walked) > 1 or not steps <= {1}:
        return None
    return (walked.pop(), True) if walked else (max(0, len(buffer.shape) - 1), False)


def _uses(expr: Expr, buffer: Buffer) -> list[Sequence[object]]:
    """Returns the indices at which an expression reads a buffer."""
    return [n.indices for n in walk(expr) if isinstance(n, Read) and n.buffer == buffer.name]
