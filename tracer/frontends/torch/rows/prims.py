"""Primitive operators in which decompositions of PyTorch end, and that have no row of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import nn
from ..table import Value, aten
from ..tensors import is_float

for _name, _function in {
    "abs": np.abs,
    "add": np.add,
    "convert_element_type": lambda a, _dtype: a,  # the importer gives a result its dtype
    "erfc": lambda x: 1 - nn.erf(x),
    "round": np.rint,
    "shift_left": np.left_shift,
    "shift_right_arithmetic": np.right_shift,
    "sign": np.sign,
    "sub": np.subtract,
}.items():
    aten(f"prims.{_name}.default")(lambda *args, function=_function: function(*args))


@aten("prims.div.default")
def _div(self: Value, other: Value) -> Value:
    """Integers are divided towards zero."""
    if is_float(self) or self.dtype.kind == "c":
        return self / other
    floor = np.floor_divide(self, other)
    return np.where((np.remainder(self, other) != 0) & (floor < 0), floor + 1, floor)


@aten("prims.broadcast_in_dim.default")
def _broadcast_in_dim(a: Value, shape: Any, broadcast_dimensions: Any) -> Value:
    """The axes of ``a`` become the axes ``broadcast_dimensions`` of the result."""
    sizes = dict(zip(broadcast_dimensions, a.shape))
    wide = np.reshape(a, tuple(sizes.get(axis, 1) for axis in range(len(shape))))
    return np.broadcast_to(wide, tuple(shape))
