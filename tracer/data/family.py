"""Sealed families of dataclasses: the constructors of an algebraic data type, and their fields."""

from __future__ import annotations

import dataclasses
import operator
import sys
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any

from ...ir.dataclass import dataclass
from ...ir.dtype import BOOL, FLOAT64, INT64, DType
from ...ir.errors import LoopwrightTypeError
from ..control.leaves import LeafType
from ..core.argument_specs import DTypeSpec, Spec
from ..core.pytree import Leaf, Structure

_PYTHON: dict[Any, DType] = {float: FLOAT64, int: INT64, bool: BOOL}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a constructor: of a ``family`` of data, or an array or number of a ``type``, None
    for one whose values say what it is."""

    name: str
    family: Family | None
    type: LeafType | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The number of a constructor in its family, whose references have so many ``bits`` for it, its
    fields, and functions of a value: of its ``parts``, which are data, and of those that are of the
    ``same`` family as the value that all are in; None: there are none."""

    tag: int
    bits: int
    fields: tuple[Field, ...]
    parts: Callable[[Any], tuple[Any, ...]] | None
    same: Callable[[Any], tuple[Any, ...]] | None


@dataclass(slots=True, eq=False)
class Family:
    """The constructors of a data type by number; no more of them once a value has been used.
    ``capacity`` is the number of values of each constructor that a call may make, ``batch`` how
    many of one height are computed together at most; 0: none are."""

    base: type
    capacity: int | None = None
    batch: int = 0
    constructors: list[type] = field(default_factory=list[type])
    closed: bool = False
    _fields: dict[type, tuple[Field, ...]] = field(default_factory=dict[type, "tuple[Field, ...]"])
    _plans: dict[type, Plan] = field(default_factory=dict[type, Plan])

    def __repr__(self) -> str:
        return self.base.__name__

    @property
    def bits(self) -> int:
        """The bits of a reference that are the constructor's number."""
        return (len(self.constructors) - 1).bit_length()

    def fields(self, constructor: type) -> tuple[Field, ...]:
        """Returns the fields of a constructor. LoopwrightTypeError for what cannot be one."""
        fields = self._fields.get(constructor)
        if fields is None:
            fields = tuple(_field(self, constructor, f) for f in dataclasses.fields(constructor))
            self._fields[constructor] = fields
        return fields

    def plans(self) -> dict[type, Plan]:
        """Returns how values of this family and of those in it are taken apart: all of them have no
        other constructors from now on."""
        if not self._plans:
            for family in self.reachable():
                family.closed = True
                for tag, constructor in enumerate(family.constructors):
                    fields = family.fields(constructor)
                    names = [f.name for f in fields if f.family is not None]
                    parts, same = _getter(names), None
                    if family is self:
                        of_family = [f.name for f in fields if f.family is self]
                        same = parts if of_family == names else _getter(of_family)
                    self._plans[constructor] = Plan(tag, family.bits, fields, parts, same)
        return self._plans

    def sizes(self) -> list[int]:
        """Returns the numbers of values in batches, the largest first: halves of each other down to
        2, so that at most one row of a height is computed twice."""
        return [self.batch >> n for n in range(max(self.batch.bit_length() - 1, 1))]

    def reachable(self) -> list[Family]:
        """Returns this family and those of its fields, at any depth."""
        reached: list[Family] = [self]
        for family in reached:  # which grows
            fields = [f for c in family.constructors for f in family.fields(c)]
            inside = dict.fromkeys(f.family for f in fields if f.family is not None)
            reached += [other for other in inside if other not in reached]
        return reached


class Sealed(type):
    """The class of a family's classes: ``isinstance`` asks a traced value what it is."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if hasattr(type(instance), "is_one_of"):  # of value.py
            return instance.is_one_of(cls)
        return super().__instancecheck__(instance)


def family_of(cls: type) -> Family | None:
    """Returns the family of a class, which is its base or one of its constructors."""
    family = getattr(cls, "__family__", None)
    return family if isinstance(family, Family) else None


@dataclass(frozen=True, slots=True)
class Layout:
    """The family of a value that is taken apart, the constructors that occur in it, and the size of
    batches of its values, if there are any."""

    family: Family
    occurring: tuple[type, ...]
    batch: int = 0

    @property
    def has_columns(self) -> bool:
        """True: another value has other numbers of rows."""
        return True

    def columns(self) -> Iterator[tuple[type, Field]]:
        """Yields constructors and fields in the order of the arrays."""
        for constructor in self.occurring:
            family = family_of(constructor)
            assert family is not None
            for each in family.fields(constructor):
                yield constructor, each


def holds_values(structure: Structure) -> bool:
    """True if there are values of data types in containers of arguments."""
    if isinstance(structure, Leaf):
        return False
    return isinstance(structure.aux, Layout) or any(map(holds_values, structure.children))


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]] | None:
    """Returns a function that gives the attributes of these names."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    return (lambda value: (getattr(value, names[0]),)) if names else None


def _field(family: Family, constructor: type, given: dataclasses.Field[Any]) -> Field:
    kind: Any = given.type
    if isinstance(kind, str):
        kind = _named(family, constructor, kind)
    if isinstance(kind, type) and (inner := family_of(kind)) is not None:
        return Field(given.name, inner, None)
    if isinstance(kind, Spec | DTypeSpec):
        shape = kind.type.shape
        return Field(given.name, None, LeafType(shape, kind.type.dtype, None, bool(shape)))
    if kind in _PYTHON:
        return Field(given.name, None, LeafType((), _PYTHON[kind], kind, False))
    if getattr(kind, "__module__", "").partition(".")[0] in ("numpy", "typing", "jax", "torch"):
        return Field(given.name, None, None)
    raise LoopwrightTypeError(
        f"the field {given.name} of {constructor.__name__} is annotated by {given.type!r}, which "
        "is neither data nor an array",
        hint=f"{given.name}: lw.f32[...], np.ndarray, float, int, bool, or a class of data",
    )


def _named(family: Family, constructor: type, text: str) -> Any:
    """Returns what an annotation in text means."""
    classes = {c.__name__: c for c in (*family.constructors, family.base)}
    module = sys.modules.get(constructor.__module__)
    try:
        return eval(text, {**vars(module)} if module is not None else {}, classes)
    except NameError:
        raise LoopwrightTypeError(
            f"the annotation {text!r} of {constructor.__name__} names something that is not "
            "defined in its module",
            hint="a class of data defined outside of functions",
        ) from None
