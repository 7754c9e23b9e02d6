"""Nested arguments and results: a tree of Python containers, and its leaves in order.

::

    tree      ::= tuple | list | deque | dict | None            of trees; so are subclasses of dict
                | namedtuple | dataclass                        its fields are trees
                | object                                        its attributes that are trees
                | functools.partial                             its arguments are trees
                | Items                                         what a generator gives
                | a registered type                             see ``register``
                | leaf                                          anything else
    Structure ::= Leaf | Node(kind, aux, children)              the tree without its leaves

A ``Structure`` is hashable: it is a part of the key under which compiled code is kept. The order of
a dict's items belongs to it, since a function may depend on it; and so do attributes of objects
that are neither arrays, numbers nor containers, by identity.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
import sys
import types
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ...ir.dataclass import dataclass
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError


@dataclass(frozen=True, slots=True)
class Leaf:
    """The place of a leaf."""

    def __repr__(self) -> str:
        return "*"


LEAF = Leaf()


@dataclass(frozen=True, slots=True)
class Node:
    """A container: its type, what the type needs besides its children, and the children."""

    type: type
    aux: Hashable
    children: tuple[Structure, ...]


Structure: TypeAlias = Leaf | Node


@dataclass(frozen=True, slots=True)
class _Kind:
    """Functions that take containers of one type apart and put them together again."""

    take: Callable[[Any], tuple[Sequence[Any], Hashable]]
    make: Callable[[type, Any, list[Any]], Any]
    names: Callable[[Any, int], Iterable[str]]
    type: type | None = None  # in structures, for classes that are told apart by ``aux`` alone


def _bracketed(_aux: Any, count: int) -> Iterable[str]:
    return (f"[{i}]" for i in range(count))


def _dotted(aux: Any, _count: int) -> Iterable[str]:
    return (f".{name}" for name in aux)


def _make_dataclass(cls: type, aux: Any, children: list[Any]) -> Any:
    made = object.__new__(cls)  # no __init__: it may look at values that are traced
    for name, child in zip(aux, children, strict=True):
        object.__setattr__(made, name, child)
    return made


def _make_dict(cls: Any, aux: Any, children: list[Any]) -> Any:
    made = cls.__new__(cls)  # no __init__: a subclass may have one with arguments of its own
    made.update(zip(aux, children, strict=True))
    return made


_DICT = _Kind(
    lambda tree: (list(tree.values()), tuple(tree)),
    _make_dict,
    lambda aux, _count: (f"[{key!r}]" for key in aux),
)


def _take_defaultdict(tree: Any) -> tuple[Sequence[Any], Hashable]:
    return list(tree.values()), (tree.default_factory, *tree)


_DEFAULTDICT = _Kind(
    _take_defaultdict,
    lambda cls, aux, children: cls(aux[0], zip(aux[1:], children, strict=True)),
    lambda aux, _count: (f"[{key!r}]" for key in aux[1:]),
)


def _take_partial(tree: Any) -> tuple[Sequence[Any], Hashable]:
    names = tuple(tree.keywords)
    return [*tree.args, *tree.keywords.values()], (Same(tree.func), len(tree.args), names)


def _make_partial(cls: type, aux: Any, children: list[Any]) -> Any:
    function, count, names = aux
    return cls(function.value, *children[:count], **dict(zip(names, children[count:])))


_PARTIAL = _Kind(
    _take_partial,
    _make_partial,
    lambda aux, _count: (
        *(f".args[{n}]" for n in range(aux[1])),
        *(f".keywords[{name!r}]" for name in aux[2]),
    ),
)


@dataclass(frozen=True, slots=True, eq=False)
class Same:
    """An object that stays as it is, in a structure: equal to itself alone."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


_TRACED = (np.ndarray, np.generic, bool, int, float, complex, str, bytes)
_ARRAY_PROTOCOLS = ("__array__", "__dlpack__", "__array_interface__", "__array_function__")


def is_inside(value: Any) -> bool:
    """True if an attribute is traced: an array, a number or a container of trees."""
    cls = type(value)
    if isinstance(value, _TRACED) or cls in _LEAVES or kind_of(cls) is not None:
        return True
    return is_array_like(cls) or cls.__hash__ is None


def is_array_like(cls: type) -> bool:
    """True if objects of ``cls`` are arrays of some library, or have a buffer of the like."""
    if any(hasattr(cls, name) for name in _ARRAY_PROTOCOLS):
        return True
    return issubclass(cls, memoryview | bytearray) or cls.__module__ in ("array", "ctypes", "mmap")


def _attributes(tree: Any) -> dict[str, Any]:
    """The attributes of an object, those in slots included."""
    slots = {
        name: getattr(tree, name)
        for cls in type(tree).__mro__[::-1]
        for name in slots_of(cls)
        if hasattr(tree, name)
    }
    return {**slots, **getattr(tree, "__dict__", {})}


