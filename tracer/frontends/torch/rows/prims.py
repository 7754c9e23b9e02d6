"""Primitive operators that some decompositions of PyTorch end in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .... import nn
from ..table import Value, aten


def _enter(name: str, function: Callable[..., Any]) -> None:
    aten(f"prims.{name}.default")(lambda *args: function(*args))


for _name, _function in {
    "abs": np.abs,
    "add": np.add,
    "atan2": np.arctan2,
    "bitwise_and": np.bitwise_and,
    "bitwise_not": np.invert,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "ceil": np.ceil,
    "cos": np.cos,
    "eq": np.equal,
    "erf": nn.erf,
    "erfc": lambda x: 1 - nn.erf(x),
    "exp": np.exp,
    "expm1": np.expm1,
    "floor": np.floor,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "fmod": np.fmod,
    "ge": np.greater_equal,
    "gt": np.greater,
    "isfinite": np.isfinite,
    "le": np.less_equal,
    "log": np.log,
    "log1p": np.log1p,
    "lt": np.less,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "pow": np.power,
    "reciprocal": lambda x: 1 / x,
    "remainder": np.remainder,
    "round": np.rint,
    "rsqrt": nn.rsqrt,
    "shift_left": np.left_shift,
    "shift_right_arithmetic": np.right_shift,
    "sign": np.sign,
    "sin": np.sin,
    "sqrt": np.sqrt,
    "sub": np.subtract,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
    "where": np.where,
}.items():
    _enter(_name, _function)


@aten("prims.div.default")
def _div(self: Value, other: Value) -> Value:
    """Integers are divided towards zero."""
    if self.dtype.kind == "f":
        return self / other
    floor = np.floor_divide(self, other)
    return np.where((np.remainder(self, other) != 0) & (floor < 0), floor + 1, floor)


@aten("prims.broadcast_in_dim.default")
def _broadcast_in_dim(a: Value, shape: Any, broadcast_dimensions: Any) -> Value:
    """The axes of ``a`` become the axes ``broadcast_dimensions`` of the result."""
    sizes = dict(zip(broadcast_dimensions, a.shape))
    wide = np.reshape(a, tuple(sizes.get(axis, 1) for axis in range(len(shape))))
    return np.broadcast_to(wide, tuple(shape))
