"""Integers that stand for numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.dtype import FLOAT32, dtype_of
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError
from ...ir.graph.nodes import Constant
from ..core.argument_conversion import DTypeLike, checked, is_number
from ..core.emitting import common_dtype, dtype_argument, lift
from .apply import apply_as_given


@checked
def quantize(
    x: Any, scale: Any, zero_point: Any = 0, axis: int = -1, dtype: DTypeLike = np.int8
) -> Any:
    """``x / scale`` rounded to even, plus ``zero_point``, in the integers of ``dtype``.

    What lies beyond int8, uint8, int16 or uint16 becomes the last of them. ``scale`` and
    ``zero_point`` are numbers, or arrays of the size of ``axis``; a ``zero_point`` with a dtype
    says that of the result. Raises LoopwrightValueError for a constant scale that is 0, infinite or
    nan.

    >>> quantize(np.float32([-9, 0.26, 1]), 0.1, 3, dtype=np.uint8).tolist()
    [0, 6, 13]
    """
    number = common_dtype(x).numpy
    scale = _finite(_as(scale, number), divides=True)
    zero = _as(zero_point, _dtype(zero_point, dtype_argument(dtype).numpy))
    scale, zero = _alike(scale, zero)
    return apply_as_given("nn.quantize", x, scale, zero, axis=axis)


@checked
def dequantize(x: Any, scale: Any, zero_point: Any = 0, axis: int = -1) -> Any:
    """``(x - zero_point) * scale`` of integers, in the dtype of ``scale``, float32 of a number.

    ``scale`` and ``zero_point`` are numbers, or arrays of the size of ``axis``. Raises
    LoopwrightValueError for a constant scale that is infinite or nan.

    >>> dequantize(np.uint8([0, 6, 13]), 0.5, 3).tolist()
    [-1.5, 1.5, 5.0]
    """
    scale = _finite(_as(scale, _dtype(scale, FLOAT32.numpy)))
    scale, zero = _alike(scale, _as(zero_point, common_dtype(x).numpy))
    return apply_as_given("nn.dequantize", x, scale, zero, axis=axis)


def _finite(scale: Any, divides: bool = False) -> Any:
    """Returns a scale; an error for a constant one that makes numbers of which none are left."""
    atom = getattr(scale, "atom", None)
    array = atom.value if isinstance(atom, Constant) else scale if atom is None else np.ones(())
    if not np.isfinite(array).all() or (divides and not np.all(array)):
        raise LoopwrightValueError(f"a scale is {array[~(np.isfinite(array) & (array != 0))][0]}")
    return scale


def _dtype(value: Any, otherwise: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the dtype of an array, ``otherwise`` for a number."""
    number = is_number(value) or getattr(value, "weak", None) is not None
    return otherwise if number else common_dtype(value).numpy


def _as(value: Any, dtype: np.dtype[Any]) -> Any:
    """``value``, an array of ``dtype``. Raises OverflowError for a number that it cannot hold."""
    if isinstance(value, complex):
        raise LoopwrightTypeError("scale and zero point are real numbers, not complex ones")
    if getattr(value, "weak", None) is not None and isinstance(value.atom, Constant):
        return lift(value.atom.value.item(), dtype_of(dtype))
    return value.astype(dtype) if hasattr(value, "dtype") else np.array(value, dtype)


def _alike(scale: Any, zero: Any) -> tuple[Any, Any]:
    """Both as numbers, or both as arrays."""
    scale, zero = (np.reshape(v, ()) if np.size(v) == 1 else v for v in (scale, zero))
    if np.ndim(scale) and not np.ndim(zero):
        zero = np.broadcast_to(zero, scale.shape)
    if np.ndim(zero) and not np.ndim(scale):
        scale = np.broadcast_to(scale, zero.shape)
    return scale, zero
