"""Pooling, and the primitive it is lowered to: a reduction over windows of any rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dims import Dim, IntExpr, as_int, ceildiv
from ..dtype import dtype_of
from ..errors import LoopwrightValueError
from ..graph.operator import Pattern, Sample
from ..graph.types import TensorType
from ..loop.expr import Expr, IndexLike
from ..loop.scalar import COMBINERS
from ..loop.tensor import Tensor, index_add, index_mul
from .compose import F, Value
from .declare import DTYPE_WORDS, Element, PerAxis, Reduce, attr, composite, in_float64, primitive
from .sampling import floats, ints, sample
from .window import (
    LAYOUT,
    Padding,
    dilation_attr,
    padding_attr,
    padding_of,
    per_spatial_axis,
    spatial_axes,
    spatial_pads,
    window_count,
    window_span,
)

__all__: list[str] = []


def _spans(window: Sequence[int], dilation: Sequence[int]) -> list[int]:
    return [window_span(w, d) for w, d in zip(window, dilation, strict=True)]


def _reduce_window_rule(x: TensorType, combiner: str, **per_axis: Any) -> TensorType:
    if combiner not in ("max", "min", "sum"):
        raise LoopwrightValueError(f"combiner {combiner!r} is none of max, min, sum")
    for label, values in per_axis.items():
        if len(values) != x.rank or any(not isinstance(v, int) or v < 1 for v in values):
            raise LoopwrightValueError(
                f"{label} {values!r} is not one positive int per axis of {x.short}"
            )
    window, strides, dilation = per_axis.values()
    spans = _spans(window, dilation)
    sizes = tuple(
        size if (whole, stride) == (1, 1) else window_count(size, span, stride, x)
        for size, whole, stride, span in zip(x.shape, window, strides, spans, strict=True)
    )
    return TensorType(sizes, x.dtype)


def _reduce_window_reference(
    x: Any, combiner: str, window: Any, strides: Any, dilation: Any
) -> Any:
    moving = [axis for axis, size in enumerate(window) if size > 1]
    spans = _spans(window, dilation)
    view: Any = np.lib.stride_tricks.sliding_window_view
    windows = view(x, tuple(spans[axis] for axis in moving), axis=moving) if moving else x
    steps = tuple(slice(None, None, s) for s in strides)
    taken = windows[steps + tuple(slice(None, None, dilation[a]) for a in moving)]
    axes = tuple(range(x.ndim, x.ndim + len(moving)))
    if combiner == "sum":
        return np.sum(taken, axis=axes, dtype=x.dtype)
    return taken.max(axes) if combiner == "max" else taken.min(axes)


def _reduce_window_samples(rng: np.random.Generator) -> list[Sample]:
    def drawn(x: Any, window: tuple[int, ...], combiner: str, **attrs: Any) -> Sample:
        ones = (1,) * len(window)
        given = {"combiner": combiner, "window": window, "strides": ones, "dilation": ones}
        return sample(x, **{**given, **attrs})

    return [
        drawn(floats(rng, (2, 9, 7)), (1, 3, 2), "max", strides=(1, 2, 1)),
        drawn(floats(rng, (11,), "float64"), (3,), "sum", strides=(2,), dilation=(3,)),
        drawn(ints(rng, (5, 6), "int8", -128, 127), (2, 6), "sum"),
        drawn(ints(rng, (4, 4), "uint8", 0, 255), (2, 2), "min", strides=(2, 2)),
        drawn(floats(rng, (5, 3)), (1, 1), "max", strides=(2, 1)),
        drawn(np.array([1, np.nan, 3, -np.inf, 5], "float32"), (2,), "max"),
        drawn(floats(rng, (0, 4)), (1, 2), "max"),
    ]


@primitive(
    "reduce_window",
    Pattern.CONTRACTION,
    dtypes="iuf",
    rule=_reduce_window_rule,
    reference=_reduce_window_reference,
    samples=_reduce_window_samples,
)
def _reduce_window(
    out: TensorType,
    x: Tensor,
    *,
    combiner: Any = attr("max, min or sum"),
    window: PerAxis = attr("size of the window per axis"),
    strides: PerAxis = attr("distance of neighbouring windows per axis"),
    dilation: PerAxis = attr("distance of the elements of a window per axis"),
) -> Element | Reduce:
    """The greatest element, the least one or the sum of every window.

    ``x`` of any shape, integers or floats; a window has a size, a stride and a dilation on each
    axis. The result has the dtype of ``x``, and windows stand only where they fit.
    LoopwrightValueError for a window larger than an axis, LoopwrightTypeError for bool.

        fn (%x: Tensor[(9, 8), float32]) -> Tensor[(3, 6), float32] {
          reduce_window(%x, combiner="max", window=[3, 3], strides=[3, 1], dilation=[1, 1])
        }
    """
    moving = [axis for axis, size in enumerate(window) if size > 1]

    def element(*i: IndexLike) -> Expr:
        at = [index_mul(n, stride) for n, stride in zip(i, strides, strict=False)]
        for axis, n in zip(moving, i[out.rank :], strict=True):
            at[axis] = index_add(at[axis], index_mul(n, dilation[axis]))
        return x(*at)

    over = tuple(window[axis] for axis in moving)
    return Reduce(combiner, over, element) if moving else element


_POOL_SIZE = attr("size of the window, an int or one per axis")
_POOL_STRIDES = attr("distance of neighbouring windows; None: the window's size", None)
_CEIL = attr("True if a last window may reach over the padding", False)


class _Windows:
    """The places of the windows of a pooling; checks its attributes.

    ``axes`` are those of height and width, ``shape`` is the result's, and ``beyond`` is what
    ``ceil_mode`` adds to the padding: with it the number of windows is rounded up, unless the last
    one then begins behind the image.
    """

    def __init__(
        self,
        x: TensorType,
        pool_size: Any,
        strides: Any,
        padding: Any,
        dilation: Any,
        layout: str,
        ceil_mode: bool,
        count_include_pad: bool = False,
    ) -> None:
        self.axes = spatial_axes(layout, x)
        self.window = per_spatial_axis("pool_size", pool_size)
        self.strides = per_spatial_axis("strides", pool_size if strides is None else strides)
        self.dilation = per_spatial_axis("dilation", dilation)
        self.padding = padding_of(padding)
        shape = list(x.shape)
        beyond: list[IntExpr] = []
        for n, axis in enumerate(self.axes):
            stride, span = self.strides[n], window_span(self.window[n], self.dilation[n])
            size = x.shape[axis] + self.padding[n] + self.padding[n + 2]
            count = window_count(size, span, stride, x)
            if ceil_mode:
                late = count * stride - x.shape[axis] - self.padding[n]  # begin of one more window
                if not isinstance(late, int) or late < 0:
                    count = ceildiv(size - span, stride) + 1
            shape[axis] = count
            reach = (count - 1) * stride + span - size
            beyond.append(reach if isinstance(reach, Dim) else max(0, reach))
        self.shape = tuple(shape)
        self.beyond: Padding = (0, 0, beyond[0], beyond[1])

    @property
    def sides(self) -> Padding:
        """The padding, with what ``ceil_mode`` adds."""
        top, left, bottom, right = self.padding
        return top, left, bottom + self.beyond[2], right + self.beyond[3]

    def padded(self, x: Value, padding: Padding, value: Any) -> Value:
        if all(side == 0 for side in padding):
            return x
        return F.nn.pad(x, pad_width=spatial_pads(self.axes, padding), pad_value=value)

    def reduce(self, x: Value, combiner: str) -> Value:
        """Each window of the padded image ``x`` reduced to one element."""
        axes, spans = self.axes, _spans(self.window, self.dilation)
        sizes = [x.shape[axis] for axis in axes]
        result = [
            window_count(size, span, stride, x.type)
            for size, span, stride in zip(sizes, spans, self.strides, strict=True)
        ]
        passes: list[tuple[int, ...]] = [axes]
        if _is_cheaper_in_two_passes(self.window, sizes, result, x.builder.limits.pool_store):
            passes = [(a,) for a in sorted(axes, key=lambda a: -self.strides[axes.index(a)])]
        for moved in passes:

            def per_axis(pair: Sequence[int], moved: Sequence[int] = moved) -> tuple[int, ...]:
                return tuple(pair[axes.index(a)] if a in moved else 1 for a in range(4))

            x = F.reduce_window(
                x,
                combiner=combiner,
                window=per_axis(self.window),
                strides=per_axis(self.strides),
                dilation=per_axis(self.dilation),
            )
        return x


def _is_cheaper_in_two_passes(
    window: tuple[int, int], sizes: Sequence[IntExpr], result: Sequence[IntExpr], store: int
) -> bool:
    """True if reducing windows along one axis, then the result along the other, costs less.

    A window of 13 x 13 takes 169 reads for each element of the result, but 13 and 13 in two passes,
    and a value in between that is stored and read again: as many reads as ``store`` says.
    """
    if not all(isinstance(n, int) and n > 0 for n in (*sizes, *result)):
        return False
    extra = min(as_int(size) / as_int(n) for size, n in zip(sizes, result, strict=True))
    two_passes = extra * (max(window) + store) + min(window)
    return two_passes < window[0] * window[1]


def _pool_rule(x: TensorType, **attrs: Any) -> TensorType:
    return TensorType(_Windows(x, **attrs).shape, x.dtype)


def _reference_pool(x: Any, layout: str, **attrs: Any) -> Any:
    """Pooling, window by window.

    The mean of each window if there is the attribute ``count_include_pad``, else the maximum.
    """
    mean = "count_include_pad" in attrs
    images = x if layout == "NCHW" else np.moveaxis(x, 3, 1)
    lines = [_reference_line(images.shape[2 + n], n, **attrs) for n in (0, 1)]
    result = np.zeros((*images.shape[:2], *(len(line) for line in lines)), x.dtype)
    least = COMBINERS["max"].identity(dtype_of(x.dtype))
    for row, (ys, own_y, padded_y) in enumerate(lines[0]):
        for column, (xs, own_x, padded_x) in enumerate(lines[1]):
            part = images[:, :, ys][:, :, :, xs]
            if mean:
                count = padded_y * padded_x if attrs["count_include_pad"] else own_y * own_x
                result[:, :, row, column] = part.sum(axis=(2, 3)) / np.float64(count)
            else:
                result[:, :, row, column] = part.max(axis=(2, 3), initial=least)
    return result if layout == "NCHW" else np.moveaxis(result, 1, 3)


def _reference_line(
    size: int,
    n: int,
    pool_size: Any,
    strides: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    count_include_pad: bool = False,
) -> list[tuple[list[int], int, int]]:
    """For each window on one axis: its indices inside, their number, and that with padding."""
    window, spread = np.resize(pool_size, 2)[n], np.resize(dilation, 2)[n]
    stride = np.resize(pool_size if strides is None else strides, 2)[n]
    sides = np.resize(np.atleast_1d(padding), 4)
    before, after = sides[n], sides[n + 2]
    line: list[tuple[list[int], int, int]] = []
    start = -before
    while True:
        places = [int(start + k * spread) for k in range(window)]
        fits = places[-1] < size + after
        late = ceil_mode and places[-1] - stride < size + after - 1 and start < size
        if not fits and not late:
            return line
        inside = [p for p in places if 0 <= p < size]
        line.append((inside, len(inside), sum(-before <= p < size + after for p in places)))
        start += stride


def _pool_samples(rng: np.random.Generator, mean: bool) -> list[Sample]:
    def drawn(*shape: int, dtype: str = "float32", **attrs: Any) -> Sample:
        draw = ints if "int" in dtype else floats
        return sample(draw(rng, shape, dtype), **attrs)

    samples = [
        drawn(1, 3, 8, 8, pool_size=2),
        drawn(2, 7, 9, 3, pool_size=(3, 2), strides=(2, 1), layout="NHWC"),
        drawn(1, 2, 7, 7, dtype="float64", pool_size=3, strides=2, padding=1),
        drawn(1, 1, 9, 8, pool_size=3, strides=2, padding=(0, 1, 1, 0), ceil_mode=True),
        drawn(1, 1, 6, 5, pool_size=2, strides=2, ceil_mode=True),
        drawn(1, 2, 9, 9, pool_size=2, strides=1, dilation=(2, 3)),
        drawn(1, 1, 4, 4, pool_size=2, strides=3, padding=1, ceil_mode=True),
        drawn(1, 1, 1, 1, pool_size=1),
        drawn(0, 3, 4, 4, pool_size=2),
        drawn(1, 2, 14, 15, pool_size=(7, 5), strides=(1, 2), padding=2, ceil_mode=True),
        drawn(1, 17, 19, 3, pool_size=6, strides=1, dilation=(2, 3), layout="NHWC"),
    ]
    if not mean:
        samples.append(drawn(1, 2, 5, 5, dtype="int8", pool_size=3, padding=1, strides=2))
        samples.append(drawn(1, 2, 5, 5, dtype="int32", pool_size=2))
    else:
        samples += [
            drawn(1, 2, 7, 7, pool_size=3, strides=2, padding=1, count_include_pad=True),
            drawn(1, 1, 6, 6, pool_size=3, strides=2, count_include_pad=True, ceil_mode=True),
            drawn(
                *(1, 5, 6, 2),
                pool_size=2,
                padding=1,
                strides=3,
                layout="NHWC",
                count_include_pad=True,
                ceil_mode=True,
            ),
        ]
    return samples


def _pool_doc(name: str, text: str, kinds: str) -> str:
    return f"""{text}.

