"""Regions of arrays: what is read and written of them, in the graph and at a function's end.

::

    Region  ::= Item for each axis
    Item    ::= an atom         an index: the axis is gone, as in x[i]; or an array of them
              | Run             some elements of the axis, from a number or from an atom on

A write of a region is ``strided_set`` where the region is known (``is_static``: a slice that begins
at numbers), and ``index_update``, in place, where sizes or values of the graph choose it. A write
through views of views is one write of their composition: ``x[i][j] = v`` writes one element.

A read of a slice looks through the writes before it: the last write of exactly this slice gives its
value, and writes of other elements are skipped. So rows that are updated one after the other do not
depend on one another. Of an argument that a function changes, only the slices that it wrote are
written back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from ...ir.dataclass import dataclass
from ...ir.dims import Dim, IntExpr, product
from ...ir.dtype import INT64
from ...ir.graph.nodes import Atom, Constant, Var
from ...ir.graph.requirements import is_data_size
from ...ir.graph.type_rules import broadcast_shapes
from ...ir.graph.types import TensorType
from ...ir.window import Window, dense_offset
from .value_numbers import ValueNumbers


@dataclass(frozen=True, slots=True)
class Run:
    """``size`` elements of an axis, ``step`` (1 or more) apart, from ``begin`` on: an atom if data
    decides. Data may decide the size, too."""

    begin: IntExpr | Atom
    step: int
    size: IntExpr

    @property
    def is_static(self) -> bool:
        return isinstance(self.begin, int | Dim) and not is_data_size(self.size)

    def is_apart(self, other: Run) -> bool:
        """True if two static runs certainly have no element in common."""
        b, s, n, c, t, m = self.begin, self.step, self.size, other.begin, other.step, other.size
        if not all(isinstance(v, int) for v in (b, n, c, m)):
            return False
        if n == 0 or m == 0 or b + (n - 1) * s < c or c + (m - 1) * t < b:  # pyright: ignore
            return True
        return s == t and (b - c) % s != 0  # pyright: ignore[reportOperatorIssue]


Item: TypeAlias = "Atom | Run"

_ONE = Run(0, 1, 1)
"""All of an axis of size 1."""


@dataclass(frozen=True, slots=True)
class Region:
    """The elements of an array that one item for each of its axes chooses.

    They have the axes of the indices, which are broadcast, and then those of the runs.
    """

    items: tuple[Item, ...]

    @staticmethod
    def of_slice(attrs: Mapping[str, Any]) -> Region:
        """Returns the region that ``strided_slice`` reads, whose strides are positive."""
        runs: list[Run] = []
        for b, e, s in zip(attrs["begin"], attrs["end"], attrs["strides"], strict=True):
            is_static = isinstance(b, int) and isinstance(e, int)
            size = max(0, -((b - e) // s)) if is_static else (e - b) // s
            runs.append(Run(b, 1 if size == 1 else s, size))
        return Region(tuple(runs))

    @property
    def is_static(self) -> bool:
        """True for a slice: no value of the graph has a say in it."""
        return all(isinstance(i, Run) and i.is_static for i in self.items)

    @property
    def indices(self) -> list[tuple[int, Atom]]:
        """The axes with an index, each with the index."""
        return [(n, i) for n, i in enumerate(self.items) if not isinstance(i, Run)]

    @property
    def runs(self) -> list[tuple[int, Run]]:
        """The axes with a run, each with the run."""
        return [(n, i) for n, i in enumerate(self.items) if isinstance(i, Run)]

    @property
    def index_shape(self) -> tuple[IntExpr, ...]:
        types: Any = [index.type for _, index in self.indices]
        return broadcast_shapes(types) if types else ()

    @property
    def shape(self) -> tuple[IntExpr, ...]:
        """The shape of the elements."""
        return (*self.index_shape, *(run.size for _, run in self.runs))

    @property
    def slice_attrs(self) -> dict[str, Any]:
        """The attributes of the ``strided_slice`` that reads a static region."""
        runs: list[Any] = [run for _, run in self.runs]
        ends = tuple(r.begin + (r.size - 1) * r.step + 1 if r.size != 0 else r.begin for r in runs)
        begin, steps = tuple(r.begin for r in runs), tuple(r.step for r in runs)
        return {"begin": begin, "end": ends, "strides": steps}

    def covers(self, shape: tuple[IntExpr, ...]) -> bool:
        """True if this is all of an array of ``shape``."""
        return self.shape == shape and all(
            isinstance(i, Run) and isinstance(i.begin, int) and i.begin == 0 for i in self.items
        )

    def is_apart(self, other: Region) -> bool:
        """True if two static regions certainly have no element in common."""
        pairs = zip(self.runs, other.runs, strict=True)
        return any(mine.is_apart(theirs) for (_, mine), (_, theirs) in pairs)

    def within(self, other: Region) -> Region | None:
        """This region in the coordinates of ``other``, if it is a part of it, and that has no
        steps; both are static."""
        items: list[Run] = []
        for (_, mine), (_, outer) in zip(self.runs, other.runs, strict=True):
            begin, low = mine.begin, outer.begin
            all_ints = all(isinstance(v, int) for v in (begin, mine.size, low, outer.size))
            if outer.step != 1 or not all_ints:
                return None
            last: Any = begin + (mine.size - 1) * mine.step  # pyright: ignore
            if begin < low or last >= low + outer.size:  # pyright: ignore
                return None
            items.append(Run(begin - low, mine.step, mine.size))  # pyright: ignore
        return Region(tuple(items))

    def inside_of(self, trace: Emitter, outer: Region, shape: Sequence[IntExpr]) -> Region:
        """This region of the elements of ``outer``, in coordinates of the array of ``shape`` that
        those are elements of; ``outer`` has scalars as indices."""
        mine = iter(self.items)
        items: list[Item] = []
        for item, size in zip(outer.items, shape, strict=True):
            if not isinstance(item, Run):
                items.append(item)
                continue
            inner = next(mine)
            if not isinstance(inner, Run):
                items.append(_moved(trace, inner, item, size))
                continue
            begin = _moved(trace, inner.begin, item, size, inner)
            items.append(Run(begin, inner.step * item.step, inner.size))
        return Region(tuple(items))

    def permuted(self, axes: Sequence[int]) -> Region:
        """Returns the region of ``x`` that this one is of ``transpose(x, axes)``."""
        return Region(tuple(self.items[list(axes).index(n)] for n in range(len(axes))))

    def mirrored(self, axes: Sequence[int], shape: Sequence[IntExpr]) -> Region | None:
        """Returns the region of ``x``, of ``shape``, that this one is of ``reverse(x, axes)``; None
        for one that values choose."""
        if not self.is_static:
            return None
        items: list[Any] = list(self.items)
        for axis in axes:
            run = items[axis]
            last = run.begin + (run.size - 1) * run.step
            items[axis] = Run(shape[axis] - 1 - last, run.step, run.size)
        return Region(tuple(items))

    def with_ones(self, shape: Sequence[IntExpr], to: Sequence[IntExpr]) -> Region | None:
        """The region of ``x``, of shape ``to``, that this one is of ``reshape(x, shape)``, if the
        two shapes differ in axes of size 1 only; None otherwise, or where such an axis has an
        index."""
        if [s for s in shape if s != 1] != [s for s in to if s != 1]:
            return None
        if any(i != _ONE for i, size in zip(self.items, shape, strict=True) if size == 1):
            return None
        rest = (i for i, size in zip(self.items, shape, strict=True) if size != 1)
        return Region(tuple(_ONE if size == 1 else next(rest) for size in to))


@dataclass(frozen=True, slots=True)
class Update:
    """``base`` with ``value``, which broadcasts, joined to its elements of ``region``."""

    base: Atom
    value: Atom
    region: Region
    reduction: str = "none"


class Emitter(Protocol):
    """Emits operators into the graph, and records the update that each write is."""

    updates: dict[Atom, Update]
    values: ValueNumbers

    def emit(self, name: str, args: tuple[Atom, ...], attrs: Mapping[str, Any], /) -> Atom: ...
    def cast(self, atom: Atom, dtype: Any, /) -> Atom: ...


def shape_of(atom: Atom) -> tuple[IntExpr, ...]:
    """Returns the shape of an atom that is an array."""
    assert isinstance(atom.type, TensorType)
    return atom.type.shape


def _moved(trace: Emitter, inner: Any, outer: Run, size: IntExpr, run: Run | None = None) -> Any:
    """An index into a run of elements, or the begin of a ``run`` of them, as one into the axis of
    ``size`` that they are of. One that is not inside stays outside of the axis."""
    if outer == Run(0, 1, size):
        return inner
    if isinstance(inner, int | Dim) and isinstance(outer.begin, int | Dim):
        return outer.begin + inner * outer.step
    reach = (run.size - 1) * run.step if run is not None and run.size != 0 else 0
    at = _from_front(trace, inner, outer.size)
    low = trace.emit("less", (_number(trace, -1), at), {})
    high = trace.emit("less", (at, _number(trace, outer.size - reach)), {})
    scaled = trace.emit("multiply", (at, _number(trace, outer.step)), {}) if outer.step != 1 else at
    begin = _from_front(trace, outer.begin, size)
    index = trace.emit("add", (scaled, begin), {})
    inside = trace.emit("logical_and", (low, high), {})
    return trace.emit("where", (inside, index, _number(trace, size)), {})


def _from_front(trace: Emitter, index: Any, size: IntExpr) -> Atom:
    """Returns an index as int64, a negative one counted from the end."""
    if isinstance(index, int | Dim):
        return _number(trace, index)
    wide = trace.cast(index, INT64)
    below = trace.emit("less", (wide, _number(trace, 0)), {})
    counted = trace.emit("add", (wide, _number(trace, size)), {})
    return trace.emit("where", (below, counted, wide), {})


def _number(trace: Emitter, value: IntExpr) -> Atom:
    if isinstance(value, Dim):
        return trace.emit("full", (), {"shape": (), "fill_value": value, "dtype": str(INT64)})
    return Constant(np.asarray(value, np.int64))


def read_region(
    trace: Emitter, atom: Atom, region: Region, attrs: Mapping[str, Any] | None = None
) -> Atom:
    """The elements of an array in a region: a slice, read with ``attrs``, or one with scalars as
    indices whose static runs are whole axes."""
    while (update := trace.updates.get(atom)) is not None:
        if (update.region, update.reduction) == (region, "none"):
            if shape_of(update.value) == region.shape:
                return update.value
            break
        if not (region.is_static and update.region.is_static):
            break
        if (inside := region.within(update.region)) is not None:
            atom, region, attrs = update.value, inside, None
        elif region.is_apart(update.region):
            atom = update.base
        else:
            break
    if region.is_static:
        return trace.emit("strided_slice", (atom,), region.slice_attrs if attrs is None else attrs)
    fixed = [
        r if isinstance(r, Run) and isinstance(r.begin, int | Dim) else Run(0, 1, n)
        for r, n in zip(region.items, shape_of(atom), strict=True)
    ]
    if not (front := Region(tuple(fixed))).covers(shape_of(atom)):
        atom = trace.emit("strided_slice", (atom,), front.slice_attrs)
    moving = [(n, run) for n, run in region.runs if not isinstance(run.begin, int | Dim)]
    if moving:
        attrs = {
            "axes": tuple(n for n, _ in moving),
            "sizes": tuple(run.size for _, run in moving),
            "strides": tuple(run.step for _, run in moving),
        }
        starts: Any = tuple(run.begin for _, run in moving)
        atom = trace.emit("dynamic_slice", (atom, *starts), attrs)
    for axis, index in reversed(region.indices):
        atom = trace.emit("take", (atom, index), {"axis": axis, "mode": "clip"})
    return atom


def write_region(
    trace: Emitter, base: Atom, value: Atom, region: Region, reduction: str = "none"
) -> Atom:
    """``base`` with ``value``, which broadcasts, joined to its elements of ``region``."""
    shape = shape_of(base)
    begins_at_size = any(isinstance(run.begin, Dim) for _, run in region.runs)
    static = region.is_static and reduction == "none" and not begins_at_size
    attrs: dict[str, Any]
    if static and region.covers(shape):
        return value
    if 0 in region.shape:
        return base
    if static:
        earlier = trace.updates.get(base)
        if earlier is not None and earlier.region == region:
            base = earlier.base
        runs = [run for _, run in region.runs]
        attrs = {"begin": tuple(r.begin for r in runs), "strides": tuple(r.step for r in runs)}
        updated = trace.emit("strided_set", (base, value), attrs)
    else:
        moving = [(n, run) for n, run in region.runs if not isinstance(run.begin, int)]
        attrs = {
            "axes": tuple(n for n, _ in region.indices),
            "starts": tuple(n for n, _ in moving),
            "reduction": reduction,
        }
        if any(run != Run(0, 1, shape[n]) for n, run in region.runs):
            runs = [run for _, run in region.runs]
            attrs["begin"] = tuple(r.begin if isinstance(r.begin, int) else 0 for r in runs)
            attrs["strides"] = tuple(r.step for r in runs)
            attrs["sizes"] = tuple(r.size for r in runs)
        begins = [run.begin for _, run in moving]
        starts: Any = [_number(trace, b) if isinstance(b, Dim) else b for b in begins]
        operands = (base, value, *(index for _, index in region.indices), *starts)
        updated = trace.emit("index_update", operands, attrs)
    trace.updates[updated] = Update(base, value, region, reduction)
    return updated


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


def pieces_of(trace: Emitter, argument: Var, value: Atom) -> Iterator[tuple[Window | None, Atom]]:
    """The slices of an argument that differ from it in ``value``, in the order of writing: all of
    it as one unless few slices were written that are small, or one piece of memory each."""
    assert isinstance(argument.type, TensorType)
    shape: Any = argument.type.shape
    writes: list[tuple[Window, Atom]] = []
    atom, elements = value, _count(0)
    while (update := trace.updates.get(atom)) is not None and update.region.is_static:
        runs: Any = (run for _, run in update.region.runs)
        writes.append((tuple((run.begin, run.step, run.size) for run in runs), update.value))
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
