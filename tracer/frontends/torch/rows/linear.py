"""Matrix products."""

from __future__ import annotations

import numpy as np

from ..table import Value, aten

__all__: list[str] = []


@aten("mm.default", "bmm.default", "mv.default", "dot.default")
def _matmul(self: Value, mat2: Value) -> Value:
    return np.matmul(self, mat2)


def _combined(self: Value, product: Value, beta: float, alpha: float) -> Value:
    """``beta * self + alpha * product``; ``self`` is not looked at where beta is 0."""
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        return scaled
    return scaled + (self if beta == 1 else self * beta)


@aten("addmm.default", "baddbmm.default", "addmv.default")
def _addmm(self: Value, mat1: Value, mat2: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    return _combined(self, np.matmul(mat1, mat2), beta, alpha)


@aten("linear.default")
def _linear(input: Value, weight: Value, bias: Value | None = None) -> Value:
    product = np.matmul(input, np.transpose(weight))
    return product if bias is None else product + bias
