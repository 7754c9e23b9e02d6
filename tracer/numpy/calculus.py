"""NumPy's functions of sampled functions: differences, integrals, interpolation, convolution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ir.dims import Dim, as_int
from ...ir.dtype import FLOAT64, INT64
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from ...ir.graph.requirements import greater, require
from ..core.dispatch import FUNCTIONS, implements
from ..core.emitting import common_dtype, common_strong, emit, lift
from ..core.proxy import Proxy
from .creation import number
from .editing import counted, part
from .elementwise import where
from .reductions import Axis, axes_of, normalise_axis
from .shaping import broadcast_to, flattened, moveaxis, reshape


def _column(values: Proxy, axis: int, rank: int) -> Proxy:
    """A vector along an axis of an array of ``rank`` axes."""
    return reshape(values, tuple(values.shape[0] if n == axis else 1 for n in range(rank)))


@implements(np.gradient)
def _gradient(f: Any, *varargs: Any, axis: Axis = None, edge_order: int = 1) -> Any:
    """``np.gradient``: central differences, one-sided ones of ``edge_order`` at the ends."""
    x = lift(f)
    x = lift(x, FLOAT64) if x.type.dtype.is_integer else x
    given = axis if isinstance(axis, tuple | list) else None if axis is None else (axis,)
    axes_of(given, x.ndim)  # pyright: ignore[reportArgumentType]
    axes = range(x.ndim) if given is None else [normalise_axis(a, x.ndim) for a in given]
    steps = list(varargs) or [1.0]
    steps = steps * len(axes) if len(steps) == 1 else steps
    if len(steps) != len(axes):
        raise LoopwrightTypeError("invalid number of arguments")
    if edge_order not in (1, 2):
        raise LoopwrightValueError("'edge_order' greater than 2 not supported")
    made = [_slope(x, a, step, edge_order) for a, step in zip(axes, steps, strict=True)]
    return made[0] if len(made) == 1 else tuple(made)


def _slope(x: Proxy, axis: int, step: Any, edge_order: int) -> Proxy:
    size = x.shape[axis]
    message = (
        "Shape of array too small to calculate a numerical gradient, at least "
        "(edge_order + 1) elements are required."
    )
    if not require(edge_order + 1, "<=", size, message):
        raise LoopwrightValueError(message)
    places = lift(step)
    if places.ndim:
        message = "gradient: distances as long as their axis"
        if places.ndim != 1 or not require(places.shape[0], "==", size, message):
            raise LoopwrightValueError("distances must be scalars or 1d, as long as their axis")
        places = lift(places, FLOAT64) if places.type.dtype.is_integer else places
        return _uneven_slope(x, axis, _column(lift(np.diff(places)), axis, x.ndim), edge_order)
    y = [part(x, axis, n, n + 1) for n in range(edge_order + 1)]
    z = [part(x, axis, size - n - 1, size - n) for n in range(edge_order + 1)]
    if edge_order == 1:
        first, last = (y[1] - y[0]) / step, (z[0] - z[1]) / step
    else:
        first = (-1.5 * y[0] + 2.0 * y[1] - 0.5 * y[2]) / step
        last = (1.5 * z[0] - 2.0 * z[1] + 0.5 * z[2]) / step
    inner = (part(x, axis, 2) - part(x, axis, 0, size - 2)) / (2.0 * step)
    return _joined(x, axis, first, inner, last)


def _uneven_slope(x: Proxy, axis: int, gaps: Proxy, edge_order: int) -> Proxy:
    size = x.shape[axis]
    left, right = part(gaps, axis, 0, size - 2), part(gaps, axis, 1)
    both = left + right
    inner = (
        part(x, axis, 0, size - 2) * (-right / (left * both))
        + part(x, axis, 1, size - 1) * ((right - left) / (left * right))
        + part(x, axis, 2) * (left / (right * both))
    )
    ends: list[Any] = []
    for at_end in (False, True):
        order = [size - 1 - n if at_end else n for n in range(edge_order + 1)]
        y = [part(x, axis, n, n + 1) for n in order]
        step = [part(gaps, axis, n - at_end, n - at_end + 1) for n in order[:edge_order]]
        if edge_order == 1:
            slope = (y[1] - y[0]) / step[0]
        else:
            p, q = step
            slope = y[0] * (-(2.0 * p + q) / (p * (p + q))) + y[1] * ((p + q) / (p * q))
            slope = slope - y[2] * (p / (q * (p + q)))
        ends.append(-slope if at_end else slope)
    return _joined(x, axis, ends[0], inner, ends[1])


def _joined(x: Proxy, axis: int, *parts: Any) -> Proxy:
    cast = [lift(p, x.type.dtype) for p in parts if p.shape[axis] != 0]
    return emit("concatenate", *cast, axis=axis)


@implements(np.trapezoid)
def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    values = lift(y)
    axis = normalise_axis(axis, values.ndim)
    gaps: Any = dx
    if x is not None:
        places = lift(x)
        gaps = np.diff(places, axis=axis if places.ndim > 1 else -1)
        gaps = _column(gaps, axis, values.ndim) if places.ndim == 1 else gaps
    sums = part(values, axis, 1) + part(values, axis, 0, greater(values.shape[axis] - 1, 0))
    return np.sum(gaps * sums / 2.0, axis)


@implements(np.ediff1d)
def _ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Proxy:
    x = flattened(ary)
    parts: list[Any] = [np.diff(x)] if x.size != 0 else [x]
    for ends, where_to in ((to_begin, 0), (to_end, 2)):
        if ends is None:
            continue
        more = flattened(ends)
        if not np.can_cast(more.dtype, x.dtype, "same_kind") and more.weak is None:
            raise LoopwrightTypeError("dtype of ends must be compatible with input `ary`")
        parts.insert(where_to, lift(more, x.type.dtype))
    return FUNCTIONS[np.concatenate](parts)


@implements(np.unwrap)
def _unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = math.tau) -> Any:
    x = lift(p)
    axis = normalise_axis(axis, x.ndim)
    steps = np.diff(x, axis=axis)
    wide = common_dtype(steps, period)
    steps, whole = lift(steps, wide), wide.is_integer
    half = period // 2 if whole else period / 2
    jump = period / 2 if discont is None else discont
    folded = np.mod(steps - (-half), period) - half
    if not whole or period % 2 == 0:  # half a period is as near as its opposite
        folded = where(np.logical_and(folded == -half, steps > 0), half, folded)
    change = where(abs(steps) < jump, 0, folded - steps)
    first = lift(part(x, axis, 0, 1), wide)
    rest = lift(part(x, axis, 1), wide) + np.cumsum(change, axis)
    return emit("concatenate", first, lift(rest, wide), axis=axis)


_PARTS = (np.real, np.imag)


@implements(np.interp)
def _interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """``np.interp``: a binary search for the interval, then its line."""
    if lift(fp).type.dtype.is_complex:
        ends = [[None if e is None else part(lift(e)) for e in (left, right)] for part in _PARTS]
        parts = [
            _interp(x, xp, part(lift(fp)), low, high, period)
            for part, (low, high) in zip(_PARTS, ends, strict=True)
        ]
        return emit("complex", *parts)
    if any(lift(v).type.dtype.is_complex for v in (x, xp)):
        raise LoopwrightTypeError("interp: x and xp are real numbers")
    at, places, values = lift(x, FLOAT64), lift(xp, FLOAT64), lift(fp, FLOAT64)
    message = (
        f"interp: xp and fp are vectors of one length, not {places.type.short} and "
        f"{values.type.short}"
    )
    fits = places.ndim == values.ndim == 1 and require(1, "<=", places.size, message)
    if not fits or not require(places.size, "==", values.size, message):
        raise LoopwrightValueError(message)
    if period is not None:
        raise UnsupportedError(
            "np.interp: period= is not supported",
            hint="np.interp(x % period, xp, fp), with xp and fp a period longer on both sides",
        )
    last = places.size - 1

    def read(array: Proxy, place: Any) -> Proxy:
        return emit("take", array, place, axis=0, mode="clip")

    below: Any = emit("nn.searchsorted", places, at, right=True) - 1
    below = np.minimum(np.maximum(below, 0), number(greater(last - 1, 0), INT64))
    start, height = read(places, below), read(values, below)
    if last != 0:
        above = below + 1
        end, end_height = read(places, above), read(values, above)
        slope = (end_height - height) / (end - start)
        line = slope * (at - start) + height
        # An infinite slope times 0: the other end, or the height that both have.
        backwards = slope * (at - end) + end_height
        flat = where(height == end_height, height, math.nan)
        backwards = where(np.isnan(backwards), flat, backwards)
        made = where(np.isnan(line), backwards, line)
        made = where(at == end, end_height, where(at == start, height, made))
    else:
        made = broadcast_to(height, at.shape)
    made = where(at < places[0], values[0] if left is None else left, made)
    made = where(at > places[-1], values[-1] if right is None else right, made)
    result = where(np.isnan(at), at, made) if last != 0 else made
    return lift(result, FLOAT64) if at.ndim else Proxy(result.atom, result.owner)


def windows(x: Proxy, count: int, axis: int) -> Proxy:
    """The slices of ``count`` neighbours along an axis; the neighbours are the last axis."""
    x = moveaxis(x, axis, -1)
    size = greater(x.shape[-1] - count + 1, 0)
    places = counted(size, 0, 2) + counted(count, 1, 2)
    return moveaxis(emit("take", x, places, axis=x.ndim - 1, mode="clip"), -2, axis)


def _correlation(long: Proxy, short: Proxy, mode: Any) -> Proxy:
    """``sum(long[n + k] * short[k])`` for the offsets ``n`` of a mode; ``short`` is not longer."""
    size, count = long.size, as_int(short.size)
    mode = {0: "valid", 1: "same", 2: "full"}.get(mode, mode)
    if mode not in ("valid", "same", "full"):
        raise LoopwrightValueError(f"mode must be one of 'valid', 'same' and 'full', not {mode!r}")
    before, after = {
        "valid": (0, 0),
        "same": (count // 2, (count - 1) // 2),
        "full": (count - 1, count - 1),
    }[mode]
    if (before or after) and long.type.dtype.is_inexact:  # 0 * inf would be nan
        ends = [_cut_short(long, short, before, False), _cut_short(long, short, after, True)]
        inner = _correlation(long, short, "valid")
        return emit("concatenate", ends[0], inner, ends[1], axis=0)
    wide = emit("nn.pad", long, pad_width=((before, after),), pad_value=0, mode="constant")
    if count == 1:
        return emit("multiply", wide, short)
    if long.type.dtype.is_float:
        image = reshape(wide, (1, 1, size + before + after))
        made = emit("nn.conv1d", image, reshape(short, (1, 1, count)))
        return reshape(made, (made.shape[-1],))
    return emit("nn.matmul", windows(wide, count, 0), short)


def _cut_short(long: Proxy, short: Proxy, offsets: int, at_end: bool) -> Proxy:
    """The sums for the ``offsets`` at an end at which only a part of ``short`` meets ``long``."""
    rows, count = np.arange(offsets)[:, None], as_int(short.size)
    columns = np.arange(count)
    place: Any = rows + columns - (count - 1 if at_end else offsets)
    place = place + number(long.size, INT64) if at_end else place
    meets = rows + columns < count - 1 if at_end else rows + columns >= offsets
    terms = emit("multiply", emit("take", long, place, axis=0, mode="clip"), short)
    return emit("sum", where(meets, terms, lift(0, terms.type.dtype)), axis=(1,), keepdims=False)


@implements(np.convolve)
def _convolve(a: Any, v: Any, mode: Any = "full") -> Proxy:
    x, y = _signals(a, v)
    if _is_longer(y, x):
        x, y = y, x
    return _correlation(x, y[::-1], mode)


@implements(np.correlate)
def _correlate(a: Any, v: Any, mode: Any = "valid") -> Proxy:
    x, y = _signals(a, v)
    y = lift(np.conj(y)) if y.type.dtype.is_complex else y
    if _is_longer(y, x):
        return _correlation(y, x, mode)[::-1]
    return _correlation(x, y, mode)


def _signals(a: Any, v: Any) -> list[Proxy]:
    signals = [reshape(x, x.shape or (1,)) for x in common_strong(a, v)]
    message = "both operands are vectors that are not empty"
    if any(x.ndim != 1 or not require(1, "<=", x.size, message) for x in signals):
        raise LoopwrightValueError(message)
    return signals


def _is_longer(x: Proxy, y: Proxy) -> bool:
    """True if the first of two signals has more elements. Where that depends on symbolic sizes, the
    one whose size is known is required to be the shorter one."""
    if isinstance(x.size, Dim) and isinstance(y.size, int):
        return not _is_longer(y, x)
    return not require(x.size, "<=", y.size, "the longer one of two signals is known")
