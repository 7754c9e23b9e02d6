"""Converters of the domain ``ai.onnx.ml``: what exporters of scikit-learn write besides trees.

Labels are integers: those that are strings are refused. The result of a ``ZipMap`` is the plain
array of scores, a column for each class in the order of its labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir.dtype import Array
from ....ir.errors import LoopwrightValueError, UnsupportedError
from ... import nn
from ...nn.apply import apply_as_given
from .table import Node, Value, converter

DOMAIN = "ai.onnx.ml"

Floats = tuple[float, ...]
Ints = tuple[int, ...]
Strings = tuple[str, ...]


def taken(table: Value, at: Value) -> Value:
    """Returns the rows of ``table`` at indices, which are inside of it."""
    return apply_as_given("take", table, at, axis=0, mode="clip")


def as_floats(x: Value) -> Value:
    """Returns features as floats: integers become float32, as ONNX Runtime computes them."""
    return x if x.dtype.kind == "f" else x.astype(np.float32)


def transformed(scores: Value, post_transform: str) -> Value:
    """Returns the scores of classes, or of targets, after the last step of a model."""
    if post_transform == "NONE":
        return scores
    if post_transform == "LOGISTIC":
        return nn.sigmoid(scores)
    if post_transform == "SOFTMAX":
        return nn.softmax(scores, -1)
    raise UnsupportedError(f"its post_transform {post_transform!r} is not supported")


def labels_of(node: Node, places: Value, integers: Ints, strings: Strings) -> Value:
    """Returns the labels at ``places``; None if the model does not use them."""
    if not node.wants(0):
        return None
    if strings:
        raise UnsupportedError(
            "its labels are strings, which are not supported",
            hint="a model that is trained on integers, or one whose outputs are the scores alone",
        )
    return taken(np.array(integers, np.int64), places)


def checked_classes(integers: Ints, strings: Strings) -> int:
    """Returns the number of classes. Raises LoopwrightValueError if their labels are not clear."""
    if bool(integers) == bool(strings):
        raise LoopwrightValueError("its labels are either integers or strings")
    return len(integers or strings)


@converter("ArrayFeatureExtractor", since=1, domain=DOMAIN)
def _array_feature_extractor(x: Value, y: Value) -> Value:
    chosen = apply_as_given("take", x, np.reshape(y, (-1,)), axis=x.ndim - 1, mode="clip")
    return chosen if x.ndim > 1 else np.reshape(chosen, (1, -1))


@converter("Binarizer", since=1, domain=DOMAIN)
def _binarizer(x: Value, *, threshold: float = 0.0) -> Value:
    return np.where(x > threshold, x.dtype.type(1), x.dtype.type(0))


@converter("FeatureVectorizer", since=1, domain=DOMAIN)
def _feature_vectorizer(*xs: Value, inputdimensions: Ints) -> Value:
    columns = [as_floats(x if x.ndim == 2 else np.reshape(x, (-1, 1))) for x in xs]
    if [x.shape[1] for x in columns] != list(inputdimensions):
        raise UnsupportedError(f"its inputs do not have {list(inputdimensions)} columns")
    return np.concatenate(columns, axis=1)


@converter("Imputer", since=1, domain=DOMAIN)
def _imputer(
    x: Value,
    *,
    imputed_value_floats: Floats = (),
    imputed_value_int64s: Ints = (),
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Value:
    if x.dtype.kind == "f":
        values, replaced = imputed_value_floats, x.dtype.type(replaced_value_float)
    else:
        values, replaced = imputed_value_int64s, x.dtype.type(replaced_value_int64)
    if len(values) not in (1, x.shape[-1]):
        raise LoopwrightValueError(f"{len(values)} values are imputed in {x.shape[-1]} columns")
    is_missing = np.isnan(x) if replaced != replaced else np.equal(x, replaced)
    return np.where(is_missing, np.array(values, x.dtype), x)


# default_string: of values that are strings, which are refused.
@converter("LabelEncoder", since=2, domain=DOMAIN, ignores=("default_string",))
def _label_encoder(
    x: Value,
    *,
    keys_floats: Floats = (),
    keys_int64s: Ints = (),
    values_floats: Floats = (),
    values_int64s: Ints = (),
    default_float: float = -0.0,
    default_int64: int = -1,
    keys_tensor: Array | None = None,
    values_tensor: Array | None = None,
    default_tensor: Array | None = None,
) -> Value:
    keys = np.array(keys_floats or keys_int64s, x.dtype) if keys_tensor is None else keys_tensor
    if values_tensor is not None:
        values = values_tensor
        other = default_tensor if default_tensor is not None else _default_of(values.dtype)
    elif values_floats:
        values, other = np.array(values_floats, np.float32), np.float32(default_float)
    else:
        values, other = np.array(values_int64s, np.int64), np.int64(default_int64)
    if keys.shape != values.shape or keys.ndim != 1 or keys.dtype != x.dtype:
        raise LoopwrightValueError(
            f"{len(values)} values for {len(keys)} keys of {keys.dtype}, looked up with {x.dtype}"
        )
    if len(np.unique(keys)) != len(keys):
        raise UnsupportedError("a key that is there twice is not supported")
    column = np.expand_dims(x, -1)
    same = np.equal(column, keys)
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        same = np.logical_or(same, np.logical_and(np.isnan(column), np.isnan(keys)))
    chosen = taken(values, np.argmax(same, axis=-1))
    return np.where(np.any(same, axis=-1), chosen, np.reshape(other, ()).astype(values.dtype))


def _default_of(dtype: np.dtype[Any]) -> Any:
    return dtype.type(-1) if dtype.kind in "iu" else dtype.type(-0.0)


# multi_class: the post_transform says it.
@converter("LinearClassifier", since=1, domain=DOMAIN, ignores=("multi_class",))
def _linear_classifier(
    node: Node,
    x: Value,
    *,
    coefficients: Floats,
    intercepts: Floats = (),
    classlabels_ints: Ints = (),
    classlabels_strings: Strings = (),
    post_transform: str = "NONE",
) -> Value:
    count = checked_classes(classlabels_ints, classlabels_strings)
    scores = _linear(x, coefficients, intercepts, len(coefficients) // x.shape[-1])
    if scores.shape[-1] != count or count < 2:
        raise UnsupportedError(f"{scores.shape[-1]} scores for {count} classes are not supported")
    labels = labels_of(node, np.argmax(scores, axis=-1), classlabels_ints, classlabels_strings)
    return labels, transformed(scores, post_transform)


@converter("LinearRegressor", since=1, domain=DOMAIN)
def _linear_regressor(
    x: Value,
    *,
    coefficients: Floats,
    intercepts: Floats = (),
    targets: int = 1,
    post_transform: str = "NONE",
) -> Value:
    return transformed(_linear(x, coefficients, intercepts, targets), post_transform)


def _linear(x: Value, coefficients: Floats, intercepts: Floats, targets: int) -> Value:
    x = as_floats(x)
    scores = np.matmul(x, np.array(coefficients, x.dtype).reshape(targets, -1).T)
    return scores + np.array(intercepts, x.dtype) if intercepts else scores


@converter("Normalizer", since=1, domain=DOMAIN)
def _normalizer(x: Value, *, norm: str = "MAX") -> Value:
    x = as_floats(x)
    if norm == "L2":
        size = np.sqrt(np.sum(x * x, axis=-1, keepdims=True))
    elif norm == "L1":
        size = np.sum(np.abs(x), axis=-1, keepdims=True)
    else:
        raise UnsupportedError(
            f"its norm {norm!r} is not supported: for MAX, the standard and ONNX Runtime differ"
        )
    return np.where(size == 0, x, x / np.where(size == 0, x.dtype.type(1), size))


@converter("OneHotEncoder", since=1, domain=DOMAIN)
def _one_hot_encoder(
    x: Value, *, cats_int64s: Ints = (), cats_strings: Strings = (), zeros: int = 1
) -> Value:
    if cats_strings or not zeros:
        raise UnsupportedError("categories that are strings, and zeros=0, are not supported")
    return np.equal(np.expand_dims(x, -1), np.array(cats_int64s, x.dtype)).astype(np.float32)


@converter("Scaler", since=1, domain=DOMAIN)
def _scaler(x: Value, *, offset: Floats, scale: Floats) -> Value:
    x = as_floats(x)
    return ((x - np.array(offset, x.dtype)) * np.array(scale, x.dtype)).astype(np.float32)


# The labels name the columns of the scores.
@converter("ZipMap", since=1, domain=DOMAIN, ignores=("classlabels_int64s", "classlabels_strings"))
def _zip_map(x: Value) -> Value:
    return x
