"""``lw.xp``: the Array API standard (2024.12), on plain arrays and on traced ones.

>>> from loopwright import xp
>>> xp.sum(xp.ones((2, 3)))
np.float64(6.0)

A function written against it runs on NumPy arrays as it stands, and compiles. On plain arrays each
call is compiled, and its code kept for the kind of its arguments: their dtypes and shapes, and the
values of the others (``eager``). Functions that only make arrays or views of them are NumPy's
there, and so are those whose result has a size that depends on values: ``nonzero``, ``unique_*``.
While tracing these are errors.

::

    eager        one function for both kinds of calls
    elementwise  functions of single elements
    arrays       creation, shapes, indexing
    values       reductions, scans, sorting, searching, sets
    linalg, fft  the extensions
    info         dtypes and what there is

Names beside the standard's: ``einsum``, ``exp2``, ``split``.
"""

from numpy import (
    bool,
    complex64,
    complex128,
    e,
    einsum,
    exp2,
    float32,
    float64,
    inf,
    int8,
    int16,
    int32,
    int64,
    nan,
    newaxis,
    pi,
    split,
    uint8,
    uint16,
    uint32,
    uint64,
)

# fmt: off
# isort: off
from . import fft, info, linalg
from .arrays import (
    arange, asarray, astype, broadcast_arrays, broadcast_to, concat, empty, empty_like,
    expand_dims, eye, flip, from_dlpack, full, full_like, linspace, matrix_transpose, meshgrid,
    moveaxis, ones, ones_like, permute_dims, repeat, reshape, roll, squeeze, stack, take,
    take_along_axis, tile, tril, triu, unstack, zeros, zeros_like,
)
from .elementwise import (
    abs, acos, acosh, add, asin, asinh, atan, atan2, atanh, bitwise_and, bitwise_invert,
    bitwise_left_shift, bitwise_or, bitwise_right_shift, bitwise_xor, ceil, clip, conj, copysign,
    cos, cosh, divide, equal, exp, expm1, floor, floor_divide, greater, greater_equal, hypot,
    imag, isfinite, isinf, isnan, less, less_equal, log, log10, log1p, log2, logaddexp,
    logical_and, logical_not, logical_or, logical_xor, maximum, minimum, multiply, negative,
    nextafter, not_equal, positive, pow, real, reciprocal, remainder, round, sign, signbit, sin,
    sinh, sqrt, square, subtract, tan, tanh, trunc, where,
)
from .info import Info, can_cast, finfo, iinfo, isdtype, result_type
from .linalg import matmul, tensordot, vecdot
from .values import (
    all, any, argmax, argmin, argsort, count_nonzero, cumulative_prod, cumulative_sum, diff, max,
    mean, min, nonzero, prod, searchsorted, sort, std, sum, unique_all, unique_counts,
    unique_inverse, unique_values, var,
)
# isort: on

__all__ = [
    "abs", "acos", "acosh", "add", "all", "any", "arange", "argmax", "argmin", "argsort",
    "asarray", "asin", "asinh", "astype", "atan", "atan2", "atanh", "bitwise_and",
    "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "bool", "broadcast_arrays", "broadcast_to", "can_cast", "ceil", "clip", "complex128",
    "complex64", "concat", "conj", "copysign", "cos", "cosh", "count_nonzero", "cumulative_prod",
    "cumulative_sum", "diff", "divide", "e", "einsum", "empty", "empty_like", "equal", "exp",
    "exp2", "expand_dims", "expm1", "eye", "fft", "finfo", "flip", "float32", "float64", "floor",
    "floor_divide", "from_dlpack", "full", "full_like", "greater", "greater_equal", "hypot",
    "iinfo", "imag", "inf", "int16", "int32", "int64", "int8", "isdtype", "isfinite", "isinf",
    "isnan", "less", "less_equal", "linalg", "linspace", "log", "log10", "log1p", "log2",
    "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "matmul",
    "matrix_transpose", "max", "maximum", "mean", "meshgrid", "min", "minimum", "moveaxis",
    "multiply", "nan", "negative", "newaxis", "nextafter", "nonzero", "not_equal", "ones",
    "ones_like", "permute_dims", "pi", "positive", "pow", "prod", "real", "reciprocal",
    "remainder", "repeat", "reshape", "result_type", "roll", "round", "searchsorted", "sign",
    "signbit", "sin", "sinh", "sort", "split", "sqrt", "square", "squeeze", "stack", "std",
    "subtract", "sum", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "tril",
    "triu", "trunc", "uint16", "uint32", "uint64", "uint8", "unique_all", "unique_counts",
    "unique_inverse", "unique_values", "unstack", "var", "vecdot", "where", "zeros", "zeros_like",
]
# fmt: on

__array_api_version__ = "2024.12"


def __array_namespace_info__() -> Info:
    """Returns capabilities, devices and dtypes."""
    return info.Info()
