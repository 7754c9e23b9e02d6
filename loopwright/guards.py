"""Guards of compiled code: what a function captures is what it was when the function was traced.

::

    Guard(function, request)   before the trace: a snapshot of all that the function can reach
      watch(arrays)            after it: other arrays that were captured; None: nothing can change
      before(direct)           ``direct``, which answers None once something has changed
      holds()                  the same question for the slower ways to the code

The snapshot becomes the text of one condition, which compares identities and plain values, and a
native function that sums the memory of arrays (``memory_guard``). Where the condition fails, the
snapshot itself says whether anything has changed that the function reads. The modules of libraries,
the names of builtins, and the code of a function that captures nothing count as fixed.
"""

from __future__ import annotations

import builtins
import operator
import types
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from .codegen.runtime.memory_guard import memory_guard
from .ir.dtype import Array
from .tracer import Request, Snapshot, Traced, snapshot
from .tracer.arguments import Static
from .tracer.frozen import is_fixed
from .tracer.pytree import Node, Structure, slots_of
from .tracer.snapshot import Record, has_attribute, is_installed, package_of, same


def guarded(
    function: Callable[..., Any], request: Request, trace: Callable[[], Traced]
) -> tuple[Traced, Guard | None]:
    """Returns what ``trace`` makes of a function, and its guard, if it captures anything."""
    if package_of(getattr(function, "__module__", None)) in ("numpy", "loopwright"):
        return trace(), None
    guard = Guard(function, request)
    traced = trace()
    return replace(traced, captured=()), guard.watch(traced.captured)


