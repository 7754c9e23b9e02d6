"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters
from typing import Any

import numpy as np

from .... import nn
from ..table import Value, aten
from ..tensors import numpy_dtype

aten("mm.default", "bmm.default", "mv.default", "dot.default")(lambda *xs: np.matmul(*xs))


@aten("addbmm.default")
def _summed(self: Value, batch1: Value, batch2: Value, beta: float = 1, alpha: float = 1) -> Value:
    """The sum of the products is one product, of adjacent matrices."""
    left = np.reshape(np.moveaxis(batch1, 0, 1), (batch1.shape[1], -1))
    return _combined(self, left, np.reshape(batch2, (-1, batch2.shape[2])), beta=beta, alpha=alpha)


@aten("_trilinear.default", ignores=("unroll_dim",))
def _trilinear(
    i1: Value,
    i2: Value,
    i3: Value,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
) -> Value:
    """The product of three tensors that lack some axes, summed over others."""
    letters = ascii_letters[: i1.ndim + len(expand1)]
    left, mid, right, result = (
        "".join(letter for axis, letter in enumerate(letters) if axis not in missing)
        for missing in (expand1, expand2, expand3, sumdim)
    )
    return np.einsum(f"{left},{mid},{right}->{result}", i1, i2, i3)


@aten("addmm.default", "baddbmm.default", "addmv.default")
def _combined(self: Value, *factors: Value, beta: float = 1, alpha: float = 1) -> Value:
    """``beta * self + alpha * product``; ``self`` is not looked at where beta is 0. Factors of
    integers are cut to integers, as PyTorch does."""
    if self.dtype.kind in "iu":
        beta, alpha = int(beta), int(alpha)
    product = np.matmul(*factors)
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        return scaled
    return scaled + (self if beta == 1 else self * beta)


aten("transformers.grouped_mm_fallback.default")(lambda *xs: nn.grouped_matmul(*xs))


@aten("_grouped_mm.default")
def _grouped(
    self: Value, mat2: Value, offs: Value = None, bias: Value = None, out_dtype: Any = None
) -> Value:
    """Products of groups: of rows or columns of the operand that is one matrix, of both along the
    axis that is summed, of one matrix each where both are stacks."""
    if offs is None:
        result = np.matmul(self, mat2)
    elif self.ndim == 3:
        columns = nn.grouped_matmul(np.transpose(mat2), np.matrix_transpose(self), offs)
        result = np.transpose(columns)
    else:
        result = nn.grouped_matmul(self, mat2, offs)
    result = result if bias is None else result + bias
    return result if out_dtype is None else result.astype(numpy_dtype(out_dtype))


@aten("transformers.grouped_mm_fallback_backward.default")
def _grouped_backward(
    input: Value, weight: Value, offs: Value, grad_output: Value
) -> tuple[Value, Value]:
    rows = nn.grouped_matmul(grad_output, np.matrix_transpose(weight), offs)
    return rows, nn.grouped_matmul(np.transpose(input), grad_output, offs)
