"""Python text of statements whose branches and loops are calls of lw.cond and lw.while_loop."""

from __future__ import annotations

import ast
import copy
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...ir.dataclass import dataclass
from .expressions import Aliases, Expressions, loads

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)

_OWN_NAMES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)

_KEPT = (
    ast.Return,
    ast.Yield,
    ast.YieldFrom,
    ast.Await,
    ast.Delete,
    ast.Try,
    ast.Global,
    ast.Nonlocal,
    ast.With,
    ast.Raise,
    ast.Assert,
)
"""Statements that mean something else inside of a function, or when they run once for all."""


class CannotError(Exception):
    """There is no rewrite that would mean the same."""


def leaves_function(node: ast.AST) -> bool:
    """True if there is a ``break`` or ``continue`` in it that is not of a loop inside of it."""
    if isinstance(node, ast.Break | ast.Continue):
        return True
    if isinstance(node, (ast.For, ast.While, *_OWN_NAMES)):
        return False
    return any(leaves_function(child) for child in ast.iter_child_nodes(node))


def rest_after(parent: ast.AST, statement: ast.AST) -> list[ast.stmt]:
    """Returns the statements after ``statement`` in its block."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and statement in block:
            return block[block.index(statement) + 1 :]
    return []


def flat(body: Iterable[ast.AST]) -> Iterable[ast.AST]:
    """All nodes that run in the function itself."""
    for node in body:
        yield node
        if not isinstance(node, _OWN_NAMES):
            yield from flat(ast.iter_child_nodes(node))


def holds(outer: ast.AST, node: ast.AST) -> bool:
    """True if ``node`` stands inside of ``outer``."""
    return any(n is node for n in ast.walk(outer))


def stores(nodes: Iterable[ast.AST], deep: bool = True) -> list[str]:
    """Returns the names that are assigned, in order. CannotError for attributes and others."""
    names: list[str] = []
    for node in nodes if not deep else flat(nodes):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names += [(a.asname or a.name).partition(".")[0] for a in node.names]
        elif deep and (isinstance(node, _KEPT) or _is_attribute(node)):
            raise CannotError
    return list(dict.fromkeys(names))


def _is_attribute(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)


def _indented(lines: Iterable[str]) -> list[str]:
    return [textwrap.indent(line, "    ") for line in lines]


def _tuple(names: Sequence[str]) -> str:
    return f"({', '.join(names)})" if len(names) != 1 else names[0]


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes statements as lines of Python.

    ``before`` are the names that exist, ``after`` those that are read later; ``traced`` those that
    certainly hold traced values (of the statement itself everything does); ``count`` numbers the
    functions that are defined.
    """

    aliases: Aliases
    before: set[str]
    after: set[str]
    traced: set[str]
    count: list[int]

    def block(self, statements: Sequence[ast.stmt]) -> list[str]:
        """Returns the lines of statements in a body, where those inside are rewritten as well."""
        lines: list[str] = []
        writer = self
        for number, statement in enumerate(statements):
            rest = statements[number + 1 :]
            if isinstance(statement, ast.If) and leaves_function(statement):
                return lines + writer.left(statement, rest)
            waits = writer.waits(statement)
            later = writer.after | loads(rest)
            inner = replace(writer, after=later)
            if waits and isinstance(statement, ast.If):
                lines += inner.branch(statement, [])[0]
            elif waits and isinstance(statement, ast.While):
                lines += inner.while_loop(statement)
            elif waits and isinstance(statement, ast.For):
                lines += inner.for_loop(statement)
            else:
                lines += writer.simple(statement).split("\n")
            stored = set(stores([statement]))
            mixed = stored if loads([statement]) & writer.traced else set[str]()
            writer = replace(writer, before=writer.before | stored, traced=writer.traced | mixed)
        return lines

    def waits(self, statement: ast.stmt) -> bool:
        """True if a statement inside of a rewritten one needs a traced value."""
        if isinstance(statement, ast.If | ast.While):
            return bool(loads([statement.test]) & self.traced)
        return isinstance(statement, ast.For) and bool(loads([statement.iter]) & self.traced)

    def simple(self, statement: ast.stmt) -> str:
        changed = Expressions(self.aliases, self.traced).visit(copy.deepcopy(statement))
        return ast.unparse(changed)

    def test(self, node: ast.expr) -> str:
        return ast.unparse(Expressions(self.aliases, None).visit(copy.deepcopy(node)))

    def named(self, name: str) -> str:
        """Returns a name for a function."""
        self.count[0] += 1
        number = (self.count[0] + 1) // 2
        return name if number == 1 else f"{name}_{number}"

    # Branches.

    def branch(self, statement: ast.If, rest: Sequence[ast.stmt]) -> tuple[list[str], int]:
        """Returns the lines for ``if``, and how many statements of the ``rest`` they contain."""
        test = self.test(statement.test)
        used = 0
        orelse = statement.orelse
        if any(isinstance(n, ast.Return) for n in flat([statement])):
            if not orelse:
                orelse, used = list(rest), len(rest)
            return self.returned(test, statement.body, orelse), used
        both = [*statement.body, *orelse]
        stored = stores(both)
        names = [n for n in stored if n in self.after]
        for branch in (statement.body, orelse):
            if any(n not in self.before and n not in stores(branch) for n in names):
                raise CannotError
        inner = replace(
            self, traced=self.traced | loads([statement.test]) | set(stored), after=set(names)
        )
        short = [inner.single(branch, names) for branch in (statement.body, orelse)]
        if len(names) == 1 and None not in short:
            then, otherwise = short
            call = f"cond({test}, lambda: {then}, lambda: {otherwise})"
            return [f"{names[0]} = {self.aliases.loopwright}.{call}"], 0
        operands = [n for n in stored if n in self.before and (n in names or n in loads(both))]
        labels = self.named("then"), self.named("otherwise")
        lines = inner.defined(labels[0], operands, statement.body, names)
        second = labels[1]
        if orelse:
            lines += inner.defined(second, operands, orelse, names)
        else:
            given = ", ".join(operands)
            second = f"lambda{' ' if given else ''}{given}: {_tuple(names) if names else None}"
        arguments = ", ".join([test, labels[0], second, *operands])
        target = f"{', '.join(names)} = " if names else ""
        return [*lines, f"{target}{self.aliases.loopwright}.cond({arguments})"], 0

    def single(self, branch: Sequence[ast.stmt], names: Sequence[str]) -> str | None:
        """Returns the value that a branch gives its one name, if that is all that it does."""
        if not branch:
            return names[0] if len(names) == 1 else None
        if len(branch) != 1 or len(names) != 1:
            return None
        (statement,) = branch
        value: ast.expr | None = None
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            if isinstance(statement.targets[0], ast.Name):
                value = statement.value
        elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            load = ast.Name(statement.target.id, ast.Load())
            value = ast.BinOp(load, statement.op, statement.value)
        if value is None:
            return None
        changed = Expressions(self.aliases, self.traced).visit(copy.deepcopy(value))
        return ast.unparse(ast.fix_missing_locations(changed))

    def defined(
        self, name: str, params: Sequence[str], body: Sequence[ast.stmt], results: Sequence[str]
    ) -> list[str]:
        """Returns the definition of a branch."""
        lines = self.block(body)
        if results:
            lines = [*lines, f"return {', '.join(results)}"]
        return [f"def {name}({', '.join(params)}):", *_indented(lines)]

    def returned(
        self, test: str, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]
    ) -> list[str]:
        """Returns the lines for an ``if`` both of whose branches return."""
        values: list[str] = []
        lines: list[str] = []
        for label, branch in (("then", body), ("otherwise", orelse)):
            if not branch or not isinstance(branch[-1], ast.Return | ast.If):
                raise CannotError
            if isinstance(branch[-1], ast.Return) and branch[-1].value is None:
                raise CannotError
            if len(branch) == 1 and isinstance(branch[0], ast.Return):
                values.append(f"lambda: {self.simple(branch[0]).removeprefix('return ')}")
                continue
            last = branch[-1]
            inner = list(branch[:-1])
            if any(isinstance(n, ast.Return) for s in inner for n in flat([s])):
                raise CannotError
            assigned = [n for n in stores(inner) if n in self.before and n in loads(branch)]
            if assigned:
                raise CannotError
            name = self.named(label)
            part = replace(self, traced=self.traced | loads(branch), after=loads([last]))
            text = part.block(inner)
            if isinstance(last, ast.If):
                text += part.branch(last, [])[0]
            else:
                text += [self.simple(last)]
            lines += [f"def {name}():", *_indented(text)]
            values.append(name)
        call = f"cond({test}, {values[0]}, {values[1]})"
        return [*lines, f"return {self.aliases.loopwright}.{call}"]

    # Loops.

    def carry(self, body: Sequence[ast.stmt], read: set[str]) -> list[str]:
        """Returns the names that the iterations of a loop hand on."""
        stored = stores(body)
        if any(n not in self.before and n in self.after for n in stored):
            raise CannotError
        used = read | loads(body) | self.after
        return [n for n in stored if n in self.before and n in used]

    def left(self, statement: ast.If, rest: Sequence[ast.stmt]) -> list[str]:
        """Returns the lines for ``if c: break`` or ``if c: continue``, and for the rest of the
        body, which only runs otherwise."""
        (jump, *more), orelse = statement.body, statement.orelse
        if more or orelse or not isinstance(jump, ast.Break | ast.Continue):
            raise CannotError
        opposite = ast.UnaryOp(ast.Not(), statement.test)
        lines: list[str] = []
        condition: ast.expr = opposite
        if isinstance(jump, ast.Break):
            lines = [f"going = {self.test(opposite)}"]
            condition = ast.Name("going", ast.Load())
        if rest:
            conditional = ast.If(condition, list(rest), [])
            ast.fix_missing_locations(conditional)
            lines += self.branch(conditional, [])[0]
        return lines

    def while_loop(self, statement: ast.While) -> list[str]:
        """Returns the lines for ``while``."""
        if statement.orelse:
            raise CannotError
        carry = self.carry(statement.body, loads([statement.test]))
        test = self.test(statement.test)
        start = list(carry)
        lines: list[str] = []
        if any(leaves_function(s) for s in statement.body):
            always = isinstance(statement.test, ast.Constant) and statement.test.value
            test = "going" if always else f"{self.aliases.numpy}.logical_and(going, {test})"
            carry, start = [*carry, "going"], [*start, "True"]
        lines += self.looped(test, carry, start, statement.body, [])
        return lines

    def looped(
        self,
        test: str,
        carry: list[str],
        start: list[str],
        body: Sequence[ast.stmt],
        end: list[str],
    ) -> list[str]:
        """Returns the lines of a ``while_loop`` with that carry; ``end`` ends its body."""
        if not carry:
            raise CannotError
        inner = replace(
            self,
            before=self.before | set(carry),
            after=set(carry),
            traced=self.traced | set(carry),
        )
        text = [*inner.block(body), *end]
        target = f"{', '.join(carry)} = "
        name = self.aliases.loopwright
        if len(carry) == 1:
            single = inner.single(body, carry) if not end else None
            condition = f"lambda {carry[0]}: {test}"
            if single is not None:
                call = f"while_loop({condition}, lambda {carry[0]}: {single}, {start[0]})"
                return [f"{target}{name}.{call}"]
            label = self.named("body")
            lines = [f"def {label}({carry[0]}):", *_indented([*text, f"return {carry[0]}"])]
            return [*lines, f"{target}{name}.while_loop({condition}, {label}, {start[0]})"]
        names = ", ".join(carry)
        first, second = self.named("condition"), self.named("body")
        return [
            f"def {first}(carry):",
            *_indented([f"{names} = carry", f"return {test}"]),
            f"def {second}(carry):",
            *_indented([f"{names} = carry", *text, f"return {names}"]),
            f"{target}{name}.while_loop({first}, {second}, {_tuple(start)})",
        ]

    def for_loop(self, statement: ast.For) -> list[str]:
        """Returns the lines for ``for i in range(...)``."""
        iterated, target = statement.iter, statement.target
        is_range = (
            isinstance(iterated, ast.Call)
            and isinstance(iterated.func, ast.Name)
            and iterated.func.id == "range"
            and not iterated.keywords
            and 1 <= len(iterated.args) <= 2
        )
        if not is_range or not isinstance(target, ast.Name) or statement.orelse:
            raise CannotError
        assert isinstance(iterated, ast.Call)
        limits = ["0", *map(self.test, iterated.args)][-2:]
        index = target.id
        if index in self.after:
            raise CannotError
        writer = replace(self, before=self.before | {index})
        carry = [n for n in writer.carry(statement.body, set()) if n != index]
        if index in stores(statement.body):
            raise CannotError
        if any(leaves_function(s) for s in statement.body):
            test = f"{self.aliases.numpy}.logical_and(going, {index} < {limits[1]})"
            names = [index, *carry, "going"]
            step = [f"{index} = {index} + 1"]
            start = [limits[0], *carry, "True"]
            return writer.looped(test, names, start, statement.body, step)
        inner = replace(
            writer,
            before=writer.before | set(carry),
            after=set(carry),
            traced=self.traced | set(carry) | {index},
        )
        name = self.aliases.loopwright
        call = f"{name}.fori_loop({limits[0]}, {limits[1]}, "
        assigned = f"{', '.join(carry)} = " if carry else ""
        if len(carry) == 1 and (single := inner.single(statement.body, carry)) is not None:
            return [f"{assigned}{call}lambda {index}, {carry[0]}: {single}, {carry[0]})"]
        label = self.named("body")
        text = inner.block(statement.body)
        if len(carry) == 1:
            param, text = carry[0], [*text, f"return {carry[0]}"]
        elif carry:
            names = ", ".join(carry)
            param, text = "carry", [f"{names} = carry", *text, f"return {names}"]
        else:
            param = "_"
        lines = [f"def {label}({index}, {param}):", *_indented(text)]
        return [*lines, f"{assigned}{call}{label}, {_tuple(carry) if carry else None})"]
