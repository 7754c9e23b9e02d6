"""The cheapest options of choice points, against all of their combinations."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from loopwright.tuning import alternatives
from loopwright.tuning.alternatives import Costs


def random_costs(seed: int, pairs: list[tuple[int, int]], count: int) -> Costs:
    rng = np.random.default_rng(seed)
    points = {f"p{n}": tuple("abc"[: rng.integers(2, 4)]) for n in range(count)}
    costs = Costs(points)
    for p, options in points.items():
        costs.alone |= {(p, o): float(rng.normal()) for o in options[1:]}
    for m, n in pairs:
        for x, y in product(points[f"p{m}"][1:], points[f"p{n}"][1:]):
            costs.together[((f"p{m}", x), (f"p{n}", y))] = float(rng.normal())
    return costs


CHAIN = [(n, n + 1) for n in range(6)]
RESIDUAL = [*CHAIN, (0, 2), (2, 4), (5, 3)]  # series-parallel, and an edge written backwards


@pytest.mark.parametrize("pairs", [[], CHAIN, RESIDUAL])
@pytest.mark.parametrize("seed", range(4))
def test_no_combination_is_cheaper(seed: int, pairs: list[tuple[int, int]]) -> None:
    costs = random_costs(seed, pairs, 7)
    ways = (dict(zip(costs.points, way)) for way in product(*costs.points.values()))
    assert costs.of(costs.cheapest()) == pytest.approx(min(map(costs.of, ways)))


def test_a_point_with_too_many_neighbours_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = random_costs(0, [(m, n) for n in range(6) for m in range(n)], 6)
    monkeypatch.setattr(alternatives, "MOST_ENTRIES", 8)
    assert costs.of(costs.cheapest()) <= 0.0
