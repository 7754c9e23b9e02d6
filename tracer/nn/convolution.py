"""Convolution of images with one to three spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.dtype import INT32
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError
from ...ir.ops.window import SPATIAL, layouts
from ..core.argument_conversion import Ints, Pair, by_numpy, checked, like
from ..core.emitting import common_dtype
from .apply import apply


@checked
def conv(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    strides: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
    data_layout: str | None = None,
    kernel_layout: str | None = None,
) -> Any:
    """Convolution (cross-correlation) of images with one, two or three spatial axes.

    ``x`` is ``(n, c, *sizes)``, or ``(n, *sizes, c)`` where ``data_layout`` (``"NWC"``, ``"NHWC"``,
    ``"NDHWC"``) says so; everything else as in ``conv2d``, with as many strides and dilations and
    twice as many sides as there are sizes.

    >>> import numpy as np
    >>> from loopwright import nn
    >>> signal, smooth = np.float32([[[1, 2, 4, 8]]]), np.float32([[[0.5, 0.5]]])
    >>> nn.conv(signal, smooth).tolist()
    [[[1.5, 3.0, 6.0]]]
    """
    return _conv(x, w, bias, strides, padding, dilation, groups, data_layout, kernel_layout)


conv1d = like(
    conv,
    "conv1d",
    "One-dimensional convolution, of ``(n, c, w)`` or ``(n, w, c)``; see ``conv``.\n\n"
    ">>> nn.conv1d(np.float32([[[1, 2, 4]]]), np.float32([[[1, 1]]])).tolist()\n[[[3.0, 6.0]]]",
    data_layout="NCW",
)
conv3d = like(
    conv,
    "conv3d",
    "Three-dimensional convolution of ``(n, c, d, h, w)`` or ``(n, d, h, w, c)``: see ``conv``.\n\n"
    ">>> nn.conv3d(np.ones((1, 2, 4, 4, 4)), np.ones((5, 2, 3, 3, 3))).shape\n(1, 5, 2, 2, 2)",
    data_layout="NCDHW",
)


@checked
def conv2d(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    strides: Pair = 1,
    padding: Ints | str = 0,
    dilation: Pair = 1,
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str | None = None,
    algorithm: str = "auto",
) -> Any:
    """Two-dimensional convolution (cross-correlation, as everywhere in deep learning).

    ``x`` is ``(n, c, h, w)`` for ``data_layout="NCHW"``, ``(n, h, w, c)`` for ``"NHWC"``. ``w`` is
    ``(out, c / groups, kh, kw)`` for ``kernel_layout="OIHW"`` (the default with NCHW) and
    ``(kh, kw, c / groups, out)`` for ``"HWIO"`` (the default with NHWC). ``bias`` is ``(out,)``.
    ``padding`` is one int, ``(vertical, horizontal)``, ``(top, left, bottom, right)``, ``"same"``
    or ``"valid"``; the result has ``(h + top + bottom - dilation * (kh - 1) - 1) // stride + 1``
    rows. ``algorithm`` is ``"direct"``, ``"winograd2"``, ``"winograd4"`` or ``"auto"``: what is
    quickest within the ``precision`` of ``lw.compile``. Of int32 the result is int32, which wraps
    around; other integers become floats. Raises LoopwrightTypeError where shapes do
    not fit.

    >>> nn.conv2d(np.ones((1, 3, 8, 8)), np.ones((4, 3, 3, 3)), padding="same").shape
    (1, 4, 8, 8)
    """
    windows = (strides, padding, dilation)
    more = {"algorithm": algorithm}
    return _conv(x, w, bias, *windows, groups, data_layout, kernel_layout, **more)


def _conv(
    x: Any,
    w: Any,
    bias: Any,
    strides: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    data_layout: str | None,
    kernel_layout: str | None,
    **more: Any,
) -> Any:
    """Convolution by the operator of its rank, which the layout or else ``x`` gives."""
    rank, data = rank_and_layout(x, data_layout)
    kernel = kernel_layout or (f"OI{SPATIAL[rank]}" if data[1] == "C" else f"{SPATIAL[rank]}IO")
    step, spread = each(strides, rank), each(dilation, rank)
    window = _window(np.shape(w), kernel, rank)
    result = apply(
        f"nn.conv{rank}d",
        x,
        w,
        floats=common_dtype(x, w) is not INT32,
        strides=step,
        padding=sides_of(padding, window, spread, step),
        dilation=spread,
        groups=groups,
        data_layout=data,
        kernel_layout=kernel,
        **more,
    )
    return _with_bias(result, bias, rank, data)


@checked
def conv_transpose(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    strides: Ints = 1,
    padding: Ints | str = 0,
    output_padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
    data_layout: str | None = None,
) -> Any:
    """Transposed convolution of images with one, two or three spatial axes.

    ``x`` is ``(n, c, *sizes)`` or, for ``"NWC"``, ``"NHWC"`` and ``"NDHWC"``, ``(n, *sizes, c)``;
    ``w`` is ``(c, out / groups, *window)``, ``bias`` is ``(out,)``. The result has
    ``(size - 1) * stride + dilation * (window - 1) + 1 + output_padding`` elements on an axis, less
    the padding of both sides. Raises LoopwrightTypeError where shapes do not fit.

    >>> import numpy as np
    >>> from loopwright import nn
    >>> signal, twice = np.float32([[[1, 2, 3]]]), np.float32([[[1, 1]]])
    >>> nn.conv_transpose(signal, twice, strides=2).tolist()
    [[[1.0, 1.0, 2.0, 2.0, 3.0, 3.0]]]
    """
    rank, data = rank_and_layout(x, data_layout)
    spread, step = each(dilation, rank), each(strides, rank)
    result = apply(
        f"nn.conv{rank}d_transpose",
        x,
        w,
        strides=step,
        padding=sides_of(padding, (1,) * rank, spread, step),
        output_padding=each(output_padding, rank),
        dilation=spread,
        groups=groups,
        data_layout=data,
    )
    return _with_bias(result, bias, rank, data)


def rank_and_layout(x: Any, layout: str | None) -> tuple[int, str]:
    """Returns the number of spatial axes and the layout, which is channels first by default."""
    rank = (len(layout) if layout else np.ndim(x)) - 2
    if rank not in SPATIAL:
        names = ", ".join(name for r in SPATIAL for name in layouts(r))
        raise LoopwrightValueError(
            f"images have 3 to 5 axes, not {np.ndim(x)}"
            if layout is None
            else f"data_layout {layout!r} is none of {names}"
        )
    return rank, layout or layouts(rank)[0]


def _with_bias(result: Any, bias: Any, rank: int, layout: str) -> Any:
    if bias is None:
        return result
    shaped = np.reshape(bias, (-1, *(1,) * rank)) if layout[1] == "C" else bias
    return by_numpy(np.add, result, shaped)


def _window(shape: Sequence[Any], layout: str, rank: int) -> tuple[int, ...]:
    if len(shape) != rank + 2 or len(layout) != rank + 2 or set(SPATIAL[rank]) - set(layout):
        return (1,) * rank  # the operator's type rule says what is wrong
    return tuple(int(shape[layout.index(letter)]) for letter in SPATIAL[rank])


def each(value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """Returns one int as one per axis; several stay as they are."""
    return (value,) * rank if isinstance(value, int) else tuple(value)


def sides_of(
    padding: Ints | str, window: Sequence[int], spread: Sequence[int], step: Sequence[int]
) -> tuple[int, ...]:
    """Returns the padding as the sides before each axis, then those behind."""
    rank = len(window)
    if padding == "valid":
        return (0,) * (2 * rank)
    if padding == "same":
        if any(stride != 1 for stride in step):
            raise LoopwrightValueError('padding="same" needs strides of 1', hint="ints for padding")
        whole = [d * (k - 1) for d, k in zip(spread, window, strict=True)]
        return (*(side // 2 for side in whole), *(side - side // 2 for side in whole))
    if isinstance(padding, str):
        raise LoopwrightValueError(f'padding {padding!r} is neither "same" nor "valid"')
    if isinstance(padding, int):
        return (padding,) * (2 * rank)
    given = tuple(padding)
    if len(given) in (rank, 2 * rank):
        return given * (2 * rank // len(given))
    counts = sorted({1, rank, 2 * rank})
    words = f"{', '.join(map(str, counts[:-1]))} or {counts[-1]}"
    raise LoopwrightTypeError(f"padding is {words} ints, not {padding!r}")
