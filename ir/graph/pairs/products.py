"""Products and reductions: matrix products, prod, cumprod, variance, std."""

from __future__ import annotations

from typing import Any

from ...dims import product
from ...errors import UnsupportedError
from ..compose import F, Value
from ..type_rules import normalise_axes, normalise_axis
from .arithmetic import multiply
from .table import Pair, by_products, on_interleaved, on_pairs

_LEAST_OF_THREE = 64
"""The least size from which three products and the sums of their operands cost less than four."""


@on_pairs("nn.matmul")
def _matmul(x: Pair, y: Pair) -> Pair:
    """Multiplies ``[re im]`` of ``x`` by ``[[re im] [-im re]]`` of ``y``: one real product.

    Of large matrices three products, as Gauss multiplies numbers (N. Higham, "Stability of a Method
    for Multiplying Complex Matrices with Three Real Matrix Multiplications", 1992).
    """
    if x.re.rank == y.re.rank == 1:
        terms = multiply(x, y)
        return Pair(F.sum(terms.re, axis=0), F.sum(terms.im, axis=0))
    if x.re.rank < 2 or y.re.rank < 2:
        return by_products("nn.matmul")(x, y)
    sizes = (*x.re.shape[-2:], y.re.shape[-1])
    if all(isinstance(size, int) and size >= _LEAST_OF_THREE for size in sizes):
        first = F.nn.matmul(x.re + x.im, y.re)
        second = F.nn.matmul(x.re, y.im - y.re)
        return Pair(first - F.nn.matmul(x.im, y.re + y.im), first + second)
    last = x.re.rank - 1
    row, column = y.re.rank - 2, y.re.rank - 1
    left = F.concatenate(x.re, x.im, axis=last)
    above = F.concatenate(y.re, y.im, axis=column)
    below = F.concatenate(-y.im, y.re, axis=column)
    both = F.nn.matmul(left, F.concatenate(above, below, axis=row))
    return Pair(*_halves(both, y.re.shape[-1]))


def _halves(x: Value, size: Any) -> list[Value]:
    """Returns the first ``size`` columns, and the others."""
    *front, _ = x.shape
    zeros, ones = (0,) * len(front), (1,) * x.rank
    ends = ((0, size), (size, 2 * size))
    return [
        F.strided_slice(x, begin=(*zeros, low), end=(*front, high), strides=ones)
        for low, high in ends
    ]


@on_interleaved("nn.matmul")
def _interleaved_matmul(x: Value, y: Pair) -> Pair | None:
    """A matrix times a vector reads it once and in order, as a real matrix of twice as many
    columns; its parts would be read with strides, four times."""
    if x.rank < 3 or y.re.rank != 1:
        return None
    rows = F.reshape(x, newshape=(*x.shape[:-2], x.shape[-2] * 2))
    columns = (F.stack(y.re, -y.im, axis=1), F.stack(y.im, y.re, axis=1))
    both = F.concatenate(*(F.reshape(c, newshape=(-1, 1)) for c in columns), axis=1)
    result = F.nn.matmul(rows, both)
    return Pair(*(F.reshape(_column(result, n), newshape=x.shape[:-2]) for n in (0, 1)))


_MOST_LANES = 16
"""Adjacent complex numbers in one vector of partial sums, a few registers of any machine."""


