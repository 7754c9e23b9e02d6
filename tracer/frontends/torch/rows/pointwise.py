"""Operators that compute element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .... import nn
from ..table import Value, aten


def _unary(name: str, function: Callable[[Value], Value]) -> None:
    """Enters a function of one tensor, which computes in the dtype of its result."""

    def converter(self: Value) -> Value:
        return function(self)

    aten(f"{name}.default", promote="result")(converter)


for _name, _function in {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": nn.erf,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "floor": np.floor,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "neg": np.negative,
    "reciprocal": lambda x: 1 / x,
    "relu": nn.relu,
    "rsqrt": nn.rsqrt,
    "sigmoid": nn.sigmoid,
    "silu": nn.silu,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}.items():
    _unary(_name, _function)

for _name, _test in {
    "isinf": np.isinf,
    "isnan": np.isnan,
    "isfinite": np.isfinite,
    "logical_not": np.logical_not,
    "bitwise_not": np.invert,
    "signbit": np.signbit,
}.items():
    aten(f"{_name}.default")(lambda self, test=_test: test(self))


@aten("abs.default")
def _abs(self: Value) -> Value:
    return self if self.dtype == np.bool_ else np.abs(self)


@aten("sign.default", "sgn.default")
def _sign(self: Value) -> Value:
    """The sign of nan is 0 in PyTorch."""
    if self.dtype == np.bool_:
        return self
    sign = np.sign(self)
    return np.where(np.isnan(self), 0, sign) if self.dtype.kind == "f" else sign


@aten("round.default")
def _round(self: Value) -> Value:
    return np.rint(self) if self.dtype.kind == "f" else self


@aten("round.decimals")
def _round_decimals(self: Value, *, decimals: int) -> Value:
    scale = 10.0**decimals
    return np.rint(self * scale) / scale


@aten("add.Tensor", "add.Scalar", promote="result")
def _add(self: Value, other: Value, alpha: float = 1) -> Value:
    return self + (other if alpha == 1 else other * alpha)


@aten("sub.Tensor", "sub.Scalar", promote="result")
def _sub(self: Value, other: Value, alpha: float = 1) -> Value:
    return self - (other if alpha == 1 else other * alpha)


@aten("rsub.Tensor", "rsub.Scalar", promote="result")
def _rsub(self: Value, other: Value, alpha: float = 1) -> Value:
    return other - (self if alpha == 1 else self * alpha)


@aten("mul.Tensor", "mul.Scalar", promote="result")
def _mul(self: Value, other: Value) -> Value:
    return self * other


@aten("div.Tensor", "div.Scalar", promote="result")
def _div(self: Value, other: Value) -> Value:
    return self / other


@aten("div.Tensor_mode", "div.Scalar_mode", promote="result")
def _div_mode(self: Value, other: Value, *, rounding_mode: str | None) -> Value:
    if rounding_mode == "floor":
        return np.floor_divide(self, other)
    if rounding_mode == "trunc" and self.dtype.kind == "f":
        return np.trunc(self / other)
    if rounding_mode == "trunc":
        floor = np.floor_divide(self, other)
        return np.where((np.remainder(self, other) != 0) & (floor < 0), floor + 1, floor)
    return self / other


@aten("floor_divide.default", "floor_divide.Scalar", promote="result")
def _floor_divide(self: Value, other: Value) -> Value:
    return np.floor_divide(self, other)


@aten("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor", promote="result")
def _remainder(self: Value, other: Value) -> Value:
    return np.remainder(self, other)


@aten("fmod.Tensor", "fmod.Scalar", promote="result")
def _fmod(self: Value, other: Value) -> Value:
    return np.fmod(self, other)


@aten("pow.Tensor_Scalar", promote="result")
def _pow_scalar(self: Value, exponent: float) -> Value:
    if exponent == 2:
        return self * self
    if exponent == 3:
        return self * self * self
    if exponent == 0.5:
        return np.sqrt(self)
    if exponent == -0.5:
        return nn.rsqrt(self)
    if exponent == -1 and self.dtype.kind == "f":
        return 1 / self
    return np.power(self, exponent)


@aten("pow.Tensor_Tensor", "pow.Scalar", promote="result")
def _pow(self: Value, exponent: Value) -> Value:
    return np.power(self, exponent)


@aten("atan2.default", promote="result")
def _atan2(self: Value, other: Value) -> Value:
    return np.arctan2(self, other)


@aten("maximum.default", promote="result")
def _maximum(self: Value, other: Value) -> Value:
    return np.maximum(self, other)


@aten("minimum.default", promote="result")
def _minimum(self: Value, other: Value) -> Value:
    return np.minimum(self, other)


@aten("fmax.default", promote="result")
def _fmax(self: Value, other: Value) -> Value:
    return np.fmax(self, other)


@aten("fmin.default", promote="result")
def _fmin(self: Value, other: Value) -> Value:
    return np.fmin(self, other)


@aten("hypot.default", promote="result")
def _hypot(self: Value, other: Value) -> Value:
    return np.hypot(self, other)


@aten("copysign.Tensor", "copysign.Scalar", promote="result")
def _copysign(self: Value, other: Value) -> Value:
    return np.copysign(self, other)


for _name, _compare in {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}.items():
    aten(f"{_name}.Tensor", f"{_name}.Scalar", promote="operands")(
        lambda self, other, compare=_compare: compare(self, other)
    )

for _name, _join in {
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}.items():
    aten(f"{_name}.default")(lambda self, other, join=_join: join(self, other))

for _name, _join in {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_left_shift": np.left_shift,
    "bitwise_right_shift": np.right_shift,
}.items():
    aten(
        f"{_name}.Tensor", *([f"{_name}.Scalar"] if "shift" not in _name else []), promote="result"
    )(lambda self, other, join=_join: join(self, other))


@aten("clamp.default", "clamp.Tensor", promote="result")
def _clamp(self: Value, min: Value = None, max: Value = None) -> Value:
    """Returns at most ``max``, even where that is less than ``min``."""
    raised = self if min is None else np.maximum(self, min)
    return raised if max is None else np.minimum(raised, max)


@aten("hardtanh.default", promote="result")
def _hardtanh(self: Value, min_val: float = -1, max_val: float = 1) -> Value:
    return np.minimum(np.maximum(self, min_val), max_val)


@aten("leaky_relu.default", promote="result")
def _leaky_relu(self: Value, negative_slope: float = 0.01) -> Value:
    return np.where(self > 0, self, self * negative_slope)


@aten("elu.default", promote="result")
def _elu(self: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    negative = np.expm1(np.minimum(self, 0) * input_scale) * (alpha * scale)
    return np.where(self > 0, self * scale, negative)


@aten("gelu.default")
def _gelu(self: Value, *, approximate: str = "none") -> Value:
    return nn.gelu(self, approximate)


@aten("gelu_backward.default")
def _gelu_backward(grad_output: Value, self: Value, *, approximate: str = "none") -> Value:
    if approximate == "tanh":
        root = math.sqrt(2 / math.pi)
        inner = np.tanh(root * (self + 0.044715 * self * self * self))
        slope = root * (1 + 3 * 0.044715 * self * self)
        return grad_output * 0.5 * (1 + inner + self * (1 - inner * inner) * slope)
    below = 0.5 * (1 + nn.erf(self * math.sqrt(0.5)))
    density = np.exp(self * self * -0.5) * (1 / math.sqrt(2 * math.pi))
    return grad_output * (below + self * density)


@aten("where.self")
def _where(condition: Value, self: Value, other: Value) -> Value:
    return np.where(condition, self, other)


@aten("fill.Scalar", "fill.Tensor")
def _fill(self: Value, value: Any) -> Value:
    return np.broadcast_to(value, self.shape)


@aten("copy.default")
def _copy(self: Value, src: Value) -> Value:
    return np.broadcast_to(src, self.shape)


@aten("clone.default")
def _clone(self: Value) -> Value:
    return self


@aten("_to_copy.default")
def _to_copy(self: Value) -> Value:
    return self


@aten("prims.convert_element_type.default")
def _convert(a: Value) -> Value:
    return a


@aten("native_dropout_backward.default")
def _dropout_backward(grad_output: Value, mask: Value, scale: float) -> Value:
    return np.where(mask, grad_output * scale, 0)


@aten("threshold_backward.default")
def _threshold_backward(grad_output: Value, self: Value, threshold: float) -> Value:
    return np.where(self <= threshold, 0, grad_output)
