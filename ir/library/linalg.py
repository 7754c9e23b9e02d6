"""NumPy's own functions: LAPACK's routines, as its ``linalg`` has them, its Fourier transforms by
pocketfft, and the refusal of ``np.bincount``.

NumPy's ``linalg`` computes in double precision whatever the operands are; so do these, which take
float64 and complex128 only. Matrices are the last two axes of their operands, stacks of them the
others. One call transforms several axes: ``axes`` and ``sizes`` say which, in the order in which
they are transformed, and how many elements of each are used (more are zeros); ``norm`` is NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.fft import _pocketfft_umath as pocketfft  # pyright: ignore
from numpy.linalg import _umath_linalg as lapack

from ..dims import IntExpr
from ..dtype import DTYPES, Array
from ..errors import LoopwrightTypeError
from .gufunc import failing, gufunc_function, quiet
from .registry import ArrayType, LibraryFunction, Typed, Values, register


def _transform_type(
    kind: str, operands: Sequence[Typed], options: Mapping[str, Any]
) -> Sequence[ArrayType]:
    (operand,) = operands
    part = operand.dtype.part
    if not part.is_float or (kind == "rfft" and operand.dtype.is_complex):
        raise LoopwrightTypeError(f"there is no transform of {operand.dtype}")
    shape: list[IntExpr] = [*operand.shape]
    for axis, size in zip(options["axes"], options["sizes"], strict=True):
        shape[axis] = size
    if kind == "rfft":  # of the axis that is transformed first
        shape[options["axes"][0]] = options["sizes"][0] // 2 + 1
    return [ArrayType(tuple(shape), part if kind == "irfft" else part.complex)]


def _scale(norm: str, forward: bool, size: int, part: Any) -> Any:
    """Returns the factor of a transform of ``size`` elements."""
    if norm == "ortho":
        return np.reciprocal(np.sqrt(size, dtype=part))
    divided = norm == ("forward" if forward else "backward")
    return np.reciprocal(size, dtype=part) if divided else part(1)


def _transform(kind: str, options: Mapping[str, Any], _count: int) -> Values:
    axes, sizes, norm = options["axes"], options["sizes"], options["norm"]
    forward = kind in ("fft", "rfft")
    routines = [pocketfft.fft if forward else pocketfft.ifft] * len(axes)
    if kind == "rfft":
        routines[0] = pocketfft.rfft_n_odd if sizes[0] % 2 else pocketfft.rfft_n_even
    if kind == "irfft":
        routines[-1] = pocketfft.irfft
    steps = [(r, [(a,), (), (a,)], n) for r, a, n in zip(routines, axes, sizes, strict=True)]

    def between(a: Any, step: int, out: Any) -> Any:
        """Returns the array for a result that is transformed further."""
        axis, size = axes[step], sizes[step]
        shape = (*a.shape[:axis], size, *a.shape[axis + 1 :])
        if kind == "rfft" and step == 0:
            shape = (*a.shape[:axis], size // 2 + 1, *a.shape[axis + 1 :])
        if shape == out.shape and kind != "irfft":
            return out
        return np.empty(shape, DTYPES["complex64" if a.real.itemsize == 4 else "complex128"].numpy)

    def transform(a: Any, out: Any) -> None:
        part = a.real.dtype.type
        for step, (routine, where, size) in enumerate(steps):
            target = out if step == len(steps) - 1 else between(a, step, out)
            routine(a, _scale(norm, forward, size, part), axes=where, out=target)
            a = target

    def single(a: Any, out: Any) -> None:
        routine(a, scale(a.real.dtype.type), axes=where, out=out)

    if len(steps) > 1:
        return quiet(transform)
    routine, where, size = steps[0]
    scales = {t: _scale(norm, forward, size, t) for t in (np.float32, np.float64)}
    scale: Callable[[Any], Any] = scales.__getitem__
    return quiet(single)


def _declared(kind: str, doc: str) -> None:
    register(
        LibraryFunction(
            f"numpy.fft.{kind}", doc, partial(_transform_type, kind), partial(_transform, kind)
        )
    )


_declared("fft", "Fourier transform of complex or real numbers.")
_declared("ifft", "Inverse of ``fft``.")
_declared("rfft", "Fourier transform of real numbers, without what is given by symmetry.")
_declared("irfft", "Inverse of ``rfft``: real numbers.")


def _counts_type(_operands: Sequence[Typed], options: Mapping[str, Any]) -> Sequence[ArrayType]:
    return [ArrayType((options["minlength"],), DTYPES[options["dtype"]])]


def _refused_counts(options: Mapping[str, Any], _count: int) -> Values:
    def refuse(x: Array, _counts: Array) -> None:
        if x.min() < 0:
            raise ValueError("'list' argument must have no negative elements")
        raise ValueError(
            f"np.bincount: the value {x.max()} has no count for minlength={options['minlength']}, "
            "and compiled code needs to know the size of the result"
        )

    return refuse


register(
    LibraryFunction(
        "numpy.bincount", "Raises ValueError: a value has no count.", _counts_type, _refused_counts
    )
)


_SQUARE = "(m,m)->(m,m)"
_EIGEN = "Eigenvalues did not converge"
_SVD = "SVD did not converge"
_NOT_POSITIVE = "Matrix is not positive definite"


def _routine(name: str, older: str) -> Any:
    """Returns a routine of NumPy's by its name, or by that of NumPy 2.0."""
    return getattr(lapack, name, None) or getattr(lapack, older)


def _lower_or_upper(lower: Values, upper: Values) -> Callable[[Mapping[str, Any]], Values]:
    """Returns what chooses a routine by the option ``upper``."""
    return lambda options: upper if options.get("upper") else lower


