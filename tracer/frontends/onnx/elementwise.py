"""Converters of operators that compute element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from ....ir.dtype import dtype_of
from ....ir.errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from ... import nn
from .table import Node, Value, converter, is_known, known
from .tensors import is_float, numpy_dtype

_UNARY: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "Abs": (6, np.abs),
    "Acos": (7, np.arccos),
    "Acosh": (9, np.arccosh),
    "Asin": (7, np.arcsin),
    "Asinh": (9, np.arcsinh),
    "Atan": (7, np.arctan),
    "Atanh": (9, np.arctanh),
    "BitwiseNot": (18, np.bitwise_not),
    "Ceil": (6, np.ceil),
    "Cos": (7, np.cos),
    "Cosh": (9, np.cosh),
    "Erf": (9, nn.erf),
    "Exp": (6, np.exp),
    "Floor": (6, np.floor),
    "IsNaN": (9, np.isnan),
    "Log": (6, np.log),
    "Neg": (6, np.negative),
    "Not": (1, np.logical_not),
    "Relu": (6, nn.relu),
    "Round": (11, np.rint),
    "Sigmoid": (6, nn.sigmoid),
    "Sign": (9, np.sign),
    "Sin": (7, np.sin),
    "Sinh": (9, np.sinh),
    "Sqrt": (6, np.sqrt),
    "Tan": (7, np.tan),
    "Tanh": (6, np.tanh),
}
"""Operators that are one function of one operand: since which opset, and the function."""

_BINARY: dict[str, tuple[int, Callable[[Any, Any], Any]]] = {
    "Add": (7, np.add),
    "And": (7, np.logical_and),
    "BitwiseAnd": (18, np.bitwise_and),
    "BitwiseOr": (18, np.bitwise_or),
    "BitwiseXor": (18, np.bitwise_xor),
    "Equal": (7, np.equal),
    "Greater": (7, np.greater),
    "GreaterOrEqual": (12, np.greater_equal),
    "Less": (7, np.less),
    "LessOrEqual": (12, np.less_equal),
    "Mul": (7, np.multiply),
    "Or": (7, np.logical_or),
    "Sub": (7, np.subtract),
    "Xor": (7, np.logical_xor),
}
"""The same for two operands, which are broadcast."""

_FORMULAS: dict[str, tuple[int, Callable[..., Any]]] = {
    "Celu": (12, lambda x, *, alpha=1.0: np.where(x >= 0, x, np.expm1(x / alpha) * alpha)),
    "Elu": (6, lambda x, *, alpha=1.0: np.where(x >= 0, x, np.expm1(x) * alpha)),
    "Gelu": (20, lambda x, *, approximate="none": nn.gelu(x, approximate)),
    "HardSwish": (14, lambda x: x * np.minimum(np.maximum(x * (1 / 6) + 0.5, 0), 1)),
    "LeakyRelu": (6, lambda x, *, alpha=0.01: np.where(x >= 0, x, x * alpha)),
    "Max": (6, lambda *xs: reduce(np.maximum, xs)),
    "Mean": (6, lambda *xs: reduce(np.add, xs) / xs[0].dtype.type(len(xs))),
    "Min": (6, lambda *xs: reduce(np.minimum, xs)),
    "Mish": (18, lambda x: x * np.tanh(_softplus(x))),
    "Mod": (10, lambda x, y, *, fmod=0: np.fmod(x, y) if fmod else np.remainder(x, y)),
    "PRelu": (7, lambda x, slope: np.where(x >= 0, x, x * slope)),
    "Reciprocal": (6, lambda x: 1 / x),
    "Selu": (
        6,
        lambda x, *, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875: np.where(
            x >= 0, x * gamma, np.expm1(x) * (alpha * gamma)
        ),
    ),
    "Softsign": (1, lambda x: x / (1 + np.abs(x))),
    "Sum": (6, lambda *xs: reduce(np.add, xs)),
    "Swish": (24, lambda x, *, alpha=1.0: nn.silu(x) if alpha == 1 else x * nn.sigmoid(x * alpha)),
    "ThresholdedRelu": (10, lambda x, *, alpha=1.0: np.where(x > alpha, x, x.dtype.type(0))),
    "Where": (9, lambda condition, x, y: np.where(condition, x, y)),
}
"""Operators that are a line, with their attributes."""


def _one(function: Callable[[Any], Any]) -> Callable[[Value], Value]:
    return lambda x: function(x)


def _two(function: Callable[[Any, Any], Any]) -> Callable[[Value, Value], Value]:
    return lambda x, y: function(x, y)


for _name, (_since, _function) in _UNARY.items():
    converter(_name, since=_since)(_one(_function))
for _name, (_since, _function) in _BINARY.items():
    converter(_name, since=_since)(_two(_function))
for _name, (_since, _function) in _FORMULAS.items():
    converter(_name, since=_since)(_function)


@converter("Div", since=7)
def divided(x: Value, y: Value) -> Value:
    """Returns a quotient; of integers, it is rounded toward zero."""
    if is_float(x):
        return np.divide(x, y)
    if x.dtype.kind == "u":
        return np.floor_divide(x, y)
    return np.floor_divide(x - np.fmod(x, y), y)


@converter("Pow", since=7)
def power(x: Value, y: Value) -> Value:
    """Returns ``x`` to the power of ``y``, in the dtype of ``x``."""
    if is_float(x) and is_known(y) and y.size == 1 and y.ndim <= x.ndim:
        return np.power(x, float(y.reshape(())))  # squares and roots are no powers
    if not is_float(x) and is_float(y):
        return np.power(x.astype(np.float64), y).astype(x.dtype)
    return np.power(x, y.astype(x.dtype))


@converter("BitShift", since=11)
def _bit_shift(x: Value, y: Value, *, direction: str) -> Value:
    return np.left_shift(x, y) if direction == "LEFT" else np.right_shift(x, y)


@converter("IsInf", since=10)
def _is_inf(x: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> Value:
    if detect_negative and detect_positive:
        return np.isinf(x)
    if not detect_negative and not detect_positive:
        return np.zeros(x.shape, bool)
    return np.equal(x, math.inf if detect_positive else -math.inf)


# Casts.


@converter("Cast", since=6)
def _cast(x: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    return cast_to(x, numpy_dtype(to), saturate, round_mode)


@converter("CastLike", since=15)
def _cast_like(x: Value, like: Value, *, saturate: int = 1, round_mode: str = "up") -> Value:
    return cast_to(x, like.dtype, saturate, round_mode)


def cast_to(x: Value, dtype: np.dtype[Any], saturate: int = 1, round_mode: str = "up") -> Value:
    """Returns ``x`` in another dtype; what is too large for a float of 8 bits is the largest, if
    it is to ``saturate``."""
    if x.dtype == dtype:
        return x
    if not dtype.name.startswith("float8"):
        return x.astype(dtype)
    wide = x if x.dtype == np.float64 else x.astype(np.float32)
    if dtype.name == "float8_e8m0fnu":
        return _power_of_two(wide.astype(np.float32), saturate, round_mode).view(dtype)
    if saturate:
        numbers = np.arange(128, dtype=np.uint8).view(dtype).astype(np.float32)
        largest = float(np.max(numbers[np.isfinite(numbers)]))
        wide = np.minimum(np.maximum(wide, -largest), largest)  # nan stays
    return wide.astype(dtype)


def _power_of_two(x: Value, saturate: int, round_mode: str) -> Value:
    """Returns the codes of ``float8_e8m0fnu``, exponents, for float32; zero is a power that is
    too small."""
    if round_mode not in _ADDED_TO_ROUND:
        raise LoopwrightValueError(f"its round_mode is {round_mode!r}")
    bits = x.view(np.int32)
    # A subnormal number is made one with a leading bit: the least power is one.
    bits = np.where(bits < 1 << 23, bits * 2 - (1 << 23), bits)
    code = np.right_shift(bits + _ADDED_TO_ROUND[round_mode], 23)
    code = np.where(bits < 0, 0 if saturate else 255, np.minimum(code, 254 if saturate else 255))
    return np.where(np.isnan(x), 255, code).astype(np.uint8)


_ADDED_TO_ROUND = {"up": (1 << 23) - 1, "nearest": 1 << 22, "down": 0}
"""Summands of the bits of a float32 by which cutting off its fraction rounds it."""


@converter("BitCast", since=26)
def _bit_cast(x: Value, *, to: int) -> Value:
    source, target = dtype_of(x.dtype), dtype_of(numpy_dtype(to))
    sizes = {8 if dtype.is_bool else dtype.bits for dtype in (source, target)}
    if len(sizes) > 1:
        raise LoopwrightTypeError(f"elements of {source} have other sizes than those of {target}")
    return x.view(np.uint8) != 0 if target.is_bool else x.view(target.numpy)


# Activations.


@converter("Clip", since=6)
def _clip_by_attributes(x: Value, *, min: float = -math.inf, max: float = math.inf) -> Value:
    return _clip(x, min if min > -3.4e38 else None, max if max < 3.4e38 else None)


@converter("Clip", since=11)
def _clip(x: Value, min: Value = None, max: Value = None) -> Value:
    at_least = x if min is None else np.maximum(x, min)
    return at_least if max is None else np.minimum(at_least, max)


@converter("HardSigmoid", since=6)
def _hard_sigmoid(x: Value, *, alpha: float = 0.2, beta: float = 0.5) -> Value:
    return np.minimum(np.maximum(x * alpha + beta, 0), 1)


@converter("Softplus", since=1)
def _softplus(x: Value) -> Value:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


@converter("Shrink", since=9)
def _shrink(x: Value, *, bias: float = 0.0, lambd: float = 0.5) -> Value:
    zero = x.dtype.type(0)
    shrunk = np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, zero))
    return cast_to(shrunk, x.dtype)


# ratio: of training only.
@converter("Dropout", since=7, ignores=("ratio",))
def _dropout_by_attribute(node: Node, x: Value) -> Value:
    return _kept(node, x)


# seed: of training only.
@converter("Dropout", since=12, ignores=("seed",))
def _dropout(
    node: Node,
    x: Value,
    ratio: Value = None,
    training_mode: Value = None,
) -> Value:
    training = training_mode is not None and bool(known(training_mode, "training_mode"))
    if training and (ratio is None or float(known(ratio, "ratio")) != 0):
        raise UnsupportedError(
            "it draws random numbers, which is not supported", hint="model.eval()"
        )
    return _kept(node, x)


def _kept(node: Node, x: Value) -> Value:
    return (x, np.ones(x.shape, bool)) if node.wants(1) else x
