"""Points of an axis at which a condition on indices flips, and expressions between them.

``where(i < 37, x[i + 963], x[i - 37])`` is one read for ``i`` below 37 and another from there on,
and ``x[min(j, 99)]`` moves with ``j`` up to 99 and is constant behind it. A loop that is cut at
these points has bodies without any condition; ``inside`` simplifies an expression for one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise

from .. import dims
from .decide import COMPARISONS, worked_out
from .expr import Expr, Index, Op, Read, index_value, walk

Ranges = Mapping[str, tuple[int, int]]
MAX_FORMS = 16  # most linear forms of one index, and values of one quotient
SHORT = 8  # quotients by smaller divisors flip too often


def inside(expr: Expr, ranges: Ranges) -> Expr:
    """Returns ``expr``, simplified where every axis lies in its range."""
    return worked_out(expr, {}, ranges, {})


def pieces(points: Iterable[int], extent: int) -> list[tuple[int, int]]:
    """(start, size) of the pieces into which sorted points cut an axis."""
    return [(a, b - a) for a, b in pairwise((0, *points, extent))]


def longest_piece(points: Iterable[int], extent: int) -> tuple[int, int]:
    """The first and the last index of the longest piece."""
    start, size = max(pieces(points, extent), key=lambda piece: piece[1])
    return start, start + size - 1


def flips(
    expr: Expr, extents: Mapping[str, int], *, indices: bool = True
) -> dict[str, tuple[int, ...]]:
    """Returns, by axis, the sorted indices at which another case begins to hold.

    It considers comparisons and, with ``indices``, min, max and quotients in indices, where they
    depend on one axis alone and flip at few points.

    >>> from loopwright.ir.dims import symbol
    >>> from loopwright.ir.loop.expr import within
    >>> flips(within(symbol("i") - 2, 0, 5), {"i": 9})
    {'i': (2, 7)}
    """
    ranges = {axis: (0, extent - 1) for axis, extent in extents.items()}
    by_axis: dict[str, set[int]] = {}
    for axis, zeros, case in _cases(expr, ranges, indices):
        points = _points(axis, zeros, case, ranges) if axis in ranges else set[int]()
        if points:
            by_axis.setdefault(axis, set()).update(points)
    return {axis: tuple(sorted(points)) for axis, points in by_axis.items()}


Case = Callable[[int], object]  # which case holds at an index
# An axis, expressions that are 0 where a condition on it may flip, and the case.
Flip = tuple[str, list[dims.IntExpr], Case]


def _cases(expr: Expr, ranges: Ranges, indices: bool) -> Iterator[Flip]:
    """Yields every condition in an expression that may flip."""
    for node in walk(expr):
        if isinstance(node, Op) and node.name in COMPARISONS:
            left, right = (index_value(a) for a in node.args)
            if left is not None and right is not None:
                yield from _comparison(left - right, COMPARISONS[node.name])
                yield from _atom_cases(left, ranges)
                yield from _atom_cases(right, ranges)
        elif isinstance(node, Read) and indices:
            for i in node.indices:
                if isinstance(i, int | dims.Dim):
                    yield from _atom_cases(i, ranges)


def _comparison(difference: dims.IntExpr, holds: Callable[[int, int], bool]) -> Iterator[Flip]:
    used = dims.symbols(difference)
    if len(used) == 1:
        (axis,) = used

        def case(at: int) -> object:
            return holds(dims.evaluate(difference, {axis: at}), 0)

        yield axis, [difference], case


def _atom_cases(expr: dims.IntExpr, ranges: Ranges) -> Iterator[Flip]:
    for mono, _ in expr.terms if isinstance(expr, dims.Dim) else ():
        for atom in mono:
            if isinstance(atom, dims.Symbol):
                continue
            yield from _atom_cases(atom.left, ranges)
            yield from _atom_cases(atom.right, ranges)
            if isinstance(atom, dims.Min | dims.Max):
                yield from _comparison(atom.left - atom.right, COMPARISONS["less_equal"])
            else:
                yield from _quotient(atom.left, atom.right, ranges)


def _quotient(left: dims.IntExpr, right: dims.IntExpr, ranges: Ranges) -> Iterator[Flip]:
    used, quotients = dims.symbols(left), _quotients(left, right, ranges)
    if len(used) == 1 and isinstance(right, int) and right >= SHORT and quotients:
        (axis,) = used
        yield (
            axis,
            [left - right * n for n in quotients],
            lambda at: dims.evaluate(left, {axis: at}) // right,
        )


def _quotients(left: dims.IntExpr, right: dims.IntExpr, ranges: Ranges) -> range:
    """The values of a quotient; none if they are not known, or many."""
    reached = dims.bounds(left, ranges)
    if not isinstance(right, int) or right < 1 or reached is None:
        return range(0)
    quotients = range(reached[0] // right, reached[1] // right + 1)
    return quotients if len(quotients) <= MAX_FORMS else range(0)


def _points(axis: str, zeros: list[dims.IntExpr], case: Case, ranges: Ranges) -> set[int]:
    last = ranges[axis][1]
    points: set[int] = set()
    for zero in zeros:
        for form in _linear_forms(zero, ranges):
            parts = dims.linear(form)
            if parts is None or not parts[0].get(axis):
                continue
            near = -parts[1] // parts[0][axis]
            points.update(p for p in range(near - 1, near + 3) if 0 < p <= last)
    return {p for p in points if case(p) != case(p - 1)}


def _linear_forms(expr: dims.IntExpr, ranges: Ranges) -> list[dims.IntExpr]:
    """Returns an index as a linear expression for each of its cases; none if they are many."""
    forms: list[dims.IntExpr] = [0]
    for mono, coefficient in expr.terms if isinstance(expr, dims.Dim) else (((), expr),):
        if len(mono) > 1:
            return []
        options = _atom_forms(mono[0], ranges) if mono else [1]
        forms = [form + coefficient * option for form in forms for option in options]
        if len(forms) > MAX_FORMS:
            return []
    return forms


def _atom_forms(atom: dims.Atom, ranges: Ranges) -> list[dims.IntExpr]:
    if isinstance(atom, dims.Symbol):
        return [dims.Dim((((atom,), 1),))]
    left = _linear_forms(atom.left, ranges)
    if isinstance(atom, dims.Min | dims.Max):
        return [*left, *_linear_forms(atom.right, ranges)]
    quotients = _quotients(atom.left, atom.right, ranges)
    if isinstance(atom, dims.Mod):
        return [form - atom.right * n for form in left for n in quotients]
    return list(quotients)


def divisors(expr: Expr, axis: str) -> set[int]:
    """Returns the constants by which indices of ``expr`` that depend on an axis are divided."""
    constants: set[int] = set()

    def look(value: dims.IntExpr) -> None:
        for mono, _ in value.terms if isinstance(value, dims.Dim) else ():
            for atom in mono:
                if isinstance(atom, dims.Symbol):
                    continue
                look(atom.left)
                look(atom.right)
                divides = isinstance(atom, dims.FloorDiv | dims.Mod) and axis in dims.symbols(
                    atom.left
                )
                if divides and isinstance(atom.right, int):
                    constants.add(atom.right)

    for node in walk(expr):
        if isinstance(node, Index):
            look(node.value)
        elif isinstance(node, Read):
            for i in node.indices:
                if isinstance(i, int | dims.Dim):
                    look(i)
    return constants
