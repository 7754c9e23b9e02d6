"""Sorting, selection by rank, and search."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....ir.errors import UnsupportedError
from .... import nn
from ....core.emitting import lift
from ..table import Value, aten


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
    if self.dtype.kind != "f":
        return middle, place
    # Sorted, the first nan of a row stands behind the elements that are none.
    invalid = np.isnan(self)
    some = np.any(invalid, axis=dim, keepdims=keepdim)
    first = np.argmax(invalid, axis=dim, keepdims=keepdim)
    return np.where(some, np.nan, middle), np.where(some, first, place)


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
