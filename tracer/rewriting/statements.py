"""The user's own lines, rewritten with control flow on traced values.

A Python ``if``, ``while`` or ``for`` needs a value that is not known while tracing. The error for
that shows the statement as it would be with ``lw.cond``, ``lw.while_loop`` or ``lw.fori_loop``:

::

    while b != 0:                     a, b = lw.while_loop(condition, body, (a, b))
        a, b = b, a % b

The variables that a loop's body assigns, and that exist before, are its carry; those that branches
assign, and that are read later, are the results of both. What contains a ``return`` inside of a
loop, or assigns attributes, is not rewritten.
"""

from __future__ import annotations

import ast
import copy
import linecache
import textwrap
from collections.abc import Sequence
from types import FrameType, ModuleType

from ...ir.dataclass import dataclass
from ..core.spans import span_of
from .expressions import Aliases, Expressions, loads
from .statement_writer import (
    FUNCTIONS,
    CannotError,
    Writer,
    flat,
    holds,
    leaves_function,
    rest_after,
    stores,
)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """``text`` to stand in the place of the lines ``first`` to ``last``."""

    first: int
    last: int
    text: str


def rewritten(
    source: str, line: int, column: int, aliases: Aliases | None = None
) -> Rewritten | None:
    """Returns the statement of ``source`` whose condition or range stands at ``line`` and
    ``column`` (in bytes), rewritten; None if there is no such statement, or no rewrite of it."""
    try:
        chain = _chain(ast.parse(source), line, column)
        made = _statement(chain, aliases or Aliases())
        ast.parse(textwrap.dedent(made.text) if made else "")
    except (CannotError, SyntaxError, RecursionError):
        return None
    return made


def statement_in(frame: FrameType) -> str | None:
    """Returns the statement that a frame of the user's is at, rewritten with the names that its
    module gives to Loopwright and NumPy; None as ``rewritten``."""
    span = span_of(frame)
    source = "".join(linecache.getlines(frame.f_code.co_filename))
    names = frame.f_globals.items()
    modules = {value.__name__: name for name, value in names if isinstance(value, ModuleType)}
    aliases = Aliases(modules.get("loopwright", "lw"), modules.get("numpy", "np"))
    made = rewritten(source, span.line, max(span.column, 0), aliases)
    return made.text if made is not None else None


def _chain(tree: ast.AST, line: int, column: int) -> list[ast.AST]:
    """Returns the nodes around a place, from the module to the smallest."""
    chain, node = [tree], tree
    while True:
        inside = [n for n in ast.iter_child_nodes(node) if _covers(n, line, column)]
        if not inside:
            return chain
        node = inside[0]
        chain.append(node)


def _covers(node: ast.AST, line: int, column: int) -> bool:
    if not isinstance(node, ast.stmt | ast.expr | ast.comprehension | ast.ExceptHandler):
        return isinstance(node, ast.withitem | ast.keyword | ast.match_case) and any(
            _covers(n, line, column) for n in ast.iter_child_nodes(node)
        )
    if isinstance(node, ast.comprehension):
        return any(_covers(n, line, column) for n in ast.iter_child_nodes(node))
    end = node.end_lineno or node.lineno, node.end_col_offset or 0
    return (node.lineno, node.col_offset) <= (line, column) < end


def _statement(chain: Sequence[ast.AST], aliases: Aliases) -> Rewritten | None:
    """Rewrites the innermost statement of the chain that waits for a value."""
    places = [n for n, node in enumerate(chain) if isinstance(node, ast.stmt)]
    if not places:
        return None  # the source cannot be had: code of exec, or of a prompt
    at = places[-1]
    statement = chain[at]
    inside = chain[at + 1] if at + 1 < len(chain) else None
    if isinstance(statement, ast.If | ast.While) and inside in (statement.test, None):
        loop = _loop_of(chain[:at], statement) if isinstance(statement, ast.If) else None
        if loop is not None:
            statement, at = chain[loop], loop
    elif not (isinstance(statement, ast.For) and inside is statement.iter):
        return _expression(statement, chain[at + 1 :], aliases)
    function = next(n for n in reversed(chain[:at]) if isinstance(n, FUNCTIONS))
    writer = _writer(function, statement, chain[:at], aliases)
    rest = rest_after(chain[at - 1], statement)
    if isinstance(statement, ast.If):
        lines, used = writer.branch(statement, rest)
    elif isinstance(statement, ast.While):
        lines, used = writer.while_loop(statement), 0
    else:
        assert isinstance(statement, ast.For)
        lines, used = writer.for_loop(statement), 0
    last = rest[used - 1] if used else statement
    assert isinstance(statement, ast.stmt)
    return Rewritten(statement.lineno, last.end_lineno or last.lineno, "\n".join(lines))


def _loop_of(chain: Sequence[ast.AST], statement: ast.If) -> int | None:
    """Returns the place of the loop that a branch of ``statement`` leaves or goes on with."""
    if not leaves_function(statement):
        return None
    places = [n for n, node in enumerate(chain) if isinstance(node, ast.For | ast.While)]
    return places[-1] if places else None


def _expression(statement: ast.AST, chain: Sequence[ast.AST], aliases: Aliases) -> Rewritten | None:
    """Rewrites an expression that needs a truth: ``a if c else b``, ``a and b``, ``max(a, b)``."""
    assert isinstance(statement, ast.stmt)
    if any(isinstance(n, ast.stmt) for n in ast.iter_child_nodes(statement)):
        return None  # a with or match statement, the defaults of a function
    lambdas = any(isinstance(node, ast.Lambda) for node in chain)
    text = ast.unparse(Expressions(aliases, None, lambdas).visit(copy.deepcopy(statement)))
    if text == ast.unparse(statement):
        return None
    return Rewritten(statement.lineno, statement.end_lineno or statement.lineno, text)


def _writer(
    function: ast.AST, statement: ast.AST, chain: Sequence[ast.AST], aliases: Aliases
) -> Writer:
    """Returns the writer for a statement: which names exist before it, and which are read later."""
    assert isinstance(statement, ast.stmt)
    around = [n for n in chain if isinstance(n, ast.For | ast.While)]
    inner = chain.index(function)
    around = [n for n in around if chain.index(n) > inner]
    before: set[str] = set()
    if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        every = function.args
        named = [*every.posonlyargs, *every.args, *every.kwonlyargs, every.vararg, every.kwarg]
        before |= {a.arg for a in named if a is not None}
    body = getattr(function, "body", [])
    for node in flat(body):
        position = getattr(node, "lineno", 0)
        if position < statement.lineno or any(holds(loop, node) for loop in around):
            before |= set(stores([node], deep=False))
    last = statement.end_lineno or statement.lineno
    after = {
        n.id
        for n in ast.walk(function)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.lineno > last
    }
    for loop in around:
        after |= loads([loop])
    return Writer(aliases, before, after, set(), [0])
