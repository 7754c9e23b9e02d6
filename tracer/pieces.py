"""What of an argument a function has changed, so that no more than that is written back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..ir.dims import IntExpr, product
from ..ir.graph.nodes import Atom, Var
from ..ir.graph.types import TensorType
from .slices import Region
from .trace import Trace

__all__ = ["Key", "Piece", "pieces_of"]

Key: TypeAlias = tuple[slice, ...] | None

MOST_PIECES = 16
"""An array of which more slices were written is written back as a whole: every piece costs about a
microsecond."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Result ``output`` of ``main`` goes to ``key`` of an argument, or to all of it."""

    output: int
    key: Key


def pieces_of(trace: Trace, argument: Var, value: Atom) -> Iterator[tuple[Key, Atom]]:
    """The slices of an argument that differ from it in ``value``, in the order of writing: all of
    it as one unless only a few small slices were written."""
    assert isinstance(argument.type, TensorType)
    found: list[tuple[Key, Atom]] = []
    atom, elements = value, _count(0)
    while (update := trace.updates.get(atom)) is not None:
        found.append((_key(update.region), update.value))
        elements += _count(product(update.region.shape))
        atom = update.base
    small = 2 * elements <= _count(argument.type.size) and elements != float("inf")
    if atom is argument and small and len(found) <= MOST_PIECES:
        yield from reversed(found)
    else:
        yield None, value


def _count(size: IntExpr) -> float:
    return float(size) if isinstance(size, int) else float("inf")


def _key(region: Region) -> tuple[slice, ...]:
    axes: Any = zip(region.begin, region.steps, region.shape, strict=True)
    return tuple(slice(b, b + (n - 1) * s + 1, s) for b, s, n in axes)
