"""Winograd's convolution: 3x3 windows with fewer multiplications.

A tile of ``m`` x ``m`` results is made of ``(m + 2)²`` products per channel instead of ``9 m²``
(S. Winograd, "Arithmetic complexity of computations", 1980; A. Lavin and S. Gray, "Fast algorithms
for convolutional neural networks", CVPR 2016)::

    result = A^T [ sum over channels of (G kernel G^T) * (B^T image B) ] A

``nn.conv2d`` with ``algorithm="winograd2"`` or ``"winograd4"`` is lowered to the three transforms
below and a batched matrix product, one matrix for each of the ``(m + 2)²`` points.

The matrices are those of polynomials known at the points 0, ±1 and infinity (m = 2), or 0, ±3/4,
±3/2 and infinity (m = 4). The common choice 0, ±1, ±2 has an error several times as large. All
entries of A and B are exact in binary; those of G are rounded once, since G is used in float64.

Integers of 16 bits are exact in tiles of 2: the kernel at each point is taken four times,
which makes it whole, and ``winograd_result`` divides. Products are added up in int32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import Any, Generic, TypeVar

import numpy as np

from ..dataclass import dataclass
from ..dims import Dim, IntExpr, as_int, ceildiv, floordiv
from ..dtype import INT16, INT32
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.compose import F, Value
from ..graph.limits import GraphLimits
from ..graph.operator import Algorithm, Operator, Pattern, Sample
from ..graph.type_rules import Attrs
from ..graph.types import TensorType
from ..loop.expr import Expr, IndexLike, const, op, select
from ..loop.tensor import Tensor, index_add, index_div, index_less, index_mod, index_mul
from .declare import Element, attr, in_float64, primitive
from .sampling import ints, sample
from .window import kernel_axes, per_spatial_axis

TILES: dict[str, int] = {"winograd2": 2, "winograd4": 4}
"""The side of a tile of results, by the algorithm's name."""

ERROR_GROWTH: dict[str, float] = {"direct": 1.0, "winograd2": 2.0, "winograd4": 16.0}
"""Bound of an algorithm's error, as a multiple of that of direct summation (measured against
float64 on random, positive and spiked images of 4 to 512 channels)."""

_WORD_SHIFT = 2
"""Power of two of the points of an integer kernel: halves stand in G, on either side of it."""

_TILE = attr("side of a tile of results, 2 or 4")
_POINTS: dict[int, tuple[float, ...]] = {
    2: (1.0,),
    4: (0.75, 1.5),
}  # beside 0 and infinity, each with both signs

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Arithmetic(Generic[T]):
    """Addition and scaling of values: expressions in compiled code, arrays in the reference."""

    add: Callable[[T, T], T]
    sub: Callable[[T, T], T]
    scaled: Callable[[float, T], T]


def _scaled(factor: float, value: Expr) -> Expr:
    return value if factor == 1.0 else op("multiply", value, const(factor, value.dtype))


_SCALARS: _Arithmetic[Expr] = _Arithmetic(
    lambda a, b: op("add", a, b), lambda a, b: op("subtract", a, b), _scaled
)
_ARRAYS: _Arithmetic[Any] = _Arithmetic(lambda a, b: a + b, lambda a, b: a - b, lambda f, a: f * a)


def _kernel_matrix(tile: int) -> np.ndarray[Any, Any]:
    """G, float64 of shape (tile + 2, 3): the kernel's polynomial at the points, scaled."""
    squares = [p * p for p in _POINTS[tile]]
    rows = [[1.0 / prod(-s for s in squares), 0.0, 0.0]]
    for n, p in enumerate(_POINTS[tile]):
        scale = 2.0 * p * p * prod(squares[n] - s for k, s in enumerate(squares) if k != n)
        rows += [[1.0 / scale, sign * p / scale, p * p / scale] for sign in (1.0, -1.0)]
    return np.array([*rows, [0.0, 0.0, 1.0]])


