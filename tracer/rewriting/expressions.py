"""Expressions that need the truth of a value, rewritten as functions of arrays."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ...ir.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Aliases:
    """The names of Loopwright, of NumPy, in the user's module."""

    loopwright: str = "lw"
    numpy: str = "np"


def loads(nodes: Iterable[ast.AST]) -> set[str]:
    """Returns the names that are read."""
    walked = (n for node in nodes for n in ast.walk(node))
    return {n.id for n in walked if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)} | {
        n.target.id
        for node in nodes
        for n in ast.walk(node)
        if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
    }


class Expressions(ast.NodeTransformer):
    """Expressions that need the truth of a value, as functions of arrays: ``and``, ``or``, ``not``,
    chains of comparisons, ``a if c else b``, ``max(a, b)``, ``any(a)``. With ``traced``, only those
    that contain one of these names; with ``lambdas``, inside of lambdas as well."""

    def __init__(self, aliases: Aliases, traced: set[str] | None, lambdas: bool = False) -> None:
        self.aliases = aliases
        self.traced = traced
        self.lambdas = lambdas

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return self.generic_visit(node) if self.lambdas else node

    def _stays(self, node: ast.AST) -> bool:
        return self.traced is not None and not loads([node]) & self.traced

    def _numpy(self, name: str, *args: ast.expr) -> ast.expr:
        function = ast.Attribute(ast.Name(self.aliases.numpy, ast.Load()), name, ast.Load())
        return ast.Call(function, list(args), [])

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        if self._stays(node):
            return node
        name = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
        first, *others = node.values
        for other in others:
            first = self._numpy(name, first, other)
        return first

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not) or self._stays(node):
            return node
        return self._numpy("logical_not", node.operand)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if self._stays(node):
            return node
        if len(node.ops) == 1:
            return self._membership(node)
        values = [node.left, *node.comparators]
        pairs = zip(values, node.ops, values[1:], strict=False)
        first, *others = [ast.Compare(a, [op], [b]) for a, op, b in pairs]
        result: ast.expr = first
        for other in others:
            result = self._numpy("logical_and", result, other)
        return result

    def _membership(self, node: ast.Compare) -> ast.expr:
        """``x in (1, 2)`` as comparisons."""
        (op,), (among,) = node.ops, node.comparators
        if not isinstance(op, ast.In | ast.NotIn) or not isinstance(among, ast.Tuple | ast.List):
            return node
        if not among.elts or any(isinstance(e, ast.Starred) for e in among.elts):
            return node
        first, *others = [ast.Compare(node.left, [ast.Eq()], [e]) for e in among.elts]
        result: ast.expr = first
        for other in others:
            result = self._numpy("logical_or", result, other)
        return result if isinstance(op, ast.In) else self._numpy("logical_not", result)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if self.traced is not None and not loads([node.test]) & self.traced:
            return node
        function = ast.Attribute(ast.Name(self.aliases.loopwright, ast.Load()), "cond", ast.Load())
        return ast.Call(function, [node.test, _thunk(node.body), _thunk(node.orelse)], [])

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        plain = not node.keywords and not any(isinstance(a, ast.Starred) for a in node.args)
        if not node.args or not plain or self._stays(node):
            return node
        if len(node.args) == 1:
            return self._numpy(_OF_ROWS[name], *node.args) if name in _OF_ROWS else node
        if name in ("min", "max"):
            first, *others = node.args
            for other in others:
                first = self._numpy(f"{name}imum", first, other)
            return first
        return node


_OF_ROWS = {"all": "all", "any": "any", "max": "max", "min": "min", "sorted": "sort"}
"""NumPy's function for each of Python's that compares the rows of its argument."""


def _thunk(body: ast.expr) -> ast.Lambda:
    empty = ast.arguments([], [], None, [], [], None, [])
    return ast.Lambda(empty, body)
