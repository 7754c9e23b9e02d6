"""Operators that compute element by element."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from .... import nn
from ..table import Value, aten
from ..tensors import is_float


def _enter(promote: str, functions: dict[str, Callable[..., Value]]) -> None:
    """Enters functions of a row's tensors and nothing else, by overloads (``default`` if a name
    has none), and the primitive operators of these names, in which decompositions end."""
    for names, function in functions.items():
        row = [name if "." in name else f"{name}.default" for name in names.split()]
        base = row[0].partition(".")[0]
        row += [f"prims.{base}.default"] * hasattr(torch.ops.prims, base)
        aten(*row, promote=promote)(lambda *tensors, function=function: function(*tensors))


def _power(x: Value, y: Value) -> Value:
    """An integer to a negative power is 0, unless it is 1 or -1."""
    if getattr(y, "dtype", np.dtype(float)).kind not in "iu":
        return np.power(x, y)
    odd = np.where(np.bitwise_and(y, 1) == 1, x, 1)
    return np.where(y < 0, np.where(abs(x) == 1, odd, 0), np.power(x, np.maximum(y, 0)))


def _sigmoid(x: Value) -> Value:
    return 1 / (1 + np.exp(-x)) if x.dtype.kind == "c" else nn.sigmoid(x)


_enter(
    "result",
    {
        "acos": np.arccos,
        "acosh": np.arccosh,
        "asin": np.arcsin,
        "asinh": np.arcsinh,
        "atan": np.arctan,
        "atan2": np.arctan2,
        "atanh": np.arctanh,
        "bitwise_and.Tensor bitwise_and.Scalar": np.bitwise_and,
        "bitwise_left_shift.Tensor": np.left_shift,
        "bitwise_or.Tensor bitwise_or.Scalar": np.bitwise_or,
        "bitwise_right_shift.Tensor": np.right_shift,
        "bitwise_xor.Tensor bitwise_xor.Scalar": np.bitwise_xor,
        "ceil": np.ceil,
        "copysign.Tensor copysign.Scalar": np.copysign,
        "cos": np.cos,
        "cosh": np.cosh,
        "erf": nn.erf,
        "exp": np.exp,
        "exp2": np.exp2,
        "expm1": np.expm1,
        "floor": np.floor,
        "floor_divide floor_divide.Scalar": np.floor_divide,
        "fmax": np.fmax,
        "fmin": np.fmin,
        "fmod.Tensor fmod.Scalar": np.fmod,
        "gcd": np.gcd,
        "hypot": np.hypot,
        "log": np.log,
        "log10": np.log10,
        "log1p": np.log1p,
        "log2": np.log2,
        "maximum": np.maximum,
        "minimum": np.minimum,
        "mul.Tensor mul.Scalar": np.multiply,
        "neg": np.negative,
        "pow.Tensor_Tensor pow.Scalar": _power,
        "reciprocal": lambda x: 1 / x,
        "relu": nn.relu,
        "remainder.Tensor remainder.Scalar remainder.Scalar_Tensor": np.remainder,
        "rsqrt": nn.rsqrt,
        "sigmoid": _sigmoid,
        "silu": lambda x: x * _sigmoid(x) if x.dtype.kind == "c" else nn.silu(x),
        "sin": np.sin,
        "sinh": np.sinh,
        "sqrt": np.sqrt,
        "tan": np.tan,
        "tanh": np.tanh,
        "trunc": np.trunc,
    },
)
_enter(
    "operands",
    {
        "eq.Tensor eq.Scalar": np.equal,
        "ge.Tensor ge.Scalar": np.greater_equal,
        "gt.Tensor gt.Scalar": np.greater,
        "le.Tensor le.Scalar": np.less_equal,
        "lt.Tensor lt.Scalar": np.less,
        "ne.Tensor ne.Scalar": np.not_equal,
    },
)
_enter(
    "",
    {
        "bitwise_not": np.invert,
        "isfinite": np.isfinite,
        "isinf": np.isinf,
        "isnan": np.isnan,
        "logical_and": np.logical_and,
        "logical_not": np.logical_not,
        "logical_or": np.logical_or,
        "logical_xor": np.logical_xor,
        "signbit": np.signbit,
        "nextafter": np.nextafter,
        "where.self": np.where,
    },
)


@aten("sign.default", "sgn.default")
def _sign(self: Value) -> Value:
    """The sign of nan is 0 in PyTorch."""
    if self.dtype == np.bool_:
        return self
    sign = np.sign(self)
    return np.where(np.isnan(self), 0, sign) if is_float(self) else sign


@aten("round.default")
def _round(self: Value) -> Value:
    return np.rint(self) if is_float(self) else self


for _name, _join in {"add": np.add, "sub": np.subtract}.items():
    aten(f"{_name}.Tensor", f"{_name}.Scalar", promote="result")(
        lambda self, other, alpha=1, join=_join: join(self, other if alpha == 1 else other * alpha)
    )
aten("div.Tensor", "div.Scalar", promote="result")(lambda self, other: self / other)


@aten("div.Tensor_mode", "div.Scalar_mode", promote="result")
def _div_mode(self: Value, other: Value, *, rounding_mode: str | None) -> Value:
    if rounding_mode == "floor":
        return np.floor_divide(self, other)
    if rounding_mode == "trunc" and is_float(self):
        return np.trunc(self / other)
    if rounding_mode == "trunc":
        floor = np.floor_divide(self, other)
        return np.where((np.remainder(self, other) != 0) & (floor < 0), floor + 1, floor)
    return self / other


@aten("clamp.default", "clamp.Tensor", promote="result")
def _clamp(self: Value, min: Value = None, max: Value = None) -> Value:
    """Returns at most ``max``, even where that is less than ``min``."""
    raised = self if min is None else np.maximum(self, min)
    return raised if max is None else np.minimum(raised, max)


@aten("elu.default", promote="result")
def _elu(self: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    negative = np.expm1(np.minimum(self, 0) * input_scale) * (alpha * scale)
    return np.where(self > 0, self * scale, negative)


@aten("frexp.Tensor")
def _frexp(self: Value) -> tuple[Value, Value]:
    """In float32 for bfloat16, whose fractions and exponents it has."""
    return np.frexp(self if self.dtype.kind == "f" else self.astype(np.float32))


aten("hardshrink_backward.default", "softshrink_backward.default")(
    lambda *given: np.where(abs(given[1]) <= given[2], 0, given[0])
)


@aten("gelu.default")
def _gelu(self: Value, *, approximate: str = "none") -> Value:
    return nn.gelu(self, approximate)


@aten("copy.default")
def _copy(self: Value, src: Value) -> Value:
    return np.broadcast_to(src, self.shape)
