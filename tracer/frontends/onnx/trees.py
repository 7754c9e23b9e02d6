"""Converters of tree ensembles, whose trees ``forest`` computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....ir.dtype import Array
from ....ir.errors import LoopwrightValueError, UnsupportedError
from .forest import Forest, aggregated, tested
from .ml import DOMAIN, as_floats, checked_classes, labels_of, transformed
from .table import Node, Value, converter

_HITS = ("nodes_hitrates", "nodes_hitrates_as_tensor")
"""Attributes with the number of samples that reached a node in training."""

_MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")
"""Tests of nodes by their number in a TreeEnsemble."""


def _nodes_of(node: Node, prefix: str, targets: int, dtype: np.dtype[Any]) -> Forest:
    """Returns the trees of a node whose attributes name nodes by tree and number."""
    given = node.attributes

    def values(name: str, tensor: str, count: int) -> Array:
        array = np.asarray(given[tensor] if tensor in given else given.get(name, ()), dtype)
        if len(array) != count:
            raise LoopwrightValueError(f"its attribute {name} has {len(array)} elements")
        return array

    trees, numbers = (np.array(given[f"nodes_{n}"]) for n in ("treeids", "nodeids"))
    count = len(trees)
    mode = np.array(given["nodes_modes"])
    unknown = set(mode.tolist()) - {"LEAF", *(f"BRANCH_{name}" for name in _MODES[:-1])}
    if unknown:
        raise LoopwrightValueError(f"its nodes have the mode {min(unknown)!r}")
    place = {key: n for n, key in enumerate(zip(trees.tolist(), numbers.tolist()))}
    if len(place) != count:
        raise LoopwrightValueError("a tree has two nodes of one number")
    is_leaf, itself = mode == "LEAF", np.arange(count)

    def places(name: str) -> Array:
        children = zip(trees.tolist(), given[name], is_leaf.tolist(), itself.tolist(), strict=True)
        return np.array([n if leaf else place[t, c] for t, c, leaf, n in children], np.int64)

    yes, no = places("nodes_truenodeids"), places("nodes_falsenodeids")
    missing = np.array(given.get("nodes_missing_value_tracks_true") or (0,) * count)
    split = values("nodes_values", "nodes_values_as_tensor", count)
    low, high, missing, yes, no = tested(mode, split, missing, yes, no)
    weights = np.zeros((count, targets), dtype)
    if not all(0 <= each < targets for each in given[f"{prefix}_ids"]):
        raise LoopwrightValueError(f"its attribute {prefix}_ids names what is not there")
    keys = zip(given[f"{prefix}_treeids"], given[f"{prefix}_nodeids"], strict=True)
    leaves = np.array([place[key] for key in keys], np.int64)
    added = values(f"{prefix}_weights", f"{prefix}_weights_as_tensor", len(leaves))
    np.add.at(weights, (leaves, np.array(given[f"{prefix}_ids"])), added)
    # The root of a tree is its only node without a parent.
    has_parent = np.zeros(count, np.int64)
    np.add.at(has_parent, yes[~is_leaf], 1)
    np.add.at(has_parent, no[~is_leaf], 1)
    roots = np.flatnonzero(has_parent == 0)
    if len(roots) != len(set(trees.tolist())) or has_parent.max(initial=0) > 1:
        raise LoopwrightValueError("its nodes are no trees")
    feature = np.where(is_leaf, 0, np.array(given["nodes_featureids"]))
    low, high = (np.where(is_leaf, np.zeros(1, dtype), each) for each in (low, high))
    low = np.where(is_leaf, dtype.type(-np.inf), low)
    return Forest(roots, feature, low, high, missing & ~is_leaf, yes, no, weights)


def _base_values(node: Node, count: int, dtype: np.dtype[Any]) -> Array | None:
    given = node.attributes
    values = given.get("base_values_as_tensor", given.get("base_values", ()))
    if not len(values):
        return None
    if len(values) != count:
        raise UnsupportedError(f"{len(values)} base_values for {count} scores are not supported")
    return np.asarray(values, dtype)


_IGNORED = (
    *_HITS,
    *(f"nodes_{n}" for n in ("falsenodeids", "featureids", "missing_value_tracks_true", "modes")),
    *(f"nodes_{n}" for n in ("nodeids", "treeids", "truenodeids", "values", "values_as_tensor")),
    "base_values",
    "base_values_as_tensor",
)
"""Attributes that ``_nodes_of`` reads."""


# Attributes of nodes: ``_nodes_of`` reads them.
@converter(
    "TreeEnsembleRegressor",
    since=1,
    domain=DOMAIN,
    ignores=(
        *_IGNORED,
        *(f"target_{n}" for n in ("ids", "nodeids", "treeids", "weights")),
        "target_weights_as_tensor",
    ),
)
def _tree_ensemble_regressor(
    node: Node,
    x: Value,
    *,
    n_targets: int = 1,
    aggregate_function: str = "SUM",
    post_transform: str = "NONE",
) -> Value:
    x = as_floats(x)
    forest = _nodes_of(node, "target", n_targets, x.dtype)
    scores = _combined(forest, x, aggregate_function)
    base = _base_values(node, n_targets, x.dtype)
    scores = scores if base is None else scores + base
    return transformed(scores, post_transform).astype(np.float32)


def _combined(forest: Forest, x: Value, function: str) -> Value:
    if function not in ("SUM", "AVERAGE", "MIN", "MAX"):
        raise LoopwrightValueError(f"its aggregate_function is {function!r}")
    scores = aggregated(forest, x, "sum" if function == "AVERAGE" else function.lower())
    return scores / x.dtype.type(len(forest.roots)) if function == "AVERAGE" else scores


# Attributes of nodes: ``_nodes_of`` reads them.
@converter(
    "TreeEnsembleClassifier",
    since=1,
    domain=DOMAIN,
    ignores=(
        *_IGNORED,
        *(f"class_{n}" for n in ("nodeids", "treeids", "weights")),
        "class_weights_as_tensor",
    ),
)
def _tree_ensemble_classifier(
    node: Node,
    x: Value,
    *,
    class_ids: Sequence[int],
    classlabels_int64s: tuple[int, ...] = (),
    classlabels_strings: tuple[str, ...] = (),
    post_transform: str = "NONE",
) -> Value:
    x = as_floats(x)
    count = checked_classes(classlabels_int64s, classlabels_strings)
    binary = count == 2 and len(set(class_ids)) == 1
    forest = _nodes_of(node, "class", count, x.dtype)
    if binary:
        (column,) = set(class_ids)
        scores, places = _of_two_classes(node, forest, column, x, post_transform)
    elif count == 1:
        raise UnsupportedError("one class alone is not supported")
    else:
        scores = aggregated(forest, x, "sum")
        base = _base_values(node, count, x.dtype)
        scores = scores if base is None else scores + base
        places = np.argmax(scores, axis=1)
        scores = transformed(scores, post_transform)
    labels = labels_of(node, places, classlabels_int64s, classlabels_strings)
    return labels, scores.astype(np.float32)


def _of_two_classes(
    node: Node, forest: Forest, column: int, x: Value, post_transform: str
) -> tuple[Value, Value]:
    """Returns scores and places of labels where the weights are all of the second class.

    Weights that are probabilities, none of them negative, leave the rest to the first class.
    """
    weights = forest.weights[:, column : column + 1]
    positive = bool(np.all(weights >= 0))
    if positive != (post_transform == "NONE"):
        raise UnsupportedError(
            f"weights of one class, with post_transform {post_transform!r}, are not supported"
        )
    trees = replace(forest, weights=weights)
    score = aggregated(trees, x, "sum")
    base = _base_values(node, 1, x.dtype)
    score = score if base is None else score + base
    if positive:
        return np.concatenate([1 - score, score], axis=1), (score[:, 0] > 0.5).astype(np.int64)
    both = np.concatenate([-score, score], axis=1)
    return transformed(both, post_transform), (score[:, 0] > 0).astype(np.int64)


# Hit rates are of training.
@converter("TreeEnsemble", since=5, domain=DOMAIN, ignores=("nodes_hitrates",))
def _tree_ensemble(
    x: Value,
    *,
    leaf_targetids: Sequence[int],
    leaf_weights: Array,
    nodes_falseleafs: Sequence[int],
    nodes_falsenodeids: Sequence[int],
    nodes_featureids: Sequence[int],
    nodes_modes: Array,
    nodes_splits: Array,
    nodes_trueleafs: Sequence[int],
    nodes_truenodeids: Sequence[int],
    tree_roots: Sequence[int],
    membership_values: Array | None = None,
    nodes_missing_value_tracks_true: Sequence[int] = (),
    n_targets: int = 1,
    aggregate_function: int = 1,
    post_transform: int = 0,
) -> Value:
    count, leaves = len(nodes_splits), len(leaf_weights)
    mode = [f"BRANCH_{_MODES[m]}" for m in nodes_modes.tolist()]
    # Leaves stand behind the nodes.
    yes, no = (
        [c + count if leaf else c for c, leaf in zip(children, are_leaves, strict=True)]
        for children, are_leaves in (
            (nodes_truenodeids, nodes_trueleafs),
            (nodes_falsenodeids, nodes_falseleafs),
        )
    )
    split = np.concatenate([nodes_splits, np.zeros(leaves, nodes_splits.dtype)]).tolist()
    feature = [*nodes_featureids, *(0,) * leaves]
    missing = [*(nodes_missing_value_tracks_true or (0,) * count), *(0,) * leaves]
    yes += range(count, count + leaves)
    no += range(count, count + leaves)
    mode += ["LEAF"] * leaves
    members = iter([] if membership_values is None else membership_values.tolist())
    is_member = [n for n, each in enumerate(mode) if each == "BRANCH_MEMBER"]
    for node in is_member:
        at = node
        values: list[float] = []
        for value in members:
            if value != value:
                break
            values.append(value)
        if not values:
            raise UnsupportedError("a set of no members is not supported")
        # A test of each member: the first at the node, the others behind one another.
        for number, value in enumerate(values):
            mode[at], split[at] = "BRANCH_EQ", value
            if number + 1 < len(values):
                for column, more in ((yes, yes[at]), (no, no[at]), (feature, feature[at])):
                    column.append(more)
                mode.append("")
                split.append(0.0)
                missing.append(0)
                no[at] = len(mode) - 1
                at = len(mode) - 1
    dtype = nodes_splits.dtype
    if dtype != x.dtype:
        raise LoopwrightValueError(f"trees of {dtype} for features of {x.dtype}")
    low, high, tracks, to_yes, to_no = tested(
        np.array(mode), np.array(split, dtype), np.array(missing), np.array(yes), np.array(no)
    )
    parents = np.bincount([*to_yes, *to_no], minlength=len(mode))
    is_leaf = np.array(mode) == "LEAF"
    numbers = [*yes, *no, *tree_roots, *leaf_targetids]
    if min(numbers) < 0 or len(parents) > len(mode) or max(leaf_targetids) >= n_targets:
        raise LoopwrightValueError("its nodes, leaves or targets have numbers that do not exist")
    weights = np.zeros((len(mode), n_targets), dtype)
    weights[np.arange(count, count + leaves), np.array(leaf_targetids)] = leaf_weights
    low = np.where(is_leaf, dtype.type(-np.inf), low)
    forest = Forest(
        np.array(tree_roots), np.array(feature), low, high, tracks, to_yes, to_no, weights,
        is_tree=bool(np.all(parents - 2 * is_leaf <= 1)),
    )  # fmt: skip
    function = ("AVERAGE", "SUM", "MIN", "MAX")[aggregate_function]
    step = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")[post_transform]
    return transformed(_combined(forest, x, function), step)
