"""Populations as arrays of loops: what the steps of many schedules make of one PrimFunc.

::

    slot        0     1     2     3     4          extent, kind: int64[slots, n]
    axis        i     j     i     k     i
    row 0       8     4     1     64    4          for i in 8: for j in 4: for k in 64: for i in 4
    row 1       1     2     16    64    2          for j in 2: for i in 16: for k in 64: for i in 2

A slot is a loop of an axis, outermost first. Schedules with other orders of loops share the slots:
a loop that stands elsewhere in a row has extent 1 here. What a step does to rows is declared with
it (``ir/schedule/rows.py``); nothing here knows rules, knobs or costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from ...ir.dataclass import dataclass
from ...ir.loop.prim import PrimFunc, Stage
from ...ir.schedule.columns import BoolArray, Column, Guarded, IntArray, array_of
from ...ir.schedule.rows import INSTRUCTION, KINDS, PARALLEL, PackedAlong, Rows
from ...ir.schedule.schedule import Preparation
from ...ir.schedule.steps import Schedule, Step, state_of


@dataclass(frozen=True)
class LoopArrays:
    """``rows``, int64[n], are places in the population; see the module for slots.

    ``depths`` of a reduction, int64[n], count the slots outside of its tile. ``joins`` are the
    stages that run in the loops of the stage before them. ``ahead`` are the iterations, int64[n],
    that reads of a buffer are prefetched ahead, ``nexts`` the buffers whose next panels are, by
    bool[n]. ``matrix`` says by bool[n] that matrix registers hold the sums.
    """

    prim: PrimFunc
    rows: IntArray
    axes: tuple[str, ...]
    extent: IntArray
    kind: IntArray
    depths: Mapping[str, IntArray]
    joins: frozenset[str]
    panels: Mapping[str, tuple[PackedAlong, ...]]
    ahead: Mapping[str, IntArray]
    nexts: Mapping[str, BoolArray]
    streams: BoolArray
    matrix: BoolArray
    mirror: Mapping[str, IntArray]

    @property
    def count(self) -> int:
        return len(self.rows)

    @cached_property
    def nests(self) -> tuple[tuple[Stage, ...], ...]:
        """The stages of each nest, in order."""
        nests: list[list[Stage]] = []
        for stage in self.prim.stages:
            if stage.name in self.joins and nests:
                nests[-1].append(stage)
            else:
                nests.append([stage])
        return tuple(map(tuple, nests))

    def product(self, axis: str, *kinds: int) -> IntArray:
        """Returns int64[n]: the iterations of an axis's loops of these kinds (of all)."""
        loops = [self.of_kind[kind] for kind in kinds] or [self.extent]
        each = [extents[slot] for slot in self.slots_of.get(axis, []) for extents in loops]
        return prod(each, start=np.ones(self.count, np.int64))

    @cached_property
    def of_kind(self) -> dict[int, IntArray]:
        """int64[slots, n]: the iterations of the loops of each kind, 1 for those of others."""
        kinds = (*KINDS.values(), INSTRUCTION)
        return {kind: np.where(self.kind == kind, self.extent, 1) for kind in kinds}

    @cached_property
    def serial(self) -> BoolArray:
        """bool[slots, n]: loops that are written as loops and have several iterations."""
        return (self.kind <= PARALLEL) & (self.extent > 1)

    @cached_property
    def body(self) -> IntArray:
        """int64[n]: the first slot inside of which every loop is unrolled or runs in lanes."""
        outside = np.arange(1, len(self.axes) + 1)[:, None] * self.serial
        return np.asarray(outside.max(axis=0, initial=0))

    @cached_property
    def slots_of(self) -> dict[str, list[int]]:
        """The slots of each axis, outermost first."""
        slots: dict[str, list[int]] = {}
        for slot, axis in enumerate(self.axes):
            slots.setdefault(axis, []).append(slot)
        return slots

    def loops(self, stage: Stage, row: int) -> list[tuple[str, int, int]]:
        """Returns the loops of a stage in one row, outermost first: axis, extent and kind of each
        that has more than one iteration."""
        mine = {a.name for a in (*stage.axes, *stage.reduce_axes)}
        return [
            (axis, int(self.extent[slot, row]), int(self.kind[slot, row]))
            for slot, axis in enumerate(self.axes)
            if axis in mine and self.extent[slot, row] > 1
        ]


