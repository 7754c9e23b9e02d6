"""Rows that the cost model is asked about where little or nothing is measured."""

from __future__ import annotations

import numpy as np

from .protocols import Population, SearchSpace
from .settings import DEFAULT_SETTINGS, TuneSettings


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
