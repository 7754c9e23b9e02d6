"""Ways out of loops and of ``with``: which statements have them, and flags in their place."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TypeVar

from .liveness import NESTED, flat

_S = TypeVar("_S", bound=ast.AST)


def at(place: ast.AST, node: _S) -> _S:
    """Returns a new node at the place of an old one, with all inside of it that has none."""
    return ast.fix_missing_locations(ast.copy_location(node, place))


def assign(node: ast.stmt, name: str, value: bool) -> ast.stmt:
    """Returns the assignment of a flag, at the place of a node."""
    return at(node, ast.Assign([ast.Name(name, ast.Store())], ast.Constant(value)))


def load(name: str) -> ast.expr:
    """Returns a read of a variable."""
    return ast.Name(name, ast.Load())


def leaves(node: ast.AST, ways: tuple[type[ast.stmt], ...] = (ast.Break, ast.Continue)) -> bool:
    """True if there is a ``break`` or ``continue`` of a loop around ``node``."""
    if isinstance(node, ways):
        return True
    if isinstance(node, (ast.For, ast.While, *NESTED)):
        return any(leaves(each, ways) for each in getattr(node, "orelse", ()))
    return any(leaves(each, ways) for each in ast.iter_child_nodes(node))


def returns(nodes: Sequence[ast.AST]) -> bool:
    """True if there is a ``return`` of the function itself in nodes."""
    return any(isinstance(n, ast.Return) for n in flat(nodes))


def holds(loop: ast.For | ast.While | ast.With) -> bool:
    """True if what leaves a loop, or a ``with``, stands in a ``try`` or ``match`` inside of it."""
    holders = (n for n in flat(loop.body) if isinstance(n, ast.Try | ast.Match))
    return any(leaves(n) or returns([n]) for n in holders)


def marked(body: Sequence[ast.stmt], flag: str) -> list[ast.stmt]:
    """Returns a loop's body in which ``break`` sets a flag before it leaves."""
    made: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.Break):
            made.append(assign(node, flag, True))
        elif isinstance(node, ast.If | ast.For | ast.While | ast.With):
            if isinstance(node, ast.If | ast.With):
                node.body = marked(node.body, flag)
            if not isinstance(node, ast.With):
                node.orelse = marked(node.orelse, flag)
        made.append(node)
    return made


def without_returns(body: Sequence[ast.stmt], flag: str, result: str) -> list[ast.stmt]:
    """Returns a loop's body in which ``return`` sets the result and a flag, and ends the loop."""
    made: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.Return):
            value = node.value or at(node, ast.Constant(None))
            given = at(node, ast.Assign([ast.Name(result, ast.Store())], value))
            return [*made, given, assign(node, flag, True), at(node, ast.Break())]
        made.append(node)
        if not isinstance(node, ast.If | ast.For | ast.While | ast.With) or not returns([node]):
            continue
        is_left = isinstance(node, ast.For | ast.While) and returns(node.body)
        node.body = without_returns(node.body, flag, result)
        if not isinstance(node, ast.With):
            node.orelse = without_returns(node.orelse, flag, result)
        if is_left:
            made.append(at(node, ast.If(load(flag), [ast.Break()], [])))
    return made


def always_returns(body: Sequence[ast.stmt]) -> bool:
    """True if no path reaches the end of a body."""
    last = body[-1] if body else None
    if isinstance(last, ast.With):
        return always_returns(last.body)
    if isinstance(last, ast.If):
        return always_returns(last.body) and always_returns(last.orelse)
    return isinstance(last, ast.Return | ast.Raise)
