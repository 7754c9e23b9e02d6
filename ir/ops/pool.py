"""Pooling, and the primitive that is behind it: a reduction over windows of any rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dims import Dim, IntExpr, as_int, ceildiv
from ..dtype import dtype_of
from ..errors import LoopwrightValueError
from ..graph.builder import Builder
from ..graph.nodes import Atom
from ..graph.operator import Attr, Operator, Pattern, Sample, register
from ..graph.types import TensorType, Type
from ..loop.expr import Expr, IndexLike
from ..loop.scalar import COMBINERS
from ..loop.tensor import Map, Reduction, Tensor, index_add, index_mul
from .compose import call, scalar, tensor_type
from .rules import Attrs, Infer, require_kind, tensors
from .sampling import floats, ints
from .window import (
    DILATION,
    LAYOUT,
    PADDING,
    Padding,
    padding_of,
    pair,
    spatial_axes,
    spatial_pads,
    window_count,
    window_span,
)

__all__: list[str] = []


def _infer_window(types: tuple[Type, ...], attrs: Attrs) -> Type:
    name = "reduce_window"
    (x,) = tensors(name, types, 1)
    require_kind(name, "iuf", (x,))
    if attrs["combiner"] not in ("max", "min", "sum"):
        raise LoopwrightValueError(
            f"{name}: combiner {attrs['combiner']!r} is none of max, min, sum"
        )
    for label in ("window", "strides", "dilation"):
        values = attrs[label]
        if len(values) != x.rank or any(not isinstance(v, int) or v < 1 for v in values):
            raise LoopwrightValueError(
                f"{name}: {label} {values!r} is not one positive int per axis of {x.short}"
            )
    sizes = tuple(
        size if (window, stride) == (1, 1) else window_count(name, size, span, stride, x)
        for size, window, stride, span in zip(
            x.shape, attrs["window"], attrs["strides"], _spans(attrs), strict=True
        )
    )
    return TensorType(sizes, x.dtype)


def _spans(attrs: Attrs) -> list[int]:
    return [window_span(w, d) for w, d in zip(attrs["window"], attrs["dilation"], strict=True)]


def _compute_window(inputs: Sequence[Tensor], attrs: Attrs, out: TensorType) -> Map | Reduction:
    (x,) = inputs
    moving = [axis for axis, size in enumerate(attrs["window"]) if size > 1]

    def element(*i: IndexLike) -> Expr:
        at = [index_mul(n, stride) for n, stride in zip(i, attrs["strides"], strict=False)]
        for axis, n in zip(moving, i[out.rank :], strict=True):
            at[axis] = index_add(at[axis], index_mul(n, attrs["dilation"][axis]))
        return x(*at)

    if not moving:
        return Map(out.shape, out.dtype, element)
    over = tuple(attrs["window"][axis] for axis in moving)
    return Reduction(out.shape, out.dtype, over, attrs["combiner"], element)


def _reference_window(arrays: Sequence[Any], attrs: Attrs) -> Any:
    (x,) = arrays
    moving = [axis for axis, size in enumerate(attrs["window"]) if size > 1]
    spans = tuple(_spans(attrs)[axis] for axis in moving)
    view: Any = np.lib.stride_tricks.sliding_window_view
    windows = view(x, spans, axis=moving) if moving else x
    steps = tuple(slice(None, None, s) for s in attrs["strides"])
    taken = windows[steps + tuple(slice(None, None, attrs["dilation"][a]) for a in moving)]
    axes = tuple(range(x.ndim, x.ndim + len(moving)))
    if attrs["combiner"] == "sum":
        return np.asarray(np.sum(taken, axis=axes, dtype=x.dtype))
    return np.asarray(taken.max(axes) if attrs["combiner"] == "max" else taken.min(axes))


def _samples_window(rng: np.random.Generator) -> list[Sample]:
    def sample(x: Any, window: tuple[int, ...], combiner: str, **attrs: Any) -> Sample:
        ones = (1,) * len(window)
        given = {"combiner": combiner, "window": window, "strides": ones, "dilation": ones}
        return Sample((x,), {**given, **attrs})

    return [
        sample(floats(rng, (2, 9, 7)), (1, 3, 2), "max", strides=(1, 2, 1)),
        sample(floats(rng, (11,), "float64"), (3,), "sum", strides=(2,), dilation=(3,)),
        sample(ints(rng, (5, 6), "int8", -128, 127), (2, 6), "sum"),
        sample(ints(rng, (4, 4), "uint8", 0, 255), (2, 2), "min", strides=(2, 2)),
        sample(floats(rng, (5, 3)), (1, 1), "max", strides=(2, 1)),
        sample(np.array([1, np.nan, 3, -np.inf, 5], "float32"), (2,), "max"),
        sample(floats(rng, (0, 4)), (1, 2), "max"),
    ]


register(
    Operator(
        name="reduce_window",
        doc="""The greatest element, the least one or the sum of every window.

