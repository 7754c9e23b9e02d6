"""Reads outside of a buffer: proofs that there are none, or a point where there is one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from ..dim_proofs import prove
from ..dims import Dim, IntExpr, Symbol, bounds, evaluate, symbols
from .expr import Expr, IndexLike, Op, Read
from .prim import Buffer

_MOST_POINTS = 4096  # iterations that are tried where no bounds are found
Ranges = Mapping[str, tuple[int, int]]
Ends = Mapping[str, tuple[IntExpr, IntExpr]]


def symbols_of(value: IndexLike) -> frozenset[str]:
    """Returns the names in an index; none in one that is read from data."""
    return symbols(value) if isinstance(value, Dim) else frozenset()


def unguarded(root: Expr) -> Iterator[Read]:
    """Yields the reads outside of every branch of a ``where``, which happen whatever the data."""
    stack: list[Expr] = [root]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Read):
            yield node
            stack += [i for i in node.indices if not isinstance(i, int | Dim)]
        elif isinstance(node, Op):
            stack += node.args[:1] if node.name == "where" else node.args


def problem_of(name: str, indices: Sequence[IndexLike], buffer: Buffer, ends: Ends) -> str | None:
    """Returns the problem of an access that some iteration makes outside the buffer; None if none.

    Bounds are exact only for sums of loop variables; any other index is refused only if it lies
    outside in every iteration.
    """
    for i, size in zip(indices, buffer.shape, strict=True):
        if not isinstance(i, int | Dim):
            continue
        around = bounds_around(ends, i)
        if isinstance(size, Dim) or any(isinstance(e, Dim) for e in chain(*around.values())):
            least, most = prove(i, ">=", 0, around), prove(i, "<", size, around)
            if _is_exact(i) and not (least and most):
                around = bounds_around(ends, i, size)
                least, most = prove(i, ">=", 0, around), prove(i, "<", size, around)
            doubtful = _is_exact(i) and not (least and most)
            wrong = least is False or most is False or doubtful
            if wrong and not _is_inside(i, size, around):
                return f"{name}[.. {i} ..] may lie outside of {buffer}"
            continue
        inside = bounds(i, as_numbers(around))
        if inside is None:
            continue
        low, high = inside
        if low >= 0 and high < size:
            continue
        if _is_exact(i) or high < 0 or low >= size:
            return f"{name}[.. {i} ..] runs from {low} to {high} outside of {buffer}"
    return None


def _is_inside(value: IntExpr, size: IntExpr, ends: Ends) -> bool:
    """True if an index was found to be inside in every iteration: nests for given sizes are so
    small at times that those can be tried, as loops over what is left of others that are empty."""
    points: list[dict[str, int]] = [{}]
    try:
        for name, (low, high) in ends.items():
            walks = [range(evaluate(low, p), evaluate(high, p) + 1) for p in points]
            if sum(map(len, walks)) > _MOST_POINTS:
                return False
            points = [{**p, name: at} for p, walk in zip(points, walks) for at in walk]
        return all(0 <= evaluate(value, p) < evaluate(size, p) for p in points)
    except KeyError:  # of a size that is not given
        return False


def _is_exact(value: IntExpr) -> bool:
    """True if the bounds of an index are reached: a sum of different variables."""
    if not isinstance(value, Dim):
        return True
    plain = [mono for mono, _ in value.terms if mono]
    return all(len(mono) == 1 and isinstance(mono[0], Symbol) for mono in plain)


def bounds_around(ends: Ends, value: IntExpr, size: IntExpr = 0) -> Ends:
    """Returns the ranges on which the value of an expression depends, outer loops first; and those
    that say something of ``size``, as a loop of ``min(1, n)`` runs only where n is not 0."""
    wanted = set(symbols_of(value))
    if isinstance(size, Dim):
        of_size = symbols_of(size) | wanted
        wanted |= {name for name, pair in ends.items() if of_size & symbols_of(pair[1])}
    for name, (low, high) in reversed([*ends.items()]):
        if name in wanted:
            wanted |= symbols_of(low) | symbols_of(high)
    return {name: pair for name, pair in ends.items() if name in wanted}


def as_numbers(ends: Ends) -> Ranges:
    """Returns ranges in numbers that hold the given ones."""
    numbers: dict[str, tuple[int, int]] = {}
    for name, (low, high) in ends.items():
        least, most = bounds(low, numbers), bounds(high, numbers)
        if least is not None and most is not None:
            numbers[name] = least[0], most[1]
    return numbers
