"""The cost model: XGBoost, ranking candidates within a task. The only file that loads xgboost.

It is trained on every measured run it is told about: all of the task at hand and the newest of the
others, each run ranked among those of its own task. Training starts anew on every update, since
1,000 rows take tens of milliseconds; a model loaded from a file goes on growing from there.
"""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from typing import Any

import numpy as np

from .linear_model import LinearModel
from .protocols import CostModel, FloatArray
from .quality import ModelQuality, pairwise_accuracy, recall_at
from .settings import DEFAULT_SETTINGS, TuneSettings
from .training import TrainingSet

__all__ = ["JudgedModel", "XGBoostModel", "available_model", "has_xgboost"]


@cache
def _xgboost() -> Any:
    """The library, loaded when the first model is trained: compiling and reuse never need it."""
    import xgboost

    return xgboost


def has_xgboost() -> bool:
    """Whether xgboost is installed (it is not loaded for that)."""
    return importlib.util.find_spec("xgboost") is not None


class XGBoostModel:
    """Boosted trees on the share of the task's candidates that one beats."""

    def __init__(self, settings: TuneSettings = DEFAULT_SETTINGS, seed: int = 0) -> None:
        self._settings = settings
        self._seed = seed
        self._data = TrainingSet(settings.training_rows)
        self._prior: Any = None
        self._booster: Any = None

    @property
    def trained(self) -> bool:
        return self._booster is not None

    def predict(self, features: FloatArray) -> FloatArray:
        """float32[n] of float[n, F]; higher is faster, zeros while untrained.

        ValueError if F is not what the model was trained on.
        """
        if self._booster is None or not len(features):
            return np.zeros(len(features), np.float32)
        rows = np.ascontiguousarray(features, np.float32)
        if rows.shape[1] != self._booster.num_features():
            raise ValueError(
                f"{rows.shape[1]} features, but the model knows {self._booster.num_features()}"
            )
        return self._booster.inplace_predict(rows)

    def update(self, group: str, features: FloatArray, costs: FloatArray) -> None:
        """Add float[n, F] features with float[n] seconds (inf: failed) and train again."""
        self._data.add(group, features, costs)
        rows, labels = self._data.arrays(group)
        if len(rows) >= self._settings.least_training_rows:
            self._booster = self._train(rows, labels)

    def _train(self, rows: FloatArray, labels: FloatArray) -> Any:
        xgboost = _xgboost()
        settings = self._settings
        parameters = {
            **dict(settings.booster),
            "nthread": settings.model_threads,
            "seed": self._seed,
            "base_score": float(labels.mean()),
        }
        prior = self._prior
        if prior is not None:
            parameters.pop("base_score")
            if prior.num_features() != rows.shape[1]:
                prior = None
        data = xgboost.DMatrix(rows, labels, nthread=settings.model_threads)
        return xgboost.train(parameters, data, settings.boosting_rounds, xgb_model=prior)

    def save(self, path: str | os.PathLike[str], feature_version: int) -> None:
        """Write the trees in XGBoost's own format (by the suffix, .json or .ubj)."""
        if self._booster is None:
            raise ValueError("an untrained model cannot be saved")
        self._booster.set_attr(loopwright_features=str(feature_version))
        self._booster.save_model(os.fspath(path))

    def load(self, path: str | os.PathLike[str], feature_version: int) -> bool:
        """Go on from a saved model; False, and nothing changed, if its features are others."""
        booster = _xgboost().Booster({"nthread": self._settings.model_threads})
        booster.load_model(os.fspath(path))
        if booster.attr("loopwright_features") != str(feature_version):
            return False
        self._prior = self._booster = booster
        return True


class JudgedModel:
    """A model that is asked for its opinion before it learns the truth, and remembers how good
    the opinion was. If the model under it fails, a linear one takes over and tuning goes on."""

    def __init__(self, model: CostModel) -> None:
        self.model = model
        self.failure: str | None = None
        self._predicted: list[FloatArray] = []
        self._costs: list[FloatArray] = []
        self._learnt: list[tuple[str, FloatArray, FloatArray]] = []

    @property
    def name(self) -> str:
        """What the model is, as a run notes it: its class, and what it was trained on before."""
        return f"{type(self.model).__name__}{getattr(self.model, 'origin', '')}"

    @property
    def trained(self) -> bool:
        return self.model.trained

    def predict(self, features: FloatArray) -> FloatArray:
        return self.model.predict(features)

    def update(self, group: str, features: FloatArray, costs: FloatArray) -> None:
        if self.trained and len(costs) > 1:
            self._predicted.append(self.model.predict(features))
            self._costs.append(np.asarray(costs, np.float64))
        self._learnt.append((group, features, costs))
        try:
            self.model.update(group, features, costs)
        except Exception as error:  # a library's change of heart must not end a night of tuning
            self.failure = f"{type(error).__name__}: {error}"
            self.model = LinearModel()
            for known in self._learnt:
                self.model.update(*known)

    def quality(self) -> ModelQuality | None:
        """Averages over the batches judged, weighted by their pairs; None before the first. The
        recall is that of the fastest quarter of each batch."""
        if not self._costs:
            return None
        sizes = np.array([len(c) for c in self._costs])
        pairs = [pairwise_accuracy(p, c) for p, c in zip(self._predicted, self._costs)]
        recalls = [
            recall_at(p, c, max(1, len(c) // 4)) for p, c in zip(self._predicted, self._costs)
        ]
        told = np.isfinite(pairs)
        if not told.any():
            return None
        weights = (sizes * (sizes - 1))[told]
        return ModelQuality(
            int(sizes.sum()),
            float(np.average(np.array(pairs)[told], weights=weights)),
            float(np.average(np.array(recalls)[told], weights=weights)),
            int(max(1, sizes.mean() // 4)),
        )


def available_model(settings: TuneSettings = DEFAULT_SETTINGS, seed: int = 0) -> CostModel:
    """The best model this installation has."""
    return XGBoostModel(settings, seed) if has_xgboost() else LinearModel(settings)