def _image_line(tile: int, d: Sequence[T], by: _Arithmetic[T]) -> list[T]:
    """B^T d: the contribution of one line of a tile of the image at each point."""
    add, sub, scaled = by.add, by.sub, by.scaled
    if tile == 2:
        return [sub(d[2], d[0]), add(d[2], d[1]), sub(d[2], d[1]), sub(d[3], d[1])]
    a, b = _POINTS[4]
    total, product = a * a + b * b, a * a * b * b
    lines = [add(sub(d[4], scaled(total, d[2])), scaled(product, d[0]))]
    for p, q in ((a, b), (b, a)):
        even = sub(d[4], scaled(q * q, d[2]))
        odd = sub(scaled(p, d[3]), scaled(p * q * q, d[1]))
        lines += [add(even, odd), sub(even, odd)]
    return [*lines, add(sub(d[5], scaled(total, d[3])), scaled(product, d[1]))]


def _result_line(tile: int, m: Sequence[T], by: _Arithmetic[T]) -> list[T]:
    """A^T m: a line of results from the products at each point."""
    add, sub, scaled = by.add, by.sub, by.scaled
    if tile == 2:
        return [add(m[0], add(m[1], m[2])), add(sub(m[1], m[2]), m[3])]
    evens = add(m[1], m[2]), add(m[3], m[4])
    odds = sub(m[1], m[2]), sub(m[3], m[4])

    def joined(power: int) -> T:
        first, second = odds if power % 2 else evens
        a, b = _POINTS[4]
        return add(scaled(a**power, first), scaled(b**power, second))

    return [add(m[0], joined(0)), joined(1), joined(2), add(joined(3), m[5])]


def _pick(place: IndexLike, values: Sequence[Expr]) -> Expr:
    """Selects ``values[place]``."""
    picked = values[-1]
    for n in reversed(range(len(values) - 1)):
        picked = select(index_less(place, n + 1), values[n], picked)
    return picked


def _whole(rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "float32") -> Any:
    """Whole numbers: the transforms of an image and of products are exact on them."""
    return ints(rng, shape, "int32", -8, 8).astype(dtype)


def _transform(
    name: str,
    text: str,
    example: tuple[str, str, str],
    rule: Callable[..., TensorType],
    reference: Callable[..., Any],
    samples: Callable[[np.random.Generator], Sequence[Sample]],
    terms: int = 1,
    dtypes: str = "if",
) -> Callable[[Callable[..., Element]], Operator]:
    """Declares one of the transforms; ``example`` holds two types and attributes."""
    given, result, attrs = example
    return primitive(
        name,
        Pattern.CONTRACTION,
        not_differentiable="passes make it of nn.conv2d, which has one",
        dtypes=dtypes,
        rule=rule,
        reference=reference,
        samples=samples,
        cost=12.0,
        maps=True,
        terms=terms,
        doc=f"""{text}

One of the transforms that ``nn.conv2d`` with a Winograd ``algorithm`` is made of. ``tile`` is the
side of a tile of results, 2 or 4. LoopwrightTypeError for other shapes and dtypes,
LoopwrightValueError for another tile, of integers also for 4.

    fn (%x: {given}) -> {result} {{
      {name}(%x, {attrs})
    }}
""",
    )


def _require_tile(tile: int, x: TensorType) -> None:
    if tile not in _POINTS or (tile != 2 and x.dtype.is_integer):
        raise LoopwrightValueError(
            f"there are tiles of 2, and of 4 of floats, not of {tile!r} for {x.short}"
        )


def _image_rule(x: TensorType, tile: int) -> TensorType:
    _require_tile(tile, x)
    if x.rank != 4:
        raise LoopwrightTypeError(f"needs images (N, H, W, C), not {x.short}")
    n, height, width, channels = x.shape
    for size in (height, width):
        if isinstance(size, int) and (size < tile + 2 or (size - 2) % tile):
            raise LoopwrightTypeError(
                f"{x.short} is not made of tiles of {tile} with a border of 1"
            )
    rows, columns = floordiv(height - 2, tile), floordiv(width - 2, tile)
    return TensorType((n, rows, columns, tile + 2, tile + 2, channels), x.dtype)


def _image_reference(x: Any, tile: int) -> Any:
    rows, columns = (x.shape[1] - 2) // tile, (x.shape[2] - 2) // tile

    def at(i: int, j: int) -> Any:
        return x[:, i::tile, j::tile][:, :rows, :columns]

    points = range(tile + 2)
    lines = [_image_line(tile, [at(i, j) for i in points], _ARRAYS) for j in points]
    parts = [_image_line(tile, [lines[j][a] for j in points], _ARRAYS) for a in points]
    # parts: [points, points, n, rows, columns, channels]
    return np.array(parts).transpose(2, 3, 4, 0, 1, 5)


