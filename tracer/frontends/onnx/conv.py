"""Converters of convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from ... import nn
from .table import Value, converter

Ints = tuple[int, ...]


def span_of(window: Sequence[int], dilations: Sequence[int]) -> Ints:
    """Returns the number of elements from the first to the last of a window on each axis."""
    return tuple((k - 1) * d + 1 for k, d in zip(window, dilations, strict=True))


def window_sides(
    auto_pad: str, pads: Ints | None, sizes: Sequence[int], spans: Ints, strides: Ints
) -> Ints:
    """Returns the padding in front of all axes, then that behind, as ``pads`` or ``auto_pad`` say.

    With ``SAME_UPPER`` and ``SAME_LOWER`` there are as many windows as strides on an axis.
    """
    if auto_pad == "VALID" or (auto_pad in ("NOTSET", "") and pads is None):
        return (0,) * (2 * len(spans))
    if auto_pad in ("NOTSET", ""):
        return tuple(pads or ())
    whole = [
        max(0, (-(-size // stride) - 1) * stride + span - size)
        for size, span, stride in zip(sizes, spans, strides, strict=True)
    ]
    less, more = tuple(w // 2 for w in whole), tuple(w - w // 2 for w in whole)
    return (*less, *more) if auto_pad == "SAME_UPPER" else (*more, *less)


# kernel_shape: the weights have it.
@converter("Conv", since=1, ignores=("kernel_shape",))
def convolution(
    x: Value,
    w: Value,
    bias: Value = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Value:
    """Returns the convolution with ONNX's attributes."""
    rank = x.ndim - 2
    step, spread = strides or (1,) * rank, dilations or (1,) * rank
    sides = window_sides(auto_pad, pads, x.shape[2:], span_of(w.shape[2:], spread), step)
    return nn.conv(x, w, bias, strides=step, padding=sides, dilation=spread, groups=group)


# kernel_shape: the weights have it.
@converter("ConvTranspose", since=1, ignores=("kernel_shape",))
def _conv_transpose(
    x: Value,
    w: Value,
    bias: Value = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    output_padding: Ints | None = None,
    output_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Value:
    rank = x.ndim - 2
    step, spread = strides or (1,) * rank, dilations or (1,) * rank
    more = output_padding or (0,) * rank
    sides = tuple(pads) if pads is not None else (0,) * (2 * rank)
    if output_shape is None and auto_pad.startswith("SAME"):
        output_shape = tuple(n * s for n, s in zip(x.shape[2:], step, strict=True))
    if output_shape is not None:
        spans = span_of(w.shape[2:], spread)
        whole = [
            s * (n - 1) + p + k - size
            for s, n, p, k, size in zip(
                step, x.shape[2:], more, spans, output_shape[-rank:], strict=True
            )
        ]
        # A result larger than the full one is padded behind.
        more = tuple(p + max(0, -total) for p, total in zip(more, whole, strict=True))
        less = tuple(max(0, total) // 2 for total in whole)
        rest = tuple(max(0, total) - half for total, half in zip(whole, less, strict=True))
        sides = (*less, *rest) if auto_pad == "SAME_UPPER" else (*rest, *less)
    elif auto_pad == "VALID":
        sides = (0,) * (2 * rank)
    return nn.conv_transpose(
        x,
        w,
        bias,
        strides=step,
        padding=sides,
        output_padding=more,
        dilation=spread,
        groups=group,
    )
