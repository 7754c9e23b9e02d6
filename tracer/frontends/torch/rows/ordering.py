"""Sorting, selection by rank, and search."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....ir.errors import UnsupportedError
from .... import nn
from ....core.emitting import lift
from ..table import Value, aten
from ..tensors import is_float


@aten("topk.default", ignores=("sorted",))  # any order will do if it is False
def _topk(self: Value, k: int, dim: int = -1, largest: bool = True) -> tuple[Value, Value]:
    if not self.ndim:
        return self, np.zeros((), np.int64)
    return nn.top_k(self, k, dim, largest)


@aten("sort.default")
def _sort(self: Value, dim: int = -1, descending: bool = False) -> tuple[Value, Value]:
    """Equal elements keep their order, and nan is the greatest, from both ends."""
    if not self.ndim:
        return self, np.zeros((), np.int64)
    if descending:
        last = self.shape[dim] - 1
        order = np.argsort(np.flip(self, dim), axis=dim, kind="stable")
        places = last - np.flip(order, dim)
    else:
        places = np.argsort(self, axis=dim, kind="stable")
    return np.take_along_axis(self, places, axis=dim), places


@aten("sort.stable", ignores=("stable",))  # it always is
def _stable_sort(self: Value, *, dim: int = -1, descending: bool = False) -> tuple[Value, Value]:
    return _sort(self, dim, descending)


@aten("kthvalue.default")
def _kth(self: Value, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Value, Value]:
    if not self.ndim:
        return self, np.zeros((), np.int64)
    chosen = slice(k - 1, k)
    ranked = [np.moveaxis(np.moveaxis(x, dim, 0)[chosen], 0, dim) for x in _sort(self, dim)]
    values, places = ranked if keepdim else [np.squeeze(x, dim) for x in ranked]
    return values, places


@aten("median.dim")
def _median(self: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    """The lower of the two elements in the middle; nan if there is one."""
    if not self.ndim:
        return self, np.zeros((), np.int64)
    count = self.shape[dim]
    middle, place = _kth(self, (count + 1) // 2, dim, keepdim)
    if not is_float(self):
        return middle, place
    # Sorted, the first nan of a row stands behind the elements that are none.
    invalid = np.isnan(self)
    some = np.any(invalid, axis=dim, keepdims=keepdim)
    first = np.argmax(invalid, axis=dim, keepdims=keepdim)
    return np.where(some, np.nan, middle), np.where(some, first, place)


@aten("nanmedian.dim")
def _nanmedian(self: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    """Sorted, elements that are nan stand behind the others."""
    if not self.ndim or not is_float(self):
        return _median(self, dim, keepdim)
    count = np.sum(np.logical_not(np.isnan(self)), axis=dim, keepdims=True)
    middle = np.maximum((count + 1) // 2 - 1, 0)
    ranked = [np.take_along_axis(x, middle, axis=dim) for x in _sort(self, dim)]
    values, places = ranked if keepdim else [np.squeeze(x, dim) for x in ranked]
    return values, places


@aten("nanmedian.default")
def _nanmedian_all(self: Value) -> Value:
    return _nanmedian(np.reshape(self, (-1,)), 0)[0]


@aten("median.default")
def _median_all(self: Value) -> Value:
    return _median(np.reshape(self, (-1,)), 0)[0]


_INT32 = ("out_int32",)  # the result's dtype says the same


@aten("searchsorted.Tensor", "searchsorted.Scalar", ignores=_INT32)
def _searchsorted(
    sorted_sequence: Value,
    self: Value,
    *,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Value:
    if sorted_sequence.ndim != 1 or sorter is not None:
        raise UnsupportedError("searchsorted takes one sequence here, and no sorter")
    at = "right" if right or side == "right" else "left"
    return np.searchsorted(lift(sorted_sequence), self, at)


@aten("bucketize.Tensor", "bucketize.Scalar", ignores=_INT32)
def _bucketize(self: Value, boundaries: Value, *, right: bool = False) -> Value:
    return _searchsorted(boundaries, self, right=right)


def _distinct(*results: Value, wanted: tuple[bool, bool]) -> tuple[Value, ...]:
    """Returns values, places and counts, the latter without elements if they are not asked for."""
    empty = np.zeros(0, np.int64)
    return results[0], *(x if asked else empty for x, asked in zip(results[1:], wanted))


@aten("_unique2.default", ignores=("sorted",))  # they always are
def _unique(
    self: Value, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Value, ...]:
    """Every nan is a value of its own."""
    made = np.unique(self, return_inverse=True, return_counts=True, equal_nan=False)
    return _distinct(*made, wanted=(return_inverse, return_counts))


@aten("unique_consecutive.default")
def _unique_consecutive(
    self: Value, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> tuple[Value, ...]:
    if dim is not None and self.ndim != 1:
        raise UnsupportedError("unique_consecutive along an axis is not supported")
    flat = np.reshape(self, (-1,))
    count = flat.shape[0]
    begins = np.concatenate([np.ones(min(count, 1), bool), flat[1:] != flat[:-1]])
    starts = np.flatnonzero(begins)
    inverse = np.reshape(np.cumsum(begins.astype(np.int64)) - 1, self.shape)
    counts = np.diff(np.concatenate([starts, np.full(1, count)]))
    return _distinct(flat[begins], inverse, counts, wanted=(return_inverse, return_counts))
