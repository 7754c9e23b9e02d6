"""Arrays computed from constants: computed once, and shared as long as they are referenced.

Tuning builds a program many times. Each build folds the same constants and packs most of them in
the same layouts; without sharing, every build would hold a copy of all weights.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Sequence

import numpy as np

from .dtype import Array

SHARED_BYTES = 1 << 14
"""Smaller arrays are computed again: looking them up would take as long."""

_Entry = tuple[tuple["weakref.ref[Array]", ...], "weakref.ref[Array]"]
_entries: dict[Hashable, _Entry] = {}
_contents: dict[Hashable, list[weakref.ref[Array]]] = {}
_lock = threading.Lock()


def derived(sources: Sequence[Array], how: Hashable, make: Callable[[], Array]) -> Array:
    """Returns ``make()``, or its last result for the same ``sources`` (by identity) and ``how``.

    ``how`` says what is computed: equal values must mean equal results. The sources must not
    change while the result is in use. Neither they nor the result are kept alive from here.

    >>> w = np.ones((128, 128))
    >>> first = derived([w], "negated", lambda: -w)
    >>> derived([w], "negated", lambda: -w) is first
    True
    """
    if sum(a.nbytes for a in sources) < SHARED_BYTES:
        return make()
    key = (how, *map(id, sources))
    with _lock:
        entry = _entries.get(key)
    if entry is not None:
        # An identity may have been reused by another array since the entry was made.
        same = all(ref() is a for ref, a in zip(entry[0], sources))
        result = entry[1]()
        if same and result is not None:
            return result
    result = make()
    forget = _Forget(key)
    with _lock:
        _entries[key] = tuple(weakref.ref(a) for a in sources), weakref.ref(result, forget)
    return result


class _Forget:
    """Removes an entry when its result dies, unless a newer result has taken the place."""

    __slots__ = ("key",)

    def __init__(self, key: Hashable) -> None:
        self.key = key

    def __call__(self, dead: weakref.ref[Array]) -> None:
        # No lock: this may run inside of garbage collection while this thread holds it.
        entry = _entries.get(self.key)
        if entry is not None and entry[1] is dead:
            _entries.pop(self.key, None)


def interned(array: Array) -> Array:
    """Returns a live array of the same shape, dtype and bytes, or ``array``.

    Nobody writes to ``array`` any more. A function that is traced again gets the constants of its
    first build so, whatever the arrays are that it reads. An array that is not dense is itself.

    >>> w = interned(np.ones((128, 128)))
    >>> interned(np.ones((128, 128))) is w
    True
    """
    if array.nbytes < SHARED_BYTES or not array.flags.c_contiguous:
        return array
    flat = array.reshape(-1).view(np.uint8)
    sample = flat[:: max(1, flat.size // 4096)].tobytes()
    key = (array.shape, array.dtype.str, sample)
    with _lock:
        like = [ref for ref in _contents.get(key, []) if ref() is not None]
    for ref in like:
        shared = ref()
        if shared is not None and np.array_equal(shared.reshape(-1).view(np.uint8), flat):
            return shared
    with _lock:
        _contents[key] = [*like, weakref.ref(array, _Emptied(key))]
    return array


class _Emptied:
    """Removes the arrays of one key that are dead, and the key with the last one."""

    __slots__ = ("key",)

    def __init__(self, key: Hashable) -> None:
        self.key = key

    def __call__(self, dead: weakref.ref[Array]) -> None:
        left = [ref for ref in _contents.get(self.key, []) if ref is not dead]
        if left:
            _contents[self.key] = left
        else:
            _contents.pop(self.key, None)
