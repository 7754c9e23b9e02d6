"""Inputs of the kernels that are measured, in memory that reveals wrong accesses."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from ...codegen.runtime.call_text import IN_PAGE, PAGED_BYTES
from .guarded import GuardedBuffer
from .placement import placed

Array = npt.NDArray[Any]
_COMPARED = 1 << 20
"""Bytes compared at a time."""


class GuardedInput:
    """Two copies of an input: one ends exactly at a guard, one is placed as in programs.

    Neither is made before a candidate reads it: most candidates read packed weights instead.
    """

    def __init__(self, values: Array) -> None:
        self._values = self._shown = values
        self._buffers: tuple[GuardedBuffer, ...] = ()

    @property
    def values(self) -> Array:
        """The elements that the next checked calls read."""
        return self._shown

    @property
    def exact(self) -> GuardedBuffer:
        return self._placed()[0]

    @property
    def aligned(self) -> GuardedBuffer:
        return self._placed()[-1]

    @property
    def buffers(self) -> tuple[GuardedBuffer, ...]:
        """The copies: one, two, or none yet."""
        return self._buffers

    def _placed(self) -> tuple[GuardedBuffer, ...]:
        if not self._buffers:
            values = self._values
            exact = GuardedBuffer(values.nbytes, values.itemsize)
            place = IN_PAGE if values.nbytes >= PAGED_BYTES else exact.address
            apart = exact.address % 64 or (exact.address - place) % mmap.PAGESIZE
            self._buffers = (exact, placed(values.nbytes)) if apart else (exact,)
            self.restore()
        return self._buffers

    def intact(self) -> bool:
        return all(buffer.intact() for buffer in self._buffers[:1])

    def changed(self) -> bool:
        was = self._values.reshape(-1).view(np.uint8)
        return any(not _same(buffer.bytes, was) for buffer in self._buffers[:1])

    def show(self, values: Array) -> None:
        """Lets the next calls that are checked read other values."""
        self._shown = values
        if self._buffers:
            self.exact.fill(values)

    def restore(self) -> None:
        self._shown = self._values
        for buffer in self._buffers:
            buffer.mend()
            buffer.fill(self._values)

    def close(self) -> None:
        for buffer in self._buffers:
            buffer.close()


def _same(now: Array, was: Array) -> bool:
    """True if bytes are equal. They are compared in pieces: a comparison takes as much memory."""
    pieces = range(0, now.size, _COMPARED)
    return all(np.array_equal(now[i : i + _COMPARED], was[i : i + _COMPARED]) for i in pieces)
