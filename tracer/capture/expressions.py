"""Expressions of a rewritten function: what needs a truth, is called, or may be a list's."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from .leaving import at, load


def library(name: str) -> ast.expr:
    """Returns a function of the run-time library."""
    return ast.Attribute(load(LIBRARY), name, ast.Load())


LIBRARY = "capture·"
"""The variable that holds the run-time library. No user's name has this character in practice."""


class Expressions(ast.NodeTransformer):
    """Replaces what needs a truth, what is called, and the ``lists`` that grow."""

    def __init__(self, lists: Sequence[ast.expr]) -> None:
        self.lists = lists

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        node.test = tested(node.test)
        self.generic_visit(node)
        if _binds([node.body, node.orelse]):
            return node
        then, orelse = as_lambda(node.body), as_lambda(node.orelse)
        return at(node, call(library("returned"), node.test, then, orelse))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        if _binds(node.values[1:]):
            return node
        name = "conjunction" if isinstance(node.op, ast.And) else "disjunction"
        rest = map(as_lambda, node.values[1:])
        return at(node, call(library(name), node.values[0], *rest))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if not isinstance(node.op, ast.Not):
            self.generic_visit(node)
            return node
        return at(node, call(library("negation"), self.visit(tested(node.operand))))

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) == 1:
            return at(node, _comparison(node.ops[0], node.left, node.comparators[0]))
        if _binds(node.comparators):
            return node
        rest: list[ast.expr] = []
        for sign, value in zip(node.ops, node.comparators):
            compared = _comparison(sign, load("one·"), load("other·"))
            rest += [as_lambda(at(node, compared), "one·", "other·"), as_lambda(value)]
        return at(node, call(library("compared"), node.left, *rest))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        match node:
            case ast.Call(ast.Name(name), [ast.GeneratorExp() | ast.ListComp() as only], []):
                node.args = [self.comprehended(only, load(name))]
            case _:
                self.generic_visit(node)
        head = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        if isinstance(head, ast.Name) and "·" in head.id:
            return node  # a function that the rewriting made, or one of the library's
        node.func = at(node.func, call(library("callee"), node.func))
        return node

    def visit_List(self, node: ast.List) -> ast.expr:
        grows = node in self.lists
        self.generic_visit(node)
        return at(node, call(library("listed"), node)) if grows else node

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        return self.comprehended(node, ast.Constant(None))

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        self.generic_visit(node)
        node.ifs = [at(n, call(library("keeps"), n)) for n in node.ifs]
        return node

    def comprehended(self, node: ast.ListComp | ast.GeneratorExp, function: ast.expr) -> ast.expr:
        """Returns a comprehension whose innermost loop the library runs, for a ``function``."""
        last, is_list = node.generators[-1], isinstance(node, ast.ListComp)
        if last.is_async or _binds([node.elt, *last.ifs]):
            self.generic_visit(node)
            return node
        values = [ast.Constant(True), *map(self.visit, last.ifs)]
        last.ifs = []
        self.generic_visit(node)
        holds = call(library("conjunction"), values[0], *map(as_lambda, values[1:]))

        def of_item(given: ast.expr) -> ast.expr:
            loop = ast.comprehension(last.target, ast.Tuple([load("item·")], ast.Load()), [], 0)
            each = ast.Subscript(ast.ListComp(given, [loop]), ast.Constant(0), ast.Load())
            return as_lambda(at(node.elt, each), "item·")

        functions = of_item(holds), of_item(node.elt), function
        is_whole = len(node.generators) == 1
        made = call(library("items"), last.iter, *functions, ast.Constant(is_list and is_whole))
        if is_whole:
            return at(node, made)
        last.target, last.iter = ast.Name("item·", ast.Store()), at(node.elt, made)
        node.elt = at(node.elt, load("item·"))
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        is_constant = isinstance(node.slice, ast.Constant | ast.Slice | ast.Tuple)
        if is_constant or not isinstance(node.ctx, ast.Load):
            return node
        return at(node, call(library("item"), node.value, node.slice))


def tested(node: ast.expr) -> ast.expr:
    """Returns an expression of which only the truth is asked, with that of each variable in it:
    ``stack and more`` is not the ``stack``, which may be a list of the graph's."""
    if isinstance(node, ast.BoolOp):
        node.values = [tested(value) for value in node.values]
    elif isinstance(node, ast.Name):
        return at(node, call(library("truth"), node))
    return node


def _comparison(sign: ast.cmpop, one: ast.expr, other: ast.expr) -> ast.expr:
    if isinstance(sign, ast.In | ast.NotIn):
        holds = call(library("is_in"), one, other)
    elif isinstance(sign, ast.Is | ast.IsNot) and _is_bool(other):
        holds = call(library("is_same"), one, other)
    else:
        return ast.Compare(one, [sign], [other])
    return holds if isinstance(sign, ast.In | ast.Is) else call(library("negation"), holds)


def _is_bool(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def _binds(nodes: Sequence[ast.AST]) -> bool:
    """True if ``:=`` binds a variable there, which a function of its own would keep to itself."""
    return any(isinstance(n, ast.NamedExpr) for node in nodes for n in ast.walk(node))


def call(function: ast.expr, *arguments: ast.expr) -> ast.expr:
    """Returns a call."""
    return ast.Call(function, [*arguments], [])


def as_lambda(node: ast.expr, *names: str) -> ast.expr:
    """Returns a function of these names that gives an expression."""
    parameters = ast.arguments([], [ast.arg(n) for n in names], None, [], [], None, [])
    return at(node, ast.Lambda(parameters, node))
