"""Sampling of images at places that are data: grids, regions of interest, deformed windows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...ir.dtype import float_for
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError
from ..core.argument_conversion import Ints, checked
from ..core.emitting import common_dtype
from ..core.proxy import Proxy
from .convolution import each
from .indexing import gather_nd

_PADDINGS = ("zeros", "border", "reflection")
_CUBIC_A = -0.75


def _as(value: Any, dtype: Any) -> Any:
    return value.astype(dtype) if type(value) is Proxy else np.asarray(value, dtype)


def _floats(*values: Any) -> tuple[Any, ...]:
    """Returns the operands in their common float dtype."""
    dtype = float_for(common_dtype(*values)).numpy
    return tuple(_as(value, dtype) for value in values)


def _reflected(place: Any, low: float, high: float) -> Any:
    """Returns places reflected to and fro between ``low`` and ``high``."""
    width = high - low
    if width <= 0:
        return place * 0
    distance = np.abs(place - low)
    rest = distance - np.floor(distance / (2 * width)) * (2 * width)
    return low + np.minimum(rest, 2 * width - rest)


def _gathered(x: Any, indices: Sequence[Any]) -> Any:
    """Returns ``x[n, indices[0][n, ...], ..., c]`` of images (N, S..., C): (N, ..., C)."""
    place = np.stack([i.astype(np.int64) for i in indices], axis=-1)
    return gather_nd(x, place, batch_dims=1)


def _cubic_weights(t: Any) -> list[Any]:
    """Returns the weights of the four neighbours, for the fraction ``t`` behind the second."""

    def near(d: Any) -> Any:
        return ((_CUBIC_A + 2) * d - (_CUBIC_A + 3)) * d * d + 1

    def far(d: Any) -> Any:
        return ((_CUBIC_A * d - 5 * _CUBIC_A) * d + 8 * _CUBIC_A) * d - 4 * _CUBIC_A

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def sampled(
    x: Any, places: Sequence[Any], mode: str, padding: str, align_corners: bool = True
) -> Any:
    """Returns images (N, S..., C) at ``places``, one array (N, ...) per axis: (N, ..., C)."""
    sizes = x.shape[1:-1]
    choices: list[list[tuple[Any, Any, Any]]] = []  # per axis: index, weight, inside
    for place, size in zip(places, sizes, strict=True):
        low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
        if mode == "cubic":
            pass  # the place stays outside, its neighbours do not
        elif padding == "reflection":
            place = np.clip(_reflected(place, low, high), 0, size - 1)
        elif padding == "border":
            place = np.clip(place, 0, size - 1)
        floor = np.rint(place) if mode == "nearest" else np.floor(place)
        if mode == "nearest":
            near = [(floor, None)]
        elif mode == "linear":
            near = [(floor, 1 - (place - floor)), (floor + 1, place - floor)]
        else:
            weights = _cubic_weights(place - floor)
            near = [(floor + n - 1, weight) for n, weight in enumerate(weights)]
        row: list[tuple[Any, Any, Any]] = []
        for index, weight in near:
            inside = None
            if padding == "zeros":
                inside = np.logical_and(index >= 0, index <= size - 1)
            elif padding == "reflection":
                index = _reflected(index, low, high)
            row.append((np.clip(index, 0, size - 1), weight, inside))
        choices.append(row)
    total: Any = None
    for corner in itertools.product(*choices):
        value = _gathered(x, [index for index, _, _ in corner])
        for _, weight, inside in corner:
            if inside is not None:
                value = np.where(np.expand_dims(inside, -1), value, x.dtype.type(0))
            if weight is not None:
                value = value * np.expand_dims(weight, -1)
        total = value if total is None else total + value
    return total


@checked
def grid_sample(
    x: Any,
    grid: Any,
    mode: str = "linear",
    padding: str = "zeros",
    align_corners: bool = False,
) -> Any:
    """Returns images at the places of a grid.

    ``x`` is ``(n, c, *sizes)``; ``grid`` is ``(n, *result sizes, axes)``, the last axis of ``x``
    first, where -1 and 1 are the centres of the outermost elements (``align_corners``) or their
    outer borders. ``mode`` is ``"nearest"``, ``"linear"`` or ``"cubic"``; ``padding`` says what
    lies outside: ``"zeros"``, ``"border"``, the nearest element, or ``"reflection"``. Raises
    LoopwrightTypeError where shapes do not fit, LoopwrightValueError for other words.

    >>> import numpy as np
    >>> from loopwright import nn
    >>> image, grid = np.float32([[[[1, 2, 4]]]]), np.float32([[[[-0.5, 0], [1, 0]]]])
    >>> nn.grid_sample(image, grid, align_corners=True).tolist()
    [[[[1.5, 4.0]]]]
    """
    if mode not in ("nearest", "linear", "cubic") or padding not in _PADDINGS:
        raise LoopwrightValueError(
            f"grid_sample: mode {mode!r} and padding {padding!r}; there are nearest, linear and "
            f"cubic, and {', '.join(_PADDINGS)}"
        )
    x, grid = _floats(x, grid)
    rank = np.ndim(x) - 2
    if rank < 1 or np.ndim(grid) != rank + 2 or np.shape(grid)[-1] != rank:
        raise LoopwrightTypeError(
            f"grid_sample: images of shape {tuple(np.shape(x))}, a grid of {tuple(np.shape(grid))}"
        )
    if np.shape(grid)[0] != np.shape(x)[0] or 0 in np.shape(x)[2:]:
        raise LoopwrightTypeError(
            f"grid_sample: images of shape {tuple(np.shape(x))}, a grid of {tuple(np.shape(grid))}"
        )
    places = []
    for n, size in enumerate(x.shape[2:]):
        place = grid[..., rank - 1 - n]
        if align_corners:
            places.append((place + 1) * ((size - 1) / 2))
        else:
            places.append(((place + 1) * size - 1) / 2)
    result = sampled(np.moveaxis(x, 1, -1), places, mode, padding, align_corners)
    return np.moveaxis(result, -1, 1)


@checked
def affine_grid(theta: Any, size: Ints, align_corners: bool = False) -> Any:
    """Returns the grid of ``grid_sample`` that shows images under linear maps.

    ``theta`` is ``(n, axes, axes + 1)``; ``size`` are the sizes of the result, ``(h, w)`` or
    ``(d, h, w)``. The grid is ``(n, *size, axes)``.

    >>> import numpy as np
    >>> from loopwright import nn
    >>> same = np.float32([[[1, 0, 0], [0, 1, 0]]])
    >>> nn.affine_grid(same, (1, 2), align_corners=True).tolist()
    [[[[-1.0, -1.0], [1.0, -1.0]]]]
    """
    (theta,) = _floats(theta)
    sizes = (size,) if isinstance(size, int) else tuple(size)
    rank = len(sizes)
    if np.shape(theta)[1:] != (rank, rank + 1) or any(s < 1 for s in sizes):
        raise LoopwrightTypeError(
            f"affine_grid: theta of shape {tuple(np.shape(theta))} for the sizes {sizes}"
        )
    lines = []
    for n in sizes:
        line = np.linspace(-1, 1, n) if align_corners else (2 * np.arange(n) + 1) / n - 1
        lines.append(line if n > 1 or not align_corners else np.array([-1.0]))
    axes = np.meshgrid(*lines, indexing="ij")
    base = np.stack([*reversed(axes), np.ones(sizes)], axis=-1).reshape(-1, rank + 1)
    grid = np.matmul(base.astype(theta.dtype), np.swapaxes(theta, 1, 2))
    return np.reshape(grid, (theta.shape[0], *sizes, rank))


@checked
def roi_align(
    x: Any,
    rois: Any,
    batch_indices: Any,
    output_size: Ints,
    *,
    spatial_scale: float = 1.0,
    sampling_ratio: int = 2,
    aligned: bool = True,
    mode: str = "avg",
) -> Any:
    """Returns regions of images, resampled to one size: (regions, c, height, width).

    ``x`` is ``(n, c, h, w)``; ``rois`` are ``(regions, 4)``, x and y of two corners, in units of
    ``x`` over ``spatial_scale``; ``batch_indices`` say in which image each lies. Every element is
    the mean (``mode="avg"``) of ``sampling_ratio`` squared places in its part of the region, which
    are interpolated, or the greatest of their weighted neighbours (``"max"``). ``aligned`` moves
    the regions by half an element. He and others, "Mask R-CNN" (2017).

    >>> import numpy as np
    >>> from loopwright import nn
    >>> image, rois = np.float32([[[[1, 2], [3, 4]]]]), np.float32([[0, 0, 2, 2]])
    >>> nn.roi_align(image, rois, np.array([0]), 1, sampling_ratio=2).tolist()
    [[[[2.5]]]]
    """
    x, rois = _floats(x, rois)
    sizes = tuple(np.shape(x)[2:])
    if np.ndim(x) != 4 or np.ndim(rois) != 2 or np.shape(rois)[1] != 4 or 0 in sizes:
        raise LoopwrightTypeError(
            f"roi_align: images of shape {tuple(np.shape(x))}, regions of {tuple(np.shape(rois))}"
        )
    if mode not in ("avg", "max") or sampling_ratio < 1:
        raise LoopwrightValueError(
            f"roi_align: mode {mode!r} with {sampling_ratio} places; there are avg and max, and at "
            "least one place"
        )
    counts = each(output_size, 2)
    regions = rois.shape[0]
    corner = rois * x.dtype.type(spatial_scale) - x.dtype.type(0.5 if aligned else 0)
    neighbours = []  # per axis: (index, weight) of both, (regions, count * ratio)
    inside = []
    for axis, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        begin, end = corner[:, 1 - axis], corner[:, 3 - axis]
        length = end - begin
        length = length if aligned else np.maximum(length, x.dtype.type(1))
        steps = ((np.arange(count * sampling_ratio) + 0.5) / (count * sampling_ratio)).astype(
            x.dtype
        )
        place = begin[:, None] + length[:, None] * steps
        inside.append(np.logical_and(place >= -1, place <= size))
        place = np.clip(place, 0, size - 1)
        low = np.floor(place)
        high = np.minimum(low + 1, x.dtype.type(size - 1))
        neighbours.append([(low, 1 - (place - low)), (high, place - low)])
    seen = np.logical_and(inside[0][:, :, None], inside[1][:, None, :])
    images = np.moveaxis(x, 1, -1)
    batch = np.broadcast_to(batch_indices.astype(np.int64)[:, None, None], seen.shape)
    parts = []
    for (y, wy), (z, wz) in itertools.product(*neighbours):
        rows = np.broadcast_to(y.astype(np.int64)[:, :, None], seen.shape)
        columns = np.broadcast_to(z.astype(np.int64)[:, None, :], seen.shape)
        value = gather_nd(images, np.stack([batch, rows, columns], axis=-1))
        parts.append(value * (wy[:, :, None] * wz[:, None, :])[..., None])
    joined = parts[0]
    for part in parts[1:]:
        joined = joined + part if mode == "avg" else np.maximum(joined, part)
    joined = np.where(seen[..., None], joined, x.dtype.type(0))
    blocks = (regions, counts[0], sampling_ratio, counts[1], sampling_ratio, x.shape[1])
    reduce = np.mean if mode == "avg" else np.max
    return np.moveaxis(reduce(np.reshape(joined, blocks), axis=(2, 4)), -1, 1)


@checked
def deform_conv2d(
    x: Any,
    w: Any,
    offset: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    strides: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
    offset_groups: int = 1,
) -> Any:
    """Convolution whose windows are deformed: each of their elements is moved by an offset.

    ``x`` is ``(n, c, h, w)`` and ``w`` ``(out, c / groups, kh, kw)``; ``offset`` is
    ``(n, offset_groups * kh * kw * 2, oh, ow)``, rows and columns by which the elements of each
    window move, ``mask`` ``(n, offset_groups * kh * kw, oh, ow)`` multiplies what is read there.
    Places between elements are interpolated, outside of ``x`` there are zeros. Dai and others,
    "Deformable Convolutional Networks" (2017). Raises LoopwrightTypeError where shapes do not fit.

    >>> import numpy as np
    >>> from loopwright import nn
    >>> image, w = np.float32([[[[1, 2, 4]]]]), np.ones((1, 1, 1, 1), np.float32)
    >>> offset = np.zeros((1, 2, 1, 3), np.float32) + np.float32([[[0.0]], [[0.5]]])
    >>> nn.deform_conv2d(image, w, offset).tolist()
    [[[[1.5, 3.0, 2.0]]]]
    """
    x, w, offset = _floats(x, w, offset)
    if np.ndim(x) != 4 or np.ndim(w) != 4 or np.ndim(offset) != 4:
        raise LoopwrightTypeError("deform_conv2d: x, w and offset have four axes")
    n, channels = x.shape[:2]
    outputs, kernel = w.shape[0], w.shape[2:]
    taps, places = prod(kernel), offset.shape[2:]
    fits = groups > 0 and offset_groups > 0 and w.shape[1] * groups == channels
    fits = fits and channels % offset_groups == 0 and outputs % groups == 0
    if not fits or offset.shape[:2] != (n, offset_groups * taps * 2):
        raise LoopwrightTypeError(
            f"deform_conv2d: shapes {x.shape}, {w.shape} and {offset.shape} in {groups} groups and "
            f"{offset_groups} of offsets do not fit"
        )
    step, spread = each(strides, 2), each(dilation, 2)
    sides = each(padding, 2)
    moves = np.reshape(offset, (n, offset_groups, *kernel, 2, *places))
    # Where each element of each window would lie without offsets, [kh, kw, oh, ow].
    rows = np.arange(kernel[0])[:, None] * spread[0] + np.arange(places[0]) * step[0] - sides[0]
    columns = np.arange(kernel[1])[:, None] * spread[1] + np.arange(places[1]) * step[1] - sides[1]
    images = np.moveaxis(x, 1, -1)
    part = channels // offset_groups
    sums = []
    for group in range(offset_groups):
        y = moves[:, group, :, :, 0] + rows[:, None, :, None].astype(x.dtype)
        z = moves[:, group, :, :, 1] + columns[None, :, None, :].astype(x.dtype)
        value = sampled(images[..., group * part : (group + 1) * part], [y, z], "linear", "zeros")
        if mask is not None:
            weights = np.reshape(mask, (n, offset_groups, *kernel, *places))[:, group]
            value = value * weights[..., None]
        sums.append(value)
    windows = sums[0] if len(sums) == 1 else np.concatenate(sums, axis=-1)
    windows = np.reshape(windows, (n, taps, prod(places), groups, channels // groups))
    # (n, groups, places, taps * channels) times (groups, taps * channels, outputs)
    windows = np.transpose(windows, (0, 3, 2, 1, 4))
    windows = np.reshape(windows, (n, groups, prod(places), taps * (channels // groups)))
    weights = np.reshape(w, (groups, outputs // groups, channels // groups, taps))
    weights = np.transpose(weights, (0, 3, 2, 1))
    weights = np.reshape(weights, (groups, taps * (channels // groups), outputs // groups))
    result = np.transpose(np.matmul(windows, weights), (0, 1, 3, 2))
    result = np.reshape(result, (n, outputs, *places))
    return result if bias is None else result + np.reshape(bias, (-1, 1, 1))
