"""Simulated annealing on the model's scores, many chains at once (AutoTVM's explorer)."""

from __future__ import annotations

import numpy as np

from ..protocols import Population, Score, SearchSpace
from ..settings import DEFAULT_SETTINGS, TuneSettings
from .strategy import Explorer, pick_batch, unique_rows

__all__ = ["SimulatedAnnealing"]


class SimulatedAnnealing(Explorer):
    """Chains accept a worse neighbour with probability exp(difference / temperature).

    The temperature is measured in standard deviations of the scores, so that it needs no unit.
    Chains live on from batch to batch.
    """

    def __init__(
        self, space: SearchSpace, seed: int = 0, settings: TuneSettings = DEFAULT_SETTINGS
    ) -> None:
        super().__init__(space, seed, settings)
        self._chains = space.sample(settings.annealing_chains, self.rng)

    def explore(self, score: Score | None, count: int) -> Population:
        if score is None or not len(self._chains):
            return self.fresh(2 * count)
        chains = self._chains
        scores = score(chains)
        visited, values = [chains], [scores]
        temperature = 1.0
        for _ in range(self.settings.annealing_steps):
            neighbours = self.space.mutate(chains, self.rng)
            new = score(neighbours)
            visited.append(neighbours)
            values.append(new)
            spread = float(scores.std()) or 1.0
            chance = np.exp(np.minimum(0.0, (new - scores) / (temperature * spread)))
            accepted = self.rng.random(len(chains)) < chance
            chains = np.where(accepted[:, None], neighbours, chains).astype(np.int32)
            scores = np.where(accepted, new, scores)
            temperature *= self.settings.annealing_cooling
        self._chains = chains
        every, value = np.concatenate(visited), np.concatenate(values)
        order = np.argsort(-value, kind="stable")[: 16 * count]
        best = unique_rows(every[order], self._memory)
        return pick_batch(best, score(best), count, self.rng, self.settings)
