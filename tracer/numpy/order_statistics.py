"""Medians, quantiles and percentiles, and those that ignore nan.

A quantile lies at a place of the sorted elements, as a rule between two of them; ``PLACES`` says
where ("Sample Quantiles in Statistical Packages", Hyndman and Fan, 1996). nan sorts last: where the
last element is nan, so is the result; functions that ignore nan count the other elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.dims import Dim, product
from ...ir.dtype import FLOAT64, INT64
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from ...ir.graph.requirements import Requirement, greater, is_data_size, require
from ..core.dispatch import UNSET, implements
from ..core.emitting import emit, lift
from ..core.proxy import Proxy
from .creation import zeros
from .reductions import Axis, axes_of


def _averaged(place: Any) -> Any:
    whole = np.floor(place)
    return np.where(place == whole, whole - 0.5, whole)


def _closest(place: Any) -> Any:
    whole = np.floor(place)
    return np.where((place == whole) & (whole % 2 == 1), whole, whole + 1)


PLACES: dict[str, Callable[[Any, Any], Any]] = {
    "inverted_cdf": lambda n, q: np.ceil(n * q) - 1,
    "averaged_inverted_cdf": lambda n, q: _averaged(n * q),
    "closest_observation": lambda n, q: _closest(n * q - 1.5),
    "interpolated_inverted_cdf": lambda n, q: n * q - 1,
    "hazen": lambda n, q: n * q - 0.5,
    "weibull": lambda n, q: n * q + q - 1,
    "linear": lambda n, q: (n - 1) * q,
    "median_unbiased": lambda n, q: n * q + (1 / 3 + q * (1 / 3)) - 1,
    "normal_unbiased": lambda n, q: n * q + (3 / 8 + q * (1 / 4)) - 1,
    "lower": lambda n, q: np.floor((n - 1) * q),
    "higher": lambda n, q: np.ceil((n - 1) * q),
    "midpoint": lambda n, q: (np.floor((n - 1) * q) + np.ceil((n - 1) * q)) / 2,
    "nearest": lambda n, q: np.rint((n - 1) * q),
}
"""Places of a quantile q among n sorted elements, counted from 0, by the method's name."""

_CHOOSING = ("inverted_cdf", "closest_observation", "lower", "higher", "nearest")


def _ordered(x: Any, axis: Axis, may_be_empty: bool) -> tuple[Any, tuple[Any, ...], Any]:
    """``x`` sorted along ``axis``, which become the last one, the sizes of the other axes, and the
    number of elements of a row. Rows of no elements have a nan, which is the result; rows that may
    have none have one more behind their elements."""
    axes = axes_of(axis, x.ndim)
    axes = tuple(range(x.ndim)) if axes is None else axes
    others = tuple(n for n in range(x.ndim) if n not in axes)
    kept: tuple[Any, ...] = tuple(x.shape[n] for n in others)
    size: Any = product(x.shape[n] for n in axes)
    message = f"{x.type.short} has no quantiles along axis {axis}"
    open_size = is_data_size(size) and not Requirement(1, "<=", size).decided
    if open_size and not may_be_empty:
        from ..core.runtime_checks import check  # loaded when it is first needed

        none = emit("less", lift(size, INT64), lift(1, INT64))
        check(none, IndexError, "index -1 is out of bounds for axis 0 with size 0")
    elif not open_size and not require(1, "<=", size, message) and not may_be_empty:
        raise LoopwrightValueError(message)
    if size == 0:
        dtype = x.dtype if x.type.dtype.is_inexact else np.float64
        return lift(np.full((*kept, 1), np.nan, dtype)), kept, 1
    rows: Any = np.reshape(np.transpose(x, (*others, *axes)), (*kept, size))
    if open_size and may_be_empty:
        dtype = x.type.dtype if x.type.dtype.is_inexact else FLOAT64
        behind = emit("full", shape=(*kept, 1), fill_value=np.nan, dtype=str(dtype))
        rows = np.concatenate([lift(rows, dtype), behind], axis=-1)
    return np.sort(rows, axis=-1), kept, size


def _at(ordered: Any, places: Any, kept: tuple[Any, ...]) -> Any:
    """The elements of each row at ``places``, which have the shape of the result."""
    if isinstance(places, Proxy):
        first: Any = places.shape[0] if places.ndim > len(kept) else 1
        moved: Any = np.moveaxis(np.reshape(places, (first, *kept)), 0, -1)
        return np.moveaxis(np.take_along_axis(ordered, moved, axis=-1), -1, 0)
    columns = [ordered[..., place] for place in places.ravel().tolist()]
    return np.stack(columns) if columns else np.zeros((0, *kept), ordered.dtype)


def _count(ordered: Any, count: Any, ignores_nan: bool) -> Any:
    """The number of elements of each row that count."""
    if not ignores_nan or ordered.dtype.kind not in "fc":
        if not isinstance(count, Dim):
            return count
        return emit("full", shape=ordered.type.shape[:-1], fill_value=count, dtype=str(FLOAT64))
    return np.sum(~np.isnan(ordered), axis=-1).astype(np.float64)


