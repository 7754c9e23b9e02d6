"""State that Python functions can reach outside of their arguments, and changes of it.

::

    roots    functions, objects, containers
    record   one object behind them that may change, and its parts: global variables that code
             names, the variable in a cell, attributes that code names, items, a function's code and
             defaults, the bytes of an array, the state of a generator of random numbers

``Snapshot(roots)`` walks to all records, and keeps their parts. ``changes()`` gives the parts that
are other ones by now, ``restore()`` puts them back. Code of the user is walked: that of the roots,
and what it can call. Libraries keep their state to themselves: modules and classes of NumPy, of
Loopwright, of the standard library and of installed packages are not looked into.
"""

from __future__ import annotations

import array as python_array
import dis
import functools
import gc
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from . import object_kinds
from .captured_values import LEAST_BYTES
from .object_kinds import GONE, PLAIN_TYPES, Kind, Parts, Reach, Space, dict_of, read_cell, same


class _Names(NamedTuple):
    """The names in a piece of code: global variables, attributes, modules that it imports; and
    whether it asks if something is ``True`` or ``False`` itself."""

    variables: frozenset[str]
    attributes: frozenset[str]
    modules: frozenset[str]
    asks_identity: bool


class Change(NamedTuple):
    """A part that was ``before`` and is ``after``; ``path`` is how a function reaches it."""

    record: Record
    key: Any
    before: Any
    after: Any

    @property
    def holder(self) -> Any:
        return self.record.value

    @property
    def path(self) -> str:
        return self.record.path if self.record.kind.mark == "" else self.record.path_of(self.key)

    def still(self) -> bool:
        """True unless the part is what it was before again."""
        return not same(self.before, self.record.read().get(self.key, GONE))

    @property
    def is_array(self) -> bool:
        """True if an array has changed."""
        return self.record.kind is object_kinds.ARRAY

    @property
    def is_random(self) -> bool:
        """True if random numbers were drawn."""
        return self.record.kind is object_kinds.RANDOM


class Record:
    """An object, the parts that it had, and the record in which it was found."""

    __slots__ = ("_reach", "key", "kind", "parent", "parts", "value")

    def __init__(
        self, value: Any, kind: Kind, parent: Record | None, key: Any, reach: Reach
    ) -> None:
        self.value, self.kind, self.parent, self.key, self._reach = value, kind, parent, key, reach
        self.parts: Parts = self.read()

    def read(self) -> Parts:
        return self.kind.read(self.value, self._reach)

    @property
    def path(self) -> str:
        if self.parent is None:
            return str(self.key)
        return self.parent.path_of(self.key)

    def path_of(self, key: Any) -> str:
        """Returns a part as the user's code writes it."""
        mark = self.kind.mark
        if mark == "variable":
            return str(key)
        inside = self.path
        return {"[": f"{inside}[{key!r}]", ".": f"{inside}.{key}"}.get(mark, inside)

    def changes(self) -> Iterator[Change]:
        now = self.read()
        for key, value in now.items():
            before = self.parts.get(key, GONE)
            if not same(before, value) and not _is_cached(self.value, key, before):
                yield Change(self, key, before, value)
        for key, before in self.parts.items():
            if key not in now:
                yield Change(self, key, before, GONE)
        if (
            self.kind in (object_kinds.DICT, object_kinds.MAPPING)
            and [*now] != [*self.parts]
            and {*now} == {*self.parts}
        ):
            yield Change(self, next(iter(now), None), [*self.parts], [*now])


