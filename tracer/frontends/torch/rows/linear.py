"""Matrix products."""

from __future__ import annotations

import numpy as np

from ..table import Value, aten


@aten("mm.default", "bmm.default")
def _matmul(self: Value, mat2: Value) -> Value:
    return np.matmul(self, mat2)


@aten("mv.default")
def _mv(self: Value, vec: Value) -> Value:
    return np.matmul(self, vec)


@aten("dot.default")
def _dot(self: Value, tensor: Value) -> Value:
    return np.matmul(self, tensor)


def _combined(self: Value, product: Value, beta: float, alpha: float) -> Value:
    """``beta * self + alpha * product``; ``self`` is not looked at where beta is 0."""
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        return scaled
    return scaled + (self if beta == 1 else self * beta)


@aten("addmm.default")
def _addmm(self: Value, mat1: Value, mat2: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    return _combined(self, np.matmul(mat1, mat2), beta, alpha)


@aten("baddbmm.default")
def _baddbmm(
    self: Value, batch1: Value, batch2: Value, *, beta: float = 1, alpha: float = 1
) -> Value:
    return _combined(self, np.matmul(batch1, batch2), beta, alpha)


@aten("addmv.default")
def _addmv(self: Value, mat: Value, vec: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    return _combined(self, np.matmul(mat, vec), beta, alpha)


@aten("linear.default")
def _linear(input: Value, weight: Value, bias: Value | None = None) -> Value:
    product = np.matmul(input, np.transpose(weight))
    return product if bias is None else product + bias
