"""Are there cases for all values? The test for usefulness of L. Maranget, "Warnings for pattern
matching", Journal of Functional Programming 17(3), 2007.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from . import nodes
from .types import DataType, TupleType, Type, substitute_type

Shape: TypeAlias = "tuple[Hashable, tuple[Shape, ...]] | None"
"""A pattern without names: a constructor with the shapes of its fields, or None for anything."""

K = TypeVar("K")
Constructors: TypeAlias = "Sequence[tuple[Hashable, Callable[[Sequence[str]], str], Sequence[K]]]"
"""The constructors of a kind of values: each with how a value is written whose fields are, and the
kinds of these fields."""


def uncovered(
    rows: Sequence[Sequence[Shape]],
    kinds: Sequence[K],
    constructors: Callable[[K], Constructors[K] | None],
) -> list[str] | None:
    """Returns values of these ``kinds``, as patterns, that no row of shapes fits; None if there are
    none. ``constructors`` gives those of a kind, None for one whose values have no parts.

    >>> both = [(True, str, []), (False, str, [])]
    >>> uncovered([[(True, ())]], ["bool"], lambda kind: both)
    ['[]']
    """
    if not kinds:
        return None if rows else []
    kind, *others = kinds
    always = [row[1:] for row in rows if row[0] is None]
    opened = constructors(kind) if len(always) < len(rows) else None
    if opened is None:
        rest = uncovered(always, others, constructors)
        return None if rest is None else ["_", *rest]
    for key, written, fields in opened:
        inside: list[list[Shape]] = []
        for first, *more in rows:
            if first is None or first[0] == key:
                parts = [None] * len(fields) if first is None else first[1]
                inside.append([*parts, *more])
        rest = uncovered(inside, [*fields, *others], constructors)
        if rest is not None:
            return [written(rest[: len(fields)]), *rest[len(fields) :]]
    return None


def missing_case(
    cases: Sequence[nodes.Case], type: Type, types: Mapping[str, nodes.DataDef]
) -> str | None:
    """Returns a value of a type, as a pattern, for which there is no case; None if there are cases
    for all. ``types`` are the data types of the module."""

    def constructors(type: Type) -> Constructors[Type] | None:
        if isinstance(type, TupleType):
            return [("", _tuple_text, type.fields)]
        if not isinstance(type, DataType):
            return None
        data = types[type.name]
        given = dict(zip(data.type_params, type.args))
        return [
            (c.name, _writer(c.name), [substitute_type(f, {}, given) for f in c.type.params])
            for c in data.constructors
        ]

    rows = [[_shape(case.pattern)] for case in cases]
    example = uncovered(rows, [type], constructors)
    return None if example is None else example[0]


def _shape(pattern: nodes.Pattern) -> Shape:
    if not isinstance(pattern, nodes.ConstructorPattern):
        return None
    name = "" if pattern.constructor is None else pattern.constructor.name
    return name, tuple(map(_shape, pattern.fields))


def _tuple_text(fields: Sequence[str]) -> str:
    return f"({fields[0]},)" if len(fields) == 1 else f"({', '.join(fields)})"


def _writer(name: str) -> Callable[[Sequence[str]], str]:
    return lambda fields: f"{name}({', '.join(fields)})" if fields else name
