"""Finds data races without running threads: iterations of parallel loops in a random order.

Whether two threads meet is random. So the iterations of parallel loops are split into two
random halves, which run one after the other, each from the last iteration to the first, all on one
thread. The second half finds all memory as the first one found it: what needs the result of an
earlier iteration is wrong. Memory that both halves change is a race, although both may leave the
same value there. ``rounds`` runs with different halves separate any two of ``2**rounds``
iterations, and of more all but one pair in ``2**rounds``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .harness import Harness

_WATCHED_BYTES = 1 << 22
"""Bytes compared of larger memory, in pages spread over it."""
_PAGE = 4096


class IterationWatch:
    """Watches the memory that the iterations of a kernel's parallel loops share.

    ``race`` is True, after ``with harness.watched(watch.loop)`` and some calls, if two halves wrote
    to one place. ``number`` is that of the round.
    """

    def __init__(
        self, harness: Harness, shared: Sequence[npt.NDArray[np.uint8]], seed: int
    ) -> None:
        self.race = False
        self.number = 0
        self._harness = harness
        self._views = [view for memory in shared for view in _words(memory) if view.size]
        self._seed = seed

    def loop(self, function: int, context: int, iterations: int) -> None:
        """Runs a parallel loop, in the place of the thread pool."""
        rank = np.random.default_rng(self._seed).permutation(iterations)
        bits = max(1, (iterations - 1).bit_length())
        chosen = rank >> self.number % bits & 1 == 0
        first, second = np.flatnonzero(chosen)[::-1], np.flatnonzero(~chosen)[::-1]
        before = [view.copy() for view in self._views]
        self._harness.iterations(function, context, first.tolist())
        halves = [view.copy() for view in self._views]
        for view, old in zip(self._views, before):
            view[...] = old
        self._harness.iterations(function, context, second.tolist())
        for view, old, half in zip(self._views, before, halves):
            written = old != half
            both = written & (old != view)
            if both.any():  # they may have changed different bytes of a word
                was, one, other = (each[both].view(np.uint8) for each in (old, half, view))
                self.race = self.race or bool(np.any((was != one) & (was != other)))
                half[both] = np.where(was != one, one, other).view(view.dtype)
            np.copyto(view, half, where=written)


def _words(memory: npt.NDArray[np.uint8]) -> list[npt.NDArray[Any]]:
    """Returns views of memory, pages spread over it if it is large, as words and the bytes left."""
    if memory.size > _WATCHED_BYTES:
        pages = memory[: memory.size // _PAGE * _PAGE].reshape(-1, _PAGE)
        return [pages[:: -(-memory.size // _WATCHED_BYTES)].view(np.uint64)]
    whole = memory.size // 8 * 8
    return [memory[:whole].view(np.uint64), memory[whole:]]
