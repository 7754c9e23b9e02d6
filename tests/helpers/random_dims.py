"""Random statements about integer expressions, with what plain arithmetic says of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from loopwright.ir.dim_normal import replace_atoms
from loopwright.ir.dim_proofs import prove
from loopwright.ir.dims import (
    IntExpr,
    bounds,
    evaluate,
    floordiv,
    int_max,
    int_min,
    mod,
    resolve,
    size,
    symbol,
)

Tree: TypeAlias = "int | str | tuple[str, Tree, Tree]"

RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
NUMBERS = (0, 1, 1, 2, 2, 3, 4, 4, 5, 7, 8, 8, 12, 16, 31, 32, -1, -2, -3, -8)
SIZES: tuple[tuple[int, int] | None, ...] = (
    None,
    None,
    (0, 2**31 - 1),
    (1, 4096),
    (1, 2**31 - 1),
    (0, 7),
    (3, 3),
    (-5, 9),
    (17, 512),
    (-100, -1),
)
PLACES = 12
"""Values at which each statement is evaluated."""


@dataclass
class Statement:
    left: Tree
    relation: str
    right: Tree
    ranges: dict[str, tuple[int, int] | None]
    loop: tuple[str, Tree] | None
    """A symbol from 0 to below an expression."""


def draw_statement(rng: random.Random) -> Statement:
    names = rng.sample("nmki", rng.randint(1, 3))
    ranges = {name: rng.choice(SIZES) for name in names}
    left = _draw(rng, names, rng.randint(1, 4))
    # Unrelated sides are hardly ever provable: the right side is mostly a changed left one.
    right = _draw(rng, names, rng.randint(0, 3))
    for _ in range(rng.choice((0, 0, 1, 1, 1, 2, 2, 3))):
        right = _changed(rng, left, names)
    loop = None
    if rng.random() < 0.2:
        loop = (rng.choice(names), _draw(rng, [n for n in names if n != names[0]], 2))
        if loop[0] in str(loop[1]):
            loop = None
    return Statement(left, rng.choice(list(RELATIONS)), right, ranges, loop)


def _draw(rng: random.Random, names: list[str], depth: int) -> Tree:
    if depth == 0 or not names or rng.random() < 0.2:
        return rng.choice(names) if names and rng.random() < 0.7 else rng.choice(NUMBERS)
    op = rng.choice(("+", "+", "-", "*", "//", "//", "%", "min", "max"))
    left = _draw(rng, names, depth - 1)
    if op in ("//", "%") and rng.random() < 0.75:
        return (op, left, rng.choice([x for x in NUMBERS if x]))
    return (op, left, _draw(rng, names, depth - 1))


def _changed(rng: random.Random, tree: Tree, names: list[str]) -> Tree:
    """The tree with something done to one of its nodes; often its value stays."""
    if isinstance(tree, tuple) and rng.random() < 0.6:
        op, a, b = tree
        if rng.random() < 0.5:
            return (op, _changed(rng, a, names), b)
        return (op, a, _changed(rng, b, names)) if op not in ("//", "%") else (op, a, b)
    other = _draw(rng, names, 1)
    positive = rng.choice((1, 2, 3, 4, 8, *names))
    return rng.choice(
        (
            ("+", tree, rng.choice((1, -1, 2, 8))),
            ("-", ("+", tree, other), other),
            ("+", ("*", ("//", tree, positive), positive), ("%", tree, positive)),
            ("//", ("*", tree, positive), positive),
            ("*", ("//", tree, positive), positive),
            ("//", ("+", tree, ("-", positive, 1)), positive),
            ("min", tree, ("+", tree, other)),
            ("max", tree, ("min", tree, other)),
            ("-", ("+", tree, other), ("min", tree, other)),
            ("max", tree, other),
            ("%", tree, positive),
            ("//", tree, positive),
            ("*", tree, positive),
            ("-", 0, ("//", ("-", 0, tree), 1)),
        )
    )


def built(tree: Tree, ranges: Mapping[str, tuple[int, int] | None]) -> IntExpr:
    """The expression; sizes for symbols that have a range."""
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        own = ranges[tree]
        return symbol(tree) if own is None else size(tree, *own)
    op, a, b = tree[0], built(tree[1], ranges), built(tree[2], ranges)
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//":
            return floordiv(a, b)
        case "%":
            return mod(a, b)
        case "min":
            return int_min(a, b)
    return int_max(a, b)


def computed(tree: Tree, values: Mapping[str, int]) -> int:
    """The value by plain arithmetic; ZeroDivisionError if there is none."""
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return values[tree]
    op, a, b = tree[0], computed(tree[1], values), computed(tree[2], values)
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//":
            return a // b
        case "%":
            return a % b
        case "min":
            return min(a, b)
    return max(a, b)


def draw_values(rng: random.Random, statement: Statement) -> dict[str, int] | None:
    """Values in the ranges: at their ends, near zero, or anywhere. None if a loop is empty."""
    values: dict[str, int] = {}
    for name, own in statement.ranges.items():
        low, high = own or (-(10**6), 10**6)
        kind = rng.random()
        if kind < 0.2:
            value = rng.choice((low, high, low + 1, high - 1))
        elif kind < 0.75:
            value = (low if own else 0) + rng.randint(-10 if not own else 0, 20)
        else:
            value = rng.randint(low, high)
        values[name] = max(low, min(high, value))
    if statement.loop is not None:
        name, end = statement.loop
        try:
            stop = computed(end, values)
        except ZeroDivisionError:
            return None
        if stop <= 0:
            return None
        values[name] = rng.choice((0, stop - 1, rng.randrange(stop)))
    return values


def verdict(rng: random.Random, statement: Statement) -> tuple[bool | None, str]:
    """What ``prove`` says of a statement, and what is wrong with that or with a normal form."""
    ranges = dict(statement.ranges)
    loops: dict[str, tuple[IntExpr, IntExpr]] = {}
    try:
        if statement.loop is not None:
            name, end = statement.loop
            ranges[name] = None
            loops[name] = 0, built(end, ranges) - 1
        left, right = built(statement.left, ranges), built(statement.right, ranges)
        proved = prove(left, statement.relation, right, loops)
        normal = replace_atoms(left, {})
        within = {n: (e[0], e[1]) for n, e in loops.items() if all(isinstance(x, int) for x in e)}
        resolved = resolve(left, within)
    except ZeroDivisionError:
        return None, ""
    reach = bounds(left, within)
    for _ in range(PLACES):
        values = draw_values(rng, statement)
        if values is None:
            continue
        try:
            a, b = computed(statement.left, values), computed(statement.right, values)
        except ZeroDivisionError:
            continue
        if proved is not None and RELATIONS[statement.relation](a, b) != proved:
            return proved, f"{statement}: proved {proved} at {values}: {a} and {b}"
        for expr in (left, resolved, normal):
            try:
                got = evaluate(expr, values)
            except ZeroDivisionError:
                continue
            if got != a:
                return proved, f"{statement}: {expr} is {got}, not {a}, at {values}"
        if reach is not None and not reach[0] <= a <= reach[1]:
            return proved, f"{statement}: {a} is outside of {reach}, at {values}"
    return proved, ""
