"""The search strategies by name. ``guided`` is the default; see ``guided.py``.

``random`` is the baseline that every other strategy has to beat, and ``grid`` meets every row of a
small space. ``predicted`` takes what the model rates best and looks no further.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from ..protocols import Population, Score, SearchSpace
from ..settings import DEFAULT_SETTINGS, TuneSettings
from .guided import BestPredicted, GuidedSearch
from .strategy import Explorer

_CHUNK = 4096
"""Rows that a grid search looks at together."""


class GridSearch(Explorer):
    """Every row of the space once, as the mixed-radix numbers of the rows.

    The walk over the numbers has a stride near the golden section of their count and coprime to it,
    so that every prefix of it is spread over the whole space.
    """

    def __init__(
        self, space: SearchSpace, seed: int = 0, settings: TuneSettings = DEFAULT_SETTINGS
    ) -> None:
        super().__init__(space, seed, settings)
        self._sizes = [k.size for k in space.knobs]
        self._total = math.prod(self._sizes)
        self._stride = max(1, int(self._total * 0.6180339887498949))
        while math.gcd(self._stride, self._total) != 1:
            self._stride += 1
        self._next = 0

    def explore(self, _score: Score | None, count: int) -> Population:
        batch = np.empty((0, len(self._sizes)), np.int32)
        while len(batch) < count and self._next < self._total:
            rows = self._rows(min(_CHUNK, self._total - self._next))
            allowed = np.flatnonzero(self.space.valid(rows) & ~self._memory.contains(rows))
            take = allowed[: count - len(batch)]
            full = len(batch) + len(take) == count
            self._next += int(take[-1]) + 1 if full and len(take) else len(rows)
            batch = np.concatenate([batch, rows[take]])
        return batch

    def _rows(self, count: int) -> Population:
        numbers = [(self._next + i) * self._stride % self._total for i in range(count)]
        rows = np.empty((count, len(self._sizes)), np.int32)
        for row, number in zip(rows, numbers):  # Python's integers: there may be over 2^63 rows
            for column, size in enumerate(self._sizes):
                number, row[column] = divmod(number, size)
        return rows


STRATEGIES: Mapping[str, type[Explorer]] = MappingProxyType(
    {
        "guided": GuidedSearch,
        "random": Explorer,
        "grid": GridSearch,
        "predicted": BestPredicted,
    }
)
DEFAULT_STRATEGY = "guided"


def make_strategy(
    name: str, space: SearchSpace, seed: int = 0, settings: TuneSettings = DEFAULT_SETTINGS
) -> Explorer:
    """A strategy over ``space``. ValueError names the strategies there are."""
    if name not in STRATEGIES:
        raise ValueError(f"unknown strategy {name!r}; there are {', '.join(STRATEGIES)}")
    return STRATEGIES[name](space, seed, settings)
