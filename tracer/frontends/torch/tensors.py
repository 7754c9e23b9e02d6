"""Tensors as arrays and back, without copies, and their symbolic sizes as those of the language."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch

from ....ir.dims import LARGEST_SIZE, IntExpr, floordiv, int_max, int_min, mod, product, size
from ....ir.dtype import dtype_of
from ....ir.errors import UnsupportedError

NUMPY_DTYPES: dict[torch.dtype, np.dtype[Any]] = {
    getattr(torch, name): np.dtype(name)
    for name in (
        *("bool", "float16", "float32", "float64"),
        *("int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64", "complex64", "complex128"),
    )
}
"""The dtypes that the language has; bfloat16 among them where ml_dtypes is installed."""
with suppress(TypeError):
    NUMPY_DTYPES[torch.bfloat16] = dtype_of("bfloat16").numpy


def numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    """Returns NumPy's name of ``dtype``. Raises UnsupportedError for float8 and its like."""
    if dtype not in NUMPY_DTYPES:
        raise UnsupportedError(f"{dtype} is not supported", hint="model.float()")
    return NUMPY_DTYPES[dtype]


def array_of(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Returns the tensor's memory as an array, read-only to NumPy.

    Raises UnsupportedError unless the tensor is dense and on the CPU.
    """
    numpy_dtype(tensor.dtype)
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        raise UnsupportedError(
            f"a tensor of layout {tensor.layout} on {tensor.device} is not supported",
            hint="dense tensors on the CPU",
        )
    return plain_array(tensor.detach().resolve_conj().resolve_neg())


def plain_array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Returns the memory of a tensor without gradients and pending signs as an array."""
    if tensor.dtype is torch.bfloat16:  # which PyTorch has no arrays of
        return tensor.view(torch.int16).numpy().view(NUMPY_DTYPES[torch.bfloat16])
    return tensor.numpy()


def tensor_of(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """Returns ``array`` as a tensor in the same memory, if it may be written; else a copy."""
    array = array if array.flags.writeable else array.copy()
    if array.dtype == NUMPY_DTYPES.get(torch.bfloat16):
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def torch_dtype(dtype: np.dtype[Any]) -> torch.dtype:
    """Returns PyTorch's name of ``dtype``."""
    return tensor_of(np.empty(0, dtype)).dtype


def is_float(array: Any) -> bool:
    """True for an array of floats, also of bfloat16, which NumPy knows no kind of."""
    return dtype_of(array.dtype).is_float


def storage_order(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
    """Returns the axes from the slowest to the fastest if they fill dense memory, else None.

    >>> storage_order((2, 3, 4, 5), (60, 1, 15, 3))
    (0, 2, 3, 1)
    """
    order = sorted(range(len(shape)), key=lambda a: (-strides[a], shape[a] == 1, a))
    expected = 1
    for axis in reversed(order):
        if shape[axis] != 1 and strides[axis] != expected:
            return None
        expected *= shape[axis]
    # Axes of size 1 lie anywhere: if all others are in order, nothing is transposed.
    large = [axis for axis in order if shape[axis] != 1]
    return tuple(range(len(shape))) if large == sorted(large) else tuple(order)


def in_order(array: np.ndarray[Any, Any], order: Sequence[int]) -> np.ndarray[Any, Any]:
    """Returns ``array`` with its axes in the order ``order``."""
    ordered = all(axis == place for place, axis in enumerate(order))
    return array if ordered else array.transpose(order)


def size_of(value: int | torch.SymInt) -> IntExpr:
    """Returns a size of a tensor; that of a symbolic one is an expression of sizes with the ranges
    that PyTorch has found. Raises UnsupportedError for what is not a polynomial."""
    if not isinstance(value, torch.SymInt):
        return int(value)
    node: Any = value.node
    return _expression(node.expr, node.shape_env.var_to_range)


def _expression(expr: Any, ranges: Any) -> IntExpr:
    if expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        inside = ranges.get(expr)
        if inside is None:
            return size(str(expr))
        return size(str(expr), int(max(0, inside.lower)), _most(inside.upper))
    if expr.is_Pow and expr.exp.is_Integer and expr.exp > 0:
        return product([_expression(expr.base, ranges)] * int(expr.exp))
    function = _FUNCTIONS.get(type(expr).__name__)
    if function is None:
        raise UnsupportedError(f"a tensor has the size {expr}")
    return functools.reduce(function, [_expression(part, ranges) for part in expr.args])


_FUNCTIONS: dict[str, Callable[[IntExpr, IntExpr], IntExpr]] = {
    "Add": operator.add,
    "CleanDiv": floordiv,
    "FloorDiv": floordiv,
    "Max": int_max,
    "Min": int_min,
    "Mod": mod,
    "Mul": operator.mul,
    "PythonMod": mod,
}
"""The functions of sizes that PyTorch writes, by the names of their classes."""


def _most(upper: Any) -> int:
    return int(min(upper, LARGEST_SIZE))
