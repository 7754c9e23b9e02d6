"""Nested arguments and results: a tree of Python containers, and its leaves in order.

::

    tree      ::= tuple | list | dict | OrderedDict | None     of trees
                | namedtuple | dataclass                        its fields are trees
                | a registered type                             see ``register``
                | leaf                                          anything else
    Structure ::= Leaf | Node(kind, aux, children)              the tree without its leaves

A ``Structure`` is hashable: it is a part of the key under which compiled code is kept. The order of
a dict's items belongs to it, since a function may depend on it.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = [
    "LEAF",
    "children_of",
    "Leaf",
    "Node",
    "Structure",
    "flatten",
    "kind_of",
    "paths",
    "register",
    "register_leaf",
    "unflatten",
]


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
    """How containers of one type are taken apart and put together again."""

    take: Callable[[Any], tuple[Sequence[Any], Hashable]]
    make: Callable[[type, Any, list[Any]], Any]
    names: Callable[[Any, int], Iterable[str]]


def _bracketed(aux: Any, count: int) -> Iterable[str]:
    return (f"[{i}]" for i in range(count))


def _dotted(aux: Any, count: int) -> Iterable[str]:
    return (f".{name}" for name in aux)


def _make_dataclass(cls: type, aux: Any, children: list[Any]) -> Any:
    made = object.__new__(cls)  # no __init__: it may look at values that are traced
    for name, child in zip(aux, children, strict=True):
        object.__setattr__(made, name, child)
    return made


_DICT = _Kind(
    lambda tree: (list(tree.values()), tuple(tree)),
    lambda cls, aux, children: cls(zip(aux, children, strict=True)),
    lambda aux, count: (f"[{key!r}]" for key in aux),
)
_NAMEDTUPLE = _Kind(
    lambda tree: (tree, type(tree)._fields),
    lambda cls, aux, children: cls._make(children),
    _dotted,
)
_KINDS: dict[type, _Kind] = {
    tuple: _Kind(lambda tree: (tree, None), lambda cls, aux, children: tuple(children), _bracketed),
    list: _Kind(lambda tree: (tree, None), lambda cls, aux, children: children, _bracketed),
    dict: _DICT,
    OrderedDict: _DICT,
    type(None): _Kind(lambda tree: ((), None), lambda cls, aux, children: None, _bracketed),
}


def register(
    cls: type,
    flatten: Callable[[Any], tuple[Sequence[Any], Hashable]],
    unflatten: Callable[[Any, list[Any]], Any],
) -> None:
    """Let objects of ``cls`` be arguments and results of compiled functions.

    ``flatten(obj)`` gives the children and a hashable rest; ``unflatten(rest, children)`` makes the
    object again, where the children may be traced arrays.

    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> register(Pair, lambda p: ((p.a, p.b), None), lambda rest, ab: Pair(*ab))
    >>> flatten(Pair(1, (2, 3)))[0]
    [1, 2, 3]
    """
    _KINDS[cls] = _Kind(flatten, lambda _, aux, children: unflatten(aux, children), _bracketed)


_LEAVES: set[type] = set()


def register_leaf(cls: type) -> type:
    """Let objects of ``cls`` be leaves, though it is a dataclass or a namedtuple."""
    _LEAVES.add(cls)
    return cls


def kind_of(cls: type) -> _Kind | None:
    """How objects of ``cls`` are taken apart; None if they are leaves."""
    kind = _KINDS.get(cls)
    if kind is not None or cls in _LEAVES:
        return kind
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        _KINDS[cls] = _NAMEDTUPLE
    elif dataclasses.is_dataclass(cls):
        names = tuple(field.name for field in dataclasses.fields(cls))
        _KINDS[cls] = _Kind(
            lambda tree: ([getattr(tree, name) for name in names], names), _make_dataclass, _dotted
        )
    return _KINDS.get(cls)


def children_of(tree: Any) -> tuple[Sequence[Any], Hashable] | None:
    """The children of a container and the hashable rest; None for a leaf."""
    kind = kind_of(type(tree))
    return None if kind is None else kind.take(tree)


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of ``tree`` from left to right, and the tree without them.

    >>> flatten({"w": 1, "b": [2, None]})[0]
    [1, 2]
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree: Any, leaves: list[Any]) -> Structure:
    kind = kind_of(type(tree))
    if kind is None:
        leaves.append(tree)
        return LEAF
    children, aux = kind.take(tree)
    return Node(type(tree), aux, tuple([_flatten(child, leaves) for child in children]))


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """The tree again: ``unflatten(structure, leaves)`` where both came from ``flatten``."""
    return _unflatten(structure, iter(leaves))


def _unflatten(structure: Structure, leaves: Iterator[Any]) -> Any:
    if isinstance(structure, Leaf):
        return next(leaves)
    children = [_unflatten(child, leaves) for child in structure.children]
    return _KINDS[structure.type].make(structure.type, structure.aux, children)


def paths(structure: Structure, root: str = "") -> list[str]:
    """How Python reaches each leaf from ``root``, in order.

    >>> paths(flatten({"w": 1, "b": [2, 3]})[1], "params")
    ["params['w']", "params['b'][0]", "params['b'][1]"]
    """
    if isinstance(structure, Leaf):
        return [root]
    names = _KINDS[structure.type].names(structure.aux, len(structure.children))
    found: list[str] = []
    for name, child in zip(names, structure.children, strict=True):
        found += paths(child, root + name)
    return found
