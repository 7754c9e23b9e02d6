"""NumPy's linear algebra on traced arrays: products, einsum, norms."""

from __future__ import annotations

import functools
import math
from collections import Counter
from typing import Any

import numpy as np

from ...ir.dims import Dim, product
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from ..core import emitting
from ..core.dispatch import METHODS, UFUNCS, implement, implements, method, views
from ..core.emitting import check_cast, common_strong, dtype_argument, emit, lift, read_only_view
from ..core.proxy import Proxy
from .creation import eye
from .reductions import axes_of, float_operand, normalise_axis
from .shaping import moveaxis, reshape, transpose


@implements(np.matmul)
def _matmul(
    x1: Any, x2: Any, /, *, dtype: Any = None, _subok: bool = True, **options: Any
) -> Proxy:
    """``x1 @ x2`` with NumPy's broadcasting of the leading axes."""
    if options:
        text = f"matmul: {next(iter(options))}= is not supported"
        raise UnsupportedError(text, hint="operands with these axes, of this dtype, beforehand")
    if dtype is not None:
        check_cast(dtype_argument(dtype), "same_kind", x1, x2)
        operands = [lift(x, dtype_argument(dtype)) for x in (x1, x2)]
    else:
        operands, _ = emitting.promoted(np.matmul, x1, x2)
    return emit("nn.matmul", *operands)


implements(np.linalg.matmul)(_matmul)


@implements(np.dot)
@method("dot")
def _dot(a: Any, b: Any, _out: Any = None) -> Proxy:
    x, y = common_strong(a, b)
    if x.ndim == 0 or y.ndim == 0:
        return emit("multiply", x, y)
    if y.ndim <= 2:
        return emit("nn.matmul", x, y)
    return _tensordot(x, y, ([-1], [-2]))


def _stacked(name: str, least: tuple[int, int], *operands: Any) -> tuple[Proxy, ...]:
    """Returns the operands in one dtype. LoopwrightValueError if one has fewer axes than that."""
    x, y = common_strong(*operands)
    for number, (operand, ndim) in enumerate(zip((x, y), least)):
        if operand.ndim < ndim:
            message = f"{name}: operand {number} has {operand.ndim} axes, and needs {ndim}"
            raise LoopwrightValueError(message)
    return x, y


def _vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Proxy:
    x, y = _stacked("vecdot", (1, 1), x1, x2)
    total = np.sum(METHODS["conj"](x) * y, axis)  # of small integers in 64 bits,
    return lift(total, x.type.dtype)  # where it is right modulo any smaller power of two


def _matvec(x1: Any, x2: Any, /) -> Proxy:
    x, y = _stacked("matvec", (2, 1), x1, x2)
    wide = emit("nn.matmul", x, reshape(y, (*y.shape, 1)))
    return emit("squeeze", wide, axis=(wide.ndim - 1,))


def _vecmat(x1: Any, x2: Any, /) -> Proxy:
    x, y = _stacked("vecmat", (1, 2), x1, x2)
    x = METHODS["conj"](x) if x.type.dtype.is_complex else x
    wide = emit("nn.matmul", reshape(x, (*x.shape[:-1], 1, x.shape[-1])), y)
    return emit("squeeze", wide, axis=(wide.ndim - 2,))


for _name, _function in {"vecdot": _vecdot, "matvec": _matvec, "vecmat": _vecmat}.items():
    if hasattr(np, _name):  # NumPy 2.0 has vecdot, 2.2 the others
        UFUNCS[getattr(np, _name)] = _function
implements(np.linalg.vecdot)(_vecdot)


@implements(np.inner)
def _inner(a: Any, b: Any, /) -> Proxy:
    x, y = common_strong(a, b)
    if x.ndim == 0 or y.ndim == 0:
        return emit("multiply", x, y)
    return _tensordot(x, y, ([-1], [-1]))


@implements(np.outer, np.linalg.outer)
def _outer(a: Any, b: Any, _out: Any = None) -> Proxy:
    x, y = common_strong(a, b)
    return emit("multiply", reshape(x, (x.size, 1)), reshape(y, (1, y.size)))


@implements(np.vdot)
def _vdot(a: Any, b: Any, /) -> Proxy:
    x, y = common_strong(a, b)
    x = METHODS["conj"](x)
    return emit("nn.matmul", reshape(x, (x.size,)), reshape(y, (y.size,)))


@method("ufunc.outer")
def _ufunc_outer(ufunc: np.ufunc, a: Any, b: Any, **options: Any) -> Any:
    x, y = lift(a), lift(b)
    return UFUNCS[ufunc](reshape(x, x.shape + (1,) * y.ndim), y, **options)


@implements(np.tensordot, np.linalg.tensordot)
def _tensordot_function(a: Any, b: Any, axes: Any = 2) -> Proxy:
    return emitting.one_array(_tensordot(a, b, axes))


