"""The values of data types in one trace: an array for each field of each constructor.

Values that come as arguments have their arrays. What a function makes is written behind them, in
arrays with room for more; that it makes values of a constructor is known when it has run once, so
it is traced again, with such room from the beginning.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...ir.dims import IntExpr, product
from ...ir.dtype import INT64
from ...ir.errors import LoopwrightTypeError
from ..control.leaves import Fixed, LeafType, leaf_type
from ..control.traced import new_proxy, row_of, stand_in
from ..core.emitting import emit, lift
from ..core.int_arguments import TakenApartAnewError
from ..core.proxy import Proxy
from ..core.pytree import flatten, unflatten
from ..core.runtime_checks import check
from ..core.trace import Trace, TracedAnewError
from ..memory.scope import Scope
from .family import Family, Field, Layout, family_of, holds_values

ROOM_BYTES = 1 << 20
"""Bytes of the values of a constructor that a call may make, unless its family says how many."""

LEAST_ROOM, MOST_ROOM = 256, 65536
REFERENCE = LeafType((), INT64, None, array=False)


def region_of(trace: Trace) -> Region:
    """Returns the region of a trace."""
    if trace.region is None:
        trace.region = Region(trace)
    return trace.region


class Region:
    """``columns`` are the arrays of each constructor that there are values of, ``counts`` how many
    of those that may grow."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.columns: dict[type, list[Proxy]] = {}
        self.types: dict[type, tuple[LeafType, ...]] = {}
        self.counts: dict[type, Proxy] = {}
        self.batches: dict[Family, tuple[Proxy, Proxy] | None] = {}
        self.joined: set[Family] = set()  # of which there are several arguments
        self._made: dict[int, tuple[Any, Proxy, Scope]] = {}

    def is_inhabited(self, constructor: type) -> bool:
        """True if there may be values of a constructor."""
        family = _family(constructor)
        return constructor in self.columns or not family.fields(constructor)

    holds = staticmethod(holds_values)

    # -- values from outside -----------------------------------------------------------------------

    def admit(self, layout: Layout, arrays: Sequence[Proxy]) -> Proxy:
        """Takes in the arrays of an argument; returns the reference to it."""
        new: dict[type, list[Proxy]] = {c: [] for c in layout.occurring}
        pairs = [*zip(layout.columns(), arrays[1:])]
        before = {c: self.columns[c][0].type.shape[0] for c in new if self.columns.get(c)}
        for (constructor, field), array in pairs:
            if field.family is not None and before:
                array = self._moved(field.family, array, before)
            new[constructor].append(array)
        for constructor, columns in new.items():
            earlier = self.columns.get(constructor)
            types = tuple(_row_type(f, c) for f, c in zip(_fields(constructor), columns))
            if earlier is not None:
                self._check_types(constructor, types)
                columns = [emit("concatenate", a, b, axis=0) for a, b in zip(earlier, columns)]
            self.columns[constructor], self.types[constructor] = columns, types
        if layout.family in self.batches or before:
            self.joined.update(layout.family.reachable())
        self.batches[layout.family] = (arrays[-2], arrays[-1]) if layout.batch else None
        return self._moved(layout.family, arrays[0], before) if before else arrays[0]

    def ask_for_batches(self, family: Family, size: int) -> None:
        """Begins the call anew, with arguments of a family whose values are sorted by height."""
        family.batch = size
        raise TakenApartAnewError

    def _moved(self, family: Family, references: Proxy, by: dict[type, IntExpr]) -> Proxy:
        """Returns references to values that stand behind ``by`` others of their constructor."""
        offsets = [by.get(c, 0) for c in family.constructors]
        mask = (1 << family.bits) - 1
        tags = emit("bitwise_and", references, mask)
        for number, offset in enumerate(offsets):
            if isinstance(offset, int) and not offset:
                continue
            moved = emit("add", references, lift(offset * (1 << family.bits), INT64))
            references = emit("where", emit("equal", tags, number), moved, references)
        return references

    def grow(self) -> None:
        """Makes room behind the values from outside, for those constructors that earlier runs have
        used."""
        for constructor, types in self.trace.made.items():
            family, before = _family(constructor), self.columns.get(constructor)
            if before is not None:
                self._check_types(constructor, types)
            rows = family.capacity or _room(types)
            columns: list[Proxy] = []
            for number, type_ in enumerate(types):
                whole = LeafType((rows, *type_.shape), type_.dtype)
                room = new_proxy(self.trace, stand_in(self.trace, whole), whole)
                if before is not None:
                    joined = emit("concatenate", before[number], room, axis=0)
                    room = new_proxy(self.trace, joined.atom, leaf_type_of(joined))
                columns.append(room)
            count = before[0].type.shape[0] if before else 0
            self.columns[constructor], self.types[constructor] = columns, types
            self.counts[constructor] = Proxy(lift(count, INT64).atom, self.trace)

    def _check_types(self, constructor: type, types: Sequence[LeafType]) -> None:
        for field, one, other in zip(_fields(constructor), self.types[constructor], types):
            if one.tensor != other.tensor:
                raise LoopwrightTypeError(
                    f"{constructor.__name__}.{field.name} is {one} in one value and {other} in "
                    "another one",
                    hint="values of one shape and dtype",
                )

    def columns_of(self, family: Family) -> tuple[Layout, list[Proxy]]:
        """Returns the arrays of all values that those of a family may reach."""
        every = [c for f in family.reachable() for c in f.constructors if self.is_inhabited(c)]
        layout = Layout(family, tuple(every))
        return layout, [array for c in every for array in self.columns.get(c, ())]

    @contextmanager
    def apart(self) -> Generator[None, None, None]:
        """In the body, values are made in copies of the arrays, which end with it."""
        before = self.columns, self.counts, self._made
        trace = self.trace
        self.columns = {
            c: [new_proxy(trace, a.atom, leaf_type_of(a)) for a in arrays]
            if c in self.counts
            else arrays
            for c, arrays in self.columns.items()
        }
        self.counts = {c: Proxy(count.atom, trace) for c, count in self.counts.items()}
        self._made = {}
        try:
            yield
        finally:
            self.columns, self.counts, self._made = before

    # -- values that are made ----------------------------------------------------------------------

    def reference(self, value: Any) -> Proxy:
        """Returns the reference to a value, which is made now if it is an object of Python's."""
        constructor = type(value)
        family = family_of(constructor)
        if family is None:  # a traced one
            return value.reference
        _, made, scope = self._made.get(id(value), (None, None, None))
        if made is not None and scope is not None and not scope.ended:
            return made
        family.closed = True
        tag = family.constructors.index(constructor)
        fields = family.fields(constructor)
        if not fields:
            return lift(np.int64(tag))
        values = [self._part(constructor, f, getattr(value, f.name)) for f in fields]
        if constructor not in self.counts:
            self._ask_for_room(constructor, values)
        row = self._append(constructor, [lift(v, t.dtype) for v, t in values])
        shifted = emit("left_shift", row, family.bits) if family.bits else row
        made = emit("bitwise_or", shifted, tag) if tag else shifted
        self._made[id(value)] = value, made, self.trace.scope
        return made

    def made(self, tree: Any) -> Any:
        """Returns a tree in which the values that are objects of Python's are made."""
        leaves, structure = flatten(tree)
        return unflatten(structure, leaves)

    def _part(self, constructor: type, field: Field, value: Any) -> tuple[Any, LeafType]:
        """Returns what a field of a new value is, and its type."""
        name = f"{constructor.__name__}.{field.name}"
        if field.family is not None:
            inner = getattr(value, "family", None) or family_of(type(value))
            if inner is not field.family:
                kind = type(value).__name__ if inner is None else inner
                raise LoopwrightTypeError(f"{name} is a {field.family}, and this is a {kind}")
            return self.reference(value), REFERENCE
        given = leaf_type(value)
        if isinstance(given, Fixed):
            raise LoopwrightTypeError(f"{name} is {given}, and neither an array nor a number")
        types = self.types.get(constructor)
        wanted = field.type if types is None else types[_fields(constructor).index(field)]
        if wanted is None:
            return value, given
        fits = given.dtype == wanted.dtype or (
            given.weak is not None
            and np.can_cast(given.dtype.numpy, wanted.dtype.numpy, "same_kind")
        )
        if given.shape != wanted.shape or not fits or (wanted.weak and not given.weak):
            hint = f"{wanted}(...) of it" if wanted.weak else f".astype(np.{wanted.dtype})"
            raise LoopwrightTypeError(f"{name} is {wanted}, and this is {given}", hint=hint)
        return value, wanted

    def _ask_for_room(self, constructor: type, values: Sequence[tuple[Any, LeafType]]) -> None:
        """Begins the trace anew, with room for values of a constructor."""
        self.trace.made[constructor] = tuple(t for _, t in values)
        self.trace.wanted.add(f"room for {constructor.__qualname__} {id(constructor)}")
        raise TracedAnewError

    def _append(self, constructor: type, values: Sequence[Proxy]) -> Proxy:
        """Writes the next row of a constructor; returns its number."""
        trace, count = self.trace, self.counts[constructor]
        capacity = self.columns[constructor][0].type.shape[0]
        last = lift(capacity - 1, INT64)
        room = _family(constructor).capacity or _room(self.types[constructor])
        message = (
            f"one call makes more than {room} values of {constructor.__name__}: "
            f"@lw.data(capacity={4 * room}) on {_family(constructor)} makes room for more"
        )
        check(emit("greater", count, last), MemoryError, message, trace=trace)
        row = emit("minimum", count, last)
        for array, value in zip(self.columns[constructor], values, strict=True):
            atoms = array.atom, value.atom, row.atom
            args = [trace.visible(a) for a in atoms]
            trace.assign(array.storage, trace.emit("index_update", args, {"axes": (0,)}))
        trace.assign(count.storage, emit("add", count, 1).atom)
        return row

    def read(self, constructor: type, field: Field, row: Proxy) -> Proxy:
        """Returns a field of the value in a row."""
        number = _fields(constructor).index(field)
        value = row_of(self.columns[constructor][number], row)
        return new_proxy(self.trace, value.atom, self.types[constructor][number])


def leaf_type_of(array: Proxy) -> LeafType:
    """Returns the type of an array."""
    return LeafType(array.type.shape, array.type.dtype)


def _family(constructor: type) -> Family:
    family = family_of(constructor)
    assert family is not None
    return family


def _fields(constructor: type) -> tuple[Field, ...]:
    return _family(constructor).fields(constructor)


def _row_type(field: Field, column: Proxy) -> LeafType:
    """Returns the type of one value of a field."""
    shape, dtype = column.type.shape[1:], column.type.dtype
    weak = field.type.weak if field.type is not None else None
    return LeafType(shape, dtype, weak, bool(shape))


def _room(types: Sequence[LeafType]) -> int:
    """Returns how many values of a constructor a call may make by default."""
    sizes = [product(t.shape) * t.dtype.bytes for t in types]
    row = sum(size for size in sizes if isinstance(size, int))
    return min(max(ROOM_BYTES // max(row, 1), LEAST_ROOM), MOST_ROOM)
