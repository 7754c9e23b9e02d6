"""Parts of objects that a call may change, by kind of object: to be read, and written back."""

from __future__ import annotations

import array as python_array
import operator
import pickle
import types
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ...ir.dataclass import dataclass
from .captured_values import LEAST_BYTES, fingerprint, is_fixed
from .pytree import slots_of

Parts: TypeAlias = dict[Any, Any]

GONE = object()
"""Stands for a part that is not there."""

PLAIN_TYPES = (bool, int, float, complex, str, bytes, type(None), np.generic)


@dataclass(slots=True, eq=False)
class Reach:
    """The names in all code that was reached; ``everything``: some of it computes names."""

    attributes: set[str]
    everything: bool = False

    def names(self, name: Any) -> bool:
        return self.everything or name in self.attributes


class Kind(NamedTuple):
    """The way to read the parts of objects, and to write them over those that they have now;
    ``mark`` begins the part in a path."""

    name: str
    mark: str
    read: Callable[[Any, Reach], Parts]
    write: Callable[[Any, Parts, Parts], None] | None = None


class Space:
    """A namespace, and the variables of it that code names."""

    __slots__ = ("names", "variables")

    def __init__(self, variables: dict[str, Any]) -> None:
        self.variables = variables
        self.names: set[str] = set()


def same(one: Any, other: Any) -> bool:
    """True for the same object, and for plain values that Python cannot tell apart.

    >>> same(2.5, 5 / 2), same(1, True), same((1, "a"), (1, "a")), same([1], [1])
    (True, False, True, False)
    """
    if one is other:
        return True
    kind = type(one)  # a traced number has another __class__
    if kind is not type(other):
        return False
    if kind is tuple:
        return len(one) == len(other) and all(map(same, one, other))
    if kind is types.MethodType:
        return one.__self__ is other.__self__ and one.__func__ is other.__func__
    if issubclass(kind, np.generic):
        return one.dtype == other.dtype and one.tobytes() == other.tobytes()
    if issubclass(kind, float | complex):
        return repr(one) == repr(other)  # nan, and the sign of zero
    return issubclass(kind, PLAIN_TYPES) and one == other


def dict_of(value: Any) -> Any:
    """Returns the attributes of an object without a call of its methods."""
    try:
        return object.__getattribute__(value, "__dict__").copy()
    except AttributeError:
        return {}


def _read_globals(space: Space, _reach: Reach) -> Parts:
    held = space.variables.copy()  # other threads may change it
    return {n: held[n] for n in sorted(space.names) if n in held}


def _write_globals(space: Space, parts: Parts, now: Parts) -> None:
    for name in now.keys() - parts.keys():
        del space.variables[name]
    space.variables.update(parts)


def _read_module(module: types.ModuleType, reach: Reach) -> Parts:
    held = dict_of(module)
    return {n: v for n, v in held.items() if reach.names(n) and not n.startswith("__")}


def read_cell(cell: types.CellType, _reach: Reach) -> Parts:
    """Returns the variable in a cell as its only part; none if it is not assigned."""
    try:
        return {"": cell.cell_contents}
    except ValueError:  # not assigned yet
        return {}


def _write_cell(cell: types.CellType, parts: Parts, _now: Parts) -> None:
    if parts:
        cell.cell_contents = parts[""]
    else:
        del cell.cell_contents


def _read_function(function: types.FunctionType, reach: Reach) -> Parts:
    parts = {n: getattr(function, n) for n in ("__code__", "__defaults__", "__kwdefaults__")}
    return parts | {n: v for n, v in dict_of(function).items() if reach.names(n)}


def _write_attributes(holder: Any, parts: Parts, now: Parts) -> None:
    base = type if isinstance(holder, type) else object
    for name in now.keys() - parts.keys():
        base.__delattr__(holder, name)
    for name, value in parts.items():
        if now.get(name, GONE) is not value:
            base.__setattr__(holder, name, value)


def _read_object(value: Any, reach: Reach) -> Parts:
    parts: Parts = {"__class__": type(value)}
    for cls in type(value).__mro__:
        for name in slots_of(cls):
            if reach.names(name) and has_attribute(value, name):
                parts[name] = object.__getattribute__(value, name)
    return parts | {n: v for n, v in dict_of(value).items() if reach.names(n)}


def has_attribute(value: Any, name: str) -> bool:
    """True if an object has an attribute without its class's ``__getattr__``."""
    try:
        object.__getattribute__(value, name)
    except AttributeError:
        return False
    return True