``x`` of shape (N, C, H, W) or (N, H, W, C), {DTYPE_WORDS[kinds]}; the result has the same
dtype and layout. LoopwrightValueError for a bad attribute, a rank other than 4 or a window larger
than the padded image, LoopwrightTypeError for another dtype.

    fn (%x: Tensor[(1, 3, 56, 56), float32]) -> Tensor[(1, 3, 28, 28), float32] {{
      {name}(%x, pool_size=[2, 2])
    }}
"""


@composite(
    "nn.max_pool2d",
    Pattern.CONTRACTION,
    dtypes="iuf",
    rule=_pool_rule,
    reference=_reference_pool,
    samples=lambda rng: _pool_samples(rng, mean=False),
    doc=_pool_doc(
        "nn.max_pool2d",
        "The greatest element of every window; of padding alone, the least value of the dtype",
        "iuf",
    ),
)
def _max_pool2d(
    x: Value,
    *,
    pool_size: Any = _POOL_SIZE,
    strides: Any = _POOL_STRIDES,
    padding: Any = padding_attr(2),
    dilation: Any = dilation_attr(2),
    layout: str = LAYOUT,
    ceil_mode: bool = _CEIL,
) -> Value:
    windows = _Windows(x.type, pool_size, strides, padding, dilation, layout, ceil_mode)
    least = COMBINERS["max"].identity(x.dtype)
    return windows.reduce(windows.padded(x, windows.sides, least), "max")


@composite(
    "nn.avg_pool2d",
    Pattern.CONTRACTION,
    rule=_pool_rule,
    reference=in_float64(_reference_pool),
    samples=lambda rng: _pool_samples(rng, mean=True),
    doc=_pool_doc(
        "nn.avg_pool2d",
        "The mean of every window of an image; of padding alone that does not count, nan",
        "f",
    ),
)
def _avg_pool2d(
    x: Value,
    *,
    pool_size: Any = _POOL_SIZE,
    strides: Any = _POOL_STRIDES,
    padding: Any = padding_attr(2),
    dilation: Any = dilation_attr(2),
    layout: str = LAYOUT,
    count_include_pad: bool = attr("True if padding counts in the divisor", False),
    ceil_mode: bool = _CEIL,
) -> Value:
    windows = _Windows(x.type, pool_size, strides, padding, dilation, layout, ceil_mode)
    sides = windows.sides
    total = windows.reduce(windows.padded(x, sides, 0), "sum")
    if all(side == 0 for side in (windows.beyond if count_include_pad else sides)):
        return total / (windows.window[0] * windows.window[1])
    image = [size if axis in windows.axes else 1 for axis, size in enumerate(x.shape)]
    ones = x.full(image, 1)
    if count_include_pad:
        ones = windows.padded(windows.padded(ones, windows.padding, 1), windows.beyond, 0)
    else:
        ones = windows.padded(ones, sides, 0)
    return total / windows.reduce(ones, "sum")


def _global_rule(x: TensorType, layout: str) -> TensorType:
    axes = spatial_axes(layout, x)
    if any(x.shape[axis] == 0 for axis in axes):
        raise LoopwrightValueError(f"{x.short} has no element to pool")
    return TensorType(tuple(1 if a in axes else s for a, s in enumerate(x.shape)), x.dtype)


def _declare_global(name: str, text: str, kinds: str, reduce: str, numpy: Any) -> None:
    doc = f"""{text}.

