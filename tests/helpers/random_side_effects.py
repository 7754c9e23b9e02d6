"""Random programs whose loops and branches change what is outside of them: lists, dicts, counters,
attributes, arrays that were made before, generators.

    python tests/helpers/random_side_effects.py 0:1000

Each is run by Python and compiled. The compiled one gives what Python gives and leaves outside what
Python leaves there, or it is refused: never anything else.
"""

from __future__ import annotations

import copy
import linecache
import random
import sys
from collections import Counter
from typing import Any

import loopwright as lw
import numpy as np

HEAD = """
class Holder:
    def __init__(self):
        self.total = 0
        self.items = []

COUNT = [0]
total = 0

def f(x, n, a):
    global total
    listed, table, holder = [], {}, Holder()
    made = np.zeros(6)
    count, b = 0, a
    stream = iter(range(100))
    def bump(by):
        nonlocal count
        count += by
        return count
"""

EFFECTS = (
    "listed.append({e})",
    "listed += [{e}]",
    "table[{i}] = {e}",
    "table['k'] = table.get('k', 0) + 1",
    "holder.total += 1",
    "holder.total = {e}",
    "holder.items.append({i})",
    "COUNT[0] += 1",
    "COUNT[0] = {i}",
    "total += 1",
    "made[{i} % 6] = {e}",
    "made[{i} % 6] += 2",
    "made[1:4] = {e}",
    "x[{i} % 6] = {e}",
    "x[2] = 5",
    "count += 1",
    "count = bump(1)",
    "bump(2)",
    "b = next(stream)",
    "b = b + {e}",
    "b = max(b, {e})",
    "listed = [*listed, {i}]",
    "x = x + 1",
    "made = made * 2",
)

NUMBERS = ("a", "b", "{i}", "x[{i} % 6]", "1.5", "x.sum()", "count", "n")


class _Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops = 0

    def number(self, index: str) -> str:
        one, other = (self.random.choice(NUMBERS).format(i=index) for _ in range(2))
        return self.random.choice((one, f"{one} * {other}", f"({one} + {other})", f"-{one}"))

    def block(self, depth: int, index: str) -> None:
        space = "    " * depth
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.random()
            if kind < 0.55 or depth > 3:
                effect = self.random.choice(EFFECTS)
                self.lines.append(space + effect.format(i=index, e=self.number(index)))
            elif kind < 0.75:
                sign = self.random.choice(("<", ">", "==", ">="))
                self.lines.append(f"{space}if {self.number(index)} {sign} {self.number(index)}:")
                self.block(depth + 1, index)
                if self.random.random() < 0.4:
                    self.lines.append(f"{space}else:")
                    self.block(depth + 1, index)
            else:
                self.loops += 1
                name = f"i{self.loops}"
                over = self.random.choice(
                    ("range(20)", "range(n)", "range(3)", "x", "range(2, 25)")
                )
                if over == "x":
                    self.lines.append(f"{space}for {name}, y{self.loops} in enumerate(x):")
                else:
                    self.lines.append(f"{space}for {name} in {over}:")
                self.block(depth + 1, name)
                if self.random.random() < 0.3:
                    self.lines.append(f"{space}    if {self.number(name)} > 3:")
                    self.lines.append(f"{space}        {self.random.choice(('break', 'continue'))}")


def source_of(seed: int) -> str:
    """Returns the program of a seed."""
    writer = _Writer(seed)
    writer.block(1, "0")
    result = "    return b, count, x.sum(), made.sum(), len(listed), holder.total, len(table)"
    return "\n".join([HEAD.strip("\n"), *writer.lines, result, ""])


def _run(source: str, file: str, compiled: bool, args: list[Any]) -> list[Any]:
    """Returns what the program gives, and what it leaves outside."""
    space: dict[str, Any] = {"np": np, "__name__": "effects"}
    exec(compile(source, file, "exec"), space)
    function = lw.compile(space["f"], dynamic=False) if compiled else space["f"]
    with np.errstate(all="ignore"):
        result = function(*args)
    return [*map(float, result), *args[0], float(space["COUNT"][0]), float(space["total"])]


def outcome(seed: int) -> str:
    """Returns "right", "refused", "raises" (Python does) or "beyond" (the numbers are too large to
    compare) for the program of a seed; AssertionError with the source if it is wrong."""
    source, file = source_of(seed), f"<effects {seed}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    rng = np.random.default_rng(seed)
    args = [rng.normal(size=6), np.int64(rng.integers(0, 25)), np.float64(rng.normal())]
    try:
        expected = _run(source, file, False, copy.deepcopy(args))
    except Exception:
        return "raises"
    if not all(abs(value) < 1e12 for value in expected):  # nan is none of those
        return "beyond"
    try:
        found = _run(source, file, True, copy.deepcopy(args))
    except lw.LoopwrightError:
        return "refused"
    if not np.allclose(found, expected, rtol=1e-6, atol=1e-9):
        raise AssertionError(f"seed {seed}\n{source}\nfound {found}\nexpected {expected}")
    return "right"


if __name__ == "__main__":
    first, last = map(int, sys.argv[1].split(":"))
    print(dict(Counter(map(outcome, range(first, last)))))
