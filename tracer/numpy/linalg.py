"""``np.linalg`` on traced arrays: LAPACK's routines as library calls, and what is made of them.

NumPy computes in double precision and rounds to the operands' dtype, and so does this.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.dims import as_int, product
from ...ir.dtype import DTYPES, DType
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from ...ir.ops.small_systems import MOST_EQUATIONS, STRAIGHT
from ..core.dispatch import UNSET, implement, implements
from ..core.emitting import call_library, common_strong, emit, lift
from ..core.except_clauses import refuse_handlers
from .products import largest, norm
from .reductions import normalise_axis

_EIGH: Any = type(np.linalg.eigh(np.eye(1)))
_QR: Any = type(np.linalg.qr(np.eye(1)))
_SVD: Any = type(np.linalg.svd(np.eye(1)))
_SLOGDET: Any = type(np.linalg.slogdet(np.eye(1)))
_EIG: Any = type(np.linalg.eig(np.eye(1)))


def _call(function: str, *operands: Any, **options: Any) -> list[Any]:
    """Emits the call of a library function of ``np.linalg``; returns its results."""
    if not function.startswith("try_"):
        refuse_handlers(np.linalg.LinAlgError, f"np.linalg.{function}")
    return call_library(f"numpy.linalg.{function}", *operands, **options)


def _wide(*values: Any) -> tuple[DType, list[Any]]:
    """Returns the dtype of results, and the operands in the one LAPACK computes in."""
    parts = common_strong(*values)
    dtype = parts[0].type.dtype
    if dtype.name == "float16":
        hint = "x.astype(np.float32)"
        raise LoopwrightTypeError("array type float16 is unsupported in linalg", hint=hint)
    if not dtype.part.is_float:
        dtype = DTYPES["float64"]
    wide = DTYPES["complex128" if dtype.is_complex else "float64"]
    return dtype, [lift(p, wide) for p in parts]


def _matrix(name: str, a: Any, square: bool = True) -> tuple[DType, Any]:
    """Returns the dtype of results, and an operand that is a matrix or a stack of them."""
    dtype, (x,) = _wide(a)
    _check(name, x, square)
    return dtype, x


def _arrays(*values: Any) -> list[Any]:
    return [lift(v) for v in values]


def _check(name: str, x: Any, square: bool = True) -> None:
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        what = "square matrices" if square else "matrices"
        raise LoopwrightTypeError(f"np.linalg.{name} takes {what}, not {x.type.short}")


@implements(np.linalg.solve)
def _solve(a: Any, b: Any) -> Any:
    dtype, (matrix, right) = _wide(a, b)
    _check("solve", matrix)
    if right.ndim == 1:
        return lift(_solved(matrix, right[:, None])[..., 0], dtype)
    return lift(_solved(matrix, right), dtype)


def _solved(a: Any, b: Any) -> Any:
    """Returns the solutions of a x = b, by straight code where that is short."""
    columns = b.shape[-1] if b.ndim > 1 else 0
    few = isinstance(columns, int) and 0 < columns <= MOST_EQUATIONS
    if not _is_small(a) or b.shape[-2:-1] != a.shape[-1:] or not few:
        return _call("solve", a, b)[0]
    size, columns = as_int(a.shape[-1]), as_int(columns)
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    left = _flat_stack(np.broadcast_to(a, (*stack, size, size)))
    right = _flat_stack(np.broadcast_to(b, (*stack, size, columns)))
    numbers: Any = emit("solve_small", left, right)
    solutions = np.reshape(numbers[:-2].T, (*stack, size, columns))
    return _unless(numbers[-1] > 0, solutions, lambda: _call("solve", a, b)[0])


def _is_small(x: Any, most: int = MOST_EQUATIONS) -> bool:
    """True for a stack of real matrices of at most so many rows that LAPACK is not needed for."""
    sizes = [s for s in x.shape if isinstance(s, int) and s > 0]
    most = most if product(sizes[:-2]) >= MOST_EQUATIONS else STRAIGHT
    return len(sizes) == x.ndim and sizes[-1] <= most and not x.type.dtype.is_complex


def _flat_stack(x: Any) -> Any:
    """Returns a matrix or a stack of them with one axis before the last two."""
    shape: Any = (product(x.shape[:-2]), *x.shape[-2:])
    return np.reshape(x, shape)


def _unless(regular: Any, result: Any, call: Callable[[], Any]) -> Any:
    """Returns ``result`` if it is ``regular`` everywhere; else what LAPACK makes of it, which is an
    exception as a rule."""
    from ..control import cond  # most programs have no branches

    return cond(np.all(regular), lambda: result, call)


@implements(np.linalg.inv)
def _inv(a: Any) -> Any:
    dtype, x = _matrix("inv", a)
    if not _is_small(x):
        return lift(_call("inv", x)[0], dtype)
    return lift(_solved(x, lift(np.eye(as_int(x.shape[-1])))), dtype)


@implements(np.linalg.det)
def _det(a: Any) -> Any:
    dtype, x = _matrix("det", a)
    if not _is_small(x):
        return lift(_call("det", x)[0], dtype)
    stack = _flat_stack(x)
    numbers: Any = emit("solve_small", stack, np.zeros((*stack.shape[:2], 0)))
    return lift(np.reshape(numbers[0], x.shape[:-2]), dtype)


@implements(np.linalg.slogdet)
def _slogdet(a: Any) -> Any:
    dtype, x = _matrix("slogdet", a)
    sign, logarithm = _call("slogdet", x)
    return _SLOGDET(lift(sign, dtype), lift(logarithm, dtype.part))


@implements(np.linalg.cholesky)
def _cholesky(a: Any, /, *, upper: bool = False) -> Any:
    dtype, x = _matrix("cholesky", a)

    def call() -> Any:
        return _call("cholesky", x, upper=bool(upper))[0]

    if not _is_small(x, 2 * STRAIGHT):
        return lift(call(), dtype)
    stack = _flat_stack(x)
    numbers: Any = emit("cholesky_small", np.swapaxes(stack, 1, 2) if upper else stack)
    factors = np.reshape(numbers[:-1].T, stack.shape)
    if upper:
        factors = np.swapaxes(factors, 1, 2)
    return lift(_unless(numbers[-1] > 0, np.reshape(factors, x.shape), call), dtype)


def _is_upper(UPLO: str) -> bool:
    if UPLO.upper() not in ("L", "U"):
        raise LoopwrightValueError(f"UPLO is 'L' or 'U', not {UPLO!r}")
    return UPLO.upper() == "U"


@implements(np.linalg.eigh)
def _eigh(a: Any, UPLO: str = "L") -> Any:
    dtype, x = _matrix("eigh", a)
    values, vectors = _call("eigh", x, upper=_is_upper(UPLO))
    return _EIGH(lift(values, dtype.part), lift(vectors, dtype))


@implements(np.linalg.eigvalsh)
def _eigvalsh(a: Any, UPLO: str = "L") -> Any:
    dtype, x = _matrix("eigvalsh", a)
    return lift(_call("eigvalsh", x, upper=_is_upper(UPLO))[0], dtype.part)


@implements(np.linalg.eig)
def _eig(a: Any) -> Any:
    dtype, x = _general("eig", a)
    values, vectors = _call("eig", x)
    return _EIG(lift(values, dtype), lift(vectors, dtype))


@implements(np.linalg.eigvals)
def _eigvals(a: Any) -> Any:
    dtype, x = _general("eigvals", a)
    return lift(_call("eigvals", x)[0], dtype)


def _general(name: str, a: Any) -> tuple[DType, Any]:
    """Returns the operand of ``eig``, whose results are complex only where they have to be."""
    dtype, x = _matrix(name, a)
    if not dtype.is_complex:
        raise UnsupportedError(
            f"np.linalg.{name} of a real matrix has real or complex results, by its values",
            hint=f"np.linalg.{name}(a.astype(complex)), or np.linalg.eigh of a symmetric matrix",
        )
    return dtype, x


# -- decompositions of any matrix ------------------------------------------------------------------


@implements(np.linalg.qr)
def _qr(a: Any, mode: str = "reduced") -> Any:
    dtype, x = _matrix("qr", a, square=False)
    if mode == "r":
        return lift(_call("qr_r", x, mode="r")[0], dtype)
    if mode == "raw":
        reflections, scales = _call("qr_raw", x, mode="raw")
        return lift(reflections, dtype), lift(scales, dtype)
    if mode not in ("reduced", "complete"):
        raise LoopwrightValueError(
            f"np.linalg.qr: mode {mode!r}", hint="'reduced', 'complete', 'r' or 'raw'"
        )
    rows, columns = as_int(x.shape[-2]), as_int(x.shape[-1])
    size = rows if mode == "complete" and rows > columns else min(rows, columns)
    q, r = _call("qr", x, mode=mode, q=size)
    return _QR(lift(q, dtype), lift(r, dtype))


@implements(np.linalg.svd)
def _svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    dtype, x = _matrix("svd", a, square=hermitian)
    if hermitian:
        return _symmetric_svd(x, dtype, compute_uv)
    if not compute_uv:
        return lift(_call("svdvals", x)[0], dtype.part)
    u, values, v = _call("svd" if full_matrices else "svd_reduced", x)
    return _SVD(lift(u, dtype), lift(values, dtype.part), lift(v, dtype))


def _symmetric_svd(x: Any, dtype: DType, compute_uv: bool) -> Any:
    """The singular values of a symmetric matrix are the sizes of its eigenvalues, in order."""
    if not compute_uv:
        sizes = np.sort(abs(_call("eigvalsh", x, upper=False)[0]))[..., ::-1]
        return lift(sizes, dtype.part)
    values, vectors = _call("eigh", x, upper=False)
    order = np.argsort(abs(values))[..., ::-1]
    values = np.take_along_axis(values, order, axis=-1)
    u = np.take_along_axis(vectors, order[..., None, :], axis=-1)
    signed = u * np.copysign(1.0, values)[..., None, :]
    v = np.conj(np.swapaxes(signed, -1, -2))
    return _SVD(lift(u, dtype), lift(abs(values), dtype.part), lift(v, dtype))


def _cutoff(x: Any, dtype: DType, largest: Any, tolerance: Any) -> Any:
    """Returns the size up to which singular values count as 0, with an axis for them."""
    if tolerance is None:
        tolerance = max(as_int(s) for s in x.shape[-2:]) * np.finfo(dtype.part.numpy).eps
    limit: Any = lift(tolerance, DTYPES["float64"])
    return largest * (limit[..., None] if limit.ndim else limit)


@implements(np.linalg.pinv)
def _pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = UNSET) -> Any:
    dtype, x = _matrix("pinv", a, square=hermitian)
    if rcond is not None and rtol is not UNSET:
        raise LoopwrightValueError("np.linalg.pinv: rtol= and rcond= are the same; give one")
    if rcond is None:
        rcond = 1e-15 if rtol is UNSET else rtol
    if 0 in x.shape:
        return np.swapaxes(lift(x, dtype), -1, -2)
    u, values, v = _svd(np.conj(x), full_matrices=False, hermitian=hermitian)
    large = values > _cutoff(x, dtype, np.max(values, axis=-1, keepdims=True), rcond)
    inverse = np.where(large, 1 / np.where(large, values, 1), 0)
    product = np.swapaxes(v, -1, -2) @ (inverse[..., None] * np.swapaxes(u, -1, -2))
    return lift(product, dtype)


@implements(np.linalg.matrix_rank)
def _matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    a: Any = lift(A)
    if rtol is not None and tol is not None:
        raise LoopwrightValueError("np.linalg.matrix_rank: give tol= or rtol=, not both")
    if a.ndim < 2:
        return lift(np.any(a != 0), DTYPES["int64"])
    dtype, x = _matrix("matrix_rank", a, square=hermitian)
    values = lift(_svd(lift(x, dtype), compute_uv=False, hermitian=hermitian), DTYPES["float64"])
    if tol is None:
        largest = np.max(values, axis=-1, keepdims=True, initial=0)
        limit = _cutoff(x, dtype, largest, rtol)
    else:
        limit: Any = lift(tol, DTYPES["float64"])
        limit = limit[..., None] if limit.ndim else limit
    return np.sum(values > limit, axis=-1)


@implements(np.linalg.cond)
def _cond(x: Any, p: Any = None) -> Any:
    square = p is not None and p not in (2, -2)
    dtype, a = _matrix("cond", x, square)
    if 0 in a.shape[-2:]:
        raise LoopwrightTypeError(f"np.linalg.cond of {a.type.short}, which has no elements")
    if square:
        (inverse,) = _call("try_inv", a)
        axes = (-2, -1)
        result = np.linalg.norm(a, p, axis=axes) * np.linalg.norm(inverse, p, axis=axes)
    else:
        (values,) = _call("svdvals", a)
        first, last = values[..., 0], values[..., -1]
        result = last / first if p == -2 else first / last
    strange = np.isnan(result) & ~np.any(np.isnan(a), axis=(-2, -1))
    return lift(emit("where", strange, np.inf, result), dtype.part)


@implements(np.linalg.lstsq)
def _lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Any, ...]:
    dtype, (x, right) = _wide(a, b)
    wide = right[:, None] if right.ndim == 1 else right
    if x.ndim != 2 or wide.ndim != 2 or x.shape[0] != wide.shape[0]:
        raise LoopwrightTypeError(
            f"np.linalg.lstsq takes a matrix and right sides with as many rows, not "
            f"{x.type.short} and {right.type.short}"
        )
    rows, columns = as_int(x.shape[0]), as_int(x.shape[1])
    if rcond is None:
        rcond = np.finfo(x.dtype).eps * max(rows, columns)
    empty = wide.shape[1] == 0
    given = np.zeros((rows, 1)) if empty else wide
    limit = lift(rcond, DTYPES["float64"])
    solution, residuals, rank, values = _call("lstsq", x, lift(given, x.type.dtype), limit)
    solution = solution[:, :0] if empty else solution
    if right.ndim == 1:
        solution = solution[:, 0]
    if rows > columns:
        # NumPy has none if the rank is less. Where nobody needs them this is not called.
        (residuals,) = _call("full_rank_residuals", residuals, rank, n=columns)
        residuals = residuals[:0] if empty else residuals
    else:
        residuals = lift(np.zeros(0))
    return lift(solution, dtype), lift(residuals, dtype.part), rank, lift(values, dtype.part)


# -- made of others --------------------------------------------------------------------------------


@implements(np.linalg.matrix_power)
def _matrix_power(a: Any, n: Any) -> Any:
    x: Any = lift(a)
    _check("matrix_power", x)
    try:
        count = operator.index(n)
    except TypeError:
        raise LoopwrightTypeError("np.linalg.matrix_power: the exponent is an int") from None
    if count == 0:
        return np.broadcast_to(lift(np.eye(as_int(x.shape[-1]), dtype=x.dtype)), x.shape)
    power = _inv(x) if count < 0 else x
    result: Any = None
    count = abs(count)
    while count:
        if count % 2:
            result = power if result is None else result @ power
        count //= 2
        if count:
            power = power @ power
    return result


@implements(np.linalg.multi_dot)
def _multi_dot(arrays: Any) -> Any:
    parts = common_strong(*arrays)
    if len(parts) < 2:
        raise LoopwrightValueError("np.linalg.multi_dot takes two arrays at least")
    first, last = parts[0].ndim == 1, parts[-1].ndim == 1
    if first:
        parts[0] = parts[0][None, :]
    if last:
        parts[-1] = parts[-1][:, None]
    if any(p.ndim != 2 for p in parts):
        raise LoopwrightTypeError("np.linalg.multi_dot takes matrices; vectors at the ends only")
    sizes = [as_int(p.shape[0]) for p in parts] + [as_int(parts[-1].shape[1])]
    cut = _cheapest_cuts(sizes)

    def chain(i: int, j: int) -> Any:
        return parts[i] if i == j else chain(i, cut[i, j]) @ chain(cut[i, j] + 1, j)

    result = chain(0, len(parts) - 1)
    if first:
        result = result[0]
    return result[..., 0] if last else result


def _cheapest_cuts(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Returns where the product of matrices i to j is cut to take the fewest multiplications
    (T. Cormen and others, Introduction to Algorithms, chapter 15.2)."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    cut: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            cost[i, j], cut[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return cut


@implements(np.linalg.tensorinv)
def _tensorinv(a: Any, ind: int = 2) -> Any:
    x: Any = lift(a)
    if ind <= 0:
        raise LoopwrightValueError("np.linalg.tensorinv: ind is the number of the first axes, > 0")
    shape = x.shape[ind:] + x.shape[:ind]
    square: Any = (product(x.shape[ind:]), product(x.shape[:ind]))
    return np.reshape(_inv(np.reshape(x, square)), shape)


@implements(np.linalg.tensorsolve)
def _tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    x, right = _arrays(a, b)
    if axes is not None:
        last = [normalise_axis(k, x.ndim) for k in axes]
        x = np.transpose(x, [k for k in range(x.ndim) if k not in last] + last)
    shape = x.shape[-(x.ndim - right.ndim) :]
    square: Any = (product(x.shape[: x.ndim - len(shape)]), product(shape))
    return np.reshape(_solve(np.reshape(x, square), np.ravel(right)), shape)


@implements(np.linalg.norm)
def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    a: Any = lift(x)
    axes = tuple(range(a.ndim)) if axis is None else axis
    if ord not in (2, -2, "nuc") or not isinstance(axes, tuple) or len(axes) != 2:
        return norm(x, ord, axis, keepdims)
    dtype, wide = _matrix("norm", a, square=False)
    first, second = (normalise_axis(k, a.ndim) for k in axes)
    (values,) = _call("svdvals", np.moveaxis(wide, (first, second), (-2, -1)))
    reduce: Any = {2: largest, -2: np.min, "nuc": np.sum}[ord]
    result = lift(reduce(values, -1), dtype.part)
    if keepdims:
        shape = [1 if k in (first, second) else s for k, s in enumerate(a.shape)]
        result = np.reshape(result, tuple(shape))
    return result


implement(
    {
        np.linalg.cross: lambda x1, x2, /, *, axis=-1: np.cross(x1, x2, axis=axis),
        np.linalg.matrix_norm: lambda x, /, *, keepdims=False, ord="fro": _norm(
            x, ord, (-2, -1), keepdims
        ),
        np.linalg.svdvals: lambda x, /: _svd(x, compute_uv=False),
    }
)
