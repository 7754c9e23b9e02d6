"""Tangents and transposes of library functions: linear algebra and Fourier transforms.

``a`` is a matrix or a stack of them, ``da`` its tangent. The formulas are those of M. Giles, "An
extended collection of matrix derivative results", 2008; where a routine reads one triangle of a
symmetric matrix, the tangent is made symmetric first. A pairing of tangents and cotangents is
the real part of their product, so the transpose of a transform is itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..compose import F, Value, broadcast, exchanged, unbroadcast
from ..operator import get
from ..types import TupleType
from .rules import Step, Transposition

Tangent = Callable[[Step], "Value | list[Value | None]"]


def library(name: str, *args: Value, **options: Any) -> list[Value]:
    """Returns the results of a call of a library function."""
    builder = args[0].builder
    attrs = {"function": name, "options": tuple(options.items())}
    made = Value(builder, builder.emit(get("call_library"), [a.atom for a in args], attrs))
    return made.fields if isinstance(made.atom.type, TupleType) else [made]


def _solved(a: Value, b: Value) -> Value:
    return library("numpy.linalg.solve", a, b)[0]


def _adjoint(x: Value) -> Value:
    return exchanged(F.conj(x) if x.dtype.is_complex else x)


def _symmetric(x: Value) -> Value:
    return (x + _adjoint(x)) * 0.5


def _diagonal(x: Value) -> Value:
    return F.diagonal(x, axis1=x.rank - 2, axis2=x.rank - 1)


def _scaled_rows(x: Value, rows: Value) -> Value:
    return x * F.expand_dims(rows, axis=rows.rank)


def _trace_of_quotient(a: Value, da: Value) -> Value:
    return F.sum(_diagonal(_solved(a, da)), axis=(-1,))


def _solve(step: Step) -> Value:
    right = step.t(1)
    if step.t(0) is not None:
        moved = F.nn.matmul(step.moved(0), step.r)
        right = -moved if right is None else right - moved
    assert right is not None
    return _solved(step.x(0), right)


def _inv(step: Step) -> Value:
    return -F.nn.matmul(F.nn.matmul(step.r, step.moved()), step.r)


def _det(step: Step) -> Value:
    return step.r * _trace_of_quotient(step.x(0), step.moved())


def _slogdet(step: Step) -> list[Value | None]:
    change = _trace_of_quotient(step.x(0), step.moved())
    return [None, F.real(change) if change.dtype.is_complex else change]


def factor_tangent(factor: Value, da: Value) -> Value:
    """Returns the tangent of the lower Cholesky factor of a matrix."""
    (inverse,) = library("numpy.linalg.inv", factor)  # one serves all tangents, in both modes
    inside = F.nn.matmul(F.nn.matmul(inverse, _symmetric(da)), _adjoint(inverse))
    rank = inside.rank
    row, column = (inside.iota(inside.shape[-2:], axis) for axis in (0, 1))
    half = F.where(F.equal(row, column), inside * 0.5, F.tril(inside, k=-1))
    return F.nn.matmul(factor, broadcast(half, inside.shape[:rank]))


def _cholesky(step: Step) -> Value:
    upper = dict(step.attrs["options"]).get("upper")
    factor = _adjoint(step.r) if upper else step.r
    made = factor_tangent(factor, step.moved())
    return _adjoint(made) if upper else made


def _reciprocal_gaps(values: Value) -> Value:
    """Returns 1 / (w[j] - w[i]), 0 where i is j."""
    gaps = F.expand_dims(values, axis=values.rank - 1) - F.expand_dims(values, axis=values.rank)
    zero = F.equal(gaps, 0)
    return F.where(zero, gaps.full((), 0), 1 / F.where(zero, gaps.full((), 1), gaps))


def _of_part(x: Value, like: Value) -> Value:
    return F.complex(x, x.full((), 0)) if like.dtype.is_complex else x


def _eigh(step: Step) -> list[Value | None]:
    values, vectors = step.results
    inside = F.nn.matmul(F.nn.matmul(_adjoint(vectors), _symmetric(step.moved())), vectors)
    change = _diagonal(inside)
    gaps = _of_part(_reciprocal_gaps(values), vectors)
    return [
        F.real(change) if change.dtype.is_complex else change,
        F.nn.matmul(vectors, gaps * inside),
    ]


def _eigvalsh(step: Step) -> Value:
    _, vectors = library("numpy.linalg.eigh", step.x(0), **dict(step.attrs["options"]))
    inside = F.nn.matmul(F.nn.matmul(_adjoint(vectors), _symmetric(step.moved())), vectors)
    change = _diagonal(inside)
    return F.real(change) if change.dtype.is_complex else change


def _svdvals(step: Step) -> Value:
    left, _, right = library("numpy.linalg.svd_reduced", step.x(0))
    change = _diagonal(F.nn.matmul(F.nn.matmul(_adjoint(left), step.moved()), _adjoint(right)))
    return F.real(change) if change.dtype.is_complex else change


def _svd(step: Step) -> list[Value | None]:
    left, values, right = step.results
    moved = step.moved()
    if left.dtype.is_complex:
        raise step.refused()
    inside = F.nn.matmul(F.nn.matmul(_adjoint(left), moved), _adjoint(right))
    squares = _reciprocal_gaps(values * values)
    by_columns = inside * F.expand_dims(values, axis=values.rank - 1)
    by_rows = _scaled_rows(inside, values)
    rotated_left = squares * (by_columns + exchanged(by_columns))
    rotated_right = squares * (by_rows + exchanged(by_rows))
    d_left, d_right = F.nn.matmul(left, rotated_left), F.nn.matmul(exchanged(rotated_right), right)
    # What leaves the space of the columns, or of the rows, if the matrix is not square.
    across = F.nn.matmul(moved, _adjoint(right)) - F.nn.matmul(left, inside)
    d_left = d_left + across / F.expand_dims(values, axis=values.rank - 1)
    along = F.nn.matmul(_adjoint(left), moved) - F.nn.matmul(inside, right)
    d_right = d_right + along / F.expand_dims(values, axis=values.rank)
    return [d_left, _diagonal(inside), d_right]


def _qr(step: Step) -> list[Value | None]:
    q, r = step.results
    if r.shape[-1] != r.shape[-2] or q.shape[-1] != r.shape[-1]:
        raise step.refused()
    quotient = exchanged(_solved(exchanged(r), exchanged(step.moved())))
    inside = F.nn.matmul(_adjoint(q), quotient)
    lower = F.tril(inside, k=-1)
    skew = lower - _adjoint(lower)
    return [quotient + F.nn.matmul(q, skew - inside), F.nn.matmul(inside - skew, r)]


def _lstsq(step: Step) -> list[Value | None]:
    """Changes of the solution, where the columns are independent, and of nothing else."""
    a, b, solution = step.x(0), step.x(1), step.results[0]
    da, db = step.moved(0), step.moved(1)
    rest = b - F.nn.matmul(a, solution)
    right = F.nn.matmul(_adjoint(da), rest)
    right = right + F.nn.matmul(_adjoint(a), db - F.nn.matmul(da, solution))
    return [_solved(F.nn.matmul(_adjoint(a), a), right), None, None, None]


def _transform(step: Step) -> Value:
    """The transform of the tangent, axis by axis, so that each step has a simple transpose."""
    name, options = step.attrs["function"], dict(step.attrs["options"])
    kind = name.rsplit(".", 1)[1]
    made, steps = step.moved(), [*zip(options["axes"], options["sizes"], strict=True)]
    for n, (axis, size) in enumerate(steps):
        each = {"rfft": "fft", "irfft": "ifft"}.get(kind, kind)
        if (kind == "rfft" and n == 0) or (kind == "irfft" and n == len(steps) - 1):
            each = kind
        one = {"axes": (axis,), "sizes": (size,), "norm": options["norm"]}
        made = library(f"numpy.fft.{each}", made, **one)[0]
    return made


TANGENTS: dict[str, Tangent] = {
    "numpy.linalg.solve": _solve,
    "numpy.linalg.inv": _inv,
    "numpy.linalg.det": _det,
    "numpy.linalg.slogdet": _slogdet,
    "numpy.linalg.cholesky": _cholesky,
    "numpy.linalg.eigh": _eigh,
    "numpy.linalg.eigvalsh": _eigvalsh,
    "numpy.linalg.svdvals": _svdvals,
    "numpy.linalg.svd_reduced": _svd,
    "numpy.linalg.qr": _qr,
    "numpy.linalg.lstsq": _lstsq,
    **dict.fromkeys([f"numpy.fft.{kind}" for kind in ("fft", "ifft", "rfft", "irfft")], _transform),
}
"""Tangents of library functions by name; the others have no derivative."""


def tangent_of_call(step: Step) -> Value | list[Value | None]:
    """Returns the tangents of a library function's results."""
    if step.attrs["function"] not in TANGENTS:
        raise step.refused()
    return TANGENTS[step.attrs["function"]](step)


