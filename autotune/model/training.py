"""Training data of cost models: features and costs of many tasks, made comparable."""

from __future__ import annotations

import numpy as np

from ..protocols import FloatArray
from ..settings import DEFAULT_SETTINGS, TuneSettings


def rank_labels(costs: FloatArray) -> FloatArray:
    """Returns float32[n] in [0, 1] of float[n] seconds of one task: the share of candidates beaten.

    Ranks are comparable between tasks, whatever the times of their best and worst candidates: on
    eleven matrix products, learning ten and ranking the eleventh, they put 91.0 % of the pairs in
    order (recall@30 0.67), log throughput 89.8 % (0.64). Failures have 0.

    >>> rank_labels(np.array([2.0, 1.0, np.inf, 4.0])).tolist()
    [0.75, 1.0, 0.0, 0.5]
    """
    count = len(costs)
    labels = np.zeros(count, np.float32)
    order = np.argsort(costs, kind="stable")
    labels[order] = 1.0 - np.arange(count, dtype=np.float32) / np.float32(max(1, count))
    labels[~np.isfinite(costs)] = 0.0
    return labels


def labels_of(costs: FloatArray, settings: TuneSettings = DEFAULT_SETTINGS) -> FloatArray:
    """Returns float32[n] in [0, 1], the mean of two labels. One says how good a candidate is among
    all: ``rank_labels``, and the number of doublings between it and the best, at most three. The
    other falls off quickly, so that it orders the good ones: exp of minus the relative distance to
    the best over ``near_scale``. Figures are in docs/measurements.md.

    >>> labels_of(np.array([2.0, 1.0, np.inf, 4.0])).round(3).tolist()
    [0.376, 1.0, 0.0, 0.221]
    """
    finite = np.isfinite(costs)
    doublings = np.zeros(len(costs), np.float64)
    near = np.zeros(len(costs), np.float64)
    if finite.any():
        away = np.log(costs[finite] / costs[finite].min())
        doublings[finite] = 1.0 - np.minimum(away / np.log(2) / settings.label_doublings, 1.0)
        near[finite] = np.exp(-away / settings.near_scale)
    among_all = settings.rank_share * rank_labels(costs) + (1.0 - settings.rank_share) * doublings
    return ((among_all + near) / 2).astype(np.float32)


class TrainingSet:
    """Rows per task, in the order of arrival. All features must have the same length."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._features: dict[str, list[FloatArray]] = {}
        self._costs: dict[str, list[FloatArray]] = {}

    def __len__(self) -> int:
        return sum(len(c) for chunks in self._costs.values() for c in chunks)

    def add(self, group: str, features: FloatArray, costs: FloatArray) -> None:
        """Add float[n, F] features and float[n] seconds of one task."""
        if len(features):
            self._features.setdefault(group, []).append(np.asarray(features, np.float32))
            self._costs.setdefault(group, []).append(np.asarray(costs, np.float64))

    def arrays(self, current: str) -> tuple[FloatArray, FloatArray]:
        """float32[n, F] and labels float32[n]: all of ``current``, then the newest of the others,
        up to the limit."""
        features: list[FloatArray] = []
        labels: list[FloatArray] = []
        left = self._limit
        others = [g for g in reversed(self._features) if g != current]
        for group in [current, *others]:
            if group not in self._features or left <= 0:
                continue
            rows = np.concatenate(self._features[group])[-left:]
            label = labels_of(np.concatenate(self._costs[group]))[-left:]
            features.append(rows)
            labels.append(label)
            left -= len(rows)
        if not features:
            return np.empty((0, 0), np.float32), np.empty(0, np.float32)
        return np.concatenate(features), np.concatenate(labels)
