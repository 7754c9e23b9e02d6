"""Odd functions that grow from 0 to 1, in float32, by one of 16 or 32 polynomials: no division.

The leading bits of |x| plus an offset choose the polynomial, whose coefficients are looked up in
registers. Each expands the function at a point where it is a float32 to 31 bits (S. Gal: "Computing
elementary functions: a new approach for achieving high accuracy and good performance", 1986), and
interpolates it at Chebyshev nodes. They are made when they are first needed, in a millisecond.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable
from functools import cached_property

from ...ir.dataclass import dataclass
from ..llvm.text import rounded
from .emitter import Emitter, Value

GRID = 1 << 24
"""Places between two integers at which a function's value is looked for."""


@dataclass(frozen=True)
class Pieces:
    """``function`` in ``count`` pieces of a ``degree``: one for each value of the ``places`` that
    follow the first bit of ``offset`` + x, and its exponents. It is 1 from ``top`` on."""

    function: Callable[[float], float]
    offset: float
    places: int
    top: float
    count: int
    degree: int

    @cached_property
    def rows(self) -> list[tuple[float, ...]]:
        """The points of expansion, the values there, and the slopes: for each piece a number."""
        size, least = 1 << self.places, 2.0 ** (math.frexp(self.offset)[1] - 1)
        ends = (least * 2 ** (i // size) * (1 + i % size / size) for i in range(self.count + 1))
        pairs = itertools.pairwise(end - self.offset for end in ends)
        return [*zip(*(self._piece(low, high) for low, high in pairs))]

    def _piece(self, low: float, high: float) -> tuple[float, ...]:
        """Returns p, f(p) and the c_i with f(p + t) = f(p) + t (c_0 + c_1 t + ...); the first
        piece leaves out t itself, which is exact."""
        degree = self.degree
        if low >= self.top:
            return (self.top, 1.0, *[0.0] * degree)
        at = self._nearly_exact(low, high) if low else 0.0
        middle, half = (low + high) / 2 - at, (high - low) / 2
        # Chebyshev's nodes, moved a little: the middle one may be p, where the slope is 0 / 0.
        nodes = [middle + half * math.cos(math.pi * (k + 0.45) / degree) for k in range(degree)]
        there, exact = self.function(at), 0.0 if low else 1.0
        slopes = [(self.function(at + t) - there) / t - exact for t in nodes]
        # Newton's divided differences, then the polynomial of them.
        for order in range(1, degree):
            for i in reversed(range(order, degree)):
                slopes[i] = (slopes[i] - slopes[i - 1]) / (nodes[i] - nodes[i - order])
        terms = [0.0] * degree
        for slope, node in zip(reversed(slopes), reversed(nodes)):
            terms = [b - node * a for a, b in zip(terms, [slope, *terms])]
        return at, there, *terms

    def _nearly_exact(self, low: float, high: float) -> float:
        """Returns the first float32 from the middle on whose function is a float32 to 31 bits."""
        middle, grid = self.function((low + high) / 2), range(int(2 * high * GRID))
        unit = math.ldexp(1.0, math.frexp(middle)[1] - 24)
        steps = (i // 2 if i % 2 else -i // 2 for i in itertools.count())
        values = (rounded(middle, "float") + unit * i for i in steps)
        places = (bisect_left(grid, v, key=lambda i: self.function(i / GRID)) for v in values)
        pairs = ((p, self.function(p)) for p in (rounded(i / GRID, "float") for i in places))
        return next(p for p, y in pairs if abs(y - rounded(y, "float")) <= 2.0**-31 * y)

    def code(self, e: Emitter, x: Value) -> Value:
        """Returns the function of a full register: 9 instructions, and two for each degree."""
        u = e.at_most(e.abs(x), self.top)
        which = e.bits(u + self.offset).logical_shift_right(e.fraction_bits - self.places)
        # The offset's own leading bits are no multiple of the size: rows begin where they point to.
        first = (math.frexp(self.offset)[1] - 1 + e.exponent_bias) << self.places
        rotated = [[row[(i - first) % self.count] for i in range(self.count)] for row in self.rows]
        at, constant, *slopes = (e.lookup(row, which) for row in rotated)
        t = u - at
        slope = slopes[-1]
        for c in reversed(slopes[:-1]):
            slope = e.fma(t, slope, c)
        # The first piece has 0 for its constant, and t beside it, which is greater there only.
        return e.copysign(e.fma(t, slope, e.at_least(t, constant)), x)
