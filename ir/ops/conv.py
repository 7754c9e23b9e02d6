"""Convolution in one, two and three dimensions.

``nn.conv1d``, ``nn.conv2d`` and ``nn.conv3d`` know layouts, padding and groups. They are lowered to
``nn.pad``, transposes that put the channels last (NHWC, HWIO), and a primitive (``conv2d_valid``),
whose innermost axis holds the output channels: in that order register tiles over columns and
channels are fast.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..dims import Dim, IntExpr
from ..dtype import INT16, INT32
from ..errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from ..graph.compose import F, Value
from ..graph.operator import Pattern, Sample
from ..graph.type_rules import require_equal
from ..graph.types import TensorType
from ..loop.expr import Expr, IndexLike, op
from ..loop.tensor import Tensor, index_add, index_div, index_mul
from ..traits import Trait
from . import window as geometry
from .declare import Ints, Reduce, attr, composite, in_float64, primitive
from .sampling import floats, ints, sample
from .window import SPATIAL, dilation_attr, kernel_axes, layouts, padding_of, per_spatial_axis
from .winograd import ERROR_GROWTH, conv2d_algorithms, winograd, winograd_fits

GROUPS = attr("number of groups of channels, convolved separately", 1, "int")


def check_channels(
    x: TensorType, w: TensorType, channels: IntExpr, inputs: IntExpr, out: IntExpr, groups: Any
) -> None:
    """Raises an error unless a kernel takes the channels of ``x``, in ``groups`` groups."""
    if not isinstance(groups, int) or groups < 1:
        raise LoopwrightValueError(f"groups {groups!r} is not a positive int")
    if groups > 1 and any(isinstance(size, Dim) for size in (channels, inputs, out)):
        raise UnsupportedError(
            f"{groups} groups of symbolic channels, {x.short} and {w.short}",
            hint="a known number of channels",
        )
    if inputs * groups != channels:
        error = LoopwrightTypeError(
            f"{x.short} has {channels} channels, the kernel {w.short} takes "
            f"{inputs * groups} ({groups} group{'s' * (groups > 1)} of {inputs})",
            hint=f"groups={channels}" if inputs == 1 and groups == 1 and channels == out else None,
        )
        require_equal(inputs * groups, channels, error)
    if isinstance(out, int) and out % groups:
        raise LoopwrightTypeError(
            f"{out} output channels of {w.short} do not divide into {groups} groups"
        )


def kernel_size(w: TensorType, axes: Sequence[int]) -> tuple[int, ...]:
    """Returns the sizes of the spatial axes of a kernel, which are known and at least 1."""
    sizes = tuple(size for axis in axes if isinstance(size := w.shape[axis], int) and size > 0)
    if len(sizes) != len(axes):
        raise LoopwrightTypeError(f"the kernel {w.short} needs a known height and width")
    return sizes


def _conv2d_rule(x: TensorType, w: TensorType, algorithm: str, **attrs: Any) -> TensorType:
    if algorithm not in ("auto", "direct"):
        if algorithm not in ERROR_GROWTH:
            raise LoopwrightValueError(
                f"algorithm {algorithm!r} is none of {', '.join(ERROR_GROWTH)}"
            )
        if not winograd_fits(w, attrs):
            raise LoopwrightValueError(
                f"{algorithm} is for kernels of 3x3 floats without strides and dilation, "
                f"not for {w.short}"
            )
        if w.dtype is INT16:
            return replace(_rule(x, w, **attrs), dtype=INT32)
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
    rank = len(data_layout) - 2 if len(data_layout) - 2 in SPATIAL else 2
    spatial = geometry.spatial_axes(data_layout, x, rank)
    order = kernel_axes(kernel_layout, rank)
    if w.rank != rank + 2:
        count = {3: "three", 4: "four", 5: "five"}[rank + 2]
        raise LoopwrightTypeError(
            f"the kernel needs the {count} axes {kernel_layout}, not {w.short}"
        )
    channel = geometry.channel_axis(data_layout)
    kernel, inputs, out = kernel_size(w, order[:rank]), w.shape[order[-2]], w.shape[order[-1]]
    check_channels(x, w, x.shape[channel], inputs, out, groups)
    strides = per_spatial_axis("strides", strides, rank)
    dilation = per_spatial_axis("dilation", dilation, rank)
    sides = padding_of(padding, rank)
    shape = list(x.shape)
    shape[channel] = out
    for n, axis in enumerate(spatial):
        padded = x.shape[axis] + sides[n] + sides[n + rank]
        shape[axis] = geometry.window_count(
            padded, geometry.window_span(kernel[n], dilation[n]), strides[n], x
        )
    return TensorType(tuple(shape), x.dtype)


def _reference(
    x: Any,
    w: Any,
    strides: Any,
    dilation: Any,
    groups: int,
    padding: Any = 0,
    data_layout: str | None = None,
    kernel_layout: str | None = None,
    **_: Any,
) -> Any:
    """The sum of shifted images, each times one element of the kernel."""
    rank = x.ndim - 2
    planar = data_layout == layouts(rank)[0]
    x = x if planar else np.moveaxis(x, -1, 1)
    w = w if (kernel_layout or "").startswith("OI") else np.moveaxis(w, (-1, -2), (0, 1))
    sides = [int(s) for s in np.resize(np.atleast_1d(padding), 2 * rank)]
    steps, spread = np.resize(strides, rank), np.resize(dilation, rank)
    x = np.pad(x, ((0, 0), (0, 0), *zip(sides[:rank], sides[rank:], strict=True)))
    kernel = w.shape[2:]
    spans = (np.array(kernel) - 1) * spread + 1
    counts = (np.array(x.shape[2:]) - spans) // steps + 1
    parts: list[Any] = []
    for image, weights in zip(np.split(x, groups, 1), np.split(w, groups, 0), strict=True):
        total = np.zeros((x.shape[0], weights.shape[0], *counts), x.dtype)
        for place in itertools.product(*map(range, kernel)):
            begin = np.array(place) * spread
            windows = (slice(b, b + (c - 1) * s + 1, s) for b, c, s in zip(begin, counts, steps))
            shifted = image[(slice(None), slice(None), *windows)]
            total += np.einsum("nc...,oc->no...", shifted, weights[(..., *place)])
        parts.append(total)
    result = np.concatenate(parts, axis=1)
    return result if planar else np.moveaxis(result, 1, -1)


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
        drawn((1, 6, 5, 9), (8, 3, 3, 3), padding=1, groups=2, algorithm="winograd2"),
        drawn((1, 3, 6, 6), (4, 3, 5, 5), "int32", padding=2),
        drawn((1, 3, 5, 4), (2, 3, 3, 3), "int8", padding=1),
    ]


def _lowered(
    x: Value,
    w: Value,
    rank: int,
    *,
    strides: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    data_layout: str,
    kernel_layout: str,
    algorithm: str = "direct",
) -> Value:
    """A convolution as padding, transposes and ``conv2d_valid``, or Winograd's transforms."""
    planar = data_layout == layouts(rank)[0]
    order, sides = kernel_axes(kernel_layout, rank), padding_of(padding, rank)
    padded = any(side != 0 for side in sides)
    spatial = tuple(range(1, rank + 1))
    # Where each result is made of one pixel, strides do no more than choose pixels.
    pointwise = all(w.shape[axis] == 1 for axis in order[:rank]) and not padded
    strides = per_spatial_axis("strides", strides, rank)
    if planar:
        x = F.transpose(x, axes=(0, *(axis + 1 for axis in spatial), 1))
    if any(stride > 1 for stride in strides) and pointwise:
        x = F.strided_slice(x, begin=(0,) * x.rank, end=x.shape, strides=(1, *strides, 1))
        strides = (1,) * rank
    if order != tuple(range(rank + 2)):
        # A view: it is copied once, when it is packed or transformed.
        constant = w.fold(lambda array: array.transpose(order))
        w = constant or F.transpose(w, axes=order)
    if algorithm not in ("auto", "direct"):
        result = winograd(x, w, algorithm, sides, groups)
    else:
        if padded:
            x = F.nn.pad(x, pad_width=geometry.spatial_pads(spatial, sides))
        valid = getattr(F, f"conv{rank}d_valid")
        result = valid(x, w, strides=strides, dilation=dilation, groups=groups)
    return F.transpose(result, axes=(0, rank + 1, *spatial)) if planar else result


