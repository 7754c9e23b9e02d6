"""The few candidates that the model rates best: what the budget "quick" measures."""

from __future__ import annotations

import numpy as np

from ..protocols import Population, Score, SearchSpace
from ..settings import DEFAULT_SETTINGS, TuneSettings
from .strategy import Explorer, unique_rows


class BestPredicted(Explorer):
    """The default row, rows suggested by a log, then those of the ``proposal`` in the order of
    their scores."""

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
        others = np.concatenate([self._queue, proposal(self.space, self.rng, self.settings)])
        others = unique_rows(np.concatenate([sure, others]), self._memory)[len(sure) :]
        self._sure, self._queue = 0, self._queue[:0]
        ranked = others[np.argsort(-score(others), kind="stable")] if len(others) else others
        every = np.concatenate([sure, ranked])
        self.spare = every[count : self.settings.spare_batches * count]
        return self._fill(every[:count], count)


def proposal(
    space: SearchSpace, rng: np.random.Generator, settings: TuneSettings = DEFAULT_SETTINGS
) -> Population:
    """Returns rows to choose from: the defaults first, rows near to them and near to those, and
    samples. A row may be there several times."""
    defaults = space.default()
    if not len(defaults):
        return space.sample(settings.near + settings.random, rng)
    near = space.mutate(np.repeat(defaults, -(-settings.near // len(defaults)), axis=0), rng)
    further = space.mutate(near, rng)
    return np.concatenate([defaults, near, further, space.sample(settings.random, rng)])
