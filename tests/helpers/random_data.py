"""Random programs on algebraic data types: families, values, and functions that match them.

Python itself is the other side: it runs the same classes and the same ``match`` statements.
Functions call themselves on parts of what they match alone, so all of them end.
"""

from __future__ import annotations

import linecache
import sys
import types
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np
from random_draw import RandomDraw

NUMBERS = ("float", "int", "lw.f32[3]")


@dataclass
class Constructor:
    name: str
    kinds: list[str]  # of its fields: NUMBERS, or the name of a family


@dataclass
class DataProgram:
    """The text of a program whose ``main`` takes one value, and the families of its types."""

    families: dict[str, list[Constructor]] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        heads = [f"@lw.data\nclass {name}: ..." for name in self.families]
        classes = [
            "\n    ".join(
                [f"class {c.name}({name}):", *(f"f{n}: {k}" for n, k in enumerate(c.kinds))]
            )
            + ("" if c.kinds else "\n    pass")
            for name, constructors in self.families.items()
            for c in constructors
        ]
        return "\n".join([*heads, *classes, *self.functions, ""])

    def run(self, name: str) -> dict[str, Any]:
        """Returns the variables of the program, as a file of this ``name``."""
        import loopwright as lw

        text = str(self)
        linecache.cache[name] = len(text), None, text.splitlines(True), name
        module = sys.modules[name] = types.ModuleType(name)
        vars(module).update(lw=lw, np=np)
        exec(compile(text, name, "exec"), vars(module))
        return vars(module)


def draw_data(draw: RandomDraw) -> DataProgram:
    """Draws a program."""
    return _Drawing(draw).program()


def draw_value(draw: RandomDraw, program: DataProgram, scope: dict[str, Any], family: str) -> Any:
    """Draws a value of a family; the deeper, the rarer are fields that are data."""
    return _value(draw, program, scope, family, draw.between(0, 4))


def _value(
    draw: RandomDraw, program: DataProgram, scope: dict[str, Any], family: str, depth: int
) -> Any:
    constructors = program.families[family]
    ends = [c for c in constructors if not any(k in program.families for k in c.kinds)]
    chosen = draw.pick(constructors if depth > 0 else ends)
    parts: list[Any] = []
    for kind in chosen.kinds:
        if kind in program.families:
            parts.append(_value(draw, program, scope, kind, depth - 1))
        elif kind == "float":
            parts.append(draw.between(-8, 8) / 4)
        elif kind == "int":
            parts.append(draw.between(-3, 5))
        else:
            parts.append(np.array([draw.between(-8, 8) / 4 for _ in range(3)], np.float32))
    return scope[chosen.name](*parts)


