"""Guards of compiled code: what a function captures is what it was when the function was traced.

::

    Guard(function, request)   before the trace: a snapshot of all that the function can reach
      watch(arrays)            after it: other arrays that were captured; None: nothing can change
      before(direct)           ``direct``, which answers None once something has changed
      holds()                  the same question for the slower ways to the code

A native function compares the words of memory that hold captured variables, attributes and items,
and looks for writes to the memory of arrays (``memory_guard``). Words may change for other reasons,
so where it fails, the snapshot itself says whether anything has changed that the function reads.
The modules of libraries, the names of builtins, and the code of a function that captures nothing
count as fixed.
"""

from __future__ import annotations

import builtins
import types
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..codegen.runtime import object_words
from ..codegen.runtime.memory_guard import memory_guard
from ..extras import extra
from ..ir.dtype import Array
from ..tracer import Request, Traced
from ..tracer.core import object_kinds
from ..tracer.core.arguments import Static
from ..tracer.core.captured_values import is_fixed
from ..tracer.core.object_kinds import has_attribute
from ..tracer.core.pytree import Node, Structure, slots_of
from ..tracer.core.snapshot import Record, Snapshot, is_installed, package_of

_MOST_MOVES, _MOST_LOOKS = 3, 16
"""Changes of a record's words that mean nothing, after which it is asked in each call, and looks at
all words, after which arrays are summed: a write of the numbers that they held has cost more."""


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
        self._records = [
            r for r in records if r.kind not in (object_kinds.ARRAY, object_kinds.RANDOM)
        ]
        self._random = [r for r in records if r.kind is object_kinds.RANDOM]
        self._arrays = {id(r.value): r.value for r in records if r.kind is object_kinds.ARRAY}
        self._items: list[tuple[Array, bool]] = []
        self._sums: list[Callable[[], bool]] = []
        self._sum([*self._arrays.values()])
        self._quick: Callable[[], bool] = bool
        self._looks = 0
        self._seen: dict[Record, object_words.Regions] = {}
        self._moves = Counter[Record]()

    def watch(self, arrays: Sequence[Array]) -> Guard | None:
        """Watches more ``arrays``, as they are now. Returns None if there is nothing to watch."""
        self._sum([a for a in arrays if id(a) not in self._arrays and not is_fixed(a)])
        # Random numbers that were drawn: the next call draws others.
        self._records += [r for r in self._random if not _unchanged(r)]
        return self if self._sums or not all(map(_is_constant, self._records)) else None

    def before(self, direct: Callable[..., Any], has_keywords: bool) -> Callable[..., Any]:
        """Returns ``direct``, which answers None once something has changed."""
        if has_keywords:
            return lambda *args, **kwargs: direct(*args, **kwargs) if self._quick() else None
        return lambda *args: direct(*args) if self._quick() else None

    def holds(self) -> bool:
        """True if nothing has changed that the function reads."""
        return self._quick() or self._look()

    def _is_as_traced(self) -> bool:
        change = next((c for record in self._records for c in record.changes()), None)
        self.changed = "an array that it captures" if change is None else change.path
        return change is None and all(f() for f in self._sums)

    def _look(self) -> bool:
        """Looks where the words lie by now. Returns whether all is as it was traced, which is asked
        last, so that what the words hold is what was asked."""
        self._looks += 1
        asked: list[Record] = []
        words: object_words.Regions = []
        for record in self._records:
            regions = _words(record) if self._moves[record] < _MOST_MOVES else None
            if regions is None:
                asked.append(record)
                continue
            words += regions
            self._moves[record] += self._seen.get(record, regions) != regions
            self._seen[record] = regions
        watch = extra("watch") if self._looks < _MOST_LOOKS else None
        unchanged = memory_guard(self._items, words, watch)
        quick = (lambda: unchanged() and all(map(_unchanged, asked))) if asked else unchanged
        as_traced = self._is_as_traced()
        self._quick = quick if as_traced else bool
        return as_traced

    def _sum(self, arrays: Sequence[Array]) -> None:
        items = [(array, not is_fixed(array)) for array in arrays]
        self.summed_bytes += sum(
            a.nbytes for a, summed in items if summed and not extra("watched")(a)
        )
        self._items += items
        if items:
            self._sums.append(memory_guard(items))


def _is_constant(record: Record) -> bool:
    """True for a function's code, and for names of libraries alone."""
    if record.kind is object_kinds.FUNCTION:
        return not any([*record.parts.values()][1:])
    return record.kind is object_kinds.GLOBALS and not any(_variables(record))


def _variables(record: Record) -> tuple[list[str], set[str]]:
    """Returns the global variables that code names, without libraries, and names that have no
    value."""
    names = [name for name, value in record.parts.items() if not _is_library_module(value)]
    return names, record.value.names - record.parts.keys() - vars(builtins).keys()


def _words(record: Record) -> object_words.Regions | None:
    """Returns where the memory lies that says a record has not changed, if it can be read."""
    value, kind, parts = record.value, record.kind, record.parts
    if not object_words.readable():
        return None
    if kind is object_kinds.GLOBALS:
        names, missing = _variables(record)
        some = names or missing
        return object_words.of_dict(value.variables, names, bool(missing)) if some else []
    if kind is object_kinds.CELL and parts:
        return object_words.of_cell(value)
    if kind is object_kinds.FUNCTION:
        code = [parts[k] for k in ("__code__", "__defaults__", "__kwdefaults__")]
        return _all(
            object_words.of_pointers(value, *code),
            object_words.of_pointers(value, vars(value)),
            object_words.of_dict(vars(value), [*parts][3:]),
        )
    if kind in (object_kinds.MODULE, object_kinds.CLASS):
        regions = object_words.of_dict(vars(value), parts.keys() - {"__bases__"})
        if kind is object_kinds.MODULE:
            return regions
        return _all(object_words.of_pointers(value, value.__bases__), regions)
    if kind is object_kinds.OBJECT and _is_plain(value):
        held = vars(value) if has_attribute(value, "__dict__") else None
        regions = object_words.of_fields(value, held)
        if held is None:
            return regions
        return _all(regions, object_words.of_dict(held, [k for k in parts if k in held]))
    if type(value) is list:
        return object_words.of_list(value)
    return object_words.of_dict(value, [*value]) if type(value) is dict else None


def _all(*regions: object_words.Regions | None) -> object_words.Regions | None:
    return None if None in regions else [r for some in regions for r in some or ()]


def _types(structure: Structure) -> Iterator[type]:
    if isinstance(structure, Node):
        yield structure.type
        for child in structure.children:
            yield from _types(child)


def _is_library(value: Any) -> bool:
    module = value.__name__ if isinstance(value, types.ModuleType) else None
    return is_installed(package_of(module or getattr(value, "__module__", "") or "builtins"))


def _is_library_module(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and _is_library(value)


def _is_plain(value: Any) -> bool:
    """True if an object's attributes are in its ``__dict__`` and in slots, all of which have
    values, and reading them runs no code of its class."""
    cls = type(value)
    plain = (object.__getattribute__, types.SimpleNamespace.__getattribute__)
    slots = [name for base in cls.__mro__ for name in slots_of(base)]
    return cls.__getattribute__ in plain and all(has_attribute(value, name) for name in slots)


def _unchanged(record: Record) -> bool:
    return next(record.changes(), None) is None
