"""``lw.xp.linalg``: linear algebra with the parameters and results of the standard."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..ir.errors import LoopwrightValueError
from .arrays import matrix_transpose
from .eager import compiled

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors as columns."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """Orthonormal columns and an upper triangular matrix."""

    Q: Any
    R: Any


class SlogdetResult(NamedTuple):
    """Sign of a determinant and logarithm of its absolute value."""

    sign: Any
    logabsdet: Any


class SVDResult(NamedTuple):
    """Left singular vectors, singular values in descending order, adjoint right vectors."""

    U: Any
    S: Any
    Vh: Any


@compiled
def matmul(x1: Any, x2: Any, /) -> Any:
    """Returns the matrix product; leading axes broadcast."""
    return np.matmul(x1, x2)


@compiled
def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """Returns the sums of products over some axes of both."""
    return np.tensordot(x1, x2, axes)


@compiled
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Returns the sums of ``conj(x1) * x2`` along an axis, which is counted from the end."""
    product: Any = np.vecdot  # whose stub lacks axis=
    return product(x1, x2, axis=axis)


@compiled
def outer(x1: Any, x2: Any, /) -> Any:
    """Returns the products of each element of a vector with each of another."""
    if x1.ndim != 1 or x2.ndim != 1:
        raise LoopwrightValueError("outer: both operands are vectors")
    return np.outer(x1, x2)


@compiled
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Returns the cross products of vectors of three elements along an axis."""
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise LoopwrightValueError("cross: both operands have 3 elements along the axis")
    return np.cross(x1, x2, axis=axis)


@compiled
def cholesky(x: Any, /, *, upper: bool = False) -> Any:
    """Returns the lower triangular factor of positive definite matrices, or its adjoint."""
    lower = np.linalg.cholesky(x)
    return np.conj(np.matrix_transpose(lower)) if upper else lower


@compiled
def det(x: Any, /) -> Any:
    """Returns the determinants of square matrices."""
    return np.linalg.det(x)


@compiled
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """Returns a diagonal of each matrix."""
    return np.diagonal(x, offset, -2, -1)


@compiled
def eigh(x: Any, /) -> EighResult:
    """Returns eigenvalues and eigenvectors of symmetric or Hermitian matrices."""
    return EighResult(*np.linalg.eigh(x))


@compiled
def eigvalsh(x: Any, /) -> Any:
    """Returns the eigenvalues of symmetric or Hermitian matrices."""
    return np.linalg.eigvalsh(x)


@compiled
def inv(x: Any, /) -> Any:
    """Returns the inverses of square matrices; LinAlgError for a singular one."""
    return np.linalg.inv(x)


@compiled
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Returns the norm of each matrix: ``"fro"``, ``"nuc"``, 1, 2, inf or their negatives."""
    return np.linalg.norm(x, ord=ord, axis=(-2, -1), keepdims=keepdims)


@compiled
def matrix_power(x: Any, n: int, /) -> Any:
    """Returns square matrices multiplied with themselves ``n`` times; inverted if negative."""
    return np.linalg.matrix_power(x, n)


@compiled
def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
    """Returns the number of singular values above ``rtol`` times the largest."""
    if rtol is None:
        return np.linalg.matrix_rank(x)
    return np.linalg.matrix_rank(x, rtol=rtol)


@compiled
def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """Returns pseudo-inverses; singular values below ``rtol`` times the largest count as 0."""
    if rtol is None:
        rtol = max(x.shape[-2:]) * float(np.finfo(x.dtype).eps)
    return np.linalg.pinv(x, rcond=rtol)


@compiled
def qr(x: Any, /, *, mode: Any = "reduced") -> QRResult:
    """Returns the QR decomposition, ``"reduced"`` or ``"complete"``."""
    return QRResult(*np.linalg.qr(x, mode=mode))


@compiled
def slogdet(x: Any, /) -> SlogdetResult:
    """Returns signs and logarithms of determinants."""
    return SlogdetResult(*np.linalg.slogdet(x))


@compiled
def solve(x1: Any, x2: Any, /) -> Any:
    """Returns the solutions of ``x1 @ x == x2``; a vector ``x2`` is one right-hand side."""
    return np.linalg.solve(x1, x2)


@compiled
def svd(x: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """Returns the singular value decomposition."""
    return SVDResult(*np.linalg.svd(x, full_matrices=full_matrices))


@compiled
def svdvals(x: Any, /) -> Any:
    """Returns the singular values in descending order."""
    return np.linalg.svd(x, compute_uv=False)


@compiled
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Returns the sum of a diagonal of each matrix."""
    return np.sum(np.diagonal(x, offset, -2, -1), axis=-1, dtype=dtype)


@compiled
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """Returns the norms of vectors along the axes; of all elements if there are none."""
    return np.linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)
