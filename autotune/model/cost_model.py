"""The cost model: XGBoost, ranking candidates within a task. The only file that loads xgboost.

It is trained on every measured run it is told about: all of the task at hand and the newest of the
others, each run ranked among those of its own task. Training starts anew on every update, since
1,000 rows take tens of milliseconds; a model loaded from a file goes on growing from there, and so
does the one that ships with the package (``warm``): that one is asked before anything is learnt.

Machines without xgboost have a model of NumPy alone: ridge regression on ranks.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import threading
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ...ir.floors import require
from ..protocols import CostModel, FloatArray
from ..settings import DEFAULT_SETTINGS, TuneSettings
from .quality import ModelQuality, pairwise_accuracy, recall_at
from .shipped import shipped_model
from .tree_model import TreeModel, joined, mean_of, slimmed


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


@cache
def _xgboost() -> Any:
    """The library, loaded when the first model is trained: compiling and reuse never need it."""
    if "xgboost" in sys.modules:
        import xgboost

        library: Any = xgboost
    else:
        library = load_apart("xgboost", without=("sklearn",))
    require(library, "xgboost")
    return library


def has_xgboost() -> bool:
    """Returns True if xgboost is installed, without loading it."""
    return importlib.util.find_spec("xgboost") is not None


class XGBoostModel:
    """Boosted trees on how good a candidate is among those of its task (``labels_of``)."""

    def __init__(self, settings: TuneSettings = DEFAULT_SETTINGS, seed: int = 0) -> None:
        self._settings = settings
        self._seed = seed
        self._data = TrainingSet(settings.training_rows)
        self._prior: Any = None
        self._booster: Any = None  # what is learnt on top of the prior
        self._read: TreeModel | None = None
        self._loading = threading.Lock()
        self.origin = ""

    @property
    def trained(self) -> bool:
        return any(m is not None for m in (self._booster, self._prior, self._read))

    def predict(self, features: FloatArray) -> FloatArray:
        """float32[n] of float[n, F]; higher is faster, zeros while untrained.

        ValueError if F is not what the model was trained on.
        """
        if not self.trained or not len(features):
            return np.zeros(len(features), np.float32)
        if self._booster is None and self._read is not None:
            self._load_meanwhile()  # needed for what is learnt from these candidates
            return self._read.predict(features)
        rows = np.ascontiguousarray(features, np.float32)
        expected = (self._booster or self._prior).num_features()
        if rows.shape[1] != expected:
            raise ValueError(f"{rows.shape[1]} features, but the model knows {expected}")
        before = self._said_before(rows)
        if self._booster is None:
            return before
        return self._booster.inplace_predict(rows, base_margin=before)

    def update(self, group: str, features: FloatArray, costs: FloatArray) -> None:
        """Adds float[n, F] features with float[n] seconds (inf: failed) and retrains."""
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
        data = xgboost.DMatrix(rows, labels, nthread=settings.model_threads)
        before = self._said_before(rows)
        if before is not None:
            data.set_base_margin(before)
        booster = xgboost.Booster(parameters, [data])
        for number in range(settings.boosting_rounds):  # xgboost.train copies the model twice
            booster.update(data, number)
        return booster

    def _load_meanwhile(self) -> None:
        """Load the library, which takes a second, while candidates are built and measured."""
        if self._prior is None and not self._loading.locked():
            threading.Thread(target=self._load_quietly, name="loading xgboost").start()

    def _load_quietly(self) -> None:
        """Loads the library. A process that ends meanwhile makes the import fail, which nobody
        needs to hear of."""
        with contextlib.suppress(RuntimeError):
            self._load_prior()

    def _load_prior(self) -> None:
        """Has xgboost read the model that was read without it."""
        with self._loading:
            if self._prior is None and self._read is not None:
                prior = _xgboost().Booster({"nthread": self._settings.model_threads})
                prior.load_model(bytearray(self._read.source))
                self._prior = prior

    def _said_before(self, rows: FloatArray) -> Any:
        """Returns float32[n]: what the model says that this one grows from, whose own trees are not
        repeated in it; None without one of as many features."""
        if self._read is not None and self._read.features == rows.shape[1]:
            self._load_prior()
        if self._prior is None or self._prior.num_features() != rows.shape[1]:
            return None
        return self._prior.inplace_predict(rows)

    def learn(self, groups: Iterable[tuple[FloatArray, FloatArray, str]]) -> None:
        """Trains from nothing on float[n, F] features with float[n] seconds of each task, and the
        machine that measured it: the model that ships. Every machine has the same weight, and a
        task of one that of the square root of its number of schedules. Every member leaves out
        other tasks; the model is their mean."""
        xgboost, settings = _xgboost(), self._settings
        measured = list(groups)
        weight_of: dict[str, float] = {}
        for _, costs, machine in measured:
            weight_of[machine] = weight_of.get(machine, 0.0) + len(costs) ** 0.5
        tasks = [(f, labels_of(c), 1.0 / weight_of[machine]) for f, c, machine in measured]
        base = float(np.mean([label.mean() for _, label, _ in tasks]))
        boosters: list[Any] = []
        for member in range(settings.members):
            part = [t for n, t in enumerate(tasks) if n % settings.members != member] or tasks
            rows = np.concatenate([f for f, _, _ in part])
            labels = np.concatenate([label for _, label, _ in part])
            weights = np.concatenate([np.full(len(f), w * len(f) ** -0.5) for f, _, w in part])
            weights /= weights.mean()
            data = xgboost.DMatrix(rows, labels, weight=weights, nthread=settings.model_threads)
            parameters = {
                **dict(settings.booster),
                **dict(settings.shipped_booster),
                "nthread": settings.model_threads,
                "seed": self._seed + member,
                "base_score": base,
            }
            boosters.append(xgboost.train(parameters, data, settings.shipped_rounds))
        texts = [bytes(b.save_raw("json")) for b in boosters]
        self._prior = self._read = None
        self._booster = xgboost.Booster({"nthread": settings.model_threads})
        self._booster.load_model(bytearray(mean_of(texts), "utf-8"))
        self._booster.set_attr(loopwright_members=str(settings.members))

    def start_from(self, model: TreeModel) -> None:
        """Ask a model that was read, and go on from it; xgboost is loaded to learn, not before."""
        self._read = model
        self.origin = f" from {model.name}"

    def save(
        self, path: str | os.PathLike[str], feature_version: int, levels: Iterable[str] = ()
    ) -> None:
        """Write the trees in XGBoost's own format (by the suffix, .json or .ubj), and the ISA
        ``levels`` of the machines they were trained on."""
        if not self.trained:
            raise ValueError("an untrained model cannot be saved")
        self._load_prior()
        booster = self._booster if self._prior is None else self._prior
        if self._prior is not None and self._booster is not None:
            texts = [bytes(b.save_raw("json")) for b in (self._prior, self._booster)]
            booster = _xgboost().Booster({"nthread": self._settings.model_threads})
            booster.load_model(bytearray(joined(texts), "utf-8"))
            booster.set_attr(loopwright_members="1")
        booster.set_attr(
            loopwright_features=str(feature_version), loopwright_isa=" ".join(sorted(levels))
        )
        booster.save_model(os.fspath(path))
        if Path(path).suffix == ".json":
            Path(path).write_text(slimmed(Path(path).read_bytes()))

    def load(self, path: str | os.PathLike[str], feature_version: int) -> bool:
        """Go on from a saved model; False, and nothing changed, if its features are others."""
        booster = _xgboost().Booster({"nthread": self._settings.model_threads})
        booster.load_model(os.fspath(path))
        if booster.attr("loopwright_features") != str(feature_version):
            return False
        self._prior, self._booster = booster, None
        return True


class JudgedModel:
    """A model that predicts each batch before it learns the measured times, and keeps both to judge
    its quality. If the model under it fails, a linear one takes over and tuning continues."""

    def __init__(self, model: CostModel) -> None:
        self.model = model
        self.failure: str | None = None
        self._predicted: list[FloatArray] = []
        self._costs: list[FloatArray] = []
        self._learnt: list[tuple[str, FloatArray, FloatArray]] = []

    @property
    def name(self) -> str:
        """Returns the model's class and the origin of its prior training, as a run notes it."""
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
        except Exception as error:  # an error in the library must not end a night of tuning
            self.failure = f"{type(error).__name__}: {error}"
            self.model = LinearModel()
            for batch in self._learnt:
                self.model.update(*batch)

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
        judged = np.isfinite(pairs)
        if not judged.any():
            return None
        weights = (sizes * (sizes - 1))[judged]
        return ModelQuality(
            int(sizes.sum()),
            float(np.average(np.array(pairs)[judged], weights=weights)),
            float(np.average(np.array(recalls)[judged], weights=weights)),
            int(max(1, sizes.mean() // 4)),
        )


def available_model(
    settings: TuneSettings = DEFAULT_SETTINGS, seed: int = 0, features: int | None = None
) -> CostModel:
    """Returns the best model of this installation: boosted trees if xgboost is installed.

    They continue the model that ships if it takes as many ``features``.
    """
    if not has_xgboost():
        return LinearModel(settings)
    model = XGBoostModel(settings, seed)
    shipped = shipped_model().model
    if shipped is not None and shipped.features == features:
        model.start_from(shipped)
    return model


def load_apart(name: str, without: tuple[str, ...]) -> ModuleType:
    """Returns the package ``name``, whose imports of the packages ``without`` fail if they are not
    loaded yet. Raises ImportError if it is not installed.

    ``import xgboost`` takes 1.3 s of CPU where scikit-learn is installed and 0.3 s where it is not.
    A search makes no use of it, so that the library is loaded as if scikit-learn were missing. It
    is a copy under a name of its own: an ``import xgboost`` of the user's gets the whole one.
    """
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    alias = f"_loopwright_{name}"
    places = spec.submodule_search_locations
    spec = importlib.util.spec_from_file_location(
        alias, spec.origin, submodule_search_locations=places
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    missing: Any = _Missing(without)
    sys.modules[alias] = module
    sys.meta_path.insert(0, missing)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        for loaded in [n for n in sys.modules if n == alias or n.startswith(f"{alias}.")]:
            del sys.modules[loaded]
        raise
    finally:
        sys.meta_path.remove(missing)
    return module


class _Missing:
    """The finder by which some packages are missing in the thread that made it, and only there."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        self._packages = packages
        self._thread = threading.get_ident()

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        """Raises ModuleNotFoundError for these packages; of all others, finds nothing."""
        if name in self._packages and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{name} is not loaded here", name=name)
