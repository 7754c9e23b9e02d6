"""Random programs whose loops and branches change what is outside of them: lists, dicts, counters,
attributes, globals, arrays that were made before, generators.

::

    python tests/helpers/random_side_effects.py 0:1000     counts what came out, on all ISA levels
    python tests/helpers/random_side_effects.py 17         shows one program

Each is run by Python and compiled. The compiled one gives what Python gives and leaves outside what
Python leaves there, or it is refused: never anything else.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from python_against_compiled import report

HEAD = """
class Holder:
    made = 0
    def __init__(self):
        self.total = 0
        self.items = []
        Holder.made += 1
    def add(self, v):
        self.total += v
        self.items.append(v)
        return self
    @property
    def size(self):
        self.total += 1
        return len(self.items)
    def __enter__(self):
        self.items.append(1)
        return self
    def __exit__(self, *error):
        self.total += 10

COUNT = [0]
TOTAL = 0
TABLE = np.arange(6.0)
KEPT = Holder()
SEEN = {}

def noted(v, into=[]):
    into.append(v)
    return len(into)

def stream_of(n):
    for i in range(n):
        COUNT[0] += 1
        yield i

def counted():
    global TOTAL, TABLE
    TOTAL += 1
    return TOTAL

def f(x, n, a):
    global TOTAL, TABLE
    listed, table, holder, seen, rows = [], {}, Holder(), set(), [[0, 1], [2, 3]]
    made, flags = np.zeros(6), np.zeros(6, bool)
    count, b = 0, a
    stream, lazy = iter(range(100)), (2 * u for u in range(100))
    generated = stream_of(100)
    def bump(by):
        nonlocal count
        count += by
        return count
    def collect(v):
        listed.append(v)
        return v
    def set_b(v):
        nonlocal b
        b = v
