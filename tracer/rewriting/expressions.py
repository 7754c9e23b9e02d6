"""Expressions that need the truth of an array, rewritten as functions of arrays.

Control flow on one traced value is captured. An array with axes has no truth, and where nothing is
captured neither has any other: the error shows the user's line with what NumPy has instead.

::

    return (0 < x < 1) * x            return np.logical_and(0 < x, x < 1) * x
"""

from __future__ import annotations

import ast
import copy
import linecache
from types import FrameType, ModuleType

from ...ir.dataclass import dataclass
from ..core.spans import span_of


@dataclass(frozen=True, slots=True)
class Aliases:
    """The names of Loopwright, of NumPy, in the user's module."""

    loopwright: str = "lw"
    numpy: str = "np"


def statement_in(frame: FrameType) -> str | None:
    """Returns the statement that a frame of the user's is at, rewritten with the names that its
    module gives to Loopwright and NumPy; None if there is no such statement, or no rewrite."""
    names = frame.f_globals.items()
    modules = {value.__name__: name for name, value in names if isinstance(value, ModuleType)}
    aliases = Aliases(modules.get("loopwright", "lw"), modules.get("numpy", "np"))
    source = "".join(linecache.getlines(frame.f_code.co_filename))
    return rewritten(source, span_of(frame).line, aliases)


def rewritten(source: str, line: int, aliases: Aliases | None = None) -> str | None:
    """Returns the statement of ``source`` that begins last at or before ``line``."""
    try:
        statements = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.stmt)]
    except (SyntaxError, RecursionError):
        return None
    around = [s for s in statements if s.lineno <= line <= (s.end_lineno or s.lineno)]
    if not around or any(isinstance(n, ast.stmt) for n in ast.iter_child_nodes(around[-1])):
        return None  # a branch, a loop: that has bodies
    changed = Expressions(aliases or Aliases()).visit(copy.deepcopy(around[-1]))
    text = ast.unparse(ast.fix_missing_locations(changed))
    return text if text != ast.unparse(around[-1]) else None


class Expressions(ast.NodeTransformer):
    """Expressions that need the truth of a value, as functions of arrays: ``and``, ``or``, ``not``,
    chains of comparisons, ``a if c else b``, ``max(a, b)``, ``any(a)``."""

    def __init__(self, aliases: Aliases) -> None:
        self.aliases = aliases

    def _numpy(self, name: str, *args: ast.expr) -> ast.expr:
        function = ast.Attribute(ast.Name(self.aliases.numpy, ast.Load()), name, ast.Load())
        return ast.Call(function, list(args), [])

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        name = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
        first, *others = node.values
        for other in others:
            first = self._numpy(name, first, other)
        return first

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return self._numpy("logical_not", node.operand)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
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
        function = ast.Attribute(ast.Name(self.aliases.loopwright, ast.Load()), "cond", ast.Load())
        return ast.Call(function, [node.test, _thunk(node.body), _thunk(node.orelse)], [])

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        plain = not node.keywords and not any(isinstance(a, ast.Starred) for a in node.args)
        if not node.args or not plain:
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
