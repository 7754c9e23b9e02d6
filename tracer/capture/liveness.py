"""Live variables of a function: which names a statement assigns, and which are read after it.

A backward analysis over the syntax tree ("Compilers: Principles, Techniques, and Tools", A. Aho,
M. Lam, R. Sethi, J. Ullman, section 9.2.5), loops to a fixed point. It knows nothing of arrays.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterable, Iterator, Sequence

Names = frozenset[str]

NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_NONE: Names = frozenset()


def flat(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yields all nodes that run in the function itself: not those of functions inside of it."""
    for node in nodes:
        yield node
        if not isinstance(node, NESTED):
            yield from flat(ast.iter_child_nodes(node))


def assigned(nodes: Iterable[ast.AST]) -> list[str]:
    """Returns the names that statements bind or delete, in order."""
    names: dict[str, None] = {}
    for node in _own(nodes):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names[node.id] = None
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names[node.name] = None
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update(dict.fromkeys((a.asname or a.name).partition(".")[0] for a in node.names))
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names[node.name] = None
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names[node.rest] = None
    return list(names)


def _own(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yields the nodes whose names are the function's; a comprehension has variables of its own,
    but for those that ``:=`` binds."""
    for node in nodes:
        if isinstance(node, COMPREHENSIONS):
            yield from (n.target for n in flat([node]) if isinstance(n, ast.NamedExpr))
            continue
        yield node
        if not isinstance(node, NESTED):
            yield from _own(ast.iter_child_nodes(node))


def reads(nodes: Iterable[ast.AST | None]) -> Names:
    """Returns the names that are read in nodes, in functions inside of them, too."""
    return frozenset(
        n.id
        for node in nodes
        if node is not None
        for n in ast.walk(node)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    )


def only_augmented(nodes: Iterable[ast.AST], names: Iterable[str]) -> list[str]:
    """Returns those of the names that are assigned by ``a += b`` and its like alone: an array that
    has such a name stays the same array."""
    nodes = [*nodes]
    augmented = {id(n.target) for n in flat(nodes) if isinstance(n, ast.AugAssign)}
    others = {
        n.id
        for n in _own(nodes)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and id(n) not in augmented
    }
    return [name for name in names if name not in others]


class Liveness:
    """The analysis of one function. ``always`` are names that functions inside of it read: they may
    be called at any time."""

    def __init__(self, function: ast.FunctionDef) -> None:
        inner = (n for n in flat(function.body) if isinstance(n, NESTED))
        self.always = reads(inner)
        self.behind: dict[str, Names] = {}
        """Names that functions read which were made of statements, by the function's name."""
        self._leaving: list[tuple[Names, Names]] = []  # live behind and at the head of each loop
        self._heads: dict[tuple[Hashable, ...], Names] = {}  # of loops, by what is live around them

    def before(self, statements: Sequence[ast.stmt], after: Names) -> Names:
        """Returns the names that are live before statements, given those live after them."""
        for statement in reversed(statements):
            after = self._before(statement, after)
        return after | self.always

    def at_head(self, loop: ast.For | ast.While, after: Names) -> Names:
        """Returns the names that are live at the head of a loop, where each iteration begins."""
        key = (loop, after, *self._leaving)
        if key not in self._heads:
            self._heads[key] = self._at_head(loop, after)
        return self._heads[key]

    def _at_head(self, loop: ast.For | ast.While, after: Names) -> Names:
        leaving = self.before(loop.orelse, after)
        bound = frozenset(assigned([loop.target])) if isinstance(loop, ast.For) else _NONE
        read = reads([loop.test]) if isinstance(loop, ast.While) else _NONE
        head = leaving | read
        while True:
            self._leaving.append((after, head))
            body = self.before(loop.body, head)
            self._leaving.pop()
            wider = head | (body - bound)
            if wider == head:
                return head
            head = wider

    def _before(self, statement: ast.stmt, after: Names) -> Names:
        if isinstance(statement, ast.If):
            branches = self.before(statement.body, after) | self.before(statement.orelse, after)
            return branches | reads([statement.test])
        if isinstance(statement, ast.For):
            return self.at_head(statement, after) | reads([statement.iter])
        if isinstance(statement, ast.While):
            return self.at_head(statement, after)
        if isinstance(statement, ast.Return | ast.Raise):
            read = reads([statement])
            return read.union(*(self.behind.get(name, _NONE) for name in read))
        if isinstance(statement, ast.Break | ast.Continue):
            behind, head = self._leaving[-1] if self._leaving else (after, after)
            return behind if isinstance(statement, ast.Break) else head
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            augmented = assigned([statement]) if isinstance(statement, ast.AugAssign) else ()
            return (after - frozenset(assigned([statement]))) | reads([statement]) | {*augmented}
        return after | reads([statement])  # it may end anywhere
