"""Integers that stand for numbers: ``nn.quantize``, ``nn.dequantize``, and products with weights of
few bits, ``nn.matmul_nbits``, which consists of ``matmul_codes`` and ``quantize_rows``.

An integer ``q`` stands for ``(q - zero) * scale``, with one scale and zero point for the whole
array, or one for each index of an axis. The pass ``multiply_integers`` makes contractions of what
they stand for into contractions of the integers.

What comes with 2, 4 or 8 bits a weight (ONNX's MatMulNBits and blocked DequantizeLinear, torchao's
layouts, GGUF's blocks) has one form here, with a scale for each group. The codes of a group of
``size`` neighbours along the reduced axis lie in ``size * bits / 8`` rows of bytes: row ``j`` of a
group holds the weight ``j`` in its lowest bits, and those ``size * bits / 8`` further on in the
next ones, so that one mask and one shift unpack a whole vector, and neighbouring lanes are
neighbouring columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dims import as_int, product
from ..dtype import FLOAT32, FLOAT64, INT8, INT32, UINT8, DType
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.builder import Builder
from ..graph.compose import F, Value, is_zero
from ..graph.nodes import Atom
from ..graph.operator import Pattern, Sample
from ..graph.type_rules import (
    ANY,
    Attrs,
    normalise_axis,
    require_equal,
    require_kind,
    require_shape,
    same_dtype,
)
from ..graph.types import TensorType, TupleType
from ..graph.weights import codes_of
from ..loop.expr import Expr, IndexLike, cast, const, op
from ..loop.tensor import Tensor, index_add, index_expr, index_mul
from .declare import Reduce, attr, composite, primitive
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
    if zero.dtype.bits not in (8, 16):
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
    offset = zero.cast(x.dtype.name)
    # Bounded before it is rounded: what is then cast fits into int32, infinities too.
    least, greatest = float(limits.min) - offset, float(limits.max) - offset
    bounded = F.minimum(F.maximum(x / scale, least), greatest)
    whole = F.cast(F.round(bounded), dtype="int32")
    whole = whole if is_zero(zero.atom) else whole + zero.cast("int32")
    return F.cast(whole, dtype=zero.dtype.name)


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
    centred = centred if is_zero(zero.atom) else centred - zero.cast(wide)
    return F.cast(centred, dtype=scale.dtype.name) * _along(scale, x, axis)


BITS = (2, 4, 8)
ROWS = (FLOAT32, FLOAT64, INT8)
"""Dtypes of what is multiplied with weights: products of float64 are for derivatives' checks."""


def _codes_rule(
    x: TensorType, w: TensorType, scales: TensorType, *zeros: TensorType, bits: int
) -> TensorType:
    shorts = ", ".join(t.short for t in (x, w, scales, *zeros))
    if bits not in BITS:
        raise LoopwrightValueError(f"weights of {bits} bits; there are 2, 4 and 8")
    if x.dtype not in ROWS or w.dtype != UINT8 or not scales.dtype.is_float:
        raise LoopwrightTypeError(f"{shorts}: x is float32 or int8, w uint8, scales are floats")
    if x.rank != 2 or w.rank != 2 or scales.rank != 2 or len(zeros) > 1:
        raise LoopwrightTypeError(f"{shorts}: each operand is a matrix, and there are 3 or 4")
    for points in zeros:
        if points.dtype != UINT8 or points.shape != scales.shape:
            raise LoopwrightTypeError(f"{shorts}: zero points are uint8, as many as scales")
    require_equal(w.shape[1], scales.shape[1], LoopwrightTypeError(f"{shorts}: columns differ"))
    size = LoopwrightTypeError(
        f"{shorts}: {w.shape[0]} rows of bytes do not hold {x.shape[1]} codes"
    )
    require_equal(x.shape[1] * bits, w.shape[0] * 8, size)
    rows, groups = w.shape[0], scales.shape[0]
    if not isinstance(rows, int) or not isinstance(groups, int) or groups < 1 or rows % groups:
        raise LoopwrightTypeError(f"{shorts}: {groups} groups do not divide {rows} rows of bytes")
    return TensorType((x.shape[0], w.shape[1]), _result(x))


def _result(x: TensorType | Tensor) -> DType:
    return x.dtype if x.dtype.is_float else FLOAT32


def _codes_reference(x: Any, w: Any, scales: Any, *zeros: Any, bits: int) -> Any:
    groups = len(scales)
    codes = codes_of(w, bits, groups).astype(np.float64)
    points = zeros[0].astype(np.float64) if zeros else np.full(scales.shape, 2.0 ** (bits - 1))
    size = len(codes) // groups
    weights = (codes - points.repeat(size, 0)) * scales.astype(np.float64).repeat(size, 0)
    return (x.astype(np.float64) @ weights).astype(x.dtype if x.dtype.kind == "f" else np.float32)


