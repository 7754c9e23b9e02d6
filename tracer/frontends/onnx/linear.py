"""Converters of products and determinants of matrices."""

from __future__ import annotations

import numpy as np

from ....ir.errors import LoopwrightValueError
from .table import Value, converter

LARGEST_DETERMINANT = 64
"""Rows of a matrix whose determinant is computed, step by step in one piece of code."""


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


@converter("Det", since=11)
def _det(x: Value) -> Value:
    """The product of the pivots of an elimination, the greatest of a column each."""
    size = x.shape[-1]
    if x.ndim < 2 or x.shape[-2] != size or size > LARGEST_DETERMINANT:
        raise LoopwrightValueError(f"a determinant of {x.shape}")
    product = np.ones(x.shape[:-2], x.dtype)
    rest = x
    for left in range(size, 0, -1):
        place = np.argmax(np.abs(rest[..., :, 0]), axis=-1)[..., None, None]
        rows = np.arange(left)[:, None]
        top = np.take_along_axis(rest, np.broadcast_to(place, (*rest.shape[:-2], 1, left)), -2)
        # The first row goes where the top one was.
        rest = np.where(rows == place, rest[..., :1, :], rest)[..., 1:, :]
        pivot = top[..., 0, 0]
        product = product * np.where(place[..., 0, 0] == 0, pivot, -pivot)
        if left > 1:
            factor = rest[..., :, :1] / np.where(pivot == 0, 1, pivot)[..., None, None]
            rest = rest[..., :, 1:] - factor * top[..., :, 1:]
    return product
