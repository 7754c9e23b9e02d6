"""Rewrites a function's syntax tree: each ``if``, ``while`` and ``for`` becomes a call.

::

    while b != 0:                     def test_1(): return b != 0
        a, b = b, a % b               def body_1():
                                          nonlocal a, b
                                          a, b = b, a % b
                                      capture.while_loop(test_1, body_1, ("a", "b"), ())

The bodies share the function's variables (``nonlocal``), so that where the run-time library
(``runtime.py``) runs them as Python does, they do what the statements did. ``break`` and
``continue`` become flags, that what follows them asks; what follows an ``if`` that returns becomes
a part of its branches, and a ``return`` inside of a loop or ``with`` ends it and stands behind it.
What a ``try`` holds stays as it is. Nothing here knows arrays.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from typing import TypeGuard, TypeVar

from . import leaving as exits
from .expressions import LIBRARY as LIBRARY
from .expressions import Expressions, as_lambda, call, library, tested
from .leaving import always_returns, assign, at, holds, leaves, load, marked, returns
from .liveness import NESTED, Liveness, Names, assigned, flat, only_augmented, reads
from .match_statements import Matches

RESULT = "result·"
"""Begins the names of variables that hold what a loop returns."""

REST = "rest·"
"""Begins the names of functions that run what follows an ``if`` in which a branch returns."""

_S = TypeVar("_S", bound=ast.AST)

_REFUSED_CALLS = frozenset(("super", "locals", "vars", "dir", "eval", "exec", "globals"))
_REFUSED = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)


def can_be_rewritten(function: ast.FunctionDef) -> bool:
    """True unless a function asks for its own frame, or is a generator or coroutine."""
    nodes = [*flat(function.body)]
    calls = (n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name))
    named = any(isinstance(n, ast.Name) and n.id == "__class__" for n in nodes)
    return (
        not named
        and not _REFUSED_CALLS.intersection(calls)
        and not any(isinstance(n, _REFUSED) for n in nodes)
    )


def rewrite(function: ast.FunctionDef) -> None:
    """Rewrites the body of a function, and of the functions inside of it."""
    Matches().visit(function)
    _Rewriter(function).function()


def _bound_first(nodes: Sequence[ast.AST]) -> list[str]:
    """Returns the names that a loop's target and body bind before anything may leave it."""
    alone = itertools.takewhile(lambda node: not leaves(node), nodes)
    return assigned([n for n in alone if isinstance(n, ast.expr | ast.Assign | ast.AugAssign)])


def _asserted(node: ast.Assert) -> ast.stmt:
    """Returns ``if not test: raise AssertionError(message)``."""
    message = [node.msg] if node.msg is not None else []
    error = ast.Call(load("AssertionError"), message, [])
    return at(node, ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Raise(error, None)], []))


def _asked_inside(node: ast.While) -> ast.While:
    """Returns ``while True`` that first asks if it ends, for a test that binds variables."""
    leave = ast.If(ast.UnaryOp(ast.Not(), node.test), [*node.orelse, ast.Break()], [])
    return at(node, ast.While(ast.Constant(True), [at(node, leave), *node.body], []))


def _bound_inside(function: ast.FunctionDef) -> set[str]:
    """Returns the names that functions inside of a function declare as not theirs."""
    inner = (n for n in flat(function.body) if isinstance(n, NESTED))
    declared = (n for each in inner for n in ast.walk(each) if isinstance(n, ast.Nonlocal))
    return {name for declaration in declared for name in declaration.names}