def loop_arrays(
    prim: PrimFunc, classes: Iterable[tuple[IntArray, Sequence[Any]]]
) -> list[LoopArrays]:
    """Returns the loops of all rows. ``classes`` hold the steps of rows that are built on one path:
    their places, and steps as ``columns.built`` yields them. Rows whose steps prepare other stages
    are apart."""
    grouped: dict[tuple[Step, ...], list[Rows]] = {}
    for members, steps in classes:
        every = (s.step if isinstance(s, Guarded) else s for s in steps)
        # A map that is inlined after its bytes were shifted has become what corrects their sums.
        shifted = {s.args[0] for s in every if s.name == "shift_bytes"}
        first = (s for s in steps if isinstance(s, Step) and isinstance(s.primitive, Preparation))
        prepare = tuple(
            Step(s.name, tuple(int(a) if isinstance(a, Column) else a for a in s.args))
            for s in first
            if s.args[0] not in shifted
        )
        grouped.setdefault(prepare, []).append(Rows(_prepared(prim, prepare), members))
        for step in steps:
            grouped[prepare][-1].apply(step)
    return list(map(_merged, grouped.values()))


def _prepared(prim: PrimFunc, prepare: tuple[Step, ...]) -> PrimFunc:
    """Returns the PrimFunc that preparing steps make: the same one for every population, so that
    what is derived from it is worked out once."""
    if not prepare:
        return prim
    made: dict[tuple[Step, ...], PrimFunc] = prim.derived.setdefault("prepared", {})
    if prepare not in made:
        made[prepare] = state_of(prim, Schedule(prepare)).prim
    return made[prepare]


def _merged(classes: Sequence[Rows]) -> LoopArrays:
    """Returns the rows of all classes, with slots in which each finds its loops in order."""
    slots: list[str] = list(classes[0].order)
    for other in classes[1:]:
        if other.order != slots:
            slots = _supersequence(slots, other.order)
    n = sum(len(c.members) for c in classes)
    extent, kind = np.ones((len(slots), n), np.int64), np.zeros((len(slots), n), np.int64)
    prim = classes[0].prim
    reductions = [s for s in prim.stages if s.combiner is not None]
    depths = {s.name: np.zeros(n, np.int64) for s in reductions}
    axis_of = {name: axis for c in classes for name, axis in c.axis.items()}
    start = 0
    ends: list[IntArray] = []  # of each class, by its number of loops: the slots up to there
    for c in classes:
        here = slice(start, start + len(c.members))
        start = here.stop
        places: list[int] = []
        for loop in c.order:
            places.append(slots.index(loop, places[-1] + 1 if places else 0))
            extent[places[-1], here] = c.extent[loop]
            if loop in c.kind:
                kind[places[-1], here] = c.kind[loop]
        for stage in reductions:
            depth = c.depth(stage)
            depths[stage.name][here] = places[depth - 1] + 1 if depth else 0
        ends.append(np.array([0, *(place + 1 for place in places)], np.int64))
    return LoopArrays(
        prim,
        np.concatenate([c.members for c in classes]),
        tuple(axis_of[name] for name in slots),
        extent,
        kind,
        depths,
        frozenset(name for c in classes for name in c.at),
        _panels(classes, ends),
        _named(classes, "ahead"),
        {name: where.astype(np.bool_) for name, where in _named(classes, "nexts").items()},
        _joined(classes, [c.streams for c in classes]).astype(np.bool_),
        _joined(classes, [c.matrix for c in classes]).astype(np.bool_),
        _named(classes, "mirrors"),
    )


def _panels(
    classes: Sequence[Rows], ends: Sequence[IntArray]
) -> dict[str, tuple[PackedAlong, ...]]:
    pairs = dict.fromkeys((x, a) for c in classes for x, axes in c.panels.items() for a in axes)
    joined: dict[str, tuple[PackedAlong, ...]] = {}
    for name, axis in pairs:
        each = [c.panels.get(name, {}).get(axis) for c in classes]
        tile = _joined(classes, [0 if p is None else p.tile for p in each])
        depth = _joined(classes, [0 if p is None else e[p.depth] for p, e in zip(each, ends)])
        joined[name] = (*joined.get(name, ()), PackedAlong(axis, tile, depth))
    return joined


def _named(classes: Sequence[Rows], what: str) -> dict[str, IntArray]:
    every: list[Mapping[str, Any]] = [getattr(c, what) for c in classes]
    names = dict.fromkeys(name for each in every for name in each)
    return {name: _joined(classes, [each.get(name, 0) for each in every]) for name in names}


def _joined(classes: Sequence[Rows], parts: Sequence[Any]) -> IntArray:
    """Returns int64[n] of the rows of all classes, an array or one number for each class."""
    return np.concatenate([array_of(part, len(c.members)) for c, part in zip(classes, parts)])


def _supersequence(left: Sequence[str], right: Sequence[str]) -> list[str]:
    """Returns a short sequence that has both among its subsequences."""
    merged: list[str] = []
    for kind, i, j, m, n in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        merged += left[i:j] if kind == "equal" else (*left[i:j], *right[m:n])
    return merged
