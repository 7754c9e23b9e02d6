"""NumPy 2's promotion, inserted as casts: the graph's operators want operands of one dtype.

Python numbers are weak: they take the dtype of the arrays they meet. Where NumPy would answer
float16, which the language does not have, the answer is float32.
"""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

import numpy as np

from ..ir.dtype import DTYPES, FLOAT32, DType, dtype_of, promote
from ..ir.errors import LoopwrightTypeError
from .emitting import lift
from .misuse import unsupported_dtype
from .proxy import Proxy

__all__ = [
    "common",
    "common_dtype",
    "common_strong",
    "dtype_argument",
    "known_dtype",
    "promoted",
    "to_float",
    "ufunc_dtypes",
]

Kind: TypeAlias = Any  # a NumPy dtype, or int or float for a Python number


def kind_of(value: Any) -> Kind:
    """What decides ``value``'s part in promotion."""
    if isinstance(value, Proxy):
        if value.weak is None:
            return value.dtype
        return np.dtype(bool) if value.weak is bool else value.weak
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype
    if isinstance(value, bool):
        return np.dtype(bool)
    if isinstance(value, int):
        return int
    if isinstance(value, float):
        return float
    return lift(value).dtype


@functools.lru_cache(maxsize=4096)
def ufunc_dtypes(ufunc: np.ufunc, kinds: tuple[Kind, ...]) -> tuple[DType, ...]:
    """The dtypes of a ufunc's inputs and outputs. LoopwrightTypeError if it has no such loop.

    >>> [str(d) for d in ufunc_dtypes(np.add, (np.dtype("float32"), int))]
    ['float32', 'float32', 'float32']
    """
    if all(isinstance(k, type) for k in kinds):  # Python numbers alone: as NumPy's defaults
        kinds = tuple(np.dtype(k) for k in kinds)
    try:
        found = ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout))
    except TypeError:
        names = " and ".join(k.__name__ if isinstance(k, type) else k.name for k in kinds)
        raise LoopwrightTypeError(f"{ufunc.__name__} is not defined for {names}") from None
    return tuple(known_dtype(d) for d in found)


def known_dtype(dtype: np.dtype[Any]) -> DType:
    """The language's dtype for one of NumPy's: float32 for float16, as long as that has no row.

    Raises TypeError for a dtype the language does not have.
    """
    return FLOAT32 if dtype == np.float16 and dtype.name not in DTYPES else dtype_of(dtype)


def common_dtype(*values: Any) -> DType:
    """The dtype in which the values meet, as ``np.result_type`` has it."""
    return _common(tuple(kind_of(v) for v in values))


@functools.lru_cache(maxsize=4096)
def _common(kinds: tuple[Kind, ...]) -> DType:
    weak = {int: 0, float: 0.0}
    return known_dtype(np.result_type(*(weak.get(k, k) for k in kinds)))


def common(*values: Any) -> list[Proxy]:
    """All of the values as proxies of their common dtype."""
    dtype = common_dtype(*values)
    return [lift(v, dtype) for v in values]


def common_strong(*values: Any) -> list[Proxy]:
    """As ``common``, for functions to which a Python number is an int64 or float64 array."""
    dtype = promote(*(lift(v).type.dtype for v in values))
    return [lift(v, dtype) for v in values]


def promoted(ufunc: np.ufunc, *values: Any) -> tuple[list[Proxy], tuple[DType, ...]]:
    """The operands of a ufunc, cast to one dtype it computes in, and the dtypes of its results."""
    dtypes = ufunc_dtypes(ufunc, tuple(kind_of(v) for v in values))
    inputs = dtypes[: len(values)]
    if any(d != inputs[0] for d in inputs):  # mixed loops, such as int64 < uint64
        inputs = (_common(tuple(d.numpy for d in inputs)),) * len(values)
    return [lift(v, d) for v, d in zip(values, inputs, strict=True)], dtypes[len(values) :]


def to_float(value: Any) -> Proxy:
    """``value`` in the float dtype in which NumPy would take its square root."""
    return promoted(np.sqrt, value)[0][0]


def dtype_argument(dtype: Any) -> DType:
    """A ``dtype=`` argument. Raises LoopwrightTypeError for a dtype the language does not have."""
    if dtype is int or dtype is float or dtype is bool:
        dtype = np.dtype(dtype)
    try:
        if isinstance(dtype, np.ndarray | np.generic | Proxy):
            raise TypeError(f"a dtype is needed, not an array of {dtype.dtype}")
        return dtype_of(dtype)
    except TypeError as error:
        raise unsupported_dtype(error) from None
