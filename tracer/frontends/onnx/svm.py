"""Support vector machines of ``ai.onnx.ml``."""

from __future__ import annotations

import itertools

import numpy as np

from ....ir.dtype import Array
from ....ir.errors import LoopwrightValueError, UnsupportedError
from ... import nn
from ...control import while_loop
from .ml import DOMAIN, Floats, Ints, Strings, as_floats, checked_classes, labels_of, transformed
from .table import Node, Value, converter

MOST_COUPLED = 100
"""Steps of ``_coupled`` at most, as LIBSVM and ONNX Runtime have it."""

COUPLED_ERROR = 0.005
"""Divided by the number of classes, the error from which on ``_coupled`` ends, as in LIBSVM."""


@converter("SVMRegressor", since=1, domain=DOMAIN)
def _svm_regressor(
    x: Value,
    *,
    coefficients: Floats,
    rho: Floats,
    kernel_params: Floats = (),
    kernel_type: str = "LINEAR",
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
    support_vectors: Floats = (),
) -> Value:
    x, weights = as_floats(x), np.array(coefficients).reshape(-1, 1)
    vectors = (
        np.array(support_vectors).reshape(n_supports, -1) if n_supports else np.eye(len(weights))
    )
    kind = kernel_type if n_supports else "LINEAR"
    score = _weighed(x, vectors, weights, kind, kernel_params) + x.dtype.type(rho[0])
    if one_class:
        return np.where(score > 0, x.dtype.type(1), x.dtype.type(-1))
    return transformed(score, post_transform)


def _weighed(x: Value, vectors: Array, weights: Array, kind: str, params: Floats) -> Value:
    """Returns the sums, over the support vectors, of their kernels with each row of ``x``."""
    gamma, offset, degree = params or (0.0, 0.0, 0.0)
    if kind == "LINEAR":  # great weights of either sign take digits off sums of kernels
        return np.matmul(x, (vectors.T @ weights).astype(x.dtype))
    vectors, weights = vectors.astype(x.dtype), weights.astype(x.dtype)
    if kind == "RBF":
        # Not by the product of both: differences of near rows would lose their digits.
        apart = np.expand_dims(x, 1) - vectors
        rows = np.exp(np.sum(apart * apart, axis=-1) * x.dtype.type(-gamma))
        return np.matmul(rows, weights)
    product = np.matmul(x, vectors.T) * x.dtype.type(gamma) + x.dtype.type(offset)
    if kind == "POLY":
        return np.matmul(np.power(product, int(degree)), weights)
    if kind == "SIGMOID":
        return np.matmul(np.tanh(product), weights)
    raise LoopwrightValueError(f"its kernel_type is {kind!r}")


@converter("SVMClassifier", since=1, domain=DOMAIN)
def _svm_classifier(
    node: Node,
    x: Value,
    *,
    coefficients: Floats,
    rho: Floats,
    classlabels_ints: Ints = (),
    classlabels_strings: Strings = (),
    kernel_params: Floats = (),
    kernel_type: str = "LINEAR",
    post_transform: str = "NONE",
    prob_a: Floats = (),
    prob_b: Floats = (),
    support_vectors: Floats = (),
    vectors_per_class: Ints = (),
) -> Value:
    count, supports = checked_classes(classlabels_ints, classlabels_strings), sum(vectors_per_class)
    if not supports:
        raise UnsupportedError("one without support vectors is not supported")
    pairs = list(itertools.combinations(range(count), 2))
    numbers = (len(coefficients), len(rho), len(prob_a), len(prob_b))
    fit = (count - 1) * supports, len(pairs), *(len(pairs) * bool(prob_a),) * 2
    is_split = len(vectors_per_class) == count and min(vectors_per_class) >= 0
    if numbers != fit or not is_split or len(support_vectors) != supports * x.shape[-1]:
        raise LoopwrightValueError(
            "coefficients, rho, prob_a and prob_b have {}, {}, {} and {} numbers, which do not fit "
            "{} support vectors of {} classes".format(*numbers, supports, count)
        )
    x = as_floats(x)
    vectors = np.array(support_vectors).reshape(supports, -1)
    weights = _weights_of_pairs(coefficients, vectors_per_class, pairs)
    scores = _weighed(x, vectors, weights, kernel_type, kernel_params) + np.array(rho, x.dtype)
    first, second = (np.eye(count, dtype=x.dtype)[[pair[n] for pair in pairs]] for n in (0, 1))
    votes = np.matmul(np.where(scores > 0, x.dtype.type(1), 0), first - second) + second.sum(0)
    labels = labels_of(node, np.argmax(votes, -1), classlabels_ints, classlabels_strings)
    if prob_a:
        below = nn.sigmoid(-(scores * np.array(prob_a, x.dtype) + np.array(prob_b, x.dtype)))
        return labels, transformed(_coupled(np.clip(below, 1e-7, 1 - 1e-7), count), post_transform)
    if count > 2:
        return labels, transformed(scores, post_transform)
    if post_transform != "NONE":
        raise UnsupportedError(f"its post_transform {post_transform!r} of 2 classes")
    return labels, np.concatenate([-scores, scores], axis=-1)