class Guard:
    """The state that a function can reach, as it was. ``changed`` names what was seen to have
    changed; ``summed_bytes`` is the memory that each call sums."""

    def __init__(self, function: Callable[..., Any], request: Request) -> None:
        values = [leaf.value for leaf in request.leaves if isinstance(leaf, Static)]
        values += [cls for structure in request.structures for cls in _types(structure)]
        roots = [v for v in values if callable(v) and not _is_library(v)]
        records = [*Snapshot([function, *roots]).records.values()]
        self.changed = "an array that it captures"
        self.summed_bytes = 0
        self._records = [r for r in records if r.kind not in (snapshot.ARRAY, snapshot.RANDOM)]
        self._random = [r for r in records if r.kind is snapshot.RANDOM]
        self._arrays = {id(r.value): r.value for r in records if r.kind is snapshot.ARRAY}
        self._names: dict[str, Any] = {"same": same, "is_": operator.is_, "unchanged": _unchanged}
        self._lengths: list[tuple[str, Callable[[], int]]] = []
        self._code: list[str] = []  # conditions on the code of functions without defaults
        self._conditions = [text for record in self._records for text in self._of(record)]
        self._sums: list[Callable[[], bool]] = []
        self._sum([*self._arrays.values()])

    def watch(self, arrays: Sequence[Array]) -> Guard | None:
        """Watches more ``arrays``, as they are now. Returns None if there is nothing to watch."""
        self._sum([a for a in arrays if id(a) not in self._arrays and not is_fixed(a)])
        drawn = [r for r in self._random if not _unchanged(r)]  # the next call draws others
        self._records += drawn
        self._conditions += [text for record in drawn for text in self._of(record)]
        if not self._conditions and not self._sums:
            return None
        self._conditions += [*self._code, *(f"{self._name(f)}()" for f in self._sums)]
        self._holds = self._function("", "True")
        return self

    def before(self, direct: Callable[..., Any], has_keywords: bool) -> Callable[..., Any]:
        """Returns ``direct``, which answers None once something has changed."""
        parameters = "*args, **kwargs" if has_keywords else "*args"
        return self._function(parameters, f"{self._name(direct)}({parameters})")

    def holds(self) -> bool:
        """True if nothing has changed that the function reads."""
        if self._holds():
            return True
        lengths = [(name, length()) for name, length in self._lengths]
        change = next((c for record in self._records for c in record.changes()), None)
        if change is not None:
            self.changed = change.path
            return False
        self._names.update(lengths)  # attributes have come that the function does not read
        return all(f() for f in self._sums)

    def _sum(self, arrays: Sequence[Array]) -> None:
        items = [(array, not is_fixed(array)) for array in arrays]
        self.summed_bytes += sum(array.nbytes for array, summed in items if summed)
        if items:
            self._sums.append(memory_guard(items))

    def _function(self, parameters: str, result: str) -> Callable[..., Any]:
        text = (
            f"def made({parameters}):\n try:\n  if not ({' and '.join(self._conditions)}):\n"
            f"   return None\n except Exception:\n  return None\n return {result}"
        )
        exec(compile(text, "<guard>", "exec"), self._names)
        return self._names["made"]

    def _name(self, value: Any) -> str:
        name = f"c{len(self._names)}"
        self._names[name] = value
        return name

    def _is(self, text: str, value: Any) -> str:
        name = self._name(value)
        return f"({text} is {name} or same({text}, {name}))"

    def _length(self, text: str, length: Callable[[], int]) -> str:
        name = self._name(length())
        self._lengths.append((name, length))
        return f"len({text}) == {name}"

    def _of(self, record: Record) -> Iterator[str]:
        """Returns the conditions under which a record has not changed."""
        value, kind, parts = record.value, record.kind, record.parts
        name = self._name(value)
        if kind is snapshot.GLOBALS:
            variables = self._name(value.variables)
            for key, part in parts.items():
                if not isinstance(part, types.ModuleType) or not _is_library(part):
                    yield self._is(f"{variables}[{key!r}]", part)
            for key in sorted(value.names - parts.keys() - vars(builtins).keys()):
                yield f"{key!r} not in {variables}"
        elif kind is snapshot.CELL and parts:
            yield self._is(f"{name}.cell_contents", parts[""])
        elif kind is snapshot.FUNCTION:
            takes = value.__code__.co_argcount, value.__code__.co_kwonlyargcount
            counts = dict(zip(("__defaults__", "__kwdefaults__"), takes))
            held = [self._is(f"{name}.{k}", v) for k, v in parts.items() if counts.get(k, 1)]
            if record.parent is None or record.parent.kind is not snapshot.CLASS:
                held.append(self._length(f"{name}.__dict__", lambda: len(vars(value))))
            fixed = len(parts) == 3 and not (parts["__defaults__"] or parts["__kwdefaults__"])
            self._code += held if fixed else ()
            yield from () if fixed else held
        elif kind in (snapshot.MODULE, snapshot.CLASS):
            attributes = self._name(vars(value))
            yield self._length(attributes, lambda: len(vars(value)))
            for key, part in parts.items():
                yield self._is(
                    f"{name}.{key}" if key == "__bases__" else f"{attributes}[{key!r}]", part
                )
        elif kind is snapshot.OBJECT and _is_plain(value):
            yield self._is(f"type({name})", type(value))
            has_dict = has_attribute(value, "__dict__")
            if has_dict:
                yield self._length(f"d := {name}.__dict__", lambda: len(vars(value)))
            for key, part in parts.items():
                if key != "__class__":
                    place = f"d[{key!r}]" if has_dict and key in vars(value) else f"{name}.{key}"
                    yield self._is(place, part)
        elif type(value) in (dict, list, deque):
            items = [*(value.values() if type(value) is dict else value)]
            now, held = (f"{name}.values()" if type(value) is dict else name), self._name(items)
            order = f" and tuple({name}) == {self._name(tuple(value))}"
            yield f"len({name}) == {len(items)}{order if type(value) is dict else ''}"
            yield f"(all(map(is_, {now}, {held})) or all(map(same, {now}, {held})))"
        else:
            yield f"unchanged({self._name(record)})"


def _types(structure: Structure) -> Iterator[type]:
    if isinstance(structure, Node):
        yield structure.type
        for child in structure.children:
            yield from _types(child)


def _is_library(value: Any) -> bool:
    module = value.__name__ if isinstance(value, types.ModuleType) else None
    return is_installed(package_of(module or getattr(value, "__module__", "") or "builtins"))


def _is_plain(value: Any) -> bool:
    """True if an object's attributes are in its ``__dict__`` and in slots, all of which have
    values, and reading them runs no code of its class."""
    cls = type(value)
    plain = (object.__getattribute__, types.SimpleNamespace.__getattribute__)
    slots = [name for base in cls.__mro__ for name in slots_of(base)]
    return cls.__getattribute__ in plain and all(has_attribute(value, name) for name in slots)


def _unchanged(record: Record) -> bool:
    return next(record.changes(), None) is None
