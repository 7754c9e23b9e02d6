"""Random functions with Python's control flow on traced values: Python's result is the oracle.

::

    python tests/helpers/random_captured.py 0:1000     counts what came out, on all ISA levels
    python tests/helpers/random_captured.py 17         shows one program
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from python_against_compiled import report


class Writer:
    """Writes one function of an array ``x``, an int ``n`` and a float ``a``."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.ints, self.floats = ["k", "m", "n"], ["a", "b"]

    def source(self) -> str:
        body = [*self.block(1, 0, False), *self.block(1, 0, False)]
        head = ["def h(v):", "    if v > 1:", "        return v - 1", "    return -v * 0.5", ""]
        begin = ["def f(x, n, a):", "    b = 0.0", "    k = 1", "    m = 2"]
        return "\n".join([*head, *begin, *body, "    return a + b * 2, k, x.sum()", ""])

    def number(self, depth: int = 0) -> str:
        pick = self.random.choice
        match self.random.randrange(12 if depth < 3 else 4):
            case 0:
                return pick(self.ints)
            case 1:
                return pick(self.floats)
            case 2:
                return str(self.random.randint(-3, 5))
            case 3:
                return pick(["0.5", "1.5", "-2.0"])
            case 4:
                return f"x[{self.index(depth)}]"
            case 5 | 6:
                left, right = self.number(depth + 1), self.number(depth + 1)
                return f"({left} {pick('+-*')} {right})"
            case 7:
                then, orelse = self.number(depth + 1), self.number(depth + 1)
                return f"({then} if {self.test(depth + 1)} else {orelse})"
            case 8:
                return f"{pick(['min', 'max'])}({self.number(depth + 1)}, {self.number(depth + 1)})"
            case 9:
                return f"abs({self.number(depth + 1)})"
            case 10:
                return f"h({self.number(depth + 1)})"
            case _:
                return f"np.{pick(['sin', 'cos', 'tanh'])}({self.number(depth + 1)})"

    def integer(self, depth: int = 0) -> str:
        pick = self.random.choice
        match self.random.randrange(5 if depth < 2 else 2):
            case 0:
                return pick(self.ints)
            case 1:
                return str(self.random.randint(-2, 4))
            case 2:
                return f"({self.integer(depth + 1)} {pick('+-*')} {self.integer(depth + 1)})"
            case 3:
                return f"({self.integer(depth + 1)} % {self.random.randint(2, 5)})"
            case _:
                return f"({self.integer(depth + 1)} // {self.random.randint(2, 4)})"

    def index(self, depth: int = 0) -> str:
        return f"({self.integer(depth + 1)}) % 6"

    def test(self, depth: int = 0) -> str:
        pick, number = self.random.choice, self.number
        match self.random.randrange(7) if depth < 3 else 0:
            case 3:
                both = self.test(depth + 1), self.test(depth + 1)
                return f"({both[0]}) {pick(['and', 'or'])} ({both[1]})"
            case 4:
                return f"not ({self.test(depth + 1)})"
            case 5:
                return f"{self.integer(depth + 1)} {pick(['==', '!='])} {self.integer(depth + 1)}"
            case 6:
                return f"{number(depth + 1)} < {number(depth + 1)} < {number(depth + 1)}"
            case _:
                return f"{number(depth + 1)} {pick(['<', '>', '<=', '>='])} {number(depth + 1)}"

    def block(self, indent: int, depth: int, in_loop: bool) -> list[str]:
        count = self.random.randint(1, 3)
        return [line for _ in range(count) for line in self.statement(indent, depth, in_loop)]

    def statement(self, indent: int, depth: int, in_loop: bool) -> list[str]:
        pick, margin = self.random.choice, "    " * indent
        match self.random.randrange(15 if depth < 3 else 6):
            case 0 | 1:
                return [f"{margin}{pick(self.floats)} = {self.number()}"]
            case 2:
                return [f"{margin}{pick(self.ints)} = {self.integer()}"]
            case 3:
                return [f"{margin}{pick(self.floats)} {pick(['+=', '-='])} {self.number()}"]
            case 4:
                sign = pick(["=", "+=", "*="])
                return [f"{margin}x[{self.index()}] {sign} {self.number()}"]
            case 5:
                return [f"{margin}{pick(self.ints)} += {self.random.randint(1, 3)}"]
            case 6:
                low = self.random.randint(0, 3)
                piece = f"x[{3 - low}:{6 - low}] * {self.number(2)}"
                return [f"{margin}x[{low}:{low + 3}] = {piece}"]
            case 7 | 8 | 9:
                return self.branch(indent, depth, in_loop)
            case 10 | 11 | 12:
                return self.for_loop(indent, depth, in_loop)
            case _:
                return self.while_loop(indent, depth)

    def branch(self, indent: int, depth: int, in_loop: bool) -> list[str]:
        margin = "    " * indent
        lines = [f"{margin}if {self.test()}:", *self.block(indent + 1, depth + 1, in_loop)]
        if in_loop and self.random.random() < 0.35:
            lines.append(f"{margin}    {self.random.choice(['break', 'continue'])}")
        elif self.random.random() < 0.12:
            lines.append(f"{margin}    return a + b * 2, k, x.sum()")
        if self.random.random() < 0.5:
            lines += [f"{margin}else:", *self.block(indent + 1, depth + 1, in_loop)]
        return lines

    def for_loop(self, indent: int, depth: int, in_loop: bool) -> list[str]:
        margin, name = "    " * indent, self.new("i")
        few, many = self.random.randint(0, 4), self.random.randint(17, 22)
        ranges = (few, many, "n", "1, n", "n, 0, -1", "k % 5")
        bounds = self.random.choice(ranges)
        body = self.inner(name, indent, depth)
        lines = [f"{margin}for {name} in range({bounds}):", *body]
        if self.random.random() < 0.2:
            lines += [f"{margin}else:", *self.block(indent + 1, depth + 1, in_loop)]
        return lines

    def while_loop(self, indent: int, depth: int) -> list[str]:
        margin, name = "    " * indent, self.new("w")
        test = f"{name} < {self.random.choice(['n', '3', '20'])} and {self.test()}"
        begin = [f"{margin}{name} = 0", f"{margin}while {test}:", f"{margin}    {name} += 1"]
        return [*begin, *self.inner(name, indent, depth)]

    def inner(self, name: str, indent: int, depth: int) -> list[str]:
        """Returns the body of a loop, in which ``name`` is an integer."""
        outer, self.ints = self.ints, [*self.ints, name]
        body = self.block(indent + 1, depth + 1, True)
        self.ints = outer
        return body

    def new(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"


def program(seed: int) -> tuple[str, list[Any]]:
    """Returns the program of a seed, and its arguments."""
    rng = np.random.default_rng(seed)
    args = [rng.normal(size=6), np.int64(rng.integers(0, 25)), np.float64(rng.normal())]
    return Writer(seed).source(), args


if __name__ == "__main__":
    report(program)
