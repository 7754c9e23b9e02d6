"""``nn.matmul_nbits``: products with weights of few bits, which have a scale for each group.

What comes with 2, 4 or 8 bits a weight (ONNX's MatMulNBits and blocked DequantizeLinear, torchao's
layouts, GGUF's blocks) has this one form. The codes of a group of ``size`` neighbours along the
reduced axis lie in ``size * bits / 8`` rows of bytes: row ``j`` of a group holds the weight ``j``
in its lowest bits, and those ``size * bits / 8`` further on in the next ones, so that one mask and
one shift unpack a whole vector, and neighbouring lanes are neighbouring columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtype import FLOAT32, INT8, INT32, UINT8
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.operator import Pattern, Sample
from ..graph.type_rules import require_equal
from ..graph.types import TensorType
from ..loop.expr import Expr, IndexLike, cast, const, op
from ..loop.tensor import Tensor, index_add, index_expr, index_mul
from .declare import ANY, Reduce, attr, primitive
from .sampling import floats, ints, sample

BITS = (2, 4, 8)


def groups_of(codes: np.ndarray[Any, Any], bits: int, size: int) -> np.ndarray[Any, Any]:
    """Returns the operand ``w`` that holds these codes, uint8 (k, n), in groups of ``size`` rows.

    >>> codes = np.arange(16, dtype=np.uint8)[:, None]
    >>> [f"{b:02x}" for b in groups_of(codes, 4, 8)[:, 0]]
    ['40', '51', '62', '73', 'c8', 'd9', 'ea', 'fb']
    """
    count, rows = 8 // bits, size * bits // 8
    parts = codes.reshape(-1, count, rows, codes.shape[1])
    packed = np.zeros((len(parts), rows, codes.shape[1]), np.uint8)
    for part in range(count):
        packed |= parts[:, part] << np.uint8(part * bits)
    return packed.reshape(-1, codes.shape[1])


def codes_of(w: np.ndarray[Any, Any], bits: int, groups: int) -> np.ndarray[Any, Any]:
    """Returns the codes, uint8 (k, n), of an operand ``w``: the inverse of ``groups_of``."""
    parts = w.reshape(groups, 1, -1, w.shape[1])
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None, None]
    return (parts >> shifts & np.uint8(2**bits - 1)).reshape(-1, w.shape[1])


def _rule(x: TensorType, w: TensorType, scales: TensorType, *zeros: TensorType, bits: int) -> Any:
    shorts = ", ".join(t.short for t in (x, w, scales, *zeros))
    if bits not in BITS:
        raise LoopwrightValueError(f"weights of {bits} bits; there are 2, 4 and 8")
    if x.dtype not in (FLOAT32, INT8) or w.dtype != UINT8 or not scales.dtype.is_float:
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
    return TensorType((x.shape[0], w.shape[1]), FLOAT32)


def _reference(x: Any, w: Any, scales: Any, *zeros: Any, bits: int) -> Any:
    groups = len(scales)
    codes = codes_of(w, bits, groups).astype(np.float64)
    points = zeros[0].astype(np.float64) if zeros else np.full(scales.shape, 2.0 ** (bits - 1))
    size = len(codes) // groups
    weights = (codes - points.repeat(size, 0)) * scales.astype(np.float64).repeat(size, 0)
    return (x.astype(np.float64) @ weights).astype(np.float32)


def _samples(rng: np.random.Generator) -> list[Sample]:
    def drawn(x: Any, k: int, n: int, groups: int, bits: int, *zeros: Any) -> Sample:
        w = rng.integers(0, 256, (k * bits // 8, n), np.uint8)
        return sample(x, w, floats(rng, (groups, n)), *zeros, bits=bits)

    points = rng.integers(0, 16, (4, 33), np.uint8)
    return [
        drawn(floats(rng, (1, 64)), 64, 40, 2, 4),
        drawn(floats(rng, (3, 128)), 128, 33, 4, 4, points),
        drawn(floats(rng, (2, 48)), 48, 17, 3, 8),
        drawn(floats(rng, (2, 32)), 32, 5, 2, 2),
        drawn(ints(rng, (1, 128), "int8", -128, 127), 128, 33, 4, 4, points),
        drawn(ints(rng, (5, 64), "int8", -128, 127), 64, 20, 2, 8),
        drawn(floats(rng, (2, 32)), 32, 5, 1, 4),
    ]


@primitive(
    "nn.matmul_nbits",
    Pattern.CONTRACTION,
    rule=_rule,
    reference=_reference,
    samples=_samples,
    dtypes=ANY,
    not_differentiable="weights of few bits are not trained",
)
def _matmul_nbits(
    _out: TensorType,
    x: Tensor,
    w: Tensor,
    scales: Tensor,
    *zeros: Tensor,
    bits: int = attr("2, 4 or 8: the bits of a weight"),
) -> Reduce:
    """Matrix product with weights of few bits, which are widened where they are multiplied.

    ``x`` is (m, k), float32 or int8; ``w`` holds the codes of (k, n) weights as uint8
    (k * bits / 8, n), in the order that ``ir/ops/matmul_nbits.py`` describes. Rows of ``w`` are cut
    into groups, which ``scales`` (groups, n) multiply, of any float dtype; ``zeros``, uint8 of the
    same shape, are subtracted from codes before, 2 ** (bits - 1) without them. The result is
    float32 (m, n). LoopwrightTypeError where shapes, dtypes or groups do not fit,
    LoopwrightValueError for other bits.

        fn (
          %x: Tensor[(1, 64), float32],
          %w: Tensor[(32, 9), uint8],
          %scales: Tensor[(2, 9), float16]
        ) -> Tensor[(1, 9), float32] {
          nn.matmul_nbits(%x, %w, %scales, bits=4)
        }
    """
    groups, parts = scales.shape[0], 8 // bits
    assert isinstance(groups, int) and isinstance(w.shape[0], int)
    rows = w.shape[0] // groups
    wide = INT32 if x.dtype == INT8 else FLOAT32

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
        return op("multiply", cast(product, FLOAT32), cast(scales(group, n), FLOAT32))

    return Reduce("sum", (groups, parts, rows), element)
