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
from ..loop import nest
from ..loop.expr import Expr, Read, index, op, read, rebuilt_indices, rewrite


def clamped(stmts: Sequence[nest.Stmt], var: str, valid: IntExpr) -> list[nest.Stmt]:
    """Returns the statements of a tile for the first ``valid`` of the rows ``var``, at least one.

    The rows are independent: none is reduced over ``var``. Buffers allocated here are private.
    """
    private = {s.buffer.name for s in nest.statements(tuple(stmts)) if isinstance(s, nest.Alloc)}
    return [_Clamp(var, valid, private).stmt(stmt) for stmt in stmts]


class _Clamp:
    def __init__(self, var: str, valid: IntExpr, private: set[str]) -> None:
        self.var, self.private = var, private
        self.inside = op("less", index(symbol(var)), index(valid))
        self.row = {var: int_min(symbol(var), valid - 1)}

    def stmt(self, stmt: nest.Stmt) -> nest.Stmt:
        if isinstance(stmt, nest.Prefetch) and stmt.buffer not in self.private:
            return nest.rewritten(stmt, index=lambda i: substitute(i, self.row))
        new = nest.rewritten(stmt, lambda body: tuple(map(self.stmt, body)), self.expr)
        if isinstance(new, nest.Loop) and new.var == self.var:
            if not any(map(self._is_private, nest.statements(new.body))):
                plain = tuple(map(_unguarded, new.body))  # one condition for all of a row
                return replace(new, body=(nest.If(self.inside, plain),))
        elif isinstance(new, nest.Store | nest.Accumulate | nest.Sort) and not self._is_private(
            stmt
        ):
            return nest.If(self.inside, (new,))
        return new

    def _is_private(self, stmt: nest.Stmt) -> bool:
        return isinstance(stmt, nest.Store | nest.Accumulate) and stmt.buffer in self.private

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


def _unguarded(stmt: nest.Stmt) -> nest.Stmt:
    """A statement of a row without the conditions that it exists."""
    if isinstance(stmt, nest.If) and len(stmt.then) == 1 and not stmt.orelse:
        return stmt.then[0]
    return nest.map_bodies(stmt, _unguarded) if isinstance(stmt, nest.Loop) else stmt