def _is_true(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and bool(test.value)


def _growing(function: ast.FunctionDef) -> set[str]:
    """Returns the names of lists that something is appended to, or taken from the end of."""
    methods = (n for n in ast.walk(function) if isinstance(n, ast.Attribute))
    named = (n.value for n in methods if n.attr in ("append", "pop"))
    return {n.id for n in named if isinstance(n, ast.Name)}


class _Rewriter:
    def __init__(self, function: ast.FunctionDef) -> None:
        self.node = function
        every = function.args
        parameters = [*every.posonlyargs, *every.args, *every.kwonlyargs, every.vararg, every.kwarg]
        declared = [n for n in flat(function.body) if isinstance(n, ast.Global | ast.Nonlocal)]
        self.globals = {n for d in declared if isinstance(d, ast.Global) for n in d.names}
        # What code outside sees is changed by Python alone.
        self.shared = {n for d in declared for n in d.names}
        self.variables = {a.arg for a in parameters if a is not None}
        self.variables |= {*assigned(function.body)} - self.shared
        self.inner = _bound_inside(function) & self.variables
        self.growing = _growing(function)
        self.lists: list[ast.expr] = []  # that such names are given
        self.live = Liveness(function)
        self.live.always |= self.inner
        self.count = 0

    def function(self) -> None:
        self.node.body = self.block(self.node.body, frozenset(), tail=True)
        if self.variables:  # where only functions inside bind a variable, Python asks for this
            targets: list[ast.expr] = [ast.Name(n, ast.Store()) for n in sorted(self.variables)]
            never = ast.If(ast.Constant(False), [ast.Assign(targets, ast.Constant(None))], [])
            self.node.body.insert(0, at(self.node, never))

    # -- statements ------------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt], after: Names, tail: bool) -> list[ast.stmt]:
        """Returns statements with control flow as calls. ``after`` are the names that are live
        behind them; ``tail``: behind them the function ends."""
        made: list[ast.stmt] = []
        for number, statement in enumerate(statements):
            rest = statements[number + 1 :]
            if isinstance(statement, ast.Assert):
                statement = _asserted(statement)
            if self.asks_and_binds(statement) and not any(map(leaves, statement.orelse)):
                statement = _asked_inside(statement)
            if (changed := self.leaving(statement) or self.in_with(statement)) is not None:
                return made + self.block([*changed, *rest], after, tail)
            is_private = self.shared.isdisjoint(assigned([statement]))
            if isinstance(statement, ast.If) and tail and is_private and returns([statement]):
                return made + self.returning(statement, rest, after)
            live = self.live.before(rest, after)
            made += self.statement(statement, live)
        return made

    def statement(self, node: ast.stmt, after: Names) -> list[ast.stmt]:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            self.mark_lists(node)
        if not self.shared.isdisjoint(assigned([node])):
            return [self.kept(node, after)]
        if isinstance(node, ast.If) and not returns([node]) and not leaves(node):
            return self.branch(node, after)
        if isinstance(node, ast.For | ast.While) and not returns([node]) and not holds(node):
            return [self.kept(node, after)] if self.asks_and_binds(node) else self.loop(node, after)
        if isinstance(node, ast.FunctionDef):
            if can_be_rewritten(node):
                rewrite(node)
            return [node]
        if isinstance(node, ast.ClassDef | ast.AsyncFunctionDef):
            return [node]
        return [self.kept(node, after)]

    def mark_lists(self, node: ast.Assign | ast.AnnAssign) -> None:
        """Takes note of the lists that a statement gives names that grow."""
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        pairs: list[tuple[ast.expr, ast.expr | None]] = [(t, node.value) for t in targets]
        if isinstance(node.value, ast.Tuple) and isinstance(targets[0], ast.Tuple):
            pairs = [*zip(targets[0].elts, node.value.elts)]
        grow = [v for t, v in pairs if isinstance(t, ast.Name) and t.id in self.growing]
        self.lists += [v for v in grow if isinstance(v, ast.List)]

    def asks_and_binds(self, node: ast.stmt) -> TypeGuard[ast.While]:
        """True for a ``while`` whose test may bind variables."""
        return isinstance(node, ast.While) and bool(self.changed([node.test]))

    def kept(self, node: ast.stmt, after: Names) -> ast.stmt:
        """Returns a statement that stays, with what is inside of it rewritten."""
        everything = after | reads([node])  # it may go on anywhere
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, name, self.block(value, everything, tail=False))
            elif isinstance(value, list):
                setattr(node, name, [self.part(v, everything) for v in value])
            elif isinstance(value, ast.expr):
                setattr(node, name, self.expression(value))
        return node

    def part(self, node: _S, everything: Names) -> _S:
        """Returns a handler, a case, an item of ``with`` or an expression, rewritten inside."""
        if isinstance(node, ast.expr):
            return self.expression(node)
        if isinstance(node, ast.ExceptHandler | ast.match_case):
            node.body = self.block(node.body, everything, tail=False)
        if isinstance(node, ast.withitem):
            node.context_expr = self.expression(node.context_expr)
        return node

    def branch(self, node: ast.If, after: Names) -> list[ast.stmt]:
        names = [n for n in self.changed([*node.body, *node.orelse]) if n in self.variables]
        kept = [n for n in names if n in after]
        in_place = only_augmented([*node.body, *node.orelse], kept)
        then, orelse = self.name("then"), self.name("otherwise")
        test = self.expression(tested(node.test))
        return [
            self.define(node, then, self.block(node.body, after, tail=False), names),
            self.define(node, orelse, self.block(node.orelse, after, tail=False), names),
            self.call(node, "branch", test, load(then), load(orelse), kept, in_place),
        ]

    def returning(self, node: ast.If, rest: Sequence[ast.stmt], after: Names) -> list[ast.stmt]:
        """Returns ``if`` and what follows it, where a branch returns: both give the result."""
        made: list[ast.stmt] = []
        bodies = [node.body, node.orelse]
        follows: list[ast.stmt] = []
        if rest and not all(map(always_returns, bodies)):
            if any(map(always_returns, bodies)):
                follows = [*rest]
            else:  # both branches go on with it
                name = self.name(REST[:-1])
                self.live.behind[name] = self.live.before(rest, after)
                inner = self.block(rest, after, tail=True)
                made.append(self.define(rest[0], name, inner, self.own(rest)))
                follows = [at(rest[0], ast.Return(call(load(name))))]
        names = self.own([*node.body, *node.orelse, *follows])
        then, orelse = self.name("then"), self.name("otherwise")
        test = self.expression(tested(node.test))
        for name, body in zip((then, orelse), bodies, strict=True):
            whole = [*body] if always_returns(body) else [*body, *follows]
            made.append(self.define(node, name, self.block(whole, after, tail=True), names))
        given = call(library("returned"), test, load(then), load(orelse))
        return [*made, at(node, ast.Return(given))]

    def leaving(self, node: ast.stmt) -> list[ast.stmt] | None:
        """Returns a loop whose ``return`` ends it and gives the result behind it, as its ``else``
        stands behind it; None for one without ``return``, or that cannot be written so."""
        if not isinstance(node, ast.For | ast.While) or not returns([node]) or holds(node):
            return None
        before: list[ast.stmt] = []
        behind, node.orelse = node.orelse, []
        breaks = any(leaves(each, (ast.Break,)) for each in node.body)
        if behind and breaks:
            broken = self.name("broken")
            self.variables.add(broken)
            before.append(assign(node, broken, False))
            node.body = marked(node.body, broken)
            unbroken = ast.UnaryOp(ast.Not(), load(broken))
            behind = [at(node, ast.If(unbroken, behind, []))]
        if returns(node.body):
            first, leave = self.result(node)
            before += first
            if isinstance(node, ast.While) and _is_true(node.test) and not breaks:
                return [*before, node, *leave.body]
            behind.insert(0, leave)
        return [*before, node, *behind]

    def in_with(self, node: ast.stmt) -> list[ast.stmt] | None:
        """Returns a ``with`` whose ``return`` in a branch or loop ends a loop of one iteration, and
        gives the result behind it; None for others."""
        if not isinstance(node, ast.With) or leaves(node) or holds(node):
            return None
        if not any(returns([each]) for each in node.body if not isinstance(each, ast.Return)):
            return None
        every = always_returns(node.body)
        before, leave = self.result(node)
        once = self.name("once")
        self.variables.add(once)
        items = ast.Tuple([ast.Constant(None)], ast.Load())
        node.body = [at(node, ast.For(ast.Name(once, ast.Store()), items, node.body, []))]
        return [*before, node, *(leave.body if every else [leave])]

    def result(self, node: ast.For | ast.While | ast.With) -> tuple[list[ast.stmt], ast.If]:
        """Lets each ``return`` in a body set a result and a flag; returns what stands before it,
        and what returns the result behind it."""
        flag, result = self.name("returned"), self.name(RESULT[:-1])
        self.variables |= {flag, result}
        target = ast.Name(result, ast.Store())
        nothing = at(node, ast.Assign([target], library("NOTHING")))
        node.body = exits.without_returns(node.body, flag, result)
        leave = at(node, ast.If(load(flag), [ast.Return(load(result))], []))
        return [assign(node, flag, False), nothing], leave

    def loop(self, node: ast.For | ast.While, after: Names) -> list[ast.stmt]:
        """Returns a loop whose ``break`` and ``continue`` are flags."""
        made: list[ast.stmt] = []
        breaks = any(leaves(each, (ast.Break,)) for each in node.body)
        stop, skip = self.name("stop"), self.name("skip")
        orelse = node.orelse
        body = node.body
        if any(map(leaves, body)):
            self.variables |= {stop, skip} if breaks else {skip}
            body = [assign(node, skip, False), *self.flagged(body, stop, skip)]
            if breaks:
                made.append(assign(node, stop, False))
        changed = (
            ast.For(node.target, node.iter, body, [])
            if isinstance(node, ast.For)
            else (ast.While(node.test, body, []))
        )
        changed = at(node, changed)
        behind = self.live.before(orelse, after)
        if breaks:  # then it goes on behind the else
            behind |= after | {stop}
        head = self.live.at_head(changed, behind)
        targets = [node.target] if isinstance(node, ast.For) else []
        names = self.own([*targets, *body])
        carried = [n for n in names if n in head | behind]
        in_place = only_augmented([*targets, *body], carried)
        first = _bound_first([*targets, *node.body])
        given = [n for n in carried if n in first and n in behind]
        inner = self.block(body, head, tail=False)
        function, test = self.name("body"), self.name("test")
        flag: ast.expr = ast.Constant(stop if breaks else None)
        over, items, kind = load(test), list[str](), "while_loop"
        if isinstance(node, ast.For):
            over, items, kind = self.expression(node.iter), [self.name("item")], "for_loop"
            target = at(node, ast.Assign([node.target], load(items[0])))
            # A body that may not run takes its item from an iterator that others see.
            is_ours = any("·" in name for name in reads([node.iter]))
            made_of = [at(node, ast.Expr(as_lambda(node.iter)))] if breaks and not is_ours else []
            inner = [*made_of, target, *inner]
        else:
            condition = at(node, ast.Return(self.expression(tested(node.test))))
            made.append(self.define(node, test, [condition], self.own([node.test])))
        made.append(self.define(node, function, inner, names, *items))
        arguments = (over, load(function), carried, in_place, flag, names)
        if targets:
            arguments = (*arguments, given)
        made.append(self.call(node, kind, *arguments))
        if orelse and breaks:
            going = at(node, ast.UnaryOp(ast.Not(), load(stop)))
            made += self.statement(at(node, ast.If(going, orelse, [])), after)
        else:
            made += self.block(orelse, after, tail=False)
        return made

    def flagged(self, body: Sequence[ast.stmt], stop: str, skip: str) -> list[ast.stmt]:
        """Returns a body in which ``break`` and ``continue`` set flags."""
        made: list[ast.stmt] = []
        for number, node in enumerate(body):
            if isinstance(node, ast.Break):
                return [*made, assign(node, stop, True), assign(node, skip, True)]
            if isinstance(node, ast.Continue):
                return [*made, assign(node, skip, True)]
            if not leaves(node):
                made.append(node)
                continue
            if isinstance(node, ast.If):
                both = [self.flagged(each, stop, skip) for each in (node.body, node.orelse)]
                made.append(at(node, ast.If(node.test, both[0], both[1])))
            elif isinstance(node, ast.With):
                node.body = self.flagged(node.body, stop, skip) or [at(node, ast.Pass())]
                made.append(node)
            else:  # the else of a loop inside
                assert isinstance(node, ast.For | ast.While)
                node.orelse = self.flagged(node.orelse, stop, skip)
                made.append(node)
            if rest := self.flagged(body[number + 1 :], stop, skip):
                going = at(node, ast.UnaryOp(ast.Not(), load(skip)))
                made.append(at(node, ast.If(going, rest, [])))
            return made
        return made

    # -- expressions -----------------------------------------------------------------------------

    def expression(self, node: ast.expr) -> ast.expr:
        """Returns an expression whose truths and calls go through the library."""
        return Expressions(self.lists).visit(node)

    # -- pieces ----------------------------------------------------------------------------------

    def own(self, nodes: Sequence[ast.AST]) -> list[str]:
        """Returns the names that nodes assign and that are the function's variables, or globals
        that it declares."""
        return [n for n in self.changed(nodes) if n in self.variables or n in self.globals]

    def changed(self, nodes: Sequence[ast.AST]) -> list[str]:
        """Returns the names that nodes assign, and those that functions inside of this one do, if
        there are calls."""
        names = assigned(nodes)
        if self.inner and any(isinstance(n, ast.Call) for n in flat(nodes)):
            names += sorted(self.inner.difference(names))
        return names

    def name(self, word: str) -> str:
        self.count += 1
        return f"{word}·{self.count}"

    def call(self, node: ast.stmt, name: str, *arguments: ast.expr | list[str]) -> ast.stmt:
        values = [
            ast.Tuple([ast.Constant(name) for name in a], ast.Load()) if isinstance(a, list) else a
            for a in arguments
        ]
        return at(_head(node), ast.Expr(call(library(name), *values)))

    def define(
        self, node: ast.stmt, name: str, body: list[ast.stmt], names: Sequence[str], *args: str
    ) -> ast.stmt:
        """Returns the definition of a function that shares the variables ``names``."""
        heads: list[ast.stmt] = []
        shared = [n for n in names if n in self.variables]
        if shared:
            heads.append(ast.Nonlocal(shared))
        if outside := [n for n in names if n in self.globals]:
            heads.append(ast.Global(outside))
        parameters = ast.arguments([], [ast.arg(a) for a in args], None, [], [], None, [])
        whole = [*heads, *(body or [ast.Pass()])]
        function = ast.FunctionDef(name, parameters, whole, [], None, None)
        function.type_params = []  # pyright: ignore  # of Python 3.12 and newer
        return at(node, function)


def _head(node: ast.stmt) -> ast.AST:
    """Returns a place that is the first line of a statement. Python counts a call of several lines
    to the last of them."""
    head: ast.expr | ast.stmt = getattr(node, "iter", None) or getattr(node, "test", node)
    end = head.end_col_offset if head.end_lineno == node.lineno else node.col_offset + 1
    place = {"lineno": node.lineno, "col_offset": node.col_offset}
    return ast.Pass(**place, end_lineno=node.lineno, end_col_offset=end)
