"""Tilings read off schedules: for features of sketches that do not describe theirs.

Loops are read as the steps leave them: vectorised and unrolled loops of an axis make the register
tile, serial ones between them and the outermost loop the cache tile, reduced loops that stand
outside of cache tiles the blocks of k.
"""

from __future__ import annotations

from math import prod

from ...codegen.target import Target
from ...ir.dataclass import dataclass
from ...ir.loop.prim import PrimFunc
from ...ir.schedule.primitives import state_of
from ...ir.schedule.steps import Schedule
from .analysis import Group, groups_of
from .tiling import Kind, Tiling, axis_of

__all__ = ["PREPARING", "ReadTiling", "tiling_of"]

PREPARING = frozenset(
    {"compute_inline", "split_reduction", "blockwise", "layout", "cache_read", "own_axis"}
)
"""Steps that make other stages of a PrimFunc, before any loop is cut."""


@dataclass(frozen=True)
class ReadTiling(Tiling):
    """The tiling of a schedule that no rule describes."""

    along: str | None = None  # the axis of vectors that not all stages share
    unrolled_points: int = 1  # points of reduced axes that are unrolled as a whole
    in_groups: bool = False  # neighbours along the reduced axis are one group of a lane

    @property
    def kind(self) -> int:  # type: ignore[override]
        if self.along is not None:
            return Kind.LANES
        if self.in_groups:
            return Kind.DOTS
        return Kind.WINDOW if self.unrolled_points > 1 else Kind.TILES

    @property
    def inner_axis(self) -> str | None:
        return self.along or self.vector_axis

    @property
    def taps(self) -> int:
        return self.unrolled_points

    @property
    def always_packed(self) -> frozenset[str]:
        packed = (*self.packable, *self.packable_rows) if self.along is not None else ()
        return frozenset(name for name, _ in packed)

    @property
    def axes(self) -> tuple[object, ...]:
        """Equal for schedules that tile the same axes of the same stages."""
        rows = (self.row_axis, self.second_row_axis, self.k_axis)
        packs = (self.packable, self.packable_rows)
        return (self.group.prim, self.inner_axis, *rows, *packs, self.unrolled_points, self.kind)


def tiling_of(
    prim: PrimFunc, target: Target, schedule: Schedule
) -> tuple[ReadTiling, dict[str, int]]:
    """Returns the tiling of the stage with the most work under a schedule, and its values."""
    steps = schedule.steps
    prepare = tuple(s for s in steps if s.name in PREPARING)
    prepared = state_of(prim, Schedule(prepare)).prim if prepare else prim
    group = max(groups_of(prepared), key=lambda g: g.flops)
    loops = _Loops.of(group, schedule)
    reduced = [a.name for a in group.main.reduce_axes]
    axes = [a.name for a in group.main.axes]
    unrolled = list(dict.fromkeys(axis_of(x) for x in loops.order[::-1] if x in loops.unrolled))
    vectors = [axis_of(x) for x in loops.order if x in schedule.vectorized]
    v = vectors[-1] if vectors else None
    is_along = v not in group.shared  # vectors along an axis that not all stages have
    rows = [a for a in unrolled if a in axes and a != v]
    row, row2 = (*rows, None, None)[:2]
    whole = [a for a in reduced if a in loops.unrolled]
    cut = [a for a in reduced if a not in whole and a != v]
    k = max(cut, key=lambda a: (a in unrolled, group.extents[a], cut.index(a)), default=None)
    constants = {p.name: p.constant for p in group.prim.params}
    packs = [(s.args[0], s.args[1]) for s in steps if s.name.startswith("pack")]
    tiling = ReadTiling(
        group,
        target,
        None if is_along else v,
        row,
        row2,
        k,
        tuple((name, constants.get(name, False)) for name, axis in packs if axis != row),
        packable_rows=tuple(
            (name, constants.get(name, False)) for name, axis in packs if axis == row
        ),
        along=v if is_along else None,
        unrolled_points=prod(group.extents[a] for a in whole),
        in_groups=any(s.name == "pack_grouped" for s in steps),
    )
    return tiling, {**(tiling.read(schedule) or {}), **loops.values(tiling)}


@dataclass(frozen=True)
class _Loops:
    """The loops of a group's main stage, outermost first, with what is done to them."""

    order: tuple[str, ...]
    extents: dict[str, int]
    unrolled: frozenset[str]
    vectorized: frozenset[str]
    shared: int  # iterations of the parallel loop

    @staticmethod
    def of(group: Group, schedule: Schedule) -> _Loops:
        names = [a.name for a in (*group.main.axes, *group.main.reduce_axes)]
        extents = {name: group.extents[name] for name in names}
        order = list(names)
        for step in schedule.steps:
            if step.name == "split" and (axis := step.args[0]) in extents:
                cut = {f"{axis}.{n}": size for n, size in enumerate(step.args[1])}
                order[order.index(axis) : order.index(axis) + 1] = cut
                del extents[axis]
                extents.update(cut)
            elif step.name == "reorder":
                moved = [loop for loop in step.args[0] if loop in extents]
                places = sorted(order.index(loop) for loop in moved)
                for place, loop in zip(places, moved):
                    order[place] = loop
        inside = max(
            (order.index(x) + 1 for x in schedule.vectorized & {*order}), default=len(order)
        )
        del order[inside:]  # what one instruction does in a lane
        done = {kind: _loops_of(schedule, kind) & {*order} for kind in ("unroll", "parallel")}
        return _Loops(
            tuple(order),
            extents,
            done["unroll"],
            schedule.vectorized & {*order},
            prod(extents[loop] for loop in done["parallel"]),
        )

    def values(self, tiling: Tiling) -> dict[str, int]:
        """Returns the values of ``tiling`` that follow from the loops."""
        v, lanes = tiling.inner_axis, tiling.lanes
        wide = [x for x in self.order if axis_of(x) == v]
        read = {
            "vectors": prod(-(-self.extents[x] // lanes) for x in wide if x in self.vectorized)
            * prod(self.extents[x] for x in wide if x in self.unrolled),
            "rows": self._tile(tiling.row_axis),
            "second_rows": self._tile(tiling.second_row_axis),
            "k_unroll": self._tile(tiling.k_axis),
            "cache_vectors": prod(self.extents[x] for x in self._between(v)),
            "cache_rows": prod(self.extents[x] for x in self._between(tiling.row_axis)),
            "shared": self.shared,
        }
        cache = [self.order.index(x) for a in (v, tiling.row_axis) for x in self._between(a)]
        outside = self.order[: min(cache, default=0)]
        read["k_blocks"] = prod(self.extents[x] for x in outside if axis_of(x) == tiling.k_axis)
        return read

    def _tile(self, axis: str | None) -> int:
        return prod(self.extents[x] for x in self.unrolled if axis_of(x) == axis)

    def _between(self, axis: str | None) -> list[str]:
        """Serial loops of an axis inside of its outermost one."""
        mine = [x for x in self.order if axis_of(x) == axis]
        return [x for x in mine[1:] if x not in self.unrolled and x not in self.vectorized]


def _loops_of(schedule: Schedule, kind: str) -> frozenset[str]:
    """The loops that steps of a kind name, those of fused loops one by one."""
    named = (s.args[0] for s in schedule.steps if s.name == kind)
    return frozenset(loop for name in named for loop in name.split("*"))