class Snapshot:
    """The objects that ``roots`` can reach, as they are now. Large arrays that ``outer`` has seen
    are left to it.

    >>> held = {"w": 1}
    >>> before = Snapshot([lambda x: x * held["w"]])
    >>> held["w"] = 2
    >>> [(c.path, c.before, c.after) for c in before.changes()]
    [("held['w']", 1, 2)]
    >>> before.restore(), held
    (None, {'w': 1})
    """

    def __init__(self, roots: Iterable[Any], outer: Snapshot | None = None) -> None:
        self.records: dict[tuple[int, str], Record] = {}
        self.asks_identity = False  # some code asks if a value is True itself, which none traced is
        self._reach = Reach(set())
        self._spaces: dict[int, set[str]] = {}
        self._outer = outer.records if outer is not None else {}
        self._seen: dict[int, Any] = {}
        roots = [*roots]
        libraries = {"numpy", "loopwright", *sys.stdlib_module_names} - {"__main__"}
        self._own = {package_of(_module_of(root)) for root in roots} - libraries
        self._own |= outer._own if outer is not None else set()
        self._work = deque[tuple[Any, Record | None, Any]]((r, None, _name(r)) for r in roots)
        self._work += [(g, None, name) for name, g in _generators()]
        self._walk()
        self._seen.clear()

    def changes(self) -> Iterator[Change]:
        """Returns what has changed since."""
        for record in self.records.values():
            yield from record.changes()

    def restore(self) -> Change | None:
        """Puts everything back as it was; returns a change that cannot be taken back, if any."""
        for record in [*self.records.values()]:
            if record.kind.write is not None and next(record.changes(), None) is not None:
                record.kind.write(record.value, record.parts, record.read())
        return next(self.changes(), None)

    def _walk(self) -> None:
        """Records all that can be reached. Names that are found late count for what was found
        before, too."""
        while self._work:
            while self._work:
                value, parent, key = self._work.popleft()
                if not isinstance(value, PLAIN_TYPES) and id(value) not in self._seen:
                    self._seen[id(value)] = value
                    self._visit(value, parent, key)
            for record in [*self.records.values()]:
                if record.kind in _NAMED:
                    for key, value in record.read().items():
                        if key not in record.parts:
                            record.parts[key] = value
                            self._work.append((value, record, key))

    def _visit(self, value: Any, parent: Record | None, key: Any) -> None:
        cls = type(value)
        if isinstance(value, type | types.ModuleType | types.FunctionType):
            if parent is not None and self._is_library(_module_of(value)):
                cells = getattr(value, "__closure__", None) or ()
                held = [v for cell in cells for v in read_cell(cell, self._reach).values()]
                self._push(parent, key, dict_of(value).get("__wrapped__"), *held)
            elif isinstance(value, types.FunctionType):
                self._function(value, parent, key)
            else:
                self._add(
                    value,
                    object_kinds.CLASS if isinstance(value, type) else object_kinds.MODULE,
                    parent,
                    key,
                )
        elif isinstance(value, types.CellType):
            self._add(value, object_kinds.CELL, parent, key)
        elif (
            cls.__module__.startswith("loopwright.tracer.")
            and dict_of(value).get("structure", cls) is not None
        ):
            return  # a traced array, or a list of them
        elif isinstance(value, np.ndarray):
            if (
                value.nbytes <= LEAST_BYTES
                or (id(value), object_kinds.ARRAY.name) not in self._outer
            ):
                self._add(
                    value,
                    object_kinds.OBJECTS if value.dtype.hasobject else object_kinds.ARRAY,
                    parent,
                    key,
                )
        elif isinstance(value, _random_types()):
            self._add(value, object_kinds.RANDOM, parent, key)
        elif (kind := _container(value)) is not None:
            self._add(value, kind, parent, key)
            if not self._is_library(cls.__module__):
                self._add(value, object_kinds.OBJECT, parent, key)
        elif hasattr(cls, "__next__") and self._is_library(cls.__module__):
            self._add(value, object_kinds.ITERATOR, parent, key)
            held = [v for v in gc.get_referents(value) if not isinstance(v, type | types.CodeType)]
            self._push(parent, key, *held)
        else:
            self._push(parent, key, *_inside(value))
            if cls is types.SimpleNamespace or not self._is_library(cls.__module__):
                self._add(value, object_kinds.OBJECT, parent, key)

    def _function(self, function: types.FunctionType, parent: Record | None, key: Any) -> None:
        self._add(function, object_kinds.FUNCTION, parent, key)
        self._push(parent, key, vars(function).get("__wrapped__"))
        names = _named(function.__code__)
        self.asks_identity |= names.asks_identity
        self._reach.attributes |= names.attributes
        if _COMPUTES & names.variables or _COMPUTES_NAMES & (names.variables | names.attributes):
            self._reach.everything = True
        space = Space(function.__globals__)
        space = self._seen.setdefault(id(space.variables), space)
        space.names |= names.variables
        if _COMPUTES_VARIABLES & names.variables:
            space.names |= {n for n in space.variables if not n.startswith("__")}
        self._add(space, object_kinds.GLOBALS, None, "")
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            self._work.append((cell, None, name))
        for name in names.modules & sys.modules.keys():
            self._work.append((sys.modules[name], None, name))

    def _add(self, value: Any, kind: Kind, parent: Record | None, key: Any) -> None:
        identity = value.variables if isinstance(value, Space) else value
        place = id(identity), kind.name
        if place not in self.records:
            self.records[place] = record = Record(value, kind, parent, key, self._reach)
            self._work += [(v, record, k) for k, v in record.parts.items()]

    def _push(self, parent: Record | None, key: Any, *values: Any) -> None:
        self._work += [(v, parent, key) for v in values]

    def _is_library(self, module: str | None) -> bool:
        package = package_of(module)
        return is_installed(package) and package not in self._own


def _name(root: Any) -> str:
    return getattr(root, "__name__", type(root).__name__)


