"""Grid search: every row of the space once, in an order that covers it evenly from the start."""

from __future__ import annotations

import math

import numpy as np

from ..protocols import Population, Score, SearchSpace
from ..settings import DEFAULT_SETTINGS, TuneSettings
from .strategy import Explorer

__all__ = ["GridSearch"]

_CHUNK = 4096


class GridSearch(Explorer):
    """Walks the mixed-radix numbers of the rows with a stride coprime to their count.

    A stride near the golden section of the count spreads any prefix of the walk over the whole
    space. Spaces beyond 2^40 rows are walked likewise, but not to the end.
    """

    def __init__(
        self, space: SearchSpace, seed: int = 0, settings: TuneSettings = DEFAULT_SETTINGS
    ) -> None:
        super().__init__(space, seed, settings)
        self._sizes = [k.size for k in space.knobs]
        self._total = math.prod(self._sizes)
        self._stride = _coprime_near(int(self._total * 0.6180339887498949), self._total)
        self._next = 0

    def explore(self, score: Score | None, count: int) -> Population:
        found = np.empty((0, len(self._sizes)), np.int32)
        while len(found) < count and self._next < self._total:
            rows = self._rows(min(_CHUNK, self._total - self._next))
            allowed = np.flatnonzero(self.space.valid(rows) & ~self._memory.contains(rows))
            take = allowed[: count - len(found)]
            full = len(found) + len(take) == count
            self._next += int(take[-1]) + 1 if full and len(take) else len(rows)
            found = np.concatenate([found, rows[take]])
        return found

    def _rows(self, count: int) -> Population:
        numbers = [(self._next + i) * self._stride % self._total for i in range(count)]
        rows = np.empty((count, len(self._sizes)), np.int32)
        for row, number in zip(rows, numbers):
            for column, size in enumerate(self._sizes):
                number, row[column] = divmod(number, size)
        return rows


def _coprime_near(start: int, total: int) -> int:
    stride = max(1, start)
    while math.gcd(stride, total) != 1:
        stride += 1
    return stride
