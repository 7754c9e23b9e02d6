"""Memory for arrays that native code writes: results that are recycled, and arenas.

Fresh memory costs a page fault for every 4 KiB that is written first, which is more than many a
kernel takes (filling 64 MiB: 10.2 ms fresh, 2.5 ms recycled). So the memory of a result returns to
a bin of its size when the last array that looks at it is gone (a capsule is the array's base
object), and the next result of that size gets it again. Bins that were not used for a while are
emptied when new memory is asked for, and idle memory never exceeds a limit.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .call_text import IN_PAGE, PAGED_BYTES
from .native_call import native_code

__all__ = [
    "ALIGNMENT",
    "ArraySpec",
    "aligned_array",
    "aligned_bytes",
    "bin_address",
    "idle_bytes",
    "trim",
]

ALIGNMENT = 64
"""Bytes: one cache line, and the widest vector."""

PAGE = 4096

IDLE_LIMIT = 1 << 30
"""Bytes that idle results may hold at most; a sixteenth of the machine's memory if that is less."""

IDLE_SECONDS = 10.0
"""A bin unused for this long is emptied when memory is asked for."""


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """The shape and dtype of a dense row-major array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def aligned_bytes(nbytes: int) -> np.ndarray[Any, Any]:
    """``nbytes`` fresh bytes (uint8) that start on a multiple of ``ALIGNMENT``.

    Many bytes start in the middle of a page, for the reason given at ``IN_PAGE``.
    """
    large = nbytes >= PAGED_BYTES
    unit, place = (PAGE, IN_PAGE) if large else (ALIGNMENT, 0)
    raw = np.empty(nbytes + unit, np.uint8)
    start = (place - raw.ctypes.data) % unit
    return raw[start : start + nbytes]


def aligned_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A fresh dense array in ``aligned_bytes``."""
    return aligned_bytes(ArraySpec(shape, dtype).nbytes).view(dtype).reshape(shape)


class _Bin(ctypes.Structure):
    """Idle blocks of one size; the native code changes it while it holds the GIL."""

    _fields_ = (
        ("first", ctypes.c_void_p),
        ("nbytes", ctypes.c_size_t),
        ("taken", ctypes.c_size_t),
    )


class _Bins:
    def __init__(self) -> None:
        code = native_code()
        self.bins: dict[int, _Bin] = {}
        self.seen: dict[int, tuple[int, float]] = {}
        self.empty = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(code.address("lw_empty_bin"))
        self.idle = ctypes.PYFUNCTYPE(ctypes.c_size_t)(code.address("lw_idle_bytes"))
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        listener: Callable[[], None] = self.drop_unused
        set_limit = ctypes.PYFUNCTYPE(None, ctypes.c_size_t, ctypes.py_object)
        set_limit(code.address("lw_set_limit"))(min(IDLE_LIMIT, machine // 16), listener)
        # Kept for ever, since results may die after the interpreter has begun to end. The listener
        # keeps the bins.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(listener))

    def address(self, nbytes: int) -> int:
        unit = ALIGNMENT if nbytes < PAGE else PAGE
        size = -(-nbytes // unit) * unit
        found = self.bins.get(size)
        if found is None:
            found = self.bins.setdefault(size, _Bin(None, size, 0))
        return ctypes.addressof(found)

    def drop_unused(self) -> None:
        """Called by the native code before it asks for fresh memory."""
        now = time.monotonic()
        for size, one in list(self.bins.items()):
            taken, since = self.seen.get(size, (-1, now))
            if one.taken != taken:
                self.seen[size] = (one.taken, now)
            elif now - since > IDLE_SECONDS:
                self.empty(ctypes.addressof(one))

    def drop_all(self) -> None:
        for one in list(self.bins.values()):
            self.empty(ctypes.addressof(one))


@functools.cache
def _bins() -> _Bins:
    return _Bins()


def bin_address(nbytes: int) -> int:
    """The native bin for memory of ``nbytes``; it lives as long as the process."""
    return _bins().address(nbytes)


def idle_bytes() -> int:
    """Bytes that results have left behind and that wait for the next ones."""
    return int(_bins().idle())


def trim() -> None:
    """Give all idle memory of results back to the system."""
    _bins().drop_all()
