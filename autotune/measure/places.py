"""Where in memory the entrants of a race stand: all in the same places, and in many of them.

Which sets of the second-level cache an operand shares with others depends on where its pages lie,
also in huge pages when the machine is a virtual one whose memory is not. One kernel over 1.6 MB
took 15.4 to 22.0 us in twelve places of one process, the same in each again and again; another
process has other places, and another schedule that stands best in them. So all entrants of a race
run in the same memory - what belongs to one of them alone, such as an operand packed for it, is
copied in before its turn - and every round is run in another place.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...codegen.runtime.call_text import IN_PAGE, PAGED_BYTES
from .guarded import GuardedBuffer

__all__ = ["Operand", "Place", "matters", "placed"]

_PAGE, _LINE, _HUGE = mmap.PAGESIZE, 64, 1 << 21


@dataclass(frozen=True, slots=True)
class Operand:
    """What a kernel is given, at ``home``.

    ``name`` is equal for what all kernels of a task share. ``copied``: its contents are needed in
    another place; results and workspace are only written.
    """

    name: str
    home: GuardedBuffer
    copied: bool
    shared: bool

    @property
    def size(self) -> int:
        return self.home.size


class Place:
    """Memory for the operands of kernels that run one after the other, each at the same address.

    It lies in huge pages, without guards: only kernels that were checked come here.
    """

    def __init__(self, entrants: Sequence[Sequence[Operand]]) -> None:
        """OSError if there is too little memory."""
        self._entrants = entrants
        self._inside = -1
        sizes: dict[str, int] = {}
        for operands in entrants:
            for operand in operands:
                sizes[operand.name] = max(operand.size, sizes.get(operand.name, 0))
        self._starts: dict[str, int] = {}
        end = 0
        for name, size in sizes.items():
            unit, place = (_PAGE, IN_PAGE) if size >= PAGED_BYTES else (_LINE, 0)
            self._starts[name] = end + (place - end) % unit
            end = self._starts[name] + size
        memory = mmap.mmap(-1, end + _HUGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_HUGEPAGE)
        whole = np.frombuffer(memory, np.uint8)
        self._bytes = whole[-whole.ctypes.data % _HUGE :]
        self._bytes[:end:_PAGE] = 0  # there before anything is timed
        for operand in entrants[0]:
            if operand.shared:
                self._fill(operand)
        self._addresses = [(ctypes.c_void_p * len(o))(*map(self._address, o)) for o in entrants]

    def arguments(self, entrant: int) -> int:
        """The address of the pointers of an entrant, whose operands are here now."""
        if self._inside != entrant:
            for operand in self._entrants[entrant]:
                if not operand.shared:
                    self._fill(operand)
            self._inside = entrant
        return ctypes.addressof(self._addresses[entrant])

    def ranges(self, entrant: int) -> ctypes.Array[ctypes.c_int64]:
        """First byte and byte behind the last of all operands of an entrant."""
        ends = [(self._address(o), self._address(o) + o.size) for o in self._entrants[entrant]]
        return (ctypes.c_int64 * (2 * len(ends)))(*(end for pair in ends for end in pair))

    def _address(self, operand: Operand) -> int:
        return self._bytes.ctypes.data + self._starts[operand.name]

    def _fill(self, operand: Operand) -> None:
        if operand.copied:
            start = self._starts[operand.name]
            self._bytes[start : start + operand.size] = operand.home.bytes


def matters(entrants: Sequence[Sequence[Operand]], cache: int) -> bool:
    """Whether the place makes a difference to a kernel: not if its operands take a small part of
    the second-level ``cache`` (in bytes), nor if they are many times as large."""
    total = max(sum(o.size for o in operands) for operands in entrants)
    return cache <= 8 * total and total <= 4 * cache


def placed(size: int) -> GuardedBuffer:
    """Memory at the place in its page where programs have it, so that what their kernels read and
    write lies apart as it does there."""
    return GuardedBuffer(size, place=IN_PAGE if size >= PAGED_BYTES else None)
