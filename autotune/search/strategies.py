"""The search strategies by name.

``random`` is the baseline that every other strategy has to beat, and ``grid`` meets every row of a
small space. ``predicted`` takes what the model rates best and looks no further. In ``guided``, the
default, the model picks from a diverse pool, and chance picks some more.

The pool of a batch are neighbours of the fastest measured rows, neighbours of those, samples of the
whole space, and what was left of the last pool. Breeding generations of a thousand rows (Ansor;
Zheng et al., OSDI 2020, section 5) proposed nothing faster in the same time (docs/tuning.md).
Candidates that are out of contention after a sample or two are dropped, and the leaders race: the
halving is in the measuring.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from ..protocols import Population, Score, SearchSpace
from ..settings import DEFAULT_SETTINGS, TuneSettings
from .strategy import Explorer, unique_rows


class GuidedSearch(Explorer):
    """After the default rows, the rows of the pool in the order of their scores, and samples."""

    def __init__(
        self, space: SearchSpace, seed: int = 0, settings: TuneSettings = DEFAULT_SETTINGS
    ) -> None:
        super().__init__(space, seed, settings)
        self._left = np.empty((0, len(space.knobs)), np.int32)

    def explore(self, score: Score | None, count: int) -> Population:
        if score is None:
            return self.fresh(2 * count)
        # Samples are of all there is: of some kernels the model dislikes the fastest.
        chance = self.fresh(round(self.settings.epsilon * count))
        centres = self.best_measured(self.settings.parents)
        centres = centres if len(centres) else self.space.default()
        pool = pool_around(centres, self.space, self.rng, self.settings)
        ranked = self._ranked(np.concatenate([pool, self._left]), score)
        best = ranked[: count - len(chance)]
        self._left = ranked[len(best) : self.settings.spare_batches * count]
        return np.concatenate([_dealt(best, chance), self._left])

    def _ranked(self, rows: Population, score: Score) -> Population:
        """Returns the rows that were not measured, each once, in the order of their scores.

        Rows of one score have the same features, as their loop nests mostly are the same: one of
        each comes first, so that a batch is filled at once with different ones.
        """
        rows = unique_rows(rows, self._memory)
        scores = score(rows) if len(rows) else np.empty(0)
        order = np.argsort(-scores, kind="stable")
        repeated = np.append(False, np.diff(scores[order]) == 0)[: len(order)]
        return rows[np.concatenate([order[~repeated], order[repeated]])]


class BestPredicted(GuidedSearch):
    """The search of the budget "quick": the default row and rows suggested by a log, then the other
    defaults and the pool around all of them in the order of their scores."""

    def __init__(
        self, space: SearchSpace, seed: int = 0, settings: TuneSettings = DEFAULT_SETTINGS
    ) -> None:
        super().__init__(space, seed, settings)
        self._sure = 1

    def suggest(self, rows: Population) -> None:
        super().suggest(rows)
        self._sure = max(self._sure, len(rows))

    @property
    def queued(self) -> int:
        """Returns 0: beside the default row, the defaults have to be rated well, too."""
        return 0

    def propose(self, score: Score | None, count: int) -> Population:
        if score is None:
            return super().propose(score, count)
        sure = unique_rows(self._queue[: self._sure], self._memory)[: max(1, count // 2)]
        pool = pool_around(self.space.default(), self.space, self.rng, self.settings)
        others = np.concatenate([self._queue, pool])
        others = unique_rows(np.concatenate([sure, others]), self._memory)[len(sure) :]
        self._sure, self._queue = 0, self._queue[:0]
        every = np.concatenate([sure, self._ranked(others, score)])
        self.spare = every[count : self.settings.spare_batches * count]
        return self._fill(every[:count], count)


def pool_around(
    centres: Population,
    space: SearchSpace,
    rng: np.random.Generator,
    settings: TuneSettings = DEFAULT_SETTINGS,
) -> Population:
    """Returns rows near to ``centres``, rows near to those, and samples; some repeatedly."""
    samples = space.sample(settings.random, rng)
    if not len(centres):
        return samples
    near = space.mutate(np.repeat(centres, -(-settings.near // len(centres)), axis=0), rng)
    return np.concatenate([near, space.mutate(near, rng), samples])


def _dealt(best: Population, chance: Population) -> Population:
    """Returns all rows, those by chance spread among the best: a batch may end early.

    >>> _dealt(np.array([[1], [2], [3], [4]]), np.array([[7], [8]])).ravel().tolist()
    [1, 7, 2, 3, 8, 4]
    """
    order = [(np.arange(len(part)) + 0.5) / max(1, len(part)) for part in (best, chance)]
    rows = np.concatenate([best, chance])
    return rows[np.argsort(np.concatenate(order), kind="stable")]


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
