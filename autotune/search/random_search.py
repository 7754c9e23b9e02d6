"""Random search: the baseline that every other strategy has to beat."""

from __future__ import annotations

from ..protocols import Population, Score
from .strategy import Explorer

__all__ = ["RandomSearch"]


class RandomSearch(Explorer):
    """Samples of the space, the model unasked."""

    def explore(self, score: Score | None, count: int) -> Population:
        return self.fresh(2 * count)
