"""Notes of earlier passes over a body about the loops and branches inside of it.

The body of a loop is traced until it is known which arrays it writes and which dtypes its numbers
have: mostly twice. Loops inside of it would be traced twice in each pass, and those inside of these
eight times. So every pass takes note, and the next one over the same body begins where it ended.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from contextlib import contextmanager
from typing import Any


class Pass:
    """Notes of a loop or branch: the storages that it writes, the dtypes that its numbers are
    promoted to, by leaf (of each variable of a loop), and those of what is inside, in order."""

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.written: Sequence[Any] = ()
        self.rebound: list[str] = []  # variables whose array is another one in each iteration
        self.moves = False  # the arrays of its variables have no other names
        self.dtypes: dict[int, Any] = {}
        self.sides: list[Any] = []  # what both sides of a branch gave, if one of them lacks results
        self.inside: list[Pass] = []


class Passes:
    """The notes of a trace, and where in them it is."""

    def __init__(self) -> None:
        self._around, self._next = Pass(None), 0

    def next(self, key: Hashable) -> Pass:
        """Returns the notes of the loop or branch that comes next, which ``key`` tells from
        others."""
        inside = self._around.inside
        if self._next >= len(inside) or inside[self._next].key != key:
            inside[self._next :] = [Pass(key)]
        self._next += 1
        return inside[self._next - 1]

    @contextmanager
    def over(self, notes: Pass) -> Generator[None, None, None]:
        """A pass over the body that has the ``notes``."""
        outer = self._around, self._next
        self._around, self._next = notes, 0
        try:
            yield
        finally:
            self._around, self._next = outer