def _attrs(rank: int) -> dict[str, Any]:
    """The attributes of a convolution."""
    (first, last), letters = layouts(rank), SPATIAL[rank]
    return {
        "strides": geometry.stride_attr(rank),
        "padding": geometry.padding_attr(rank),
        "dilation": dilation_attr(rank),
        "groups": GROUPS,
        "data_layout": attr(f"layout of x and of the result, {first} or {last}", first, "str"),
        "kernel_layout": attr(f"layout of w, OI{letters} or {letters}IO", f"OI{letters}", "str"),
    }


@composite(
    "nn.conv2d",
    Pattern.CONTRACTION,
    batch="images",
    traits=Trait.MULTILINEAR,
    algorithms=conv2d_algorithms,
    dtypes="iuf",
    rule=_conv2d_rule,
    reference=in_float64(_reference),
    samples=_conv2d_samples,
    attrs={
        **_attrs(2),
        "algorithm": attr(
            "direct, or for plain 3x3 windows winograd2 or winograd4: fewer multiplications, "
            "rounded otherwise; auto leaves the choice to the compiler. winograd2 of int16 gives "
            "int32, and takes differences of bytes only",
            "auto",
            "str",
        ),
    },
)
def _conv2d(x: Value, w: Value, **attrs: Any) -> Value:
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
    return _lowered(x, w, 2, **attrs)