def _codes_samples(rng: np.random.Generator) -> list[Sample]:
    """Samples whose sums are exact, in any order: as terms cancel, the size of a result says
    nothing of the error of others."""

    def rows(*shape: int) -> Any:
        return np.round(floats(rng, shape) * 256) / np.float32(256)

    def drawn(x: Any, k: int, n: int, groups: int, bits: int, *zeros: Any) -> Sample:
        w = rng.integers(0, 256, (k * bits // 8, n), np.uint8)
        scales = rng.choice(np.array([-2, -1, -0.5, 0.25, 0.5, 1], np.float32), (groups, n))
        return sample(x, w, scales, *zeros, bits=bits)

    points = rng.integers(0, 16, (4, 33), np.uint8)
    return [
        drawn(rows(1, 64), 64, 40, 2, 4),
        drawn(rows(3, 128), 128, 33, 4, 4, points),
        drawn(rows(2, 48), 48, 17, 3, 8),
        drawn(rows(2, 32), 32, 5, 2, 2),
        drawn(ints(rng, (1, 128), "int8", -128, 127), 128, 33, 4, 4, points),
        drawn(ints(rng, (5, 64), "int8", -128, 127), 64, 20, 2, 8),
        drawn(rows(2, 32), 32, 5, 1, 4),
    ]


def _unfolded(b: Builder, args: Sequence[Atom], attrs: Attrs) -> Atom:
    """The weights as floats, and a product with them."""
    (x, w, scales, *zeros), bits = (Value(b, a) for a in args), attrs["bits"]
    (rows, n), groups = w.shape, as_int(scales.shape[0])
    wide = x.dtype.name if x.dtype.is_float else FLOAT32.name
    bytes_of = F.reshape(w, newshape=(groups, 1, as_int(rows) // groups, n))
    mask = w.full((), 2**bits - 1)
    shifted = [F.right_shift(bytes_of, w.full((), shift)) for shift in range(0, 8, bits)]
    codes = F.concatenate(*(F.bitwise_and(part, mask) for part in shifted), axis=1)

    def of_groups(each: Value) -> Value:
        return F.cast(F.reshape(each, newshape=(groups, 1, 1, n)), dtype=wide)

    zero = of_groups(zeros[0]) if zeros else 2.0 ** (bits - 1)
    weights = (F.cast(codes, dtype=wide) - zero) * of_groups(scales)
    return F.nn.matmul(F.cast(x, dtype=wide), F.reshape(weights, newshape=(x.shape[1], n))).atom


@primitive(
    "matmul_codes",
    Pattern.CONTRACTION,
    rule=_codes_rule,
    reference=_codes_reference,
    samples=_codes_samples,
    dtypes=ANY,
    unfold=_unfolded,
)
def _matmul_codes(
    _out: TensorType,
    x: Tensor,
    w: Tensor,
    scales: Tensor,
    *zeros: Tensor,
    bits: int = attr("2, 4 or 8: the bits of a weight"),
) -> Reduce:
    """The product of ``nn.matmul_nbits`` for a matrix ``x`` (m, k), float32 or int8.

    LoopwrightTypeError where shapes, dtypes or groups do not fit, LoopwrightValueError for other
    bits.

        fn (
          %x: Tensor[(1, 64), int8],
          %w: Tensor[(32, 9), uint8],
          %scales: Tensor[(2, 9), float16]
        ) -> Tensor[(1, 9), float32] {
          matmul_codes(%x, %w, %scales, bits=4)
        }
    """
    groups, parts = scales.shape[0], 8 // bits
    assert isinstance(groups, int) and isinstance(w.shape[0], int)
    rows = w.shape[0] // groups
    result = _result(x)
    wide = INT32 if x.dtype == INT8 else result

    def element(*indices: IndexLike) -> Expr:
        m, n, group, part, j = indices
        row = index_add(index_mul(group, rows), j)
        place = index_add(index_mul(group, rows * parts), index_add(index_mul(part, rows), j))
        code = w(row, n)
        if bits < 8:
            shift = cast(index_expr(index_mul(part, bits)), UINT8)
            code = op("bitwise_and", op("right_shift", code, shift), const(2**bits - 1, UINT8))
        zero = cast(zeros[0](group, n), wide) if zeros else const(2 ** (bits - 1), wide)
        product = op("multiply", cast(x(m, place), wide), op("subtract", cast(code, wide), zero))
        return op("multiply", cast(product, result), cast(scales(group, n), result))

    return Reduce("sum", (groups, parts, rows), element)


STEP = 1.0 / np.iinfo(np.int8).max
"""The step of a row whose largest magnitude is 1."""


def _rows_rule(x: TensorType) -> TupleType:
    if x.rank < 1 or x.dtype not in (FLOAT32, FLOAT64):
        raise LoopwrightTypeError(f"{x.short}, not rows of float32")
    return TupleType((TensorType(x.shape, INT8), TensorType((*x.shape[:-1], 1), x.dtype)))


def _rows_reference(x: Any) -> Any:
    steps = np.abs(x).max(-1, keepdims=True, initial=0) * x.dtype.type(STEP)
    codes = np.rint(x / np.where(steps > 0, steps, x.dtype.type(1)))
    return np.where(np.isfinite(codes), codes, 0).astype(np.int8), steps


@composite(
    "quantize_rows",
    Pattern.OPAQUE,
    rule=_rows_rule,
    reference=_rows_reference,
    samples=lambda rng: [
        sample(floats(rng, (3, 40))),
        sample(floats(rng, (2, 1, 7))),
        sample(np.zeros((2, 5), np.float32)),
    ],
    dtypes=ANY,
)
def _quantize_rows(x: Value) -> tuple[Value, Value]:
    """Rows as int8 codes, and the float32 step of each: 127 steps are its largest magnitude.

    Rows of zeros have a step of 0. Where a value is infinite or nan, so is the step.
    LoopwrightTypeError for another dtype.

        fn (%x: Tensor[(2, 9), float32]) -> (Tensor[(2, 9), int8], Tensor[(2, 1), float32]) {
          quantize_rows(%x)
        }
    """
    steps = F.max(F.abs(x), axis=(-1,), keepdims=True) * STEP
    codes = F.round(x / F.where(F.greater(steps, 0), steps, steps.full((), 1)))
    codes = F.where(F.isfinite(codes), codes, codes.full((), 0))
    return F.cast(codes, dtype=INT8.name), steps


ACTIVATIONS = ("float32", "int8")


def _product_rule(x: TensorType, *weights: TensorType, bits: int, activations: str) -> TensorType:
    if activations not in ACTIVATIONS:
        raise LoopwrightValueError(f"activations are float32 or int8, not {activations!r}")
    if x.rank < 1 or len(weights) not in (2, 3) or x.dtype not in ROWS:
        raise LoopwrightTypeError(
            f"{x.short} and {len(weights)} operands; rows are float32 or int8"
        )
    if activations == "int8" and x.dtype == FLOAT64:
        raise LoopwrightTypeError(f"{x.short}: rows of float32 are rounded to int8")
    rows = TensorType((product(x.shape[:-1]), x.shape[-1]), x.dtype)
    made = _codes_rule(rows, *weights, bits=bits)
    return TensorType((*x.shape[:-1], made.shape[1]), made.dtype)


def _product_reference(x: Any, *weights: Any, bits: int, activations: str) -> Any:
    rows, steps = x.reshape(-1, x.shape[-1]), np.float32(1)
    if activations == "int8" and x.dtype != np.int8:
        rows, steps = _rows_reference(rows)
    result = _codes_reference(rows, *weights, bits=bits) * steps
    return result.reshape(*x.shape[:-1], -1)


@composite(
    "nn.matmul_nbits",
    Pattern.CONTRACTION,
    rule=_product_rule,
    reference=_product_reference,
    samples=lambda rng: [
        Sample(s.args, {**s.attrs, "activations": activations})
        for s in _codes_samples(rng)
        for activations in ACTIVATIONS
    ],
    dtypes=ANY,
)
def _matmul_nbits(
    x: Value,
    *weights: Value,
    bits: int = attr("2, 4 or 8: the bits of a weight", 4),
    activations: str = attr("int8 to round rows of x to bytes first", "float32"),
) -> Value:
    """Matrix product with weights of few bits, which are widened where they are multiplied.

    ``x`` is (..., k), float32 or int8. The others are ``w``, the codes of (k, n) weights as uint8
    (k * bits / 8, n), in the order that ``ir/ops/quantise.py`` describes; ``scales`` (groups,
    n), floats that multiply the groups into which rows of ``w`` are cut; and perhaps ``zeros``,
    uint8 of the same shape, subtracted from codes before, 2 ** (bits - 1) without them. With
    ``activations`` int8 each row of ``x`` is rounded to 255 levels of its own first. The result is
    float32 (..., n). LoopwrightTypeError where shapes, dtypes or groups do not fit,
    LoopwrightValueError for other bits.

        fn (
          %x: Tensor[(1, 64), float32],
          %w: Tensor[(32, 9), uint8],
          %scales: Tensor[(2, 9), float16]
        ) -> Tensor[(1, 9), float32] {
          nn.matmul_nbits(%x, %w, %scales)
        }
    """
    *batch, k = x.shape
    rows = x if x.rank == 2 else F.reshape(x, newshape=(product(batch), k))
    if activations == "float32" or x.dtype == INT8:
        result = F.matmul_codes(rows, *weights, bits=bits)
    else:
        codes, steps = F.quantize_rows(rows).fields
        result = F.matmul_codes(codes, *weights, bits=bits) * steps
    return result if x.rank == 2 else F.reshape(result, newshape=(*batch, result.shape[1]))