@_transform(
    "winograd_image",
    "The tiles of images (N, H, W, C), which overlap by 2, at each point: B^T tile B.",
    ("Tensor[(1, 58, 58, 64), float32]", "Tensor[(1, 14, 14, 6, 6, 64), float32]", "tile=4"),
    rule=_image_rule,
    reference=in_float64(_image_reference),
    samples=lambda rng: [
        sample(_whole(rng, (1, 6, 10, 5)), tile=4),
        sample(_whole(rng, (2, 10, 6, 3), "float64"), tile=4),
        sample(_whole(rng, (2, 4, 8, 17)), tile=2),
        sample(_whole(rng, (1, 8, 6, 19), "int16"), tile=2),
    ],
)
def _winograd_image(_out: TensorType, x: Tensor, *, tile: int = _TILE) -> Element:
    points = range(tile + 2)

    def element(*place: IndexLike) -> Expr:
        n, row, column, a, b, channel = place

        def at(i: int, j: int) -> Expr:
            y, z = index_add(index_mul(row, tile), i), index_add(index_mul(column, tile), j)
            return x(n, y, z, channel)

        lines = [_pick(a, _image_line(tile, [at(i, j) for i in points], _SCALARS)) for j in points]
        return _pick(b, _image_line(tile, lines, _SCALARS))

    return element


def _result_rule(m: TensorType, tile: int, height: Any, width: Any) -> TensorType:
    _require_tile(tile, m)
    points = tile + 2
    wanted = (ceildiv(height, tile), ceildiv(width, tile), points, points)
    fits = m.rank == 6 and all(
        a == b or not isinstance(a, int) or not isinstance(b, int)
        for a, b in zip(m.shape[1:5], wanted, strict=True)
    )
    if not fits:
        raise LoopwrightTypeError(
            f"{m.short} does not hold the {points}x{points} points of tiles that "
            f"cover {height}x{width}"
        )
    return TensorType((m.shape[0], height, width, m.shape[5]), m.dtype)


def _result_reference(m: Any, tile: int, height: int, width: int) -> Any:
    points = range(tile + 2)
    lines = [_result_line(tile, [m[:, :, :, a, b] for a in points], _ARRAYS) for b in points]
    parts = np.array(
        [_result_line(tile, [lines[b][u] for b in points], _ARRAYS) for u in range(tile)]
    )  # [tile, tile, n, rows, columns, channels]
    whole = parts.transpose(2, 3, 0, 4, 1, 5)
    n, rows, _, columns, _, channels = whole.shape
    whole = whole.reshape(n, rows * tile, columns * tile, channels)
    whole = whole >> _WORD_SHIFT if whole.dtype.kind == "i" else whole
    return whole[:, :height, :width]


@_transform(
    "winograd_result",
    "Images (N, height, width, O) of products at each point: A^T products A, a 4th of integers.",
    (
        "Tensor[(1, 14, 14, 6, 6, 64), float32]",
        "Tensor[(1, 56, 55, 64), float32]",
        "tile=4, height=56, width=55",
    ),
    rule=_result_rule,
    reference=in_float64(_result_reference),
    samples=lambda rng: [
        sample(_whole(rng, (1, 2, 3, 6, 6, 5)), tile=4, height=7, width=12),
        sample(_whole(rng, (2, 1, 1, 6, 6, 3), "float64"), tile=4, height=4, width=3),
        sample(_whole(rng, (2, 2, 1, 4, 4, 17)), tile=2, height=3, width=2),
        sample(_whole(rng, (1, 2, 2, 4, 4, 19), "int32"), tile=2, height=4, width=3),
    ],
    terms=9,
)
def _winograd_result(
    _out: TensorType,
    x: Tensor,
    *,
    tile: int = _TILE,
    _height: int = attr("rows of the result, of which the last tiles may hold more"),
    _width: int = attr("columns of the result"),
) -> Element:
    points = range(tile + 2)

    def element(*place: IndexLike) -> Expr:
        n, y, z, channel = place
        row, column = index_div(y, tile), index_div(z, tile)

        def line(b: int) -> list[Expr]:
            products = [x(n, row, column, a, b, channel) for a in points]
            return _result_line(tile, products, _SCALARS)

        lines = [_pick(index_mod(y, tile), line(b)) for b in points]
        made = _pick(index_mod(z, tile), _result_line(tile, lines, _SCALARS))
        if not made.dtype.is_integer:
            return made
        return op("right_shift", made, const(_WORD_SHIFT, made.dtype))

    return element


