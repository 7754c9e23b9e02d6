"""The points of a range: sizes at which a kernel with symbolic sizes is looked at.

::

    prim over n in 0..4096 -> n = 1, 16, 128, 2048 -> prim.at(point) -> space, features, records

The search space, the features and the rules are those of a PrimFunc whose sizes are numbers; its
schedules apply to the symbolic one, which has the same stages and axes. What holds between two
points is what holds at the nearer one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeAlias

from ..ir.dataclass import dataclass
from ..ir.dims import TYPICAL_SIZE, Dim, IntExpr, Symbol, product, size, typical
from ..ir.loop.prim import PrimFunc
from ..ir.loop.work import prim_bytes, prim_flops
from ..ir.schedule.steps import Schedule, Step

Point: TypeAlias = Mapping[str, int]
"""A value of each of a PrimFunc's sizes, by name."""
Weights: TypeAlias = Sequence[tuple[Point, float]]
"""Points to tune at, and how often each is met."""


@dataclass(frozen=True, slots=True)
class AtPoint:
    """A kernel to be compiled for all of its sizes, and measured at a point."""

    prim: PrimFunc
    point: Point


SMALL, LARGE = 16, 2048
"""Sizes beside 1 and the typical one at which the best schedule may change: about a register tile
of rows, and more than the caches hold of most operands."""
BYTE_WORK, CALL_WORK = 8.0, 1e4
"""Operations that take as long as moving a byte, and as calling a kernel, roughly."""
POINTS = (1, SMALL, TYPICAL_SIZE, LARGE)
MOST_BYTES = 64 << 20
"""Operands of a kernel at a point, where the range permits: measuring should not take long."""


def specialised(prim: PrimFunc, point: Point) -> PrimFunc:
    """Returns ``prim.at(point)``, the same object as the last time; ``prim`` if it has no sizes."""
    if not prim.sizes:
        return prim
    made: dict[tuple[int, ...], PrimFunc] = prim.derived.setdefault("points", {})
    values = tuple(point[s.name] for s in prim.sizes)
    if values not in made:
        made[values] = prim.at(point)
    return made[values]


def fitted(schedule: Schedule, prim: PrimFunc) -> Schedule:
    """Returns a schedule of a kernel at other sizes, with outermost factors that cover the axes of
    ``prim``: 1 for symbolic extents, where the factor says nothing. So schedules that differ in
    them alone are equal. Symbolic axes are not cut: where the pieces end depends on the sizes."""
    extents = {a.name: a.extent for s in prim.stages for a in (*s.axes, *s.reduce_axes)}

    def step_for(step: Step) -> Step:
        name = str(step.args[0]) if step.name == "split" else ""
        extent = extents.get(name, extents.get(name.rpartition(".")[2]))  # ``stage.axis``: its own
        if extent is None:
            return step
        axis, (_, *inner) = step.args
        outer = max(1, -(-extent // prod(inner))) if isinstance(extent, int) else 1
        return Step("split", (axis, (outer, *inner)))

    kept = (
        step
        for step in schedule.steps
        if step.name != "cut" or not isinstance(extents.get(step.args[0]), Dim)
    )
    return Schedule(tuple(map(step_for, kept)))


def in_range(prim: PrimFunc, values: Sequence[int]) -> bool:
    """True if a PrimFunc takes these values of its sizes, in their order."""
    return len(values) == len(prim.sizes) and all(
        value == _clamped(s, value) for s, value in zip(prim.sizes, values, strict=True)
    )


def typical_point(prim: PrimFunc) -> Point:
    """Returns the likely value of each size."""
    return {s.name: typical(_expr(s)) for s in prim.sizes}


def points(prim: PrimFunc) -> tuple[Point, ...]:
    """Returns the points at which a range is looked at, the smallest first: each once.

    Several sizes grow together: points lie on the diagonal of their ranges.
    """
    distinct: dict[tuple[int, ...], Point] = {}
    for value in POINTS:
        point = point_of(prim, value)
        distinct.setdefault(tuple(point.values()), point)
    return tuple(distinct.values())


def evenly_weighted(prim: PrimFunc, at: Sequence[Point] = ()) -> Weights:
    """Returns points, by default those of ``points``, with weights under which each counts alike:
    a percent of its time is worth as much at one as at another."""
    work = [_work(prim, point) for point in at or points(prim)]
    return [(point, max(work) / w) for point, w in zip(at or points(prim), work, strict=True)]


def _work(prim: PrimFunc, point: Point) -> float:
    """Returns an estimate of the time at a point, in operations."""
    there = specialised(prim, point)
    return CALL_WORK + max(prim_flops(there), BYTE_WORK * prim_bytes(there))


def typical_bytes(prim: PrimFunc) -> float:
    """Returns ``prim_bytes`` at the typical sizes."""
    return prim_bytes(specialised(prim, typical_point(prim)))


def point_of(prim: PrimFunc, value: int) -> Point:
    """Returns the point at which every size has the value, or what its range has nearest to it;
    less where operands would be larger than ``MOST_BYTES``."""
    while True:
        point = {s.name: _clamped(s, value) for s in prim.sizes}
        if value <= 1 or prim_bytes(specialised(prim, point)) <= MOST_BYTES:
            return point
        value //= 2


def checked_points(prim: PrimFunc, most: int = 3) -> tuple[Point, ...]:
    """Returns the points at which code is checked before its first use: the least sizes, and two
    that leave a rest behind whole tiles and behind whole vectors."""
    distinct: dict[tuple[int, ...], Point] = {}
    for value in (1, SMALL + 5, 4 * SMALL + 1):
        point = point_of(prim, value)
        distinct.setdefault(tuple(point.values()), point)
    return tuple(distinct.values())[:most]


def decided_by(prim: PrimFunc) -> IntExpr:
    """Returns the expression that tells small sizes from large ones: the size, or the product of
    several."""
    return product(map(_expr, prim.sizes))


def is_single(prim: PrimFunc, point: Point) -> bool:
    """True if a point is a case of its own, with code for these sizes alone: a single row."""
    return len(prim.sizes) == 1 and value_at(prim, point) == 1


def value_at(prim: PrimFunc, point: Point) -> int:
    """Returns the value of ``decided_by`` at a point."""
    return prod(point[s.name] for s in prim.sizes)


def _expr(symbol: Symbol) -> IntExpr:
    assert symbol.low is not None and symbol.high is not None
    return size(symbol.name, symbol.low, symbol.high)


def _clamped(symbol: Symbol, value: int) -> int:
    assert symbol.low is not None and symbol.high is not None
    return max(symbol.low, min(symbol.high, value))
