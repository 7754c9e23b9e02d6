"""Geometric means of ratios with their confidence intervals, by a bootstrap over tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["GeometricMean", "geometric_mean"]

_DRAWS = 2000


@dataclass(frozen=True, slots=True)
class GeometricMean:
    """A mean and the ends of its 95 % confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f}-{self.high:.3f})"


def geometric_mean(ratios: Iterable[Sequence[float]]) -> GeometricMean:
    """Returns the mean of ratios, a sequence of them for each task: tasks are what is drawn again,
    since runs on one of them are no independent evidence."""
    means = np.array([np.log(np.asarray(each, np.float64)).mean() for each in ratios])
    drawn = np.random.default_rng(0).integers(0, len(means), (_DRAWS, len(means)))
    low, high = np.quantile(means[drawn].mean(axis=1), [0.025, 0.975])
    value, low, high = np.exp([means.mean(), low, high]).tolist()
    return GeometricMean(value, low, high)
