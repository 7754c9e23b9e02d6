"""``lw.xp``: the Array API standard (2023.12) on NumPy arrays and traced ones.

Not there yet: complex numbers, and the functions that sort, search, count distinct values or
accumulate.

Nearly all are NumPy's own, which hand traced arrays over to Loopwright; those that make arrays from
nothing are Loopwright's, so that they take symbolic sizes and make no big constants. A function
written against ``lw.xp`` runs on plain NumPy arrays as well.

>>> from loopwright import xp
>>> float(xp.sum(xp.ones((2, 3))))
6.0
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

# fmt: off
# isort: off
from numpy import (
    abs, acos, acosh, add, all, any, argmax, argmin, asin, asinh, astype, atan, atan2, atanh,
    bitwise_and, bitwise_invert, bitwise_left_shift, bitwise_or, bitwise_right_shift,
    bitwise_xor, bool, broadcast_arrays, broadcast_to, can_cast, ceil, clip, concat, copysign,
    cos, cosh, divide, e, einsum, empty_like, equal, exp, exp2, expand_dims, expm1, finfo, flip,
    float32, float64, floor, floor_divide, full_like, greater, greater_equal, hypot, iinfo, inf,
    int8, int16, int32, int64, isfinite, isinf, isnan, less, less_equal, linalg, log, log1p,
    log2, log10, logaddexp, logical_and, logical_not, logical_or, logical_xor, matmul,
    matrix_transpose, max, maximum, mean, meshgrid, min, minimum, moveaxis, multiply, nan,
    negative, newaxis, not_equal, ones_like, permute_dims, pi, positive, pow, prod, remainder,
    repeat, reshape, result_type, roll, round, sign, signbit, sin, sinh, split, sqrt, square,
    squeeze, stack, std, subtract, sum, tan, tanh, tensordot, tile, tril, triu, trunc, uint8,
    uint16, uint32, uint64, var, vecdot, where, zeros_like,
)
# isort: on
# fmt: on

from .creation import arange, asarray, empty, eye, full, linspace, ones, while_tracing, zeros
from .dispatch import method
from .indexing import take as _take

# fmt: off
__all__ = [
    "abs", "acos", "acosh", "add", "all", "any", "arange", "argmax", "argmin", "asarray",
    "asin", "asinh", "astype", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert",
    "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "bool",
    "broadcast_arrays", "broadcast_to", "can_cast", "ceil", "clip", "concat", "copysign", "cos",
    "cosh", "divide", "e", "einsum", "empty", "empty_like", "equal", "exp", "exp2",
    "expand_dims", "expm1", "eye", "finfo", "flip", "float32", "float64", "floor",
    "floor_divide", "full", "full_like", "greater", "greater_equal", "hypot", "iinfo", "inf",
    "int16", "int32", "int64", "int8", "isdtype", "isfinite", "isinf", "isnan", "less",
    "less_equal", "linalg", "linspace", "log", "log10", "log1p", "log2", "logaddexp",
    "logical_and", "logical_not", "logical_or", "logical_xor", "matmul", "matrix_transpose",
    "max", "maximum", "mean", "meshgrid", "min", "minimum", "moveaxis", "multiply", "nan",
    "negative", "newaxis", "not_equal", "ones", "ones_like", "permute_dims", "pi", "positive",
    "pow", "prod", "remainder", "repeat", "reshape", "result_type", "roll", "round", "sign",
    "signbit", "sin", "sinh", "split", "sqrt", "square", "squeeze", "stack", "std", "subtract",
    "sum", "take", "tan", "tanh", "tensordot", "tile", "tril", "triu", "trunc", "uint16",
    "uint32", "uint64", "uint8", "var", "vecdot", "where", "zeros", "zeros_like",
]
# fmt: on

__array_api_version__ = "2023.12"

take = while_tracing(_take, np.take)  # NumPy does not hand over for traced indices alone


def isdtype(dtype: Any, kind: Any) -> Any:
    """True if ``dtype`` is of ``kind`` (``"bool"``, ``"integral"``, ``"real floating"`` ...)."""
    return np.isdtype(np.dtype(dtype), kind)


@method("__array_namespace__")
def _namespace(x: Any) -> Any:
    return sys.modules[__name__]
