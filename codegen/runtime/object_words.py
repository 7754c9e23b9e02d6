"""Words in the memory of Python's objects: while they are what they were, so is the object.

Regions are ``(address, bytes)``, for ``memory_guard``, a pointer before the memory it points to.
The layouts are those of CPython 3.11 to 3.14, and ``readable`` tries them. What is read is compared
with what Python says of the object, and where the two differ the answer is None: the object has to
be asked in Python.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import operator
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from .native_call import available

Regions: TypeAlias = list[tuple[int, int]]

_LAST_KNOWN = (3, 14)
_WORD = 8
_HEAD = 16  # the count of references, and the type
_DICT_USED, _DICT_KEYS, _DICT_VALUES = 16, 32, 40
_VALUES_HEAD = 8 if sys.version_info >= (3, 13) else 0  # of the values beside a shared table
_KEYS_HEAD = 32  # of a table of keys: its own count, its sizes, how many entries it has
_UNICODE_KEYS = 1  # entries of a table whose keys are strings begin with the key, not its hash
_MANAGED_DICT = 1 << 4  # a flag of types: the pointer to an object's attributes stands before it
_BEFORE = -24


class _Sample:
    def __init__(self) -> None:
        self.first = self.second = None


class _Other(_Sample):
    pass


@functools.cache
def readable() -> bool:
    """True if objects lie in memory as described here, and changes show."""
    if not available() or sys.version_info[:2] > _LAST_KNOWN:
        return False
    sample, items = _Sample(), [1, None]
    names, numbers, nothing = {"a": 0, "b": 0}, {1: 0, 2: 0}, dict[str, int]()
    probe, other = (lambda: sample), (lambda: names)
    held, (cell, *_) = vars(sample), probe.__closure__ or [types.CellType(None)]
    changes: list[tuple[Regions | None, Callable[[], Any]]] = [
        (of_list(items), lambda: operator.setitem(items, 1, 2)),
        (of_dict(names, ["b"], False), lambda: names.update(b=1)),
        (of_dict(names, []), lambda: names.update(c=1)),
        (of_dict(numbers, [2], False), lambda: numbers.update({2: 1})),
        (of_dict(held, ["second"], False), lambda: setattr(sample, "second", 1)),
        (of_fields(sample, held), lambda: setattr(sample, "__dict__", {})),
        (of_fields(sample, None), lambda: setattr(sample, "__class__", _Other)),
        (of_dict(nothing, []), lambda: nothing.update(c=1)),
        (of_pointers(probe, probe.__code__), lambda: setattr(probe, "__code__", other.__code__)),
        (of_cell(cell), lambda: setattr(cell, "cell_contents", None)),
    ]
    return all(regions is not None and _shows(regions, change) for regions, change in changes)


def _shows(regions: Regions, change: Callable[[], Any]) -> bool:
    before = [_words(at, size // _WORD) for at, size in regions]
    change()
    return before != [_words(at, size // _WORD) for at, size in regions]


def of_list(items: list[Any]) -> Regions:
    """The items of a list."""
    return [(id(items) + _HEAD, 2 * _WORD), (_word(id(items) + _HEAD + _WORD), _WORD * len(items))]


def of_cell(cell: types.CellType) -> Regions | None:
    """The variable in a cell, which has a value."""
    place = id(cell) + _HEAD
    return [(place, _WORD)] if _word(place) == id(cell.cell_contents) else None


def of_dict(held: Mapping[Any, Any], keys: Iterable[Any], whole: bool = True) -> Regions | None:
    """The values of ``keys``, and, if ``whole``, which keys there are."""
    if isinstance(held, types.MappingProxyType):
        held = gc.get_referents(held)[0]
    if type(held) is not dict:
        return None
    if not held:
        return [(id(held) + _DICT_USED, _WORD)]
    table, values = _word(id(held) + _DICT_KEYS), _word(id(held) + _DICT_VALUES)
    _, sizes, _, count = _words(table, _KEYS_HEAD // _WORD)
    step = 2 + ((sizes >> 16) & 0xFF < _UNICODE_KEYS)
    entries = table + _KEYS_HEAD + (1 << ((sizes >> 8) & 0xFF))
    numbers = {key: n for n, key in enumerate(_words(entries, step * count)[step - 2 :: step])}
    regions = [(id(held) + _DICT_KEYS, 2 * _WORD)]
    if whole:
        regions += [(id(held) + _DICT_USED, _WORD), (table + _WORD, _KEYS_HEAD - _WORD)]
    stored = {key: key for key in held}
    for key in keys:
        n = numbers.get(id(stored.get(key)))
        if n is None:
            return None
        if values:
            regions.append((values + _VALUES_HEAD + _WORD * n, _WORD))
        else:
            regions.append((entries + _WORD * (step * (n + 1) - 2), 2 * _WORD))
        address, size = regions[-1]
        if _word(address + size - _WORD) != id(held[key]):
            return None
    return regions


def of_fields(value: Any, held: Mapping[str, Any] | None) -> Regions | None:
    """The fields of an object itself, such as slots; ``held`` is the dict of its attributes."""
    cls = type(value)
    regions = [(id(value) + _WORD, cls.__basicsize__ - _WORD)]
    if held is None or not cls.__flags__ & _MANAGED_DICT:
        return regions
    place = id(value) + _BEFORE
    return [*regions, (place, _WORD)] if _word(place) & ~1 == id(held) else None


def of_pointers(value: Any, *parts: Any) -> Regions | None:
    """The fields of an object that point to ``parts``, which stand in this order in its memory;
    None is a null pointer or points to None."""
    fields = _words(id(value), type(value).__basicsize__ // _WORD)
    wanted = [(id(part), *([0] if part is None else [])) for part in parts]
    for n in range(2, len(fields) - len(wanted) + 1):
        if all(field in ids for field, ids in zip(fields[n:], wanted)):
            return [(id(value) + _WORD * n, _WORD * len(wanted))]
    return None


def _word(address: int) -> int:
    return ctypes.c_size_t.from_address(address).value


def _words(address: int, count: int) -> list[int]:
    return [*(ctypes.c_size_t * count).from_address(address)]