@on_interleaved("sum")
def _interleaved_sum(x: Value, *, axis: Any, keepdims: bool) -> Pair | None:
    """Sums of neighbours, as many as fill vectors, are taken apart only at the end."""
    rank = x.rank - 1
    axes = normalise_axes(axis, rank)
    if not axes or not all(isinstance(size, int) and size for size in x.shape):
        return None
    shape = x.shape[:-1]
    if rank - 1 in axes:
        lanes = _MOST_LANES
        while shape[-1] % lanes:
            lanes //= 2
        wide = (*shape[:-1], shape[-1] // lanes, lanes * 2)
        total = F.sum(F.reshape(x, newshape=wide), axis=axes)
        kept = total.shape[:-1]
        x = F.sum(F.reshape(total, newshape=(*kept, lanes, 2)), axis=(len(kept),))
    else:
        x = F.sum(x, axis=axes)
    sizes = [1 if a in axes else size for a, size in enumerate(shape)]
    result = tuple(s for a, s in enumerate(sizes) if keepdims or a not in axes)
    return Pair(*(F.reshape(_column(x, n), newshape=result) for n in (0, 1)))


def _column(x: Value, number: int) -> Value:
    begin, end = (*(0 for _ in x.shape[1:]), number), (*x.shape[:-1], number + 1)
    return F.strided_slice(x, begin=begin, end=end, strides=(1,) * x.rank)


@on_interleaved("mean")
def _interleaved_mean(x: Value, *, axis: Any, keepdims: bool) -> Pair | None:
    total = _interleaved_sum(x, axis=axis, keepdims=keepdims)
    if total is None:
        return None
    count = product(x.shape[a] for a in normalise_axes(axis, x.rank - 1))
    return Pair(total.re / count, total.im / count)


@on_pairs("variance")
def _variance(x: Pair, **attrs: Any) -> Value:
    return F.variance(x.re, **attrs) + F.variance(x.im, **attrs)


@on_pairs("std")
def _std(x: Pair, **attrs: Any) -> Value:
    return F.sqrt(_variance(x, **attrs))


def _part_of_axis(x: Pair, axis: int, begin: int, end: int) -> Pair:
    shape = x.re.shape
    low = tuple(begin if a == axis else 0 for a in range(len(shape)))
    high = tuple(end if a == axis else size for a, size in enumerate(shape))
    ones = (1,) * len(shape)
    return Pair(*(F.strided_slice(v, begin=low, end=high, strides=ones) for v in x))


def _joined(parts: list[Pair], axis: int) -> Pair:
    return Pair(*(F.concatenate(*values, axis=axis) for values in zip(*parts, strict=True)))


def _length(x: Pair, axis: int) -> int:
    size = x.re.shape[axis]
    if not isinstance(size, int):
        raise UnsupportedError(f"products of complex numbers along the symbolic size {size}")
    return size


@on_pairs("prod")
def _prod(x: Pair, *, axis: Any, keepdims: bool) -> Pair:
    """Halves are multiplied by each other until one element is left."""
    axes = normalise_axes(axis, x.re.rank)
    for a in axes:
        size = _length(x, a)
        if size == 0:
            shape = tuple(1 if n == a else s for n, s in enumerate(x.re.shape))
            x = Pair(x.re.full(shape, 1.0), x.re.full(shape, 0.0))
        while size > 1:
            half = size // 2
            rest = [_part_of_axis(x, a, 2 * half, size)] if size % 2 else []
            both = _part_of_axis(x, a, 0, half), _part_of_axis(x, a, half, 2 * half)
            x = _joined([multiply(*both), *rest], a)
            size -= half
    return x if keepdims or not axes else Pair(*(F.squeeze(v, axis=axes) for v in x))


@on_pairs("cumprod")
def _cumprod(x: Pair, *, axis: int, exclusive: bool, reverse: bool) -> Pair:
    """Every element is multiplied by the one 1, 2, 4, ... places before it (Hillis and Steele,
    "Data parallel algorithms", 1986)."""
    axis = normalise_axis(axis, x.re.rank)
    if exclusive:
        raise UnsupportedError("exclusive products of complex numbers are not supported")
    if reverse:
        x = Pair(*(F.reverse(v, axis=(axis,)) for v in x))
    size, step = _length(x, axis), 1
    while step < size:
        front = _part_of_axis(x, axis, 0, step)
        moved = _part_of_axis(x, axis, 0, size - step), _part_of_axis(x, axis, step, size)
        x = _joined([front, multiply(*moved)], axis)
        step *= 2
    return Pair(*(F.reverse(v, axis=(axis,)) for v in x)) if reverse else x
