"""Pooling in one, two and three dimensions, and ``reduce_window``, to which it is lowered."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..dims import Dim, IntExpr, as_int, ceildiv, int_max
from ..dtype import dtype_of
from ..errors import LoopwrightValueError, UnsupportedError
from ..graph.compose import F, Value
from ..graph.operator import Pattern, Sample
from ..graph.requirements import demand
from ..graph.types import TensorType
from ..loop.expr import Expr, IndexLike
from ..loop.scalar import COMBINERS
from ..loop.tensor import Tensor, index_add, index_mul
from . import window as geometry
from .declare import DTYPE_WORDS, Element, PerAxis, Reduce, attr, composite, in_float64, primitive
from .sampling import floats, ints, sample
from .window import SPATIAL, Padding, layouts, per_spatial_axis, spans, spatial_axes, window_count


class _Windows:
    """The places of the windows of a pooling; checks its attributes.

    ``axes`` are the spatial ones, ``shape`` is the result's, and ``beyond`` is what ``ceil_mode``
    adds to the padding: with it the number of windows is rounded up, unless the last one then
    begins behind the image.
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
        **_: Any,
    ) -> None:
        rank = len(layout) - 2 if len(layout) - 2 in SPATIAL else 2
        self.axes = spatial_axes(layout, x, rank)
        self.window = per_spatial_axis("pool_size", pool_size, rank)
        self.strides = per_spatial_axis("strides", pool_size if strides is None else strides, rank)
        self.dilation = per_spatial_axis("dilation", dilation, rank)
        self.padding = geometry.padding_of(padding, rank)
        shape = list(x.shape)
        beyond: list[IntExpr] = []
        for n, axis in enumerate(self.axes):
            stride, span = self.strides[n], geometry.window_span(self.window[n], self.dilation[n])
            size = x.shape[axis] + self.padding[n] + self.padding[n + rank]
            count = window_count(size, span, stride, x)
            if ceil_mode:
                more = ceildiv(size - span, stride) + 1
                late = count * stride - x.shape[axis] - self.padding[n]  # begin of one more window
                if isinstance(more - count, Dim):
                    raise UnsupportedError(
                        f"ceil_mode for {x.short}: the number of windows is symbolic",
                        hint="ceil_mode=False, with padding behind the image",
                    )
                if not isinstance(late, int) or late < 0:
                    count = more
            shape[axis] = count
            reach = (count - 1) * stride + span - size
            beyond.append(int_max(0, reach) if ceil_mode else 0)
        self.shape = tuple(shape)
        self.beyond: Padding = (*(0,) * rank, *beyond)

    @property
    def sides(self) -> Padding:
        """The padding, with what ``ceil_mode`` adds."""
        return tuple(side + more for side, more in zip(self.padding, self.beyond, strict=True))

    def padded(self, x: Value, padding: Padding, value: Any) -> Value:
        if all(side == 0 for side in padding):
            return x
        return F.nn.pad(x, pad_width=geometry.spatial_pads(self.axes, padding), pad_value=value)

    def reduce(self, x: Value, combiner: str) -> Value:
        """Each window of the padded image ``x`` reduced to one element."""
        axes, reach = self.axes, spans(self.window, self.dilation)
        sizes = [x.shape[axis] for axis in axes]
        result = [
            window_count(size, span, stride, x.type)
            for size, span, stride in zip(sizes, reach, self.strides, strict=True)
        ]
        passes: list[tuple[int, ...]] = [axes]
        if _is_cheaper_axis_by_axis(self.window, sizes, result, x.builder.limits.pool_store):
            passes = [(a,) for a in sorted(axes, key=lambda a: -self.strides[axes.index(a)])]
        for moved in passes:

            def per_axis(each: Sequence[int], moved: Sequence[int] = moved) -> tuple[int, ...]:
                rank = len(axes) + 2
                return tuple(each[axes.index(a)] if a in moved else 1 for a in range(rank))

            x = F.reduce_window(
                x,
                combiner=combiner,
                window=per_axis(self.window),
                strides=per_axis(self.strides),
                dilation=per_axis(self.dilation),
            )
        return x


