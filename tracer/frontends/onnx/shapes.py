"""Converters of operators that give elements another shape or order, or make them of sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ....ir.dims import LARGEST_SIZE, Dim, IntExpr, ceildiv, int_max, int_min, product
from ....ir.dtype import Array
from ....ir.errors import LoopwrightValueError
from ....ir.graph.requirements import require
from ...numpy.creation import arange, full
from ...numpy.shaping import broadcast_shapes
from .sizes import array_of_sizes
from .table import Node, Value, converter, is_sizes, known, known_ints, known_sizes
from .tensors import numpy_dtype

MOST_MADE_ELEMENTS = 1 << 27
"""Elements of an array that a model describes by its shape alone. More are no model's."""


def checked_shape(shape: Sequence[IntExpr]) -> tuple[Any, ...]:
    """Returns a shape of which an array can be made. Raises LoopwrightValueError for others; that
    symbolic sizes are not negative becomes a requirement."""
    numbers = [size for size in shape if isinstance(size, int)]
    message = "the size of an array"
    others = [require(0, "<=", size, message) for size in shape if isinstance(size, Dim)]
    if (
        any(size < 0 for size in numbers)
        or math.prod(numbers) > MOST_MADE_ELEMENTS
        or not all(others)
    ):
        raise LoopwrightValueError(f"an array of shape {tuple(shape)} is asked for")
    return tuple(shape)


# Constants.


@converter("Constant", since=1)
def _constant(
    *,
    value: Array | None = None,
    value_float: float | None = None,
    value_floats: tuple[float, ...] | None = None,
    value_int: int | None = None,
    value_ints: tuple[int, ...] | None = None,
) -> Value:
    if value is not None:
        return value
    floats = value_floats if value_float is None else value_float
    if floats is not None:
        return np.array(floats, np.float32)
    ints = value_ints if value_int is None else value_int
    if ints is None:
        raise LoopwrightValueError("it has no value")
    return np.array(ints, np.int64)


@converter("ConstantOfShape", since=9, sizes=("shape",))
def _constant_of_shape(shape: Value, *, value: Array | None = None) -> Value:
    element = np.zeros(1, np.float32) if value is None else value
    sizes = checked_shape(known_sizes(shape, "shape"))
    return full(sizes, element.reshape(())[()], element.dtype)


@converter("Shape", since=1)
def _shape(x: Value, *, start: int = 0, end: int | None = None) -> Value:
    return array_of_sizes(x.shape)[start:end]


converter("Size", since=1)(lambda x: array_of_sizes(product(x.shape)))


@converter("Range", since=11, sizes=("start", "limit", "delta"))
def _range(start: Value, limit: Value, delta: Value) -> Value:
    if any(map(is_sizes, (start, limit, delta))):
        first, end, step = (known_sizes(v, "limit")[0] for v in (start, limit, delta))
        return arange(first, end, step)
    first, end, step = known(start, "start"), known(limit, "limit"), known(delta, "delta")
    checked_shape([max(0, math.ceil((end.item() - first.item()) / step.item()))])
    return np.arange(first.item(), end.item(), step.item(), dtype=first.dtype)


@converter("EyeLike", since=9)
def _eye_like(x: Value, *, dtype: int | None = None, k: int = 0) -> Value:
    rows, columns = checked_shape(x.shape)
    return np.eye(rows, columns, k, x.dtype if dtype is None else numpy_dtype(dtype))


converter("Identity", since=1)(lambda x: x)


# Shapes.


@converter("Reshape", since=5, sizes=("shape",))
def _reshape(x: Value, shape: Value, *, allowzero: int = 0) -> Value:
    sizes = known_sizes(shape, "shape")
    if not allowzero:
        sizes = [x.shape[axis] if size == 0 else size for axis, size in enumerate(sizes)]
    if -1 in sizes and 0 in x.shape:  # NumPy cannot infer a size of an empty array
        rest = math.prod(size for size in sizes if size != -1)
        sizes[sizes.index(-1)] = 0 if rest == 0 else math.prod(x.shape) // rest
    return np.reshape(x, sizes)


