"""Converters of products of matrices."""

from __future__ import annotations

import numpy as np

from .table import Value, converter


@converter("MatMul", since=1)
def _matmul(a: Value, b: Value) -> Value:
    return np.matmul(a, b)


@converter("Gemm", since=7)
def _gemm(
    a: Value,
    b: Value,
    c: Value = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    product = np.matmul(a.T if transA else a, b.T if transB else b)
    product = product if alpha == 1 else product * _as(alpha, a)
    if c is None or beta == 0:
        return product
    return product + (c if beta == 1 else c * _as(beta, a))


def _as(number: float, like: Value) -> Value:
    return like.dtype.type(number)