def slots_of(cls: type) -> tuple[str, ...]:
    """Returns the names of the slots that a class has beside those of its bases."""
    slots = cls.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if not name.startswith("__"))


def _take_object(tree: Any) -> tuple[Sequence[Any], Hashable]:
    items = _attributes(tree)
    inside = [name for name, value in items.items() if is_inside(value)]
    others = tuple((name, Same(items[name])) for name in items if name not in inside)
    return [items[name] for name in inside], (tuple(inside), others)


def _make_object(cls: type, aux: Any, children: list[Any]) -> Any:
    inside, others = aux
    made = cls() if cls is types.SimpleNamespace else object.__new__(cls)
    for name, child in zip(inside, children, strict=True):
        object.__setattr__(made, name, child)
    for name, same in others:
        object.__setattr__(made, name, same.value)
    return made


OBJECT = _Kind(_take_object, _make_object, lambda aux, _count: (f".{name}" for name in aux[0]))


def _is_object(cls: type) -> bool:
    """True if objects of ``cls`` are no more than their attributes, and the class is the user's."""
    if cls is types.SimpleNamespace:
        return True
    root = str(cls.__module__).partition(".")[0]  # a metaclass may have none
    if root in ("numpy", "loopwright") or (root in sys.stdlib_module_names and root != "__main__"):
        return False
    if issubclass(cls, type | enum.Enum | BaseException | Iterator) or is_array_like(cls):
        return False
    if hasattr(cls, "shape") and hasattr(cls, "dtype"):
        return False
    try:
        object.__new__(cls)
    except TypeError:  # it has a state in C, or is abstract
        return False
    return cls.__dictoffset__ != 0 or any(slots_of(base) for base in cls.__mro__)


_NAMEDTUPLE = _Kind(
    lambda tree: (tree, type(tree)._fields),
    lambda cls, _aux, children: cls._make(children),
    _dotted,
)
_KINDS: dict[type, _Kind] = {
    tuple: _Kind(lambda tree: (tree, None), lambda _cls, _, children: tuple(children), _bracketed),
    list: _Kind(lambda tree: (tree, None), lambda _cls, _aux, children: children, _bracketed),
    dict: _DICT,
    defaultdict: _DEFAULTDICT,
    deque: _Kind(
        lambda tree: (list(tree), tree.maxlen),
        lambda cls, aux, children: cls(children, aux),
        _bracketed,
    ),
    types.MappingProxyType: _Kind(
        _DICT.take, lambda cls, aux, children: cls(dict(zip(aux, children))), _DICT.names
    ),
    functools.partial: _PARTIAL,
    type(None): _Kind(lambda _tree: ((), None), lambda _cls, _aux, _children: None, _bracketed),
}


def register(
    cls: type,
    flatten: Callable[[Any], tuple[Sequence[Any], Hashable]],
    unflatten: Callable[[Any, list[Any]], Any],
    names: Callable[[Any, int], Iterable[str]] = _bracketed,
    kind: type | None = None,
) -> None:
    """Lets objects of ``cls`` be arguments and results of compiled functions.

    ``flatten(obj)`` gives the children and a hashable rest; ``unflatten(rest, children)`` makes the
    object again, where the children may be traced arrays. ``names(rest, count)`` are what follows
    the object's expression in those of its leaves; objects of one ``kind`` are told apart by their
    rests alone.

    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> register(Pair, lambda p: ((p.a, p.b), None), lambda rest, ab: Pair(*ab))
    >>> flatten(Pair(1, (2, 3)))[0]
    [1, 2, 3]
    """
    _KINDS[cls] = _Kind(flatten, lambda _, aux, children: unflatten(aux, children), names, kind)


class Items(Iterator[Any]):
    """An iterator over items that are known: what a generator among arguments or results becomes.

    >>> [*Items.of(x * x for x in range(3))]
    [0, 1, 4]
    """

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items
        self._rest = iter(items)

    def __next__(self) -> Any:
        return next(self._rest)

    @staticmethod
    def of(iterator: Iterator[Any]) -> Items:
        """Returns the items that are left. Raises LoopwrightValueError if they do not end."""
        if isinstance(iterator, Items):
            return iterator
        items = [*itertools.islice(iterator, MOST_ITEMS + 1)]
        if len(items) > MOST_ITEMS:
            raise LoopwrightValueError(
                f"a {type(iterator).__name__} has more than {MOST_ITEMS} items, all of which are "
                "computed by one call",
                hint="itertools.islice(items, count), or an array",
            )
        return Items(items)


class Stacked(NamedTuple):
    """A leaf: a list among results, of the rows of an ``array``, which may be Python's numbers."""

    array: Any
    of_python: bool


class Yielded(Items):
    """The items of an iterator that a function returns, which callers get as a generator."""


MOST_ITEMS = 10_000
"""Items of a generator: code is made for each by itself."""

