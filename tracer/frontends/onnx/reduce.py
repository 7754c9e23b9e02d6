"""Converters of reductions over axes, and of what normalises by them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import nn
from ...numpy.creation import arange
from .table import Value, converter, known_ints
from .tensors import is_float

Axes = tuple[int, ...]


def _sum(x: Value, axes: Axes) -> Value:
    return np.sum(x, axes, dtype=x.dtype, keepdims=True)


def _log_sum_exp(x: Value, axes: Axes) -> Value:
    top = _extreme(np.max)(x, axes)
    top = np.where(np.isfinite(top), top, x.dtype.type(0))
    return np.log(_sum(np.exp(x - top), axes)) + top


def _extreme(function: Callable[..., Any]) -> Callable[[Value, Axes], Value]:
    def reduce(x: Value, axes: Axes) -> Value:
        if any(x.shape[axis] == 0 for axis in axes):  # the neutral element
            shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
            if is_float(x):
                value = -math.inf if function is np.max else math.inf
            elif x.dtype.kind == "b":
                value = function is not np.max
            else:
                info = np.iinfo(x.dtype)
                value = info.min if function is np.max else info.max
            return np.full(shape, value, x.dtype)
        return function(x, axes, keepdims=True)

    return reduce


_REDUCTIONS: dict[str, Callable[[Value, Axes], Value]] = {
    "ReduceL1": lambda x, axes: _sum(np.abs(x), axes),
    "ReduceL2": lambda x, axes: _root(_sum(x * x, axes)),
    "ReduceLogSum": lambda x, axes: np.log(_sum(x, axes)),
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceMax": _extreme(np.max),
    "ReduceMean": lambda x, axes: np.mean(x, axes, keepdims=True).astype(x.dtype),
    "ReduceMin": _extreme(np.min),
    "ReduceProd": lambda x, axes: np.prod(x, axes, dtype=x.dtype, keepdims=True),
    "ReduceSum": _sum,
    "ReduceSumSquare": lambda x, axes: _sum(x * x, axes),
}
"""Operators as functions that keep the reduced axes with size 1."""


def _root(x: Value) -> Value:
    return np.sqrt(x) if is_float(x) else np.sqrt(x.astype(np.float64)).astype(x.dtype)


def _reduced(name: str, x: Value, axes: Axes | None, keepdims: int, noop: int = 0) -> Value:
    if not axes and noop:
        # With no axes, what is done to each element is still done.
        elementwise = {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceSumSquare"}
        return _REDUCTIONS[name](x[..., None], (x.ndim,))[..., 0] if name in elementwise else x
    chosen = tuple(axis % x.ndim for axis in axes) if axes else tuple(range(x.ndim))
    result = _REDUCTIONS[name](x, chosen) if chosen else _of_scalar(name, x)
    return result if keepdims else np.squeeze(result, chosen)


def _of_scalar(name: str, x: Value) -> Value:
    return np.reshape(_REDUCTIONS[name](np.reshape(x, (1,)), (0,)), ())


def _reduction(name: str) -> Callable[..., Value]:
    def reduction(
        x: Value, axes: Value = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Value:
        chosen = None if axes is None else tuple(known_ints(axes, "axes"))
        return _reduced(name, x, chosen, keepdims, noop_with_empty_axes)

    return reduction


for _name in _REDUCTIONS:
    _since = 13 if _name == "ReduceSum" else 18
    converter(_name, since=_since, attributes=(1, {"axes": "axes"}))(_reduction(_name))


def _arg(function: Callable[..., Any]) -> Callable[..., Value]:
    def converted(
        x: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
    ) -> Value:
        at = function(np.flip(x, axis) if select_last_index else x, axis)
        at = x.shape[axis] - 1 - at if select_last_index else at
        return np.expand_dims(at, axis) if keepdims else at

    return converted


converter("ArgMax", since=1)(_arg(np.argmax))
converter("ArgMin", since=1)(_arg(np.argmin))


def _hardmax(x: Value, axis: int) -> Value:
    axis = axis + x.ndim if axis < 0 else axis
    first = np.expand_dims(np.argmax(x, axis), axis)
    places = arange(x.shape[axis]).reshape([-1] + [1] * (x.ndim - axis - 1))
    return np.equal(first, places).astype(x.dtype)


def _as_rows(function: Callable[[Value, int], Value], x: Value, axis: int) -> Value:
    """Applies ``function`` to ``x`` as a matrix whose rows begin at ``axis``."""
    axis = axis + x.ndim if axis < 0 else axis
    rows = np.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
    return np.reshape(function(rows, 1), x.shape)


def _of_rows(function: Callable[[Value, int], Value]) -> Callable[..., Value]:
    return lambda x, *, axis=1: _as_rows(function, x, axis)


def _of_axis(function: Callable[[Value, int], Value]) -> Callable[..., Value]:
    return lambda x, *, axis=-1: function(x, axis)


for _name, _function in {
    "Softmax": nn.softmax,
    "LogSoftmax": nn.log_softmax,
    "Hardmax": _hardmax,
}.items():
    converter(_name, since=1)(_of_rows(_function))
    converter(_name, since=13)(_of_axis(_function))


@converter("MeanVarianceNormalization", since=9)
def _mean_variance_normalization(x: Value, *, axes: Axes = (0, 2, 3)) -> Value:
    centred = x - np.mean(x, axes, keepdims=True)
    return centred / (np.sqrt(np.mean(centred * centred, axes, keepdims=True)) + 1e-9)
