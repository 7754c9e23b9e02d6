"""A trained cost model, read and asked without xgboost: a choice at compile time must not load it.

XGBoost's own JSON is the format: per tree, arrays of children, of the feature asked about in a node
and of the bound it is compared with (in a leaf: its value). A row goes left where its feature is
less than the bound.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .protocols import FloatArray

__all__ = ["ModelFileError", "TreeModel", "slimmed"]

IntArray = npt.NDArray[np.int32]


class ModelFileError(ValueError):
    """A file holds no model that can be read; the message says what is wrong."""


@dataclass(frozen=True, slots=True, eq=False)
class TreeModel:
    """Boosted trees in arrays, a row per tree: ``left``, ``right`` and ``feature`` int32[T, N],
    ``bound`` float32[T, N]. A leaf has itself for its children, so that ``depth`` steps lead every
    row to one. ``levels`` are the ISA levels it has learnt from,
    ``source`` is the text it was read from."""

    left: IntArray
    right: IntArray
    feature: IntArray
    bound: npt.NDArray[np.float32]
    depth: int
    base: float
    features: int
    feature_version: int
    levels: frozenset[str] = frozenset()
    source: bytes = b""

    @property
    def name(self) -> str:
        """What tells one model file from another."""
        return f"trees {hashlib.sha256(self.source).hexdigest()[:8]}"

    @property
    def trained(self) -> bool:
        return True

    def predict(self, features: FloatArray) -> npt.NDArray[np.float32]:
        """float32[n] of float[n, F]; higher is faster. ValueError for another F."""
        rows = np.ascontiguousarray(features, np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.features:
            raise ValueError(f"{rows.shape[-1]} features, but the model knows {self.features}")
        total = np.full(len(rows), self.base, np.float32)
        for begin in range(0, len(rows), 512):  # the arrays of a block stay in a cache
            total[begin : begin + 512] += self._sum(rows[begin : begin + 512])
        return total

    def update(self, group: str, features: FloatArray, costs: FloatArray) -> None:
        """It learns nothing: that takes xgboost."""

    def _sum(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        # All tables as flat arrays, and a node as its place in them: one index a lookup.
        count, width = self.left.shape
        starts = np.arange(count)[:, None] * width
        left, right = (self.left + starts).reshape(-1), (self.right + starts).reshape(-1)
        feature, bound = self.feature.reshape(-1), self.bound.reshape(-1)
        values, row = rows.reshape(-1), np.arange(len(rows))[:, None] * rows.shape[1]
        node = np.broadcast_to(starts.T, (len(rows), count))
        for _ in range(self.depth):
            less = values.take(row + feature.take(node)) < bound.take(node)
            node = np.where(less, left.take(node), right.take(node))
        return bound.take(node).sum(axis=1, dtype=np.float32)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> TreeModel:
        """Read a model file; ModelFileError if it holds none, OSError if it cannot be read."""
        return TreeModel.from_json(Path(path).read_bytes())

    @staticmethod
    def from_json(text: str | bytes) -> TreeModel:
        """See ``load``."""
        try:
            learner = json.loads(text)["learner"]
            trees = learner["gradient_booster"]["model"]["trees"]
            attributes = learner["attributes"]
            version = int(attributes["loopwright_features"])
            levels = frozenset(str(attributes.get("loopwright_isa", "")).split())
            parameters = learner["learner_model_param"]
            count = int(parameters["num_feature"])
            base = float(str(parameters["base_score"]).strip("[]"))
            return _of_trees(trees, base, count, version, levels, _as_bytes(text))
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise ModelFileError(f"no model: {type(error).__name__}: {error}") from error


def slimmed(text: str | bytes) -> str:
    """A model's JSON without what only its training needed, in fewer digits: half as long.

    Bounds have six digits and are rounded down: they are values that were seen, and a row goes left
    where it is less, so that those very values still go right. Leaves have four.
    """
    data = json.loads(text)
    for tree in data["learner"]["gradient_booster"]["model"]["trees"]:
        count = len(tree["left_children"])
        for name in ("base_weights", "loss_changes", "sum_hessian"):
            tree[name] = [0.0] * count  # the reader wants no integers here
        tree["split_conditions"] = [
            float(f"{bound:.4g}") if left < 0 else _rounded_down(bound)
            for bound, left in zip(tree["split_conditions"], tree["left_children"], strict=True)
        ]
    return json.dumps(data, separators=(",", ":"))


def _rounded_down(bound: float, digits: int = 6) -> float:
    if bound == 0.0 or not math.isfinite(bound) or float(f"{bound:.{digits}g}") == bound:
        return bound
    scale = 10.0 ** (digits - 1 - math.floor(math.log10(abs(bound))))
    return float(f"{math.floor(bound * scale) / scale:.{digits}g}")


def _as_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def _of_trees(
    trees: list[Any],
    base: float,
    count: int,
    version: int,
    levels: frozenset[str],
    source: bytes,
) -> TreeModel:
    if not trees:
        raise ValueError("it has no trees")
    widest = max(len(t["left_children"]) for t in trees)
    shape = (len(trees), widest)
    left = np.zeros(shape, np.int32)
    right = np.zeros(shape, np.int32)
    feature = np.zeros(shape, np.int32)
    bound = np.zeros(shape, np.float32)
    deepest = 0
    for row, tree in enumerate(trees):
        own = np.array(tree["left_children"], np.int32)
        size = len(own)
        leaf = own < 0
        itself = np.arange(size, dtype=np.int32)
        left[row, :size] = np.where(leaf, itself, own)
        right[row, :size] = np.where(leaf, itself, np.array(tree["right_children"], np.int32))
        feature[row, :size] = np.where(leaf, 0, np.array(tree["split_indices"], np.int32))
        bound[row, :size] = np.array(tree["split_conditions"], np.float32)
        deepest = max(deepest, _depth(left[row], right[row], size))
    inside = (left < widest) & (right < widest) & (left >= 0) & (right >= 0)
    if not inside.all() or feature.min() < 0 or feature.max() >= count:
        raise ValueError("a node leads nowhere")
    return TreeModel(left, right, feature, bound, deepest, base, count, version, levels, source)


def _depth(left: IntArray, right: IntArray, size: int) -> int:
    """Steps from the root to the deepest leaf; ValueError for what is no tree."""
    level = {0}
    for depth in range(size + 1):
        below = {int(c) for n in level for c in (left[n], right[n]) if c != n}
        if not below:
            return depth
        level = below
    raise ValueError("its nodes go round in circles")
