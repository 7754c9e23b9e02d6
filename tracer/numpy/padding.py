"""``np.pad`` in all of its modes, and windows: ``sliding_window_view``, ``as_strided``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ...ir.dims import Dim, as_int
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from ...ir.graph.requirements import lesser, require
from ..core.dispatch import implements, views
from ..core.emitting import emit, lift, read_only_view
from ..core.proxy import Proxy
from ..memory.storage import dense
from .calculus import windows
from .editing import chosen, counted, part
from .reductions import normalise_axis
from .shaping import broadcast_to, flattened, listed

_OPTIONS = {
    **dict.fromkeys(("maximum", "mean", "median", "minimum"), "stat_length"),
    **dict.fromkeys(("reflect", "symmetric"), "reflect_type"),
    "constant": "constant_values",
    "linear_ramp": "end_values",
    **dict.fromkeys(("edge", "wrap", "empty"), ""),
}
"""The keyword that each mode takes."""


@implements(np.pad)
def _pad(array: Any, pad_width: Any, mode: Any = "constant", **options: Any) -> Proxy:
    x = lift(array)
    if mode not in _OPTIONS:
        raise UnsupportedError(
            f"np.pad: mode {mode!r} is not supported", hint=", ".join(sorted(_OPTIONS))
        )
    for name in options:
        if name != _OPTIONS[mode]:
            raise LoopwrightValueError(f"unsupported keyword arguments for mode {mode!r}: {name}")
    pairs = _pad_pairs(pad_width, x.ndim)
    if options.get("reflect_type", "even") != "even":
        raise UnsupportedError("np.pad: reflect_type='odd' is not supported", hint="2 * edge - x")
    value = options.get("constant_values", 0)
    if mode in ("constant", "empty") and isinstance(value, bool | int | float | np.generic):
        value = value.item() if isinstance(value, np.generic) else value
        lift(value, x.type.dtype)  # refuses a number that does not fit
        return emit("nn.pad", x, pad_width=pairs, pad_value=value, mode="constant")
    if mode in ("edge", "reflect") and 0 not in x.shape:
        return emit("nn.pad", x, pad_width=pairs, pad_value=0, mode=mode)
    settings = _per_side(options.get(_OPTIONS[mode]), x.ndim)
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            x = _padded(x, axis, before, after, mode, settings[axis])
    return x


def _per_side(value: Any, rank: int) -> list[Any]:
    """A setting of ``np.pad`` as a pair for each axis."""
    if value is None:
        return [(None, None)] * rank
    shape = np.shape(value)
    if shape and shape[0] == rank and len(shape) == 2:
        return [(v[0], v[-1]) for v in value]
    if len(shape) == 2 and shape[0] == 1:
        value, shape = value[0], shape[1:]
    return [(value[0], value[-1]) if shape else (value, value)] * rank


def _padded(x: Proxy, axis: int, before: int, after: int, mode: str, settings: Any) -> Proxy:
    """``x`` with elements before and after an axis."""
    size = x.shape[axis]
    if mode not in ("constant", "empty") and not require(1, "<=", size, "pad: an empty axis"):
        raise LoopwrightValueError(
            f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'"
        )
    if mode in ("edge", "reflect", "symmetric", "wrap"):
        return chosen(x, axis, np.pad(np.arange(as_int(size)), (before, after), mode))  # type: ignore[call-overload]
    ends: list[Proxy] = []
    for count, setting, edge in ((before, settings[0], 0), (after, settings[1], -1)):
        shape = tuple(count if n == axis else s for n, s in enumerate(x.shape))
        if mode == "constant":
            ends.append(broadcast_to(lift(setting, x.type.dtype), shape))
        elif mode == "linear_ramp":
            ends.append(_ramp(x, axis, count, 0 if setting is None else setting, edge))
        else:
            ends.append(broadcast_to(_statistic(x, axis, mode, setting, edge), shape))
    return emit("concatenate", ends[0], x, ends[1], axis=axis)


def _ramp(x: Proxy, axis: int, count: int, end: Any, edge: int) -> Proxy:
    """Numbers from ``end`` up to, but without, the element at an edge."""
    size = x.shape[axis]
    border: Any = part(x, axis, size - 1, size) if edge else part(x, axis, 0, 1)
    steps: Any = np.arange(count) if not edge else np.arange(count - 1, -1, -1)
    steps = steps.reshape([-1 if n == axis else 1 for n in range(x.ndim)]) / max(count, 1)
    ramp = end + (border * 1.0 - end) * steps
    return lift(np.floor(ramp) if x.type.dtype.is_integer else ramp, x.type.dtype)


def _statistic(x: Proxy, axis: int, mode: str, length: Any, edge: int) -> Proxy:
    """The maximum, mean, median or minimum of the elements next to an edge."""
    size = x.shape[axis]
    count = size if length is None else lesser(int(length), size)
    near = part(x, axis, size - count, size) if edge else part(x, axis, 0, count)
    functions: Any = {"maximum": np.max, "minimum": np.min, "mean": np.mean, "median": np.median}
    value = functions[mode](near, axis=axis, keepdims=True)
    whole = x.type.dtype.is_integer and mode in ("mean", "median")
    return lift(np.rint(value) if whole else value, x.type.dtype)


def _pad_pairs(pad_width: Any, rank: int) -> Any:
    """Widths, some of which may be symbolic, as a pair (before, after) for each axis."""
    if isinstance(pad_width, dict):
        pairs = [(0, 0)] * rank
        for axis, width in pad_width.items():
            both = (width, width) if isinstance(width, int) else width
            pairs[normalise_axis(axis, rank)] = (int(both[0]), int(both[1]))
        return tuple(pairs)
    given = pad_width.tolist() if isinstance(pad_width, np.ndarray) else pad_width
    rows = [listed(row) for row in listed(given)]
    if all(len(row) == 1 for row in rows) and not isinstance(listed(given)[0], tuple | list):
        rows = [listed(given)]
    rows = rows * rank if len(rows) == 1 else rows
    if len(rows) != rank or {len(row) for row in rows} not in ({1}, {2}, set()):
        raise LoopwrightValueError(
            f"np.pad: {pad_width!r} is not a pair (before, after) for each of {rank} axes"
        )
    rows = [[w if isinstance(w, Dim) else int(w) for w in row] for row in rows]
    for width in (width for row in rows for width in row):
        if not require(0, "<=", width, message := f"np.pad: the width {width} is negative"):
            raise LoopwrightValueError(message)
    return tuple((row[0], row[-1]) for row in rows)


@implements(sliding_window_view)
@views
def _sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, _subok: bool = False, _writeable: bool = False
) -> Proxy:
    array, sizes = lift(x), [int(w) for w in listed(window_shape)]
    axes = (
        range(array.ndim) if axis is None else [normalise_axis(a, array.ndim) for a in listed(axis)]
    )
    if len(axes) != len(sizes):
        raise LoopwrightValueError(
            f"Must provide window_shape for all dimensions of `x`; got {len(sizes)} sizes for "
            f"{len(axes)} axes"
        )

    def read() -> Proxy:
        made = array
        for each, size in zip(axes, sizes, strict=True):
            message = "window shape cannot be larger than input array shape"
            if size < 0 or not require(size, "<=", made.shape[each], message):
                raise LoopwrightValueError(message)
            made = windows(made, size, each)
        return made

    return read_only_view(array, read)


@views
def as_strided(
    x: Any, shape: Any = None, strides: Any = None, _subok: bool = False, _writeable: bool = True
) -> Proxy:
    """``as_strided`` with known strides in bytes, on the elements of ``x`` itself."""
    array = lift(x)
    if array.strides is None or not dense(array.shape, array.strides):
        raise UnsupportedError("as_strided of an array that is not in C order", hint="its .copy()")
    array.owner.memory.by_layout = array.owner.memory.changed = True
    sizes = tuple(as_int(s) for s in (array.shape if shape is None else listed(shape)))
    item = array.itemsize
    if strides is None or any(not isinstance(s, int | np.integer) or s % item for s in strides):
        raise LoopwrightTypeError(
            f"as_strided: strides are known multiples of {item} bytes here, not {strides!r}"
        )
    steps = [int(s) // item for s in strides]
    reach = (
        [(s - 1) * step for s, step in zip(sizes, steps, strict=True)] if 0 not in sizes else [0]
    )
    total = as_int(array.size)
    if sum(min(r, 0) for r in reach) < 0 or sum(max(r, 0) for r in reach) >= max(total, 1):
        raise LoopwrightValueError(
            f"as_strided: shape {sizes} and strides {tuple(strides)} reach outside of "
            f"{array.type.short}"
        )

    def read() -> Proxy:
        place: Any = counted(1, 0, 1)[0]
        for axis, (size, step) in enumerate(zip(sizes, steps, strict=True)):
            place = place + counted(size, axis, len(sizes)) * step
        flat = flattened(array)
        return emit("take", flat, broadcast_to(place, sizes), axis=0, mode="clip")

    return read_only_view(array, read, hint="its .copy()")
