"""Convolution in two dimensions.

``nn.conv2d`` knows layouts, padding and groups. It is lowered to ``nn.pad``, transposes to NHWC and
HWIO, and the primitive ``conv2d_valid``, whose innermost axis holds the output channels: in that
order register tiles over columns and channels are fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dims import IntExpr
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.operator import Pattern, Sample
from ..graph.types import TensorType
from ..loop.expr import Expr, IndexLike, op
from ..loop.tensor import Tensor, index_add, index_div, index_mul
from .compose import F, Value
from .declare import Reduce, attr, composite, in_float64, primitive
from .rules import Attrs
from .sampling import floats, ints, sample
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

_STRIDES = attr("distance of neighbouring windows, an int or one per axis", (1, 1))
_GROUPS = attr("number of groups of channels, convolved separately", 1)
_KERNEL_AXES = {"OIHW": (2, 3, 1, 0), "HWIO": (0, 1, 2, 3)}  # where height, width, in, out stand


def _check_channels(
    x: TensorType, w: TensorType, channels: IntExpr, inputs: IntExpr, out: IntExpr, groups: Any
) -> None:
    if not isinstance(groups, int) or groups < 1:
        raise LoopwrightValueError(f"groups {groups!r} is not a positive int")
    if inputs * groups != channels:
        raise LoopwrightTypeError(
            f"{x.short} has {channels} channels, the kernel {w.short} takes "
            f"{inputs * groups} ({groups} group{'s' * (groups > 1)} of {inputs})",
            hint=f"groups={channels}" if inputs == 1 and groups == 1 and channels == out else None,
        )
    if isinstance(out, int) and out % groups:
        raise LoopwrightTypeError(
            f"{out} output channels of {w.short} do not divide into {groups} groups"
        )


def _kernel_size(w: TensorType, axes: Sequence[int]) -> tuple[int, int]:
    height, width = w.shape[axes[0]], w.shape[axes[1]]
    if not isinstance(height, int) or not isinstance(width, int) or height < 1 or width < 1:
        raise LoopwrightTypeError(f"the kernel {w.short} needs a known height and width")
    return height, width


def winograd_fits(w: TensorType, attrs: Attrs) -> bool:
    """True if a convolution with this kernel can be computed by Winograd's algorithm."""
    plain = all(pair(key, attrs[key]) == (1, 1) for key in ("strides", "dilation"))
    order = _KERNEL_AXES.get(attrs["kernel_layout"], (0, 1, 2, 3))
    square = w.rank == 4 and (w.shape[order[0]], w.shape[order[1]]) == (3, 3)
    return plain and square and w.dtype.is_float and attrs["groups"] == 1


def _conv2d_rule(x: TensorType, w: TensorType, algorithm: str, **attrs: Any) -> TensorType:
    if algorithm not in ("auto", "direct"):
        if algorithm not in ERROR_GROWTH:
            raise LoopwrightValueError(
                f"algorithm {algorithm!r} is none of {', '.join(ERROR_GROWTH)}"
            )
        if not winograd_fits(w, attrs):
            raise LoopwrightValueError(
                f"{algorithm} is for kernels of 3x3 floats in one group without "
                f"strides and dilation, not for {w.short}"
            )
    return _rule(x, w, **attrs)


def _rule(
    x: TensorType,
    w: TensorType,
    strides: Any,
    dilation: Any,
    groups: Any,
    padding: Any = 0,
    data_layout: str = "NHWC",
    kernel_layout: str = "HWIO",
) -> TensorType:
    """Returns the type of a convolution; the defaults are those of ``conv2d_valid``."""
    spatial = spatial_axes(data_layout, x)
    if kernel_layout not in _KERNEL_AXES:
        raise LoopwrightValueError(f"kernel_layout {kernel_layout!r} is none of OIHW, HWIO")
    if w.rank != 4:
        raise LoopwrightTypeError(f"the kernel needs the four axes {kernel_layout}, not {w.short}")
    order = _KERNEL_AXES[kernel_layout]
    channel_axis = ({1, 2, 3} - set(spatial)).pop()
    kernel, inputs, out = _kernel_size(w, order), w.shape[order[2]], w.shape[order[3]]
    _check_channels(x, w, x.shape[channel_axis], inputs, out, groups)
    strides, dilation = pair("strides", strides), pair("dilation", dilation)
    sides = padding_of(padding)
    shape = list(x.shape)
    shape[channel_axis] = out
    for n, axis in enumerate(spatial):
        padded = x.shape[axis] + sides[n] + sides[n + 2]
        shape[axis] = window_count(padded, window_span(kernel[n], dilation[n]), strides[n], x)
    return TensorType(tuple(shape), x.dtype)


