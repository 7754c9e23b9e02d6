"""Convolution in two dimensions.

``nn.conv2d`` knows layouts, padding and groups. It is lowered to ``nn.pad``, transposes to NHWC and
HWIO, and the primitive ``conv2d_valid``, whose innermost axis are the output channels: that is the
order in which register tiles over columns and channels are fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dims import IntExpr
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.builder import Builder
from ..graph.nodes import Atom, Constant
from ..graph.operator import Attr, Operator, Pattern, Sample, register
from ..graph.types import TensorType, Type
from ..loop.expr import Expr, IndexLike, op
from ..loop.tensor import Reduction, Tensor, index_add, index_div, index_mul
from .compose import call, tensor_type
from .rules import Attrs, require_kind, same_dtype, tensors
from .sampling import floats, ints
from .window import (
    DILATION,
    PADDING,
    padding_of,
    pair,
    spatial_axes,
    spatial_pads,
    window_count,
    window_span,
)
from .winograd import ERROR_GROWTH, winograd

__all__ = ["winograd_fits"]

_STRIDES = Attr("strides", "distance of neighbouring windows, an int or one per axis", (1, 1))
_GROUPS = Attr("groups", "number of groups of channels that do not see one another", 1)
_KERNEL_AXES = {"OIHW": (2, 3, 1, 0), "HWIO": (0, 1, 2, 3)}  # where height, width, in, out stand


def _check_channels(
    name: str,
    x: TensorType,
    w: TensorType,
    channels: IntExpr,
    own: IntExpr,
    out: IntExpr,
    groups: Any,
) -> None:
    if not isinstance(groups, int) or groups < 1:
        raise LoopwrightValueError(f"{name}: groups {groups!r} is not a positive int")
    if own * groups != channels:
        raise LoopwrightTypeError(
            f"{name}: {x.short} has {channels} channels, the kernel {w.short} takes "
            f"{own * groups} ({groups} group{'s' * (groups > 1)} of {own})",
            hint=f"groups={channels}" if own == 1 and groups == 1 and channels == out else None,
        )
    if isinstance(out, int) and out % groups:
        raise LoopwrightTypeError(
            f"{name}: {out} output channels of {w.short} do not divide into {groups} groups"
        )


def _kernel_size(name: str, w: TensorType, axes: Sequence[int]) -> tuple[int, int]:
    height, width = w.shape[axes[0]], w.shape[axes[1]]
    if not isinstance(height, int) or not isinstance(width, int) or height < 1 or width < 1:
        raise LoopwrightTypeError(f"{name}: the kernel {w.short} needs a known height and width")
    return height, width


def _infer_conv2d(types: tuple[Type, ...], attrs: Attrs) -> Type:
    if attrs["algorithm"] not in ("auto", "direct"):
        _check_algorithm(types, attrs)
    return _infer_named("nn.conv2d", types, attrs)


def _check_algorithm(types: tuple[Type, ...], attrs: Attrs) -> None:
    _, w = tensors("nn.conv2d", types, 2)
    known = ", ".join(ERROR_GROWTH)
    if attrs["algorithm"] not in ERROR_GROWTH:
        raise LoopwrightValueError(
            f"nn.conv2d: algorithm {attrs['algorithm']!r} is none of {known}"
        )
    if not winograd_fits(w, attrs):
        raise LoopwrightValueError(
            f"nn.conv2d: {attrs['algorithm']} is for kernels of 3x3 floats in one group without "
            f"strides and dilation, not for {w.short}"
        )


def winograd_fits(w: TensorType, attrs: Attrs) -> bool:
    """Whether a convolution with this kernel can be done by Winograd's algorithm."""
    plain = all(pair("nn.conv2d", key, attrs[key]) == (1, 1) for key in ("strides", "dilation"))
    order = _KERNEL_AXES.get(attrs["kernel_layout"], (0, 1, 2, 3))
    square = w.rank == 4 and (w.shape[order[0]], w.shape[order[1]]) == (3, 3)
    return plain and square and w.dtype.is_float and attrs["groups"] == 1


