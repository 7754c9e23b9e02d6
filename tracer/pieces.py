"""What of an argument a function has changed, so that no more than that is written back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..ir.dims import IntExpr, product
from ..ir.graph.nodes import Atom, Var
from ..ir.graph.types import TensorType
from ..ir.window import Window, dense_offset
from .slices import Region
from .trace import Trace

__all__ = ["Key", "Piece", "pieces_of"]

Key: TypeAlias = tuple[slice, ...] | None

MOST_PIECES = 16
"""An array of which more slices were written is written back as a whole: every piece costs about a
microsecond."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Result ``output`` of ``main`` goes to the ``window`` of an argument, or to all of it."""

    output: int
    window: Window | None

    @property
    def key(self) -> Key:
        """The slice as NumPy takes it."""
        if self.window is None:
            return None
        return tuple(slice(b, b + (n - 1) * s + 1, s) for b, s, n in self.window)


def pieces_of(trace: Trace, argument: Var, value: Atom) -> Iterator[tuple[Window | None, Atom]]:
    """The slices of an argument that differ from it in ``value``, in the order of writing: all of
    it as one unless few slices were written that are small, or one piece of memory each."""
    assert isinstance(argument.type, TensorType)
    shape: Any = argument.type.shape
    found: list[tuple[Window, Atom]] = []
    atom, elements = value, _count(0)
    while (update := trace.updates.get(atom)) is not None:
        found.append((_window(update.region), update.value))
        elements += _count(product(update.region.shape))
        atom = update.base
    size = _count(argument.type.size)
    few = atom is argument and len(found) <= MOST_PIECES and elements <= size < float("inf")
    # Rows that lie apart in memory are quicker written with what is between them, unless few are.
    if few and (2 * elements <= size or all(dense_offset(shape, w) is not None for w, _ in found)):
        yield from reversed(found)
    else:
        yield None, value


def _count(size: IntExpr) -> float:
    return float(size) if isinstance(size, int) else float("inf")


def _window(region: Region) -> Window:
    axes: Any = zip(region.begin, region.steps, region.shape, strict=True)
    return tuple(axes)