class _Drawing:
    def __init__(self, draw: RandomDraw) -> None:
        self.draw = draw
        self.made = DataProgram()
        self.names = 0

    def program(self) -> DataProgram:
        draw, families = self.draw, self.made.families
        for number in range(draw.between(1, 2)):
            families["AB"[number]] = []
        for name, constructors in families.items():
            for number in range(draw.between(2, 4)):
                known = [*NUMBERS, *families, *families] if number else [*NUMBERS]
                kinds = [draw.pick(known) for _ in range(draw.between(0, 3))]
                constructors.append(Constructor(f"{name}{number}", kinds))
        for name in families:
            for result in ("int", "float", "lw.f32[3]", name):
                self.function(name, result)
        twice = f"{_called('A', 'A')}(v)"
        if draw.between(0, 1):
            twice = f"{_called('A', 'A')}({twice})"
        results = [f"{_called('A', draw.pick([*NUMBERS]))}(v)", twice]  # each costs a compile
        given = draw.pick([results[:1], results[1:], results])
        self.made.functions.append(f"def main(v):\n    return {', '.join(given)},")
        return self.made

    def function(self, family: str, result: str) -> None:
        """Draws a function that matches a value of a family, with a case for each constructor."""
        lines = [f"def {_called(family, result)}(v):", "    match v:"]
        constructors = [*self.made.families[family]]
        constructors.sort(key=lambda _: self.draw.between(0, 1000))
        for constructor in constructors:
            for _ in range(self.draw.between(0, 2) // 2):
                lines += self.case(family, constructor, result, nested=True)
            lines += self.case(family, constructor, result, nested=False)
        if self.draw.between(0, 3) == 0:  # the last one takes what is left
            lines[-2] = "        case whole:"
            lines[-1] = f"            return {self.expression(result, {}, family)}"
        self.made.functions.append("\n".join(lines))

    def case(self, family: str, constructor: Constructor, result: str, nested: bool) -> list[str]:
        bound: dict[str, str] = {}
        pattern = self.pattern(constructor, bound, 2 if nested else 0)
        guard = ""
        if nested and (numbers := [n for n, k in bound.items() if k in ("int", "float")]):
            guard = f" if {self.draw.pick(numbers)} > {self.draw.between(-2, 2)}"
        body = self.expression(result, bound, family)
        return [f"        case {pattern}{guard}:", f"            return {body}"]

    def pattern(self, constructor: Constructor, bound: dict[str, str], depth: int) -> str:
        parts: list[str] = []
        for kind in constructor.kinds:
            if kind in self.made.families and depth and self.draw.between(0, 1):
                inner = self.draw.pick(self.made.families[kind])
                text = self.pattern(inner, bound, depth - 1)
                if self.draw.between(0, 2) == 0:
                    text += f" as {self.bind(bound, kind)}"
                parts.append(text)
            elif self.draw.between(0, 5) == 0:
                parts.append("_")
            else:
                parts.append(self.bind(bound, kind))
        return f"{constructor.name}({', '.join(parts)})"

    def bind(self, bound: dict[str, str], kind: str) -> str:
        self.names += 1
        name = f"x{self.names}"
        bound[name] = kind
        return name

    def expression(self, kind: str, bound: dict[str, str], family: str, depth: int = 2) -> str:
        """Draws an expression of a kind over what is bound."""
        draw = self.draw
        choices = [n for n, k in bound.items() if k == kind]
        choices += [f"{_called(k, kind)}({n})" for n, k in bound.items() if self.has(k, kind)]
        if kind in self.made.families:
            if depth and (not choices or draw.between(0, 1)):
                made = draw.pick(self.made.families[kind])
                return self.constructed(made, bound, family, depth - 1)
            if not choices:
                return self.constructed(self.made.families[kind][0], bound, family, 0)
            return draw.pick(choices)
        plain = {
            "int": str(draw.between(-3, 3)),
            "float": str(draw.between(-8, 8) / 4),
            "lw.f32[3]": f"np.full(3, {draw.between(-8, 8) / 4}, np.float32)",
        }[kind]
        if not depth or draw.between(0, 3) == 0:
            return draw.pick([*choices, plain])
        one, other = (self.expression(kind, bound, family, depth - 1) for _ in range(2))
        sign = "+" if kind == "int" else draw.pick(["+", "-", "*"])
        return f"({one} {sign} {other})"

    def has(self, family: str, result: str) -> bool:
        """True if there is a function from a family to a result."""
        return family in self.made.families and (result in NUMBERS or result == family)

    def constructed(self, made: Constructor, bound: dict[str, str], family: str, depth: int) -> str:
        parts = [self.expression(k, bound, family, depth) for k in made.kinds]
        return f"{made.name}({', '.join(parts)})"


def _called(family: str, result: str) -> str:
    return f"{family.lower()}_to_{result.replace('lw.f32[3]', 'row').lower()}"


def difference(one: Any, other: Any) -> str:
    """Says how a result differs from Python's; "" if it does not."""
    if isinstance(other, tuple):
        found = [difference(a, b) for a, b in zip(one, other, strict=True)]
        return next((f for f in found if f), "")
    if is_dataclass(other):
        if type(one) is not type(other):
            return f"{one!r} instead of {other!r}"
        pairs = [(getattr(one, f.name), getattr(other, f.name)) for f in fields(other)]
        return next((f for a, b in pairs if (f := difference(a, b))), "")
    close = np.allclose(one, other, rtol=1e-4, atol=1e-4, equal_nan=True)
    return "" if close else f"{one!r} instead of {other!r}"
