"""Races found without a race: the turns of parallel loops one by one, in an order of chance.

Whether two threads meet is luck; on a busy machine one of them often does all the work. So a kernel
is run once with its parallel loops taken apart: half of the turns, drawn by chance, then the other
half, each from the last to the first, all on one thread.

- Turns that wait for what an earlier one computes do not find it: the result is wrong.
- Turns that write what others write too, be it a sum they share or scratch memory each of them
  takes for its own, change memory that the other half has changed: that is seen between the halves.

``rounds`` such runs with different halves tell any two of ``2**rounds`` turns apart, and of more
turns all but one pair in ``2**rounds``; mistakes of this kind concern many pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .harness import Harness

__all__ = ["TurnWatch"]

_WATCHED_BYTES = 1 << 22
"""Of larger memory so many bytes are compared, in pages spread over it."""
_PAGE = 4096


class TurnWatch:
    """Watches the memory that the turns of a kernel's parallel loops share.

    ``race`` says, after ``with harness.watched(watch.loop)`` and some calls, whether two halves
    wrote to one place. ``number`` is that of the round.
    """

    def __init__(
        self, harness: Harness, shared: Sequence[npt.NDArray[np.uint8]], seed: int
    ) -> None:
        self.race = False
        self.number = 0
        self._harness = harness
        self._views = [_spread(memory) for memory in shared if memory.size]
        self._seed = seed

    def loop(self, function: int, context: int, turns: int) -> None:
        """What a parallel loop does instead of asking the pool."""
        rank = np.random.default_rng(self._seed).permutation(turns)
        chosen = rank >> self.number & 1 == 0
        first, second = np.flatnonzero(chosen)[::-1], np.flatnonzero(~chosen)[::-1]
        before = [view.copy() for view in self._views]
        self._harness.turns(function, context, first.tolist())
        between = [view.copy() for view in self._views]
        self._harness.turns(function, context, second.tolist())
        for old, middle, new in zip(before, between, self._views):
            self.race = self.race or bool(np.any((old != middle) & (middle != new)))


def _spread(memory: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    if memory.size <= _WATCHED_BYTES:
        return memory
    pages = memory[: memory.size // _PAGE * _PAGE].reshape(-1, _PAGE)
    return pages[:: -(-memory.size // _WATCHED_BYTES)]
