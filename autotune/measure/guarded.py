"""| guard: no access | slack: canary | the buffer | canary to the next 64 | guard: no access |

The buffer ends as close to the upper guard as its alignment (or its offset in a page) allows. A
touch of a guard is a memory fault, which ends the process; a write into the canary bytes is
found afterwards. Larger buffers lie in huge pages, as large arrays of programs do: which small ones
share sets of the L2 is random, and changes times by up to 95 % (docs/measurements.md).
"""

from __future__ import annotations

import ctypes
import mmap
import signal
from typing import Any

import numpy as np
import numpy.typing as npt

from ...codegen.runtime.call_text import IN_PAGE, PAGED_BYTES

Array = npt.NDArray[Any]

_PAGE = mmap.PAGESIZE
_GUARD = 1 << 20
_CANARY = 0xFF
GARBAGE, OTHER_GARBAGE = 0x7B, (0xFB, 0)
"""The byte that outputs and workspace are filled with: 1e36 as a float32, no valid bool. The others
are less, for a minimum that is never begun."""

ENDING, BEGINNING, ALIGNED = range(3)
"""Positions of an operand: it ends at a guard, begins at one, or lies as in programs."""

FAULTS = (signal.SIGSEGV, signal.SIGBUS)
"""Signals that end a process whose code touches memory that is not mapped."""
FAULT = "it touched memory outside of its operands"

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *([ctypes.c_int] * 3), ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
_MAP_PRIVATE_ANONYMOUS = 0x22
_PROT_NONE, _PROT_READ_WRITE = 0, 3
_HUGE, _ADVISE_HUGE = 1 << 21, 14
_HUGE_FROM = 1 << 16
"""Bytes from which on a buffer is a notable share of an L2 (of 1-2 MiB)."""
_FAILED = ctypes.c_void_p(-1).value


class GuardedBuffer:
    """``size`` bytes at ``address``, aligned to ``alignment``. Raises MemoryError without memory.

    >>> buffer = GuardedBuffer(100, alignment=4)
    >>> buffer.bytes[:] = 1
    >>> buffer.intact()
    True
    >>> buffer.close()
    """

    def __init__(self, size: int, alignment: int = 64, place: int | None = None) -> None:
        """``place`` is the offset in a page at which it begins, instead of as late as possible."""
        self.size = size
        huge = size >= _HUGE_FROM
        room = _rounded(max(size, 1) + (place or 0), _PAGE)
        writable = _rounded(room, _HUGE) if huge else room
        self._total = writable + 2 * _GUARD + (_HUGE if huge else 0)
        base = _libc.mmap(None, self._total, _PROT_NONE, _MAP_PRIVATE_ANONYMOUS, -1, 0)
        if base is None or base == _FAILED:
            raise MemoryError(f"no {size} bytes for an operand")
        self._base = base
        inner = _rounded(base + _GUARD, _HUGE if huge else _PAGE)
        if _libc.mprotect(inner, writable, _PROT_READ_WRITE):
            self.close()
            raise MemoryError(f"no {size} bytes for an operand")
        if huge:
            _libc.madvise(inner, writable, _ADVISE_HUGE)
            _view(inner, writable)[::_HUGE] = 0  # map whole pages before the rest becomes a guard
            _libc.mprotect(inner + room, writable - room, _PROT_NONE)
        last = inner + room - size
        self.address = last // alignment * alignment
        if place is not None:
            self.address = last - (last - place) % _PAGE
        whole = _view(inner, room)
        start = self.address - inner
        self._before = whole[:start]
        self._after = whole[start + size :]
        self.mend()
        self.bytes = whole[start : start + size]
        self.guards = ((base, inner), (inner + room, base + self._total))

    def array(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Returns the buffer as an array."""
        return self.bytes.view(np.dtype(dtype)).reshape(shape)

    def fill(self, values: npt.NDArray[Any]) -> None:
        """Copies an array of the buffer's size into it, row-major."""
        self.bytes[:] = np.ascontiguousarray(values).reshape(-1).view(np.uint8)

    def fill_with_garbage(self, byte: int = GARBAGE) -> None:
        self.bytes[:] = byte

    def holds(self, values: npt.NDArray[Any]) -> bool:
        """True if its bytes are those of an array, row-major. Nothing is copied for it."""
        address = np.ascontiguousarray(values).ctypes.data
        return _libc.memcmp(self.address, address, self.size) == 0

    def intact(self) -> bool:
        """True if nobody wrote beside the buffer."""
        return bool((self._before == _CANARY).all() and (self._after == _CANARY).all())

    def mend(self) -> None:
        """Writes the canary bytes again."""
        self._before[:] = _CANARY
        self._after[:] = _CANARY

    def close(self) -> None:
        """Unmaps the memory; views of it must not be used any more."""
        if self._base is not None:
            _libc.munmap(self._base, self._total)
            self._base = None


def placed(size: int) -> GuardedBuffer:
    """Returns memory at the offset in its page at which programs have it."""
    return GuardedBuffer(size, place=IN_PAGE if size >= PAGED_BYTES else None)


class GuardedOperand:
    """A buffer of an operand in every position; some may be the same.

    Each is made when a candidate first has the operand there: most read packed weights instead.
    """

    def __init__(self, size: int, alignment: int = 0, values: Array | None = None) -> None:
        """``values`` are an input's. Without an ``alignment`` it ends where programs have it."""
        self._size, self._alignment = size, alignment
        self._values = self._shown = values
        self._buffers: dict[int, GuardedBuffer] = {}

    @property
    def values(self) -> Array:
        """The elements that the next checked calls read."""
        assert self._shown is not None
        return self._shown

    def at(self, position: int) -> GuardedBuffer:
        """Returns the buffer in a position."""
        if position not in self._buffers:
            buffer = self._made(position)
            if self._values is not None and buffer not in self._buffers.values():
                buffer.fill(self._values)
            self._buffers[position] = buffer
        return self._buffers[position]

    def _made(self, position: int) -> GuardedBuffer:
        size = self._size
        if position == ENDING:
            return GuardedBuffer(size, self._alignment) if self._alignment else placed(size)
        ending = self.at(ENDING)
        if position == BEGINNING:
            begins = ending.address == ending.guards[0][1]
            return ending if begins else GuardedBuffer(size, place=0)
        place = IN_PAGE if size >= PAGED_BYTES else ending.address
        apart = ending.address % 64 or (ending.address - place) % mmap.PAGESIZE
        return placed(size) if apart else ending

    def intact(self) -> bool:
        """True if nobody wrote beside the operand."""
        return all(buffer.intact() for buffer in self._buffers.values())

    def changed(self, position: int) -> bool:
        """True if somebody wrote into an input there, or into a packed one."""
        buffer = self._buffers.get(position)
        return buffer is not None and self._shown is not None and not buffer.holds(self._shown)

    def show(self, values: Array) -> None:
        """Lets the next calls that are checked read other values, where it ends at a guard."""
        self._shown = values
        if ENDING in self._buffers:
            self._buffers[ENDING].fill(values)

    def restore(self) -> None:
        self._shown = self._values
        for buffer in self._buffers.values():
            buffer.mend()
            if self._values is not None:
                buffer.fill(self._values)

    def close(self) -> None:
        for buffer in self._buffers.values():
            buffer.close()


def _rounded(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _view(address: int, size: int) -> npt.NDArray[np.uint8]:
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
