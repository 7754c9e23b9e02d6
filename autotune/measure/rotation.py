"""Operands as a program leaves them: every call of a kernel finds each where its program would.

What decides where an operand is found is how many bytes were touched since its memory was last
used (``codegen/reuse.py``): weights a whole call of the program ago, an input by the kernel before
it. So each operand has several copies, and call after call uses the next copy of each: with enough
of them the kernel itself touches as many bytes as the program does until a copy is used again.
Nothing is flushed, any number of calls can be timed together, and no size of a cache is needed.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ...codegen.runtime.call_text import IN_PAGE, PAGED_BYTES
from ...ir.dataclass import dataclass
from .placement import Operand

_Bytes: TypeAlias = npt.NDArray[np.uint8]

_PAGE, _LINE, _HUGE = mmap.PAGESIZE, 64, 1 << 21
_SPARE = 4
"""Room for other candidates' packing of an operand: this part of its size more."""

FAR = 256 << 20
"""Most bytes of copies: a processor that claims a larger cache has it for few guests alone."""
HUGE_ARRAY = 4 << 20
"""Bytes from which on the memory of an array of its own, such as a constant, is in huge pages:
NumPy, which allocates it, asks for them."""
MOST_OVERWRITES = 32
"""Calls that write over the same copy of a parameter before it has its values again."""
ENOUGH = 0.9
"""Share of the bytes between two uses that suffices: one copy more would be as wrong."""


def copies_of(sizes: Mapping[str, int], between: Mapping[str, int]) -> dict[str, int]:
    """Returns how many copies each operand needs, so that about ``between[name]`` bytes of other
    memory are touched between two uses of one; by name like the ``sizes`` in bytes. With one copy
    these are the other operands.

    >>> copies_of({"w": 100, "x": 10}, {"w": 1000, "x": 100})
    {'x': 1, 'w': 9}
    """
    copies: dict[str, int] = {}
    far = sorted(sizes, key=lambda name: between.get(name, 0))
    for n, name in enumerate(far):
        wanted = ENOUGH * min(between.get(name, 0), FAR)
        rest = sum(sizes[other] for other in far[n:])  # at least as many copies as this one
        calls = 1
        while True:
            near = sum(min(copies[o], calls) * sizes[o] for o in far[:n])
            short = wanted - (near + calls * rest - sizes[name])
            if short <= 0 or rest == 0:
                break
            calls += max(1, int(short / (rest + sum(sizes[o] for o in far[:n]))))
        copies[name] = calls
    return copies


@dataclass(slots=True)
class Cycle:
    """The arguments of one call after the other, ``each`` words of each of ``count`` calls;
    ``next`` is the number of the next one, and ``rotation`` holds the memory."""

    rotation: Rotation
    words: ctypes.Array[ctypes.c_int64]
    each: int
    count: int
    next: int = 0


class Rotation:
    """Memory with copies of the operands of a kernel's candidates.

    It has no guards: only kernels that were checked run here. Constants lie in small pages and the
    others in huge ones, as in a program. Operands of the same name have the same copies whichever
    candidate they belong to, so that all candidates meet the same memory. Packed operands hold the
    values of the first candidate's packing there, which are as good for timing.
    """

    def __init__(
        self,
        copies: Mapping[str, int],
        constants: frozenset[str] = frozenset(),
        in_place: Mapping[str, str] | None = None,
    ) -> None:
        """``copies`` are those of ``copies_of``; operands it does not name have one. ``constants``
        are the names of operands that a program keeps in memory of their own, and ``in_place`` has
        results that are written over a parameter."""
        self.copies = copies
        self.constants = constants
        self.in_place = in_place or {}
        self._overwritten: list[tuple[_Bytes, Operand]] = []
        self._calls = 0
        self.filled = 0
        """Operands whose copies were made so far."""
        self._memory: list[mmap.mmap] = []
        self._rows: dict[str, tuple[int, list[int]]] = {}  # room and addresses of the copies

    def cycle(self, operands: Sequence[Operand], size_values: Sequence[int] = ()) -> Cycle:
        """Returns calls with the next copy of each operand. Raises MemoryError or OSError."""
        places = [self._places(operand) for operand in operands]
        count = max(map(len, places), default=1)
        words = [
            word
            for call in range(count)
            for word in (*(p[call % len(p)] for p in places), *size_values)
        ]
        return Cycle(self, (ctypes.c_int64 * len(words))(*words), len(words) // count, count)

    def renew(self, calls: int) -> None:
        """Writes the values of parameters that results are written over anew before ``calls``
        calls, unless they were written lately: a result of results may grow for ever, or become a
        denormal number, which takes longer."""
        self._calls += calls
        fewest = min((len(rows) for rows, _ in self._overwritten), default=0)
        if self._calls > MOST_OVERWRITES * fewest:
            for rows, operand in self._overwritten:
                rows[:, : operand.size] = operand.home.bytes
            self._calls = calls

    def emptied(self) -> Rotation:
        """Gives the memory back: no cycle may be used any more. Returns one with new memory."""
        self._memory.clear()
        self._rows.clear()
        self._overwritten.clear()
        return Rotation(self.copies, self.constants, self.in_place)

    def _places(self, operand: Operand) -> list[int]:
        over = f"in {self.in_place.get(operand.source)}"
        if (
            operand.name == f"out {operand.source}"
            and self._rows.get(over, (0,))[0] == operand.size
        ):
            return self._rows[over][1]
        room, places = self._rows.get(operand.name, (-1, []))
        if operand.size > room:
            room = operand.size if operand.shared else operand.size + operand.size // _SPARE
            places = self._filled(operand, room, self.copies.get(operand.source, 1))
            self._rows[operand.name] = room, places
            self.filled += 1
        return places

    def _filled(self, operand: Operand, room: int, count: int) -> list[int]:
        unit, place = (_PAGE, IN_PAGE) if room >= PAGED_BYTES else (_LINE, 0)
        step = -(-room // unit) * unit
        memory = mmap.mmap(-1, place + count * step + _HUGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if room >= HUGE_ARRAY or operand.source not in self.constants:
            memory.madvise(mmap.MADV_HUGEPAGE)
        self._memory.append(memory)
        whole = np.frombuffer(memory, np.uint8)
        begin = -whole.ctypes.data % _HUGE + place
        rows = whole[begin : begin + count * step].reshape(count, step)
        if operand.copied:
            rows[:, : operand.size] = operand.home.bytes
            if operand.name.startswith("in ") and operand.source in self.in_place.values():
                self._overwritten.append((rows, operand))
        else:
            rows[:, ::_PAGE] = 0  # mapped before anything is timed
        return [rows.ctypes.data + n * step for n in range(count)]