``x`` of shape (N, C, H, W) or (N, H, W, C), {DTYPE_WORDS[kinds]}; height and width become 1.
LoopwrightValueError for a rank other than 4 or an empty image, LoopwrightTypeError for another
dtype.

    fn (%x: Tensor[(1, 64, 7, 7), float32]) -> Tensor[(1, 64, 1, 1), float32] {{
      {name}(%x)
    }}
"""

    def axes(layout: str) -> tuple[int, int]:
        return (2, 3) if layout == "NCHW" else (1, 2)

    @composite(
        name,
        Pattern.REDUCTION,
        dtypes=kinds,
        rule=_global_rule,
        reference=in_float64(lambda x, layout: numpy(x, axis=axes(layout), keepdims=True)),
        samples=lambda rng: [
            sample(floats(rng, (2, 3, 5, 7))),
            sample(floats(rng, (1, 4, 6, 3), "float64"), layout="NHWC"),
            sample(floats(rng, (1, 1, 1, 1))),
            sample(floats(rng, (0, 2, 3, 3))),
        ],
        doc=doc,
    )
    def _global(x: Value, *, layout: str = LAYOUT) -> Value:
        return getattr(F, reduce)(x, axis=axes(layout), keepdims=True)


_GREATEST = "The greatest element of every channel of an image"
_declare_global("nn.global_max_pool2d", _GREATEST, "iuf", "max", np.max)
_declare_global(
    "nn.global_avg_pool2d", "The mean of every channel of an image", "f", "mean", np.mean
)
