"""The ``pick`` rule: maps whose expression is another one at each place of a short axis.

Where every value of an axis (or of its remainder) picks an expression of its own, as the transforms
of Winograd's convolution do, the axis is unrolled: each iteration is then its own expression, what
they share is computed once, and vectors run along another axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cached_property
from math import prod

import numpy as np

from ....codegen.target import Target
from ....ir.dataclass import dataclass
from ....ir.dims import Dim, Mod, Symbol, as_int
from ....ir.loop.expr import Const, Index, Op, walk
from ....ir.loop.prim import Stage
from ....ir.schedule.columns import least
from ....ir.schedule.steps import Step, reorder, unroll, vectorize
from ...protocols import BoolArray
from ..analysis import Group
from ..settings import PICK, SKETCHES
from ..tiling import Choices, Tiling, Values
from . import base


@dataclass(frozen=True)
class Pick(Tiling):
    """See the module. ``periods``: after how many places the picks of an axis begin again."""

    periods: Mapping[str, int] = field(default_factory=dict)

    def build(self, **choices: int) -> list[Step]:
        v = self.vector_axis
        assert v is not None
        width = least(choices["vectors"] * self.lanes, self.extent(v))
        steps = [base.split_step(v, self.extent(v), width)]
        outer = list(self.outer_axes)
        unrolled: list[str] = []
        for axis, period in self.periods.items():
            if period == self.extent(axis):
                unrolled.append(axis)
                continue
            steps.append(base.split_step(axis, self.extent(axis), period))
            outer.append(f"{axis}.0")
            unrolled.append(f"{axis}.1")
        outer.append(f"{v}.0")
        steps.append(reorder(*outer, *unrolled, f"{v}.1"))
        steps += [*(unroll(loop) for loop in unrolled), vectorize(f"{v}.1")]
        steps += base.parallel_steps(outer, choices["parallel"])
        return [*steps, *base.non_temporal_steps(self.group, choices["non_temporal"])]

    @cached_property
    def row_loops(self) -> frozenset[str | None]:
        return frozenset(a for a, period in self.periods.items() if period < self.extent(a))

    @cached_property
    def defaults(self) -> list[Choices]:
        return [base.shared_and_stored(self, self.base_choices())]

    def fits(self, values: Values) -> BoolArray:
        return np.ones(len(values["vectors"]), np.bool_)


def sketches(group: Group, target: Target) -> Iterator[Pick]:
    """The sketch of this rule where it applies: then it is always the best."""
    if len(group.stages) != 1 or group.main.combiner is not None:
        return
    periods = _periods(group.main)
    free = [a for a in group.shared if a not in periods and group.extents[a] > 1]
    if not periods or not free or prod(periods.values()) > PICK.max_unrolled:
        return
    reads = group.accesses[group.main.name]
    vector = max(free, key=lambda a: (sum(r.stride(a) == 1 for r in reads), free.index(a)))
    lanes = target.lanes(group.element_bytes)
    tables: dict[str, tuple[int, ...]] = {
        "vectors": base.up_to(-(-group.extents[vector] // lanes), (1, 2)),
        "parallel": tuple(range(min(SKETCHES.max_parallel, len(group.shared)) + 1)),
        "non_temporal": base.non_temporal_choices(group, target),
    }
    rows = [*reversed(periods.items()), (None, 1), (None, 1)]
    (row, high), (row2, high2) = rows[:2]
    tables |= {"rows": (high,), "second_rows": (high2,)}
    yield Pick(group, target, vector, row, row2, knobs=tables, periods=periods)


def _periods(stage: Stage) -> dict[str, int]:
    """Returns the axes along which every place of a period picks another expression, with their
    periods, in the stage's order."""
    extents = {a.name: as_int(a.extent) for a in stage.axes}
    bounds: dict[tuple[str, int], set[int]] = {}
    for node in walk(stage.expr):
        if not isinstance(node, Op) or node.name != "where":
            continue
        test = node.args[0]
        if isinstance(test, Op) and test.name == "less":
            place, bound = test.args
            place_of = _place(place.value, extents) if isinstance(place, Index) else None
            if place_of is not None and isinstance(bound, Const):
                bounds.setdefault(place_of, set()).add(int(bound.value))
    whole = {
        axis: period
        for (axis, period), places in bounds.items()
        if places == set(range(1, period)) and 1 < period <= PICK.max_places
    }
    return {axis: min(whole[axis], extents[axis]) for axis in extents if axis in whole}


def _place(value: object, extents: Mapping[str, int]) -> tuple[str, int] | None:
    """Returns the axis of ``value`` (or of which it is the remainder), and its number of values."""
    if not isinstance(value, Dim) or len(value.terms) != 1:
        return None
    (mono, coefficient) = value.terms[0]
    if coefficient != 1 or len(mono) != 1:
        return None
    atom = mono[0]
    if isinstance(atom, Symbol) and atom.name in extents:
        return atom.name, extents[atom.name]
    if isinstance(atom, Mod) and isinstance(atom.right, int):
        inner = _place(atom.left, extents)
        return (inner[0], atom.right) if inner is not None else None
    return None
