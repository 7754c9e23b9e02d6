"""One way of doing a PrimFunc: what is prepared, and which sketch each group of stages is given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import dropwhile, takewhile
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir.dataclass import dataclass
from ...ir.schedule.columns import built
from ...ir.schedule.steps import Schedule, Step
from .estimate import sketch_cycles
from .sketch import AnySketch
from .tiling import Choices, Tiling, Values

IntArray = npt.NDArray[np.int64]


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
