"""Pages of memory that were written to, as Linux (since 6.7) tells, so that nobody sums them.

Pages are marked once, with ``PAGEMAP_SCAN``; the next write to a page takes its mark away, within
the kernel, whoever writes (``UFFD_FEATURE_WP_ASYNC``). A scan of a range says whether all marks are
there, in a tenth of the time in which one sums its bytes. Source: Linux,
Documentation/admin-guide/mm/pagemap.rst and userfaultfd.rst.

Only memory that NumPy itself took for an array is watched: no other process shares it. Where the
kernel is older, or does not let the process, nothing is watched.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import platform
import struct
import sys
import weakref
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np

from .memory_guard import PAGEMAP_SCAN

Array = np.ndarray[Any, Any]
Watch: TypeAlias = tuple[list[tuple[int, int]], object]

LEAST_BYTES = 1 << 17
"""Fewer are summed in the time of a scan."""

_SYSCALL = {"x86_64": 323, "aarch64": 282}
_CLOEXEC, _USER_MODE_ONLY = 0o2000000, 1
_API, _REGISTER, _UNREGISTER = 0xC018AA3F, 0xC020AA00, 0x8010AA01
_FEATURES = 1 << 13 | 1 << 15  # marks where there is no page yet; marks that the kernel takes away
_MARK, _CHECK = 1, 2  # flags of a scan: mark what is written; fail where marks do not count
_WRITTEN = 1 << 1  # the category of pages
_ROOM, _SOME_RANGES = 12, 16  # words of an argument, and ranges that a scan finds at once


class Pages:
    """The marks of one process. ``alive`` is a word that is 1 here and 0 in a child of it."""

    def __init__(self) -> None:
        from fcntl import ioctl

        self._ioctl, self._process = ioctl, os.getpid()
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.syscall(_SYSCALL[platform.machine()], _CLOEXEC | _USER_MODE_ONLY)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "userfaultfd")
        ioctl(self._fd, _API, struct.pack("QQQ", 0xAA, _FEATURES, 0))
        self.map = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        self._alive = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._alive.madvise(18)  # MADV_WIPEONFORK
        self._alive[0] = 1
        self.alive = ctypes.addressof(ctypes.c_char.from_buffer(self._alive))
        self._owners: dict[int, tuple[weakref.ref[Array], Array]] = {}

    def watch(self, array: Array) -> Watch | None:
        """Marks the pages of an array."""
        owner = _owner(array)
        if owner is None:
            return None
        begin, end = _whole_pages(array)
        entry = self._owners.get(id(owner))
        if entry is None or entry[0]() is not owner:
            first, last = _whole_pages(owner)
            try:
                self._ioctl(self._fd, _REGISTER, struct.pack("QQQQ", first, last - first, 2, 0))
            except OSError:
                return None
            entry = weakref.ref(owner), np.zeros(1, np.int64)
            self._owners[id(owner)] = entry
            weakref.finalize(owner, self._forget, id(owner), first, last).atexit = False
        written = entry[1]
        at = begin
        while at < end:
            words = scan(at, end, _MARK | _CHECK)
            try:
                written[0] += self._ioctl(self.map, PAGEMAP_SCAN, words.data) > 0
            except OSError:  # its memory has moved
                return None
            at = int(words[4])
        words, low = scan(begin, end), array.ctypes.data
        regions = [(self.alive, 8), (written.ctypes.data, 8), (low, begin - low)]
        regions += [(end, low + array.nbytes - end), (words.ctypes.data, -self.map)]
        return regions, (self, words)

    def _forget(self, owner: int, first: int, last: int) -> None:
        del self._owners[owner]
        if os.getpid() != self._process:  # the marks are those of the parent
            return
        with suppress(OSError):
            self._ioctl(self._fd, _UNREGISTER, struct.pack("QQ", first, last - first))


def scan(begin: int, end: int, flags: int = 0) -> Array:
    """Returns the argument of a scan for pages that were written to, and room for its answer: the
    first range of them, or several if it has ``flags``."""
    words = np.zeros(_ROOM + 3 * _SOME_RANGES, np.int64)
    answer = words[_ROOM:].ctypes.data, _SOME_RANGES, 0 if flags else 1
    words[:_ROOM] = 8 * _ROOM, flags, begin, end, 0, *answer, 0, _WRITTEN, 0, _WRITTEN
    return words


def _owner(array: Array) -> Array | None:
    """The array whose memory NumPy allocated, of which this one is a dense and large part."""
    begin, end = _whole_pages(array)
    if not (array.flags.c_contiguous or array.flags.f_contiguous) or end - begin < LEAST_BYTES:
        return None
    owner: Any = array
    while type(owner) is np.ndarray and owner.base is not None:
        owner = owner.base
    return owner if type(owner) is np.ndarray and owner.flags.owndata else None


def _whole_pages(array: Array) -> tuple[int, int]:
    page, begin = mmap.PAGESIZE, array.ctypes.data
    return -(-begin // page) * page, (begin + array.nbytes) // page * page


def watch(array: Array) -> Watch | None:
    """Returns what ``memory_guard`` looks at to see a write to an array without a look at its
    bytes, and what has to be kept for it; None if the array cannot be watched."""
    marks = pages()
    return None if marks is None else marks.watch(array)


def watched(array: Array) -> bool:
    """True if an array can be watched."""
    return pages() is not None and _owner(array) is not None


def pages() -> Pages | None:
    """Returns the marks of this process, or None if it has none."""
    return _pages_of(os.getpid()) if sys.platform == "linux" else None


@functools.lru_cache(1)
def _pages_of(_process: int) -> Pages | None:
    try:
        with open("/proc/self/status") as status:
            if "Seccomp:\t0\n" not in status.read():
                return None  # a filter may end a process that asks for what it forbids
        return Pages()
    except (OSError, KeyError, ValueError, ImportError):
        return None
