"""Random programs with nested control flow, state and aliases, as Python text.

Every program runs in Python as it is, which is its meaning. Trips are few, ints stay small, floats
stay within 4, and no float decides where control goes, so that roundings do not grow.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import loopwright as lw
import numpy as np
from random_draw import Draw

__all__ = ["Program", "draw_control", "function_of", "mistake", "outcome", "smaller"]

Type: TypeAlias = tuple[str, tuple[int, ...]]
"""``i`` (int64) or ``f`` (float64), and a shape; an empty one is a scalar."""

INT, FLOAT = ("i", ()), ("f", ())
ARGUMENTS: dict[str, Type] = {
    "n": INT,
    "m": INT,
    "s": FLOAT,
    "a": ("f", (5,)),
    "b": ("f", (5,)),
    "k": ("i", (4,)),
    "p": ("f", (3, 4)),
}
TOLERANCE = 1e-7
_DEEPEST = 3


@dataclass
class Program:
    """The body of ``def program(n, m, s, a, b, k, p)``, and the seed of its arguments."""

    body: Group
    seed: int

    def __str__(self) -> str:
        return "\n".join([f"def program({', '.join(ARGUMENTS)}):", *self.body.text()])

    def arguments(self) -> list[Any]:
        """Returns new arguments, the same each time."""
        rng = np.random.default_rng(self.seed)
        made: list[Any] = []
        for kind, shape in ARGUMENTS.values():
            if kind == "i":
                value = rng.integers(-3, 8, shape)
            else:
                value = rng.uniform(-2.0, 2.0, shape)
            made.append(value if shape else value.item() if hasattr(value, "item") else value)
        return made


@dataclass
class Statement:
    """Lines that belong together: text, and Groups that are indented."""

    parts: list[str | Group]

    def text(self, indent: str) -> Iterator[str]:
        for part in self.parts:
            if isinstance(part, Group):
                yield from part.text(indent + "    ")
            else:
                yield indent + part


@dataclass
class Group:
    """The statements of a function's body; the last one returns."""

    statements: list[Statement] = field(default_factory=list)

    def text(self, indent: str = "    ") -> Iterator[str]:
        for statement in self.statements:
            yield from statement.text(indent)


def draw_control(draw: Draw, most: int = 6) -> Program:
    """Returns a program of up to ``most`` statements, each of which may have bodies of its own."""
    return _Writer(draw).program(most)


