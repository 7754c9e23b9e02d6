"""``dataclass`` as in the standard library, with methods that are compiled at their first use.

The standard library writes and compiles the text of up to seven methods when a class is defined;
for the classes that ``import loopwright`` defines, that took as long as all the rest of the import.
Here ``__repr__`` and the refusals of frozen classes are shared, and ``__init__``, ``__eq__``,
``__hash__`` and the comparisons are compiled when they are looked up for the first time: most
classes are never compared, and many are not needed by a given program.

``fields``, ``field``, ``replace`` and so on are those of the standard library. Not supported, as no
class of ours needs them: ``InitVar``, ``kw_only``, and ``field(hash=...)``.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from types import FunctionType, MemberDescriptorType
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


@overload
def dataclass(cls: type[T], /) -> type[T]: ...
@overload
def dataclass(
    *,
    frozen: bool = False,
    slots: bool = False,
    weakref_slot: bool = False,
    eq: bool = True,
    order: bool = False,
) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(field_specifiers=(dataclasses.field,))
def dataclass(
    cls: type[T] | None = None,
    /,
    *,
    frozen: bool = False,
    slots: bool = False,
    weakref_slot: bool = False,
    eq: bool = True,
    order: bool = False,
) -> type[T] | Callable[[type[T]], type[T]]:
    """Adds what ``dataclasses.dataclass`` adds to a class, compiled at its first use.

    >>> @dataclass(frozen=True, slots=True)
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(1) == Point(1, 0)
    (Point(x=1, y=0), True)
    """

    def decorate(cls: type[T]) -> type[T]:
        return _with_methods(cls, frozen, slots, weakref_slot, eq, order)

    return decorate if cls is None else decorate(cls)


class _AtFirstUse:
    """A method that ``compile_it`` makes, and that takes this place, when it is looked up."""

    __slots__ = ("cls", "compile_it", "name")

    def __init__(
        self, cls: type, name: str, compile_it: Callable[[type, str], FunctionType]
    ) -> None:
        self.cls = cls
        self.name = name
        self.compile_it = compile_it

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        method = self.compile_it(self.cls, self.name)
        setattr(self.cls, self.name, method)
        return method.__get__(instance, owner)


def _with_methods(
    cls: type[T], frozen: bool, slots: bool, weakref_slot: bool, eq: bool, order: bool
) -> type[T]:
    defined = frozenset(vars(cls))
    # Python itself sets __hash__ to None in a class that defines __eq__.
    has_hash = "__hash__" in defined and not (cls.__hash__ is None and "__eq__" in defined)
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # else it is made of the signature, which takes long
    made = dataclasses.dataclass(
        init=False, repr=False, eq=False, slots=slots, weakref_slot=weakref_slot
    )(cls)

    def add(name: str, method: Any) -> None:
        if name not in defined:
            setattr(made, name, method)

    add("__init__", _AtFirstUse(made, "__init__", _frozen_init if frozen else _init))
    add("__repr__", _repr)
    if eq:
        add("__eq__", _AtFirstUse(made, "__eq__", _comparison))
        if not has_hash:
            hashing: Any = _AtFirstUse(made, "__hash__", _hash) if frozen else None
            made.__hash__ = hashing
    if order:
        for name in ("__lt__", "__le__", "__gt__", "__ge__"):
            add(name, _AtFirstUse(made, name, _comparison))
    if frozen:
        add("__setattr__", _refuse_to_set)
        add("__delattr__", _refuse_to_delete)
        if slots:
            add("__getstate__", _getstate)
            add("__setstate__", _setstate)
    return made


def _init(cls: type, _name: str) -> FunctionType:
    return _compiled_init(cls, lambda field: f"self.{field} = {{}}", {})


def _frozen_init(cls: type, _name: str) -> FunctionType:
    """Returns ``__init__`` that goes past ``__setattr__``, and straight to the slots if any."""
    values: dict[str, Any] = {"_set": object.__setattr__}

    def assign(field: str) -> str:
        slot = getattr(cls, field, None)
        if not isinstance(slot, MemberDescriptorType):
            return f"_set(self, {field!r}, {{}})"
        values[f"_set_{field}"] = slot.__set__
        return f"_set_{field}(self, {{}})"

    return _compiled_init(cls, assign, values)


def _compiled_init(cls: type, assign: Callable[[str], str], values: dict[str, Any]) -> FunctionType:
    values["_missing"] = MISSING
    params = ["self"]
    body: list[str] = []
    for field in _fields(cls):
        name = param = value = field.name
        if field.default_factory is not MISSING:
            values[f"_make_{name}"] = field.default_factory
            param = f"{name}=_missing"
            value = f"_make_{name}()"
            if field.init:
                value += f" if {name} is _missing else {name}"
        elif field.default is not MISSING:
            values[f"_default_{name}"] = field.default
            param = f"{name}=_default_{name}"
            value = name if field.init else f"_default_{name}"
        elif not field.init:
            continue  # __post_init__ sets it
        if field.init:
            params.append(param)
        body.append(assign(name).format(value))
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    return _compiled(cls, "__init__", ", ".join(params), body or ["pass"], values)


_OPERATORS = {"__eq__": "==", "__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}


def _comparison(cls: type, name: str) -> FunctionType:
    body = [
        "if other.__class__ is self.__class__:",
        f" return {_tuple(cls, 'self')} {_OPERATORS[name]} {_tuple(cls, 'other')}",
        "return NotImplemented",
    ]
    return _compiled(cls, name, "self, other", body, {})


def _hash(cls: type, name: str) -> FunctionType:
    return _compiled(cls, name, "self", [f"return hash({_tuple(cls, 'self')})"], {})


def _tuple(cls: type, of: str) -> str:
    """Returns the text of the tuple of the fields that are compared."""
    return "(" + "".join(f"{of}.{f.name}, " for f in _fields(cls) if f.compare) + ")"


def _compiled(
    cls: type, name: str, params: str, body: list[str], values: dict[str, Any]
) -> FunctionType:
    # Traces that pass over the frames of Loopwright know them by this name.
    values["__name__"] = cls.__module__
    text = "\n ".join([f"def {name}({params}):", *body])
    exec(compile(text, f"<dataclass {cls.__qualname__}>", "exec"), values)
    method: FunctionType = values.pop(name)
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    return method


def _fields(of: Any) -> tuple[Field[Any], ...]:
    return dataclasses.fields(of)


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    values = (f"{f.name}={getattr(self, f.name)!r}" for f in _fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(values)})"


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    if _is_fixed(self, name):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_to_delete(self: Any, name: str) -> None:
    if _is_fixed(self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _is_fixed(self: Any, name: str) -> bool:
    """True unless a class derived from the dataclass, and no dataclass itself, adds ``name``."""
    cls = type(self)
    return "__dataclass_fields__" in vars(cls) or name in cls.__dataclass_fields__


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in _fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for field, value in zip(_fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
