"""Placement in memory of the entrants of a race: the same for all, another one in every round.

The pages of an operand decide which sets of the L2 it shares with others, also in huge pages on a
virtual machine. This changes times by 40 % (docs/measurements.md), and which schedule is fastest.
So all entrants of a race run in the same memory, and every round in another placement. Memory of
one entrant alone, such as a packed operand, is copied there before its sample.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence

import numpy as np

from ...codegen.runtime.call_text import IN_PAGE, PAGED_BYTES
from ...ir.dataclass import dataclass
from .guarded import GuardedBuffer

_PAGE, _LINE, _HUGE = mmap.PAGESIZE, 64, 1 << 21


@dataclass(frozen=True, slots=True)
class Operand:
    """An argument of a kernel, at ``home``.

    ``name`` is equal for operands that all kernels of a task share. ``copied``: its contents are
    needed in another placement; results and workspace are only written. ``source`` is the name in
    the PrimFunc of what it holds, "" for the workspace.
    """

    name: str
    home: GuardedBuffer
    copied: bool
    shared: bool
    source: str = ""

    @property
    def size(self) -> int:
        return self.home.size


class Placement:
    """Memory for the operands of kernels that run one after the other, each at the same address.

    It lies in huge pages, without guards: only kernels that were checked run here.
    """

    def __init__(
        self, entrants: Sequence[Sequence[Operand]], size_values: Sequence[int] = ()
    ) -> None:
        """``size_values`` are those that every entrant is passed behind its operands. Raises
        OSError if there is too little memory."""
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
        self._bytes[:end:_PAGE] = 0  # mapped before anything is timed
        for operand in entrants[0]:
            if operand.shared:
                self._fill(operand)
        handed = [[*map(self._address, operands), *size_values] for operands in entrants]
        self._addresses = [(ctypes.c_int64 * len(words))(*words) for words in handed]

    def arguments(self, entrant: int) -> int:
        """Copies an entrant's operands here and return the address of their pointers."""
        if self._inside != entrant:
            for operand in self._entrants[entrant]:
                if not operand.shared:
                    self._fill(operand)
            self._inside = entrant
        return ctypes.addressof(self._addresses[entrant])

    def _address(self, operand: Operand) -> int:
        return self._bytes.ctypes.data + self._starts[operand.name]

    def _fill(self, operand: Operand) -> None:
        if operand.copied:
            start = self._starts[operand.name]
            self._bytes[start : start + operand.size] = operand.home.bytes


def matters(entrants: Sequence[Sequence[Operand]], cache: int) -> bool:
    """True if the placement affects a kernel: its operands take a notable part of the L2 (``cache``
    bytes), and not many times its size."""
    total = max(sum(o.size for o in operands) for operands in entrants)
    return cache <= 8 * total and total <= 4 * cache