class _Writer:
    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.count = 0

    def program(self, most: int) -> Program:
        scope = dict(ARGUMENTS)
        body = self.body(scope, self.draw.between(2, most), 0)
        made = [name for name in scope if name not in ARGUMENTS]
        body.statements.append(Statement([f"return ({''.join(f'{v}, ' for v in made)})"]))
        return Program(body, self.draw.between(0, 10**6))

    def name(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def body(self, scope: dict[str, Type], count: int, depth: int) -> Group:
        """Draws statements; what they define is entered in ``scope``."""
        group = Group()
        for _ in range(count):
            kinds = [self.assign, self.assign, self.alias, self.write, self.write]
            if depth < _DEEPEST:
                kinds += [self.cond, self.while_loop, self.fori_loop, self.scan, self.map]
                kinds += [self.switch, self.recursion] if depth < 2 else []
            group.statements += self.draw.pick(kinds)(scope, depth)
        return group

    # -- plain statements

    def assign(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        type_ = self.any_type(scope)
        text, name = self.expression(scope, type_), self.name()
        scope[name] = type_
        return [Statement([f"{name} = {text}"])]

    def alias(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        source = self.draw.pick([n for n, (_, shape) in scope.items() if shape])
        kind, shape = scope[source]
        name = self.name()
        views = [("", shape), ("[::-1]", shape), (".copy()", shape)]
        if shape[0] > 2:
            views += [
                ("[1:]", (shape[0] - 1, *shape[1:])),
                ("[::2]", ((shape[0] + 1) // 2, *shape[1:])),
            ]
        if len(shape) == 2:
            views += [(".T", shape[::-1]), ("[1]", shape[1:]), ("[:, 0]", shape[:1])]
            views += [(".reshape(-1)", (shape[0] * shape[1],))]
        text, shape = self.draw.pick(views)
        scope[name] = kind, shape
        return [Statement([f"{name} = {source}{text}"])]

    def write(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        target = self.draw.pick([n for n, (_, shape) in scope.items() if shape])
        kind, shape = scope[target]
        sign = self.draw.pick(("=", "=", "+=", "*="))
        index, part = self.place(scope, shape)
        value = self.expression(scope, (kind, part if self.draw.between(0, 2) else ()))
        if sign == "+=" and kind == "i":
            sign, value = "=", f"({target}{index} + {value}) % 97"
        elif sign == "*=" and kind == "i":
            sign, value = "=", f"({target}{index} * {value}) % 97"
        elif sign == "+=":
            sign, value = "=", self.bounded(f"{target}{index} + {value}")
        elif sign == "*=":
            value = f"0.5 * np.sin({value})"
        if sign == "=" and self.draw.between(0, 9) == 0 and len(shape) == 1:
            return [Statement([f"{target}[{target} > 0] = {self.expression(scope, (kind, ()))}"])]
        return [Statement([f"{target}{index} {sign} {value}"])]

    def place(self, scope: dict[str, Type], shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        """Returns an index of an array of that shape, and the shape of what it selects."""
        n = shape[0]
        at = f"({self.integer(scope)}) % {n}"
        if len(shape) == 2:
            other = f"({self.integer(scope)}) % {shape[1]}"
            return self.draw.pick(
                [
                    (f"[{at}]", shape[1:]),
                    (f"[:, {other}]", shape[:1]),
                    (f"[{at}, {other}]", ()),
                    (f"[{at}, 1:]", (shape[1] - 1,)),
                    ("[1:]", (n - 1, *shape[1:])),
                    ("[:]", shape),
                ]
            )
        choices: list[tuple[str, tuple[int, ...]]] = [
            (f"[{at}]", ()),
            (f"[{at}]", ()),
            ("[:]", shape),
        ]
        choices += [("[1:]", (n - 1,)), ("[::2]", ((n + 1) // 2,))] if n > 1 else []
        return self.draw.pick(choices)

    # -- control flow

    def cond(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        results = [self.any_type(scope) for _ in range(self.draw.between(0, 2))]
        then, orelse = self.name("then"), self.name("orelse")
        parts: list[str | Group] = []
        operands, types = self.operands(scope)
        for name in (then, orelse):
            inner, params = dict(scope), []
            for type_ in types:
                params.append(self.name("x"))
                inner[params[-1]] = type_
            parts += [f"def {name}({', '.join(params)}):", self.returning(inner, results, depth)]
        call = ", ".join([self.boolean(scope), then, orelse, *operands])
        return [Statement([*parts, self.bound(scope, results, f"lw.cond({call})")])]

    def switch(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        results = [self.any_type(scope) for _ in range(self.draw.between(0, 2))]
        names = [self.name("case") for _ in range(self.draw.between(1, 3))]
        parts: list[str | Group] = []
        for name in names:
            parts += [f"def {name}():", self.returning(dict(scope), results, depth)]
        call = f"lw.switch({self.integer(scope)}, [{', '.join(names)}])"
        return [Statement([*parts, self.bound(scope, results, call)])]

    def while_loop(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        going, step = self.name("going"), self.name("step")
        carry, types = self.operands(scope)
        names = [self.name("c") for _ in [0, *types]]
        inner = {**scope, **dict(zip(names, [INT, *types]))}
        unpack = Statement([f"{', '.join(names)}, = c"])
        limit = f"{names[0]} < ({self.integer(scope)}) % 5"
        if self.draw.between(0, 1):
            limit = f"({limit}) & ({self.boolean(inner)})"
        body = self.returning(inner, types, depth, f"{names[0]} + 1, ")
        body.statements.insert(0, unpack)
        initial = "".join(f"{text}, " for text in ["0", *carry])
        types = [INT, *types]
        call = f"lw.while_loop({going}, {step}, ({initial}))"
        return [
            Statement(
                [
                    f"def {going}(c):",
                    Group([unpack, Statement([f"return {limit}"])]),
                    f"def {step}(c):",
                    body,
                    self.bound(scope, types, call),
                ]
            )
        ]

    def fori_loop(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        step, index = self.name("step"), self.name("i")
        carry, types = self.operands(scope)
        names = [self.name("c") for _ in types]
        inner = {**scope, index: INT, **dict(zip(names, types))}
        body = self.returning(inner, types, depth)
        if names:
            body.statements.insert(0, Statement([f"{', '.join(names)}, = c"]))
        low, high = (
            self.draw.pick(("0", "1", f"({self.integer(scope)}) % 3")),
            self.draw.pick(("3", f"({self.integer(scope)}) % 5")),
        )
        initial = f"({''.join(f'{text}, ' for text in carry)})"
        call = f"lw.fori_loop({low}, {high}, {step}, {initial})"
        parts: list[str | Group] = [
            f"def {step}({index}, c):",
            body,
            self.bound(scope, types, call),
        ]
        return [Statement(parts)]

    def scan(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        step, row = self.name("step"), self.name("x")
        carry, types = self.operands(scope)
        names = [self.name("c") for _ in types]
        source = self.draw.pick([n for n, (_, shape) in scope.items() if shape])
        kind, shape = scope[source]
        inner = {**scope, row: (kind, shape[1:]), **dict(zip(names, types))}
        output = self.any_type(inner)
        results = [*types, output]
        body = self.returning(inner, results, depth)
        returned = body.statements[-1]
        body.statements[-1] = Statement([f"*c, y = {_value_of(returned)}", "return tuple(c), y"])
        if names:
            body.statements.insert(0, Statement([f"{', '.join(names)}, = c"]))
        initial = f"({''.join(f'{text}, ' for text in carry)})"
        reverse = ", reverse=True" if self.draw.between(0, 3) == 0 else ""
        made = [self.name() for _ in types]
        stacked = self.name()
        scope.update(zip(made, types))
        scope[stacked] = output[0], (shape[0], *output[1])
        if len(scope[stacked][1]) > 2:
            del scope[stacked]
        target = f"({''.join(f'{name}, ' for name in made)})"
        call = f"{target}, {stacked} = lw.scan({step}, {initial}, {source}{reverse})"
        if not made:
            call = f"_, {stacked} = lw.scan({step}, (), {source}{reverse})"
        return [Statement([f"def {step}(c, {row}):", body, call])]

    def map(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        step, row = self.name("each"), self.name("x")
        source = self.draw.pick([n for n, (_, shape) in scope.items() if shape])
        kind, shape = scope[source]
        inner = {**scope, row: (kind, shape[1:])}
        output = self.draw.pick([INT, FLOAT])
        body = self.returning(inner, [output], depth)
        body.statements[-1] = Statement([f"return {_value_of(body.statements[-1])}[0]"])
        name = self.name()
        scope[name] = output[0], (shape[0], *output[1])
        return [Statement([f"def {step}({row}):", body, f"{name} = lw.map({step}, {source})"])]

    def recursion(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        """A function that calls itself once or twice, or as the last thing it does."""
        f, left, value = self.name("f"), self.name("left"), self.name("x")
        type_ = self.any_type(scope)
        inner = {**scope, left: INT, value: type_}
        deeper, base = self.name("deeper"), self.name("base")
        body = self.body(deeper_scope := dict(inner), self.draw.between(0, 2), depth + 2)
        again = f"{f}({left} - 1, {self.expression(deeper_scope, type_)})"
        kind = self.draw.between(0, 2)
        if kind and type_[0] == "f":
            again = self.bounded(f"{again} + {self.expression(deeper_scope, type_)}")
        elif kind:
            again = f"({again} + {self.expression(deeper_scope, type_)}) % 97"
        body.statements.append(Statement([f"return {again}"]))
        other = Group([Statement([f"return {self.expression(inner, type_)}"])])
        name, count = self.name(), self.integer(scope)
        start = self.expression(scope, type_)
        scope[name] = type_
        return [
            Statement(
                [
                    "@lw.function",
                    f"def {f}({left}, {value}):",
                    Group(
                        [
                            Statement([f"def {deeper}():", body]),
                            Statement([f"def {base}():", other]),
                            Statement([f"return lw.cond({left} > 0, {deeper}, {base})"]),
                        ]
                    ),
                    f"{name} = {f}(({count}) % 4, {start})",
                ]
            )
        ]

    def returning(
        self, scope: dict[str, Type], types: Sequence[Type], depth: int, first: str = ""
    ) -> Group:
        """A body that returns a tuple of values of these types, after ``first``."""
        group = self.body(scope, self.draw.between(0, 2), depth + 1)
        values = "".join(f"{self.expression(scope, t)}, " for t in types)
        group.statements.append(Statement([f"return ({first}{values})"]))
        return group

    def bound(self, scope: dict[str, Type], types: Sequence[Type], call: str) -> str:
        """The statement that gives names to the results of a call."""
        names = [self.name() for _ in types]
        scope.update(zip(names, types))
        return f"{''.join(f'{name}, ' for name in names)}= {call}" if names else call

    def operands(self, scope: dict[str, Type]) -> tuple[list[str], list[Type]]:
        types = [self.any_type(scope) for _ in range(self.draw.between(0, 3))]
        return [self.expression(scope, t, plain=True) for t in types], types

    # -- expressions

    def any_type(self, scope: dict[str, Type]) -> Type:
        return scope[self.draw.pick(list(scope))]

    def variable(self, scope: dict[str, Type], type_: Type) -> str | None:
        fits = [n for n, t in scope.items() if t == type_]
        if not fits:
            return None
        return fits[-1] if self.draw.between(0, 1) else self.draw.pick(fits)

    def boolean(self, scope: dict[str, Type]) -> str:
        left, right = self.integer(scope), self.integer(scope)
        sign = self.draw.pick(("<", "<=", "==", "!=", ">"))
        return f"{left} {sign} {right}"

    def integer(self, scope: dict[str, Type]) -> str:
        """A scalar int between -100 and 100."""
        return self.expression(scope, INT, plain=True)

    def expression(self, scope: dict[str, Type], type_: Type, plain: bool = False) -> str:
        """Text of a value of the type: mostly a variable if ``plain``, else mostly arithmetic."""
        kind, shape = type_
        if plain and self.draw.between(0, 3):
            return self.atom(scope, type_)
        x, y = self.atom(scope, type_), self.atom(scope, type_)
        if kind == "i":
            choices = [f"({x} + {y}) % 97", f"({x} * {y}) % 97", f"np.minimum({x}, {y})"]
            choices += [f"({x} - {y}) % 97", f"{x} // 3", f"np.maximum({x}, {y})"]
        else:
            choices = [self.bounded(f"{x} + {y}"), self.bounded(f"{x} * {y}"), f"np.sin({x})"]
            choices += [f"np.minimum({x}, {y})", f"0.5 * ({x} - {y})", f"np.maximum({x}, {y})"]
        choices.append(f"np.where({self.atom(scope, INT)} < {self.atom(scope, INT)}, {x}, {y})")
        if shape:
            scalar = self.atom(scope, (kind, ()))
            choices.append(f"({x} + {scalar}) % 97" if kind == "i" else f"0.5 * ({x} + {scalar})")
            choices.append(f"np.roll({x}, 1, axis=0)")
        else:
            arrays = [n for n, (k, s) in scope.items() if k == kind and len(s) == 1]
            if arrays:
                array = self.draw.pick(arrays)
                size = scope[array][1][0]
                choices.append(f"{array}[({self.atom(scope, INT)}) % {size}]")
                choices.append(f"{array}.sum() % 97" if kind == "i" else f"{array}.mean()")
                choices.append(f"{array}.max()")
        return self.draw.pick(choices)

    def atom(self, scope: dict[str, Type], type_: Type) -> str:
        name = self.variable(scope, type_)
        kind, shape = type_
        constant = str(self.draw.between(-2, 4)) if kind == "i" else self.draw.pick(("0.5", "-1.5"))
        if shape:
            return name or f"np.full({shape}, {constant})"
        return name if name and self.draw.between(0, 3) else constant

    def bounded(self, text: str) -> str:
        return f"np.minimum(np.maximum({text}, -4.0), 4.0)"


def _value_of(returned: Statement) -> str:
    (text,) = returned.parts
    assert isinstance(text, str)
    return text.removeprefix("return ")


def function_of(program: Program) -> Callable[..., Any]:
    """Returns the program as a function of NumPy's and our names; errors show its lines."""
    text = str(program)
    filename = f"<program {abs(hash(text))}>"
    linecache.cache[filename] = (len(text), None, [f"{t}\n" for t in text.split("\n")], filename)
    scope: dict[str, Any] = {"np": np, "lw": lw}
    exec(compile(text, filename, "exec"), scope)
    return scope["program"]


def outcome(function: Callable[..., Any], program: Program) -> list[np.ndarray[Any, Any]]:
    """Returns the results of a call, and what it made of its arguments."""
    arguments = program.arguments()
    results = function(*arguments)
    return [np.asarray(value) for value in (*results, *arguments)]


def mistake(got: Sequence[np.ndarray[Any, Any]], expected: Sequence[np.ndarray[Any, Any]]) -> str:
    """Returns how two outcomes differ, nothing if they do not."""
    if len(got) != len(expected):
        return f"{len(got)} results, not {len(expected)}"
    for number, (x, y) in enumerate(zip(got, expected)):
        name = f"value {number} of {len(expected)}"
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"{name} is {x.dtype}{list(x.shape)}, not {y.dtype}{list(y.shape)}"
        if not np.allclose(x, y, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
            return f"{name} is {x.tolist()}, not {y.tolist()}"
    return ""


def smaller(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Returns the program with as many statements and results left out as still fail.

    ``fails`` says whether a program that Python runs still fails.
    """
    improved = True
    while improved:
        improved = False
        for group in list(_groups(program.body)):
            for number in reversed(range(len(group.statements) - 1)):
                statement = group.statements.pop(number)
                if _runs(program) and fails(program):
                    improved = True
                else:
                    group.statements.insert(number, statement)
        last = program.body.statements[-1]
        names = _value_of(last).strip("()").replace(",", " ").split()
        for name in list(names):
            kept = [n for n in names if n != name]
            text = f"return ({''.join(f'{v}, ' for v in kept)})"
            program.body.statements[-1] = Statement([text])
            if kept != names and fails(program):
                names, last, improved = kept, program.body.statements[-1], True
            else:
                program.body.statements[-1] = last
    return program


def _groups(group: Group) -> Iterator[Group]:
    yield group
    for statement in group.statements:
        for part in statement.parts:
            if isinstance(part, Group):
                yield from _groups(part)


def _runs(program: Program) -> bool:
    try:
        outcome(function_of(program), program)
    except Exception:
        return False
    return True
