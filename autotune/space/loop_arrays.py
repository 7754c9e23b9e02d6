"""Populations as arrays of loops: what the steps of many schedules make of one PrimFunc.

::

    slot        0     1     2     3     4          extent, kind: int64[slots, n]
    axis        i     j     i     k     i
    row 0       8     4     1     64    4          for i in 8: for j in 4: for k in 64: for i in 4
    row 1       1     2     16    64    2          for j in 2: for i in 16: for k in 64: for i in 2

A slot is a loop of an axis, outermost first. Schedules with other orders of loops share the slots:
a loop that stands elsewhere in a row has extent 1 here. Steps are applied to all rows at once; what
they say of buffers (panels, prefetches, places of tiles) are arrays as well. Nothing here knows
rules, knobs or costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir.dataclass import dataclass
from ...ir.dims import as_int
from ...ir.loop.kinds import LoopKind
from ...ir.loop.prim import PrimFunc, Stage
from ...ir.schedule.columns import Column, Guarded, array_of
from ...ir.schedule.primitives import state_of
from ...ir.schedule.steps import Schedule, Step

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

PREPARING = frozenset(
    {"blockwise", "cache_read", "compute_inline", "layout", "own_axis", "split_reduction"}
)
"""Steps that make other stages of a PrimFunc, before any loop is cut."""
FOR, PARALLEL, UNROLL, VECTORIZE, INSTRUCTION = range(5)
KINDS = {
    LoopKind.FOR: FOR,
    LoopKind.PARALLEL: PARALLEL,
    LoopKind.UNROLL: UNROLL,
    LoopKind.VECTORIZE: VECTORIZE,
}
"""Numbers of the kinds of loops; ``INSTRUCTION`` is a loop that one instruction runs in a lane."""


@dataclass(frozen=True, slots=True)
class Panels:
    """An operand that is copied into panels along an axis: ``tile``, int64[n], elements wide, 0 in
    the rows that do not; ``depth``, int64[n], counts the slots outside of the copy: 0 where it is
    made before all loops."""

    axis: str
    tile: IntArray
    depth: IntArray


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
    panels: Mapping[str, tuple[Panels, ...]]
    ahead: Mapping[str, IntArray]
    nexts: Mapping[str, BoolArray]
    streams: BoolArray
    matrix: BoolArray
    mirror: Mapping[str, IntArray]
    prepare: tuple[Step, ...] = ()

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
    grouped: dict[tuple[Step, ...], list[_Class]] = {}
    for members, steps in classes:
        first = [s for s in steps if isinstance(s, Step) and s.name in PREPARING]
        prepare = tuple(Step(s.name, tuple(map(_number, s.args))) for s in first)
        every = (s.step if isinstance(s, Guarded) else s for s in steps)
        aliases = {f"{s.args[0]}.raw": s.args[0] for s in every if s.name == "shift_bytes"}
        # A map that is inlined after its bytes were shifted has become what corrects their sums.
        late = {step for step in prepare if step.args[0] in aliases.values()}
        prepare = tuple(step for step in prepare if step not in late)
        grouped.setdefault(prepare, []).append(_Class(_prepared(prim, prepare), members, aliases))
        for step in steps:
            grouped[prepare][-1].apply(step)
    return [_merged(prepare, group) for prepare, group in grouped.items()]


def _prepared(prim: PrimFunc, prepare: tuple[Step, ...]) -> PrimFunc:
    """Returns the PrimFunc that preparing steps make: the same one for every population, so that
    what is derived from it is worked out once."""
    if not prepare:
        return prim
    made: dict[tuple[Step, ...], PrimFunc] = prim.derived.setdefault("prepared", {})
    if prepare not in made:
        made[prepare] = state_of(prim, Schedule(prepare)).prim
    return made[prepare]


def _number(argument: Any) -> Any:
    return int(argument) if isinstance(argument, Column) else argument


class _Class:
    """Rows whose loops stand in one order."""

    def __init__(self, prim: PrimFunc, members: IntArray, aliases: Mapping[str, str]) -> None:
        self.prim, self.members, self.aliases = prim, members, aliases
        self.sizes = {
            a.name: as_int(a.extent) for s in prim.stages for a in (*s.axes, *s.reduce_axes)
        }
        n = len(members)
        self.order = [*self.sizes]
        self.axis = {name: name for name in self.sizes}
        self.extent: dict[str, IntArray] = {
            name: np.full(n, size, np.int64) for name, size in self.sizes.items()
        }
        self.kind: dict[str, IntArray] = {}
        self.tiles: dict[str, str] = {}
        self.at: dict[str, str] = {}
        self.panels: dict[str, dict[str, Panels]] = {}
        self.ahead: dict[str, IntArray] = {}
        self.nexts: dict[str, BoolArray] = {}
        self.streams = np.zeros(n, np.bool_)
        self.matrix = np.zeros(n, np.bool_)
        self.mirrors: dict[str, IntArray] = {}

    def apply(self, given: Any) -> None:
        """Applies one step to the rows for which it is meant. Steps on the loops of copies change
        nothing here."""
        n = len(self.members)
        step, where = given, np.ones(n, np.bool_)
        if isinstance(given, Guarded):
            step, where = given.step, given.where
        match step.name, step.args:
            case "split", (axis, factors) if axis in self.sizes:
                self.split(axis, [array_of(f, n) for f in factors])
            case "reorder", (names,):
                moved = [part for name in names for part in self.parts(name)]
                places = sorted(map(self.order.index, moved))
                for place, name in zip(places, moved):
                    self.order[place] = name
            case (("parallel" | "unroll" | "vectorize"), (name,)):
                for part in self.parts(name):
                    kind = self.kind.get(part, np.zeros(n, np.int64))
                    self.kind[part] = np.where(where, KINDS[LoopKind(step.name)], kind)
            case "tensorize", (name, instruction) if name in self.order:
                if instruction == "amx":
                    self.matrix = self.matrix | where
                else:
                    self.kind[name] = np.full(n, INSTRUCTION, np.int64)
            case "compute_at", (stage, name) if stage not in self.aliases.values():
                self.at[stage] = self.parts(name)[-1]
            case "cache_write", (stage, scope, name):
                self.tiles[self.aliases.get(stage, stage)] = self.parts(name)[-1]
                self.matrix = self.matrix | (where & (scope == "tiles"))
            case (("pack" | "pack_grouped" | "pack_at"), (buffer, axis, tile, *_)):
                tile = np.where(where, array_of(tile, n), 0)
                depth = np.zeros(n, np.int64)
                if step.name == "pack_at":
                    depth[where] = self.order.index(self.parts(step.args[3])[-1]) + 1
                panels = self.panels.setdefault(buffer, {})
                if axis in panels:
                    tile, depth = tile | panels[axis].tile, depth | panels[axis].depth
                panels[axis] = Panels(axis, tile, depth)
            case "prefetch", (_, buffer, _, distance):
                buffer = buffer.removesuffix(".packed")
                far = np.where(where, array_of(distance, n), 0)
                self.ahead[buffer] = np.maximum(far, self.ahead.get(buffer, 0))
            case "prefetch_next", (_, buffer, _):
                buffer = buffer.removesuffix(".packed")
                self.nexts[buffer] = where | self.nexts.get(buffer, False)
            case "stream", _:
                self.streams = self.streams | where
            case "mirror", (stage, name):
                self.mirrors[stage] = self.block(self.parts(name)[-1], where)
            case _:
                pass

    def parts(self, name: str) -> list[str]:
        """Returns the loops that a name stands for: those of a fused one, none of a copy's."""
        return [part for part in name.split("*") if part in self.extent]

    def split(self, axis: str, factors: list[IntArray]) -> None:
        """Replaces an axis by loops of these factors, as far as the axis reaches: the iterations of
        a loop are those inside of whole iterations of the loops around it."""
        names = [f"{axis}.{n}" for n in range(len(factors))]
        place = self.order.index(axis)
        self.order[place : place + 1] = names
        limit = self.extent.pop(axis)
        for number, name in enumerate(names):
            block = np.ones_like(limit)
            for factor in factors[number + 1 :]:
                block = block * factor
            self.axis[name] = axis
            self.extent[name] = -(-limit // block)
            limit = np.minimum(limit, block)

    def block(self, name: str, where: BoolArray) -> IntArray:
        """Returns the width of the blocks of a mirrored stage: what the loops inside of ``name``
        cover of its last axis; 0 in rows that are not mirrored."""
        axis = self.axis[name]
        inner = [x for x in self.order if self.axis[x] == axis]
        width = np.ones(len(self.members), np.int64)
        for loop in inner[inner.index(name) + 1 :]:
            width = width * self.extent[loop]
        return np.where(where, width, 0)

    def depth(self, stage: Stage) -> int:
        """Returns how many loops, of all in order, stand outside of a reduction's tile."""
        if stage.name in self.tiles:
            return self.order.index(self.tiles[stage.name]) + 1
        reduced = {a.name for a in stage.reduce_axes}
        inside = [n for n, loop in enumerate(self.order) if self.axis[loop] in reduced]
        return inside[0] if inside else len(self.order)


def _merged(prepare: tuple[Step, ...], classes: Sequence[_Class]) -> LoopArrays:
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
        prepare,
    )


