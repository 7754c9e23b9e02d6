"""Places in an array that values of the graph choose: what they are, and reads and writes of them.

::

    Place  ::= Item for each axis
    Item   ::= an atom          an index: the axis is gone, as in x[i]; or an array of them
             | Window           some elements of the axis, from a number or from an atom on

A place is to an index from data what ``slices.Region`` is to a slice: a write is ``index_update``,
and a write through views of views is one write of their composition, so that ``x[i][j] = v`` writes
one element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from ...ir.dataclass import dataclass
from ...ir.dims import Dim, IntExpr, as_int
from ...ir.dtype import INT64
from ...ir.graph.nodes import Atom, Constant
from ...ir.graph.types import TensorType
from ...ir.ops.rules import broadcast_shapes
from .slices import Region
from .value_numbers import ValueNumbers


@dataclass(frozen=True, slots=True)
class Window:
    """``size`` elements of an axis, ``step`` apart, from ``begin`` on: an atom if data decides."""

    begin: IntExpr | Atom
    step: int
    size: IntExpr


Item: TypeAlias = "Atom | Window"


@dataclass(frozen=True, slots=True)
class Place:
    """The elements of an array that one item for each of its axes chooses.

    They have the axes of the indices, which are broadcast, and then those of the windows.
    """

    items: tuple[Item, ...]

    @staticmethod
    def of_region(region: Region) -> Place:
        axes = zip(region.begin, region.steps, region.shape, strict=True)
        return Place(tuple(Window(begin, step, size) for begin, step, size in axes))

    @property
    def indices(self) -> list[tuple[int, Atom]]:
        """The axes with an index, each with the index."""
        return [(n, i) for n, i in enumerate(self.items) if not isinstance(i, Window)]

    @property
    def windows(self) -> list[tuple[int, Window]]:
        return [(n, i) for n, i in enumerate(self.items) if isinstance(i, Window)]

    @property
    def index_shape(self) -> tuple[IntExpr, ...]:
        types: Any = [index.type for _, index in self.indices]
        return broadcast_shapes(types) if types else ()

    @property
    def shape(self) -> tuple[IntExpr, ...]:
        """The shape of the elements."""
        return (*self.index_shape, *(w.size for _, w in self.windows))

    def inside_of(self, trace: Emitter, outer: Place, shape: Sequence[IntExpr]) -> Place:
        """This place of the elements at ``outer``, in coordinates of the array of ``shape`` that
        those are elements of; ``outer`` has scalars as indices."""
        mine = iter(self.items)
        items: list[Item] = []
        for item, size in zip(outer.items, shape, strict=True):
            if not isinstance(item, Window):
                items.append(item)
                continue
            inner = next(mine)
            if not isinstance(inner, Window):
                items.append(_moved(trace, inner, item, size))
                continue
            begin = _moved(trace, inner.begin, item, size, inner)
            items.append(Window(begin, inner.step * item.step, inner.size))
        return Place(tuple(items))

    def permuted(self, axes: Sequence[int]) -> Place:
        """Returns the place of ``x`` that this one is of ``transpose(x, axes)``."""
        return Place(tuple(self.items[list(axes).index(n)] for n in range(len(axes))))

    def with_ones(self, shape: Sequence[IntExpr], to: Sequence[IntExpr]) -> Place | None:
        """The place of ``x``, of shape ``to``, that this one is of ``reshape(x, shape)``, if the
        two shapes differ in axes of size 1 only; None otherwise, or where such an axis has an
        index."""
        if [s for s in shape if s != 1] != [s for s in to if s != 1]:
            return None
        ones = [i for i, size in zip(self.items, shape, strict=True) if size == 1]
        if any(i != Window(0, 1, 1) for i in ones):
            return None
        rest = (i for i, size in zip(self.items, shape, strict=True) if size != 1)
        return Place(tuple(Window(0, 1, 1) if size == 1 else next(rest) for size in to))


@dataclass(frozen=True, slots=True)
class PlaceUpdate:
    """``index_update``: ``base`` with ``value`` joined to its elements at ``place``."""

    base: Atom
    value: Atom
    place: Place
    reduction: str


class Emitter(Protocol):
    """Emits operators into the graph, and records the update of every ``index_update``."""

    place_updates: dict[Atom, PlaceUpdate]
    values: ValueNumbers

    def emit(self, name: str, args: tuple[Atom, ...], attrs: Mapping[str, Any], /) -> Atom: ...
    def cast(self, atom: Atom, dtype: Any, /) -> Atom: ...


def shape_of(atom: Atom) -> tuple[IntExpr, ...]:
    """Returns the shape of an atom that is an array."""
    assert isinstance(atom.type, TensorType)
    return atom.type.shape


def _moved(
    trace: Emitter, inner: Any, outer: Window, size: IntExpr, window: Window | None = None
) -> Any:
    """An index into a window, or the begin of a ``window`` of it, as one into the axis of ``size``
    that the window is on. One that is not inside stays outside of the axis."""
    if outer == Window(0, 1, size):
        return inner
    if isinstance(inner, int) and isinstance(outer.begin, int):
        return outer.begin + inner * outer.step
    reach = (as_int(window.size) - 1) * window.step if window is not None else 0
    at = _from_front(trace, inner, as_int(outer.size))
    low = trace.emit("less", (_number(-1), at), {})
    high = trace.emit("less", (at, _number(as_int(outer.size) - max(reach, 0))), {})
    scaled = trace.emit("multiply", (at, _number(outer.step)), {}) if outer.step != 1 else at
    begin = _from_front(trace, outer.begin, as_int(size))
    place = trace.emit("add", (scaled, begin), {})
    inside = trace.emit("logical_and", (low, high), {})
    return trace.emit("where", (inside, place, _number(as_int(size))), {})


def _from_front(trace: Emitter, index: Any, size: int) -> Atom:
    """Returns an index as int64, a negative one counted from the end."""
    if isinstance(index, int):
        return _number(index)
    wide = trace.cast(index, INT64)
    below = trace.emit("less", (wide, _number(0)), {})
    counted = trace.emit("add", (wide, _number(size)), {})
    return trace.emit("where", (below, counted, wide), {})


def _number(value: int) -> Constant:
    return Constant(np.asarray(value, np.int64))


def read_place(trace: Emitter, atom: Atom, place: Place) -> Atom:
    """The elements of an array at a place with scalar indices, whose other windows are whole."""
    update = trace.place_updates.get(atom)
    if update is not None and (update.place, update.reduction) == (place, "none"):  # noqa: SIM102
        if shape_of(update.value) == place.shape:
            return update.value
    moving = [(n, w) for n, w in place.windows if not isinstance(w.begin, int | Dim)]
    if moving:
        attrs = {
            "axes": tuple(n for n, _ in moving),
            "sizes": tuple(w.size for _, w in moving),
            "strides": tuple(w.step for _, w in moving),
        }
        starts: Any = tuple(w.begin for _, w in moving)
        atom = trace.emit("dynamic_slice", (atom, *starts), attrs)
    for axis, index in reversed(place.indices):
        atom = trace.emit("take", (atom, index), {"axis": axis, "mode": "clip"})
    return atom


def write_place(
    trace: Emitter, base: Atom, value: Atom, place: Place, reduction: str = "none"
) -> Atom:
    """``base`` with ``value``, which broadcasts, joined to its elements at ``place``."""
    shape = shape_of(base)
    if 0 in place.shape:
        return base
    indices, windows = place.indices, place.windows
    moving = [(n, w) for n, w in windows if not isinstance(w.begin, int | Dim)]
    attrs: dict[str, Any] = {
        "axes": tuple(n for n, _ in indices),
        "starts": tuple(n for n, _ in moving),
        "reduction": reduction,
    }
    if any(w != Window(0, 1, shape[n]) for n, w in windows):
        attrs["begin"] = tuple(w.begin if isinstance(w.begin, int) else 0 for _, w in windows)
        attrs["strides"] = tuple(w.step for _, w in windows)
        attrs["sizes"] = tuple(w.size for _, w in windows)
    starts: Any = [w.begin for _, w in moving]
    operands = (base, value, *(index for _, index in indices), *starts)
    updated = trace.emit("index_update", operands, attrs)
    trace.place_updates[updated] = PlaceUpdate(base, value, place, reduction)
    return updated
