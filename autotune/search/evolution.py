"""Evolutionary search: generations of rows, bred towards what the model thinks is fast.

The best measured rows and fresh samples make the first generation; each next one has the elites
of the last, mutations of them, and some rows drawn anew. Parents are chosen by rank. After Ansor's
search (Zheng et al., OSDI 2020, section 5), with every step on whole arrays; children of two
parents did not help (docs/tuning.md) and are left out.
"""

from __future__ import annotations

import numpy as np

from ..protocols import FloatArray, Population, Score
from .strategy import Explorer, pick_batch

__all__ = ["EvolutionarySearch"]


class EvolutionarySearch(Explorer):
    """A generation is scored in one call, and what was scored once is not scored again."""

    def explore(self, score: Score | None, count: int) -> Population:
        if score is None:
            return self.fresh(2 * count)
        rows = self._first_generation()
        if not len(rows):
            return rows
        scores = score(rows)
        seen_rows, seen_scores = [rows], [scores]
        for _ in range(self.settings.generations):
            children = self._children(rows, scores)
            if not len(children):
                break
            values = score(children)
            seen_rows.append(children)
            seen_scores.append(values)
            rows, scores = self._survivors(rows, scores, children, values)
        every, value = np.concatenate(seen_rows), np.concatenate(seen_scores)
        order = np.argsort(-value, kind="stable")
        fresh = ~self._memory.contains(every[order])
        every, value = every[order][fresh], value[order][fresh]
        _, first = np.unique(self._memory.hashes(every), return_index=True)
        keep = np.sort(first)
        return pick_batch(every[keep], value[keep], count, self.rng, self.settings)

    def _first_generation(self) -> Population:
        size = self.settings.population
        elites = self.best_measured(size // 8)
        offspring = elites
        if len(elites):
            parents = elites[self._by_rank(len(elites), size // 4)]
            offspring = self.space.mutate(parents, self.rng)
        new = self.space.sample(size - len(elites) - len(offspring), self.rng)
        return np.concatenate([elites, offspring, new])

    def _children(self, rows: Population, scores: FloatArray) -> Population:
        settings = self.settings
        ranked = rows[np.argsort(-scores, kind="stable")]
        fresh = int(settings.population * settings.fresh_share)
        parents = ranked[self._by_rank(len(ranked), settings.population - fresh)]
        return np.concatenate(
            [self.space.mutate(parents, self.rng), self.space.sample(fresh, self.rng)]
        )

    def _by_rank(self, ranked: int, count: int) -> np.ndarray:
        """Indices into a ranked population; the first is twice as likely as the middle one."""
        elites = max(1, int(ranked * self.settings.elite_share))
        return np.minimum((elites * self.rng.random(count) ** 2).astype(np.int64), ranked - 1)

    def _survivors(
        self,
        rows: Population,
        scores: FloatArray,
        children: Population,
        values: FloatArray,
    ) -> tuple[Population, FloatArray]:
        """The elites of the parents and all the children, each row once."""
        elites = np.argsort(-scores, kind="stable")[
            : int(self.settings.population * self.settings.elite_share)
        ]
        both = np.concatenate([rows[elites], children])
        value = np.concatenate([scores[elites], values])
        _, first = np.unique(self._memory.hashes(both), return_index=True)
        return both[first], value[first]