def _kernel_rule(w: TensorType, tile: int) -> TensorType:
    _require_tile(tile, w)
    if w.rank != 4 or any(isinstance(s, int) and s != 3 for s in w.shape[:2]):
        raise LoopwrightTypeError(f"needs a kernel (3, 3, C, O), not {w.short}")
    return TensorType((tile + 2, tile + 2, *w.shape[2:]), w.dtype)


def _kernel_reference(w: Any, tile: int) -> Any:
    """Computes in float64, some channels at once, which stay in the cache."""
    matrix = np.asarray(_kernel_matrix(tile), np.float64)
    points = len(matrix)
    made = np.empty((points, points, *w.shape[2:]), w.dtype)
    for begin in range(0, w.shape[2], _CHANNELS):
        some = w[:, :, begin : begin + _CHANNELS].astype(np.float64)
        columns = (matrix @ some.reshape(3, -1)).reshape(points, 3, -1)
        made[:, :, begin : begin + _CHANNELS] = (matrix @ columns).reshape(
            points, points, *some.shape[2:]
        )
    return made


_CHANNELS = 16
"""Channels of a kernel that are transformed at once, as float64."""


@_transform(
    "winograd_kernel",
    "A kernel (3, 3, C, O) at each point: G kernel G^T.",
    ("Tensor[(3, 3, 64, 64), float32]", "Tensor[(6, 6, 64, 64), float32]", "tile=4"),
    rule=_kernel_rule,
    reference=_kernel_reference,
    samples=lambda rng: [sample(np.abs(_whole(rng, (3, 3, 2, 5))) + 1, tile=2)],
    dtypes="f",
)
def _winograd_kernel(_out: TensorType, x: Tensor, *, tile: int = _TILE) -> Element:
    matrix = _kernel_matrix(tile)

    def line(g: Sequence[Expr]) -> list[Expr]:
        sums: list[Expr] = []
        for row in matrix:
            terms = [_scaled(float(f), v) for f, v in zip(row, g, strict=True) if f]
            sums.append(reduce(_SCALARS.add, terms))
        return sums

    def element(*place: IndexLike) -> Expr:
        a, b, group_input, channel = place
        lines = [
            _pick(a, line([x(i, j, group_input, channel) for i in range(3)])) for j in range(3)
        ]
        return _pick(b, line(lines))

    return element


def winograd(
    x: Value, w: Value, algorithm: str, padding: Sequence[IntExpr], groups: int = 1
) -> Value:
    """The convolution of images (N, H, W, C) with a kernel (3, 3, C / groups, O), padded, as
    (N, H', W', O).

    The image is padded further until it is made of whole tiles. Every point of every group is a
    matrix product of its own. Of int16, the kernel is a constant, and the result int32.
    """
    tile, of_words = TILES[algorithm], x.dtype is INT16
    n, channels, outputs = x.shape[0], w.shape[2], w.shape[3]
    top, left, bottom, right = padding
    height, width = x.shape[1] + top + bottom - 2, x.shape[2] + left + right - 2
    rows, columns = ceildiv(height, tile), ceildiv(width, tile)
    below, behind = rows * tile - height, columns * tile - width
    pads = ((0, 0), (top, bottom + below), (left, right + behind), (0, 0))
    if any(side != 0 for pair in pads for side in pair):
        x = F.nn.pad(x, pad_width=pads)
    products, tiles = (tile + 2) ** 2 * groups, n * rows * columns
    image = F.winograd_image(x, tile=tile)
    image = F.reshape(image, newshape=(tiles, products, channels))
    scale = 1 << _WORD_SHIFT if of_words else 1
    transformed = w.fold(lambda array: _winograd_kernel.reference([scale * array], {"tile": tile}))
    w = transformed or F.winograd_kernel(w, tile=tile)
    if groups > 1:
        w = F.reshape(w, newshape=((tile + 2) ** 2, channels, groups, floordiv(outputs, groups)))
        w = F.transpose(w, axes=(0, 2, 1, 3))
    w = F.reshape(w, newshape=(products, channels, floordiv(outputs, groups)))
    # The points of a tile are contiguous, so that a tile is written and read in one run.
    image = F.transpose(image, axes=(1, 0, 2))
    if of_words:
        image, w = (F.cast(factor, dtype=INT32.name) for factor in (image, w))
    product = F.nn.matmul(image, w)
    product = F.transpose(product, axes=(1, 0, 2))
    shape = (n, rows, columns, tile + 2, tile + 2, outputs)
    product = F.reshape(product, newshape=shape)
    return F.winograd_result(product, tile=tile, height=height, width=width)


