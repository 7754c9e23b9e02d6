"""Tensor expressions: how an operator says what one element of its result is.

An operator's ``compute`` is handed a ``Tensor`` per operand, which it calls with indices to read an
element, and answers with a ``Map`` or a ``Reduction``. Nothing is stored until fusion decides so: a
map in front of a consumer is just a function that the consumer's indices are put into, which is why
transposes, slices and pads cost nothing there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..dims import IntExpr
from ..dtype import DType
from .expr import Expr, IndexLike

__all__ = ["Map", "Reduction", "Tensor"]


@dataclass(frozen=True, slots=True)
class Tensor:
    """An operand: ``t(i, j)`` is the expression of its element (i, j)."""

    shape: tuple[IntExpr, ...]
    dtype: DType
    element: Callable[..., Expr]

    def __call__(self, *indices: IndexLike) -> Expr:
        return self.element(*indices)


@dataclass(frozen=True, slots=True)
class Map:
    """``out[i...] = element(i...)``, each output element on its own.

    ``element`` takes one IndexLike per output axis.
    """

    shape: tuple[IntExpr, ...]
    dtype: DType
    element: Callable[..., Expr]


@dataclass(frozen=True, slots=True)
class Reduction:
    """``out[i...] = combiner over k... of element(i..., k...)``.

    ``element`` takes one IndexLike per output axis, then one per entry of ``over`` (the extents of
    the reduced axes). ``combiner`` is a key of ``COMBINERS``; an empty one gives its identity.
    """

    shape: tuple[IntExpr, ...]
    dtype: DType
    over: tuple[IntExpr, ...]
    combiner: str
    element: Callable[..., Expr]
