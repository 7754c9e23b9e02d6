"""Resizing: each axis by itself, as sums of gathered neighbours with weights known beforehand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ir.dataclass import dataclass
from ...ir.dtype import Array
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError
from ..core.argument_conversion import Ints, Numbers, checked

_MODES = ("nearest", "linear", "cubic")
_NEAREST = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}
_MOST_GATHERED = 4  # neighbours up to which they are gathered; more are a product of matrices


@dataclass(frozen=True)
class _Axis:
    """A resized axis: from ``size`` elements to ``count``; ``scale`` may say what
    ``count`` rounds. ``begin`` and ``end`` cut a part out, in units of the whole axis."""

    size: int
    count: int
    scale: float
    begin: float
    end: float

    def places(self, coordinates: str) -> Array:
        """Returns where in the source each element of the result lies, in float64."""
        i = np.arange(self.count, dtype=np.float64)
        size, scale = self.size, self.scale
        exact = size * scale  # what the count of elements was before it was rounded
        match coordinates:
            case "half_pixel":
                return (i + 0.5) / scale - 0.5
            case "half_pixel_symmetric":
                offset = size / 2 * (1 - self.count / exact)
                return offset + (i + 0.5) / scale - 0.5
            case "pytorch_half_pixel":
                return (i + 0.5) / scale - 0.5 if self.count > 1 else np.zeros(1)
            case "align_corners":
                return i * (size - 1) / (exact - 1) if exact != 1 else np.zeros(self.count)
            case "asymmetric":
                return i / scale
            case "tf_half_pixel_for_nn":
                return (i + 0.5) / scale
            case "tf_crop_and_resize":
                if self.count == 1:
                    return np.full(1, 0.5 * (self.begin + self.end) * (size - 1))
                step = (self.end - self.begin) * (size - 1) / (self.count - 1)
                return self.begin * (size - 1) + i * step
            case _:
                raise LoopwrightValueError(f"resize: coordinates {coordinates!r} are not known")


def _cubic(x: Array, a: float) -> Array:
    """The cubic convolution kernel (R. Keys, 1981)."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _neighbours(
    axis: _Axis,
    places: Array,
    mode: str,
    cubic_a: float,
    antialias: bool,
    exclude_outside: bool,
) -> tuple[Array, Array]:
    """Returns the indices and weights, [count, neighbours], of each element's neighbours."""
    reach = 1 if mode == "linear" else 2
    stretch = min(axis.scale, 1.0) if antialias else 1.0
    first = math.floor(-reach / stretch) + 1
    floor = np.floor(places)
    indices = floor[:, None].astype(np.int64) + np.arange(first, 2 - first)
    distance = (indices - places[:, None]) * stretch
    if mode == "linear":
        weights = np.clip(1 - np.abs(distance), 0, 1)
    else:
        weights = _cubic(distance, cubic_a)
    if exclude_outside:
        weights = np.where((indices >= 0) & (indices < axis.size), weights, 0)
    if exclude_outside or antialias:
        weights = weights / weights.sum(axis=1, keepdims=True)
    return np.clip(indices, 0, axis.size - 1), weights


