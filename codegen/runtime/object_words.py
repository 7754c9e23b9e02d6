"""Words in the memory of Python's objects: while they are what they were, so is the object.

Regions are ``(address, bytes, value)``, for ``memory_guard``, a pointer before the memory it points
to, and the values are what Python says of the object. As other threads may change it meanwhile,
only memory of the object itself is read here, and the table of a dict in one native call. The
layouts are those of CPython 3.11 to 3.14, and ``readable`` tries them. Where something else is
found, the answer is None: the object has to be asked in Python.
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

from .memory_guard import DICT_KEYS, sum_of_words, table_of
from .native_call import available

Regions: TypeAlias = list[tuple[int, int, int]]

_LAST_KNOWN = (3, 14)
_WORD = 8
_HEAD = 16  # the count of references, and the type
_DICT_USED = 16
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
    names, numbers = {"a": 0, "b": 0}, {1: 0, 2: 0}
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
        (of_pointers(probe, probe.__code__), lambda: setattr(probe, "__code__", other.__code__)),
        (of_cell(cell), lambda: setattr(cell, "cell_contents", None)),
    ]
    return all(regions is not None and _shows(regions, change) for regions, change in changes)


def _shows(regions: Regions, change: Callable[[], Any]) -> bool:
    words = [_words(at, size // _WORD) for at, size, _ in regions]
    said = all(value == sum_of_words(w) for w, (*_, value) in zip(words, regions))
    change()
    return said and words != [_words(at, size // _WORD) for at, size, _ in regions]


def of_list(items: list[Any]) -> Regions:
    """The items of a list."""
    words = [*map(id, items)]
    begin = _words(id(items) + _HEAD + _WORD, 1)[0]
    regions: Regions = [(id(items) + _HEAD, _WORD, len(words))]
    regions.append((id(items) + _HEAD + _WORD, _WORD, begin))
    return [*regions, (begin, _WORD * len(words), sum_of_words(words))]


def of_cell(cell: types.CellType) -> Regions:
    """The variable in a cell."""
    return [(id(cell) + _HEAD, _WORD, _words(id(cell) + _HEAD, 1)[0])]


def of_dict(held: Mapping[Any, Any], keys: Iterable[Any], whole: bool = True) -> Regions | None:
    """The values of ``keys``, and, if ``whole``, which keys there are."""
    if isinstance(held, types.MappingProxyType):
        held = gc.get_referents(held)[0]
    if type(held) is not dict:
        return None
    if not held:
        return [(id(held) + _DICT_USED, _WORD, 0)]
    table, values, _, sizes, usable, count, *words = table_of(held)
    step = 2 + ((sizes >> 16) & 0xFF < _UNICODE_KEYS)
    index_bytes = 1 << ((sizes >> 8) & 0xFF)
    entries = table + _KEYS_HEAD + index_bytes
    numbers = {key: n for n, key in enumerate(words[index_bytes // _WORD :][step - 2 :: step])}
    regions: Regions = [(id(held) + DICT_KEYS, _WORD, table)]
    regions.append((id(held) + DICT_KEYS + _WORD, _WORD, values))
    if whole:
        regions.append((id(held) + _DICT_USED, _WORD, len(held)))
        head = enumerate((sizes, usable, count), 1)
        regions += [(table + _WORD * n, _WORD, word) for n, word in head]
    stored = {key: key for key in [*held]}
    for key in keys:
        n, value = numbers.get(id(stored.get(key)), count), held.get(key, numbers)
        if n >= count or value is numbers:
            return None
        if values:
            regions.append((values + _VALUES_HEAD + _WORD * n, _WORD, id(value)))
        else:
            entry = entries + _WORD * (step * (n + 1) - 2)
            regions += [(entry, _WORD, id(stored[key])), (entry + _WORD, _WORD, id(value))]
    return regions


def of_fields(value: Any, held: Mapping[str, Any] | None) -> Regions | None:
    """The fields of an object itself, such as slots; ``held`` is the dict of its attributes."""
    cls = type(value)
    regions: Regions = []
    if held is not None:
        place = _BEFORE if cls.__flags__ & _MANAGED_DICT else cls.__dictoffset__
        if place == 0 or (place < 0 and place != _BEFORE):
            return None
        regions = [(id(value) + place, _WORD, id(held))]
    fields = enumerate(_words(id(value), cls.__basicsize__ // _WORD))
    return regions + [(id(value) + _WORD * n, _WORD, word) for n, word in fields if n]


def of_pointers(value: Any, *parts: Any) -> Regions | None:
    """The fields of an object that point to ``parts``, which stand in this order in its memory;
    None is a null pointer or points to None."""
    fields = _words(id(value), type(value).__basicsize__ // _WORD)
    wanted = [(id(part), *([0] if part is None else [])) for part in parts]
    for n in range(2, len(fields) - len(wanted) + 1):
        if all(field in ids for field, ids in zip(fields[n:], wanted)):
            return [(id(value) + _WORD * (n + k), _WORD, fields[n + k]) for k in range(len(parts))]
    return None


def _words(address: int, count: int) -> list[int]:
    return [*(ctypes.c_size_t * count).from_address(address)]