_KINDS[Items] = _Kind(
    lambda tree: (tree.items, None), lambda _cls, _aux, children: Items(children), _bracketed
)
_KINDS[Yielded] = _Kind(
    lambda tree: (tree.items, None), lambda _cls, _aux, children: (c for c in children), _bracketed
)


_LEAVES: set[type] = {Stacked}
_NO_KINDS: set[type] = set()
"""Classes that were looked at and are no containers."""


def register_leaf(cls: type) -> type:
    """Lets objects of ``cls`` be leaves, though it is a dataclass or a namedtuple."""
    _LEAVES.add(cls)
    return cls


def kind_of(cls: type) -> _Kind | None:
    """Returns the kind of containers of ``cls``; None if its objects are leaves."""
    kind = _KINDS.get(cls)
    if kind is not None or cls in _NO_KINDS or cls in _LEAVES:
        return kind
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        _KINDS[cls] = _NAMEDTUPLE
    elif dataclasses.is_dataclass(cls):
        names = tuple(field.name for field in dataclasses.fields(cls))
        _KINDS[cls] = _Kind(
            lambda tree: ([getattr(tree, name) for name in names], names), _make_dataclass, _dotted
        )
    elif issubclass(cls, dict):
        _KINDS[cls] = _DEFAULTDICT if issubclass(cls, defaultdict) else _DICT
    elif _is_object(cls):
        _KINDS[cls] = OBJECT
    else:
        _NO_KINDS.add(cls)
    return _KINDS.get(cls)


def children_of(tree: Any) -> tuple[Sequence[Any], Hashable] | None:
    """Returns the children of a container and the hashable rest; None for a leaf."""
    kind = kind_of(type(tree))
    return None if kind is None else kind.take(tree)


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """Returns the leaves of ``tree`` from left to right, and the tree without them.

    >>> flatten({"w": 1, "b": [2, None]})[0]
    [1, 2]
    """
    leaves: list[Any] = []
    try:
        return leaves, _flatten(tree, leaves)
    except RecursionError:
        raise LoopwrightTypeError(
            "an argument or result contains itself, or is nested too deeply",
            hint="an object that refers to its parent has to leave it out of what is traced: "
            "lw.register_pytree says how it is taken apart",
        ) from None


def _flatten(tree: Any, leaves: list[Any]) -> Structure:
    kind = kind_of(type(tree))
    if kind is None:
        leaves.append(tree)
        return LEAF
    children, aux = kind.take(tree)
    return Node(
        kind.type or type(tree), aux, tuple([_flatten(child, leaves) for child in children])
    )


def leaves_within(tree: Any, deepest: int = sys.maxsize) -> list[Any]:
    """Returns the leaves of containers that may contain themselves, each container's once.
    Containers ``deepest`` levels down are left out.

    >>> cycle = [1]
    >>> cycle += [cycle, 2]
    >>> leaves_within(cycle)
    [1, 2]
    """
    leaves: list[Any] = []
    seen: set[int] = set()
    work = [(tree, 0)]
    while work:
        inner, depth = work.pop()
        inside = children_of(inner)
        if inside is None:
            leaves.append(inner)
        elif depth < deepest and id(inner) not in seen:
            seen.add(id(inner))
            work += [(child, depth + 1) for child in reversed(inside[0])]
    return leaves


def columns_among(structures: Iterable[Structure]) -> set[int]:
    """Returns the numbers of those leaves that are arrays with a row for each of some values, of
    which another tree has more or fewer: all but the first of a node whose rest ``has_columns``.
    """
    places: Iterator[int] = itertools.count()
    columns: set[int] = set()

    def walk(structure: Structure, is_column: bool) -> None:
        if isinstance(structure, Leaf):
            place = next(places)
            if is_column:
                columns.add(place)
            return
        has_columns = getattr(structure.aux, "has_columns", False)
        for number, child in enumerate(structure.children):
            walk(child, has_columns and number > 0)

    for structure in structures:
        walk(structure, False)
    return columns


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """Returns the tree again: ``unflatten(structure, leaves)`` where both came from ``flatten``."""
    return _unflatten(structure, iter(leaves))


def _unflatten(structure: Structure, leaves: Iterator[Any]) -> Any:
    if isinstance(structure, Leaf):
        return next(leaves)
    children = [_unflatten(child, leaves) for child in structure.children]
    return _KINDS[structure.type].make(structure.type, structure.aux, children)


def paths(structure: Structure, root: str = "") -> list[str]:
    """Returns the Python expression of each leaf from ``root``, in order.

    >>> paths(flatten({"w": 1, "b": [2, 3]})[1], "params")
    ["params['w']", "params['b'][0]", "params['b'][1]"]
    """
    if isinstance(structure, Leaf):
        return [root]
    names = _KINDS[structure.type].names(structure.aux, len(structure.children))
    written: list[str] = []
    for name, child in zip(names, structure.children, strict=True):
        written += paths(child, root + name)
    return written
