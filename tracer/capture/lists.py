"""Lists that loops of the graph grow: arrays of a known capacity, and how many elements count.

::

    out = []                          a list, as long as Python alone changes it
    for i in range(n):
        out.append(x[i] * i)          array[count] = x[i] * i; count += 1
    np.array(out), out[-1], len(out)  array[:count], array[count - 1], count

A ``Listed`` is one object whatever its names, as lists are. Where a branch or loop of the graph
changes it first, its elements move into memory of the trace, made where the list was (its home),
and that branch or loop is traced again. The capacity is the number of appends that the loops around
can make. What a list does and this cannot: then the trace begins anew, with that list Python's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import numpy as np

from ...ir.graph.nodes import Atom, Constant
from ..control import traced
from ..control.leaves import LeafType, joined, leaf_type
from ..core.emitting import lift
from ..core.proxy import Proxy
from ..core.pytree import LEAF, Same, Stacked, Structure, flatten, kind_of, register, unflatten
from ..core.runtime_checks import check
from ..core.trace import Trace, TracedAnewError, active
from ..memory.regions import Region, Run, read_region, shape_of, write_region
from ..memory.scope import Scope
from ..memory.storage import Storage
from ..numpy.data_sizes import data_size

T = TypeVar("T")
Growth = dict["Listed", int | None]

MOST_UNCOUNTED = 1 << 18
"""Elements of a list that a loop with an unknown number of iterations grows."""

LIST_BYTES = 1 << 28
"""Memory of a list: more of it is left to Python."""

_NO_ELEMENT, _ROOM = object(), object()


class GrowsError(TracedAnewError):
    """A branch or loop of the graph changes a list, which is to hold an ``element``, or has not
    enough room. It ends where the list is at home; a run that does not come there begins anew."""

    def __init__(self, grown: Listed, element: Any) -> None:
        super().__init__()
        self.grown, self.element = grown, element
        grown.trace.wanted.add(grown.key)


class Listed(list[Any]):
    """A list of the user's that something appends to.

    Once the graph grows it, ``structure`` and ``types`` are those of each element, ``arrays`` hold
    their leaves, ``total`` is how many there are, and ``most`` what that can be (None: nobody
    knows). ``known`` is the count relative to the begin of the body ``at``, where it is known.
    """

    def __init__(self, items: list[Any], trace: Trace, key: str) -> None:
        super().__init__(items)
        self.trace, self.key, self.home = trace, key, trace.scope
        self.depth = len(trace.iterations)
        self.structure: Structure | None = None
        self.types: list[LeafType] = []
        self.arrays: list[Storage] = []
        self.walked: Scope | None = None  # the body of a loop over it
        self.capacity = 0
        self.most: int | None = 0
        self.known: int | None = 0
        self.at = self.home

    __hash__ = object.__hash__  # pyright: ignore  # of ours: lists of the user's have none

    # -- the elements in the graph ---------------------------------------------------------------

    def stack(self, element: Any) -> None:
        """Moves the elements into the trace's memory, with types that hold ``element``, too."""
        if self.structure is not None:
            return self._meet(element)
        held = [*self]
        for each in held if element is _NO_ELEMENT else [*held, element]:
            self._meet(each)
        if self.structure is None:
            self.refuse()
        self.capacity = 1  # for elements that are never read
        self.arrays = [self._stored(self._room(t, 1)) for t in self.types]
        self.total = self._stored(Constant(np.asarray(0, np.int64)))
        self.trace.lists.append(self)
        super().clear()
        super().append(_NO_ELEMENT)  # for C code, which could do nothing with it
        for item in held:
            self.append(item)
        return None

    def _meet(self, element: Any) -> None:
        """Gives the elements the types that they and ``element`` have: numbers of one dtype."""
        leaves, structure = flatten(element)
        types: list[Any] = [leaf_type(leaf) for leaf in leaves]
        for number, (mine, other) in enumerate(zip(self.types or types, types)):
            if type(other) is not LeafType or mine.dtype != other.dtype:
                self.refuse()
            types[number] = joined(mine, other)
        if None in types or structure != (self.structure or structure) or not _is_value(element):
            self.refuse()
        self.types, self.structure = types, structure

    def _stored(self, atom: Atom) -> Storage:
        storage = Storage(atom)
        storage.scope = self.trace.scope
        return storage

    def _room(self, type_: LeafType, capacity: int) -> Atom:
        sizes = (n if isinstance(n, int) else LIST_BYTES for n in type_.shape)
        if (capacity + 1) * math.prod(sizes) * type_.dtype.bytes > LIST_BYTES:
            self.refuse()
        attrs = {"shape": (capacity, *type_.shape), "dtype": str(type_.dtype)}
        return self.trace.emit("empty", (), attrs)

    def reserve(self, capacity: int) -> None:
        """Makes room for so many elements, at home."""
        for storage, type_ in zip(self.arrays, self.types):
            shape = shape_of(storage.atom)
            attrs = {"begin": (0,) * len(shape), "strides": (1,) * len(shape), "sizes": shape}
            # The kernel of strided_set would write all of the room.
            args = self._room(type_, capacity), storage.atom
            self.trace.assign(storage, self.trace.emit("index_update", args, attrs))
        self.capacity = capacity

    @property
    def needed(self) -> int:
        """The elements for which there has to be room."""
        return MOST_UNCOUNTED if self.most is None else self.most

    def _number(self) -> Proxy:
        return Proxy(self.trace.visible(self.total.atom), self.trace, int)

    def _step(self, by: int) -> None:
        self.trace.assign(self.total, lift(self._number() + by).atom)
        if self.known is not None:
            self.known = self.known + by if self.at is self.trace.scope else None

    def _put(self, place: Atom, element: Any) -> None:
        for storage, type_, leaf in zip(self.arrays, self.types, flatten(element)[0]):
            self._keep(leaf)
            region = Region((place, *(Run(0, 1, n) for n in type_.shape)))
            value, base = traced.atom_of(self.trace, leaf, type_), self.trace.visible(storage.atom)
            self.trace.assign(storage, write_region(self.trace, base, value, region))

    def _keep(self, array: Any) -> None:
        """Takes note that an array is in the list: nobody may write to it any more, nor have done
        so in the body of a loop, which comes to it again."""
        if type(array) is not Proxy:
            return self.refuse() if isinstance(array, np.ndarray) else None
        if array.is_scalar:
            return None
        scope = self.trace.scope
        while scope is not None and scope is not array.storage.scope:
            if array.storage in scope.entries:
                self.refuse()
            scope = scope.parent
        self.trace.listed[array.storage] = self.key
        return None

    def _get(self, index: Any, message: str) -> Any:
        (place, outside), leaves = self._place(index, message), list[Proxy]()
        for storage, type_ in zip(self.arrays, self.types):
            region = Region((place, *(Run(0, 1, n) for n in type_.shape)))
            atom = read_region(self.trace, self.trace.visible(storage.atom), region)
            if not type_.array:  # room that was never written, as a count, is a loop without end
                zero = traced.atom_of(self.trace, type_.dtype.numpy.type(0), type_)
                atom = self.trace.emit("where", (outside, zero, atom), {})
            leaves.append(traced.new_proxy(self.trace, atom, type_))
            if type_.array:  # Python would have the array that is in the list
                self.trace.listed[leaves[-1].storage] = self.key
        assert self.structure is not None
        return unflatten(self.structure, leaves)

    def _place(self, index: Any, message: str) -> tuple[Atom, Atom]:
        """Returns where an index that Python takes points to, checked, and if that is outside."""
        size, place = self.length(), lift(index)
        if place.ndim or not (place.type.dtype.is_integer or place.type.dtype.is_bool):
            raise TypeError(f"list indices must be integers or slices, not {place.dtype}")
        if type(index) is not Proxy and type(size) is not Proxy and not -size <= index < size:
            raise IndexError(message)
        place = np.where(place < 0, place.astype(np.int64) + size, place.astype(np.int64))
        outside = (place < 0) | (place >= size)
        check(outside, IndexError, message)
        return lift(place).atom, lift(outside).atom

    def _columns(self) -> list[Proxy]:
        """Returns the leaves of all elements as arrays."""
        size = self.length()
        if type(size) is Proxy and self.capacity:
            key, count = ("list", self.trace.values.number(size.atom)), size
            size = data_size(key, lambda: count, self.capacity)
        whole = [Proxy(self.trace.visible(s.atom), self.trace) for s in self.arrays]
        if not self.capacity:
            return whole
        return [Proxy(lift(each[:size]).atom, self.trace) for each in whole]

    def _made(self, columns: list[Any]) -> Listed:
        """Returns a list of such elements that does not change."""
        made = Listed([_NO_ELEMENT], self.trace, self.key)
        made.structure, made.types = self.structure, self.types
        rows = columns[0].type.shape[0]
        made.known = rows if isinstance(rows, int) else None
        made.total = self._stored(lift(rows).atom)
        made.arrays = [self._stored(column.atom) for column in columns]
        return made

    def length(self) -> Any:
        """Returns ``len`` of it, which may be traced."""
        if self.structure is None:
            return super().__len__()
        is_known = self.known is not None and self.at is self.home is self.trace.scope
        return self.known if is_known else self._number()

    def array(self) -> Any:
        """Returns the elements as one array, whose rows tuples of numbers are."""
        columns = self._columns()
        if self.structure == LEAF:
            return columns[0]
        if self.structure != flatten((0,) * len(columns))[1] or any(c.ndim > 1 for c in columns):
            self.refuse()
        return np.stack(columns, axis=-1)

    def refuse(self) -> NoReturn:
        """Begins anew, with this list Python's own."""
        self.trace.wanted.add(self.key)
        raise TracedAnewError

    def _grows(self, element: Any = _NO_ELEMENT) -> bool:
        """True if the graph has the elements, which is so where it changes them."""
        is_made = self.structure is not None and not self.capacity
        if is_made or (self.walked is not None and not self.walked.ended):
            self.refuse()
        if self.structure is None:
            if self.trace.scope is self.home or active() is not self.trace:
                return False
            raise GrowsError(self, element)
        if element is not _NO_ELEMENT:
            before = self.types
            self._meet(element)
            if self.types != before and self.trace.scope is not self.home:
                raise GrowsError(self, element)
        return True

    # -- what lists do ---------------------------------------------------------------------------

    def append(self, value: Any, /) -> None:
        if not self._grows(value):
            return super().append(value)
        around = self.trace.iterations[self.depth :]
        if self.most is None or None in around:
            self.most = None
            message = f"list grows to {MOST_UNCOUNTED} elements in a loop of unknown length"
            check(self._number() >= self.capacity, MemoryError, message)
        else:
            self.most += math.prod(n for n in around if n is not None)
            if self.trace.scope is self.home and self.most > self.capacity:
                self.reserve(2 * self.most)
        self._put(self._number().atom, value)
        return self._step(1)

    def pop(self, index: Any = -1, /) -> Any:
        if not self._grows():
            return super().pop(index)
        if index != -1:
            self.refuse()
        element = self._get(-1, "pop from empty list")
        self._step(-1)
        return element

    def reverse(self) -> None:
        if not self._grows():
            return super().reverse()
        if type(self.length()) is Proxy or not self.length():
            self.refuse()
        for storage, column in zip(self.arrays, self._columns()):
            self.trace.assign(storage, lift(np.flip(column, 0)).atom)
        self.capacity = self.length()
        return None

    def __getitem__(self, index: Any, /) -> Any:
        if self.structure is None:
            if type(index) is not Proxy:
                return super().__getitem__(index)
            if self.trace.scope is not self.home:
                raise GrowsError(self, _NO_ELEMENT)
            self.stack(_NO_ELEMENT)
        if not isinstance(index, slice):
            return self._get(index, "list index out of range")
        return self._made([column[index] for column in self._columns()])

    def __add__(self, other: Any, /) -> Any:
        if not is_grown(other) or (other.structure, other.types) != (self.structure, self.types):
            return [*self] + other
        pairs = zip(self._columns(), other._columns())
        return self._made([np.concatenate(pair) for pair in pairs])

    def __setitem__(self, index: Any, value: Any, /) -> None:
        if self._grows(value) and not isinstance(index, slice):
            return self._put(self._place(index, "list assignment index out of range")[0], value)
        if self.structure is not None or type(index) is Proxy:
            self.refuse()
        return super().__setitem__(index, value)

    def __len__(self) -> int:
        size = self.length()
        return size if type(size) is not Proxy else self.refuse()

    def __bool__(self) -> bool:
        return len(self) > 0

    def item(self, number: Any) -> Any:
        """Returns an element to a loop over it, whose body may not change it."""
        self.walked = self.trace.scope
        return self[number]

    def __iter__(self) -> Iterator[Any]:
        number, before = 0, self.structure
        while number < len(self):
            yield self[number]
            number += 1
            if self.structure is not before:
                self.refuse()

    def __radd__(self, other: Any) -> Any:
        return other + [*self]


