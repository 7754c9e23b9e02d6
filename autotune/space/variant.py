"""One way of doing a PrimFunc: what is prepared, how copies lie, and each group's sketch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import dropwhile, takewhile
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir.dataclass import dataclass
from ...ir.dims import Dim, as_int, linear
from ...ir.loop.expr import IndexLike, Read, walk
from ...ir.loop.prim import PrimFunc, Stage
from ...ir.schedule.columns import IntArray, built
from ...ir.schedule.steps import Schedule, Step, layout
from .analysis import accesses_of
from .estimate import sketch_cycles
from .settings import SKETCHES
from .sketch import AnySketch
from .tiling import Choices, Tiling, Values


@dataclass(frozen=True)
class Variant:
    """Preparing steps, a sketch for the group with the most work, defaults for the others.

    ``offers`` are the default choices for the main group, those of its sketch if None.
    """

    name: str
    prepare: tuple[Step, ...]
    sketch: AnySketch
    others: tuple[AnySketch, ...] = ()
    offers: tuple[Choices, ...] | None = None

    def schedule(self, choices: Choices, others: Sequence[Choices] | None = None) -> Schedule:
        """The schedule of one value per knob of the main group's sketch; ``others`` are those of
        the other groups, their defaults if None."""
        around = self._others
        if others is not None:
            around = [o.schedule(c).steps for o, c in zip(self.others, others, strict=True)]
        groups = [self.sketch.schedule(choices).steps, *around]
        first = [step for steps in groups for step in takewhile(_comes_first, steps)]
        late = [step for steps in groups for step in dropwhile(_comes_first, steps)]
        return Schedule((*self.prepare, *first, *late))

    def steps(self, values: Values, count: int) -> Iterator[tuple[IntArray, list[Any]]]:
        """Yields the steps of ``count`` schedules at once, as ``built`` does, for int64[count]
        values of every knob."""
        around = [step for steps in self._others for step in steps]
        for members, steps in built(self.sketch.build, values, count):
            yield members, [*self.prepare, *steps, *around]

    @cached_property
    def defaults(self) -> list[Choices]:
        """Choices that are good without a measurement, the best first."""
        return self.sketch.defaults if self.offers is None else list(self.offers)

    @cached_property
    def cycles(self) -> float:
        """Estimated cycles of the first default schedule."""
        others = sum(sketch_cycles(other, other.defaults) for other in self.others)
        return sketch_cycles(self.sketch, self.defaults) + others

    @property
    def tiling(self) -> Tiling | None:
        """The tiling of the main group, if its sketch describes it."""
        return self.sketch if isinstance(self.sketch, Tiling) else None

    @cached_property
    def _others(self) -> list[tuple[Step, ...]]:
        return [other.schedule(other.defaults[0]).steps for other in self.others]

    @cached_property
    def tables(self) -> dict[str, npt.NDArray[np.int64]]:
        """The values of each knob."""
        return {knob: np.asarray(v, np.int64) for knob, v in self.sketch.knobs.items()}


def _comes_first(step: Step) -> bool:
    """True for steps that change operands or stages, which come before the loops of all groups."""
    kinds = ("pack", "pack_grouped", "shift_bytes", "compute_inline")
    return step.name in kinds or ".packed." in str(step.args[0])


def transposed_layouts(prim: PrimFunc) -> tuple[Step, ...]:
    """Layouts of maps read by groups of results, or by few at once, with the dimension of their
    vectors last.

    A copy lies as its reader walks it, the reduced axes last: vectors then run across the results,
    and what they have in common is read once for all lanes. Where results in groups see elements of
    their own, a vector has little in common, and where few results see the same (the colours that a
    decoder ends with), most lanes compute nothing. Vectors along another axis of the results find
    whole lines then, if the copy has the dimension last that this axis walks. So do those beside
    parameters that are not packed once for all.
    """
    maps = {s.name: s for s in prim.stages if s.combiner is None and s.name not in prim.outputs}
    moved = {p.name for p in prim.params if not p.constant}
    layouts: dict[str, Step] = {}
    for stage in (s for s in prim.stages if s.combiner is not None and s.axes):
        accesses, last = accesses_of(prim, stage.expr), stage.axes[-1].name
        strided = {a.buffer for a in accesses if a.stride(last) not in (0, 1)}
        strided = strided if any(a.buffer in moved for a in accesses) else set[str]()
        runs = {a.buffer for a in accesses if a.runs} | strided
        for node in walk(stage.expr):
            if not isinstance(node, Read) or node.buffer not in maps:
                continue
            axes = [a.name for a in maps[node.buffer].axes]
            axis = last if node.buffer in runs else _longest(node, stage, bool(strided & moved))
            dim = _moved(node, axis)
            if dim is not None and dim != len(axes) - 1:
                # An index that stays for runs of an axis, as 16 * (i // 16) + k, is not linear.
                grouped = [n for n, i in enumerate(node.indices) if _steps(i) is None]
                rest = [n for n in range(len(axes)) if n not in (*grouped, dim)]
                layouts[node.buffer] = layout(
                    node.buffer, *(axes[n] for n in (*grouped, *rest, dim))
                )
    return tuple(layouts.values())


def _longest(node: Read, stage: Stage, across: bool) -> str:
    """Returns the longest axis of the results that walks a dimension, the last one of them, if the
    results that share what is read fill less than half of the lanes, or read ``across`` lines of
    what is not packed; else none."""
    extents = {a.name: as_int(a.extent) for a in reversed(stage.axes)}
    moving = [a for a in extents if _moved(node, a) is not None]
    sharing = max((extents[a] for a in extents if a not in moving), default=1)
    few = across or 1 < sharing < SKETCHES.lanes / 2
    return max(moving, key=lambda a: extents[a], default="") if few else ""


def _moved(node: Read, axis: str) -> int | None:
    """Returns the one dimension that an axis of the results walks, None if not one."""
    dims = [d for d, i in enumerate(node.indices) if (_steps(i) or {}).get(axis, 0)]
    return dims[0] if len(dims) == 1 else None


def _steps(index: IndexLike) -> Mapping[str, int] | None:
    """Returns by how much every axis moves an index, None if not by the same everywhere."""
    parts = linear(index) if isinstance(index, int | Dim) else ({}, 0)
    return None if parts is None else parts[0]
