"""Indices that are one axis and nothing else."""

from __future__ import annotations

from ..dims import Dim, Symbol
from .expr import IndexLike

__all__ = ["plain_symbol"]


def plain_symbol(i: IndexLike) -> str | None:
    """The name of the axis that ``i`` is, None if it is more than that.

    >>> from loopwright.ir.dims import symbol
    >>> plain_symbol(symbol("i")), plain_symbol(symbol("i") + 1)
    ('i', None)
    """
    if isinstance(i, Dim) and len(i.terms) == 1:
        (mono, coefficient) = i.terms[0]
        if coefficient == 1 and len(mono) == 1 and isinstance(mono[0], Symbol):
            return mono[0].name
    return None