def winograd_fits(w: TensorType, attrs: Attrs) -> bool:
    """True if a convolution with this kernel can be computed by Winograd's algorithm."""
    plain = all(per_spatial_axis(key, attrs[key]) == (1, 1) for key in ("strides", "dilation"))
    order = (0, 1) if attrs["kernel_layout"] == "HWIO" else (2, 3)
    square = w.rank == 4 and (w.shape[order[0]], w.shape[order[1]]) == (3, 3)
    return plain and square and (w.dtype.is_float or w.dtype is INT16)


def conv2d_algorithms(
    types: Sequence[TensorType], result: TensorType, attrs: Attrs, limits: GraphLimits
) -> Sequence[Algorithm]:
    """Returns the algorithms of a call of ``nn.conv2d``; none where there is no choice."""
    _, w = types
    if not winograd_fits(w, attrs) or not w.dtype.is_float:
        return ()
    axes = (0, 1, 2, 3) if attrs["data_layout"] == "NHWC" else (0, 2, 3, 1)
    groups, inputs = attrs["groups"], kernel_axes(attrs["kernel_layout"], 2)[2]
    sizes = (*(result.shape[axis] for axis in axes), w.shape[inputs])
    if any(isinstance(size, Dim) or not size for size in sizes):
        return ()
    n, height, width, outputs, channels = map(as_int, sizes)
    if groups > 1 and channels < limits.lanes:  # products of next to nothing
        return ()
    shape = (n, height, width, channels, outputs // groups)
    return [
        Algorithm(
            name, growth, 9 * channels, estimate(name, shape, result.dtype.bytes, limits, groups)
        )
        for name, growth in ERROR_GROWTH.items()
    ]


def estimate(
    algorithm: str,
    shape: Sequence[int],
    bytes: int,
    limits: GraphLimits,
    groups: int = 1,
) -> float:
    """Rough time of a 3x3 convolution of results (n, height, width) from channels to outputs, in
    each of so many groups.

    >>> same = (1, 56, 56, 64, 64)
    >>> direct, tiled = (estimate(a, same, 4, GraphLimits()) for a in ("direct", "winograd4"))
    >>> tiled < 0.6 * direct
    True
    """
    n, height, width, channels, outputs = shape
    n *= groups  # a group is as much work as an image, with weights of its own
    wide = -(-outputs // limits.lanes) * limits.lanes

    def fetched(elements: float) -> float:
        return limits.fetch * max(0.0, elements - limits.cache_bytes / bytes)

    if algorithm == "direct":
        weights = limits.fetch_weights * 9 * channels * outputs * groups
        work = limits.direct_product * n * height * width * 9 * channels * wide
        return max(work, weights)  # the next weights come while these are used
    tile = TILES[algorithm]
    tiles, points = n * -(-height // tile) * -(-width // tile), (tile + 2) ** 2
    deep = -(-channels // limits.lanes) * limits.lanes
    crowded = tiles * outputs * bytes % limits.set_bytes == 0
    back = limits.winograd_crowded if crowded else limits.winograd_result
    count = tiles * points
    products = count * limits.winograd_product * channels * wide
    transforms = count * (limits.winograd_image * deep + back * wide)
    between = 0.75 * fetched(count * (channels + outputs))  # in runs, some prefetched
    # The weights of the next product come while this one is computed.
    weights = limits.fetch_weights * points * channels * outputs * groups
    return max(products, weights) + transforms + between
