"""``match`` statements rewritten into ``if``: what captures branches captures them, too.

::

    match tree:                          match·1 = capture.matching(tree)
        case Leaf(x):                    if match·1.case(0, Of(Leaf, (Bind("x"),), {})):
            y = x                            [x] = match·1.bound(0, ("x",))
        case Node(left, right):              y = x
            y = f(left)                  elif match·1.case(1, ...):
                                             ...
                                         else:
                                             match·1.unmatched(2)

A statement with patterns of mappings, or of sequences of any length, stays as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from .expressions import call, library
from .leaving import assign, at, load


class Matches(ast.NodeTransformer):
    """Replaces the ``match`` statements of a function by chains of ``if``."""

    def __init__(self) -> None:
        self.count = 0

    def visit_Match(self, node: ast.Match) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        if any(isinstance(n, ast.MatchMapping | ast.MatchStar) for n in ast.walk(node)):
            return node
        self.count += 1
        name = f"match·{self.count}"
        first = ast.Assign([ast.Name(name, ast.Store())], call(library("matching"), node.subject))
        return [at(node.subject, first), *self.chain(name, node.cases, 0)]

    def chain(self, name: str, cases: Sequence[ast.match_case], number: int) -> list[ast.stmt]:
        """Returns what tests the cases from ``number`` on."""
        if number == len(cases):
            ending = _asked(name, "unmatched", ast.Constant(number))
            return [at(cases[-1].pattern, ast.Expr(ending))]
        case = cases[number]
        guarded = ast.Constant(case.guard is not None)
        test = _asked(name, "case", ast.Constant(number), _pattern(case.pattern), guarded)
        body = [*case.body]
        if names := list(dict.fromkeys(_names(case.pattern))):
            targets = ast.List([ast.Name(n, ast.Store()) for n in names], ast.Store())
            wanted = ast.Tuple([ast.Constant(n) for n in names], ast.Load())
            bound = ast.Assign([targets], _asked(name, "bound", ast.Constant(number), wanted))
            body.insert(0, at(case.pattern, bound))
        rest = self.chain(name, cases, number + 1)
        if case.guard is None:
            return [at(case.pattern, ast.If(test, body, rest))]
        # What follows is for values that the pattern does not match, and those the guard refuses.
        flag = f"{name}·{number}"
        binding = body[: len(body) - len(case.body)]
        accepted = [assign(case.body[0], flag, True), *case.body]
        taken = at(case.guard, ast.If(case.guard, accepted, []))
        return [
            assign(case.body[0], flag, False),
            at(case.pattern, ast.If(test, [*binding, taken], [])),
            at(case.pattern, ast.If(ast.UnaryOp(ast.Not(), load(flag)), rest, [])),
        ]


def _asked(name: str, method: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(load(name), method, ast.Load()), [*arguments], [])


def _names(pattern: ast.AST) -> list[str]:
    """Returns the names that a pattern binds, in the order in which they stand."""
    bound = pattern.name if isinstance(pattern, ast.MatchAs) else None
    inside = [n for child in ast.iter_child_nodes(pattern) for n in _names(child)]
    return [*([bound] if bound else []), *inside]


def _pattern(pattern: ast.pattern) -> ast.expr:
    """Returns an expression for a pattern (``tracer/data/patterns.py``)."""
    match pattern:
        case ast.MatchClass(cls, by_place, names, by_name):
            keys: list[ast.expr | None] = [ast.Constant(n) for n in names]
            named = ast.Dict(keys, [*map(_pattern, by_name)])
            return call(library("Of"), cls, _tuple(by_place), named)
        case ast.MatchValue(value):
            return call(library("Equal"), value)
        case ast.MatchSingleton(value):
            return call(library("Same"), ast.Constant(value))
        case ast.MatchOr(patterns):
            return call(library("AnyOf"), _tuple(patterns))
        case ast.MatchSequence(patterns):
            return call(library("Row"), _tuple(patterns))
        case ast.MatchAs(inner, str(name)):
            nothing = ast.Constant(None)
            return call(library("Bind"), ast.Constant(name), _pattern(inner) if inner else nothing)
        case _:
            return library("ANYTHING")


def _tuple(patterns: Sequence[ast.pattern]) -> ast.expr:
    return ast.Tuple([*map(_pattern, patterns)], ast.Load())
