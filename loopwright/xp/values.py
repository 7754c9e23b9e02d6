"""Reductions, scans, sorting, searching and sets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..ir.errors import LoopwrightTypeError, LoopwrightValueError
from ..tracer import Proxy
from .eager import compiled, define

define(
    globals(),
    """
    all(x, /, *, axis=None, keepdims=False)
        True where all elements along the axes are true; of none, True.
    any(x, /, *, axis=None, keepdims=False)
        True where an element along the axes is true; of none, False.
    argmax(x, /, *, axis=None, keepdims=False)
        Returns the index of the first largest element along an axis, or of all.
    argmin(x, /, *, axis=None, keepdims=False)
        Returns the index of the first smallest element along an axis, or of all.
    max(x, /, *, axis=None, keepdims=False)
        Returns the largest elements along the axes; nan if there is one.
    min(x, /, *, axis=None, keepdims=False)
        Returns the smallest elements along the axes; nan if there is one.
    mean(x, /, *, axis=None, keepdims=False)
        Returns the mean along the axes.
    prod(x, /, *, axis=None, dtype=None, keepdims=False)
        Returns the product along the axes, of small integers in 64 bits.
    sum(x, /, *, axis=None, dtype=None, keepdims=False)
        Returns the sum along the axes, of small integers in 64 bits.
    std(x, /, *, axis=None, correction=0.0, keepdims=False)
        Returns the standard deviation along the axes; the divisor is their size - correction.
    var(x, /, *, axis=None, correction=0.0, keepdims=False)
        Returns the variance along the axes; the divisor is their size - correction.
    """,
)


@compiled
def count_nonzero(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Returns the number of elements along the axes that are not zero."""
    return np.sum(x != 0, axis=axis, keepdims=keepdims, dtype=np.int64)


def _scanned(scan: Any, neutral: int, x: Any, axis: Any, dtype: Any, initial: bool) -> Any:
    if axis is None and x.ndim != 1:
        raise LoopwrightValueError(f"axis is needed for an array of {x.ndim} axes")
    axis = 0 if axis is None else axis
    result = scan(x, axis=axis, dtype=dtype)
    if not initial:
        return result
    shape = list(x.shape)
    shape[axis] = 1
    return np.concatenate([np.full(shape, neutral, result.dtype), result], axis=axis)


@compiled
def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """Returns the sums of all beginnings of ``x`` along an axis, first 0 if initial."""
    return _scanned(np.cumsum, 0, x, axis, dtype, include_initial)


@compiled
def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """Returns the products of all beginnings of ``x`` along an axis, first 1 if initial."""
    return _scanned(np.cumprod, 1, x, axis, dtype, include_initial)


@compiled
def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """Returns the differences of neighbours along an axis, ``n`` times."""
    ends = {"prepend": prepend, "append": append}
    return np.diff(x, n=n, axis=axis, **{k: v for k, v in ends.items() if v is not None})


@compiled
def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """Returns the elements in order along an axis; nan is the largest."""
    result = np.sort(x, axis=axis, stable=stable)
    return np.flip(result, axis=axis) if descending else result


@compiled
def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """Returns the indices that sort along an axis; equal elements stay in order."""
    if not descending:
        return np.argsort(x, axis=axis, stable=stable)
    backwards = np.argsort(np.flip(x, axis=axis), axis=axis, stable=stable)
    return x.shape[axis] - 1 - np.flip(backwards, axis=axis)


@compiled
def searchsorted(x1: Any, x2: Any, /, *, side: Any = "left", sorter: Any = None) -> Any:
    """Returns where the elements of ``x2`` belong in the sorted ``x1``; ``sorter`` sorts it."""
    return np.searchsorted(x1 if sorter is None else x1[sorter], x2, side=side)


# What has a size that depends on values: NumPy's.


class UniqueAll(NamedTuple):
    """Distinct values, where each is first, which of them each element is, how many of each."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """Distinct values and how many there are of each."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """Distinct values, and which of them each element is."""

    values: Any
    inverse_indices: Any


def _known(x: Any, name: str, hint: str | None = None) -> Any:
    if isinstance(x, Proxy):
        message = f"{name}: the size of the result depends on values, which tracing does not know"
        raise LoopwrightTypeError(message, hint=hint)
    return np.asarray(x)


def nonzero(x: Any, /) -> Any:
    """Returns the indices of the elements that are not zero, a tuple of an array for each axis."""
    x = _known(x, "nonzero", "lw.xp.where(condition, x, 0), or call it outside")
    if not x.ndim:
        raise LoopwrightValueError("nonzero of an array without axes")
    return np.nonzero(x)


def unique_all(x: Any, /) -> UniqueAll:
    """Returns distinct values, their first indices, inverse indices of x's shape, and counts."""
    x = _known(x, "unique_all")
    values, indices, inverse, counts = np.unique(x, True, True, True, equal_nan=False)
    return UniqueAll(values, indices, inverse.reshape(x.shape), counts)


def unique_counts(x: Any, /) -> UniqueCounts:
    """Returns distinct values and their counts; each nan is distinct."""
    x = _known(x, "unique_counts")
    return UniqueCounts(*np.unique(x, return_counts=True, equal_nan=False))


def unique_inverse(x: Any, /) -> UniqueInverse:
    """Returns distinct values, and the index among them of each element."""
    x = _known(x, "unique_inverse")
    values, inverse = np.unique(x, return_inverse=True, equal_nan=False)
    return UniqueInverse(values, inverse.reshape(x.shape))


def unique_values(x: Any, /) -> Any:
    """Returns distinct values, in order; each nan is distinct."""
    return np.unique(_known(x, "unique_values"), equal_nan=False)