def transpose_call(step: Transposition) -> None:
    """Adds the cotangent of the right sides of equations, or of what is transformed."""
    name, options = step.attrs["function"], dict(step.attrs["options"])
    if name == "numpy.linalg.solve":
        step.add(1, unbroadcast(_solved(exchanged(step.x(0)), step.ct), step.shape(1)))
        return
    (axis,), (size,), x = options["axes"], options["sizes"], step.x(0)
    ct = step.ct
    if name == "numpy.fft.irfft":
        swapped = {"backward": "forward", "forward": "backward"}
        norm = swapped.get(options["norm"], options["norm"])
        ct = F.conj(library("numpy.fft.rfft", ct, axes=(axis,), sizes=(size,), norm=norm)[0])
        at = ct.iota(tuple(n if k == axis else 1 for k, n in enumerate(ct.shape)), axis)
        once = F.logical_or(F.equal(at, 0), F.equal(at * 2, size))
        ct = F.where(once, ct, ct * 2)
    else:
        kind = "numpy.fft.fft" if name == "numpy.fft.rfft" else name
        ct = library(kind, _fitted(ct, axis, size), **options)[0]
    ct = _fitted(ct, axis, x.shape[axis])
    step.add(0, ct if x.dtype.is_complex else F.real(ct))


def _fitted(x: Value, axis: int, size: Any) -> Value:
    """Returns ``x`` with as many elements along an axis: the first ones, or zeros behind."""
    if x.shape[axis] == size:
        return x
    shape: Sequence[Any] = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    least = tuple(min(a, b) if n == axis else a for n, (a, b) in enumerate(zip(x.shape, shape)))
    ones, first = (1,) * x.rank, (0,) * x.rank
    part = F.strided_slice(x, begin=first, end=least, strides=ones)
    return F.strided_set(x.full(shape, 0), part, begin=first, strides=ones)