``x`` of any shape, integers or floats; a window has a size, a stride and a dilation on each axis.
The result has the dtype of ``x``, and windows stand only where they fit. LoopwrightValueError for
a window larger than an axis, LoopwrightTypeError for bool.

    fn (%x: Tensor[(9, 8), float32]) -> Tensor[(3, 6), float32] {
      reduce_window(%x, combiner="max", window=[3, 3], strides=[3, 1], dilation=[1, 1])
    }
""",
        params=("x",),
        attrs=(
            Attr("combiner", "max, min or sum"),
            Attr("window", "size of the window per axis"),
            Attr("strides", "distance of neighbouring windows per axis"),
            Attr("dilation", "distance of the elements of a window per axis"),
        ),
        pattern=Pattern.CONTRACTION,
        infer=_infer_window,
        compute=_compute_window,
        reference=_reference_window,
        samples=_samples_window,
    )
)

_POOL_SIZE = Attr("pool_size", "size of the window, an int or one per axis")
_POOL_STRIDES = Attr("strides", "distance of neighbouring windows; None: the window's size", None)
_CEIL = Attr("ceil_mode", "whether a last window may reach over the padding", False)


def _pool_geometry(
    name: str, x: TensorType, attrs: Attrs
) -> tuple[tuple[int, int], tuple[IntExpr, ...], Padding]:
    """Axes of height and width, the result's shape, and what ceil_mode adds to the padding.

    With ``ceil_mode`` the number of windows is rounded up, unless the last one then begins behind
    the image.
    """
    axes = spatial_axes(name, attrs["layout"], x)
    window = pair(name, "pool_size", attrs["pool_size"])
    strides = _strides(name, attrs)
    dilation = pair(name, "dilation", attrs["dilation"])
    padding = padding_of(name, attrs["padding"])
    shape = list(x.shape)
    beyond: list[IntExpr] = []
    for n, axis in enumerate(axes):
        size = x.shape[axis] + padding[n] + padding[n + 2]
        span = window_span(window[n], dilation[n])
        count = window_count(name, size, span, strides[n], x)
        if attrs["ceil_mode"]:
            late = count * strides[n] - x.shape[axis] - padding[n]  # where one more would begin
            if not isinstance(late, int) or late < 0:
                count = ceildiv(size - span, strides[n]) + 1
        shape[axis] = count
        reach = (count - 1) * strides[n] + span - size
        beyond.append(reach if isinstance(reach, Dim) else max(0, reach))
    return axes, tuple(shape), (0, 0, beyond[0], beyond[1])


def _strides(name: str, attrs: Attrs) -> tuple[int, int]:
    given = attrs["pool_size"] if attrs["strides"] is None else attrs["strides"]
    return pair(name, "strides", given)


def _infer_pool(name: str, kinds: str) -> Infer:
    def infer(types: tuple[Type, ...], attrs: Attrs) -> Type:
        (x,) = tensors(name, types, 1)
        require_kind(name, kinds, (x,))
        _, shape, _ = _pool_geometry(name, x, attrs)
        return TensorType(shape, x.dtype)

    return infer


def _padded(b: Builder, x: Atom, axes: Sequence[int], padding: Padding, value: Any) -> Atom:
    if all(side == 0 for side in padding):
        return x
    return call(b, "nn.pad", x, pad_width=spatial_pads(axes, padding), pad_value=value)


def _windows(b: Builder, x: Atom, axes: Sequence[int], name: str, attrs: Attrs, how: str) -> Atom:
    window = pair(name, "pool_size", attrs["pool_size"])
    strides, dilation = _strides(name, attrs), pair(name, "dilation", attrs["dilation"])
    spans = [window_span(w, d) for w, d in zip(window, dilation, strict=True)]
    sizes = [tensor_type(x).shape[axis] for axis in axes]
    result = [
        window_count(name, size, span, stride, tensor_type(x))
        for size, span, stride in zip(sizes, spans, strides, strict=True)
    ]
    passes = [axes]
    if _is_better_apart(window, sizes, result, b.limits.pool_store):
        passes = [[axis] for axis in sorted(axes, key=lambda axis: -strides[axes.index(axis)])]
    for moved in passes:

        def per_axis(values: tuple[int, int], moved: Sequence[int] = moved) -> tuple[int, ...]:
            return tuple(values[axes.index(axis)] if axis in moved else 1 for axis in range(4))

        x = call(
            b,
            "reduce_window",
            x,
            combiner=how,
            window=per_axis(window),
            strides=per_axis(strides),
            dilation=per_axis(dilation),
        )
    return x


def _is_better_apart(
    window: tuple[int, int], sizes: Sequence[IntExpr], result: Sequence[IntExpr], store: int
) -> bool:
    """Whether a window is better reduced along one axis, and what comes of it along the other.

    A window of 13 x 13 takes 169 reads for each element of the result, but 13 and 13 apart, and a
    value in between that is stored and read again: as many reads as ``store`` says.
    """
    if not all(isinstance(n, int) and n > 0 for n in (*sizes, *result)):
        return False
    extra = min(as_int(size) / as_int(n) for size, n in zip(sizes, result, strict=True))
    apart = extra * (max(window) + store) + min(window)
    return apart < window[0] * window[1]


def _sum_sides(left: Padding, right: Padding) -> Padding:
    top, first, bottom, last = (a + b for a, b in zip(left, right, strict=True))
    return top, first, bottom, last


def _decompose_max_pool(b: Builder, args: Sequence[Atom], attrs: Attrs) -> Atom:
    (x,) = args
    name = "nn.max_pool2d"
    kind = tensor_type(x)
    axes, _, beyond = _pool_geometry(name, kind, attrs)
    sides = _sum_sides(padding_of(name, attrs["padding"]), beyond)
    padded = _padded(b, x, axes, sides, COMBINERS["max"].identity(kind.dtype))
    return _windows(b, padded, axes, name, attrs, "max")


def _decompose_avg_pool(b: Builder, args: Sequence[Atom], attrs: Attrs) -> Atom:
    (x,) = args
    name = "nn.avg_pool2d"
    kind = tensor_type(x)
    axes, _, beyond = _pool_geometry(name, kind, attrs)
    padding = padding_of(name, attrs["padding"])
    sides = _sum_sides(padding, beyond)
    total = _windows(b, _padded(b, x, axes, sides, 0), axes, name, attrs, "sum")
    counts_all = all(s == 0 for s in (beyond if attrs["count_include_pad"] else sides))
    if counts_all:
        height, width = pair(name, "pool_size", attrs["pool_size"])
        return call(b, "divide", total, scalar(b, height * width, kind.dtype))
    image = tuple(size if axis in axes else 1 for axis, size in enumerate(kind.shape))
    ones = call(b, "full", shape=image, fill_value=1, dtype=kind.dtype.name)
    if attrs["count_include_pad"]:
        ones = _padded(b, _padded(b, ones, axes, padding, 1), axes, beyond, 0)
    else:
        ones = _padded(b, ones, axes, sides, 0)
    return call(b, "divide", total, _windows(b, ones, axes, name, attrs, "sum"))


def _reference_pool(name: str) -> Callable[[Sequence[Any], Attrs], Any]:
    """Window by window: the elements of the image that it covers, and how many places count."""

    def reference(arrays: Sequence[Any], attrs: Attrs) -> Any:
        (x,) = arrays
        planar = attrs["layout"] == "NCHW"
        images = x if planar else np.moveaxis(x, 3, 1)
        lines = [_reference_line(images.shape[2 + n], n, attrs) for n in (0, 1)]
        dtype = x.dtype if name == "max" else np.dtype(np.float64)
        result = np.zeros((*images.shape[:2], *(len(line) for line in lines)), dtype)
        least = COMBINERS["max"].identity(dtype_of(x.dtype))
        for row, (ys, own_y, padded_y) in enumerate(lines[0]):
            for column, (xs, own_x, padded_x) in enumerate(lines[1]):
                part = images[:, :, ys][:, :, :, xs].astype(dtype)
                if name == "max":
                    result[:, :, row, column] = part.max(axis=(2, 3), initial=least)
                else:
                    include = attrs["count_include_pad"]
                    count = padded_y * padded_x if include else own_y * own_x
                    with np.errstate(invalid="ignore"):
                        result[:, :, row, column] = part.sum(axis=(2, 3)) / np.float64(count)
        result = result.astype(x.dtype)
        return result if planar else np.moveaxis(result, 1, 3)

    return reference


def _reference_line(size: int, n: int, attrs: Attrs) -> list[tuple[list[int], int, int]]:
    """Per window on one axis: indices inside, their number, and the number with padding."""
    window, dilation = np.resize(attrs["pool_size"], 2)[n], np.resize(attrs["dilation"], 2)[n]
    stride = np.resize(attrs["pool_size"] if attrs["strides"] is None else attrs["strides"], 2)[n]
    sides = np.resize(np.atleast_1d(attrs["padding"]), 4)
    before, after = sides[n], sides[n + 2]
    line: list[tuple[list[int], int, int]] = []
    start = -before
    while True:
        places = [int(start + k * dilation) for k in range(window)]
        fits = places[-1] < size + after
        late = attrs["ceil_mode"] and places[-1] - stride < size + after - 1 and start < size
        if not fits and not late:
            return line
        inside = [p for p in places if 0 <= p < size]
        line.append((inside, len(inside), sum(-before <= p < size + after for p in places)))
        start += stride


def _samples_pool(kinds: str) -> Callable[[np.random.Generator], list[Sample]]:
    def samples(rng: np.random.Generator) -> list[Sample]:
        def sample(*shape: int, dtype: str = "float32", **attrs: Any) -> Sample:
            draw = ints if "int" in dtype else floats
            return Sample((draw(rng, shape, dtype),), attrs)

        found = [
            sample(1, 3, 8, 8, pool_size=2),
            sample(2, 7, 9, 3, pool_size=(3, 2), strides=(2, 1), layout="NHWC"),
            sample(1, 2, 7, 7, dtype="float64", pool_size=3, strides=2, padding=1),
            sample(1, 1, 9, 8, pool_size=3, strides=2, padding=(0, 1, 1, 0), ceil_mode=True),
            sample(1, 1, 6, 5, pool_size=2, strides=2, ceil_mode=True),
            sample(1, 2, 9, 9, pool_size=2, strides=1, dilation=(2, 3)),
            sample(1, 1, 4, 4, pool_size=2, strides=3, padding=1, ceil_mode=True),
            sample(1, 1, 1, 1, pool_size=1),
            sample(0, 3, 4, 4, pool_size=2),
            sample(1, 2, 14, 15, pool_size=(7, 5), strides=(1, 2), padding=2, ceil_mode=True),
            sample(1, 17, 19, 3, pool_size=6, strides=1, dilation=(2, 3), layout="NHWC"),
        ]
        if "i" in kinds:
            found.append(sample(1, 2, 5, 5, dtype="int8", pool_size=3, padding=1, strides=2))
            found.append(sample(1, 2, 5, 5, dtype="int32", pool_size=2))
        else:
            found += [
                sample(1, 2, 7, 7, pool_size=3, strides=2, padding=1, count_include_pad=True),
                sample(1, 1, 6, 6, pool_size=3, strides=2, count_include_pad=True, ceil_mode=True),
                sample(
                    *(1, 5, 6, 2),
                    pool_size=2,
                    padding=1,
                    strides=3,
                    layout="NHWC",
                    count_include_pad=True,
                    ceil_mode=True,
                ),
            ]
        return found

    return samples


for _short, _text, _kinds, _decompose in (
    (
        "max",
        "The greatest element of every window; of padding alone, the least value of the dtype",
        "iuf",
        _decompose_max_pool,
    ),
    (
        "avg",
        "The mean of every window of an image; of padding alone that does not count, nan",
        "f",
        _decompose_avg_pool,
    ),
):
    _more = (Attr("count_include_pad", "whether padding counts in the divisor", False),)
    _numbers = "integers or floats" if _kinds == "iuf" else "float32 or float64"
    register(
        Operator(
            name=f"nn.{_short}_pool2d",
            doc=f"""{_text}.

