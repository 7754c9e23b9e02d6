"""The search strategies by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..protocols import SearchSpace
from ..settings import DEFAULT_SETTINGS, TuneSettings
from .annealing import SimulatedAnnealing
from .evolution import EvolutionarySearch
from .grid_search import GridSearch
from .random_search import RandomSearch
from .strategy import Explorer

__all__ = ["DEFAULT_STRATEGY", "STRATEGIES", "make_strategy"]

DEFAULT_STRATEGY = "evolutionary"

STRATEGIES: Mapping[str, type[Explorer]] = MappingProxyType(
    {
        "evolutionary": EvolutionarySearch,
        "simulated_annealing": SimulatedAnnealing,
        "random": RandomSearch,
        "grid": GridSearch,
    }
)


def make_strategy(
    name: str, space: SearchSpace, seed: int = 0, settings: TuneSettings = DEFAULT_SETTINGS
) -> Explorer:
    """A strategy over ``space``. ValueError names the strategies there are."""
    if name not in STRATEGIES:
        raise ValueError(f"unknown strategy {name!r}; there are {', '.join(STRATEGIES)}")
    return STRATEGIES[name](space, seed, settings)
