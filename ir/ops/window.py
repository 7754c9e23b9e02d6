"""Windows of convolution and pooling: their attributes, and the places where they fit.

Images have one to three spatial axes, which a layout names: NCW, NCHW or NCDHW with the channels in
front of them, NWC, NHWC or NDHWC with the channels behind.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from ..dims import Dim, IntExpr, as_int, floordiv, product
from ..errors import LoopwrightValueError
from ..graph.compose import F, Value, cut
from ..graph.requirements import demand
from ..graph.type_rules import is_size
from ..graph.types import TensorType
from .declare import attr

if TYPE_CHECKING:
    from ..graph.derivatives.rules import Step, Transposition

Padding: TypeAlias = tuple[IntExpr, ...]
"""The sides before each spatial axis, then those behind each."""

SPATIAL: dict[int, str] = {1: "W", 2: "HW", 3: "DHW"}
"""The letters of the spatial axes in layouts, by their number."""

_COUNTS = {1: "one positive int", 2: "one positive int or two", 3: "one positive int or three"}
_SIDES = {
    1: "an int or (before, behind)",
    2: "an int, (vertical, horizontal) or (top, left, bottom, right)",
    3: "an int, (depth, height, width) or (front, top, left, back, bottom, right)",
}


def padding_attr(rank: int) -> Any:
    """Declares the attribute ``padding`` of images with ``rank`` spatial axes."""
    return attr(_SIDES[rank], (0,) * (2 * rank), "Ints")


def stride_attr(rank: int) -> Any:
    """Declares the attribute ``strides``."""
    return attr("distance of neighbouring windows, an int or one per axis", (1,) * rank, "Ints")


def dilation_attr(rank: int) -> Any:
    """Declares the attribute ``dilation``."""
    return attr("distance of the elements of a window, an int or one per axis", (1,) * rank, "Ints")


LAYOUT = attr("NCHW or NHWC", "NCHW")


def layouts(rank: int) -> tuple[str, str]:
    """Returns the layouts of images with ``rank`` spatial axes: channels first, channels last.

    >>> layouts(2)
    ('NCHW', 'NHWC')
    """
    return f"NC{SPATIAL[rank]}", f"N{SPATIAL[rank]}C"


def kernel_axes(layout: str, rank: int) -> tuple[int, ...]:
    """Returns where a kernel's layout (OIHW, HWIO) has the spatial axes, the input and the output.

    >>> kernel_axes("OIHW", 2)
    (2, 3, 1, 0)
    """
    names = (f"OI{SPATIAL[rank]}", f"{SPATIAL[rank]}IO")
    if layout not in names:
        raise LoopwrightValueError(f"kernel_layout {layout!r} is none of {', '.join(names)}")
    return tuple(layout.index(letter) for letter in names[1])


def per_spatial_axis(label: str, value: Any, rank: int = 2) -> tuple[int, ...]:
    """Returns an attribute that is one positive int or ``rank`` of them as a tuple."""
    given = value if isinstance(value, tuple) else (value,)
    each = given * rank if len(given) == 1 else given
    if len(each) != rank or not all(isinstance(v, int) and v > 0 for v in each):
        raise LoopwrightValueError(f"{label} {value!r} is not {_COUNTS[rank]}")
    return each


def padding_of(value: Any, rank: int = 2) -> Padding:
    """Returns the attribute ``padding`` with two sides per axis: (top, left, bottom, right)."""
    sides = value if isinstance(value, tuple) else (value,)
    sides = sides * (2 * rank // len(sides)) if len(sides) in (1, rank) else sides
    fits = len(sides) == 2 * rank
    if not fits or not all(is_size(s) and (isinstance(s, Dim) or s >= 0) for s in sides):
        raise LoopwrightValueError(f"padding {value!r} is not {_SIDES[rank]}")
    return sides


def spatial_axes(layout: str, x: TensorType, rank: int = 2) -> tuple[int, ...]:
    """Returns the spatial axes of a tensor of rank ``rank + 2``."""
    if layout not in layouts(rank):
        raise LoopwrightValueError(f"layout {layout!r} is none of {', '.join(layouts(rank))}")
    if x.rank != rank + 2:
        count = {3: "three", 4: "four", 5: "five"}[rank + 2]
        raise LoopwrightValueError(
            f"needs the {count} axes {layout}, not {x.short}",
            hint="expand_dims(x, 0) adds a batch of one" if x.rank == rank + 1 else None,
        )
    first = 1 if layout[-1] == "C" else 2
    return tuple(range(first, first + rank))


def channel_axis(layout: str) -> int:
    """Returns the axis of the channels: 1 or the last."""
    return layout.index("C")


def window_span(size: int, dilation: int) -> int:
    """Returns the number of elements from the first to the last of a window."""
    return (size - 1) * dilation + 1


def window_count(size: IntExpr, window: int, stride: int, x: TensorType) -> IntExpr:
    """Returns the number of windows that span ``window`` elements and fit in ``size``."""
    message = f"a window of {window} does not fit into {size} elements of {x.short}"
    if not demand(window, "<=", size, message):
        raise LoopwrightValueError(
            message,
            hint="more padding, or a smaller window or dilation",
        )
    return floordiv(size - window, stride) + 1


def spatial_pads(axes: Sequence[int], padding: Padding) -> tuple[tuple[IntExpr, IntExpr], ...]:
    """Returns the ``pad_width`` of a tensor whose spatial axes get ``padding``."""
    rank = len(axes)
    pads: list[tuple[IntExpr, IntExpr]] = [(0, 0)] * (rank + 2)
    for n, axis in enumerate(axes):
        pads[axis] = (padding[n], padding[rank + n])
    return tuple(pads)


def spans(window: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """Returns the number of elements from the first to the last of a window on each axis."""
    return [window_span(w, d) for w, d in zip(window, dilation, strict=True)]


def window_tangent(step: Step) -> Value:
    """The sum of the tangents of a window, or that of the first element that is its extreme."""
    x, tangent, attrs = step.x(0), step.moved(), step.attrs
    if attrs["combiner"] == "sum":
        return step.again(tangent)
    window, strides, dilation = attrs["window"], attrs["strides"], attrs["dilation"]
    shape, places = step.r.shape, list(itertools.product(*map(range, window)))

    def elements(of: Value, place: Sequence[int]) -> Value:
        begin = tuple(p * d for p, d in zip(place, dilation, strict=True))
        end = tuple(
            b + (n - 1) * s + 1 if n != 0 else b
            for b, n, s in zip(begin, shape, strides, strict=True)
        )
        return F.strided_slice(of, begin=begin, end=end, strides=strides)

    first = x.iota((1,) * x.rank, 0, "int32")
    for number, place in reversed([*enumerate(places)]):
        is_extreme = F.equal(elements(x, place), step.r)
        first = F.where(is_extreme, first.full((), number), first)
    if window == strides and set(dilation) == {1}:
        return _chosen_in_blocks(tangent, first, window)
    total: Value | None = None
    for number, place in enumerate(places):
        moved = elements(tangent, place)
        term = F.where(F.equal(first, number), moved, moved.full((), 0))
        total = term if total is None else total + term
    assert total is not None
    return total


def _chosen_in_blocks(x: Value, number: Value, block: Sequence[int]) -> Value:
    """Returns of each block of ``x`` the element of a number in it, or 0."""
    sizes = [*zip(number.shape, block, strict=True)]
    whole = tuple(n * size for n, size in sizes)
    x = F.strided_slice(x, begin=(0,) * x.rank, end=whole, strides=(1,) * x.rank)
    x = F.reshape(x, newshape=tuple(size for pair in sizes for size in pair))
    numbers = number.iota((prod(block),), 0, number.dtype.name)
    within = F.reshape(numbers, newshape=tuple(s for _, size in sizes for s in (1, size)))
    spread = F.reshape(number, newshape=tuple(s for n, _ in sizes for s in (n, 1)))
    chosen = F.where(F.equal(spread, within), x, x.full((), 0))
    return F.sum(chosen, axis=tuple(range(1, chosen.rank, 2)))


def transpose_window(step: Transposition) -> None:
    """The sums over the windows that an element is in: windows again, of a cotangent with zeros
    between its elements and around them."""
    attrs, shape = step.attrs, step.shape()
    strides, spread = attrs["strides"], attrs["dilation"]
    reach = spans(attrs["window"], spread)
    whole = tuple(size + span - 1 for size, span in zip(shape, reach, strict=True))
    begin = tuple(span - 1 for span in reach)
    placed = F.strided_set(step.ct.full(whole, 0), step.ct, begin=begin, strides=strides)
    ones = (1,) * len(shape)
    made = F.reduce_window(
        placed, combiner="sum", window=attrs["window"], strides=ones, dilation=spread
    )
    step.add(0, made)


def transpose_convolution(step: Transposition, rank: int) -> None:
    """The cotangent of the image is a transposed convolution; that of the kernel is, at each of its
    places, the product of the pixels there with the cotangent."""
    ct, groups = step.ct, step.attrs["groups"]
    steps = per_spatial_axis("strides", step.attrs["strides"], rank)
    spread = per_spatial_axis("dilation", step.attrs["dilation"], rank)
    spatial = range(1, rank + 1)
    kernel = tuple(as_int(size) for size in step.shape(1)[:rank])
    if step.linear[0]:
        order = (rank + 1, rank, *range(rank))
        more = tuple(
            as_int(step.shape(0)[n] - (ct.shape[n] - 1) * s - window_span(k, d))
            for n, k, s, d in zip(spatial, kernel, steps, spread, strict=True)
        )
        transposed = getattr(F.nn, f"conv{rank}d_transpose")(
            ct,
            F.transpose(step.x(1), axes=order),
            strides=steps,
            padding=0,
            output_padding=more,
            dilation=spread,
            groups=groups,
            data_layout=layouts(rank)[1],
        )
        step.add(0, transposed)
        return
    x = step.x(0)
    *image, channels = x.shape
    pixels, outputs, inputs = product(ct.shape[:-1]), ct.shape[-1], floordiv(channels, groups)
    is_static = all(isinstance(size, int) for size in (*x.shape, *ct.shape))
    if is_static and groups in (1, channels):
        # A convolution in which the channels of a group are the images, and the images its
        # channels; strides and dilation change places.
        x = F.reshape(x, newshape=(*image, groups, inputs))
        x = F.transpose(x, axes=(rank + 2, *spatial, rank + 1, 0))
        x = F.reshape(x, newshape=(inputs, *image[1:], groups * image[0]))
        weights = F.transpose(ct, axes=(*spatial, 0, rank + 1))
        valid = getattr(F, f"conv{rank}d_valid")
        made = valid(x, weights, strides=spread, dilation=steps, groups=groups)
        for axis, size in zip(spatial, kernel, strict=True):
            made = cut(made, axis, 0, size)
        step.add(1, F.transpose(made, axes=(*spatial, 0, rank + 1)))
        return
    parts: list[Value] = []
    for place in itertools.product(*map(range, kernel)):
        part = x
        for n, p, d, s in zip(spatial, place, spread, steps, strict=True):
            part = cut(part, n, p * d, p * d + (ct.shape[n] - 1) * s + 1, s)
        parts.append(F.reshape(part, newshape=(pixels, groups, inputs)))
    rows = F.reshape(ct, newshape=(pixels, groups, floordiv(outputs, groups)))
    products = [F.contract(part, rows, equation="pgc,pgo->cgo") for part in parts]
    whole = F.concatenate(*products, axis=0) if len(parts) > 1 else products[0]
    step.add(1, F.reshape(whole, newshape=step.shape(1)))
