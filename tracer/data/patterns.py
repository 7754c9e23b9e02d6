"""Patterns of the ``match`` statement: what they test, what they bind, and what they leave.

::

    Pattern ::= Of(class, patterns of fields by place, and by name)
              | Equal(value) | Same(None | True | False)
              | AnyOf(patterns) | Row(patterns)
              | Bind(name, Pattern | None)               the name alone binds anything
    ANYTHING  binds nothing

``missing`` says which values of a family no one of several patterns matches.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ...ir.dataclass import dataclass
from ...ir.errors import LoopwrightTypeError, UnsupportedError
from ...ir.graph.exhaustive import Constructors, Shape, uncovered
from ..core.emitting import emit, is_same
from ..core.proxy import Proxy
from ..core.trace import active
from .family import Family, family_of
from .value import Value

_BY_ITSELF = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)
"""Classes whose pattern takes one pattern, of the value itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Of:
    """A value of a class, with patterns for its fields."""

    cls: type
    by_place: tuple[Pattern, ...] = ()
    by_name: Mapping[str, Pattern] | None = None

    def parts(self) -> dict[str, Pattern]:
        """Returns the patterns of fields by their names; "" is the value itself."""
        if self.by_place and self.cls in _BY_ITSELF:
            return {"": self.by_place[0], **(self.by_name or {})}
        names = getattr(self.cls, "__match_args__", ())
        if len(self.by_place) > len(names):
            raise LoopwrightTypeError(
                f"{self.cls.__name__}() accepts {len(names)} positional sub-patterns "
                f"({len(self.by_place)} given)"
            )
        return {**dict(zip(names, self.by_place)), **(self.by_name or {})}


@dataclass(frozen=True, slots=True, eq=False)
class Equal:
    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class Same:
    value: bool | None


