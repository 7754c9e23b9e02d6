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
    product = product if alpha == 1 else _scaled(product, alpha)
    if c is None or beta == 0:
        return product
    return product + (c if beta == 1 else _scaled(c, beta))


def _scaled(x: Value, factor: float) -> Value:
    return x * x.dtype.type(factor)


@converter("Einsum", since=12)
def _einsum(*xs: Value, equation: str) -> Value:
    return np.einsum(equation.replace(" ", ""), *xs)
