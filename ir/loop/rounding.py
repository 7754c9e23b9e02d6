"""Other results of a right computation: every operation rounds in another way.

A bound on the error of each operation says little about a result. Where two logits of a softmax
nearly tie, or a sum that nearly vanishes is a divisor, the last bit of an intermediate moves the
result by many; and where such a sum is compared with 0, it decides. So the meaning is evaluated
again, each operation moved at random by up to what ``ir/tolerance.py`` allows it: Monte Carlo
arithmetic (D. S. Parker, UCLA CSD-970002, 1997).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import frexp, sqrt
from typing import Any
from zlib import crc32

import numpy as np

from ..dataclass import dataclass
from ..dtype import FLOAT32, Array, DType
from ..tolerance import WALK_WIDTH
from ..traits import Trait
from .expr import Const, Op
from .prim import Stage
from .scalar import SCALAR_OPS

_MIX = np.uint64(0x9E3779B97F4A7C15)


def rounds(node: Op) -> bool:
    """True if the result of an operation is a float that was rounded."""
    operand = node.args[0].dtype
    widens = node.name == "cast" and operand.is_float and operand.bits <= node.dtype.bits
    if not node.dtype.is_float or widens or Trait.EXACT in SCALAR_OPS[node.name].traits:
        return False
    factors = [a.value for a in node.args if isinstance(a, Const)]  # perhaps a power of two
    return node.name != "multiply" or all(frexp(abs(f))[0] != 0.5 for f in factors)


@dataclass(frozen=True, slots=True)
class Rounding:
    """Moves what rounds. The same ``seed`` moves the same, and ``sign`` -1 the other way than 1.

    ``single`` is True if float64 stands for float32, as in a PrimFunc that was ``widened``.
    """

    seed: int
    sign: int
    single: bool

    def at(self, stage: Stage) -> Rounding:
        """Returns the rounding in a stage."""
        return replace(self, seed=crc32(f"{self.seed} {stage.name}".encode()))

    def operation(self, node: Op, value: Array, number: int, places: Iterable[Any]) -> Array:
        """Returns an operation's values, moved; ``places`` holds the indices they depend on."""
        if not rounds(node):
            return value
        return self._moved(value, node.dtype, 4 * np.abs(value), number, places)

    def total(
        self, stage: Stage, value: Array, squares: Array, terms: int, places: Iterable[Any]
    ) -> Array:
        """Returns sums or products of ``terms`` values, moved; ``squares`` sum their squares."""
        if stage.combiner not in ("sum", "prod") or terms < 2:
            return value
        spread = np.abs(value) + (np.sqrt(squares) if stage.combiner == "sum" else 0.0)
        return self._moved(value, stage.buffer.dtype, WALK_WIDTH * sqrt(terms) * spread, -1, places)

    def _moved(
        self, value: Array, dtype: DType, units: Array, number: int, places: Iterable[Any]
    ) -> Array:
        """Returns floats moved by up to ``units`` times the relative error of one rounding."""
        if not dtype.is_float:
            return value
        narrow = FLOAT32 if self.single and not dtype.is_half else dtype
        # An integer that the dtype holds is what operations on integers give, which are exact.
        whole = (value == np.rint(value)) & (np.abs(value) < 2.0**narrow.fraction_bits)
        hashed = np.full(value.shape, self.seed + (number << 32), np.int64).view(np.uint64)
        for place in (p for p in places if isinstance(p, np.ndarray)):
            if np.broadcast_shapes(place.shape, value.shape) == value.shape:
                hashed = (hashed + place.astype(np.uint64) + np.uint64(1)) * _MIX
                hashed ^= hashed >> np.uint64(29)
        noise = self.sign * ((hashed * _MIX >> np.uint64(11)) * 2.0**-52 - 1.0)
        moved = value + noise * units * 2.0 ** -(narrow.fraction_bits + 1)
        return np.where(whole | ~np.isfinite(value), value, moved).astype(value.dtype)
