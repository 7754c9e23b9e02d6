"""Transposed convolution, as convolutions of the input by phases.

With strides ``s`` the element ``s * i + k`` of the full result sums products of input ``i`` and
kernel element ``k``. The elements of one phase, ``o % s == r``, need the kernel elements
``k % s == r`` only: each phase is a plain convolution of the input with every ``s``-th element of
the mirrored kernel, and nothing is multiplied with the zeros of a dilated input (W. Shi and others,
"Is the deconvolution layer the same as a convolutional layer?", 2016). The phases are output
channels of one convolution; interleaving them is an index map. Where the kernel's size is not a
multiple of ``s``, some phases have one element less, and may be convolved on their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..dims import IntExpr, floordiv
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.compose import F, Value, cut
from ..graph.operator import Pattern, Sample
from ..graph.types import TensorType
from . import window
from .conv import GROUPS, check_channels, kernel_size
from .declare import Ints, attr, composite, in_float64
from .sampling import floats, sample

ONE_CONVOLUTION = 1.3
"""Work of all phases as one convolution over that of each phase alone, up to which it is one."""


def _output_padding(value: Any, rank: int) -> tuple[int, ...]:
    given = value if isinstance(value, tuple) else (value,)
    each = given * rank if len(given) == 1 else given
    if len(each) != rank or not all(isinstance(v, int) and v >= 0 for v in each):
        raise LoopwrightValueError(f"output_padding {value!r} is not one int or {rank}, each >= 0")
    return each


def _rule(
    x: TensorType,
    w: TensorType,
    strides: Any,
    padding: Any,
    output_padding: Any,
    dilation: Any,
    groups: Any,
    data_layout: str,
) -> TensorType:
    rank = len(data_layout) - 2
    spatial = window.spatial_axes(data_layout, x, rank if rank in window.SPATIAL else 2)
    if w.rank != x.rank:
        raise LoopwrightTypeError(f"the kernel needs as many axes as {x.short}, not {w.short}")
    channel = window.channel_axis(data_layout)
    kernel, outputs = kernel_size(w, range(2, rank + 2)), w.shape[1]
    # The kernel's groups divide its first axis, the inputs; its outputs are those of one group.
    if not isinstance(groups, int) or groups < 1:
        raise LoopwrightValueError(f"groups {groups!r} is not a positive int")
    inputs = floordiv(w.shape[0], groups)
    check_channels(x, w, x.shape[channel], inputs, outputs * groups, groups)
    steps = window.per_spatial_axis("strides", strides, rank)
    spread = window.per_spatial_axis("dilation", dilation, rank)
    sides, more = window.padding_of(padding, rank), _output_padding(output_padding, rank)
    shape = list(x.shape)
    shape[channel] = outputs * groups
    for n, axis in enumerate(spatial):
        span = window.window_span(kernel[n], spread[n])
        whole = (x.shape[axis] - 1) * steps[n] + span + more[n]
        size = whole - sides[n] - sides[n + rank]
        if isinstance(size, int) and size < 1:
            raise LoopwrightValueError(
                f"padding {padding!r} leaves nothing of {whole} elements on axis {axis}"
            )
        shape[axis] = size
    return TensorType(tuple(shape), x.dtype)


def _reference(
    x: Any,
    w: Any,
    strides: Any,
    padding: Any,
    output_padding: Any,
    dilation: Any,
    groups: int,
    data_layout: str,
) -> Any:
    """Each input times the whole kernel, added at its place; narrow floats are added wide."""
    rank, dtype = w.ndim - 2, x.dtype
    if dtype.itemsize == 2 and dtype.kind not in "iu":
        x, w = x.astype(np.float32), w.astype(np.float32)
    planar = data_layout == window.layouts(rank)[0]
    x = x if planar else np.moveaxis(x, -1, 1)
    steps, spread = np.resize(strides, rank), np.resize(dilation, rank)
    sides, more = np.resize(padding, 2 * rank), np.resize(output_padding, rank)
    sizes, kernel = np.array(x.shape[2:]), np.array(w.shape[2:])
    whole = (sizes - 1) * steps + (kernel - 1) * spread + 1 + more
    parts: list[Any] = []
    for image, weights in zip(np.split(x, groups, 1), np.split(w, groups, 0), strict=True):
        total = np.zeros((x.shape[0], w.shape[1], *whole), x.dtype)
        for place in itertools.product(*map(range, kernel)):
            begin = np.array(place) * spread
            windows = (slice(b, b + (n - 1) * s + 1, s) for b, n, s in zip(begin, sizes, steps))
            at = (slice(None), slice(None), *windows)
            total[at] += np.einsum("nc...,co->no...", image, weights[(..., *place)])
        parts.append(total)
    inside = (slice(a, n - b) for a, b, n in zip(sides[:rank], sides[rank:], whole, strict=True))
    result = np.concatenate(parts, axis=1)[(..., *inside)].astype(dtype)
    return result if planar else np.moveaxis(result, 1, -1)


def _mirrored(w: Value, groups: int) -> Value:
    """A kernel (C, O / groups, K...), mirrored for ``conv2d_valid``: (K..., C / groups, O)."""
    inputs, outputs, *kernel = w.shape
    rank = len(kernel)
    spatial = tuple(range(3, rank + 3))
    w = F.reshape(w, newshape=(groups, floordiv(inputs, groups), outputs, *kernel))
    w = F.transpose(w, axes=(*spatial, 1, 0, 2))
    w = F.reshape(w, newshape=(*kernel, floordiv(inputs, groups), groups * outputs))
    return F.reverse(w, axis=tuple(range(rank)))


def _dilated(w: Value, spread: Sequence[int]) -> Value:
    """A kernel (C, O, K...) with zeros between its elements."""
    for axis, step in enumerate(spread, 2):
        if step == 1 or w.shape[axis] == 1:
            continue
        size = w.shape[axis]
        w = F.expand_dims(w, axis=axis + 1)
        widths = tuple((0, step - 1 if a == axis + 1 else 0) for a in range(w.rank))
        w = F.nn.pad(w, pad_width=widths)
        w = F.reshape(w, newshape=(*w.shape[:axis], size * step, *w.shape[axis + 2 :]))
        w = cut(w, axis, 0, size * step - step + 1)
    return w


def _fitted(x: Value, axis: int, before: IntExpr, after: IntExpr) -> Value:
    """Pads one axis, or slices it where a side is negative."""
    size = x.shape[axis]
    begin = -before if isinstance(before, int) and before < 0 else 0
    end = size + after if isinstance(after, int) and after < 0 else size
    x = cut(x, axis, begin, end)
    widths = [(0, 0)] * x.rank
    widths[axis] = (0 if begin else before, 0 if end != size else after)  # type: ignore[assignment]
    return x if widths[axis] == (0, 0) else F.nn.pad(x, pad_width=tuple(widths))


def _phase_classes(kernel: int, stride: int) -> list[tuple[int, int]]:
    """Returns (first phase, end) of the phases with as many kernel elements each.

    >>> _phase_classes(3, 2), _phase_classes(4, 2), _phase_classes(1, 2)
    ([(0, 1), (1, 2)], [(0, 2)], [(0, 2)])
    """
    longer = kernel % stride
    return [(0, longer), (longer, stride)] if longer and kernel > stride else [(0, stride)]


def _phases(
    x: Value, w: Value, steps: Sequence[int], groups: int, chosen: Sequence[tuple[int, int]]
) -> Value:
    """Convolves ``x`` (N, S..., C) with the kernel elements of the chosen phases of each axis.

    The result is (N, Q1, R1, Q2, R2, ..., O): element ``q * stride + r`` of the full result is
    (q, r).
    """
    rank = len(steps)
    inputs, outputs, *kernel = w.shape
    counts = [end - begin for begin, end in chosen]
    taps = []
    for n, (stride, (begin, end)) in enumerate(zip(steps, chosen, strict=True)):
        axis = 2 + 2 * n
        size = kernel[n]
        assert isinstance(size, int)
        taps.append(max(1, -(-(size - begin) // stride)))
        w = _fitted(w, axis, 0, taps[n] * stride - size)
        w = F.reshape(w, newshape=(*w.shape[:axis], taps[n], stride, *w.shape[axis + 1 :]))
        w = cut(w, axis + 1, begin, end)
    # (C, O, T1, R1, T2, R2, ...) -> (C, O R1 R2 ..., T1, T2, ...), the phases in front of O
    # unless groups divide the outputs.
    taps_at, phases_at = range(2, 2 * rank + 2, 2), range(3, 2 * rank + 2, 2)
    w = F.transpose(w, axes=(0, *phases_at, 1, *taps_at))
    w = F.reshape(w, newshape=(inputs, prod(counts) * outputs, *taps))
    for n, size in enumerate(taps):
        x = _fitted(x, n + 1, size - 1, size - 1)
    valid = getattr(F, f"conv{rank}d_valid")
    result = valid(x, _mirrored(w, groups), groups=groups)
    places = result.shape[1:-1]
    result = F.reshape(result, newshape=(x.shape[0], *places, groups, *counts, outputs))
    order = [0]
    for n in range(rank):
        order += [n + 1, rank + 2 + n]
    result = F.transpose(result, axes=(*order, rank + 1, 2 * rank + 2))
    return F.reshape(result, newshape=(*result.shape[:-2], groups * outputs))


def _all_phases(
    x: Value, w: Value, steps: Sequence[int], groups: int, kernel: Sequence[int]
) -> Value:
    """All phases, in as few convolutions as waste little: (N, Q1, R1, Q2, R2, ..., O)."""
    classes = [_phase_classes(k, s) for k, s in zip(kernel, steps, strict=True)]
    waste = 1.0
    for size, stride in zip(kernel, steps, strict=True):
        waste *= -(-size // stride) * stride / size
    if waste <= ONE_CONVOLUTION:
        classes = [[(0, s)] for s in steps]
    lengths = [x.shape[n + 1] + -(-k // s) - 1 for n, (k, s) in enumerate(zip(kernel, steps))]

    def joined(chosen: tuple[tuple[int, int], ...]) -> Value:
        n = len(chosen)
        if n == len(steps):
            part = _phases(x, w, steps, groups, chosen)
            for axis, length in enumerate(lengths):
                part = _fitted(part, 2 * axis + 1, 0, length - part.shape[2 * axis + 1])
            return part
        parts = [joined((*chosen, each)) for each in classes[n]]
        return parts[0] if len(parts) == 1 else F.concatenate(*parts, axis=2 * n + 2)

    return joined(())


def _samples(rank: int) -> list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]]:
    """Shapes of images and kernels, and attributes."""
    size, last = (5, 4, 3)[:rank], {"data_layout": window.layouts(rank)[1]}
    three, four = (3,) * rank, (4, 2, 4)[:rank]
    return [
        ((2, 3, *size), (3, 4, *three), {}),
        ((1, *size, 3), (3, 2, *four), {"strides": 2, "padding": 1, **last}),
        ((1, 4, *size), (4, 2, *three), {"strides": 2, "padding": 1, "output_padding": 1}),
        ((1, 4, *size), (4, 3, *three), {"strides": (2, 3, 1)[:rank], "groups": 2}),
        ((1, *size, 3), (3, 1, *three), {"strides": 2, "groups": 3, "output_padding": 1, **last}),
        ((1, 2, *size), (2, 3, *three), {"dilation": 2, "padding": (0, 1, 2, 0, 1, 2)[: 2 * rank]}),
        ((1, 2, *size), (2, 2, *three), {"dilation": 3, "strides": 2}),
        ((1, 2, *size), (2, 2, *(1,) * rank), {"strides": 2}),
        ((1, 2, *size), (2, 2, *(2,) * rank), {"padding": 1, "output_padding": 3}),
        ((0, 2, *size), (2, 2, *three), {"strides": 2}),
    ]


def _declare(rank: int) -> None:
    letters = ", ".join(window.SPATIAL[rank])
    windows = ", ".join(f"K{letter}" for letter in window.SPATIAL[rank])
    image, result = ", ".join(["14"] * rank), ", ".join(["28"] * rank)
    doc = f"""Transposed convolution: the gradient of nn.conv{rank}d.