def _finished(
    result: Any, x: Any, ordered: Any, size: Any, axis: Axis, keepdims: Any, ignores_nan: bool
) -> Any:
    """The result with nan where a row has one, and with the axes that are to be kept."""
    if ordered.dtype.kind in "fc" and not ignores_nan:
        nan = lift(np.nan, result.type.dtype)
        last = -1 if ordered.type.shape[-1] == size else greater(size - 1, 0)
        result = emit("where", np.isnan(ordered[..., last]), nan, result)
    if keepdims is UNSET or not keepdims:
        return result
    axes = axes_of(axis, x.ndim)
    whole: Any = [1 if axes is None or n in axes else size for n, size in enumerate(x.shape)]
    outer = result.shape[: result.ndim - (ordered.ndim - 1)]
    return np.reshape(result, (*outer, *whole))


def _quantile(percent: bool, ignores_nan: bool) -> Callable[..., Any]:
    def quantile(
        a: Any,
        q: Any,
        axis: Axis = None,
        _out: Any = None,
        _overwrite_input: bool = False,
        method: str = "linear",
        keepdims: Any = UNSET,
        *,
        weights: Any = None,
        interpolation: Any = None,
    ) -> Any:
        if weights is not None or interpolation is not None:
            raise UnsupportedError(
                "weights= and interpolation= of quantiles", hint="method= without weights"
            )
        if method not in PLACES:
            raise LoopwrightValueError(f"method is one of {', '.join(PLACES)}, not {method!r}")
        x = lift(a)
        if x.type.dtype.is_bool:
            raise LoopwrightValueError("quantiles of bool", hint="x.astype(np.int8)")
        share, dtype = _shares(x, q, percent, method)
        if ignores_nan and x.size == 0:  # as NumPy: the mean, whatever q is
            return np.nanmean(x, axis, keepdims=keepdims is not UNSET and keepdims)
        ordered, kept, size = _ordered(x, axis, ignores_nan)
        # One axis of shares in front of those that are kept.
        shape = np.shape(share)
        share = np.reshape(share, (-1, *(1 for _ in kept)))
        count = _count(ordered, size, ignores_nan)
        if isinstance(count, Proxy) or isinstance(share, Proxy):
            constant = all(isinstance(size, int) for size in kept)
            share = share + (np.zeros(kept) if constant else zeros(kept))
        last = np.maximum(count - 1, 0) if isinstance(count, Proxy) else count - 1
        place = np.minimum(np.maximum(PLACES[method](count, share), 0), last)
        low = np.floor(place)
        before = low.astype(np.int64)
        result = _at(ordered, before, kept)
        if method not in _CHOOSING:
            last = last.astype(np.int64) if isinstance(count, Proxy) else last
            after = np.minimum(before + 1, last)
            result = _between(result, _at(ordered, after, kept), place - low, dtype)
        result = np.reshape(result, (*shape, *kept))
        return _finished(result, x, ordered, size, axis, keepdims, ignores_nan)

    return quantile


def _shares(x: Proxy, q: Any, percent: bool, method: str) -> tuple[Any, Any]:
    """The quantiles as shares of 1 in float64, and the dtype of the result."""
    numpys: Any = np.percentile if percent else np.quantile
    like = np.zeros(1, q.dtype) if isinstance(q, Proxy) else q
    try:
        dtype = numpys(np.ones(1, x.dtype), like, method=method).dtype
    except (TypeError, ValueError) as error:
        family = LoopwrightTypeError if isinstance(error, TypeError) else LoopwrightValueError
        raise family(str(error)) from None
    share = q.astype(np.float64) if isinstance(q, Proxy) else np.asarray(q, np.float64)
    return share / 100 if percent else share, dtype


def _between(low: Any, high: Any, part: Any, dtype: Any) -> Any:
    """The value ``part`` of the way from one to the other, rounded as NumPy does."""
    part = part.astype(dtype)
    difference = high - low
    return np.where(part >= 0.5, high - difference * (1 - part), low + difference * part).astype(
        dtype
    )


for _percent, _name in ((False, "quantile"), (True, "percentile")):
    implements(getattr(np, _name))(_quantile(_percent, False))
    implements(getattr(np, f"nan{_name}"))(_quantile(_percent, True))


def _median(ignores_nan: bool) -> Callable[..., Any]:
    def median(
        a: Any,
        axis: Axis = None,
        _out: Any = None,
        _overwrite_input: bool = False,
        keepdims: Any = UNSET,
    ) -> Any:
        x = lift(a)
        dtype = x.dtype if x.type.dtype.is_inexact else np.dtype(np.float64)
        ordered, kept, size = _ordered(x, axis, may_be_empty=True)
        count = _count(ordered, size, ignores_nan)
        if isinstance(count, Proxy):
            last = np.maximum(count - 1, 0) / 2
            places = (np.floor(last).astype(np.int64), np.ceil(last).astype(np.int64))
        else:
            places = (np.array((count - 1) // 2), np.array(count // 2))
        low, high = (_at(ordered, place, kept).astype(dtype) for place in places)
        one = not isinstance(count, Proxy) and count % 2
        middle = low if one else (low + high) / 2
        if isinstance(count, Dim | Proxy):  # two times the middle element may overflow
            middle = np.where(low == high, low, middle)
        result = np.reshape(middle, kept)
        return _finished(result, x, ordered, size, axis, keepdims, ignores_nan)

    return median


implements(np.median)(_median(False))
implements(np.nanmedian)(_median(True))