"""

EFFECTS = (
    "listed.append({e})",
    "listed += [{e}]",
    "listed.insert(0, {i})",
    "listed.extend([{i}, 2])",
    "listed[-1:] = [{e}]",
    "del listed[:1]",
    "listed = [*listed, {i}]",
    "listed and listed.pop()",
    "listed.clear()",
    "listed.sort(key=lambda u: 0)",
    "rows[{i} % 2].append({i})",
    "rows[1][0] += 1",
    "rows[0] = [{e}]",
    "table[{i}] = {e}",
    "table['k'] = table.get('k', 0) + 1",
    "table.setdefault({i}, []).append(1)",
    "table.update(u={e})",
    "table.pop('k', None)",
    "seen.add({i})",
    "seen |= {{{i} % 3}}",
    "SEEN[{i}] = 1",
    "holder.total += 1",
    "holder.total = {e}",
    "holder.items.append({i})",
    "holder.add({i})",
    "holder.last = {i}",
    "setattr(holder, 'total', {i})",
    "b = b + holder.size",
    "Holder.made += 1",
    "KEPT.total += 1",
    "KEPT.items.append({i})",
    "COUNT[0] += 1",
    "COUNT[0] = {i}",
    "COUNT.append({i})",
    "TOTAL += 1",
    "TOTAL = {i}",
    "count = counted()",
    "TABLE[{i} % 6] = {e}",
    "TABLE[1] += 1",
    "TABLE *= 2",
    "np.add(TABLE, 1, out=TABLE)",
    "made[{i} % 6] = {e}",
    "made[{i} % 6] += 2",
    "made[1:4] = {e}",
    "made[::2] = x[:3].copy()",
    "made.fill({e})",
    "made.sort()",
    "np.add.at(made, [0, 1, 0], 1)",
    "made.T[2] = 5",
    "made.reshape(2, 3)[1, {i} % 3] = 7",
    "flags[{i} % 6] = True",
    "made[flags] = 3",
    "x[{i} % 6] = {e}",
    "x[2] = 5",
    "x[1:3] = [1, 2]",
    "count += 1",
    "count = bump(1)",
    "bump(2)",
    "b = collect({e})",
    "set_b({e})",
    "b = {e} if {e} > 0 else bump(1)",
    "count += {e} > 0 and bump(1) > 3",
    "b = noted({i})",
    "b = next(stream, 0)",
    "b = next(lazy, 1)",
    "b = next(generated, 2)",
    "b = next(stream_of(3))",
    "b = sum(stream_of({i} % 5))",
    "b = sum(bump(1) for _ in range(3))",
    "b = [bump(u) for u in range(3)][-1]",
    "b = b + {e}",
    "b = max(b, {e})",
    "b, count = count, b",
    "(lambda: listed.append(1))()",
    "x = x + 1",
    "made = made * 2",
    "made = x",
    "del b; b = {e}",
    "while (count := count + 1) < {i}: made[0] += 1",
    "print(end='')",
)

BLOCKS = (
    "if {e} {sign} {e}:",
    "if {e} {sign} {e}:",
    "if bump(1) > {i}:",
    "with holder:",
    "try:",
    "for {new} in range({many}):",
    "for {new} in range({many}):",
    "for {new} in range({many}):",
    "for {new}, y{new} in enumerate(x):",
    "for {new} in stream:",
    "for {new} in generated:",
    "for {new} in stream_of({few}):",
    "for {new} in [*listed[:3], 1]:",
    "for {new} in list(table):",
    "{new} = 0;while {new} < {few}:;    {new} += 1",
    "while bump(1) < {few}:",
)
"""Heads of statements that have a body; ``;`` ends a line."""

NUMBERS = ("a", "b", "{i}", "x[{i} % 6]", "1.5", "x.sum()", "count", "n", "TABLE[{i} % 6]", "TOTAL")
RESULT = "b, count, x.sum(), made, listed, holder, table, sorted(seen, key=float), rows, flags"


class _Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops = 0

    def number(self, index: str) -> str:
        one, other = (self.random.choice(NUMBERS).format(i=index) for _ in range(2))
        return self.random.choice((one, f"{one} * {other}", f"({one} + {other})", f"-{one}"))

    def block(self, depth: int, index: str) -> None:
        space, pick = "    " * depth, self.random.choice
        for _ in range(self.random.randint(1, 3)):
            if self.random.random() < 0.55 or depth > 3:
                for effect in pick(EFFECTS).split("; "):
                    self.lines.append(space + effect.format(i=index, e=self.number(index)))
                continue
            self.compound(pick(BLOCKS), depth, index)

    def compound(self, head: str, depth: int, index: str) -> None:
        """Writes a statement with a body."""
        space, pick = "    " * depth, self.random.choice
        self.loops += "{new}" in head
        inner = f"i{self.loops}" if "{new}" in head else index
        parts = {"i": index, "new": inner, "sign": pick(("<", ">", "==", ">="))}
        parts |= {"many": pick(("20", "n", "3", "2, 25")), "few": pick(("3", "6", "n", "20"))}
        while "{e}" in head:
            head = head.replace("{e}", self.number(index), 1)
        self.lines += [space + line for line in head.format(**parts).split(";")]
        is_loop = head.startswith(("for", "while", "{new}"))
        if is_loop and ("stream:" in head or "generated:" in head):
            self.lines.append(f"{space}    if {inner} > {parts['few']}:")
            self.lines.append(f"{space}        break")
        self.block(depth + 1, inner)
        if is_loop and self.random.random() < 0.3:
            self.lines.append(f"{space}    if {self.number(inner)} > 3:")
            self.lines.append(f"{space}        {pick(('break', 'continue'))}")
        elif head == "try:":
            self.lines.append(space + pick(("finally:", "except IndexError:")))
            self.block(depth + 1, index)
        elif (is_loop or head.startswith("if")) and self.random.random() < 0.3:
            self.lines.append(f"{space}else:")
            self.block(depth + 1, index)


def program(seed: int) -> tuple[str, list[Any]]:
    """Returns the program of a seed, and its arguments."""
    writer = _Writer(seed)
    writer.block(1, "0")
    rng = np.random.default_rng(seed)
    args = [rng.normal(size=6), np.int64(rng.integers(0, 25)), np.float64(rng.normal())]
    return "\n".join([HEAD.strip("\n"), *writer.lines, f"    return {RESULT}", ""]), args


if __name__ == "__main__":
    report(program)