def _is_cheaper_axis_by_axis(
    window: Sequence[int], sizes: Sequence[IntExpr], result: Sequence[IntExpr], store: int
) -> bool:
    """True if reducing windows along one axis, then the result along the next, costs less.

    A window of 13 x 13 takes 169 reads for each element of the result, but 13 and 13 in two passes,
    and a value in between that is stored and read again: as many reads as ``store`` says.
    """
    if not all(isinstance(n, int) and n > 0 for n in (*sizes, *result)):
        return False
    extra = min(as_int(size) / as_int(n) for size, n in zip(sizes, result, strict=True))
    *longer, last = sorted(window, reverse=True)
    return extra * sum(size + store for size in longer) + last < prod(window)


def _pool_rule(x: TensorType, **attrs: Any) -> TensorType:
    return TensorType(_Windows(x, **attrs).shape, x.dtype)


def _reference_pool(x: Any, layout: str, combine: str, **attrs: Any) -> Any:
    """Pooling, window by window, with the maximum, sum or mean of each."""
    rank = x.ndim - 2
    images = x if layout == layouts(rank)[0] else np.moveaxis(x, -1, 1)
    lines = [_reference_line(images.shape[2 + n], n, rank, **attrs) for n in range(rank)]
    result = np.zeros((*images.shape[:2], *map(len, lines)), x.dtype)
    least = COMBINERS["max"].identity(dtype_of(x.dtype))
    for place in itertools.product(*(range(len(line)) for line in lines)):
        windows = [line[at] for line, at in zip(lines, place, strict=True)]
        part = images
        for axis, (indices, _, _) in enumerate(windows, 2):
            part = np.take(part, indices, axis=axis)
        axes = tuple(range(2, rank + 2))
        if combine == "max":
            value = part.max(axis=axes, initial=least)
        else:
            value = part.sum(axis=axes)
        if combine == "mean":
            counts = [padded if attrs["count_include_pad"] else real for _, real, padded in windows]
            value = value / np.float64(prod(counts))
        result[(..., *place)] = value
    return result if layout == layouts(rank)[0] else np.moveaxis(result, 1, -1)


def _reference_line(
    size: int,
    n: int,
    rank: int,
    pool_size: Any,
    strides: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    **_: Any,
) -> list[tuple[list[int], int, int]]:
    """For each window on one axis: its indices inside, their number, and that with padding."""
    window, spread = np.resize(pool_size, rank)[n], np.resize(dilation, rank)[n]
    stride = np.resize(pool_size if strides is None else strides, rank)[n]
    sides = np.resize(np.atleast_1d(padding), 2 * rank)
    before, after = sides[n], sides[n + rank]
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


def _samples_of_rank(rng: np.random.Generator, rank: int, mean: bool) -> list[Sample]:
    if rank == 2:
        return _pool_samples(rng, mean)
    size, last = (9, 7, 8)[:rank], layouts(rank)[1]
    more = {"count_include_pad": True} if mean else {}
    return [
        sample(floats(rng, (2, 3, *size)), pool_size=2),
        sample(floats(rng, (1, *size, 2)), pool_size=3, strides=2, padding=1, layout=last, **more),
        sample(floats(rng, (1, 2, *size)), pool_size=2, strides=3, ceil_mode=True, dilation=2),
        sample(floats(rng, (1, 1, *size)), pool_size=5, strides=1, padding=2, ceil_mode=True),
    ]


def _pool_doc(rank: int, name: str, text: str, kinds: str) -> str:
    letters = ", ".join(SPATIAL[rank])
    image, result = ", ".join(["56"] * rank), ", ".join(["28"] * rank)
    return f"""{text}.

``x`` of shape (N, C, {letters}) or (N, {letters}, C), {DTYPE_WORDS[kinds]}; the result has the same
dtype and layout. LoopwrightValueError for a bad attribute, a rank other than {rank + 2} or a window
larger than the padded image, LoopwrightTypeError for another dtype.

    fn (%x: Tensor[(1, 3, {image}), float32]) -> Tensor[(1, 3, {result}), float32] {{
      {name}(%x, pool_size=[{", ".join(["2"] * rank)}])
    }}
"""


def _max_pool(x: Value, **attrs: Any) -> Value:
    windows = _Windows(x.type, **attrs)
    least = COMBINERS["max"].identity(x.dtype)
    return windows.reduce(windows.padded(x, windows.sides, least), "max")


def _sum_pool(x: Value, **attrs: Any) -> Value:
    windows = _Windows(x.type, **attrs)
    return windows.reduce(windows.padded(x, windows.sides, 0), "sum")


