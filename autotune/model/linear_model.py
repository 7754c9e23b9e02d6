"""A cost model of NumPy alone, for machines without xgboost: ridge regression on ranks."""

from __future__ import annotations

import numpy as np

from ..protocols import FloatArray
from ..settings import DEFAULT_SETTINGS, TuneSettings
from .training import TrainingSet


class LinearModel:
    """Standardised features and their squares, fitted to ranks within the task."""

    def __init__(self, settings: TuneSettings = DEFAULT_SETTINGS) -> None:
        self._settings = settings
        self._data = TrainingSet(settings.training_rows)
        self._centre: FloatArray | None = None
        self._scale: FloatArray | None = None
        self._weights: FloatArray | None = None

    @property
    def trained(self) -> bool:
        return self._weights is not None

    def predict(self, features: FloatArray) -> FloatArray:
        """float32[n] of float[n, F]; higher is faster, zeros while untrained."""
        if self._weights is None:
            return np.zeros(len(features), np.float32)
        return (self._expand(features) @ self._weights).astype(np.float32)

    def update(self, group: str, features: FloatArray, costs: FloatArray) -> None:
        """Add float[n, F] features with float[n] seconds (inf: failed) and fit again."""
        self._data.add(group, features, costs)
        rows, labels = self._data.arrays(group)
        if len(rows) < self._settings.least_training_rows:
            return
        self._centre = rows.mean(axis=0)
        self._scale = np.maximum(rows.std(axis=0), 1e-6)
        wide = self._expand(rows)
        gram = wide.T @ wide + self._settings.ridge * len(wide) * np.eye(wide.shape[1])
        self._weights = np.linalg.solve(gram, wide.T @ labels)

    def _expand(self, features: FloatArray) -> FloatArray:
        assert self._centre is not None and self._scale is not None
        z = np.clip((np.asarray(features, np.float64) - self._centre) / self._scale, -4, 4)
        return np.concatenate([z, z * z, np.ones((len(z), 1))], axis=1)
