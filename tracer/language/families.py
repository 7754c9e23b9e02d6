"""The data types of a module as families of dataclasses, one for each choice of types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...ir.dims import size
from ...ir.errors import LoopwrightTypeError, UnsupportedError
from ...ir.graph.evaluate import Made, Value
from ...ir.graph.nodes import DataDef
from ...ir.graph.types import (
    DataType,
    TensorType,
    TupleType,
    Type,
    map_parts,
    parts_of,
    sizes_in,
    substitute_type,
)
from ..core.argument_specs import Spec
from ..data.declare import data

_ANY_SIZE = size("any")
TUPLE = "Tuple"
"""The name of the constructor of tuples that are fields of values."""


class Families:
    """The classes of each data type that programs use. A tuple in a field is a value of a family
    with one constructor. ``any_sizes``: types that differ in sizes have one family, as functions
    have names of their own for sizes."""

    def __init__(self, types: Mapping[str, DataDef], any_sizes: bool = False) -> None:
        self.types = types
        self.any_sizes = any_sizes
        self._classes: dict[Type, dict[str, type]] = {}

    def add(self, used: Iterable[Type], in_field: bool = False) -> None:
        """Makes the classes of data types, and of those that their fields need; of tuples as well
        that are ``in_field`` of a value."""
        new: dict[Type, dict[str, Sequence[Type]]] = {}
        for type in used:
            self._need(self._key(type), new, in_field)
        bases = {type: data(_class(_base_name(type), object, {})) for type in new}
        for type, constructors in new.items():
            classes = self._classes[type] = {"": bases[type]}
            for name, fields in constructors.items():
                every = {**{t: c[""] for t, c in self._classes.items()}, **bases}
                kinds = {n: _annotation(f, every) for n, f in zip(_names(fields), fields)}
                classes[name] = _class(name, bases[type], kinds)

    def _need(self, type: Type, new: dict[Type, dict[str, Sequence[Type]]], in_field: bool) -> None:
        """Enters the types in a type that have no classes yet, with their constructors."""
        if type in new or type in self._classes:
            return
        if isinstance(type, DataType):
            new[type] = self._constructors(type)
            for field in (f for fields in new[type].values() for f in fields):
                self._need(field, new, in_field=True)
        elif isinstance(type, TupleType) and in_field:
            new[type] = {TUPLE: type.fields}
        for part in parts_of(type):
            self._need(part, new, in_field and isinstance(type, TupleType))

    def _constructors(self, type: DataType) -> dict[str, Sequence[Type]]:
        definition = self.types[type.name]
        types = dict(zip(definition.type_params, type.args))
        return {
            c.name: [substitute_type(f, {}, types) for f in c.type.params]
            for c in definition.constructors
        }

    def constructor(self, type: Type, name: str = TUPLE) -> Any:
        """Returns the class of a constructor of a data type."""
        key = self._key(type)
        if key not in self._classes:
            self.add([key], in_field=True)
        return self._classes[key][name]

    def _key(self, type: Type) -> Type:
        """Returns the type under which the classes of a type are kept."""
        if isinstance(type, TensorType) and self.any_sizes:
            return TensorType((_ANY_SIZE,) * type.rank, type.dtype)
        return map_parts(type, self._key)

    def fields(self, type: Type, name: str = TUPLE) -> Sequence[Type]:
        """Returns the types of the fields of a constructor."""
        return type.fields if isinstance(type, TupleType) else self._constructors(_data(type))[name]

    def namespaces(self, used: Iterable[Type]) -> dict[str, SimpleNamespace]:
        """Returns the constructors of each data type that is ``used``, by how it is written."""
        return {
            str(type): SimpleNamespace(**{n: c for n, c in classes.items() if n})
            for type, classes in ((t, self._classes.get(self._key(t), {})) for t in used)
            if isinstance(type, DataType)
        }

    # -- between Python's objects and the interpreter's values -------------------------------------

    def plain(self, name: str, value: Any, type: Type) -> Value:
        """Returns an argument, an object of Python's, as the interpreter of graphs has it.
        LoopwrightTypeError for one of another type."""
        if isinstance(type, TensorType):
            array = np.asarray(value)
            weak = isinstance(value, bool | int | float)
            if weak or array.dtype == type.dtype.numpy:
                return np.asarray(value, type.dtype.numpy)
            raise LoopwrightTypeError(not_of_type(name, value, type))
        constructor = value.__class__.__name__
        if isinstance(type, DataType):
            fields = self._constructors(type).get(constructor)
        else:
            fields = type.fields if isinstance(type, TupleType) else None
        if fields is None:
            raise LoopwrightTypeError(not_of_type(name, value, type))
        parts = value if isinstance(value, tuple) else [getattr(value, n) for n in _names(fields)]
        plain = tuple(self.plain(name, p, f) for p, f in zip(parts, fields, strict=True))
        return Made(constructor, plain) if isinstance(type, DataType) else plain

    def object(self, value: Value, type: Type, inside: bool = False) -> Any:
        """Returns a value of the interpreter as an object of Python's; ``inside`` of another one,
        a tuple is a value of its family."""
        if isinstance(value, Made):
            fields = self.fields(type, value.constructor)
            parts = [self.object(v, f, True) for v, f in zip(value.fields, fields, strict=True)]
            return self.constructor(type, value.constructor)(*parts)
        if isinstance(value, tuple):
            assert isinstance(type, TupleType)
            parts = [self.object(v, f, inside) for v, f in zip(value, type.fields, strict=True)]
            return self.constructor(type)(*parts) if inside else tuple(parts)
        return value


def not_of_type(name: str, value: Any, type: Type) -> str:
    """Returns the message for an argument of another type than that of the parameter."""
    is_array = hasattr(value, "dtype")
    given = f"{value.dtype}{[*value.shape]}" if is_array else f"a {value.__class__.__name__}"
    return f"{name} is {type}, and this is {given}"


def _names(fields: Sequence[Type]) -> list[str]:
    """Returns the names of fields, which have none in the language."""
    return [f"field{n}" for n in range(len(fields))]


def _data(type: Type) -> DataType:
    assert isinstance(type, DataType)
    return type


def _base_name(type: Type) -> str:
    return type.name if isinstance(type, DataType) else TUPLE


def _class(name: str, base: type, fields: Mapping[str, Any]) -> Any:
    return type(name, (base,), {"__annotations__": dict(fields), "__module__": __name__})


def _annotation(type: Type, bases: Mapping[Type, Any]) -> Any:
    """Returns what annotates a field of a type."""
    if isinstance(type, DataType | TupleType):
        return bases[type]
    if isinstance(type, TensorType):
        is_fixed = all(isinstance(size, int) for size in sizes_in(type))
        return Spec(type) if is_fixed else np.ndarray
    raise UnsupportedError(
        f"a value of data that holds a {type} cannot be compiled",
        hint="what the reference refers to as the field",
    )
