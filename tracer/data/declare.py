"""``lw.data``: makes a class the base of a family."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

from ...ir.errors import LoopwrightAttributeError, LoopwrightTypeError, LoopwrightValueError
from ..core import pytree
from .boundary import names_of, put_together, take_apart
from .family import Family, Sealed, family_of
from .value import Value

_T = TypeVar("_T", bound=type)


@overload
def data(cls: _T, /) -> _T: ...
@overload
def data(*, capacity: int | None = None) -> Callable[[_T], _T]: ...
def data(cls: Any = None, /, *, capacity: int | None = None) -> Any:
    """Makes a class the base of a sealed family of dataclasses, an algebraic data type.

    The classes derived from it, in its own module, are its constructors, each a dataclass that
    cannot be changed. A class with fields and without derived ones is its own constructor. A field
    is annotated by a class of data (by name where that is not defined yet), a spec such as
    ``lw.f32[150]``, ``float``, ``int`` or ``bool``, or by ``np.ndarray`` for an array whose shape
    and dtype are those of the values that a call is given.

    Compiled functions take such values, tell them apart by ``match`` or ``isinstance``, make and
    return them. A call may make ``capacity`` values of each constructor, by default as many as fit
    in a mebibyte, from 256 to 65,536; one more is a MemoryError.

    Raises LoopwrightTypeError for a class derived elsewhere, or after values have been used,
    LoopwrightValueError for a capacity below 1.

    >>> import loopwright as lw
    >>> @lw.data
    ... class Tree: ...
    >>> class Leaf(Tree):
    ...     x: float
    >>> class Node(Tree):
    ...     left: Tree
    ...     right: Tree
    >>> @lw.compile
    ... def total(tree):
    ...     return lw.match(tree, {Leaf: lambda x: x, Node: lambda l, r: total(l) + total(r)})
    >>> total(Node(Leaf(1.0), Node(Leaf(2.0), Leaf(3.0))))
    6.0
    """
    if capacity is not None and capacity < 1:
        raise LoopwrightValueError(f"lw.data: capacity is {capacity}, and at least 1")
    if cls is None:
        return lambda base: _sealed(base, capacity)
    if not isinstance(cls, type):
        raise LoopwrightTypeError(f"lw.data makes a class a family, not {cls!r}")
    return _sealed(cls, capacity)


def _sealed(cls: type, capacity: int | None) -> type:
    names = {k: v for k, v in cls.__dict__.items() if k not in ("__dict__", "__weakref__")}
    meta = Sealed if type(cls) is type else type("Sealed", (Sealed, type(cls)), {})
    family = Family(cls, capacity)
    names["__family__"] = family
    names["__init_subclass__"] = classmethod(_derived)
    _check_changes(cls)
    names |= {"__setattr__": _set_once, "__delattr__": _keep}
    made = meta(cls.__name__, cls.__bases__, names)
    family.base = made
    if inspect.get_annotations(made):
        _add(family, made)
    _register(made)
    return made


def _set_once(value: Any, name: str, part: Any) -> None:
    """Sets a field that has no value yet: what compiled code has of it must not change."""
    if name in vars(value):
        raise LoopwrightAttributeError(
            f"{type(value).__name__}.{name} cannot be changed",
            hint=f"dataclasses.replace(value, {name}=...), a value of its own",
        )
    object.__setattr__(value, name, part)


def _check_changes(cls: type) -> None:
    """Raises LoopwrightTypeError for a class that says itself how its values change."""
    for name in {"__setattr__", "__delattr__"} & {*vars(cls)}:
        raise LoopwrightTypeError(f"{cls.__name__} has a {name}, and values of data do not change")


def _keep(value: Any, name: str) -> None:
    """Refuses to delete a field, which could be set anew then."""
    raise LoopwrightAttributeError(f"{type(value).__name__}.{name} cannot be deleted")


def _derived(cls: type, **options: Any) -> None:
    """Adds a class that is derived from a family's base to it."""
    family = family_of(cls)
    assert family is not None
    super(family.base, cls).__init_subclass__(**options)
    _check_changes(cls)
    where = f"{cls.__name__} is derived from {family}"
    if cls.__mro__[1] is not family.base:
        raise LoopwrightTypeError(
            f"{where} by way of {cls.__mro__[1].__name__}, and constructors have no others below",
            hint=f"class {cls.__name__}({family})",
        )
    if cls.__module__ != family.base.__module__ or family.closed or family.base in family._fields:
        raise LoopwrightTypeError(
            f"{where}, which is sealed: its constructors stand in its module, before its first use",
            hint=f"class {cls.__name__} next to {family}, or a family of its own",
        )
    _add(family, cls)


def _add(family: Family, cls: type) -> None:
    if not dataclasses.is_dataclass(cls) or "__dataclass_fields__" not in cls.__dict__:
        dataclasses.dataclass(eq=False)(cls)
    family.constructors.append(cls)
    _register(cls)


def _register(cls: type) -> None:
    pytree.register(cls, take_apart, put_together, names_of, Value)