def _module_of(value: Any) -> str | None:
    if isinstance(value, types.ModuleType):
        return value.__name__
    module = getattr(value, "__module__", None)
    return module if isinstance(module, str) else type(value).__module__


def package_of(module: str | None) -> str:
    """Returns the first part of a module's name."""
    return (module or "").partition(".")[0]


@functools.cache
def is_installed(package: str) -> bool:
    """True for NumPy, Loopwright, the standard library, and what is installed beside NumPy."""
    if package == "__main__":
        return False
    if package in ("numpy", "loopwright") or package in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(package), "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file


def _is_cached(holder: Any, name: Any, before: Any) -> bool:
    """True for the value that a ``functools.cached_property`` has put into its object."""
    if before is not GONE or not isinstance(name, str):
        return False
    return isinstance(getattr(type(holder), name, None), functools.cached_property)


_COMPUTES_NAMES = frozenset(
    {"getattr", "setattr", "delattr", "hasattr", "vars", "dir", "__dict__", "__getattribute__"}
    | {"asdict", "astuple", "deepcopy", "attrgetter", "eval", "exec", "__slots__"}
)
_COMPUTES = frozenset({"copy", "dataclasses", "operator", "pickle", "replace", "fields"})
"""Names of what reads attributes by names that code computes: any, and global ones."""
_COMPUTES_VARIABLES = frozenset({"globals", "eval", "exec"})

_VARIABLES = frozenset(
    {"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
)
_ATTRIBUTES = frozenset(
    {"LOAD_ATTR", "STORE_ATTR", "DELETE_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"}
)


@functools.cache
def _named(code: types.CodeType) -> _Names:
    """Returns what code names, with that of functions inside of it."""
    variables, attributes, modules = set[str](), set[str](), set[str]()
    asks_identity, before = False, None
    for step in dis.get_instructions(code):
        asks_identity |= step.opname == "IS_OP" and type(before) is bool
        before = step.argval if step.opname == "LOAD_CONST" else None
        if step.opname in _VARIABLES:
            variables.add(step.argval)
        elif step.opname in _ATTRIBUTES:
            attributes.add(step.argval)
        elif step.opname == "IMPORT_NAME":
            modules.add(step.argval)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            names = _named(inner)
            variables |= names.variables
            attributes |= names.attributes
            modules |= names.modules
            asks_identity |= names.asks_identity
    return _Names(frozenset(variables), frozenset(attributes), frozenset(modules), asks_identity)


def _random_types() -> tuple[type, ...]:
    """Types of generators of random numbers; those of modules that nobody has loaded have none."""
    return _random_types_of("random" in sys.modules, "numpy.random" in sys.modules)


@functools.cache
def _random_types_of(pythons: bool, numpys: bool) -> tuple[type, ...]:
    kinds: list[type] = [sys.modules["random"].Random] if pythons else []
    if numpys:
        kinds += [np.random.Generator, np.random.RandomState, np.random.BitGenerator]
    return tuple(kinds)


def _generators() -> list[tuple[str, Any]]:
    """The generators that everybody shares."""
    shared: list[tuple[str, Any]] = []
    if "random" in sys.modules:
        shared.append(("the module random", vars(sys.modules["random"])["_inst"]))
    if "numpy.random" in sys.modules:
        shared.append(("np.random", vars(np.random.mtrand)["_rand"]))
    return shared


def _inside(value: Any) -> tuple[Any, ...]:
    """Returns what an object of Python's own types holds, which cannot be changed."""
    if isinstance(value, tuple | frozenset):
        return tuple(value)
    if isinstance(value, types.MethodType):
        return value.__func__, value.__self__
    if isinstance(value, types.BuiltinFunctionType):
        bound = value.__self__
        return () if isinstance(bound, types.ModuleType) else (bound,)
    if isinstance(value, staticmethod | classmethod):
        return (value.__func__,)
    if isinstance(value, property):
        return value.fget, value.fset, value.fdel
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    if isinstance(value, functools.cached_property):
        return (value.func,)
    return (dict_of(value).get("__wrapped__"),)  # of compiled functions, and caches of functions


def _container(value: Any) -> Kind | None:
    kinds = (
        (dict, object_kinds.DICT),
        (list, object_kinds.LIST),
        (deque, object_kinds.DEQUE),
        (set, object_kinds.SET),
        (bytearray, object_kinds.BYTES),
    )
    more = (
        (python_array.array, object_kinds.BYTES),
        (types.MappingProxyType, object_kinds.MAPPING),
    )
    return next((kind for cls, kind in (*kinds, *more) if isinstance(value, cls)), None)


# How each kind of object is read, and written back.


_NAMED = (
    object_kinds.GLOBALS,
    object_kinds.MODULE,
    object_kinds.CLASS,
    object_kinds.OBJECT,
    object_kinds.FUNCTION,
)
