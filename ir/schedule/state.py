"""The decisions of a schedule so far: the state that the primitives transform.

Loops are named: an axis ``i`` that is not split is the loop ``i``; split into three it is ``i.0``,
``i.1``, ``i.2``, outermost first, with ``i = (i.0 * f1 + i.1) * f2 + i.2``. One order of loops
holds for the whole PrimFunc; a stage runs the loops of its own axes, in that order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ..dataclass import dataclass
from ..dims import IntExpr
from ..errors import ScheduleError
from ..loop.kinds import LoopKind, Scope
from ..loop.pack import Pack
from ..loop.prim import Buffer, PrimFunc, Stage


@dataclass(frozen=True, slots=True)
class Cache:
    """The tile in which a reduction accumulates: in ``scope``, allocated inside the loop ``at``."""

    scope: Scope
    at: str


@dataclass(frozen=True, slots=True)
class Panels:
    """Dimension ``dim`` of ``source`` is cut into panels of ``tile`` in each iteration of
    ``loop``."""

    source: Buffer
    dim: int
    tile: int
    loop: str


@dataclass(frozen=True, slots=True)
class Mirror:
    """A stage of which one triangle of blocks is computed; it is symmetric in ``axes``."""

    stage: str
    axes: tuple[str, str]


@dataclass(frozen=True)
class State:
    """Decisions by name. ``prim`` already contains the inlined, split and packed stages."""

    prim: PrimFunc
    order: tuple[str, ...]
    splits: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    fused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kinds: Mapping[str, LoopKind] = field(default_factory=dict)
    tensorized: Mapping[str, str] = field(default_factory=dict)
    at: Mapping[str, str] = field(default_factory=dict)
    caches: Mapping[str, Cache] = field(default_factory=dict)
    rfactors: Mapping[str, str] = field(default_factory=dict)
    packs: Mapping[str, Pack] = field(default_factory=dict)
    panels: Mapping[str, Panels] = field(default_factory=dict)
    streams: frozenset[str] = frozenset()
    skips: Mapping[str, str] = field(default_factory=dict)
    mirrors: Mapping[str, Mirror] = field(default_factory=dict)
    prefetches: Mapping[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    nexts: Mapping[tuple[str, str], str] = field(default_factory=dict)
    peels: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    cuts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @staticmethod
    def of(prim: PrimFunc) -> State:
        """Returns the state before any step: one loop per axis, in order of appearance.

        ScheduleError if a name is not unique, as after a step that has been done before.
        """
        extents: dict[str, IntExpr] = {}
        names = {p.name for p in prim.params}
        for stage in prim.stages:
            axes = (*stage.axes, *stage.reduce_axes)
            if stage.name in names:
                raise ScheduleError(f"{prim.name}: two buffers are called {stage.name}")
            if len({axis.name for axis in axes}) < len(axes):
                raise ScheduleError(f"{prim.name}: two axes of {stage.name} have the same name")
            names.add(stage.name)
            for axis in axes:
                if extents.setdefault(axis.name, axis.extent) != axis.extent:
                    raise ScheduleError(
                        f"{prim.name}: the axis {axis.name} has the extents "
                        f"{extents[axis.name]} and {axis.extent}"
                    )
        return State(prim, tuple(extents))

    @property
    def extents(self) -> dict[str, IntExpr]:
        """The extent of every axis."""
        return {a.name: a.extent for s in self.prim.stages for a in (*s.axes, *s.reduce_axes)}

    def loops_of_axis(self, axis: str) -> tuple[str, ...]:
        """Returns the loops that an axis was split into, outermost first."""
        count = len(self.splits.get(axis, ()))
        return tuple(f"{axis}.{p}" for p in range(count)) if count else (axis,)

    def parts(self, loop: str) -> tuple[str, ...]:
        """Returns the loops that a fused loop stands for; a plain loop stands for itself."""
        return self.fused.get(loop, (loop,))

    def axis_of(self, loop: str) -> str:
        """Returns the axis that a plain loop belongs to."""
        head, _, tail = loop.rpartition(".")
        return head if tail.isdigit() and head in self.splits else loop

    def block(self, loop: str) -> int:
        """Returns the step of the axis index in one iteration of a plain loop."""
        axis = self.axis_of(loop)
        if axis == loop:
            return 1
        size = 1
        for factor in self.splits[axis][int(loop.rpartition(".")[2]) + 1 :]:
            size *= factor
        return size

    def loops(self, stage: Stage) -> tuple[str, ...]:
        """Returns the loops of a stage, outermost first."""
        mine = {a.name for a in (*stage.axes, *stage.reduce_axes)}
        reduced = {a.name for a in stage.reduce_axes}
        walked: list[str] = []
        for loop in self.order:
            parts = [self.axis_of(part) for part in self.parts(loop)]
            inside = [axis in mine for axis in parts]
            if all(inside):
                walked.append(loop)
                if 0 < sum(axis in reduced for axis in parts) < len(parts):
                    raise ScheduleError(
                        f"{stage.name} reduces only a part of the fused loop {loop}"
                    )
            elif any(inside):
                raise ScheduleError(f"{stage.name} runs only a part of the fused loop {loop}")
        return tuple(walked)

    def is_reduction(self, stage: Stage, loop: str) -> bool:
        """True if the loop walks a reduced axis of the stage."""
        reduced = {a.name for a in stage.reduce_axes}
        return any(self.axis_of(part) in reduced for part in self.parts(loop))

    def require_loop(self, loop: str, step: str) -> str:
        if loop not in self.order:
            raise ScheduleError(f"{step}: no loop {loop!r} (the loops are {', '.join(self.order)})")
        return loop

    def require_stage(self, name: str, step: str) -> Stage:
        for stage in self.prim.stages:
            if stage.name == name:
                return stage
        names = ", ".join(s.name for s in self.prim.stages)
        raise ScheduleError(f"{step}: no stage {name!r} (the stages are {names})")
