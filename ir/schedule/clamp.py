"""Tiles of which only the first rows exist: rows behind the last one read that one, store nothing.

::

    unroll i in 4:                          unroll i in 4:
      acc[i] = 0.0                            acc[i] = 0.0
    for k in 64:                            for k in 64:
      unroll i in 4:                          unroll i in 4:
        acc[i] += x[i0 + i, k]      =>          acc[i] += x[i0 + min(i, left - 1), k]
    unroll i in 4:                          unroll i in 4:
      out[i0 + i] = acc[i]                    if index(i) < index(left):
                                                out[i0 + i] = acc[i]

All rows that are left take one pass over what they share, and the tile's registers stay constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..dims import IntExpr, int_min, substitute, symbol, symbols
from ..loop.expr import Expr, Read, index, op, read, rebuilt_indices, rewrite
from ..loop.nest import (
    Accumulate,
    Alloc,
    If,
    Loop,
    Prefetch,
    Sort,
    Stmt,
    Store,
    map_bodies,
    rewritten,
    statements,
)


def clamped(stmts: Sequence[Stmt], var: str, valid: IntExpr) -> list[Stmt]:
    """Returns the statements of a tile for the first ``valid`` of the rows ``var``, at least one.

    The rows are independent: none is reduced over ``var``. Buffers allocated here are private.
    """
    private = {s.buffer.name for s in statements(tuple(stmts)) if isinstance(s, Alloc)}
    return [_Clamp(var, valid, private).stmt(stmt) for stmt in stmts]


class _Clamp:
    def __init__(self, var: str, valid: IntExpr, private: set[str]) -> None:
        self.var, self.private = var, private
        self.inside = op("less", index(symbol(var)), index(valid))
        self.row = {var: int_min(symbol(var), valid - 1)}

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Prefetch) and stmt.buffer not in self.private:
            return rewritten(stmt, index=lambda i: substitute(i, self.row))
        new = rewritten(stmt, lambda body: tuple(map(self.stmt, body)), self.expr)
        if isinstance(new, Loop) and new.var == self.var:
            if not any(map(self._is_private, statements(new.body))):
                plain = tuple(map(_unguarded, new.body))  # one condition for all of a row
                return replace(new, body=(If(self.inside, plain),))
        elif isinstance(new, Store | Accumulate | Sort) and not self._is_private(stmt):
            return If(self.inside, (new,))
        return new

    def _is_private(self, stmt: Stmt) -> bool:
        return isinstance(stmt, Store | Accumulate) and stmt.buffer in self.private

    def expr(self, expr: Expr) -> Expr:
        """An expression whose reads of buffers from outside are of rows that exist."""

        def place(i: IntExpr) -> IntExpr:
            return substitute(i, self.row) if self.var in symbols(i) else i

        def leaf(node: Expr, done: dict[int, Expr]) -> Expr | None:
            if isinstance(node, Read):
                private = node.buffer in self.private
                indices = rebuilt_indices(node, done, (lambda i: i) if private else place)
                return read(node.buffer, indices, node.dtype)
            return None

        return rewrite(expr, leaf)


def _unguarded(stmt: Stmt) -> Stmt:
    """A statement of a row without the conditions that it exists."""
    if isinstance(stmt, If) and len(stmt.then) == 1 and not stmt.orelse:
        return stmt.then[0]
    return map_bodies(stmt, _unguarded) if isinstance(stmt, Loop) else stmt
