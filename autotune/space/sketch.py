"""Sketches: schedules with knobs, for users' rules and the built-in ones alike.

::

    Sketch("blocks", lambda rows: [split("i", (64 // rows, rows)), unroll("i.1")], rows=(2, 4, 8))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import product
from math import prod
from typing import TypeAlias

import numpy as np

from ...ir.errors import LoopwrightValueError, ScheduleError
from ...ir.schedule.steps import Schedule, Step
from ..protocols import BoolArray
from .settings import SKETCHES
from .tiling import Choices, Tiling, Values


class Sketch:
    """Schedules with knobs: ``build(**choices)`` gives the steps for one choice of each.

    ``knobs`` name the integers to choose from, at most 4096 choices in all; the first value of each
    makes the default. ``build`` may raise ScheduleError for choices that are not in the space. The
    cost model reads the loops off the schedules, so that knobs may have any name and meaning.

    >>> from loopwright.schedule import vectorize
    >>> lw.Sketch("rows", lambda lanes: [vectorize("i")], lanes=(8, 16)).name
    'rows'
    """

    def __init__(
        self, name: str, build: Callable[..., Schedule | Iterable[Step]], **knobs: Sequence[int]
    ) -> None:
        self.name = str(name)
        self.build = build
        self.knobs: dict[str, tuple[int, ...]] = {}
        for knob, given in knobs.items():
            values = tuple(dict.fromkeys(int(v) for v in given))
            if not values or min(values) < 0:
                raise LoopwrightValueError(
                    f"sketch {name}: knob {knob} offers {list(given)}; it needs ints from 0 on"
                )
            self.knobs[knob] = values

    def schedule(self, choices: Choices) -> Schedule:
        """The schedule of one value per knob."""
        built = self.build(**choices)
        return built if isinstance(built, Schedule) else Schedule(tuple(built))

    @cached_property
    def defaults(self) -> list[Choices]:
        """Choices that are good without a measurement, the best first; none if none is legal."""
        return [dict(zip(self.knobs, values)) for values in list(self.listed)[:1]]

    def fits(self, values: Values) -> BoolArray:
        """bool[n]: which rows of ``values``, int64[n] for every knob, are in the space; bool[1]
        without knobs."""
        rows = zip(*(values[knob].tolist() for knob in self.knobs)) if self.knobs else [()]
        return np.array([row in self.listed for row in rows], np.bool_)

    def read(self, schedule: Schedule) -> dict[str, int] | None:
        """The choices that make ``schedule``, or one like it for other sizes; None if none do."""
        values = next((v for v, s in self.listed.items() if s == schedule), None)
        return None if values is None else dict(zip(self.knobs, values))

    @cached_property
    def listed(self) -> dict[tuple[int, ...], Schedule]:
        """The schedule of all choices that have one, by the values of the knobs."""
        if (count := prod(len(values) for values in self.knobs.values())) > SKETCHES.max_choices:
            raise LoopwrightValueError(
                f"sketch {self.name} offers {count} choices; {SKETCHES.max_choices} are the most",
                hint="leave out values, or give several sketches",
            )
        schedules: dict[tuple[int, ...], Schedule] = {}
        for values in product(*self.knobs.values()):
            try:
                schedules[values] = self.schedule(dict(zip(self.knobs, values)))
            except ScheduleError:
                continue
        return schedules


AnySketch: TypeAlias = Sketch | Tiling
"""A sketch that is built to be known, or one whose tiling says by arithmetic what building it would
tell."""