def _tensordot(a: Any, b: Any, axes: Any = 2) -> Proxy:
    x, y = common_strong(a, b)
    left, right = _contracted(axes, x.ndim, y.ndim)
    for i, j in zip(left, right, strict=True):
        if x.shape[i] != y.shape[j]:
            raise LoopwrightTypeError(
                f"tensordot: axis {i} has {x.shape[i]}, axis {j} has {y.shape[j]}"
            )
    x_free = [i for i in range(x.ndim) if i not in left]
    y_free = [j for j in range(y.ndim) if j not in right]
    depth = product(x.shape[i] for i in left)
    rows, columns = [x.shape[i] for i in x_free], [y.shape[j] for j in y_free]
    lhs = reshape(transpose(x, tuple(x_free + left)), (product(rows), depth))
    rhs = reshape(transpose(y, tuple(right + y_free)), (depth, product(columns)))
    return reshape(emit("nn.matmul", lhs, rhs), (*rows, *columns))


def _contracted(axes: Any, left_rank: int, right_rank: int) -> tuple[list[int], list[int]]:
    if isinstance(axes, int | np.integer):
        count = int(axes)
        if count > left_rank or count > right_rank:
            raise LoopwrightValueError(f"tensordot: {count} axes to contract, but there are fewer")
        return list(range(left_rank - count, left_rank)), list(range(count))
    first, second = axes
    left = [normalise_axis(i, left_rank) for i in (first if _many(first) else [first])]
    right = [normalise_axis(j, right_rank) for j in (second if _many(second) else [second])]
    if len(left) != len(right):
        raise LoopwrightValueError("tensordot: the two lists of axes differ in length")
    return left, right


def _many(value: Any) -> bool:
    return isinstance(value, list | tuple | np.ndarray)


@implements(np.kron)
def _kron(a: Any, b: Any) -> Proxy:
    x, y = common_strong(a, b)
    rank = x.ndim if x.ndim > y.ndim else y.ndim
    xs = (1,) * (rank - x.ndim) + x.shape
    ys = (1,) * (rank - y.ndim) + y.shape
    left = reshape(x, tuple(s for size in xs for s in (size, 1)))
    right = reshape(y, tuple(s for size in ys for s in (1, size)))
    return reshape(emit("multiply", left, right), tuple(p * q for p, q in zip(xs, ys, strict=True)))


@views
@implements(np.einsum)
def _einsum(*operands: Any, _optimize: Any = False, **options: Any) -> Proxy:
    """``np.einsum`` with a subscripts string; ``optimize`` changes nothing."""
    if options.pop("casting", "safe") != "safe" or options.pop("order", "K") not in ("K", "C"):
        raise UnsupportedError("einsum: casting= and order= are not supported")
    dtype = options.pop("dtype", None)
    if options or not operands or not isinstance(operands[0], str):
        raise UnsupportedError(
            "einsum takes its subscripts as a string here", hint='np.einsum("ij,jk->ik", x, y)'
        )
    equation, *arrays = operands
    if not arrays:
        raise LoopwrightTypeError("einsum needs at least one operand")
    parts = common_strong(*arrays, dtype=dtype, casting="safe")
    equation = _explicit(equation)
    if len(parts) > 1 or len(parts[0].shape) == 0 or _sums(equation):
        return emit("einsum", *parts, equation=equation)
    read = functools.partial(emit, "einsum", parts[0], equation=equation)
    return read_only_view(parts[0], read, hint="its .copy(), or a view by x.transpose(...)")


def _sums(equation: str) -> bool:
    """True if labels of the equation are summed over; what sums nothing is a view."""
    given, _, result = equation.partition("->")
    return bool(set(given) - set(result))


def _explicit(equation: str) -> str:
    """The equation without spaces and with its output spelled out, in alphabetical order."""
    text = "".join(equation.split())
    if "->" in text:
        return text
    counts = Counter(c for c in text if c.isalpha())
    once = "".join(sorted(c for c, n in counts.items() if n == 1))
    return f"{text}->{'...' if '...' in text else ''}{once}"


@implements(np.trace)
@method("trace")
def _trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, _out: Any = None
) -> Proxy:
    return np.sum(_read_diagonal(lift(a), offset, axis1, axis2), -1, dtype)


implement({np.linalg.trace: lambda x, /, *, offset=0, dtype=None: _trace(x, offset, -2, -1, dtype)})


@implements(np.diagonal)
@method("diagonal")
@views
def _diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Proxy:
    x, strides = lift(a), None
    first, second = normalise_axis(axis1, x.ndim), normalise_axis(axis2, x.ndim)
    if x.strides is not None:
        rest = [s for axis, s in enumerate(x.strides) if axis not in (first, second)]
        strides = (*rest, x.strides[first] + x.strides[second])
    return read_only_view(x, lambda: _read_diagonal(x, offset, first, second), strides=strides)


