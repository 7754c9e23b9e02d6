"""Products and reductions: matrix products, prod, cumprod, variance, std."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import UnsupportedError
from ..compose import F, Value
from ..rules import normalise_axes, normalise_axis
from .arithmetic import multiply
from .table import Pair, on_pairs

__all__: list[str] = []


def _bilinear(product: Callable[[Value, Value], Value], x: Pair, y: Pair) -> Pair:
    """Four products of the parts."""
    re = product(x.re, y.re) - product(x.im, y.im)
    return Pair(re, product(x.re, y.im) + product(x.im, y.re))


@on_pairs("nn.matmul")
def _matmul(x: Pair, y: Pair) -> Pair:
    """One product of real matrices, twice as long and twice as wide::

    [re im]  of x   times   [ re im]  of y
                            [-im re]
    """
    if x.re.rank < 2 or y.re.rank < 2:
        return _bilinear(F.nn.matmul, x, y)
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


@on_pairs("contract")
def _contract(x: Pair, y: Pair, *, equation: str) -> Pair:
    return _bilinear(lambda a, b: F.contract(a, b, equation=equation), x, y)


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
