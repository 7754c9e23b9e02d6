"""How far an index moves with a loop."""

from __future__ import annotations

from collections.abc import Mapping

from ..dims import Dim, IntExpr, Symbol, resolve, substitute, symbols

__all__ = ["stride_along", "stride_within"]


def stride_along(index: IntExpr, var: str) -> int | None:
    """The distance that ``index`` moves whenever ``var`` moves by one; None if it varies, or if
    that is not known: where ``var`` stands inside a division, a remainder, a minimum or a product.

    >>> from loopwright.ir.dims import mod, symbol
    >>> i, j = symbol("i"), symbol("j")
    >>> stride_along(3 * i + j, "i"), stride_along(3 * i + j, "k")
    (3, 0)
    >>> stride_along(3 * i + mod(i + j, 8), "i") is None
    True
    """
    found = 0
    for mono, coefficient in index.terms if isinstance(index, Dim) else ():
        if mono == (Symbol(var),):
            found = coefficient
        elif any(var in symbols(Dim((((atom,), 1),))) for atom in mono):
            return None
    return found


def stride_within(
    index: IntExpr,
    var: str,
    values: Mapping[str, int],
    ranges: Mapping[str, tuple[int, int]],
) -> int | None:
    """``stride_along`` where some variables have ``values`` and others stay in ``ranges``, by which
    divisions are resolved.

    >>> from loopwright.ir.dims import mod, symbol
    >>> i, j = symbol("i"), symbol("j")
    >>> stride_within(mod(i + j, 8), "i", {"j": 16}, {"i": (0, 7)})
    1
    >>> stride_within(mod(i + j, 8), "i", {"j": 15}, {"i": (0, 7)}) is None
    True
    """
    return stride_along(resolve(substitute(index, values), ranges), var)