def _samples_of_rank(rank: int) -> list[dict[str, Any]]:
    """Shapes and attributes of convolutions, with channels first and last."""
    letters = SPATIAL[rank]
    last = {"data_layout": f"N{letters}C", "kernel_layout": f"{letters}IO"}
    size, kernel = (9, 8, 7)[:rank], (3, 2, 3)[:rank]
    return [
        {"x": (2, 3, *size), "w": (4, 3, *kernel)},
        {"x": (1, *size, 5), "w": (*kernel, 5, 3), "padding": 1, "strides": 2, **last},
        {"x": (1, 6, *size), "w": (4, 3, *kernel), "groups": 2, "dilation": 2},
        {"x": (1, *size, 5), "w": (*kernel, 1, 5), "groups": 5, "padding": 1, **last},
        {"x": (1, 3, *size), "w": (2, 3, *(1,) * rank), "strides": 3},
        {"x": (1, 2, *size), "w": (2, 2, *kernel), "padding": tuple(range(2 * rank))},
        {"x": (0, 2, *size), "w": (2, 2, *kernel)},
    ]


def _declare_convolution(rank: int) -> None:
    letters = SPATIAL[rank]
    axes = ", ".join(letters)
    windows = ", ".join(f"K{letter}" for letter in letters)
    typed = {1: "(1, 64, 100)", 3: "(1, 64, 8, 28, 28)"}[rank]
    doc = f"""Convolution in {rank} dimension{"s" * (rank > 1)}: ``nn.conv2d`` for other arrays.

``x`` of shape (N, C, {axes}) or (N, {axes}, C), ``w`` of (O, C / groups, {windows}) or
({windows}, C / groups, O), of one integer or float dtype; the result has that dtype, the
layout of ``x`` and O channels. Errors as of ``nn.conv2d``.

    fn (
      %x: Tensor[{typed}, float32],
      %w: Tensor[(64, 64{", 3" * rank}), float32]
    ) -> Tensor[{typed}, float32] {{
      nn.conv{rank}d(%x, %w, padding=1)
    }}
"""

    def samples(rng: np.random.Generator) -> list[Sample]:
        drawn = _samples_of_rank(rank)
        return [sample(floats(rng, s.pop("x")), floats(rng, s.pop("w")), **s) for s in drawn]

    @composite(
        f"nn.conv{rank}d",
        Pattern.CONTRACTION,
        batch="images",
        traits=Trait.MULTILINEAR,
        dtypes="iuf",
        rule=_rule,
        reference=in_float64(_reference),
        samples=samples,
        doc=doc,
        attrs=_attrs(rank),
    )
    def _convolution(x: Value, w: Value, **attrs: Any) -> Value:
        return _lowered(x, w, rank, **attrs)