@converter("Flatten", since=1)
def _flatten(x: Value, *, axis: int = 1) -> Value:
    axis = axis + x.ndim if axis < 0 else axis
    return np.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@converter("Squeeze", since=13, attributes=(1, {"axes": "axes"}))
def _squeeze(x: Value, axes: Value = None) -> Value:
    return np.squeeze(x, None if axes is None else tuple(known_ints(axes, "axes")))


@converter("Unsqueeze", since=13, attributes=(1, {"axes": "axes"}))
def _unsqueeze(x: Value, axes: Value) -> Value:
    return np.expand_dims(x, tuple(known_ints(axes, "axes")))


@converter("Expand", since=8, sizes=("shape",))
def _expand(x: Value, shape: Value) -> Value:
    wanted = checked_shape(known_sizes(shape, "shape"))
    whole: Any = broadcast_shapes(x.shape, wanted)
    return np.broadcast_to(x, whole)


@converter("Tile", since=6, sizes=("repeats",))
def _tile(x: Value, repeats: Value) -> Value:
    counts = known_sizes(repeats, "repeats")
    checked_shape([size * count for size, count in zip(x.shape, counts, strict=True)])
    return np.tile(x, counts)


@converter("Transpose", since=1)
def _transpose(x: Value, *, perm: tuple[int, ...] | None = None) -> Value:
    return np.transpose(x, perm)


