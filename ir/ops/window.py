"""Windows of convolution and pooling: their attributes, and the places where they fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ..dims import Dim, IntExpr, floordiv
from ..errors import LoopwrightValueError
from ..graph.types import TensorType
from .declare import attr
from .rules import is_size

__all__ = [
    "DILATION",
    "LAYOUT",
    "PADDING",
    "Padding",
    "pair",
    "padding_of",
    "spatial_axes",
    "spatial_pads",
    "window_count",
    "window_span",
]

Padding: TypeAlias = tuple[IntExpr, IntExpr, IntExpr, IntExpr]

PADDING = attr("an int, (vertical, horizontal) or (top, left, bottom, right)", (0,) * 4)
DILATION = attr("distance of the elements of a window, an int or one per axis", (1, 1))
LAYOUT = attr("NCHW or NHWC", "NCHW")


def pair(label: str, value: Any) -> tuple[int, int]:
    """Returns an attribute that is one positive int or two as a pair."""
    both = value if isinstance(value, tuple) else (value, value)
    if len(both) != 2 or not all(isinstance(v, int) and v > 0 for v in both):
        raise LoopwrightValueError(f"{label} {value!r} is not one positive int or two")
    return both


def padding_of(value: Any) -> Padding:
    """Returns the attribute ``padding`` as (top, left, bottom, right)."""
    sides = value if isinstance(value, tuple) else (value,)
    sides = sides * (4 // len(sides)) if len(sides) in (1, 2) else sides
    if len(sides) != 4 or not all(is_size(s) and (isinstance(s, Dim) or s >= 0) for s in sides):
        raise LoopwrightValueError(
            f"padding {value!r} is not an int, (vertical, horizontal) or (top, left, bottom, right)"
        )
    return sides


def spatial_axes(layout: str, x: TensorType) -> tuple[int, int]:
    """Returns the axes of height and width of a tensor of rank 4."""
    if layout not in ("NCHW", "NHWC"):
        raise LoopwrightValueError(f"layout {layout!r} is none of NCHW, NHWC")
    if x.rank != 4:
        raise LoopwrightValueError(
            f"needs the four axes {layout}, not {x.short}",
            hint="expand_dims(x, 0) adds a batch of one" if x.rank == 3 else None,
        )
    return (2, 3) if layout == "NCHW" else (1, 2)


def window_span(size: int, dilation: int) -> int:
    """Returns the number of elements from the first to the last of a window."""
    return (size - 1) * dilation + 1


def window_count(size: IntExpr, window: int, stride: int, x: TensorType) -> IntExpr:
    """Returns the number of windows that span ``window`` elements and fit in ``size``."""
    if isinstance(size, int) and size < window:
        raise LoopwrightValueError(
            f"a window of {window} does not fit into {size} elements of {x.short}",
            hint="more padding, or a smaller window or dilation",
        )
    return floordiv(size - window, stride) + 1


def spatial_pads(axes: Sequence[int], padding: Padding) -> tuple[tuple[IntExpr, IntExpr], ...]:
    """``pad_width`` of a tensor of rank 4 for (top, left, bottom, right)."""
    pads: list[tuple[IntExpr, IntExpr]] = [(0, 0)] * 4
    top, left, bottom, right = padding
    pads[axes[0]], pads[axes[1]] = (top, bottom), (left, right)
    return tuple(pads)
