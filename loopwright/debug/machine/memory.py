"""Memory in which every access is looked at: pieces of it, far from one another."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.dtype import Array

_PIECE = 40
"""Bits of a place within a piece of memory; those above are the number of the piece."""
_MIDDLE = 1 << (_PIECE - 1)
"""The place where a piece begins, so that what lies before it is not in another one."""


class Fault(Exception):
    """An error for what no right program does: an access outside of all memory, or one that is not
    aligned as it was promised; a division by zero; a loop without end."""


class Memory:
    """Pieces of memory: by number the bytes, what they are called, and by how many bytes their
    beginning is behind a multiple of 64."""

    def __init__(self) -> None:
        self.pieces: dict[int, tuple[Array, str, int]] = {}

    def add(self, data: Array, name: str, skew: int = 0) -> int:
        """Returns the address of an array's bytes, which are shared."""
        number = len(self.pieces) + 1
        self.pieces[number] = data.reshape(-1).view(np.uint8), name, skew
        return (number << _PIECE) + _MIDDLE + skew

    def part(self, address: Any, size: int, align: int, does: str) -> Array:
        """Returns ``size`` bytes of memory. Fault unless all of them are there, and aligned."""
        address = int(address)
        if address >> _PIECE not in self.pieces:
            raise Fault(f"{does} {size} bytes at {address:#x}, where nothing is")
        data, name, skew = self.pieces[address >> _PIECE]
        at = (address & ((1 << _PIECE) - 1)) - _MIDDLE - skew
        if address % align:
            raise Fault(f"{does} at byte {at} of {name}, promised to be a multiple of {align}")
        if at < 0 or at + size > data.size:
            raise Fault(f"{does} {size} bytes at byte {at} of {name}, which has {data.size}")
        return data[at : at + size]
