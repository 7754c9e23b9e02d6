"""Indices that are traced: whether they lie inside of their axis is asked where that is wanted.

Compiled code clips an index that is out of range, as it can neither raise nor read what is not
there. Under ``LOOPWRIGHT_CHECK_INDEX=1``, and always in ``lw.debug``, a trace computes the least
and the greatest element of every index beside the results, and a call raises NumPy's IndexError.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.errors import LoopwrightIndexError
from ..ir.graph.nodes import Atom
from ..ir.span import Span
from .spans import caret_lines

__all__ = ["Bounds"]


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """That an index lies inside of an axis of ``size``; ``least`` and ``greatest`` are its own."""

    least: Atom
    greatest: Atom
    axis: int
    size: int
    span: Span | None

    def check(self, ends: Sequence[np.ndarray[Any, Any]]) -> None:
        """Raise LoopwrightIndexError for the values that ``least`` and ``greatest`` had."""
        for end in ends:
            index = int(end)
            if not -self.size <= index < self.size:
                source = caret_lines(self.span) if self.span is not None else ()
                raise LoopwrightIndexError(
                    f"index {index} is out of bounds for axis {self.axis} with size {self.size}",
                    span=self.span,
                    source=source,
                )
