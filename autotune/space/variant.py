"""One way of doing a PrimFunc: what is prepared, and which sketch each group of stages is given."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ...ir.schedule.steps import Schedule, Step
from .rules import KNOBS, Choices, Sketch

__all__ = ["Variant"]


@dataclass(frozen=True)
class Variant:
    """Preparing steps, a sketch for the group with the most work, favourites for the others."""

    name: str
    prepare: tuple[Step, ...]
    sketch: Sketch
    others: tuple[Sketch, ...]

    def schedule(self, choices: Choices) -> Schedule:
        first, then = self.sketch.steps(choices)
        before: list[Step] = [*self.prepare, *first]
        after: list[Step] = list(then)
        for early, late in self._others:
            before += early
            after += late
        return Schedule((*before, *after))

    @cached_property
    def favourites(self) -> list[Choices]:
        """Choices that are good without any log, the best first."""
        return self.sketch.favourites()

    @cached_property
    def _others(self) -> list[tuple[list[Step], list[Step]]]:
        return [other.steps(other.favourite()) for other in self.others]

    @cached_property
    def tables(self) -> tuple[npt.NDArray[np.int64], ...]:
        return tuple(np.asarray(self.sketch.tables[k], np.int64) for k in KNOBS)