``x`` of shape (N, C, H, W) or (N, H, W, C), {_numbers}; the result has the same
dtype and layout. LoopwrightValueError for a bad attribute, a rank other than 4 or a window larger
than the padded image, LoopwrightTypeError for another dtype.

    fn (%x: Tensor[(1, 3, 56, 56), float32]) -> Tensor[(1, 3, 28, 28), float32] {{
      nn.{_short}_pool2d(%x, pool_size=[2, 2])
    }}
""",
            params=("x",),
            attrs=(
                _POOL_SIZE,
                _POOL_STRIDES,
                PADDING,
                DILATION,
                LAYOUT,
                *(_more if _short == "avg" else ()),
                _CEIL,
            ),
            pattern=Pattern.CONTRACTION,
            infer=_infer_pool(f"nn.{_short}_pool2d", _kinds),
            decompose=_decompose,
            reference=_reference_pool(_short),
            samples=_samples_pool(_kinds),
        )
    )


def _infer_global(name: str, kinds: str) -> Infer:
    def infer(types: tuple[Type, ...], attrs: Attrs) -> Type:
        (x,) = tensors(name, types, 1)
        require_kind(name, kinds, (x,))
        axes = spatial_axes(name, attrs["layout"], x)
        if any(x.shape[axis] == 0 for axis in axes):
            raise LoopwrightValueError(f"{name}: {x.short} has no element to pool")
        return TensorType(tuple(1 if a in axes else s for a, s in enumerate(x.shape)), x.dtype)

    return infer


def _decompose_global(reduction: str) -> Callable[[Builder, Sequence[Atom], Attrs], Atom]:
    def decompose(b: Builder, args: Sequence[Atom], attrs: Attrs) -> Atom:
        axes = (2, 3) if attrs["layout"] == "NCHW" else (1, 2)
        return call(b, reduction, *args, axis=axes, keepdims=True)

    return decompose


def _samples_global(rng: np.random.Generator) -> list[Sample]:
    return [
        Sample((floats(rng, (2, 3, 5, 7)),), {}),
        Sample((floats(rng, (1, 4, 6, 3), "float64"),), {"layout": "NHWC"}),
        Sample((floats(rng, (1, 1, 1, 1)),), {}),
        Sample((floats(rng, (0, 2, 3, 3)),), {}),
    ]


for _short, _text, _kinds, _reduction, _function in (
    ("max", "The greatest element of every channel of an image", "iuf", "max", np.max),
    ("avg", "The mean of every channel of an image", "f", "mean", np.mean),
):

    def _reference_global(arrays: Sequence[Any], attrs: Attrs, f: Any = _function) -> Any:
        axes = (2, 3) if attrs["layout"] == "NCHW" else (1, 2)
        return f(arrays[0].astype(np.float64), axis=axes, keepdims=True).astype(arrays[0].dtype)

    register(
        Operator(
            name=f"nn.global_{_short}_pool2d",
            doc=f"""{_text}.

``x`` of shape (N, C, H, W) or (N, H, W, C), integers (max only) or floats; height and width
become 1. LoopwrightValueError for a rank other than 4 or an empty image, LoopwrightTypeError for
another dtype.

    fn (%x: Tensor[(1, 64, 7, 7), float32]) -> Tensor[(1, 64, 1, 1), float32] {{
      nn.global_{_short}_pool2d(%x)
    }}
""",
            params=("x",),
            attrs=(LAYOUT,),
            pattern=Pattern.REDUCTION,
            infer=_infer_global(f"nn.global_{_short}_pool2d", _kinds),
            decompose=_decompose_global(_reduction),
            reference=_reference_global,
            samples=_samples_global,
        )
    )
