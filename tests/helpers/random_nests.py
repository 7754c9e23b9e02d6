"""Random nests of loops over elements, as a textbook has them: Python's results against ours.

python tests/helpers/random_nests.py 0:1000
"""

from __future__ import annotations

import linecache
import random
import sys
from collections import Counter
from typing import Any

import loopwright as lw
import numpy as np

SIZES = {"a": (9,), "b": (9,), "c": (9, 9), "d": (9, 9), "k": (9,)}


class _Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.indices: list[str] = []

    def program(self) -> str:
        self.lines = ["def program(a, b, c, d, k):", "    s = 0.5", "    t = 0"]
        for _ in range(self.random.randint(1, 3)):
            self.loop(1, self.random.choice([1, 2, 2, 3]))
        self.lines.append("    return s, t")
        return "\n".join(self.lines) + "\n"

    def loop(self, depth: int, more: int) -> None:
        name = "ijl"[len(self.indices)]
        first = self.random.choice(["", "", "1, ", "2, "])
        if self.indices and self.random.random() < 0.15:
            first = f"{self.indices[-1]} + 1, "
        last = self.random.choice(["8", "7", "9", "len(a)", "8"])
        step = self.random.choice(["", "", "", ", 2"]) if first else ""
        bounds = f"{first}{last}{step}"
        if self.random.random() < 0.1:
            bounds = "7, 0, -1"
        self.lines.append("    " * depth + f"for {name} in range({bounds}):")
        self.indices.append(name)
        for _ in range(self.random.randint(0 if more > 1 else 1, 2)):
            self.statement(depth + 1)
        if more > 1:
            self.loop(depth + 1, more - 1)
            if self.random.random() < 0.3:
                self.statement(depth + 1)
        self.indices.pop()

    def place(self) -> str:
        index = self.random.choice(self.indices)
        kind = self.random.random()
        if kind < 0.55:
            return index
        if kind < 0.85:
            return f"{index} {self.random.choice(['+ 1', '- 1', '- 2', '+ 1'])}"
        return self.random.choice(["0", "3", "-1", f"2 * {index} % 9", "k[0]", f"k[{index}]"])

    def element(self) -> str:
        name = self.random.choice("aabccd")
        if name in "ab":
            return f"{name}[{self.place()}]"
        return f"{name}[{self.place()}, {self.place()}]"

    def value(self) -> str:
        kind = self.random.random()
        if kind < 0.5:
            return self.element()
        if kind < 0.7:
            return f"{self.element()} {self.random.choice('+-*')} {self.element()}"
        if kind < 0.8:
            return f"0.5 * {self.element()} + {self.random.choice(self.indices)}"
        if kind < 0.9:
            return self.random.choice(["1.0", "s", "0.25", "np.sin(" + self.element() + ")"])
        return f"max({self.element()}, {self.element()})"

    def statement(self, depth: int) -> None:
        pad = "    " * depth
        if self.random.random() < 0.2:
            sign = self.random.choice("<>")
            self.lines.append(pad + f"if {self.element()} {sign} {self.element()}:")
            pad += "    "
        kind = self.random.random()
        if kind < 0.45:
            self.lines.append(pad + f"{self.element()} = {self.value()}")
        elif kind < 0.75:
            sign = self.random.choice(["+=", "-=", "*=", "+="])
            self.lines.append(pad + f"{self.element()} {sign} 0.5 * ({self.value()})")
        elif kind < 0.95:
            self.lines.append(pad + f"s {self.random.choice(['+=', '-=', '='])} {self.value()}")
        else:
            self.lines.append(pad + "t += 1")


def text_of(seed: int) -> str:
    """Returns the program of a seed."""
    return _Writer(seed).program()


def run(seed: int, compiled: bool) -> Any:
    """Returns what the program of a seed gives, and what it has written; or its error."""
    text, name = text_of(seed), f"<nest {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"np": np, "__name__": "nests"}
    exec(compile(text, name, "exec"), space)
    rng = np.random.default_rng(seed)
    args = [rng.normal(size=shape) for shape in list(SIZES.values())[:4]]
    args.append(rng.integers(0, 9, 9))
    function = lw.compile(space["program"]) if compiled else space["program"]
    try:
        with np.errstate(all="ignore"):
            result = function(*args)
    except IndexError:
        return "IndexError"
    return [*map(np.asarray, result), *args]


def outcome(seed: int) -> str:
    """Returns ``right``, ``beyond`` (the numbers overflow), ``refused`` or how the two differ."""
    theirs = run(seed, compiled=False)
    try:
        ours = run(seed, compiled=True)
    except lw.LoopwrightError as error:
        return "refused" if "IndexError" not in str(error) else "error"
    if isinstance(theirs, str) or isinstance(ours, str):
        return "right" if isinstance(theirs, str) and isinstance(ours, str) else "different"
    if not all(np.all(np.abs(x) < 1e30) for x in theirs):
        return "beyond"
    for mine, other in zip(ours, theirs, strict=True):
        scale = max(float(np.max(np.abs(other))), 1.0)
        if mine.dtype != other.dtype or np.max(np.abs(mine - other)) > 1e-9 * scale:
            return "different"
    return "right"


def main() -> None:
    """Prints how often which outcome was seen, and the programs that differ."""
    first, last = map(int, sys.argv[1].split(":"))
    counts: Counter[str] = Counter()
    for seed in range(first, last):
        found = outcome(seed)
        counts[found] += 1
        if found not in ("right", "beyond"):
            print(seed, found, flush=True)
            if found == "different":
                print(text_of(seed), flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