def _declare_valid(rank: int) -> None:
    letters = ", ".join(SPATIAL[rank])
    windows, results = (", ".join(f"{k}{c}" for c in SPATIAL[rank]) for k in "KO")
    image, kernel = ", ".join(["58"] * rank), ", ".join(["3"] * rank)
    doc = f"""Convolution without padding, channels last: the primitive of ``nn.conv{rank}d``.

``x`` of shape (N, {letters}, C), ``w`` of ({windows}, C / groups, O), of one integer or float
dtype; the result is (N, {results}, O). Errors as of ``nn.conv{rank}d``.

    fn (
      %x: Tensor[(1, {image}, 64), float32],
      %w: Tensor[({kernel}, 64, 64), float32]
    ) -> Tensor[(1, {", ".join(["28"] * rank)}, 64), float32] {{
      conv{rank}d_valid(%x, %w, strides=[{", ".join(["2"] * rank)}])
    }}
"""

    def rule(x: TensorType, w: TensorType, **attrs: Any) -> TensorType:
        last = {"data_layout": layouts(rank)[1], "kernel_layout": f"{SPATIAL[rank]}IO"}
        return _rule(x, w, **attrs, **last)

    def samples(rng: np.random.Generator) -> list[Sample]:
        def drawn(
            x: tuple[int, ...], w: tuple[int, ...], dtype: str = "float32", **attrs: Any
        ) -> Sample:
            return sample(floats(rng, x, dtype), floats(rng, w, dtype), **attrs)

        size, window, point = (9, 8, 7)[:rank], (3, 3, 2)[:rank], (1,) * rank
        return [
            drawn((1, *size, 3), (*window, 3, 5)),
            drawn((2, *size, 4), (*point, 4, 3), "float64", strides=(2,) * rank),
            drawn((1, *size, 6), (*window, 2, 9), groups=3, dilation=(2, 1, 3)[:rank]),
            drawn((1, *size, 7), (*window, 1, 7), groups=7),
            drawn((0, *size, 1), (*window, 1, 1)),
        ]

    @primitive(
        f"conv{rank}d_valid",
        Pattern.CONTRACTION,
        batch="images",
        traits=Trait.MULTILINEAR,
        transpose=lambda step: geometry.transpose_convolution(step, rank),
        dtypes="iuf",
        rule=rule,
        reference=in_float64(_reference),
        samples=samples,
        doc=doc,
    )
    def _valid(
        _out: TensorType,
        x: Tensor,
        w: Tensor,
        *,
        strides: Ints = geometry.stride_attr(rank),
        dilation: Ints = dilation_attr(rank),
        groups: int = GROUPS,
    ) -> Reduce:
        *window, inputs, channels = w.shape
        steps = per_spatial_axis("strides", strides, rank)
        spread = per_spatial_axis("dilation", dilation, rank)

        def element(*index: IndexLike) -> Expr:
            n, o, c = index[0], index[rank + 1], index[-1]
            at, place = index[1 : rank + 1], index[rank + 2 : -1]
            pixel = [
                index_add(index_mul(a, s), index_mul(p, d))
                for a, p, s, d in zip(at, place, steps, spread, strict=True)
            ]
            channel = c
            if groups > 1:
                group = index_div(o, channels // groups)
                channel = index_add(index_mul(group, inputs), c)
            return op("multiply", x(n, *pixel, channel), w(*place, c, o))

        return Reduce("sum", (*window, inputs), element)


for _rank in SPATIAL:
    _declare_valid(_rank)
    if _rank != 2:
        _declare_convolution(_rank)
