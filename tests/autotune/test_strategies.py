from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from loopwright.autotune.protocols import Population
from loopwright.autotune.search.strategies import STRATEGIES, RowSet, make_strategy, unique_rows
from loopwright.autotune.settings import DEFAULT_SETTINGS

from bench.standins import SyntheticSpace

SPACE = SyntheticSpace()


def perfect_score(rows: Population) -> np.ndarray:
    return -np.log(SPACE.seconds(rows)).astype(np.float32)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("scored", [False, True])
def test_no_row_is_proposed_twice_and_all_are_valid(name: str, scored: bool) -> None:
    strategy = make_strategy(name, SPACE, seed=1)
    seen = RowSet(len(SPACE.knobs))
    for _ in range(4):
        rows = strategy.propose(perfect_score if scored else None, 40)
        assert rows.shape == (40, len(SPACE.knobs)) and rows.dtype == np.int32
        assert SPACE.valid(rows).all()
        assert len(unique_rows(rows, seen)) == 40
        seen.add(rows)
        strategy.observe(rows, SPACE.seconds(rows))


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_favourites_of_the_rules_come_first(name: str) -> None:
    strategy = make_strategy(name, SPACE)
    assert (strategy.propose(None, 1) == SPACE.default()[:1]).all()
    assert (strategy.propose(None, 8)[0] == SPACE.default()[1]).all()
    near = SPACE.sample(1, np.random.default_rng(5))
    strategy.suggest(near)
    assert (strategy.propose(None, 4)[0] == near).all()


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_same_seed_gives_the_same_rows(name: str) -> None:
    def rows(seed: int) -> Population:
        return make_strategy(name, SPACE, seed).propose(perfect_score, 32)

    assert (rows(3) == rows(3)).all()
    assert name == "grid" or (rows(3) != rows(4)).any()


def best_after(name: str, trials: int, seed: int) -> float:
    strategy = make_strategy(name, SPACE, seed)
    best = np.inf
    for _ in range(trials // 32):
        rows = strategy.propose(perfect_score, 32)
        costs = SPACE.seconds(rows)
        strategy.observe(rows, costs)
        best = min(best, costs.min())
    return best


def test_guided_search_beats_random_search() -> None:
    chance = np.median([best_after("random", 96, seed) for seed in range(3)])
    assert np.median([best_after("guided", 96, seed) for seed in range(3)]) < chance


class TinySpace(SyntheticSpace):
    """Only the order and the packing are free: 12 rows."""

    def sample(self, n: int, rng: np.random.Generator) -> Population:
        rows = np.tile(self.default()[:1], (min(n, 12), 1))
        rows[:, 6:] = rng.integers(0, [4, 3], (len(rows), 2))
        return rows

    def mutate(self, rows: Population, rng: np.random.Generator) -> Population:
        return self.sample(len(rows), rng)[:1].repeat(len(rows), 0)


@pytest.mark.parametrize("name", ["guided", "random"])
def test_an_exhausted_space_ends_the_search(name: str) -> None:
    space = TinySpace()
    strategy = make_strategy(name, space)
    total = 0
    for _ in range(60):
        rows = strategy.propose(perfect_score, 8)
        strategy.observe(rows, space.seconds(rows))
        total += len(rows)
    assert 12 <= total <= 13  # the second favourite is outside of the samples
    assert len(strategy.propose(perfect_score, 8)) == 0


def test_grid_search_meets_every_row_of_a_small_space_once() -> None:
    class Small(SyntheticSpace):
        def __init__(self) -> None:
            super().__init__()
            self.knobs = self.knobs[4:8]
            self._sizes = np.array([k.size for k in self.knobs])

        def valid(self, rows: Population) -> np.ndarray:
            return rows[:, 0] != 3

        def default(self) -> Population:
            return np.empty((0, 4), np.int32)

        def sample(self, n: int, rng: np.random.Generator) -> Population:
            return np.empty((0, 4), np.int32)

    strategy = make_strategy("grid", Small())
    rows = []
    while len(batch := strategy.propose(None, 50)):
        strategy.observe(batch, np.ones(len(batch)))
        rows.append(batch)
    everything = np.concatenate(rows)
    assert len(everything) == 5 * 4 * 4 * 3 == len(np.unique(everything, axis=0))


@pytest.mark.parametrize("chance", [0.0, 0.25, 1.0])
def test_a_batch_is_what_is_rated_best_near_the_fastest_and_samples(chance: float) -> None:
    settings = replace(DEFAULT_SETTINGS, epsilon=chance, parents=2)
    strategy = make_strategy("guided", SPACE, 0, settings)
    rows = unique_rows(SPACE.sample(64, np.random.default_rng(1)), RowSet(8))
    strategy.observe(rows, SPACE.seconds(rows))
    batch = strategy.explore(lambda asked: -SPACE.seconds(asked), 32)[:32]
    best = SPACE.seconds(rows).min()
    close = (SPACE.seconds(batch) < 1.2 * best).mean()
    assert (1 - chance) * 0.9 <= close <= 1 - 0.7 * chance


def test_the_names_are_told() -> None:
    with pytest.raises(ValueError, match="unknown strategy 'psychic'; there are guided, "):
        make_strategy("psychic", SPACE)