def _is_value(element: Any) -> bool:
    """True for an array, a number, or a tuple of them: what has no parts that may change."""
    if isinstance(element, tuple):
        return all(map(_is_value, element))
    return kind_of(type(element)) is None


def _plain(name: str, changes: bool) -> Callable[..., Any]:
    """Returns a method that Python has, for elements that Python has or knows the number of."""
    plain = getattr(list, name)

    def method(self: Listed, *args: Any, **kwargs: Any) -> Any:
        if (changes and self._grows()) or (plain is list.__repr__ and is_grown(self)):
            self.refuse()  # nobody knows the digits of what the graph has
        held = [[*each] if is_grown(each) else each for each in (self, *args)]
        return plain(*held, **kwargs)

    return method


_CHANGES = "__delitem__ __iadd__ __imul__ clear extend insert remove sort"
_READS = "__contains__ __eq__ __ge__ __gt__ __le__ __lt__ __mul__ __ne__ __repr__ __reversed__"
for _name in f"{_CHANGES} {_READS} __rmul__ copy count index".split():
    setattr(Listed, _name, _plain(_name, _name in _CHANGES.split()))

register(
    Listed,
    lambda it: ([*it], None) if it.structure is None else ((), Same(it)),
    lambda aux, children: children if aux is None else aux.value,
)


