"""Simplifies expressions by the ranges of the loops around them.

So are conditions at the border of an image. A padded convolution reads ``where(inside, x[..], 0)``,
a padded pool the least value instead of 0; where the condition never holds, nothing is accumulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ..dims import RELATIONS, Dim, IntExpr, bounds, resolve, substitute
from ..dtype import BOOL
from . import expr as exprs
from .expr import Const, Expr, Index, Op, Read, const, index, index_value, op, read, rebuilt_indices
from .scalar import COMBINERS, SCALAR_OPS

Ranges = Mapping[str, tuple[int, int]]

COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    row.name: RELATIONS[row.symbol] for row in SCALAR_OPS.values() if row.compares
}


def decide(name: str, left: Expr, right: Expr, ranges: Ranges) -> Expr:
    """Returns a comparison of indices; a constant if the ranges of the loops decide it."""
    a, b = index_value(left), index_value(right)
    if a is not None and b is not None:
        inside = bounds(a - b, ranges)
        if inside is not None:
            low, high = inside
            # A difference compares with 0 as its sign does: at most three cases.
            cases = {COMPARISONS[name](d, 0) for d in (low, high, min(max(low, 0), high))}
            if len(cases) == 1:
                return const(cases.pop(), BOOL)
    return op(name, left, right)


def join(name: str, left: Expr, right: Expr) -> Expr:
    """Returns ``logical_and`` or ``logical_or``, simplified where one side is constant."""
    decisive = name == "logical_or"
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Const):
            return one if bool(one.value) == decisive else other
    return op(name, left, right)


def worked_out(
    expr: Expr,
    axes: Mapping[str, IntExpr],
    ranges: Ranges,
    private: Mapping[str, tuple[str, tuple[IntExpr, ...]]],
) -> Expr:
    """``expr`` where the axes have these values and the loops in them these ranges.

    ``private`` are buffers kept in another one, whose indices begin at what the loops around fix.
    """

    places: dict[IntExpr, IntExpr] = {}  # reads of one expression share most of their indices

    def place(i: IntExpr) -> IntExpr:
        resolved = places.get(i)
        if resolved is None:
            resolved = places[i] = resolve(substitute(i, axes), ranges)
        return resolved

    def leaf(node: Expr, done: dict[int, Expr]) -> Expr | None:
        if isinstance(node, Index):
            return index(place(node.value))
        if isinstance(node, Read):
            indices = rebuilt_indices(node, done, place)
            if node.buffer not in private:
                return read(node.buffer, indices, node.dtype)
            name, fixed = private[node.buffer]
            moved = [_minus(i, f) for i, f in zip(indices, fixed, strict=True)]
            return read(name, moved, node.dtype)
        if isinstance(node, Op) and node.name in COMPARISONS:
            return decide(node.name, done[id(node.args[0])], done[id(node.args[1])], ranges)
        if isinstance(node, Op) and node.name == "where":
            return exprs.select(*(done[id(a)] for a in node.args))
        if isinstance(node, Op) and node.name in ("logical_and", "logical_or"):
            return join(node.name, done[id(node.args[0])], done[id(node.args[1])])
        return None

    return exprs.rewrite(expr, leaf)


def _minus(value: IntExpr | Expr, fixed: IntExpr) -> IntExpr | Expr:
    if isinstance(value, int | Dim):
        return value - fixed
    return value if fixed == 0 else op("subtract", value, index(fixed))


def guarded_parts(value: Expr, combiner: str) -> Iterator[tuple[Op, object]]:
    """The ``where`` in an accumulated value that may leave nothing to accumulate, each with the
    constant that it must give for that.

    ``value`` itself, with the identity of the combiner; a factor of a product that is summed, with
    zero. (A product of zero and infinity is not made, which is what skipping it means.)
    """
    if isinstance(value, Op) and value.name == "where":
        yield value, COMBINERS[combiner].identity(value.dtype)
    if isinstance(value, Op) and value.name == "multiply" and combiner == "sum":
        for factor in value.args:
            if isinstance(factor, Op) and factor.name == "where":
                yield factor, 0


def is_skipped(before: Expr, after: Expr, combiner: str) -> bool:
    """True if ``after``, which is ``before`` with its conditions worked out, adds nothing."""
    for guarded, neutral in guarded_parts(before, combiner):
        if guarded is before:
            left: Expr = after
        else:
            assert isinstance(before, Op)
            if not isinstance(after, Op) or after.name != "multiply":
                continue
            left = after.args[before.args.index(guarded)]
        if isinstance(left, Const) and left.value == neutral:
            return True
    return False
