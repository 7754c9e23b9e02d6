"""Counts of elements by value: ``np.bincount`` and histograms."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.dims import Dim
from ...ir.dtype import FLOAT64, INT64
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from ...ir.graph.requirements import undemanded
from ..core.dispatch import implements
from ..core.emitting import call_library, emit, lift
from ..core.proxy import Proxy
from .ordering import searchsorted


def _counted(places: Any, weights: Any, bins: int) -> Any:
    """The number of elements with each place below ``bins``, or the sum of their weights; greater
    places count nothing, and negative ones are undefined."""
    places = np.reshape(places, (-1,))
    if weights is None:
        return emit("count", lift(places), bins=bins)
    zeros = lift(np.zeros(bins, weights.dtype))
    updates = np.reshape(weights, (-1,))
    return emit("nn.scatter_elements", zeros, places, updates, axis=0, reduction="add")


@implements(np.bincount)
def _bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    """The result has ``minlength`` elements; for a greater value the call raises ValueError."""
    x = lift(x)
    if x.ndim != 1 or not (x.type.dtype.is_integer or x.type.dtype.is_bool):
        raise LoopwrightTypeError(f"the elements of one axis of integers are counted, not {x.type}")
    if minlength <= 0:
        raise UnsupportedError(
            "np.bincount without minlength, whose result is as long as the values say",
            hint="np.bincount(x, minlength=n), which counts the values below n",
        )
    size = int(minlength)
    counts = _counted(x, None if weights is None else lift(weights, FLOAT64), size)
    from ..control import cond  # most programs have no branches

    values = lift(x, INT64)
    inside = np.logical_and(values >= 0, values < size)

    def refused() -> Any:
        return call_library("numpy.bincount", values, minlength=size, dtype=str(counts.type.dtype))[
            0
        ]

    return cond(np.all(inside), lambda: counts, refused)


def _edges(a: Any, bins: Any, range: Any, weights: Any) -> tuple[Any, Any, bool]:
    """The edges of the bins, their number, and whether all are equally wide."""
    if weights is not None and lift(weights).shape != a.shape:
        raise LoopwrightValueError("weights should have the same shape as a.")
    if isinstance(bins, str):
        raise UnsupportedError(f"bins={bins!r}", hint="a number of bins, or their edges")
    if np.ndim(bins) == 0:
        count = int(bins)
        if count < 1:
            raise LoopwrightValueError("`bins` must be positive, when an integer")
        if range is None:
            if a.size == 0:
                first, last = 0.0, 1.0
            else:
                with undemanded():
                    first, last = np.min(a), np.max(a)
                if isinstance(a.size, Dim):  # it may be 0
                    none: Any = lift(a.size, INT64) == 0
                    first, last = np.where(none, 0, first), np.where(none, 1, last)
        else:
            first, last = range
            if not isinstance(first, Proxy) and not isinstance(last, Proxy) and first > last:
                raise LoopwrightValueError("max must be larger than min in range parameter.")
        same = first == last
        if isinstance(same, Proxy):
            first = np.where(same, first - 0.5, first)
            last = np.where(same, last + 0.5, last)
        elif same:
            first, last = first - 0.5, last + 0.5
        ends = [x.dtype if isinstance(x, Proxy) else x for x in (first, last)]
        kind = np.result_type(*ends, a.dtype)
        kind = np.result_type(kind, float) if kind.kind in "biu" else kind
        return _evenly(first, last, count, kind), count, True
    edges: Any = bins if isinstance(bins, Proxy) else np.asarray(bins)
    if edges.ndim != 1:
        raise LoopwrightValueError("`bins` must be 1d, when an array")
    if not isinstance(edges, Proxy) and np.any(edges[:-1] > edges[1:]):
        raise LoopwrightValueError("`bins` must increase monotonically, when an array")
    return edges, edges.shape[0] - 1, False


def _evenly(first: Any, last: Any, count: int, dtype: Any) -> Any:
    """``np.linspace`` of ``count + 1`` edges, between which may be traced."""
    if not isinstance(first, Proxy) and not isinstance(last, Proxy):
        return np.linspace(first, last, count + 1, dtype=dtype)
    step = (last - first) / count
    inner = np.arange(count).astype(step.dtype) * step + first
    return np.concatenate([inner, np.reshape(last, (1,))]).astype(dtype)


@implements(np.histogram_bin_edges)
def _histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    return _edges(lift(a), bins, range, weights)[0]


@implements(np.histogram)
def _histogram(
    a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Any, Any]:
    x: Any = lift(a)
    if x.dtype == bool:
        x = x.astype(np.uint8)
    edges, count, uniform = _edges(x, bins, range, weights)
    x = np.reshape(x, (-1,))
    places = _uniform_places(x, edges, count) if uniform else _places(x, edges, count)
    if weights is not None:
        weights = lift(weights)
        if weights.type.dtype.is_integer or weights.type.dtype.is_bool:
            weights = weights.astype(np.int64)
    counts = _counted(places, weights, count)
    if density:
        widths = np.diff(edges).astype(np.float64)
        counts = counts / widths / np.sum(counts)
    return counts, lift(edges)


def _uniform_places(x: Any, edges: Any, count: int) -> Any:
    """The bin of each element: a product, then a step to the side where the edges say so. Elements
    outside of all have the bin ``count``."""
    first, last = edges[0], edges[-1]
    kind = np.result_type(edges.dtype, x.dtype)
    moved = (x - first).astype(kind) if x.dtype.kind == "f" else x.astype(kind) - first
    scaled = moved / (last - first) * count
    inside = (x >= first) & (x <= last)
    place = np.clip(np.where(inside, scaled, 0).astype(np.int32), 0, count - 1)
    table = lift(edges)
    # At most one of the two holds, as edges increase.
    before, after = x < table[place], (x >= table[place + 1]) & (place != count - 1)
    return np.where(inside, place - before + after, count)


def _places(x: Any, edges: Any, count: int) -> Any:
    """The bin of each element between edges; an element at the last edge is in the last bin, one
    outside of all has the bin ``count``."""
    place = searchsorted(edges, x, "right") - 1
    place = np.where(x == edges[-1], count - 1, place)
    return np.where((place >= 0) & (x <= edges[-1]), place, count)
