"""Converters of operators that sample, cut and put together images."""

from __future__ import annotations

import numpy as np

from ....ir.errors import UnsupportedError
from ... import nn
from .table import Node, Value, converter, known

Ints = tuple[int, ...]


@converter("GridSample", since=16)
def _grid_sample(
    x: Value,
    grid: Value,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Value:
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    return nn.grid_sample(x, grid, mode, padding_mode, bool(align_corners))


@converter("AffineGrid", since=20)
def _affine_grid(theta: Value, size: Value, *, align_corners: int = 0) -> Value:
    sizes = tuple(known(size, "size").tolist()[2:])
    return nn.affine_grid(theta, sizes, bool(align_corners))


@converter("RoiAlign", since=10)
def _roi_align(
    node: Node,
    x: Value,
    rois: Value,
    batch_indices: Value,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Value:
    if not sampling_ratio:
        raise UnsupportedError(
            "its attribute sampling_ratio=0, by which regions choose the number of samples, is not "
            "supported"
        )
    return nn.roi_align(
        x,
        rois,
        batch_indices,
        (output_height, output_width),
        sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
        aligned=node.opset >= 16 and coordinate_transformation_mode == "half_pixel",
        mode=mode,
    )


@converter("MaxRoiPool", since=1)
def _max_roi_pool(
    x: Value, rois: Value, *, pooled_shape: Ints, spatial_scale: float = 1.0
) -> Value:
    scaled = rois[:, 1:] * rois.dtype.type(spatial_scale)
    corners = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)  # halves away from zero
    batch = rois[:, 0].astype(np.int64)
    least = x.dtype.type(-np.inf)
    # Rows, then columns: the greatest of each part of a region, by a mask over the whole axis.
    result = np.take(x, batch, axis=0)
    empty: Value = False
    for axis, (count, size) in enumerate(zip(pooled_shape, x.shape[2:], strict=True)):
        begin, end = corners[:, 1 - axis, None], corners[:, 3 - axis, None]
        length = np.maximum(end - begin + 1, 1) / count
        steps = np.arange(count).astype(x.dtype)
        first = np.clip(np.floor(steps * length) + begin, 0, size)
        last = np.clip(np.ceil((steps + 1) * length) + begin, 0, size)
        places = np.arange(size).astype(x.dtype)
        inside = np.logical_and(places >= first[..., None], places < last[..., None])
        nothing = (last <= first)[:, None, :, None] if axis == 0 else (last <= first)[:, None, None]
        empty = np.logical_or(empty, nothing)
        if axis == 0:
            masked = np.where(inside[:, None, :, :, None], result[:, :, None], least)
            result = np.max(masked, axis=3)
        else:
            masked = np.where(inside[:, None, None], result[:, :, :, None], least)
            result = np.max(masked, axis=4)
    return np.where(empty, x.dtype.type(0), result)


# kernel_shape: the weights have it.
@converter("DeformConv", since=19, ignores=("kernel_shape",))
def _deform_conv(
    x: Value,
    w: Value,
    offset: Value,
    bias: Value = None,
    mask: Value = None,
    *,
    dilations: Ints | None = None,
    group: int = 1,
    offset_group: int = 1,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Value:
    if x.ndim != 4:
        raise UnsupportedError(f"its input of {x.ndim - 2} spatial axes is not supported")
    return nn.deform_conv2d(
        x,
        w,
        offset,
        bias,
        mask,
        strides=strides or 1,
        padding=tuple(pads[:2]) if pads else 0,
        dilation=dilations or 1,
        groups=group,
        offset_groups=offset_group,
    )


@converter("Col2Im", since=18)
def _col2im(
    x: Value,
    image_shape: Value,
    block_shape: Value,
    *,
    dilations: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Value:
    sizes = known(image_shape, "image_shape").tolist()
    block = known(block_shape, "block_shape").tolist()
    rank = len(sizes)
    step, spread = strides or (1,) * rank, dilations or (1,) * rank
    sides = pads or (0,) * (2 * rank)
    whole = [s + a + b for s, a, b in zip(sizes, sides[:rank], sides[rank:], strict=True)]
    counts = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, d, s in zip(whole, block, spread, step, strict=True)
    ]
    # The place in the padded image of each element of each window.
    place = np.zeros([*block, *counts], np.int64)
    for n in range(rank):
        line = np.arange(block[n])[:, None] * spread[n] + np.arange(counts[n]) * step[n]
        shape = [1] * (2 * rank)
        shape[n], shape[rank + n] = line.shape
        place = place * whole[n] + line.reshape(shape)
    batch, columns = x.shape[0], x.shape[1] // int(np.prod(block))
    rows = np.reshape(x, (batch * columns, -1))
    empty = np.zeros((int(np.prod(whole)), batch * columns), x.dtype)
    total = nn.scatter_nd(empty, place.reshape(-1, 1), np.transpose(rows), reduction="add")
    image = np.reshape(np.transpose(total), (batch, columns, *whole))
    inside = (slice(a, a + s) for a, s in zip(sides, sizes, strict=False))
    return image[(slice(None), slice(None), *inside)]


@converter("MaxUnpool", since=9)
def _max_unpool(
    x: Value,
    places: Value,
    output_shape: Value = None,
    *,
    kernel_shape: Ints,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Value:
    rank = len(kernel_shape)
    step, sides = strides or (1,) * rank, pads or (0,) * (2 * rank)
    sizes = [
        (n - 1) * s + k - sides[i] - sides[i + rank]
        for i, (n, s, k) in enumerate(zip(x.shape[2:], step, kernel_shape, strict=True))
    ]
    shape = (*x.shape[:2], *sizes)
    empty = np.zeros(int(np.prod(shape)), x.dtype)
    flat = nn.scatter_elements(empty, np.reshape(places, (-1,)), np.reshape(x, (-1,)))
    result = np.reshape(flat, shape)
    if output_shape is None:
        return result
    wanted = known(output_shape, "output_shape").tolist()
    return np.pad(result, [(0, new - old) for new, old in zip(wanted, shape, strict=True)])
