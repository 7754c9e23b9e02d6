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
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

__all__ = [
    "LEAF",
    "Leaf",
    "Node",
    "Structure",
    "children_of",
    "flatten",
    "kind_of",
    "paths",
    "reader",
    "register",
    "register_leaf",
    "unflatten",
    "writer",
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
    """Functions that take containers of one type apart and put them together again."""

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
    """Lets objects of ``cls`` be arguments and results of compiled functions.

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
    """Lets objects of ``cls`` be leaves, though it is a dataclass or a namedtuple."""
    _LEAVES.add(cls)
    return cls


def kind_of(cls: type) -> _Kind | None:
    """Returns the kind of containers of ``cls``; None if its objects are leaves."""
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
    """Returns the children of a container and the hashable rest; None for a leaf."""
    kind = kind_of(type(tree))
    return None if kind is None else kind.take(tree)


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """Returns the leaves of ``tree`` from left to right, and the tree without them.

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


_INDENT = " " * 8

_IMMUTABLE = (bool, int, float, str, bytes, type, type(None))


class _Code:
    """Source lines, and the values that its names stand for."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.values: dict[str, Any] = {"asarray": np.asarray}
        self.variables = 0

    def value(self, value: Any) -> str:
        name = f"c{len(self.values)}"
        self.values[name] = value
        return name

    def variable(self) -> str:
        self.variables += 1
        return f"t{self.variables - 1}"

    def variables_for(self, count: int, source: str) -> list[str]:
        """New variables, to which the elements of ``source`` are assigned: exactly ``count``."""
        names = [self.variable() for _ in range(count)]
        self.lines.append(f"[{', '.join(names)}] = {source}")
        return names

    def require(self, condition: str) -> None:
        self.lines.append(f"if not ({condition}): return None")

    def function(self, header: str, body: Sequence[str]) -> Callable[..., Any]:
        text = "\n".join([header, *body])
        exec(compile(text, "<tree code>", "exec"), self.values)
        return self.values["made"]


def reader(
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    static: frozenset[int | str],
    call: Callable[..., Any],
) -> Callable[..., Any] | None:
    """``call`` on the leaves of arguments like these; the function answers None for all others.

    ``static`` holds the positions and names of static arguments. None where a leaf is of a type
    that only ``bind`` can judge.
    """
    if not kwargs and not static and all(type(a) is np.ndarray for a in args):
        return call
    code = _Code()
    leaves: list[str] = []
    names = code.variables_for(len(args), "args")
    places: list[tuple[int | str, Any]] = [*enumerate(args)]
    if kwargs:
        code.require(f"tuple(kwargs) == {code.value(tuple(kwargs))}")
        names += code.variables_for(len(kwargs), "kwargs.values()")
        places += kwargs.items()
    for name, (place, value) in zip(names, places, strict=True):
        if place in static:
            if type(value) not in _IMMUTABLE:  # it may be the same object, and not the same value
                return None
            _require_same(code, name, value)
        elif not _read(code, name, value, leaves):
            return None
    body = [_INDENT + line for line in code.lines]
    result = f"    return {code.value(call)}({', '.join(leaves)})"
    return code.function(
        f"def made(*args{', **kwargs' if kwargs else ''}):\n    try:",
        [*body, "    except ValueError:\n        return None", result],
    )


def _read(code: _Code, name: str, tree: Any, leaves: list[str]) -> bool:
    """Adds lines that read the leaves of ``name``, whose value now is ``tree``."""
    cls = type(tree)
    if cls is np.ndarray:
        leaves.append(name)
        return True
    if cls in (bool, str, type(None)):
        _require_same(code, name, tree)
        return True
    if cls in (float, int) or (isinstance(tree, np.number | np.bool) and tree.dtype.type is cls):
        code.require(f"type({name}) is {code.value(cls)}")
        leaves.append(f"asarray({name})")
        return True
    inside = children_of(tree)
    if inside is None:
        return False
    children, rest = inside
    code.require(f"type({name}) is {code.value(cls)}")
    source = name
    if cls is dict:
        code.require(f"tuple({name}) == {code.value(rest)}")
        source = f"{name}.values()"
    elif cls is not tuple and cls is not list:
        kind = kind_of(cls)
        assert kind is not None
        source, taken = code.variable(), code.variable()
        code.lines.append(f"{source}, {taken} = {code.value(kind.take)}({name})")
        code.require(f"{taken} == {code.value(rest)}")
    variables = code.variables_for(len(children), source)
    return all(_read(code, v, c, leaves) for v, c in zip(variables, children, strict=True))


def _require_same(code: _Code, name: str, value: Any) -> None:
    same, cls = code.value(value), code.value(type(value))
    code.require(f"{name} is {same} or (type({name}) is {cls} and {name} == {same})")


def writer(structure: Structure, constants: Sequence[tuple[Any] | None]) -> Callable[..., Any]:
    """Returns a function of arrays that puts them into ``structure``.

    A leaf with an entry in ``constants`` is not one of the arrays but always that value.
    """
    code = _Code()
    leaves = [code.variable() if k is None else code.value(k[0]) for k in constants]
    arrays = [leaf for leaf, k in zip(leaves, constants, strict=True) if k is None]
    code.lines.append(f"[{', '.join(arrays)}] = arrays")
    result = _write(code, structure, iter(leaves))
    return code.function(
        "def made(arrays):", [*("    " + x for x in code.lines), f"    return {result}"]
    )


def _write(code: _Code, structure: Structure, leaves: Iterator[str]) -> str:
    """Adds lines that make the tree; returns the variable that holds it."""
    if isinstance(structure, Leaf):
        return next(leaves)
    aux: Any = structure.aux
    children = [_write(code, child, leaves) for child in structure.children]
    if structure.type is tuple:
        text = f"({''.join(c + ', ' for c in children)})"
    elif structure.type is list:
        text = f"[{', '.join(children)}]"
    elif structure.type is dict:
        items = (f"{code.value(k)}: {c}" for k, c in zip(aux, children, strict=True))
        text = f"{{{', '.join(items)}}}"
    else:
        kind = kind_of(structure.type)
        assert kind is not None
        inner = f"{code.value(structure.type)}, {code.value(aux)}, [{', '.join(children)}]"
        text = f"{code.value(kind.make)}({inner})"
    name = code.variable()
    code.lines.append(f"{name} = {text}")
    return name
