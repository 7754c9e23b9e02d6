"""Reads and writes of a slice of a value in the graph, and the slices to write back at the end.

A write of a slice is ``strided_set``. A read of a slice looks through the writes before it: the
last write of exactly this slice gives its value, and writes of other elements are skipped. So rows
that are updated one after the other do not depend on one another. Of an argument that a function
changes, only the slices that it wrote are written back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeAlias

from ...ir.dataclass import dataclass
from ...ir.dims import IntExpr, product
from ...ir.graph.nodes import Atom, Var
from ...ir.graph.types import TensorType
from ...ir.window import Window, dense_offset


@dataclass(frozen=True, slots=True)
class Region:
    """A slice of every axis: its begin, its step (1 or more) and the number of its elements."""

    begin: tuple[IntExpr, ...]
    steps: tuple[int, ...]
    shape: tuple[IntExpr, ...]

    @staticmethod
    def of_slice(attrs: Mapping[str, Any]) -> Region:
        """Returns the region that ``strided_slice`` reads, whose strides are positive."""
        begin, end, steps = attrs["begin"], attrs["end"], attrs["strides"]
        sizes = tuple(
            max(0, -((b - e) // s)) if isinstance(b, int) and isinstance(e, int) else (e - b) // s
            for b, e, s in zip(begin, end, steps, strict=True)
        )
        steps = tuple(1 if size == 1 else s for size, s in zip(sizes, steps, strict=True))
        return Region(tuple(begin), steps, sizes)

    def covers(self, shape: tuple[IntExpr, ...]) -> bool:
        """True if this is all of an array of ``shape``."""
        return self.shape == shape and all(b == 0 for b in self.begin)

    def is_apart(self, other: Region) -> bool:
        """True if the two certainly have no element in common."""
        return any(
            _apart(mine, theirs) for mine, theirs in zip(self._axes(), other._axes(), strict=True)
        )

    def within(self, other: Region) -> Region | None:
        """This region in the coordinates of ``other``, if it is a part of it, and that has no
        steps."""
        if any(s != 1 for s in other.steps):
            return None
        for (b, s, n), (low, _, size) in zip(self._axes(), other._axes(), strict=True):
            if not all(isinstance(v, int) for v in (b, n, low, size)):
                return None
            if b < low or b + (n - 1) * s >= low + size:
                return None
        begin = tuple(b - low for b, low in zip(self.begin, other.begin, strict=True))
        return Region(begin, self.steps, self.shape)

    def inside_of(self, outer: Region) -> Region:
        """This region of the slice ``outer``, in the coordinates of what that is a slice of."""
        places = zip(self.begin, outer.begin, outer.steps, strict=True)
        begin = tuple(low + b * step for b, low, step in places)
        steps = tuple(a * b for a, b in zip(self.steps, outer.steps, strict=True))
        return Region(begin, steps, self.shape)

    def with_ones(self, shape: tuple[IntExpr, ...], to: tuple[IntExpr, ...]) -> Region | None:
        """The region of ``x``, of shape ``to``, that this one is of ``reshape(x, shape)``, if the
        two shapes differ in axes of size 1 only."""
        axes = [axis for axis, size in zip(self._axes(), shape, strict=True) if size != 1]
        if [s for s in shape if s != 1] != [s for s in to if s != 1]:
            return None
        rest = iter(axes)
        begin, steps, sizes = zip(*((0, 1, 1) if s == 1 else next(rest) for s in to), strict=True)
        return Region(begin, steps, sizes)

    def permuted(self, axes: tuple[int, ...]) -> Region:
        """Returns the region of ``x`` that this one is of ``transpose(x, axes)``."""
        where = [axes.index(axis) for axis in range(len(axes))]

        def moved(values: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(values[i] for i in where)

        return Region(moved(self.begin), moved(self.steps), moved(self.shape))

    def mirrored(self, axes: tuple[int, ...], shape: tuple[IntExpr, ...]) -> Region:
        """Returns the region of ``x``, of ``shape``, that this one is of ``reverse(x, axes)``."""
        begin = tuple(
            shape[axis] - 1 - (b + (n - 1) * s) if axis in axes else b
            for axis, (b, s, n) in enumerate(self._axes())
        )
        return Region(begin, self.steps, self.shape)

    def _axes(self) -> list[tuple[Any, int, Any]]:
        return [*zip(self.begin, self.steps, self.shape, strict=True)]


def _apart(mine: tuple[Any, int, Any], theirs: tuple[Any, int, Any]) -> bool:
    (b, s, n), (c, t, m) = mine, theirs
    if not all(isinstance(v, int) for v in (b, n, c, m)):
        return False
    if n == 0 or m == 0 or b + (n - 1) * s < c or c + (m - 1) * t < b:
        return True
    return s == t and (b - c) % s != 0


@dataclass(frozen=True, slots=True)
class Update:
    """``strided_set``: ``base`` with ``value`` at ``region``."""

    base: Atom
    value: Atom
    region: Region


class Recorder(Protocol):
    """Emits operators into the graph and records the update of every ``strided_set``."""

    updates: dict[Atom, Update]

    def emit(self, name: str, args: tuple[Atom, ...], attrs: Mapping[str, Any], /) -> Atom: ...


def write_region(trace: Recorder, base: Atom, value: Atom, region: Region) -> Atom:
    """``base`` with ``value`` at ``region``."""
    assert isinstance(base.type, TensorType)
    if region.covers(base.type.shape):
        return value
    if any(size == 0 for size in region.shape):
        return base
    earlier = trace.updates.get(base)
    if earlier is not None and earlier.region == region:
        base = earlier.base
    attrs = {"begin": region.begin, "strides": region.steps}
    updated = trace.emit("strided_set", (base, value), attrs)
    trace.updates[updated] = Update(base, value, region)
    return updated


def read_region(trace: Recorder, atom: Atom, region: Region, attrs: Mapping[str, Any]) -> Atom:
    """``strided_slice(atom)`` with ``attrs``, which describe ``region``."""
    while (update := trace.updates.get(atom)) is not None:
        if update.region == region:
            return update.value
        inside = region.within(update.region)
        if inside is not None:
            pairs = zip(inside.begin, inside.shape, inside.steps, strict=True)
            ends = tuple(b + (n - 1) * s + 1 if n != 0 else b for b, n, s in pairs)
            attrs = {"begin": inside.begin, "end": ends, "strides": inside.steps}
            atom, region = update.value, inside
        elif region.is_apart(update.region):
            atom = update.base
        else:
            break
    return trace.emit("strided_slice", (atom,), attrs)


Key: TypeAlias = tuple[slice, ...] | None

MOST_PIECES = 16
"""An array of which more slices were written is written back as a whole: every piece costs about a
microsecond."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Result ``output`` of ``main`` goes to the ``window`` of an argument, or to all of it."""

    output: int
    window: Window | None

    @property
    def key(self) -> Key:
        """The slice as NumPy takes it."""
        if self.window is None:
            return None
        return tuple(slice(b, b + (n - 1) * s + 1, s) for b, s, n in self.window)


def pieces_of(trace: Recorder, argument: Var, value: Atom) -> Iterator[tuple[Window | None, Atom]]:
    """The slices of an argument that differ from it in ``value``, in the order of writing: all of
    it as one unless few slices were written that are small, or one piece of memory each."""
    assert isinstance(argument.type, TensorType)
    shape: Any = argument.type.shape
    writes: list[tuple[Window, Atom]] = []
    atom, elements = value, _count(0)
    while (update := trace.updates.get(atom)) is not None:
        writes.append((_window(update.region), update.value))
        elements += _count(product(update.region.shape))
        atom = update.base
    size = _count(argument.type.size)
    few = atom is argument and len(writes) <= MOST_PIECES and elements <= size < float("inf")
    # Strided rows are faster to write together with the elements between them, unless they are few.
    if few and (2 * elements <= size or all(dense_offset(shape, w) is not None for w, _ in writes)):
        yield from reversed(writes)
    else:
        yield None, value


def _count(size: IntExpr) -> float:
    return float(size) if isinstance(size, int) else float("inf")


def _window(region: Region) -> Window:
    axes: Any = zip(region.begin, region.steps, region.shape, strict=True)
    return tuple(axes)
