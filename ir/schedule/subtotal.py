"""``subtotal``: the sum over each group of a reduced axis by itself, multiplied once by what the
whole group shares.

Weights of few bits come in groups with a scale and a zero point. Taken out of the inner sum they
cost an instruction for a group instead of one for each weight, and what is left between bytes is a
sum of integers, for which machines have instructions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from ..dims import Dim, IntExpr, as_int, symbol, symbols
from ..dtype import FLOAT32
from ..errors import ScheduleError
from ..loop.expr import Const, Expr, Index, Op, Read, cast, op, read, substitute_indices, walk
from ..loop.prim import Axis, Buffer, Stage
from .schedule import Preparation
from .state import State
from .storage import require_no_loops, with_prim

EXACT = 1 << 24
"""Integers below it are exact in float32: a sum of products that stays below may be one of
integers."""


@Preparation
def subtotal(state: State, name: str, axis: str) -> State:
    """Sum each group of products by itself, and then the groups along a reduced ``axis``.

    ::

        t[i] = sum(g: 24, k: 32) x[g, k] * (w[g, k, i] - z[g, i]) * s[g, i]
          =>
        t.rows[g] = sum(k: 32) x[g, k]
        t.groups[g, i] = sum(k: 32) x[g, k] * w[g, k, i]
        t[i] = sum(g: 24) (t.groups[g, i] - t.rows[g] * z[g, i]) * s[g, i]

    Products of integers that are cast to float32 are summed as integers, where all sums of a group
    are exact in either; a zero point that is a constant is multiplied with rows when they are
    summed. The results are equal up to rounding.
    """
    stage = state.require_stage(name, "subtotal")
    require_no_loops(state, "subtotal")
    outer = next((a for a in stage.reduce_axes if a.name == axis), None)
    inner = tuple(a for a in stage.reduce_axes if a.name != axis)
    if stage.combiner != "sum" or outer is None or not inner or stage.buffer.dtype != FLOAT32:
        raise ScheduleError(f"subtotal: {name} does not add float32 along {axis} and other axes")
    moving = {a.name for a in inner}
    shared, terms = _factors(stage.expr, moving)
    if not shared or not terms:
        raise ScheduleError(f"subtotal: no factor of {name} is the same for a group")
    product = _product(terms)
    count = prod(as_int(a.extent) for a in inner)
    exact = _as_integers(product, count)
    left, right, zero = _without_zero_point(product if exact is None else exact, moving)
    dtype = left.dtype
    groups = Buffer(f"{name}.groups", (outer.extent, *stage.buffer.shape), dtype)
    sums = Stage(groups, (outer, *stage.axes), op("multiply", left, right), inner, "sum")
    total: Expr = read(groups.name, [symbol(a.name) for a in sums.axes], dtype)
    before: list[Stage] = []
    if zero is not None:
        constant = isinstance(zero, Const)
        rows = _rows_of(stage, op("multiply", left, zero) if constant else left, outer, inner)
        walked = _walked(left)
        place = [symbol(a.name) for a in (outer, *stage.axes) if a.name in walked]
        excess: Expr = read(rows.name, place, dtype)
        excess = excess if constant else op("multiply", excess, zero)
        total = op("subtract", total, excess)
        before = [rows]
    total = op("multiply", cast(total, FLOAT32), _product(shared))
    whole = replace(stage, expr=total, reduce_axes=(outer,))
    stages = [
        n for s in state.prim.stages for n in ((*before, sums, whole) if s is stage else (s,))
    ]
    return with_prim(state, replace(state.prim, stages=tuple(stages)))


def _factors(expr: Expr, moving: set[str]) -> tuple[list[Expr], list[Expr]]:
    """Returns the factors of a product that no axis of ``moving`` moves, and the others."""
    shared, others = list[Expr](), list[Expr]()
    work = [expr]
    while work:
        node = work.pop()
        if isinstance(node, Op) and node.name == "multiply":
            work += node.args
        else:
            (others if _walked(node) & moving else shared).append(node)
    return shared, others


def _product(factors: list[Expr]) -> Expr:
    first, *others = factors
    for factor in others:
        first = op("multiply", first, factor)
    return first


def _as_integers(product: Expr, count: int) -> Expr | None:
    """Returns the integers that are cast to the terms of a sum, if ``count`` of them are exact."""
    if (
        not isinstance(product, Op)
        or product.name != "cast"
        or not product.args[0].dtype.is_integer
    ):
        return None
    inside = product.args[0]
    return inside if _greatest(inside) * count < EXACT else None


def _greatest(value: Expr) -> int:
    """Returns a bound of the size of an integer, ``EXACT`` if none below it is seen."""
    if isinstance(value, Const):
        return abs(int(value.value))
    parts = [_greatest(a) for a in value.args] if isinstance(value, Op) else []
    match (
        value.name if isinstance(value, Op) and all(a.dtype.is_integer for a in value.args) else ""
    ):
        case "multiply":
            return prod(parts)
        case "subtract":
            return sum(parts)
        case "bitwise_and":
            return min(parts)
        case "cast":
            return parts[0]
        case _:
            return 1 << value.dtype.bits if value.dtype.bits <= 8 else EXACT


def _without_zero_point(product: Expr, moving: set[str]) -> tuple[Expr, Expr, Expr | None]:
    """Returns (a, b, c) of a * (b - c) if nothing moves c in a group, else (a, b, None) of a * b.
    ScheduleError for anything but a product."""
    if not isinstance(product, Op) or product.name != "multiply":
        raise ScheduleError("subtotal: the terms are no products")
    for a, difference in (product.args, product.args[::-1]):
        if isinstance(difference, Op) and difference.name == "subtract":
            b, c = difference.args
            if not _walked(c) & moving and moving <= _walked(a):
                return a, b, None if isinstance(c, Const) and c.value == 0 else c
    a, b = product.args
    return a, b, None


def _rows_of(stage: Stage, factor: Expr, outer: Axis, inner: tuple[Axis, ...]) -> Stage:
    """Returns the stage of the sums of a factor alone in each group, with axes of its own."""
    name, walked = f"{stage.name}.rows", _walked(factor)
    axes = tuple(a for a in (outer, *stage.axes) if a.name in walked)
    names: dict[str, IntExpr | Expr] = {a.name: symbol(f"{name}.{a.name}") for a in (*axes, *inner)}
    made = [tuple(Axis(f"{name}.{a.name}", a.extent) for a in each) for each in (axes, inner)]
    buffer = Buffer(name, tuple(a.extent for a in axes), factor.dtype)
    return Stage(buffer, made[0], substitute_indices(factor, names), made[1], "sum")


def _walked(expr: Expr) -> set[str]:
    """Returns the axes that an expression depends on."""
    return set(_names(expr))


def _names(expr: Expr) -> Iterator[str]:
    for node in walk(expr):
        values = node.plain_indices if isinstance(node, Read) else ()
        for value in (*values, *((node.value,) if isinstance(node, Index) else ())):
            yield from symbols(value) if isinstance(value, Dim) else ()
