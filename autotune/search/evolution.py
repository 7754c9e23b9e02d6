"""Evolutionary search: generations of rows, bred towards what the model thinks is fast.

The best measured rows and fresh samples make the first generation; each next one has the elites
of the last, mutations of them, and some rows drawn anew. Parents are chosen by rank. After Ansor's
search (Zheng et al., OSDI 2020, section 5), with every step on whole arrays; children of two
parents did not help (docs/tuning.md) and are left out.

A part of every batch is neighbours of the fastest measured rows, and another one samples: among
good rows the model often errs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..protocols import FloatArray, Population, Score, SearchSpace
from ..settings import DEFAULT_SETTINGS, TuneSettings
from .strategy import Explorer, unique_rows

NEAR_ROWS = 8
"""Neighbours of which the model chooses one."""


class EvolutionarySearch(Explorer):
    """A generation is scored in one call, and what was scored once is not scored again. The best
    rows live on in the next batch, which so needs fewer generations."""

    def __init__(
        self, space: SearchSpace, seed: int = 0, settings: TuneSettings = DEFAULT_SETTINGS
    ) -> None:
        super().__init__(space, seed, settings)
        self._kept = np.empty((0, len(space.knobs)), np.int32)

    def explore(self, score: Score | None, count: int) -> Population:
        if score is None:
            return self.fresh(2 * count)
        rows = self._first_generation()
        if not len(rows):
            return rows
        scores = score(rows)
        seen_rows, seen_scores = [rows], [scores]
        settings = self.settings
        chosen = round(settings.near_share * count)
        near, samples = self._near(chosen), self.fresh(round(settings.epsilon * count))
        later = settings.later_generations if len(self._kept) else settings.generations
        for _ in range(later):
            children = self._children(rows, scores)
            if not len(children):
                break
            # In one call: the features of a thousand rows take twice as long as those of thirty.
            values = score(np.concatenate([children, near, samples]))[: len(children)]
            seen_rows.append(children)
            seen_scores.append(values)
            rows, scores = self._survivors(rows, scores, children, values)
        every, value = np.concatenate(seen_rows), np.concatenate(seen_scores)
        order = np.argsort(-value, kind="stable")
        fresh = ~self._memory.contains(every[order])
        every, value = every[order][fresh], value[order][fresh]
        _, first = np.unique(self._memory.hashes(every), return_index=True)
        keep = np.sort(first)
        every, value = every[keep], value[keep]
        # Rows of one score have the same features, as their loop nests mostly are the same: one of
        # each comes first, so that a batch is filled at once with different ones.
        repeated = np.append(False, value[1:] == value[:-1])[: len(value)]
        ranked = np.concatenate([every[~repeated], every[repeated]])
        self._kept = ranked[: settings.population // 2]
        near = near[np.argsort(-score(near), kind="stable")[:chosen]]
        # Samples are of all there is: of some kernels the model dislikes the fastest.
        best = ranked[: count - len(near) - len(samples)]
        batch = _dealt([best, near, samples])
        return np.concatenate([batch, ranked[len(best) : settings.spare_batches * count]])

    def _near(self, count: int) -> Population:
        """Returns neighbours of the fastest measured rows, of which the model chooses ``count``:
        among good rows it often errs, and what was measured leads further."""
        fastest = self.best_measured(self.settings.parents)
        if not count or not len(fastest):
            return fastest[:0]
        parents = np.repeat(fastest, NEAR_ROWS * count // len(fastest) + 1, axis=0)
        return unique_rows(self.space.mutate(parents, self.rng), self._memory)

    def _first_generation(self) -> Population:
        size = self.settings.population
        elites = self.best_measured(size // 8)
        if len(self._kept):  # known rows alone: children and fresh samples come next
            return np.concatenate([elites, self._kept])
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
        self, rows: Population, scores: FloatArray, children: Population, values: FloatArray
    ) -> tuple[Population, FloatArray]:
        """The elites of the parents and all the children, each row once."""
        elites = np.argsort(-scores, kind="stable")[
            : int(self.settings.population * self.settings.elite_share)
        ]
        both = np.concatenate([rows[elites], children])
        value = np.concatenate([scores[elites], values])
        _, first = np.unique(self._memory.hashes(both), return_index=True)
        return both[first], value[first]


def _dealt(parts: Sequence[Population]) -> Population:
    """Returns all rows of the parts, the first ones of each before its last: a batch may end early.

    >>> _dealt([np.array([[1], [2], [3], [4]]), np.array([[7], [8]])]).ravel().tolist()
    [1, 7, 2, 3, 8, 4]
    """
    place = np.concatenate([(np.arange(len(p)) + 0.5) / max(1, len(p)) for p in parts])
    return np.concatenate(list(parts))[np.argsort(place, kind="stable")]
