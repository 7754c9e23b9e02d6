"""Code for trees of one structure: reads leaves, and puts results together, without a walk.

A walk over containers takes some microseconds; the generated code, of a few lines for each, less
than one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from .pytree import OBJECT, Leaf, Structure, children_of, is_inside, kind_of, slots_of

_INDENT = " " * 8

_IMMUTABLE = (bool, int, float, str, bytes, type, type(None))


class _Code:
    """Source lines, and the values that its names stand for."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.values: dict[str, Any] = {}
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
    valued: frozenset[int | str] = frozenset(),
    leaf: Callable[[Any], Any] = np.asarray,
) -> Callable[..., Any] | None:
    """``call`` on the leaves of arguments like these; the function answers None for all others.

    ``static`` holds the positions and names of static arguments, ``valued`` those of arguments
    whose ints are static, and ``leaf`` makes of a number what ``call`` takes. None where a leaf is
    of a type that only ``bind`` can judge.
    """
    if not kwargs and not static and all(type(a) is np.ndarray for a in args):
        return call
    code = _Code()
    code.values["leaf"] = leaf
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
        elif not _read(code, name, value, leaves, place in valued):
            return None
    body = [_INDENT + line for line in code.lines]
    result = f"    return {code.value(call)}({', '.join(leaves)})"
    return code.function(
        f"def made(*args{', **kwargs' if kwargs else ''}):\n    try:",
        [*body, "    except ValueError:\n        return None", result],
    )


def _read(code: _Code, name: str, tree: Any, leaves: list[str], valued: bool) -> bool:
    """Adds lines that read the leaves of ``name``, whose value now is ``tree``."""
    cls = type(tree)
    if cls is np.ndarray:
        leaves.append(name)
        return True
    whole = valued and isinstance(tree, int | np.integer | np.bool)
    if whole or cls in (bool, str, type(None)):
        _require_same(code, name, tree)
        return True
    if cls in (float, int) or (isinstance(tree, np.number | np.bool) and tree.dtype.type is cls):
        code.require(f"type({name}) is {code.value(cls)}")
        leaves.append(f"leaf({name})")
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
    elif (kind := kind_of(cls)) is OBJECT and not any(slots_of(base) for base in cls.__mro__):
        source = code.variable()
        code.lines.append(f"{source} = {name}.__dict__")
        return _read_attributes(code, source, tree, leaves, valued)
    elif cls is not tuple and cls is not list:
        assert kind is not None
        source, taken = code.variable(), code.variable()
        code.lines.append(f"{source}, {taken} = {code.value(kind.take)}({name})")
        code.require(f"{taken} == {code.value(rest)}")
    variables = code.variables_for(len(children), source)
    pairs = zip(variables, children, strict=True)
    return all(_read(code, v, c, leaves, valued) for v, c in pairs)


def _read_attributes(code: _Code, name: str, tree: Any, leaves: list[str], valued: bool) -> bool:
    """Adds lines that read the leaves of an object's attributes, the dict ``name``."""
    items = dict(tree.__dict__)
    code.require(f"tuple({name}) == {code.value(tuple(items))}")
    variables = code.variables_for(len(items), f"{name}.values()")
    readable = True
    for variable, value in zip(variables, items.values(), strict=True):
        if is_inside(value):
            readable = readable and _read(code, variable, value, leaves, valued)
        else:
            code.require(f"{variable} is {code.value(value)}")
    return readable


def _require_same(code: _Code, name: str, value: Any) -> None:
    same, cls = code.value(value), code.value(type(value))
    code.require(f"{name} is {same} or (type({name}) is {cls} and {name} == {same})")


def writer(
    structure: Structure,
    constants: Sequence[tuple[Any] | None],
    numbers: Mapping[int, str] = MappingProxyType({}),
) -> Callable[..., Any]:
    """Returns a function of arrays that puts them into ``structure``.

    A leaf with an entry in ``constants`` is not one of the arrays but always that value; those in
    ``numbers`` become numbers, or parts of the arrays, by the text there.
    """
    code = _Code()
    leaves = [code.variable() if k is None else code.value(k[0]) for k in constants]
    arrays = [leaf for leaf, k in zip(leaves, constants, strict=True) if k is None]
    code.lines.append(f"[{', '.join(arrays)}] = arrays[:{len(arrays)}]")
    leaves = [f"{leaf}{numbers.get(n, '')}" for n, leaf in enumerate(leaves)]
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