def listed(items: list[Any]) -> list[Any]:
    """Returns a list of the user's that something appends to."""
    trace = active()
    place = trace.here() if trace is not None else None
    if trace is None or place is None:
        return items
    key = f"plain {place.file}:{place.line}:{place.column}"
    return items if key in trace.asked else Listed(items, trace, key)


def item(container: Any, index: Any) -> Any:
    """``container[index]``: of a list of numbers, or of tuples of them, for a traced index, too."""
    trace = active()
    if trace is None or type(index) is not Proxy or type(container) not in (list, tuple):
        return container[index]
    if not container or index.ndim or any(np.ndim(v) for v in flatten(container)[0]):
        return container[index]
    held = Listed([*container], trace, "plain")
    return held[index] if "plain" not in trace.asked else container[index]


def is_grown(value: Any) -> bool:
    """True for a list whose elements the graph has."""
    return type(value) is Listed and value.structure is not None


def truth(value: Any) -> Any:
    """Returns a value whose truth is that of ``value``, which may be a list."""
    return value.length() > 0 if is_grown(value) else value


def arrayed(value: Any) -> Any:
    """Returns the array of a list whose elements the graph has."""
    return value.array() if is_grown(value) else value


def returned(value: Any) -> Any:
    """Returns a result whose lists are Python's, or those that calls make of arrays."""
    if type(value) is Listed and value.structure == LEAF:
        return Stacked(value.array(), value.types[0].weak is not None)
    if type(value) is Listed:
        return [returned(each) for each in value]
    if (kind := kind_of(type(value))) is None:
        return value
    children, aux = kind.take(value)
    return kind.make(type(value), aux, [returned(each) for each in children])


