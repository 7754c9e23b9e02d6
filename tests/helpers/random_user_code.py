"""Random functions as people write them: recursion, aliases, lists, slices, errors, small dtypes.

::

    python tests/helpers/random_user_code.py 0:1000     counts what came out, on all ISA levels

Python's result is the oracle, and so are the arrays that it leaves behind and the errors it raises.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from python_against_compiled import report
from random_captured import Writer

FLOATS, INTS = (np.float64, np.float32), (np.int64, np.int32)

_STORES = """
x[i % 6] += c
x[i % 6] = x[(i + 1) % 6] * 0.5
y[i % 8] += i
y[(i * 3) % 8] = y[i % 8] + 1
x[i % 3:i % 3 + 3] += 1
x[i % 6], x[0] = x[0], x[i % 6]
x[::-1] = x * 0.5 if c > 0 else x
y[:i % 8] -= 1
c = c + y[i % 8] * 0.25
x[-1] = -x[-1]
""".strip().split("\n")
"""Statements of the function that calls itself."""

_STATEMENTS = """
{float} = r({x|z|x}, y, {int} % 7, {number})
{float} = r({x|z|x}, y, {int} % 7, {number})
z = {x|x[1:4]|x[::-1]|x[::2]|x.copy()|x * 2|x[k % 3:]|x[2:2 + n % 3 + 1]}
z[{-1|0|1}] {=|+=|*=} {number}
z[:] {=|+=|*=} {number}
z {+=|*=} {number}
p[{-3|-1|0|2}] {=|+=} {number}
p.append({number})
p = [u * 2 for u in p]
b += sum(v for v in x)
b += sum(v for v in x if v > {number})
{float} = g({number})
y[{int} % 8] {=|+=|*=|-=} {int}
y[{int} % 8] += y[{int} % 8] * y[{int} % 8]
y[{int} % 8] = y[{int} % 8] {//|%|>>|<<|&|^} {3|7|9}
x[{slice}] {=|+=|*=|-=} {number}
x[{slice}] = x[{slice}].sum() {+|-|*} {number}
y[{slice}] += {int}
{float} = {name}
{name} = {int(|round(}{number}) % 50
{name} = y[{int} % 8] % 10
{float} = x[{int} % 6] if {test} else y[{int} % 8]
if {test}:;    raise {ValueError|IndexError|ZeroDivisionError}('no')
assert {test} or {test}
for v in {x|y|p|z|x[::-1]}:;    b += v;    if b > 9:;        {break|continue|return END}
x[{int} % 6], {float} = {number}, x[{int} % 6]
z = x[x > {number}]
x[x > {number}] = {number}
k = np.argmax({x|y|z})
q = np.zeros(6);for j in range({6|n % 7|20}):;    q[j % 6] = x[j % 6] * j;b += q.sum()
""".strip().split("\n")
"""Lines with choices in braces; ``;`` ends a line."""

_END = "a + b * 2, k, x.sum(), z.sum(), sum(p), y.sum()"


class _Wide(Writer):
    """Writes a function of a float array ``x``, an integer array ``y``, an int ``n`` and a float
    ``a``, and the functions that it calls."""

    def source(self) -> str:
        body = [*self.block(1, 0, False), *self.wide(1, 0), *self.block(1, 0, False)]
        begin = ["def f(x, y, n, a):", "    b = 0.0", "    k, m = 1, 2", "    z = x"]
        begin += ["    p = [a, 1.0, 2.5]", "    def g(u):", "        nonlocal b"]
        begin += [f"        b += {self.random.choice(['u', 'u * 0.5', '1'])}"]
        begin += ["        return u + b"]
        return "\n".join([*self.helpers(), *begin, *body, f"    return {_END}", ""])

    def helpers(self) -> list[str]:
        """Functions of the module: one that branches, and one that calls itself."""
        pick = self.random.choice
        lines = ["def h(v):", "    if v > 1:", "        return v - 1", "    return -v * 0.5", ""]
        lines += ["def r(x, y, i, c):", f"    if i {pick(['<= 0', '< 1'])}:"]
        lines += [f"        return {pick(['c', 'x[0]', '1', 'c + 1'])}"]
        if self.random.random() < 0.3:
            lines += [
                "    if x[i % 6] > 50:",
                f"        {pick(['return c', 'raise ValueError()'])}",
            ]
        lines += [f"    {pick(_STORES)}" for _ in range(self.random.randint(1, 2))]
        call = f"r(x, y, i - {pick('12')}, c * {pick(['0.5', '2.0', '1'])})"
        if self.random.random() < 0.4:
            lines += [f"    c = c + {call}", f"    {pick(_STORES)}"]
            return [*lines, f"    return {call} {pick('+-')} c", ""]
        lines += [f"    {pick(['return ', 'c = '])}{call}", f"    {pick(_STORES)}"]
        return [*lines, f"    return c {pick(['', '+ x[i % 6]', '- 1'])}", ""]

    def wide(self, indent: int, depth: int) -> list[str]:
        """Some lines that the plain generator does not write."""
        margin = "    " * indent
        match self.random.randrange(len(_STATEMENTS) + 3):
            case 0:
                return self.with_else(indent, depth)
            case 1:
                caught = self.random.choice(["ValueError", "IndexError"])
                handler = [f"{margin}except {caught}:", f"{margin}    b = 1.0"]
                return [f"{margin}try:", *self.wide(indent + 1, depth + 1), *handler]
            case 2:
                head = f"{margin}with np.errstate(all='ignore'):"
                return [head, *self.wide(indent + 1, depth + 1)]
            case number:
                text = re.sub(r"{(.*?)}", self.chosen, _STATEMENTS[number - 3])
                return [margin + line for line in text.split(";")]

    def chosen(self, choices: re.Match[str]) -> str:
        """Returns one of the choices between braces."""
        made = {
            "float": lambda: self.random.choice(self.floats),
            "name": lambda: self.random.choice(self.ints),
            "number": lambda: self.number(2),
            "int": lambda: self.integer(1),
            "test": lambda: self.test(1),
            "slice": self.piece,
        }
        choice = self.random.choice(choices[1].split("|"))
        return made[choice]() if choice in made else choice.replace("END", "b, k, x.sum(), 0, 0, 0")

    def piece(self) -> str:
        """A slice, whose bounds and step may be negative or traced."""
        pick, variable = self.random.choice, self.random.choice(self.ints)
        low = pick(["", "0", "1", "-3", f"{variable} % 4", f"-({variable} % 3)"])
        high = pick(["", "4", "6", "-1", f"{variable} % 6", f"{variable} % 3 + 2"])
        return f"{low}:{high}{pick(['', '', ':2', ':-1', ':-2'])}"

    def with_else(self, indent: int, depth: int) -> list[str]:
        """A loop with an ``else``, which a ``break`` or ``return`` leaves."""
        margin, name, pick = "    " * indent, self.new("w"), self.random.choice
        before, count = [f"{margin}{name} = 0"], [f"{margin}    {name} += 1"]
        head = f"{margin}while {name} < {pick(['n', '5'])}:"
        if self.random.random() < 0.5:
            head, before, count = f"{margin}for {name} in range({pick(['n', '3', '19'])}):", [], []
        outer, self.ints = self.ints, [*self.ints, name]
        body = [*count, *self.wide(indent + 1, depth + 1), f"{margin}    if {self.test(2)}:"]
        body.append(f"{margin}        {pick(['break', 'break', 'return a, k, x.sum(), 0, 0, 0'])}")
        self.ints = outer
        return [*before, head, *body, f"{margin}else:", *self.wide(indent + 1, depth + 1)]

    def statement(self, indent: int, depth: int, in_loop: bool) -> list[str]:
        if self.random.random() < 0.5:
            return self.wide(indent, depth)
        lines = super().statement(indent, depth, in_loop)
        return [re.sub(r"(return .*, x\.sum\(\))$", r"\1, 0, 0, 0", line) for line in lines]


def program(seed: int) -> tuple[str, list[Any]]:
    """Returns the program of a seed, and its arguments."""
    rng = np.random.default_rng(seed)
    args = [
        rng.normal(size=6).astype(FLOATS[seed % 3 == 0]),
        rng.integers(-9, 9, 8).astype(INTS[seed % 4 == 0]),
        np.int64(rng.integers(0, 25)),
        np.float64(rng.normal()),
    ]
    return _Wide(seed).source(), args


if __name__ == "__main__":
    report(program)
