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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir.dataclass import dataclass
from ..protocols import FloatArray

IntArray = npt.NDArray[np.int64]


class ModelFileError(ValueError):
    """A file holds no model that can be read; the message says what is wrong."""


@dataclass(frozen=True, slots=True, eq=False)
class TreeModel:
    """Boosted trees, ``count`` of them, in flat tables with an entry for each node: a row whose
    ``feature`` is less than ``bound`` goes to the node ``left``, any other to the one after it. A
    leaf is its own left, below an infinite bound, so that ``depth`` steps lead every row to one;
    ``value`` is what it says. ``roots`` are where trees begin. Each ``members``-th of the trees is
    a model of its own that has seen other tasks. ``levels`` are the ISA levels it has learnt from,
    ``source`` is the text it was read from."""

    count: int
    roots: IntArray
    left: IntArray
    feature: IntArray
    bound: npt.NDArray[np.float32]
    value: npt.NDArray[np.float32]
    depth: int
    base: float
    features: int
    feature_version: int
    levels: frozenset[str] = frozenset()
    source: bytes = b""
    members: int = 1

    @property
    def name(self) -> str:
        """Returns a name with a hash of the model file's content."""
        return f"trees {hashlib.sha256(self.source).hexdigest()[:8]}"

    @property
    def trained(self) -> bool:
        return True

    def predict(self, features: FloatArray) -> npt.NDArray[np.float32]:
        """Returns float32[n] of float[n, F]; higher is faster. ValueError for another F."""
        return self.opinions(features).mean(axis=0)

    def opinions(self, features: FloatArray) -> npt.NDArray[np.float32]:
        """Returns float32[members, n]: ``predict`` is their mean. ValueError for another F."""
        rows = np.ascontiguousarray(features, np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.features:
            raise ValueError(f"{rows.shape[-1]} features, but the model knows {self.features}")
        total = np.full((self.members, len(rows)), self.base, np.float32)
        for begin in range(0, len(rows), 512):  # the arrays of a block stay in a cache
            part = self._sums(rows[begin : begin + 512])
            total[:, begin : begin + 512] += self.members * part
        return total

    def update(self, group: str, features: FloatArray, costs: FloatArray) -> None:
        """It learns nothing: that takes xgboost."""

    def _sums(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Returns float32[members, n]: the sums of their trees."""
        values, row = rows.reshape(-1), np.arange(len(rows))[:, None] * rows.shape[1]
        node = np.broadcast_to(self.roots, (len(rows), self.count))
        for _ in range(self.depth):
            less = values.take(row + self.feature.take(node)) < self.bound.take(node)
            node = self.left.take(node) + ~less
        value = self.value.take(node).reshape(len(rows), self.members, -1)
        return value.sum(axis=2, dtype=np.float32).T

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
            members = int(attributes.get("loopwright_members", 1))
            if members < 1 or len(trees) % members:
                raise ValueError(f"{len(trees)} trees are not those of {members} members")
            as_bytes = text if isinstance(text, bytes) else text.encode()
            return _of_trees(trees, base, count, version, levels, members, as_bytes)
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise ModelFileError(f"no model: {type(error).__name__}: {error}") from error


def mean_of(texts: Sequence[str | bytes]) -> str:
    """Returns the JSON of the mean of models with one base score: ``joined``, with leaves divided
    by the number of models."""
    return joined(texts, 1.0 / len(texts))


def joined(texts: Sequence[str | bytes], share: float = 1.0) -> str:
    """Returns the JSON of the trees of models, one model's after the other's, with leaves times
    ``share``. The base score is the first one's: others continue it."""
    models = [json.loads(text) for text in texts]
    parts = [m["learner"]["gradient_booster"]["model"] for m in models]
    trees = [tree for part in parts for tree in part["trees"]]
    for number, tree in enumerate(trees):
        tree["id"] = number
        leaves = [left < 0 for left in tree["left_children"]]
        tree["split_conditions"] = [
            value * share if leaf else value
            for value, leaf in zip(tree["split_conditions"], leaves, strict=True)
        ]
    whole = parts[0]
    whole["trees"] = trees
    whole["tree_info"] = [0] * len(trees)
    whole["iteration_indptr"] = [*range(len(trees) + 1)]
    whole["gbtree_model_param"]["num_trees"] = str(len(trees))
    return json.dumps(models[0])


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


def _of_trees(
    trees: list[Any],
    base: float,
    count: int,
    version: int,
    levels: frozenset[str],
    members: int,
    source: bytes,
) -> TreeModel:
    if not trees:
        raise ValueError("it has no trees")
    parts = [_Tree.of(tree, count) for tree in trees]
    roots = np.cumsum([0, *(len(p.left) for p in parts)])
    return TreeModel(
        len(parts),
        roots[:-1],
        np.concatenate([p.left + start for p, start in zip(parts, roots)]),
        np.concatenate([p.feature for p in parts]),
        np.concatenate([p.bound for p in parts]),
        np.concatenate([p.value for p in parts]),
        max(p.depth for p in parts),
        base,
        count,
        version,
        levels,
        source,
        members,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Tree:
    """The tables of one tree, level by level, and how many steps its deepest leaf is away."""

    left: IntArray
    feature: IntArray
    bound: npt.NDArray[np.float32]
    value: npt.NDArray[np.float32]
    depth: int

    @staticmethod
    def of(tree: Any, features: int) -> _Tree:
        """Reads a tree; ValueError if its nodes form a cycle or use an unknown feature."""
        lefts, rights = tree["left_children"], tree["right_children"]
        order, left, depth = [0], list[int](), -1
        begin = 0
        while begin < len(order):
            level, begin = order[begin:], len(order)
            depth += 1
            for node in level:
                left.append(len(left) if lefts[node] < 0 else len(order))
                if lefts[node] >= 0:
                    order += (lefts[node], rights[node])
            if len(order) > len(lefts) or min(order[begin:], default=0) < 0:
                raise ValueError("its nodes form a cycle")
        places = np.array(order)
        leaf = np.array(left) == np.arange(len(left))
        feature = np.where(leaf, 0, np.array(tree["split_indices"], np.int64)[places])
        bounds = np.array(tree["split_conditions"], np.float32)[places]
        if feature.min() < 0 or feature.max() >= features:
            raise ValueError("a node uses a feature that does not exist")
        bound = np.where(leaf, np.float32(np.inf), bounds)
        return _Tree(np.array(left), feature, bound, np.where(leaf, bounds, np.float32(0)), depth)
