"""Integers that stand for numbers: ``nn.quantize`` and ``nn.dequantize``.

An integer ``q`` stands for ``(q - zero) * scale``, with one scale and zero point for the whole
array, or one for each index of an axis. The pass ``multiply_integers`` makes contractions of what
they stand for into contractions of the integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import LoopwrightTypeError
from ..graph.compose import F, Value
from ..graph.nodes import Constant
from ..graph.operator import Pattern, Sample
from ..graph.type_rules import ANY, normalise_axis, require_kind, require_shape, same_dtype
from ..graph.types import TensorType
from .declare import attr, composite
from .sampling import floats, ints, sample

_AXIS = attr("axis along which scales and zero points differ, if they are arrays", -1, "int")


def _check_scales(x: TensorType, scale: TensorType, zero: TensorType, axis: Any) -> None:
    require_kind("f", (scale,))
    require_kind("iu", (zero,))
    size = (x.shape[normalise_axis(axis, x.rank, x)],) if scale.rank or zero.rank else ()
    for label, value in (("scale", scale), ("zero point", zero)):
        error = LoopwrightTypeError(
            f"the {label} of {x.short} is a number, or one for each index of axis {axis}, "
            f"not {value.short}"
        )
        require_shape(value.shape, size, error)


def _quantize_rule(x: TensorType, scale: TensorType, zero: TensorType, axis: Any) -> TensorType:
    same_dtype((x, scale))
    _check_scales(x, scale, zero, axis)
    if zero.dtype.bits > 16:
        raise LoopwrightTypeError(
            f"{x.short} is quantised to 8 or 16 bits, not to {zero.dtype}",
            hint="a zero point of int8, uint8, int16 or uint16",
        )
    return TensorType(x.shape, zero.dtype)


def _dequantize_rule(x: TensorType, scale: TensorType, zero: TensorType, axis: Any) -> TensorType:
    same_dtype((x, zero))
    _check_scales(x, scale, zero, axis)
    return TensorType(x.shape, scale.dtype)


def _along(value: Value, x: Value, axis: int) -> Value:
    """A scale or zero point in a shape that is broadcast against ``x``."""
    if not value.rank:
        return value
    shape = [1] * x.rank
    shape[axis] = -1
    return value.fold(lambda array: array.reshape(shape)) or F.reshape(value, newshape=tuple(shape))


def _reference_along(value: Any, x: Any, axis: int) -> Any:
    return np.moveaxis(value.reshape(-1, *(1,) * (x.ndim - 1)), 0, axis) if value.ndim else value


def _quantize_reference(x: Any, scale: Any, zero: Any, axis: int) -> Any:
    limits = np.iinfo(zero.dtype)
    quotient = np.rint(x / _reference_along(scale, x, axis))
    moved = quotient + _reference_along(zero, x, axis)
    return np.clip(moved, limits.min, limits.max).astype(zero.dtype)


def _dequantize_reference(x: Any, scale: Any, zero: Any, axis: int) -> Any:
    centred = x.astype(np.int64) - _reference_along(zero, x, axis)
    return centred.astype(scale.dtype) * _reference_along(scale, x, axis)


def _samples(rng: np.random.Generator, integers: bool) -> list[Sample]:
    """Arrays with one scale, with one for each index of an axis, and beyond the integers."""

    def drawn(shape: tuple[int, ...], dtype: str, count: int = 0, axis: int = -1) -> Sample:
        sizes = (count,) if count else ()
        scale, zero = floats(rng, sizes, low=0.02, high=0.1), ints(rng, sizes, dtype, 0, 8)
        x = ints(rng, shape, dtype) if integers else floats(rng, shape, low=-9, high=9)
        return sample(x, scale, zero, axis=axis)

    return [
        drawn((5, 33), "int8"),
        drawn((4, 3, 5), "uint8", 3, 1),
        drawn((2, 7), "int16", 7),
        drawn((0, 4), "uint8"),
        drawn((3, 20), "uint16", 3, 0),
    ]


@composite(
    "nn.quantize",
    Pattern.BROADCAST,
    dtypes=ANY,
    rule=_quantize_rule,
    reference=_quantize_reference,
    samples=lambda rng: _samples(rng, False),
)
def _quantize(x: Value, scale: Value, zero: Value, *, axis: int = _AXIS) -> Value:
    """The integers that stand for numbers: ``x / scale``, rounded, with ``zero`` added.

    ``x`` of a float dtype and any shape, ``scale`` of its dtype and ``zero`` of int8, uint8, int16
    or uint16, both scalars or of the size of ``axis``; the result has the dtype of ``zero``. Halves
    are rounded to even, and what lies beyond the integers of the dtype becomes the last of them; a
    nan becomes any of them. LoopwrightTypeError where shapes or dtypes do not fit,
    LoopwrightValueError for an axis out of range.

        fn (
          %x: Tensor[(64, 10), float32],
          %scale: Tensor[(), float32],
          %zero: Tensor[(), uint8]
        ) -> Tensor[(64, 10), uint8] {
          nn.quantize(%x, %scale, %zero)
        }
    """
    limits = np.iinfo(zero.dtype.numpy)
    scale, zero = _along(scale, x, axis), _along(zero, x, axis)
    offset = _cast(zero, x.dtype.name)
    # Bounded before it is rounded: what is then cast fits into int32, infinities too.
    least, greatest = float(limits.min) - offset, float(limits.max) - offset
    bounded = F.minimum(F.maximum(x / scale, least), greatest)
    whole = F.cast(F.round(bounded), dtype="int32")
    whole = whole if _is_zero(zero) else whole + _cast(zero, "int32")
    return F.cast(whole, dtype=zero.dtype.name)


def _cast(zero: Value, dtype: str) -> Value:
    return zero.fold(lambda array: array.astype(dtype)) or F.cast(zero, dtype=dtype)


def _is_zero(zero: Value) -> bool:
    return isinstance(zero.atom, Constant) and not zero.atom.value.any()


@composite(
    "nn.dequantize",
    Pattern.BROADCAST,
    dtypes=ANY,
    rule=_dequantize_rule,
    reference=_dequantize_reference,
    samples=lambda rng: _samples(rng, True),
)
def _dequantize(x: Value, scale: Value, zero: Value, *, axis: int = _AXIS) -> Value:
    """The numbers that integers stand for: ``(x - zero) * scale``.

    ``x`` of an integer dtype and any shape, ``zero`` of its dtype and ``scale`` of a float dtype,
    both scalars or of the size of ``axis``; the result has the dtype of ``scale``.
    LoopwrightTypeError where shapes or dtypes do not fit, LoopwrightValueError for an axis out of
    range.

        fn (
          %x: Tensor[(64, 10), uint8],
          %scale: Tensor[(), float32],
          %zero: Tensor[(), uint8]
        ) -> Tensor[(64, 10), float32] {
          nn.dequantize(%x, %scale, %zero)
        }
    """
    zero = _along(zero, x, axis)
    # Integers of 16 bits and their differences are exact in float32.
    wide = scale.dtype.name if x.dtype.bits <= 16 else x.dtype.name
    centred = F.cast(x, dtype=wide)
    centred = centred if _is_zero(zero) else centred - _cast(zero, wide)
    return F.cast(centred, dtype=scale.dtype.name) * _along(scale, x, axis)
