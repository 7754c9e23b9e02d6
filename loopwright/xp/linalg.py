"""``lw.xp.linalg``: linear algebra with the parameters and results of the standard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.errors import LoopwrightValueError
from . import arrays
from .eager import compiled, define, defined

if TYPE_CHECKING:
    from .eager import __getattr__ as __getattr__


define(
    globals(),
    """
    matmul(x1, x2, /)
        Returns the matrix product; leading axes broadcast.
    tensordot(x1, x2, /, *, axes=2)
        Returns the sums of products over some axes of both.
    vecdot(x1, x2, /, *, axis=-1)
        Returns the sums of ``conj(x1) * x2`` along an axis, which is counted from the end.
    cholesky(x, /, *, upper=False)
        Returns the lower triangular factor of positive definite matrices, or its adjoint.
    det(x, /)
        Returns the determinants of square matrices.
    diagonal(x, /, *, offset=0)
        Returns a diagonal of each matrix.
    eigh(x, /)
        Returns eigenvalues in ascending order, and eigenvectors as columns, of Hermitian matrices.
    eigvalsh(x, /)
        Returns the eigenvalues of symmetric or Hermitian matrices.
    inv(x, /)
        Returns the inverses of square matrices; LinAlgError for a singular one.
    matrix_norm(x, /, *, keepdims=False, ord="fro")
        Returns the norm of each matrix: ``"fro"``, ``"nuc"``, 1, 2, inf or their negatives.
    matrix_power(x, n, /)
        Returns square matrices multiplied with themselves ``n`` times; inverted if negative.
    matrix_rank(x, /, *, rtol=None)
        Returns the number of singular values above ``rtol`` times the largest.
    qr(x, /, *, mode="reduced")
        Returns orthonormal columns and an upper triangular matrix, ``"reduced"`` or ``"complete"``.
    slogdet(x, /)
        Returns signs of determinants, and logarithms of their absolute values.
    solve(x1, x2, /)
        Returns the solutions of ``x1 @ x == x2``; a vector ``x2`` is one right-hand side.
    svd(x, /, *, full_matrices=True)
        Returns left singular vectors, descending singular values, and adjoint right vectors.
    svdvals(x, /)
        Returns the singular values in descending order.
    trace(x, /, *, offset=0, dtype=None)
        Returns the sum of a diagonal of each matrix.
    vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
        Returns the norms of vectors along the axes; of all elements if there are none.
    """,
    np.linalg,
)
matrix_transpose = vars(arrays)["matrix_transpose"]  # a view, which is not compiled


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
def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """Returns pseudo-inverses; singular values below ``rtol`` times the largest count as 0."""
    if rtol is None:
        rtol = max(x.shape[-2:]) * float(np.finfo(x.dtype).eps)
    return np.linalg.pinv(x, rcond=rtol)


__all__ = ["matrix_transpose", *defined(globals())]  # pyright: ignore[reportUnsupportedDunderAll]