def _weights_of_pairs(coefficients: Floats, counts: Ints, pairs: list[tuple[int, int]]) -> Array:
    """Returns the weight of each support vector, a row, between two classes, a column.

    The vectors of a class have a coefficient against each of the other classes.
    """
    table = np.array(coefficients).reshape(-1, sum(counts))
    ends = np.cumsum(counts)
    weights = np.zeros((sum(counts), len(pairs)))
    for column, (i, j) in enumerate(pairs):
        for one, row in ((i, j - 1), (j, i)):
            part = slice(ends[one] - counts[one], ends[one])
            weights[part, column] = table[row, part]
    return weights


def _coupled(chances: Value, count: int) -> Value:
    """Returns the probabilities of classes, from those of the first of each two of them.

    Wu, Lin and Weng, Probability estimates for multi-class classification by pairwise coupling,
    2004, algorithm 2; each row ends for itself, since what is left of the error is seen in digits.
    """
    upper, lower = np.triu_indices(count, 1)
    at = np.zeros((count, count), np.int64)
    at[upper, lower] = at[lower, upper] = np.arange(len(upper))
    is_first, is_same = np.triu(np.ones((count, count), bool)), np.eye(count, dtype=bool)
    chosen = np.take(chances, at.reshape(-1), axis=1).reshape(-1, count, count)
    r = np.where(is_same, 0, np.where(is_first, chosen, 1 - chosen))
    transposed = np.swapaxes(r, 1, 2)
    q = np.where(is_same, np.expand_dims(np.sum(r * r, 1), 1), -r * transposed)
    diagonal = np.sum(r * r, 1)

    def product(p: Value) -> tuple[Value, Value]:
        by_class = np.matmul(q, np.expand_dims(p, 2))[..., 0]
        return by_class, np.sum(p * by_class, -1, keepdims=True)

    def is_far(p: Value) -> Value:
        by_class, both = product(p)
        apart = np.max(np.abs(by_class - both), -1, keepdims=True)
        return apart >= COUPLED_ERROR / count

    def step(carried: tuple[Value, Value]) -> tuple[Value, Value]:
        steps, given = carried
        p, (by_class, both) = given, product(given)
        for t in range(count):
            change = (both - by_class[:, t : t + 1]) / diagonal[:, t : t + 1]
            both = both + change * (change * diagonal[:, t : t + 1] + 2 * by_class[:, t : t + 1])
            both = both / (1 + change) / (1 + change)
            by_class = (by_class + change * q[:, t]) / (1 + change)
            p = (p + change * is_same[t]) / (1 + change)
        return steps + 1, np.where(is_far(given), p, given)

    def goes_on(carried: tuple[Value, Value]) -> Value:
        steps, p = carried
        return np.logical_and(steps < MOST_COUPLED, np.any(is_far(p)))

    begin = np.full((chances.shape[0], count), 1 / count, chances.dtype)
    return while_loop(goes_on, step, (np.int64(0), begin))[1]
