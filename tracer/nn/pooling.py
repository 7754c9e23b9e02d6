"""Pooling of images with one to three spatial axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.dims import Dim, product
from ...ir.dtype import dtype_of
from ...ir.graph.requirements import greater
from ...ir.ops.window import per_spatial_axis
from ..core.argument_conversion import Ints, checked, like
from ..core.emitting import emit
from .apply import apply
from .convolution import each, rank_and_layout, sides_of


@checked
def max_pool(
    x: Any,
    pool_size: Ints,
    *,
    strides: Ints | None = None,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    layout: str | None = None,
    ceil_mode: bool = False,
) -> Any:
    """Returns the greatest element of each window, along one, two or three spatial axes.

    ``x`` is ``(n, c, *sizes)``, or ``(n, *sizes, c)`` where ``layout`` (``"NWC"``, ``"NHWC"``,
    ``"NDHWC"``) says so. Everything else as in ``max_pool2d``.

    >>> import numpy as np
    >>> from loopwright import nn
    >>> nn.max_pool(np.float32([[[1, 3, 2, 5]]]), 2).tolist()
    [[[3.0, 5.0]]]
    """
    rank, attrs = _windows(x, pool_size, strides, padding, dilation, layout)
    return apply(f"nn.max_pool{rank}d", x, floats=False, ceil_mode=ceil_mode, **attrs)


@checked
def avg_pool(
    x: Any,
    pool_size: Ints,
    *,
    strides: Ints | None = None,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    layout: str | None = None,
    count_include_pad: bool = False,
    ceil_mode: bool = False,
) -> Any:
    """Returns the mean of each window, of the real elements only unless ``count_include_pad``.

    Arguments as of ``max_pool``.

    >>> import numpy as np
    >>> from loopwright import nn
    >>> nn.avg_pool(np.float32([[[1, 3, 2, 5]]]), 2).tolist()
    [[[2.0, 3.5]]]
    """
    rank, attrs = _windows(x, pool_size, strides, padding, dilation, layout)
    attrs |= {"count_include_pad": count_include_pad, "ceil_mode": ceil_mode}
    return apply(f"nn.avg_pool{rank}d", x, **attrs)


@checked
def lp_pool(
    x: Any,
    pool_size: Ints,
    p: float = 2,
    *,
    strides: Ints | None = None,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    layout: str | None = None,
    ceil_mode: bool = False,
) -> Any:
    """Returns the ``p``-norm of each window: ``sum(|x| ** p) ** (1 / p)``.

    Arguments as of ``max_pool``.

    >>> import numpy as np
    >>> from loopwright import nn
    >>> nn.lp_pool(np.float32([[[3, 4, 0, -2]]]), 2).tolist()
    [[[5.0, 2.0]]]
    """
    rank, attrs = _windows(x, pool_size, strides, padding, dilation, layout)
    powers = x * x if p == 2 else np.abs(x) ** p
    total = apply(f"nn.sum_pool{rank}d", powers, ceil_mode=ceil_mode, **attrs)
    return np.sqrt(total) if p == 2 else total ** (1 / p)


@checked
def max_pool_with_indices(
    x: Any,
    pool_size: Ints,
    *,
    strides: Ints | None = None,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
) -> Any:
    """Returns the greatest element of each window, and where it stands in its image.

    ``x`` is ``(n, c, *sizes)``; positions are int64 and count the elements of one image in
    row-major order; of equal elements, the first one counts. Arguments as of ``max_pool``.

    >>> import numpy as np
    >>> from loopwright import nn
    >>> values, places = nn.max_pool_with_indices(np.float32([[[1, 3, 2, 5]]]), 2)
    >>> values.tolist(), places.tolist()
    ([[[3.0, 5.0]]], [[[1, 3]]])
    """
    rank, attrs = _windows(x, pool_size, strides, padding, dilation, None)
    value = apply(f"nn.max_pool{rank}d", x, floats=False, ceil_mode=ceil_mode, **attrs)
    sizes, counts = x.shape[2:], value.shape[2:]
    least = -np.inf if dtype_of(x.dtype).is_float else np.iinfo(x.dtype).min
    if any(isinstance(size, Dim) for size in sizes):
        place = emit("iota", shape=(product(sizes),), axis=0, dtype="int64")
    else:
        place = np.arange(math.prod(sizes))
    place = np.reshape(place, (1, 1, *sizes))
    # One axis after the other, the last one first: of equal elements the first in row-major order
    # remains. Positions in the padding are negative, and give way to any other.
    for n in reversed(range(rank)):
        size, step, spread = attrs["pool_size"][n], attrs["strides"][n], attrs["dilation"][n]
        last = (counts[n] - 1) * step + (size - 1) * spread
        before = attrs["padding"][n]
        widths: list[tuple[Any, Any]] = [(0, 0)] * (rank + 2)
        widths[n + 2] = (before, greater(last + 1 - before - sizes[n], 0))
        x = np.pad(x, widths, constant_values=least)
        place = np.pad(place, widths, constant_values=-1)
        every = [slice(None)] * (rank + 2)

        def at(array: Any, k: int, n: int = n, every: Any = every, step: int = step) -> Any:
            every[n + 2] = slice(k, k + (counts[n] - 1) * step + 1, step)
            return array[tuple(every)]

        best, best_place = at(x, 0), at(place, 0)
        for k in range(spread, size * spread, spread):
            other, other_place = at(x, k), at(place, k)
            wins = (other > best) | ((best_place < 0) & (other_place >= 0))
            wins = wins | np.isnan(other) if x.dtype.kind == "f" else wins
            best = np.where(wins, other, best)
            best_place = np.where(wins, other_place, best_place)
        x, place = best, best_place
    return value, np.broadcast_to(place, value.shape)


@checked
def adaptive_avg_pool(x: Any, output_size: Ints) -> Any:
    """Returns means of as many windows as ``output_size`` says, which cover ``x`` evenly.

    ``x`` is ``(n, c, *sizes)``. Window ``i`` of ``m`` begins at ``floor(i * size / m)`` and ends
    before ``ceil((i + 1) * size / m)``.

    >>> import numpy as np
    >>> from loopwright import nn
    >>> nn.adaptive_avg_pool(np.float32([[[1, 2, 3, 4, 5]]]), 2).tolist()
    [[[2.0, 4.0]]]
    """
    return _adaptive(x, output_size, avg_pool, np.add)


@checked
def adaptive_max_pool(x: Any, output_size: Ints) -> Any:
    """Returns the greatest elements of the windows of ``adaptive_avg_pool``.

    >>> import numpy as np
    >>> from loopwright import nn
    >>> nn.adaptive_max_pool(np.float32([[[1, 2, 3, 4, 5]]]), 2).tolist()
    [[[3.0, 5.0]]]
    """
    return _adaptive(x, output_size, max_pool, np.maximum)


def _adaptive(x: Any, output_size: Ints, pool: Callable[..., Any], join: Any) -> Any:
    rank, _ = rank_and_layout(x, None)
    sizes = x.shape[2:]
    counts = per_spatial_axis("output_size", each(output_size, rank), rank)
    if all(size % count == 0 for size, count in zip(sizes, counts, strict=True)):
        return pool(x, tuple(s // c for s, c in zip(sizes, counts, strict=True)))
    for axis, (size, count) in enumerate(zip(sizes, counts, strict=True), 2):
        steps = np.arange(count)
        begin, end = steps * size // count, -(-(steps + 1) * size // count)
        # Windows differ by one element: the shorter ones count their last element again, or zero.
        total = np.take(x, begin, axis=axis)
        column = (-1, *(1,) * (rank + 1 - axis))
        for k in range(1, int((end - begin).max())):
            inside = begin + k < end
            part = np.take(x, np.minimum(begin + k, end - 1), axis=axis)
            if join is np.add and not inside.all():
                part = np.where(inside.reshape(column), part, x.dtype.type(0))
            total = join(total, part)
        x = total if join is np.maximum else total / (end - begin).reshape(column).astype(x.dtype)
    return x


_PAIRS = ("pool_size", "strides", "dilation")
max_pool2d = like(
    max_pool,
    "max_pool2d",
    """Returns the greatest element of each window; padding counts as minus infinity.

    ``strides`` default to ``pool_size``. ``padding`` as in ``conv2d``; the sizes, too.

    >>> nn.max_pool2d(np.float32([[[[1, 2], [3, 6]]]]), 2).tolist()
    [[[[6.0]]]]
    """,
    _PAIRS,
    layout="NCHW",
)
avg_pool2d = like(
    avg_pool,
    "avg_pool2d",
    """Returns the mean of each window, of the real elements only unless ``count_include_pad``.

    ``strides`` default to ``pool_size``. ``padding`` as in ``conv2d``; the sizes, too.

    >>> nn.avg_pool2d(np.float32([[[[1, 2], [3, 6]]]]), 2).tolist()
    [[[[3.0]]]]
    """,
    _PAIRS,
    layout="NCHW",
)


def _windows(
    x: Any, pool_size: Any, strides: Any, padding: Any, dilation: Any, layout: str | None
) -> tuple[int, dict[str, Any]]:
    """Returns the number of spatial axes, and the attributes of a pooling operator."""
    rank, layout = rank_and_layout(x, layout)
    window, spread = each(pool_size, rank), each(dilation, rank)
    step = window if strides is None else each(strides, rank)
    pads = sides_of(padding, window, spread, step)
    windows = {"pool_size": window, "strides": step, "padding": pads, "dilation": spread}
    return rank, {**windows, "layout": layout}