``x`` of shape (N, C, {letters}) or (N, {letters}, C), ``w`` of
(C, O / groups, {windows}), of one float dtype; the result has that dtype, the layout of
``x``, O channels and ``(size - 1) * stride + dilation * (K - 1) + 1 + output_padding`` elements
less the padding on each axis. LoopwrightTypeError where channels, ranks or dtypes do not fit,
LoopwrightValueError for a bad attribute.

    fn (
      %x: Tensor[(1, 8, {image}), float32],
      %w: Tensor[(8, 4, {", ".join(["4"] * rank)}), float32]
    ) -> Tensor[(1, 4, {result}), float32] {{
      nn.conv{rank}d_transpose(%x, %w, strides=2, padding=1)
    }}
"""

    def samples(rng: np.random.Generator) -> list[Sample]:
        return [sample(floats(rng, x), floats(rng, w), **attrs) for x, w, attrs in _samples(rank)]

    @composite(
        f"nn.conv{rank}d_transpose",
        Pattern.CONTRACTION,
        batch="images",
        rule=_rule,
        reference=in_float64(_reference),
        samples=samples,
        doc=doc,
    )
    def _conv_transpose(
        x: Value,
        w: Value,
        *,
        strides: Ints = window.stride_attr(rank),
        padding: Ints = window.padding_attr(rank),
        output_padding: Ints = attr("elements added behind, an int or one per axis", (0,) * rank),
        dilation: Ints = window.dilation_attr(rank),
        groups: int = GROUPS,
        data_layout: str = attr(
            f"layout of x, {' or '.join(window.layouts(rank))}", window.layouts(rank)[0]
        ),
    ) -> Value:
        planar = data_layout == window.layouts(rank)[0]
        steps = window.per_spatial_axis("strides", strides, rank)
        spread = window.per_spatial_axis("dilation", dilation, rank)
        sides, more = window.padding_of(padding, rank), _output_padding(output_padding, rank)
        spatial = tuple(range(1, rank + 1))
        sizes = x.shape[2:] if planar else x.shape[1:-1]
        spans = window.spans(kernel_size(w.type, range(2, rank + 2)), spread)
        if planar:
            x = F.transpose(x, axes=(0, *(axis + 1 for axis in spatial), 1))
        wholes = [(s - 1) * t + p for s, t, p in zip(sizes, steps, spans, strict=True)]
        if all(step == 1 for step in steps):
            # Without strides there is one phase: the image, padded, and the mirrored kernel.
            for n, span in enumerate(spans):
                x = _fitted(x, n + 1, span - 1 - sides[n], span - 1 - sides[n + rank] + more[n])
            valid = getattr(F, f"conv{rank}d_valid")
            y = valid(x, _mirrored(w, groups), dilation=spread, groups=groups)
        else:
            y = _all_phases(x, _dilated(w, spread), steps, groups, spans)
            y = F.reshape(
                y,
                newshape=(
                    y.shape[0],
                    *(y.shape[2 * n + 1] * steps[n] for n in range(rank)),
                    y.shape[-1],
                ),
            )
            for n, whole in enumerate(wholes):
                end = whole + more[n] - sides[n + rank] - y.shape[n + 1]
                y = _fitted(y, n + 1, -sides[n], end)
        return F.transpose(y, axes=(0, rank + 1, *spatial)) if planar else y


for _rank in window.SPATIAL:
    _declare(_rank)