def _infer_named(name: str, types: tuple[Type, ...], attrs: Attrs) -> Type:
    x, w = tensors(name, types, 2)
    dtype = same_dtype(name, (x, w))
    require_kind(name, "iuf", (x,))
    spatial = spatial_axes(name, attrs["data_layout"], x)
    if attrs["kernel_layout"] not in _KERNEL_AXES:
        raise LoopwrightValueError(
            f"{name}: kernel_layout {attrs['kernel_layout']!r} is none of OIHW, HWIO"
        )
    if w.rank != 4:
        raise LoopwrightTypeError(
            f"{name}: the kernel needs the four axes {attrs['kernel_layout']}, not {w.short}"
        )
    order = _KERNEL_AXES[attrs["kernel_layout"]]
    channel_axis = ({1, 2, 3} - set(spatial)).pop()
    kernel, own, out = _kernel_size(name, w, order), w.shape[order[2]], w.shape[order[3]]
    _check_channels(name, x, w, x.shape[channel_axis], own, out, attrs["groups"])
    strides = pair(name, "strides", attrs["strides"])
    dilation = pair(name, "dilation", attrs["dilation"])
    padding = padding_of(name, attrs["padding"])
    shape = list(x.shape)
    shape[channel_axis] = out
    for n, axis in enumerate(spatial):
        padded = x.shape[axis] + padding[n] + padding[n + 2]
        span = window_span(kernel[n], dilation[n])
        shape[axis] = window_count(name, padded, span, strides[n], x)
    return TensorType(tuple(shape), dtype)


def _decompose_conv2d(b: Builder, args: Sequence[Atom], attrs: Attrs) -> Atom:
    x, w = args
    planar = attrs["data_layout"] == "NCHW"
    strides = pair("nn.conv2d", "strides", attrs["strides"])
    if strides != (1, 1) and _is_pointwise(w, attrs):
        x = _every_other(b, x, (2, 3) if planar else (1, 2), strides)
        strides = (1, 1)
    if planar:
        x = call(b, "transpose", x, axes=(0, 2, 3, 1))
    if attrs["kernel_layout"] != "HWIO":
        order = _KERNEL_AXES[attrs["kernel_layout"]]
        if isinstance(w, Constant):
            w = Constant(np.ascontiguousarray(w.value.transpose(order)), w.name, w.span)
        else:
            w = call(b, "transpose", w, axes=order)
    padding = padding_of("nn.conv2d", attrs["padding"])
    if attrs["algorithm"] not in ("auto", "direct"):
        result = winograd(b, x, w, attrs["algorithm"], padding)
        return call(b, "transpose", result, axes=(0, 3, 1, 2)) if planar else result
    if any(side != 0 for side in padding):
        x = call(b, "nn.pad", x, pad_width=spatial_pads((1, 2), padding))
    result = call(
        b,
        "conv2d_valid",
        x,
        w,
        strides=strides,
        dilation=attrs["dilation"],
        groups=attrs["groups"],
    )
    return call(b, "transpose", result, axes=(0, 3, 1, 2)) if planar else result


def _is_pointwise(w: Atom, attrs: Attrs) -> bool:
    """Whether each result is made of one pixel: strides then do no more than pick pixels."""
    height, width = _KERNEL_AXES[attrs["kernel_layout"]][:2]
    shape = tensor_type(w).shape
    padded = any(side != 0 for side in padding_of("nn.conv2d", attrs["padding"]))
    return (shape[height], shape[width]) == (1, 1) and not padded


def _every_other(b: Builder, x: Atom, axes: tuple[int, int], strides: tuple[int, int]) -> Atom:
    """Every ``strides``-th pixel of images."""
    shape = tensor_type(x).shape
    steps = [strides[axes.index(n)] if n in axes else 1 for n in range(len(shape))]
    return call(b, "strided_slice", x, begin=(0,) * len(shape), end=shape, strides=tuple(steps))


