"""Memory for arrays that native code writes: recycled results, and arenas.

Fresh memory costs a page fault for every 4 KiB that is written, which is more time than many
kernels take (docs/measurements.md). So the memory of a result returns to a bin of its size when the
last array that refers to it is gone (a capsule is the array's base object), and the next result of
that size reuses it. Arenas come from bins, too, and return after each call. Bins unused for a while
are emptied when new memory is requested, and results return to the system where too much is idle.
"""

from __future__ import annotations

import ctypes
import functools
import math
import mmap
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...ir.dataclass import dataclass
from ...ir.dims import IntExpr, evaluate
from .call_text import IN_PAGE, PAGED_BYTES, bin_sizes
from .native_call import native_code

ALIGNMENT = 64
"""Bytes: one cache line, and the widest vector."""

PAGE = 4096

HUGE = 2 << 20
"""Bytes of a huge page of x86-64, and of AArch64 with pages of 4 KiB."""

IDLE_LIMIT = 1 << 30
"""Most bytes that idle results may hold; a sixteenth of the machine's memory if that is less."""

BIN_IDLE_SECONDS = 10.0
"""A bin unused for this long is emptied when memory is requested."""


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Shape and dtype of a contiguous row-major array."""

    shape: tuple[IntExpr, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> IntExpr:
        return math.prod(self.shape) * self.dtype.itemsize

    def fresh(self, values: Mapping[str, int] | None = None) -> np.ndarray[Any, Any]:
        """A fresh array with values of the sizes in its shape."""
        return aligned_array(tuple(evaluate(size, values or {}) for size in self.shape), self.dtype)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def aligned_bytes(nbytes: int) -> np.ndarray[Any, Any]:
    """Returns ``nbytes`` fresh bytes (uint8), aligned to ``ALIGNMENT``.

    Larger memory starts in the middle of a page, for the reason given at ``IN_PAGE``.
    """
    large = nbytes >= PAGED_BYTES
    unit, place = (PAGE, IN_PAGE) if large else (ALIGNMENT, 0)
    raw = np.empty(nbytes + unit, np.uint8)
    start = (place - raw.ctypes.data) % unit
    return raw[start : start + nbytes]


def aligned_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Returns a fresh contiguous array in ``aligned_bytes``."""
    return aligned_bytes(math.prod(shape) * dtype.itemsize).view(dtype).reshape(shape)


class HugePages:
    """Memory for arrays of about ``nbytes`` together, in huge pages where the system has such:
    code that reads 100 MB of weights meets 50 pages, and not 25,000 (docs/measurements.md).

    Arrays follow each other, so that short ones share a page; all of it goes when the last one
    does. What does not fit has memory of its own.
    """

    def __init__(self, nbytes: int) -> None:
        self._lock = threading.Lock()
        self._rest = np.empty(0, np.uint8)
        if nbytes >= 2 * HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
            # Panels and starts of pages take more than the arrays; what is not written takes none.
            room = nbytes + nbytes // 8 + HUGE
            memory = mmap.mmap(-1, room, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            memory.madvise(mmap.MADV_HUGEPAGE)
            whole = np.frombuffer(memory, np.uint8)
            self._rest = whole[-whole.ctypes.data % HUGE :]

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Returns a contiguous array of zeros, placed in its page as ``aligned_bytes`` says."""
        nbytes = math.prod(shape) * dtype.itemsize
        with self._lock:
            start = (IN_PAGE - self._rest.ctypes.data) % PAGE
            if nbytes < PAGED_BYTES or start + nbytes > len(self._rest):
                alone = aligned_array(shape, dtype)
                alone.fill(0)
                return alone
            data, self._rest = self._rest[start : start + nbytes], self._rest[start + nbytes :]
        return data.view(dtype).reshape(shape)


class _Bin(ctypes.Structure):
    """Idle blocks of one size. Native code changes it while it holds the GIL."""

    _fields_ = (
        ("first", ctypes.c_void_p),
        ("nbytes", ctypes.c_size_t),
        ("uses", ctypes.c_size_t),
    )


class _Bins:
    def __init__(self) -> None:
        code = native_code()
        sizes = bin_sizes()
        self.classes = (_Bin * len(sizes))(*((None, size, 0) for size in sizes))
        self.seen: dict[int, tuple[int, float]] = {}
        self.requests = 0
        self.empty = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(code.address("lw_empty_bin"))
        self.idle = ctypes.PYFUNCTYPE(ctypes.c_size_t)(code.address("lw_idle_bytes"))
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        listener: Callable[[], None] = self.drop_unused
        set_limit = ctypes.PYFUNCTYPE(None, ctypes.c_size_t, ctypes.py_object)
        set_limit(code.address("lw_set_limit"))(min(IDLE_LIMIT, machine // 16), listener)
        # Never freed, since results may be released while the interpreter shuts down. The listener
        # keeps the bins alive.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(listener))

    def drop_unused(self) -> None:
        """Empties bins unused for a while. Native code calls it before it requests fresh memory."""
        self.requests += 1
        now = time.monotonic()
        for held in self.all():
            key = ctypes.addressof(held)
            uses, since = self.seen.get(key, (-1, now))
            if held.uses != uses:
                self.seen[key] = (held.uses, now)
            elif now - since > BIN_IDLE_SECONDS:
                self.empty(ctypes.addressof(held))

    def drop_all(self) -> None:
        for held in self.all():
            self.empty(ctypes.addressof(held))

    def all(self) -> list[_Bin]:
        """The bins that have been used."""
        return [b for b in self.classes if b.uses]


@functools.cache
def _bins() -> _Bins:
    return _Bins()


def bins_address() -> int:
    """Returns the address of the native bins of ``bin_sizes``."""
    return ctypes.addressof(_bins().classes)


def idle_bytes() -> int:
    """Returns the bytes held by bins for later results."""
    return int(_bins().idle())


def fresh_requests() -> int:
    """Returns how often results have asked for fresh memory so far: no bin had any."""
    return _bins().requests


def trim() -> None:
    """Gives all idle memory of results back to the system."""
    _bins().drop_all()
