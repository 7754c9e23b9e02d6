"""Operands of the kernels that are measured, in memory that reveals wrong accesses."""

from __future__ import annotations

import mmap
from typing import Any

import numpy.typing as npt

from ...codegen.runtime.call_text import IN_PAGE, PAGED_BYTES
from .guarded import GuardedBuffer
from .placement import placed

Array = npt.NDArray[Any]
ENDING, BEGINNING, ALIGNED = range(3)
"""Positions of an operand: it ends at a guard, begins at one, or lies as in programs."""


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