@converter("DepthToSpace", since=1)
def _depth_to_space(x: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    n, c, h, w = x.shape
    b, depth = blocksize, c // blocksize**2
    if mode == "DCR":
        blocks = np.transpose(np.reshape(x, (n, b, b, depth, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        blocks = np.transpose(np.reshape(x, (n, depth, b, b, h, w)), (0, 1, 4, 2, 5, 3))
    return np.reshape(blocks, (n, depth, h * b, w * b))


@converter("SpaceToDepth", since=1)
def _space_to_depth(x: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    n, c, h, w = x.shape
    b = blocksize
    blocks = np.reshape(x, (n, c, h // b, b, w // b, b))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return np.reshape(np.transpose(blocks, order), (n, c * b * b, h // b, w // b))


# Parts and wholes.


@converter("Concat", since=4)
def _concat(*xs: Value, axis: int) -> Value:
    return np.concatenate(xs, axis)


@converter("Split", since=13, sizes=("split",), attributes=(2, {"split": "split"}))
def _split(
    node: Node, x: Value, split: Value = None, *, axis: int = 0, num_outputs: int | None = None
) -> Value:
    """``x`` in parts of these sizes, or in equal ones, of which the last is smaller."""
    whole = x.shape[axis]
    if split is None:
        count = num_outputs or len(node.outputs)
        each = ceildiv(whole, count)
        sizes = [int_max(0, int_min(each, whole - part * each)) for part in range(count)]
    else:
        sizes = known_sizes(split, "split")
    ends = list(accumulate(sizes))
    if not require(ends[-1], "==", whole, f"parts of {sizes}"):
        raise LoopwrightValueError(f"the parts {list(sizes)} do not make up the axis of {whole}")
    for size in sizes:
        checked_shape((size,))
    if all(isinstance(end, int) for end in ends):
        places: Any = ends[:-1]
        return tuple(np.split(x, places, axis))
    before = (slice(None),) * (axis % x.ndim)
    return tuple(x[(*before, slice(*part))] for part in pairwise([0, *ends]))


@converter(
    "Slice",
    since=10,
    sizes=("starts", "ends"),
    attributes=(1, {name: name for name in ("starts", "ends", "axes")}),
)
def _slice(x: Value, starts: Value, ends: Value, axes: Value = None, steps: Value = None) -> Value:
    begins, stops = known_sizes(starts, "starts"), known_sizes(ends, "ends")
    chosen = range(len(begins)) if axes is None else known_ints(axes, "axes")
    strides = [1] * len(begins) if steps is None else known_ints(steps, "steps")
    key = [slice(None)] * x.ndim
    for axis, start, end, step in zip(chosen, begins, stops, strides, strict=True):
        # As Python's slices, only that no end means "before the first" but one far below zero.
        size = x.shape[axis]
        if not all(isinstance(each, int) for each in (size, start, end)):
            key[axis] = _slice_of_sizes(start, end, step)
            continue
        if step < 0:  # Python begins before the first element there, ONNX at it
            start = max(start + size if start < 0 else start, 0)
        first, last, step = slice(start, end, step).indices(size)
        key[axis] = slice(first, None if last < 0 else last, step)
    return x[tuple(key)]


def _slice_of_sizes(start: Any, end: Any, step: int) -> slice:
    """Returns Python's slice of an axis, where there are symbolic sizes. The ends that mean "all"
    are far outside of any array."""
    if isinstance(end, int) and abs(end) >= LARGEST_SIZE:
        end = None
    if isinstance(start, int) and (start >= LARGEST_SIZE if step < 0 else start == 0):
        start = None
    return slice(start, end, step)


@converter(
    "Pad",
    since=11,
    sizes=("pads",),
    attributes=(2, {"pads": "pads", "value": "constant_value"}),
)
def _pad(
    x: Value,
    pads: Value,
    constant_value: Value = None,
    axes: Value = None,
    *,
    mode: str = "constant",
) -> Value:
    fill = 0 if constant_value is None else known(constant_value, "constant_value").item()
    chosen = range(x.ndim) if axes is None else known_ints(axes, "axes")
    return _padded(x, known_sizes(pads, "pads"), fill, chosen, mode)


def _padded(x: Value, pads: Sequence[int], fill: Any, axes: Sequence[int], mode: str) -> Value:
    if len(pads) != 2 * len(axes):
        raise LoopwrightValueError(f"there are {len(pads)} pads for {len(axes)} axes")
    widths = [(0, 0)] * x.ndim
    for number, axis in enumerate(axes):
        widths[axis] = (pads[number], pads[number + len(axes)])
    # Negative widths cut elements off.
    cut = tuple(
        slice(max(0, -low), size - max(0, -high)) for size, (low, high) in zip(x.shape, widths)
    )
    x = x[cut] if any(low < 0 or high < 0 for low, high in widths) else x
    widths = [(max(0, low), max(0, high)) for low, high in widths]
    checked_shape([size + low + high for size, (low, high) in zip(x.shape, widths)])
    if mode == "constant":
        return np.pad(x, widths, constant_values=fill) if any(map(any, widths)) else x
    if mode not in ("edge", "reflect", "wrap"):
        raise LoopwrightValueError(f"its mode is {mode!r}")
    for axis, width in enumerate(widths):
        if any(width):
            x = np.take(x, np.pad(np.arange(x.shape[axis]), width, mode=mode), axis)
    return x


@converter("Trilu", since=14)
def _trilu(x: Value, k: Value = None, *, upper: int = 1) -> Value:
    diagonal = 0 if k is None else int(known(k, "k").reshape(()))
    # Beyond the corners, all diagonals are the same.
    diagonal = max(-x.shape[-2] - 1, min(diagonal, x.shape[-1] + 1))
    return np.triu(x, diagonal) if upper else np.tril(x, diagonal)


@converter("CenterCropPad", since=18)
def _center_crop_pad(x: Value, shape: Value, *, axes: tuple[int, ...] | None = None) -> Value:
    pads: list[tuple[int, int]] = []
    chosen = range(x.ndim) if axes is None else axes
    for axis, size in zip(chosen, known_ints(shape, "shape"), strict=True):
        more = size - x.shape[axis]
        # The odd element is cut off, or added, behind.
        low = more // 2 if more >= 0 else -(-more // 2)
        pads.append((low, more - low))
    return _padded(x, [low for low, _ in pads] + [high for _, high in pads], 0, chosen, "constant")


@converter("OneHot", since=9, sizes=("depth",))
def _one_hot(indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Value:
    (count,) = known_sizes(depth, "depth")
    axis = axis + indices.ndim + 1 if axis < 0 else axis
    checked_shape([math.prod(indices.shape), count])
    classes = np.arange(count).reshape([-1] + [1] * (indices.ndim - axis))
    at = np.expand_dims(indices, axis)
    at = at.astype(np.int64) if at.dtype != np.int64 else at
    hot = np.equal(np.where(at < 0, at + count, at), classes)
    return np.where(hot, values[1], values[0])