def _qr(options: Mapping[str, Any]) -> Values:
    """QR as in NumPy: ``qr_r_raw`` writes its operand, and q is made of what it leaves there."""
    mode = options["mode"]
    gufunc = lapack.qr_complete if mode == "complete" else lapack.qr_reduced

    def factor(a: Any, *results: Any) -> None:
        work = a.copy()
        scales = lapack.qr_r_raw(work)
        if mode == "raw":
            results[0][...] = np.swapaxes(work, -1, -2)
            results[1][...] = scales
            return
        if mode != "r":
            # What is complete has more columns of q, unless there are no more rows.
            (lapack.qr_reduced if a.shape[-2] <= a.shape[-1] else gufunc)(work, scales, results[0])
        r = results[-1]
        r[...] = np.triu(work[..., : r.shape[-2], :])

    return failing(factor, "Incorrect argument found while performing QR factorization")


def _lstsq(a: Any, b: Any, rcond: Any, x: Any, *rest: Any) -> None:
    lapack.lstsq(a, b, rcond, x, *rest)
    if a.shape[-2] == 0:
        x[...] = 0


def _full_rank_residuals(options: Mapping[str, Any]) -> Values:
    def copied(residuals: Any, rank: Any, out: Any) -> None:
        if rank < options["n"]:
            raise np.linalg.LinAlgError(
                f"np.linalg.lstsq: the rank is {rank}, less than {options['n']}: NumPy then has no "
                "residuals; compute them, a @ x - b"
            )
        out[...] = residuals

    return copied


# A row each: name, signature, dtypes of results, callable (or what chooses it by the options).
_ROWS: tuple[tuple[str, str, str, Any, str], ...] = (
    (
        "solve",
        "(m,m),(m,n)->(m,n)",
        "t",
        failing(lapack.solve, "Singular matrix"),
        "Solutions x of a @ x = b, by LU decomposition with partial pivoting (gesv).",
    ),
    ("inv", _SQUARE, "t", failing(lapack.inv, "Singular matrix"), "Inverses (gesv)."),
    ("try_inv", _SQUARE, "t", quiet(lapack.inv), "Inverses; of a singular matrix nan."),
    ("det", "(m,m)->()", "t", quiet(lapack.det), "Determinants, by LU decomposition (getrf)."),
    (
        "slogdet",
        "(m,m)->(),()",
        "tr",
        quiet(lapack.slogdet),
        "Signs of determinants, and logarithms of their absolute values (getrf).",
    ),
    (
        "cholesky",
        _SQUARE,
        "t",
        _lower_or_upper(
            failing(lapack.cholesky_lo, _NOT_POSITIVE),
            failing(_routine("cholesky_up", "cholesky_lo"), _NOT_POSITIVE),
        ),
        "Triangular factors of positive definite matrices (potrf).",
    ),
    (
        "eigh",
        "(m,m)->(m),(m,m)",
        "rt",
        _lower_or_upper(failing(lapack.eigh_lo, _EIGEN), failing(lapack.eigh_up, _EIGEN)),
        "Eigenvalues of symmetric matrices in ascending order, and their vectors (syevd).",
    ),
    (
        "eigvalsh",
        "(m,m)->(m)",
        "r",
        _lower_or_upper(failing(lapack.eigvalsh_lo, _EIGEN), failing(lapack.eigvalsh_up, _EIGEN)),
        "Eigenvalues of symmetric matrices in ascending order (syevd).",
    ),
    (
        "eig",
        "(m,m)->(m),(m,m)",
        "cc",
        failing(lapack.eig, _EIGEN),
        "Eigenvalues and right eigenvectors (geev), complex ones.",
    ),
    (
        "eigvals",
        "(m,m)->(m)",
        "c",
        failing(lapack.eigvals, _EIGEN),
        "Eigenvalues (geev), complex ones.",
    ),
    (
        "svd",
        "(m,n)->(m,m),(p),(n,n)",
        "trt",
        failing(_routine("svd_f", "svd_m_f"), _SVD),
        "Singular value decompositions with square factors (gesdd).",
    ),
    (
        "svd_reduced",
        "(m,n)->(m,p),(p),(p,n)",
        "trt",
        failing(_routine("svd_s", "svd_m_s"), _SVD),
        "Singular value decompositions with factors of the least size (gesdd).",
    ),
    (
        "svdvals",
        "(m,n)->(p)",
        "r",
        failing(_routine("svd", "svd_m"), _SVD),
        "Singular values in descending order (gesdd).",
    ),
    (
        "lstsq",
        "(m,n),(m,k),()->(n,k),(k),(),(p)",
        "trir",
        failing(_lstsq, "SVD did not converge in Linear Least Squares"),
        "Least-squares solutions of least norm, residuals, rank, singular values (gelsd).",
    ),
    (
        "full_rank_residuals",
        "(k),()->(k)",
        "t",
        _full_rank_residuals,
        "The residuals of ``lstsq``, if the rank is ``n``.",
    ),
    ("qr", "(m,n)->(m,q),(q,n)", "tt", _qr, "QR decompositions by reflections (geqrf)."),
    ("qr_r", "(m,n)->(p,n)", "t", _qr, "Triangular factors of QR decompositions (geqrf)."),
    ("qr_raw", "(m,n)->(n,m),(p)", "tt", _qr, "Reflections of QR decompositions (geqrf)."),
)

for _name, _signature, _results, _call, _doc in _ROWS:
    gufunc_function(f"numpy.linalg.{_name}", _signature, _results, _call, _doc)