def _avg_pool(x: Value, **attrs: Any) -> Value:
    windows, count_include_pad = _Windows(x.type, **attrs), attrs["count_include_pad"]
    sides = windows.sides
    total = windows.reduce(windows.padded(x, sides, 0), "sum")
    if all(side == 0 for side in (windows.beyond if count_include_pad else sides)):
        return total / prod(windows.window)
    image = [size if axis in windows.axes else 1 for axis, size in enumerate(x.shape)]
    ones = x.full(image, 1)
    if count_include_pad:
        ones = windows.padded(windows.padded(ones, windows.padding, 1), windows.beyond, 0)
    else:
        ones = windows.padded(ones, sides, 0)
    # A division for each place of the image, instead of one for each element of the result.
    return total * (1 / windows.reduce(ones, "sum"))


def _declare_pool(kind: str, kinds: str, text: str, reference: Any, body: Any, rank: int) -> None:
    name, first = f"nn.{kind}_pool{rank}d", layouts(rank)[0]
    padded = attr("True if padding counts in the divisor", False, "bool")
    composite(
        name,
        Pattern.CONTRACTION,
        batch="images",
        dtypes=kinds,
        rule=_pool_rule,
        reference=reference,
        samples=lambda rng: _samples_of_rank(rng, rank, mean=kind == "avg"),
        doc=_pool_doc(rank, name, text, kinds),
        attrs={
            "pool_size": attr("size of the window, an int or one per axis", kind="Ints"),
            "strides": attr(
                "distance of neighbouring windows; None: the window's size", None, "Ints"
            ),
            "padding": geometry.padding_attr(rank),
            "dilation": geometry.dilation_attr(rank),
            "layout": attr(" or ".join(layouts(rank)), first, "str"),
            **({"count_include_pad": padded} if kind == "avg" else {}),
            "ceil_mode": attr("True if a last window may reach over the padding", False, "bool"),
        },
    )(body)


_GREATEST = "The greatest element of every window; of padding alone, the least value of the dtype"
_SUM = "The sum of every window; padding counts as zero"
_MEAN = "The mean of every window of an image; of padding alone that does not count, nan"
_SUMS, _MEANS = (in_float64(partial(_reference_pool, combine=c)) for c in ("sum", "mean"))

for _rank in SPATIAL:
    _declare_pool(
        "max", "iuf", _GREATEST, partial(_reference_pool, combine="max"), _max_pool, _rank
    )
    _declare_pool("sum", "iuf", _SUM, _SUMS, _sum_pool, _rank)
    _declare_pool("avg", "f", _MEAN, _MEANS, _avg_pool, _rank)


def _global_rule(x: TensorType, layout: str) -> TensorType:
    axes = spatial_axes(layout, x)
    message = f"{x.short} has no element to pool"
    if not all(demand(1, "<=", x.shape[axis], message) for axis in axes):
        raise LoopwrightValueError(message)
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
        batch="images",
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
    def _global(x: Value, *, layout: str = geometry.LAYOUT) -> Value:
        return getattr(F, reduce)(x, axis=axes(layout), keepdims=True)


_declare_global(
    "nn.global_max_pool2d",
    "The greatest element of every channel of an image",
    "iuf",
    "max",
    np.max,
)
_declare_global(
    "nn.global_avg_pool2d", "The mean of every channel of an image", "f", "mean", np.mean
)


def _reduce_window_rule(x: TensorType, combiner: str, **per_axis: Any) -> TensorType:
    if combiner not in ("max", "min", "sum"):
        raise LoopwrightValueError(f"combiner {combiner!r} is none of max, min, sum")
    for label, values in per_axis.items():
        if len(values) != x.rank or any(not isinstance(v, int) or v < 1 for v in values):
            raise LoopwrightValueError(
                f"{label} {values!r} is not one positive int per axis of {x.short}"
            )
    window, strides, dilation = per_axis.values()
    sizes = tuple(
        size if (whole, stride) == (1, 1) else window_count(size, span, stride, x)
        for size, whole, stride, span in zip(
            x.shape, window, strides, spans(window, dilation), strict=True
        )
    )
    return TensorType(sizes, x.dtype)


def _reduce_window_reference(
    x: Any, combiner: str, window: Any, strides: Any, dilation: Any
) -> Any:
    moving = [axis for axis, size in enumerate(window) if size > 1]
    reach = spans(window, dilation)
    view: Any = np.lib.stride_tricks.sliding_window_view
    windows = view(x, tuple(reach[axis] for axis in moving), axis=moving) if moving else x
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
    tangent=geometry.window_tangent,
    transpose=geometry.transpose_window,
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
