"""What cost models are trained on: features and costs of many tasks, made comparable."""

from __future__ import annotations

import numpy as np

from .protocols import FloatArray

__all__ = ["TrainingSet", "throughput_labels"]

_FLOOR = 8.0
"""Octaves below the best at which slowness stops to matter; failures stand one octave lower."""


def throughput_labels(costs: FloatArray) -> FloatArray:
    """float32[n] in [-1, 0] of float[n] seconds of one task: 0 is its best, -1 failed.

    The logarithm keeps slow candidates apart, the floor keeps them from ruling the fit.

    >>> throughput_labels(np.array([1.0, 2.0, np.inf])).round(3).tolist()
    [0.0, -0.11100000143051147, -1.0]
    """
    labels = np.full(len(costs), -(_FLOOR + 1), np.float32)
    ran = np.isfinite(costs)
    if ran.any():
        labels[ran] = np.maximum(-_FLOOR, np.log2(costs[ran].min() / costs[ran]))
    return labels / np.float32(_FLOOR + 1)


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
            label = throughput_labels(np.concatenate(self._costs[group]))[-left:]
            features.append(rows)
            labels.append(label)
            left -= len(rows)
        if not features:
            return np.empty((0, 0), np.float32), np.empty(0, np.float32)
        return np.concatenate(features), np.concatenate(labels)
