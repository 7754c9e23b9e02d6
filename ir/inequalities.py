"""Deciding that integer inequalities contradict each other, by Fourier-Motzkin elimination.

A row ``{x: 2, y: -1, 1: 3}`` states ``2 * x - y + 3 >= 0``; the constant stands at the key ``1``.
Unknowns may be anything hashable. Each row is divided by the greatest common divisor of its
coefficients and its constant rounded down, which is right for integers (Gomory's cut; W. Pugh, "The
Omega test", 1991).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeAlias

Row: TypeAlias = Mapping[Hashable, int]

ONE = 1
"""Key of a row's constant."""

MOST_INEQUALITIES = 400
"""Rows at which elimination gives up: each step may square their number."""


def contradict(rows: Iterable[Row]) -> bool:
    """True if no integers satisfy all rows; False if that is not known.

    >>> contradict([{"x": 2, ONE: -1}, {"x": -2, ONE: 1}])  # 2 * x == 1
    True
    """
    numbers: dict[Hashable, int] = {ONE: 0}
    constants: dict[frozenset[tuple[int, int]], int] = {}
    for row in rows:
        if _add(constants, {numbers.setdefault(x, len(numbers)): c for x, c in row.items()}):
            return True
    while constants and len(constants) <= MOST_INEQUALITIES:
        below: Counter[int] = Counter()
        above: Counter[int] = Counter()
        for coefs in constants:
            for unknown, coef in coefs:
                (below if coef > 0 else above)[unknown] += 1
        unknown = min({**below, **above}, key=lambda x: below[x] * above[x] - below[x] - above[x])
        lower: list[tuple[dict[int, int], int]] = []
        upper: list[tuple[dict[int, int], int]] = []
        others: dict[frozenset[tuple[int, int]], int] = {}
        for coefs, constant in constants.items():
            row = dict(coefs)
            coef = row.get(unknown, 0)
            if coef:
                (lower if coef > 0 else upper).append((row, constant))
            else:
                others[coefs] = constant
        constants = others
        for row_a, constant_a in lower:
            for row_b, constant_b in upper:
                a, b = row_a[unknown], -row_b[unknown]
                scale = math.gcd(a, b)
                a, b = a // scale, b // scale
                total = {x: b * c for x, c in row_a.items()}
                for x, c in row_b.items():
                    total[x] = total.get(x, 0) + a * c
                total[0] = b * constant_a + a * constant_b
                if _add(constants, total):
                    return True
    return False


def _add(constants: dict[frozenset[tuple[int, int]], int], row: Mapping[int, int]) -> bool:
    """Adds a row, keeping the strongest of equal coefficients; True if that is a contradiction."""
    coefs = {x: c for x, c in row.items() if c and x}
    constant = row.get(0, 0)
    if not coefs:
        return constant < 0
    scale = math.gcd(*coefs.values())
    key = frozenset((x, c // scale) for x, c in coefs.items())
    constant //= scale
    old = constants.get(key)
    if old is None or constant < old:
        constants[key] = constant
        opposite = constants.get(frozenset((x, -c) for x, c in key))
        return opposite is not None and constant + opposite < 0
    return False