def _chosen(x: Any, indices: Array, axis: int) -> Any:
    """Takes elements along an axis: as a slice or repeated ones where they are that."""
    size, count = x.shape[axis], len(indices)
    every = [slice(None)] * x.ndim
    if count % size == 0 and np.array_equal(indices, np.arange(count) // (count // size)):
        times = count // size
        shape = (*x.shape[: axis + 1], times, *x.shape[axis + 1 :])
        wide = np.broadcast_to(np.expand_dims(x, axis + 1), shape)
        return np.reshape(wide, (*x.shape[:axis], count, *x.shape[axis + 1 :]))
    step = int(indices[1] - indices[0]) if count > 1 else 1
    if step > 0 and np.array_equal(indices, indices[0] + step * np.arange(count)):
        every[axis] = slice(int(indices[0]), int(indices[-1]) + 1, step)
        return x[tuple(every)]
    return np.take(x, indices, axis=axis)


def _combined(x: Any, indices: Array, weights: Array, axis: int) -> Any:
    """Returns the weighted sums of neighbours along an axis."""
    if indices.shape[1] > _MOST_GATHERED:
        matrix = np.zeros((x.shape[axis], len(indices)))
        np.add.at(matrix, (indices, np.arange(len(indices))[:, None]), weights)
        moved = np.matmul(np.moveaxis(x, axis, -1), matrix.astype(x.dtype))
        return np.moveaxis(moved, -1, axis)
    column = (-1, *(1,) * (x.ndim - 1 - axis))
    total: Any = None
    for n in range(indices.shape[1]):
        same = (indices == indices[:, n, None]).all(axis=0)
        weight = weights[:, same].sum(axis=1).astype(x.dtype)
        if same.argmax() < n or not weight.any():
            continue
        part = _chosen(x, indices[:, n], axis)
        if not (weight == 1).all():
            part = part * weight.reshape(column)
        total = part if total is None else total + part
    return total


@checked
def resize(
    x: Any,
    size: Ints,
    *,
    mode: str = "nearest",
    axes: Ints | None = None,
    coordinates: str = "half_pixel",
    nearest: str = "round_prefer_floor",
    cubic_a: float = -0.75,
    antialias: bool = False,
    exclude_outside: bool = False,
    scales: Numbers | None = None,
    roi: Numbers | None = None,
    extrapolation: float = 0.0,
) -> Any:
    """Returns ``x`` with ``size`` elements on ``axes`` (the last ones by default).

    ``mode`` is ``"nearest"``, ``"linear"`` or ``"cubic"``. ``coordinates`` says where an element
    of the result lies in ``x``, in the words of ONNX: ``"half_pixel"``, ``"align_corners"``,
    ``"asymmetric"``, ``"pytorch_half_pixel"``, ``"half_pixel_symmetric"``,
    ``"tf_half_pixel_for_nn"`` or ``"tf_crop_and_resize"``, which resizes the part ``roi`` (begins,
    then ends, from 0 to 1) and gives what lies outside of ``x`` the value ``extrapolation``.
    ``nearest`` rounds: ``"round_prefer_floor"``, ``"round_prefer_ceil"``, ``"floor"`` or
    ``"ceil"``. ``cubic_a`` is the parameter of the cubic kernel. ``antialias`` widens the kernel
    where elements become fewer, ``exclude_outside`` leaves out neighbours that do not exist;
    otherwise the outermost element stands for them. ``scales`` are the exact ratios of sizes, if
    they are not ``size`` over the sizes of ``x``. Raises LoopwrightValueError for an unknown word.

    PyTorch's ``interpolate`` is ``coordinates="asymmetric", nearest="floor"`` for ``nearest``, and
    ``"half_pixel"`` or ``"align_corners"`` for the others.

    >>> import numpy as np
    >>> from loopwright import nn
    >>> nn.resize(np.float32([[1, 3]]), 4, mode="linear").tolist()
    [[1.0, 1.5, 2.5, 3.0]]
    """
    counts = (size,) if isinstance(size, int) else tuple(size)
    rank = np.ndim(x)
    chosen = tuple(range(rank - len(counts), rank)) if axes is None else axes
    chosen = (chosen,) if isinstance(chosen, int) else tuple(chosen)
    if len(chosen) != len(counts) or not all(-rank <= a < rank for a in chosen):
        raise LoopwrightTypeError(f"resize: sizes {counts} for the axes {chosen} of {rank}")
    if mode not in _MODES or nearest not in _NEAREST:
        raise LoopwrightValueError(
            f"resize: mode {mode!r} is none of {', '.join(_MODES)}"
            if mode not in _MODES
            else f"resize: nearest {nearest!r} is none of {', '.join(_NEAREST)}"
        )
    shape = np.shape(x)
    if any(count < 1 or not isinstance(shape[a], int) or shape[a] < 1
           for a, count in zip(chosen, counts, strict=True)):  # fmt: skip
        raise LoopwrightValueError(f"resize: sizes {counts} of an array of shape {shape}")
    for label, values, wanted in (("scales", scales, 1), ("roi", roi, 2)):
        if values is not None and len(values) != wanted * len(counts):
            raise LoopwrightTypeError(f"resize: {label} {values} for {len(counts)} axes")
    if not isinstance(x, np.ndarray) and isinstance(x, int | float):
        raise LoopwrightTypeError("resize: a number has no axes")
    outside: Any = None
    axes_of = [a % rank for a in chosen]

    def order(n: int) -> int:
        """Neighbours along the last axis are gathered lane by lane: where other axes are short."""
        is_shrunk = counts[n] < shape[axes_of[n]]
        return axes_of[n] - rank if is_shrunk else rank - axes_of[n]

    for n in sorted(range(len(axes_of)), key=order):
        a, count = axes_of[n], counts[n]
        begin, end = (roi[n], roi[n + len(counts)]) if roi is not None else (0.0, 1.0)
        scale = scales[n] if scales is not None else count / shape[a]
        axis = _Axis(shape[a], count, scale, begin, end)
        if (count, scale, begin, end) == (shape[a], 1.0, 0.0, 1.0):
            continue
        places = axis.places(coordinates)
        if mode == "nearest":
            index = np.clip(_NEAREST[nearest](places), 0, shape[a] - 1).astype(np.int64)
            x = _chosen(x, index, a)
        else:
            indices, weights = _neighbours(axis, places, mode, cubic_a, antialias, exclude_outside)
            x = _combined(x, indices, weights, a)
        if coordinates == "tf_crop_and_resize":
            beyond = ((places < 0) | (places > shape[a] - 1)).reshape(-1, *(1,) * (rank - 1 - a))
            outside = beyond if outside is None else outside | beyond
    if outside is not None and outside.any():
        x = np.where(outside, x.dtype.type(extrapolation), x)
    return x