def _reference_conv2d(arrays: Sequence[Any], attrs: Attrs) -> Any:
    """The sum of shifted images, each times one element of the kernel."""
    dtype = arrays[0].dtype
    x, w = (a.astype(np.float64) if dtype.kind == "f" else a for a in arrays)
    planar = attrs["data_layout"] == "NCHW"
    x = x if planar else np.moveaxis(x, 3, 1)
    w = w if attrs["kernel_layout"] == "OIHW" else np.transpose(w, (3, 2, 0, 1))
    sides = np.atleast_1d(attrs["padding"])
    top, left, bottom, right = np.resize(sides, 4)
    (sh, sw), (dh, dw) = (np.resize(attrs[k], 2) for k in ("strides", "dilation"))
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    kernel_h, kernel_w = w.shape[2:]
    rows = (x.shape[2] - (kernel_h - 1) * dh - 1) // sh + 1
    columns = (x.shape[3] - (kernel_w - 1) * dw - 1) // sw + 1
    groups = attrs["groups"]
    images = np.split(x, groups, axis=1)
    parts: list[Any] = []
    for image, kernel in zip(images, np.split(w, groups, axis=0), strict=True):
        total = np.zeros((x.shape[0], kernel.shape[0], rows, columns), x.dtype)
        for i in range(kernel_h):
            for j in range(kernel_w):
                shifted = image[:, :, i * dh :: sh, j * dw :: sw][:, :, :rows, :columns]
                total += np.einsum("ncyx,oc->noyx", shifted, kernel[:, :, i, j])
        parts.append(total)
    result = np.concatenate(parts, axis=1).astype(dtype)
    return result if planar else np.moveaxis(result, 1, 3)


def _samples_conv2d(rng: np.random.Generator) -> list[Sample]:
    def sample(
        x: tuple[int, ...], w: tuple[int, ...], dtype: str = "float32", **attrs: Any
    ) -> Sample:
        draw = ints if "int" in dtype else floats
        return Sample((draw(rng, x, dtype), draw(rng, w, dtype)), attrs)

    nhwc = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    return [
        sample((1, 3, 7, 9), (4, 3, 3, 3)),
        sample((2, 3, 8, 8), (5, 3, 3, 3), padding=(1, 1, 1, 1)),
        sample((1, 9, 7, 4), (3, 3, 4, 6), padding=1, strides=2, **nhwc),
        sample((1, 4, 11, 10), (6, 4, 3, 2), padding=(2, 0, 1, 3), strides=(2, 3)),
        sample((1, 2, 9, 9), (3, 2, 3, 3), dilation=(2, 3), padding=(2, 1)),
        sample((1, 6, 5, 5), (4, 3, 3, 3), groups=2, padding=1),
        sample((1, 5, 6, 6), (5, 1, 3, 3), groups=5, padding=1),
        sample((1, 6, 6, 4), (3, 3, 1, 8), groups=4, **nhwc),
        sample((2, 8, 4, 5), (7, 8, 1, 1), "float64"),
        sample((1, 4, 4, 3), (5, 3, 1, 1), data_layout="NHWC"),
        sample((2, 4, 7, 8), (6, 2, 1, 1), strides=(2, 3), groups=2),
        sample((1, 5, 6, 3), (1, 1, 3, 4), strides=2, **nhwc),
        sample((1, 4, 5, 5), (3, 4, 1, 1), strides=2, padding=1),
        sample((1, 1, 1, 1), (1, 1, 1, 1)),
        sample((0, 3, 5, 5), (2, 3, 3, 3), padding=1),
        sample((1, 3, 7, 9), (4, 3, 3, 3), padding=1, algorithm="winograd2"),
        sample((2, 3, 9, 8), (5, 3, 3, 3), padding=(1, 0, 2, 1), algorithm="winograd4"),
        sample((1, 6, 6, 4), (3, 3, 4, 7), "float64", algorithm="winograd4", **nhwc),
        sample((1, 3, 6, 6), (4, 3, 5, 5), "int32", padding=2),
        sample((1, 3, 5, 4), (2, 3, 3, 3), "int8", padding=1),
    ]


