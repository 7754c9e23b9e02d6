"""LAPACK's routines, as NumPy's ``linalg`` has them: names that begin with ``numpy.linalg.``.

NumPy computes in double precision whatever the operands are; so do these, which take float64 and
complex128 only.
"""

from __future__ import annotations

from numpy.linalg import _umath_linalg  # pyright: ignore

from .gufunc import failing, gufunc_row

__all__: list[str] = []

_SINGULAR = "Singular matrix"

_solve = failing(_umath_linalg.solve, _SINGULAR)

gufunc_row(
    "numpy.linalg.solve",
    "(m,m),(m,n)->(m,n)",
    "t",
    _solve,
    "Solutions x of a @ x = b by LU decomposition with partial pivoting (LAPACK's gesv).",
)