# -- bodies of branches and loops ------------------------------------------------------------------


def most_of(trace: Trace) -> Growth:
    """Returns how many elements each list may have by now."""
    return {each: each.most for each in trace.lists}


def set_most(trace: Trace, before: Growth) -> None:
    """Takes back what a pass over a body has counted, which comes again."""
    for each in trace.lists:
        each.most = before.get(each, each.most)


def with_room(trace: Trace, attempt: Callable[[], T]) -> T:
    """Returns ``attempt()``, a branch or loop, repeated until lists that are at home here have the
    types and the room for it."""
    before = most_of(trace)
    while True:
        set_most(trace, before)
        try:
            return attempt()
        except GrowsError as error:
            grown = error.grown
            if grown.home is not trace.scope:
                raise
            trace.wanted.discard(grown.key)
            if error.element is _ROOM:
                grown.reserve(grown.needed)
            else:
                grown.stack(error.element)
                before[grown] = grown.most


def check_room(trace: Trace) -> None:
    """Ends a body in which lists have grown to more than there is room for."""
    for each in trace.lists:
        is_here = each.depth == len(trace.iterations) and not each.home.ended
        if is_here and each.needed > each.capacity:
            raise GrowsError(each, _ROOM)


@contextmanager
def iteration(trace: Trace, count: int | None) -> Generator[Growth, None, None]:
    """The body of a loop of at most ``count`` iterations. Yields what each list grows by in one."""
    before = [(each, each.known, each.at) for each in trace.lists]
    grown: Growth = {}
    trace.iterations.append(count)
    for each, *_ in before:
        each.known, each.at = 0, trace.scope
    try:
        yield grown
    finally:
        trace.iterations.pop()
        for each, length, at in before:
            grown[each] = each.known
            each.known, each.at = length, at
    check_room(trace)


def after_loop(trace: Trace, grown: Growth, count: int | None) -> None:
    """Gives lists the lengths that they have after exactly ``count`` iterations, where known."""
    for each, by in grown.items():
        if by is None or each.known is None or each.at is not trace.scope:
            each.known = None
        elif by:
            each.known = None if count is None else each.known + by * count