@dataclass(frozen=True, slots=True, eq=False)
class AnyOf:
    patterns: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A sequence of as many values."""

    patterns: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Bind:
    name: str
    pattern: Pattern | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Anything:
    pass


ANYTHING = _Anything()

Pattern: TypeAlias = Of | Equal | Same | AnyOf | Row | Bind | _Anything


def _both(one: Any, other: Callable[[], Any]) -> Any:
    """Returns whether two conditions hold, of which the second is asked if the first may."""
    if type(one) is not Proxy:
        return other() if one else False
    second = other()
    if type(second) is not Proxy:
        return one if second else False
    return emit("logical_and", one, second)


def _either(one: Any, other: Callable[[], Any]) -> Any:
    if type(one) is not Proxy:
        return True if one else other()
    second = other()
    if type(second) is not Proxy:
        return True if second else one
    return emit("logical_or", one, second)


def test(pattern: Pattern, value: Any) -> Any:
    """Returns whether a pattern matches a value: a bool, or a traced one."""
    if isinstance(pattern, Of):
        holds = _is_of(pattern.cls, value)
        for name, inner in pattern.parts().items():
            if is_irrefutable(inner, None) and (not name or type(value) is Value):
                continue
            holds = _both(holds, functools.partial(_test_part, pattern.cls, name, inner, value))
        return holds
    if isinstance(pattern, Equal):
        equal = value == pattern.value
        return equal if type(equal) is Proxy else bool(equal)
    if isinstance(pattern, Same):
        return is_same(value, pattern.value)
    if isinstance(pattern, AnyOf):
        tests = [functools.partial(test, p, value) for p in pattern.patterns]
        return functools.reduce(_either, tests, False)
    if isinstance(pattern, Row):
        is_text = isinstance(value, str | bytes | bytearray)
        if is_text or not isinstance(value, Sequence) or len(value) != len(pattern.patterns):
            return False
        tests = [functools.partial(test, p, v) for p, v in zip(pattern.patterns, value)]
        return functools.reduce(_both, tests, True)
    if isinstance(pattern, Bind):
        return pattern.pattern is None or test(pattern.pattern, value)
    return True


def _is_of(cls: type, value: Any) -> Any:
    if type(value) is Value:
        return issubclass(value.family.base, cls) or (
            cls in value.family.constructors and value.is_made_by(cls)
        )
    return isinstance(value, cls)


def _test_part(cls: type, name: str, inner: Pattern, value: Any) -> Any:
    if type(value) is not Value and name and not hasattr(value, name):
        return False
    return test(inner, part_of(cls, name, value))


def part_of(cls: type, name: str, value: Any) -> Any:
    """Returns a field of a value that is of a class, or may be while tracing; "" is itself."""
    if not name:
        return value
    if type(value) is not Value or cls is value.family.base:
        return getattr(value, name)
    family: Family = value.family
    fields = {f.name: f for f in family.fields(cls)}
    if name not in fields:
        raise LoopwrightTypeError(f"{cls.__name__} has no field {name}")
    return value.part(cls, fields[name])


def bind(pattern: Pattern, value: Any, into: dict[str, Any]) -> None:
    """Puts what a pattern binds ``into`` a dict, for a value that it matches."""
    if isinstance(pattern, Of):
        for name, inner in pattern.parts().items():
            if _binds(inner):
                bind(inner, part_of(pattern.cls, name, value), into)
    elif isinstance(pattern, AnyOf):
        holds = False
        for inner in pattern.patterns:
            holds = test(inner, value)
            if holds is not False:
                if type(holds) is Proxy and _binds(inner):
                    raise UnsupportedError(
                        "values decide which of several patterns binds these names",
                        hint="a case for each of them",
                    )
                return bind(inner, value, into)
    elif isinstance(pattern, Row):
        for inner, part in zip(pattern.patterns, value):
            bind(inner, part, into)
    elif isinstance(pattern, Bind):
        into[pattern.name] = value
        if pattern.pattern is not None:
            bind(pattern.pattern, value, into)
    return None


def _binds(pattern: Pattern) -> bool:
    """True if a pattern binds a name."""
    if isinstance(pattern, Of):
        return any(map(_binds, pattern.parts().values()))
    if isinstance(pattern, AnyOf | Row):
        return any(map(_binds, pattern.patterns))
    return isinstance(pattern, Bind)


def is_irrefutable(pattern: Pattern, family: Family | None) -> bool:
    """True if a pattern matches all values of a family (None: all values)."""
    if isinstance(pattern, Bind):
        return pattern.pattern is None or is_irrefutable(pattern.pattern, family)
    if isinstance(pattern, Of) and family is not None and not pattern.parts():
        return issubclass(family.base, pattern.cls)
    if isinstance(pattern, AnyOf):
        return any(is_irrefutable(p, family) for p in pattern.patterns)
    return pattern is ANYTHING


def missing(patterns: Sequence[Pattern], subject: Any) -> str | None:
    """Returns a value that ``subject`` may be and no one of the patterns matches, as a pattern;
    None if there is none."""
    kind = _kind(subject)
    rows = [[shape] for p in patterns for shape in _shapes(p, kind)]
    example = uncovered(rows, [kind], _constructors)
    return None if example is None else example[0]


def _kind(value: Any) -> Any:
    """Returns what is known of a value: its family if it is traced; itself, of a constructor."""
    if type(value) is Value:
        return value.family
    return value if family_of(type(value)) is not None else None


def _shapes(pattern: Pattern, kind: Any) -> list[Shape]:
    """Returns the shapes that a pattern fits; none for one that asks for values of arrays."""
    family = _family_of_kind(kind)
    shapes: list[Shape] = []
    for each in _alternatives(pattern):
        if is_irrefutable(each, family):
            shapes.append(None)
        elif isinstance(each, Of) and family is not None and each.cls in family.constructors:
            parts = each.parts()
            kinds = _kinds_of_fields(each.cls, kind)
            fields = [_shapes(parts.get(name, ANYTHING), k) for name, k in kinds.items()]
            shapes += [(each.cls, inside) for inside in itertools.product(*fields)]
    return shapes


def _constructors(kind: Any) -> Constructors[Any] | None:
    """Returns the constructors that a value of a kind may be of."""
    family = _family_of_kind(kind)
    if family is None:
        return None
    possible = filter(_is_inhabited, family.constructors) if family is kind else [type(kind)]
    return [(c, _writer(c), [*_kinds_of_fields(c, kind).values()]) for c in possible]


def _family_of_kind(kind: Any) -> Family | None:
    return kind if isinstance(kind, Family) or kind is None else family_of(type(kind))


def _kinds_of_fields(constructor: type, kind: Any) -> dict[str, Any]:
    """Returns what is known of each field of a value of a constructor and of a kind."""
    if type(kind) is constructor:
        return {f.name: _kind(getattr(kind, f.name)) for f in dataclasses.fields(constructor)}
    family = _family_of_kind(kind)
    assert family is not None
    return {f.name: f.family for f in family.fields(constructor)}


def _writer(constructor: type) -> Callable[[Sequence[str]], str]:
    return lambda fields: f"{constructor.__name__}({', '.join(fields)})"


def _alternatives(pattern: Pattern) -> list[Pattern]:
    """Returns the patterns that one stands for, without names."""
    if isinstance(pattern, AnyOf):
        return [q for p in pattern.patterns for q in _alternatives(p)]
    if isinstance(pattern, Bind):
        return [ANYTHING] if pattern.pattern is None else _alternatives(pattern.pattern)
    return [pattern]


def _is_inhabited(constructor: type) -> bool:
    """True unless a running trace has no values of a constructor."""
    trace = active()
    return trace is None or trace.region is None or trace.region.is_inhabited(constructor)


def family_of_value(value: Any) -> Family | None:
    """Returns the family of a value, traced or not; None for other values."""
    return value.family if type(value) is Value else family_of(type(value))