register(
    Operator(
        name="nn.conv2d",
        doc="""Convolution of images with a kernel (a cross-correlation, as in all networks).

``x`` of shape (N, C, H, W) or (N, H, W, C), ``w`` of (O, C / groups, KH, KW) or (KH, KW, C /
groups, O), of one integer or float dtype; the result has that dtype, the layout of ``x`` and O
channels. LoopwrightTypeError where channels, groups, ranks or dtypes do not fit,
LoopwrightValueError for a bad attribute or a window that is larger than the padded image.

    fn (
      %x: Tensor[(1, 64, 56, 56), float32],
      %w: Tensor[(64, 64, 3, 3), float32]
    ) -> Tensor[(1, 64, 56, 56), float32] {
      nn.conv2d(%x, %w, padding=[1, 1, 1, 1])
    }
""",
        params=("x", "w"),
        attrs=(
            _STRIDES,
            PADDING,
            DILATION,
            _GROUPS,
            Attr("data_layout", "layout of x and of the result, NCHW or NHWC", "NCHW"),
            Attr("kernel_layout", "layout of w, OIHW or HWIO", "OIHW"),
            Attr(
                "algorithm",
                "direct, or for plain 3x3 windows winograd2 or winograd4: fewer multiplications, "
                "rounded otherwise; auto leaves the choice to the compiler",
                "auto",
            ),
        ),
        pattern=Pattern.CONTRACTION,
        infer=_infer_conv2d,
        decompose=_decompose_conv2d,
        reference=_reference_conv2d,
        samples=_samples_conv2d,
    )
)


def _infer_valid(types: tuple[Type, ...], attrs: Attrs) -> Type:
    complete = {**attrs, "padding": 0, "data_layout": "NHWC", "kernel_layout": "HWIO"}
    return _infer_named("conv2d_valid", types, complete)


def _compute_valid(inputs: Sequence[Tensor], attrs: Attrs, out: TensorType) -> Reduction:
    x, w = inputs
    height, width, own, channels = w.shape
    strides = pair("conv2d_valid", "strides", attrs["strides"])
    dilation = pair("conv2d_valid", "dilation", attrs["dilation"])
    groups = attrs["groups"]

    def element(*index: IndexLike) -> Expr:
        n, row, column, o, i, j, c = index
        y = index_add(index_mul(row, strides[0]), index_mul(i, dilation[0]))
        z = index_add(index_mul(column, strides[1]), index_mul(j, dilation[1]))
        channel = c
        if groups > 1:
            group = index_div(o, channels // groups)
            channel = index_add(index_mul(group, own), c)
        return op("multiply", x(n, y, z, channel), w(i, j, c, o))

    return Reduction(out.shape, out.dtype, (height, width, own), "sum", element)


def _reference_valid(arrays: Sequence[Any], attrs: Attrs) -> Any:
    complete = {**attrs, "padding": 0, "data_layout": "NHWC", "kernel_layout": "HWIO"}
    return _reference_conv2d(arrays, complete)


def _samples_valid(rng: np.random.Generator) -> list[Sample]:
    def sample(
        x: tuple[int, ...], w: tuple[int, ...], dtype: str = "float32", **attrs: Any
    ) -> Sample:
        return Sample((floats(rng, x, dtype), floats(rng, w, dtype)), attrs)

    return [
        sample((1, 9, 8, 3), (3, 3, 3, 5)),
        sample((2, 7, 7, 4), (1, 1, 4, 3), "float64", strides=(2, 2)),
        sample((1, 9, 9, 6), (3, 2, 2, 9), groups=3, dilation=(2, 1)),
        sample((1, 5, 5, 7), (3, 3, 1, 7), groups=7),
        sample((0, 4, 4, 1), (2, 2, 1, 1)),
    ]


register(
    Operator(
        name="conv2d_valid",
        doc="""Convolution without padding, channels last: the primitive of ``nn.conv2d``.

``x`` of shape (N, H, W, C), ``w`` of (KH, KW, C / groups, O), of one integer or float dtype; the
result is (N, OH, OW, O). Errors as of ``nn.conv2d``.

    fn (
      %x: Tensor[(1, 58, 58, 64), float32],
      %w: Tensor[(3, 3, 64, 64), float32]
    ) -> Tensor[(1, 28, 28, 64), float32] {
      conv2d_valid(%x, %w, strides=[2, 2])
    }
""",
        params=("x", "w"),
        attrs=(_STRIDES, DILATION, _GROUPS),
        pattern=Pattern.CONTRACTION,
        infer=_infer_valid,
        compute=_compute_valid,
        reference=_reference_valid,
        samples=_samples_valid,
    )
)