_METHODS = (types.FunctionType, staticmethod, classmethod, property)


def _read_class(cls: type, reach: Reach) -> Parts:
    held = {
        n: v
        for n, v in vars(cls).copy().items()
        if reach.names(n) or (n.startswith("__") and isinstance(v, _METHODS))
    }
    return {**{n: v for n, v in held.items() if n not in _OF_CLASSES}, "__bases__": cls.__bases__}


_OF_CLASSES = frozenset(
    {"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__repr__"}
)


def _items(value: Any, _reach: Reach) -> Parts:
    return dict(enumerate(tuple(value)))


def _write_list(value: list[Any], parts: Parts, _now: Parts) -> None:
    value[:] = parts.values()


def _write_deque(value: deque[Any], parts: Parts, _now: Parts) -> None:
    value.clear()
    value.extend(parts.values())


def _write_dict(value: dict[Any, Any], parts: Parts, _now: Parts) -> None:
    value.clear()
    value.update(parts)


def _write_set(value: set[Any], parts: Parts, _now: Parts) -> None:
    value.clear()
    value.update(parts)


def _write_bytes(value: Any, parts: Parts, _now: Parts) -> None:
    held = parts[""]
    value[:] = held if isinstance(value, bytearray) else python_array.array(value.typecode, held)


def _read_array(array: np.ndarray[Any, Any], _reach: Reach) -> Parts:
    parts: Parts = {"shape": array.shape, "dtype": str(array.dtype), "strides": array.strides}
    if is_fixed(array):
        return parts
    array = array.view(np.ndarray)  # methods of a subclass may change it
    if array.nbytes <= LEAST_BYTES:
        return parts | {"": array.tobytes()}
    dense = array.flags.c_contiguous or array.flags.f_contiguous
    return parts | {"": fingerprint(array if dense else np.ascontiguousarray(array))}


def _write_array(array: np.ndarray[Any, Any], parts: Parts, _now: Parts) -> None:
    held = parts.get("")
    if isinstance(held, bytes):
        array[...] = np.frombuffer(held, array.dtype).reshape(array.shape)


def _read_random(generator: Any, _reach: Reach) -> Parts:
    if hasattr(generator, "getstate"):
        state = generator.getstate()
    elif hasattr(generator, "get_state"):
        state = generator.get_state(legacy=False)
    else:
        state = getattr(generator, "bit_generator", generator).state
    return {"": pickle.dumps(state)}


def _write_random(generator: Any, parts: Parts, _now: Parts) -> None:
    state = pickle.loads(parts[""])
    if hasattr(generator, "setstate"):
        generator.setstate(state)
    elif hasattr(generator, "set_state"):
        generator.set_state(state)
    else:
        getattr(generator, "bit_generator", generator).state = state


def _read_iterator(iterator: Any, _reach: Reach) -> Parts:
    parts: Parts = {"position": operator.length_hint(iterator, -1)}
    if isinstance(iterator, types.GeneratorType):
        frame = iterator.gi_frame
        held = frame.f_locals if frame is not None else {}
        return {**parts, **held, "instruction": frame.f_lasti if frame is not None else None}
    if type(iterator).__module__ == "itertools":
        parts["text"] = repr(iterator)
    return parts


GLOBALS = Kind("globals", "variable", _read_globals, _write_globals)
CELL = Kind("cell", "same", read_cell, _write_cell)
MODULE = Kind("module", ".", _read_module, _write_attributes)
CLASS = Kind("class", ".", _read_class, _write_attributes)
OBJECT = Kind("object", ".", _read_object, _write_attributes)
FUNCTION = Kind("function", ".", _read_function, _write_attributes)
DICT = Kind("dict", "[", lambda value, _: dict(value), _write_dict)
MAPPING = Kind("mapping", "[", lambda value, _: dict(value))
LIST = Kind("list", "[", _items, _write_list)
DEQUE = Kind("deque", "[", _items, _write_deque)
SET = Kind("set", "", lambda value, _: {v: v for v in tuple(value)}, _write_set)
BYTES = Kind("bytes", "", lambda value, _: {"": bytes(value)}, _write_bytes)
ARRAY = Kind("array", "", _read_array, _write_array)
OBJECTS = Kind("objects", "[", lambda value, _: dict(enumerate(value.flat)))
RANDOM = Kind("random", "", _read_random, _write_random)
ITERATOR = Kind("iterator", "", _read_iterator)
