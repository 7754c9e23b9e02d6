"""Random functions of all of Python's constructs, drawn from a grammar.

::

    python tests/helpers/random_constructs.py 0:10000       counts what came out, on all ISA levels
    python tests/helpers/random_constructs.py 17            shows one program

A kind of statement or expression is one alternative of ``GRAMMAR``; it is drawn once it stands
there. ``python_against_compiled`` says what is compared.
"""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
from python_against_compiled import report
from python_grammar import BEGIN, END, GRAMMAR, HELPERS, INNER, LITERALS

DEEPEST = 3
"""Depth of expressions, from which on only the first alternatives are drawn."""

NESTED = 2
"""Depth of blocks, from which on statements have none of their own."""

RULES = {name: text.strip().split("\n") for name, text in GRAMMAR.items()}

NUMBERS = (np.int64, int, np.int64, np.int32), (np.float64, float, np.float64, np.float32)
"""Kinds of ``n`` and of ``a``."""

FLOATS, INTS = (np.float64, np.float32), (np.int64, np.int64, np.int32, np.int16)
"""Dtypes of ``x`` and ``w``, and of ``y``."""


class Writer:
    """Writes the function ``f(x, y, w, n, a)`` of a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.ints = ["k", "m", "n"]
        self.drawn: set[str] = set()
        self.newest: dict[str, str] = {}
        self.is_known = True

    def source(self) -> str:
        lines = [*BEGIN.strip().split("\n"), *INNER.strip().split("\n")]
        lines += self.statement(0) + self.nested(0) + self.statement(0)
        body = "\n    ".join([*lines, END])
        return f"{HELPERS}\ndef f(x, y, w, n, a):\n    {body}\n"

    def statement(self, depth: int) -> list[str]:
        known = self.is_known and self.random.random() < 0.5
        return self.lines(self.alternative("known" if known else "statement"), depth)

    def nested(self, depth: int) -> list[str]:
        return self.lines(self.alternative("nested"), depth)

    def alternative(self, name: str, leaf: bool = False) -> str:
        rules = RULES[name]
        text = self.random.choice(rules[:3] if leaf else rules)
        self.drawn.add(text)
        return text

    def lines(self, text: str, depth: int) -> list[str]:
        """Returns the lines of the program that a text stands for."""
        made: list[str] = []
        # What follows an ``if`` that returns runs only if it does not.
        self.is_known = self.is_known and "return {result}" not in text
        for line in text.split(";"):
            margin = line[: len(line) - len(line.lstrip())]
            match = re.fullmatch(r"{((?:block|known|loop|line|nest)(?: \w)?)}", line.strip())
            inner = self.block(match[1], depth) if match else [self.filled(line.strip(), 0)]
            made += [margin + each for each in inner]
        return made

    def block(self, kind: str, depth: int) -> list[str]:
        if kind == "line" or (kind == "nest" and depth >= NESTED):
            return self.statement(depth)
        if kind == "nest":
            return self.nested(depth)
        outer = self.ints, dict(self.newest), self.is_known
        if " " in kind:
            self.ints = [*self.ints, self.newest[kind[-1]]]
        self.is_known = self.is_known and kind.startswith("known")
        made = self.lines(self.alternative("block", leaf=depth >= NESTED), depth + 1)
        self.ints, self.newest, self.is_known = outer
        return made

    def filled(self, text: str, depth: int) -> str:
        """Returns a text in which what stands in braces is drawn."""
        while (start := text.find("{")) >= 0:
            end, level = start, 0
            while True:
                level += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
                if not level:
                    break
            inside = text[start + 1 : end - 1]
            text = text[:start] + self.drawn_for(inside, depth).replace("{", "\0") + text[end:]
        return text.replace("\0", "{")

    def drawn_for(self, inside: str, depth: int) -> str:
        if inside in ("ints", "floats"):
            return self.random.choice(self.ints if inside == "ints" else ["a", "b"])
        if inside.startswith("new "):
            self.count += 1
            self.newest[inside[4:]] = f"{inside[4:]}{self.count}"
            return self.newest[inside[4:]]
        if inside in self.newest:
            return self.newest[inside]
        if inside in LITERALS:
            return self.random.choice(LITERALS[inside].split())
        if inside in RULES:
            leaf = depth >= DEEPEST or self.random.random() < 0.4
            leaf = leaf and inside in ("int", "number", "test")
            return self.filled(self.alternative(inside, leaf), depth + 1)
        return self.filled(self.random.choice(_choices(inside)), depth)


def _choices(text: str) -> list[str]:
    """Returns the parts of a text between ``|`` that stand outside of braces."""
    parts, level = [""], 0
    for letter in text:
        level += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "|" and not level:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def program(seed: int) -> tuple[str, list[Any]]:
    """Returns the program of a seed, and its arguments."""
    rng = np.random.default_rng(seed)
    floats, ints = FLOATS[seed % 4 == 0], INTS[seed % len(INTS)]
    x, w = rng.normal(size=6).astype(floats), rng.normal(size=(3, 4)).astype(floats)
    y = rng.integers(-9, 9, 8).astype(ints)
    (n, a), kinds = (rng.integers(0, 25), rng.normal()), map(rng.choice, map(len, NUMBERS))
    numbers = [NUMBERS[i][kind](v) for i, (kind, v) in enumerate(zip(kinds, (n, a)))]
    return Writer(seed).source(), [x, y, w, *numbers]


if __name__ == "__main__":
    report(program)
