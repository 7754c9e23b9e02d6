"""Limits on the code and memory that a schedule may require.

A schedule of a log, of a user or of the search is data from outside, and a single number in it can
require code of gigabytes (``unroll`` of a long loop) or memory of gigabytes (``pack`` into wide
panels). The primitives, ``apply_schedule`` and ``codegen/limits.py`` raise ScheduleError
beyond these limits, before anything of that size is made.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..dataclass import dataclass
from ..dims import bounds
from ..errors import ScheduleError
from ..loop.prim import Buffer


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one kernel. A long plain nest has a multiple of its length as the limit."""

    loops: int = 4_000
    """Loops in the nest: applying a schedule takes some 0.1 ms for each."""
    instructions: int = 100_000
    """Instructions after unrolling, as estimated on the loop nest: what is far too long need not be
    written. Where borders are cut off the estimate is up to 20 times the truth, which the limits
    below bound; three of the schedules that ship come to 40,000 to 53,000, and have 2,900."""
    values: int = 20_000
    """Instructions as they are written."""
    inlined: int = 48_000
    """Instructions as they are written, with those of the functions (``sin``) put in the place of
    their calls: LLVM compiles some 12,000 a second of such code."""
    accesses: int = 2_500
    """Loads and stores in a row, without a branch between them: LLVM's time grows with the square
    of their number, and is one to four seconds for so many."""
    byte_stores: int = 128
    """Stores of single bytes in a row. LLVM looks whether it can join them, in time that grows with
    the cube of their number: 0.5 seconds for 80 among loads, 4 for 160, 42 for 320."""
    peeled: int = 16
    """Iterations that one ``peel`` gives bodies of their own."""
    factors: int = 8
    """Loops of one axis: a nest is written by recursion over its loops."""
    block: int = 1 << 31
    """Elements of an axis that one iteration of a loop may cover."""
    unrolled: int = 64
    """Iterations of a procedure's loop that is unrolled."""
    lanes: int = 256
    """Iterations of a procedure's loop that runs in vector lanes."""
    stack_bytes: int = 1 << 20
    """Private buffers; the stack of a thread has 8 MiB."""
    copy_factor: int = 4
    """Times the bytes of the operands (and of the values between stages) that packed operands and
    the workspace may take, ..."""
    copy_bytes: int = 16 << 20
    """... with so many bytes beside."""

    def check_copies(self, what: str, size: int, source: int) -> None:
        """ScheduleError if copies of ``size`` bytes are too large for a source of so many."""
        limit = self.copy_factor * source + self.copy_bytes
        if size > limit:
            raise ScheduleError(f"{what} would take {size} bytes, more than {limit}")


LIMITS = Limits()


def buffer_bytes(buffers: Iterable[Buffer]) -> int:
    """Returns the total bytes of some buffers; the greatest, where sizes are symbolic."""
    ends = [bounds(b.size * b.dtype.bytes, {}) for b in buffers]
    return sum(end[1] for end in ends if end is not None)