def _every_other(x: Value, axes: tuple[int, int], strides: tuple[int, int]) -> Value:
    """Returns every ``strides``-th pixel of images."""
    steps = tuple(strides[axes.index(n)] if n in axes else 1 for n in range(x.rank))
    return F.strided_slice(x, begin=(0,) * x.rank, end=x.shape, strides=steps)


def _reference(
    x: Any,
    w: Any,
    strides: Any,
    dilation: Any,
    groups: int,
    padding: Any = 0,
    data_layout: str = "NHWC",
    kernel_layout: str = "HWIO",
    algorithm: str = "direct",
) -> Any:
    """The sum of shifted images, each times one element of the kernel."""
    planar = data_layout == "NCHW"
    x = x if planar else np.moveaxis(x, 3, 1)
    w = w if kernel_layout == "OIHW" else np.transpose(w, (3, 2, 0, 1))
    top, left, bottom, right = np.resize(np.atleast_1d(padding), 4)
    (sh, sw), (dh, dw) = np.resize(strides, 2), np.resize(dilation, 2)
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    kernel_h, kernel_w = w.shape[2:]
    rows = (x.shape[2] - (kernel_h - 1) * dh - 1) // sh + 1
    columns = (x.shape[3] - (kernel_w - 1) * dw - 1) // sw + 1
    images = np.split(x, groups, axis=1)
    parts: list[Any] = []
    for image, kernel in zip(images, np.split(w, groups, axis=0), strict=True):
        total = np.zeros((x.shape[0], kernel.shape[0], rows, columns), x.dtype)
        for i in range(kernel_h):
            for j in range(kernel_w):
                shifted = image[:, :, i * dh :: sh, j * dw :: sw][:, :, :rows, :columns]
                total += np.einsum("ncyx,oc->noyx", shifted, kernel[:, :, i, j])
        parts.append(total)
    result = np.concatenate(parts, axis=1)
    return result if planar else np.moveaxis(result, 1, 3)


def _conv2d_samples(rng: np.random.Generator) -> list[Sample]:
    def drawn(
        x: tuple[int, ...], w: tuple[int, ...], dtype: str = "float32", **attrs: Any
    ) -> Sample:
        draw = ints if "int" in dtype else floats
        return sample(draw(rng, x, dtype), draw(rng, w, dtype), **attrs)

    nhwc = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    return [
        drawn((1, 3, 7, 9), (4, 3, 3, 3)),
        drawn((2, 3, 8, 8), (5, 3, 3, 3), padding=(1, 1, 1, 1)),
        drawn((1, 9, 7, 4), (3, 3, 4, 6), padding=1, strides=2, **nhwc),
        drawn((1, 4, 11, 10), (6, 4, 3, 2), padding=(2, 0, 1, 3), strides=(2, 3)),
        drawn((1, 2, 9, 9), (3, 2, 3, 3), dilation=(2, 3), padding=(2, 1)),
        drawn((1, 6, 5, 5), (4, 3, 3, 3), groups=2, padding=1),
        drawn((1, 5, 6, 6), (5, 1, 3, 3), groups=5, padding=1),
        drawn((1, 6, 6, 4), (3, 3, 1, 8), groups=4, **nhwc),
        drawn((2, 8, 4, 5), (7, 8, 1, 1), "float64"),
        drawn((1, 4, 4, 3), (5, 3, 1, 1), data_layout="NHWC"),
        drawn((2, 4, 7, 8), (6, 2, 1, 1), strides=(2, 3), groups=2),
        drawn((1, 5, 6, 3), (1, 1, 3, 4), strides=2, **nhwc),
        drawn((1, 4, 5, 5), (3, 4, 1, 1), strides=2, padding=1),
        drawn((1, 1, 1, 1), (1, 1, 1, 1)),
        drawn((0, 3, 5, 5), (2, 3, 3, 3), padding=1),
        drawn((1, 3, 7, 9), (4, 3, 3, 3), padding=1, algorithm="winograd2"),
        drawn((2, 3, 9, 8), (5, 3, 3, 3), padding=(1, 0, 2, 1), algorithm="winograd4"),
        drawn((1, 6, 6, 4), (3, 3, 4, 7), "float64", algorithm="winograd4", **nhwc),
        drawn((1, 3, 6, 6), (4, 3, 5, 5), "int32", padding=2),
        drawn((1, 3, 5, 4), (2, 3, 3, 3), "int8", padding=1),
    ]