def _read_diagonal(x: Proxy, offset: int, axis1: int, axis2: int) -> Proxy:
    """Returns the diagonal as the last axis, read out of the two axes made one."""
    first, second = normalise_axis(axis1, x.ndim), normalise_axis(axis2, x.ndim)
    rest = [i for i in range(x.ndim) if i not in (first, second)]
    moved = transpose(x, (*rest, first, second))
    rows, columns = x.shape[first], x.shape[second]
    if isinstance(rows, Dim) or isinstance(columns, Dim):
        return emit("diagonal", x, offset=offset, axis1=first, axis2=second)
    positions = np.arange(rows) * columns + np.arange(rows) + offset
    inside = (np.arange(rows) + offset >= 0) & (np.arange(rows) + offset < columns)
    merged = reshape(moved, (*moved.shape[:-2], rows * columns))
    return emit("take", merged, lift(positions[inside]), axis=merged.ndim - 1, mode="clip")


implement({np.linalg.diagonal: lambda x, /, *, offset=0: _diagonal(x, offset, -2, -1)}, views)


@implements(np.diag)
@views
def _diag(v: Any, k: int = 0) -> Proxy:
    x = lift(v)
    if x.ndim == 2:
        return _diagonal(x, k)
    if x.ndim != 1:
        raise LoopwrightTypeError(f"np.diag takes one or two axes, not {x.type.short}")
    size = x.shape[0] + abs(k)
    mask = eye(size, k=k, dtype=bool)
    before, after = (k, 0) if k >= 0 else (0, -k)
    wide = emit("nn.pad", x, pad_width=((before, after),), pad_value=0, mode="constant")
    zero = lift(0, x.type.dtype)
    return emit("where", mask, reshape(wide, (1, size)), zero)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Proxy:
    """Vector norms of every order; of matrices the Frobenius, 1 and infinity norms (``linalg`` has
    all)."""
    a = float_operand(x, None)
    if axis is None and (ord is None or a.ndim == 1):
        flat = reshape(a, (a.size,)) if ord is None else a
        result = _vector_norm(flat, 2 if ord is None else ord, (0,), False)
        return reshape(result, (1,) * a.ndim) if keepdims else result
    axes = tuple(range(a.ndim)) if axis is None else axes_of(axis, a.ndim)
    assert axes is not None
    if len(axes) == 1:
        return _vector_norm(a, 2 if ord is None else ord, axes, keepdims)
    if len(axes) != 2:
        raise LoopwrightValueError("np.linalg.norm: one axis (vectors) or two (matrices)")
    given = axes if axis is None else tuple(normalise_axis(i, a.ndim) for i in axis)
    return _matrix_norm(a, ord, given, keepdims)


@implements(np.linalg.vector_norm)
def _linalg_vector_norm(
    x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2
) -> Proxy:
    a = float_operand(x, None)
    axes = axes_of(axis, a.ndim)
    if axes is None:
        axes = tuple(range(a.ndim))
    return _vector_norm(a, ord, axes, keepdims)


def _vector_norm(a: Proxy, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Proxy:
    if not isinstance(ord, int | float):
        raise LoopwrightValueError(f"np.linalg.norm: order {ord!r} of a vector")
    if ord == 2:
        parts = (a.real, a.imag) if a.type.dtype.is_complex else (a,)
        squares = sum(p * p for p in parts)
        return np.sqrt(np.sum(squares, axes, keepdims=keepdims))
    size = abs(a)
    if ord == math.inf:
        return largest(size, axes, keepdims)
    if ord == -math.inf:
        return np.min(size, axes, keepdims=keepdims)
    if ord == 1:
        return np.sum(size, axes, keepdims=keepdims)
    dtype = a.type.dtype.part
    if ord == 0:
        return np.sum(lift(a != 0, dtype), axes, keepdims=keepdims)
    total = np.sum(emit("power", size, lift(ord, dtype)), axes, keepdims=keepdims)
    return emit("power", total, lift(1.0 / ord, dtype))


def largest(sizes: Any, axes: Any, keepdims: bool = False) -> Any:
    """Returns the largest of numbers that are not negative; 0 of none."""
    if sizes.size == 0:
        return np.max(sizes, axes, keepdims=keepdims, initial=0)
    return np.max(sizes, axes, keepdims=keepdims)


def _matrix_norm(a: Proxy, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Proxy:
    if ord in (None, "fro"):
        return _vector_norm(a, 2, axes, keepdims)
    summed = {1: 0, -1: 0, math.inf: 1, -math.inf: 1}.get(ord)
    if summed is None:
        raise UnsupportedError(
            f"np.linalg.norm: order {ord!r} of a matrix is not supported",
            hint="the Frobenius norm (ord=None), 1 or np.inf",
        )
    totals = np.sum(abs(a), axes[summed], keepdims=True)
    result = (largest if ord > 0 else np.min)(totals, axes, keepdims=True)
    return result if keepdims else emit("squeeze", result, axis=tuple(sorted(axes)))


@implements(np.cross)
def _cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Proxy:
    x, y = common_strong(a, b)
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = moveaxis(x, axisa, -1), moveaxis(y, axisb, -1)
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise LoopwrightTypeError(
            f"np.cross multiplies vectors of 3, these have {x.shape[-1]} and {y.shape[-1]}"
        )
    p = [x[..., i] for i in range(3)]
    q = [y[..., i] for i in range(3)]
    parts = [p[i] * q[j] - p[j] * q[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return moveaxis(emit("stack", *parts, axis=parts[0].ndim), -1, axisc)