def _panels(classes: Sequence[_Class], ends: Sequence[IntArray]) -> dict[str, tuple[Panels, ...]]:
    pairs = dict.fromkeys((x, a) for c in classes for x, axes in c.panels.items() for a in axes)
    joined: dict[str, tuple[Panels, ...]] = {}
    for name, axis in pairs:
        each = [c.panels.get(name, {}).get(axis) for c in classes]
        tile = _joined(classes, [0 if p is None else p.tile for p in each])
        depth = _joined(classes, [0 if p is None else e[p.depth] for p, e in zip(each, ends)])
        joined[name] = (*joined.get(name, ()), Panels(axis, tile, depth))
    return joined


def _named(classes: Sequence[_Class], what: str) -> dict[str, IntArray]:
    every: list[Mapping[str, Any]] = [getattr(c, what) for c in classes]
    names = dict.fromkeys(name for each in every for name in each)
    return {name: _joined(classes, [each.get(name, 0) for each in every]) for name in names}


def _joined(classes: Sequence[_Class], parts: Sequence[Any]) -> IntArray:
    """Returns int64[n] of the rows of all classes, an array or one number for each class."""
    return np.concatenate([array_of(part, len(c.members)) for c, part in zip(classes, parts)])


def _supersequence(left: Sequence[str], right: Sequence[str]) -> list[str]:
    """Returns a short sequence that has both among its subsequences."""
    merged: list[str] = []
    for kind, i, j, m, n in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        merged += left[i:j] if kind == "equal" else (*left[i:j], *right[m:n])
    return merged