@composite(
    "nn.conv2d",
    Pattern.CONTRACTION,
    dtypes="iuf",
    rule=_conv2d_rule,
    reference=in_float64(_reference),
    samples=_conv2d_samples,
)
def _conv2d(
    x: Value,
    w: Value,
    *,
    strides: Any = _STRIDES,
    padding: Any = PADDING,
    dilation: Any = DILATION,
    groups: int = _GROUPS,
    data_layout: str = attr("layout of x and of the result, NCHW or NHWC", "NCHW"),
    kernel_layout: str = attr("layout of w, OIHW or HWIO", "OIHW"),
    algorithm: str = attr(
        "direct, or for plain 3x3 windows winograd2 or winograd4: fewer multiplications, "
        "rounded otherwise; auto leaves the choice to the compiler",
        "auto",
    ),
) -> Value:
    """Convolution of images with a kernel (a cross-correlation, as in all networks).

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
    """
    planar = data_layout == "NCHW"
    order, sides = _KERNEL_AXES[kernel_layout], padding_of(padding)
    padded = any(side != 0 for side in sides)
    # Where each result is made of one pixel, strides do no more than choose pixels.
    pointwise = (w.shape[order[0]], w.shape[order[1]]) == (1, 1) and not padded
    strides = pair("strides", strides)
    if strides != (1, 1) and pointwise:
        x = _every_other(x, (2, 3) if planar else (1, 2), strides)
        strides = (1, 1)
    if planar:
        x = F.transpose(x, axes=(0, 2, 3, 1))
    if kernel_layout != "HWIO":
        constant = w.fold(lambda array: np.ascontiguousarray(array.transpose(order)))
        w = constant or F.transpose(w, axes=order)
    if algorithm not in ("auto", "direct"):
        result = winograd(x, w, algorithm, sides)
    else:
        if padded:
            x = F.nn.pad(x, pad_width=spatial_pads((1, 2), sides))
        result = F.conv2d_valid(x, w, strides=strides, dilation=dilation, groups=groups)
    return F.transpose(result, axes=(0, 3, 1, 2)) if planar else result


def _conv2d_valid_samples(rng: np.random.Generator) -> list[Sample]:
    def drawn(
        x: tuple[int, ...], w: tuple[int, ...], dtype: str = "float32", **attrs: Any
    ) -> Sample:
        return sample(floats(rng, x, dtype), floats(rng, w, dtype), **attrs)

    return [
        drawn((1, 9, 8, 3), (3, 3, 3, 5)),
        drawn((2, 7, 7, 4), (1, 1, 4, 3), "float64", strides=(2, 2)),
        drawn((1, 9, 9, 6), (3, 2, 2, 9), groups=3, dilation=(2, 1)),
        drawn((1, 5, 5, 7), (3, 3, 1, 7), groups=7),
        drawn((0, 4, 4, 1), (2, 2, 1, 1)),
    ]


@primitive(
    "conv2d_valid",
    Pattern.CONTRACTION,
    dtypes="iuf",
    rule=_rule,
    reference=in_float64(_reference),
    samples=_conv2d_valid_samples,
)
def _conv2d_valid(
    out: TensorType,
    x: Tensor,
    w: Tensor,
    *,
    strides: Any = _STRIDES,
    dilation: Any = DILATION,
    groups: int = _GROUPS,
) -> Reduce:
    """Convolution without padding, channels last: the primitive of ``nn.conv2d``.

    ``x`` of shape (N, H, W, C), ``w`` of (KH, KW, C / groups, O), of one integer or float dtype;
    the result is (N, OH, OW, O). Errors as of ``nn.conv2d``.

        fn (
          %x: Tensor[(1, 58, 58, 64), float32],
          %w: Tensor[(3, 3, 64, 64), float32]
        ) -> Tensor[(1, 28, 28, 64), float32] {
          conv2d_valid(%x, %w, strides=[2, 2])
        }
    """
    height, width, inputs, channels = w.shape
    strides, dilation = pair("strides", strides), pair("dilation", dilation)

    def element(*index: IndexLike) -> Expr:
        n, row, column, o, i, j, c = index
        y = index_add(index_mul(row, strides[0]), index_mul(i, dilation[0]))
        z = index_add(index_mul(column, strides[1]), index_mul(j, dilation[1]))
        channel = c
        if groups > 1:
            group = index_div(o, channels // groups)
            channel = index_add(index_mul(group, inputs), c)
        return op("multiply", x(n, y, z, channel), w(i, j, c, o))

    return Reduce("sum", (height, width, inputs), element)
