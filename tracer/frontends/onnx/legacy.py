"""Converters of opsets before 7, in which an operand was broadcast along an ``axis``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....ir.errors import UnsupportedError
from ... import nn
from .elementwise import divided, power
from .table import Node, Value, converter

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": np.add,
    "And": np.logical_and,
    "Div": divided,
    "Equal": np.equal,
    "Greater": np.greater,
    "Less": np.less,
    "Mul": np.multiply,
    "Or": np.logical_or,
    "Pow": power,
    "PRelu": lambda x, slope: np.where(x >= 0, x, x * slope),
    "Sub": np.subtract,
    "Xor": np.logical_xor,
}


def _broadcast(function: Callable[[Any, Any], Any]) -> Callable[..., Value]:
    def converted(x: Value, y: Value, *, broadcast: int = 0, axis: int | None = None) -> Value:
        if axis is None and y.shape and y.ndim < x.ndim and not broadcast:
            axis = 1  # PRelu: a slope of each channel
        if axis is not None and y.ndim < x.ndim:
            behind = x.ndim - axis % x.ndim - y.ndim
            y = np.reshape(y, (*y.shape, *[1] * behind))
        return function(x, y)

    return converted


for _name, _function in _BINARY.items():
    converter(_name, since=1)(_broadcast(_function))


# broadcast: the shapes say it.
@converter("Gemm", since=1, ignores=("broadcast",))
def _gemm(
    a: Value,
    b: Value,
    c: Value,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    product = np.matmul(a.T if transA else a, b.T if transB else b)
    return product * a.dtype.type(alpha) + c * a.dtype.type(beta)


# is_test: all models are run as if it were 1, where ratio does nothing.
@converter("Dropout", since=1, ignores=("ratio", "is_test"))
def _dropout(node: Node, x: Value) -> Value:
    return (x, np.ones(x.shape, bool)) if node.wants(1) else x


# is_test: all models are run as if it were 1; momentum: of training; consumed_inputs: of memory.
@converter("BatchNormalization", since=1, ignores=("is_test", "momentum", "consumed_inputs"))
def _batch_normalization(
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    variance: Value,
    *,
    epsilon: float = 1e-5,
    spatial: int = 1,
) -> Value:
    if not spatial:
        raise UnsupportedError("moments of each element (spatial=0) are not supported")
    return nn.batch_norm(x, scale, bias, mean, variance, axis=1, epsilon=epsilon)
