"""Strides of indices along loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..dims import Dim, IntExpr, Mod, Symbol, floordiv, of_atom, resolve, substitute, symbols
from .prim import Buffer


def mentions(expr: object, var: str) -> bool:
    """True if a loop variable stands in an index."""
    return isinstance(expr, Dim) and var in symbols(expr)


def stride_along(index: IntExpr, var: str) -> int | None:
    """Returns the change of ``index`` when ``var`` grows by one; None if it varies, or if ``var``
    is inside a division, a remainder, a minimum or a product.

    >>> from loopwright.ir.dims import mod, symbol
    >>> i, j = symbol("i"), symbol("j")
    >>> stride_along(3 * i + j, "i"), stride_along(3 * i + j, "k")
    (3, 0)
    >>> stride_along(3 * i + mod(i + j, 8), "i") is None
    True
    """
    stride = 0
    for mono, coefficient in index.terms if isinstance(index, Dim) else ():
        if len(mono) == 1 and isinstance(mono[0], Symbol):
            if mono[0].name == var:
                stride = coefficient
        elif any(var in symbols(of_atom(atom)) for atom in mono):
            return None
    return stride


def moves_by_sizes(index: IntExpr, var: str) -> bool:
    """True if ``index`` changes by a symbolic number when ``var`` grows by one.

    >>> from loopwright.ir.dims import mod, symbol
    >>> i, n = symbol("i"), symbol("n")
    >>> moves_by_sizes(i * n + 3, "i"), moves_by_sizes(i * 8, "i"), moves_by_sizes(mod(i, n), "i")
    (True, False, False)
    """
    factors = [mono for mono, _ in index.terms] if isinstance(index, Dim) else []
    moving = [mono for mono in factors if any(var in symbols(Dim((((a,), 1),))) for a in mono)]
    with_var = [[a for a in mono if a != Symbol(var)] for mono in moving]
    return any(map(len, with_var)) and all(
        len(mono) == len(others) + 1 and all(isinstance(a, Symbol) for a in others)
        for mono, others in zip(moving, with_var, strict=True)
    )


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


def flat_index(buffer: Buffer, indices: Sequence[IntExpr]) -> IntExpr:
    """The position of an element counted from the start of its row-major buffer."""
    flat: IntExpr = 0
    for i, stride in zip(indices, row_major(buffer), strict=True):
        flat = flat + without_mod(i) * stride
    return flat


def row_major(buffer: Buffer) -> tuple[IntExpr, ...]:
    """The distance between neighbours along each dimension, in elements."""
    strides: list[IntExpr] = []
    step: IntExpr = 1
    for size in reversed(buffer.shape):
        strides.append(step)
        step = step * size
    return tuple(reversed(strides))


def without_mod(expr: IntExpr) -> IntExpr:
    """Returns ``expr`` with ``a - b * (a // b)`` for ``a % b``, which merges split indices."""
    if not isinstance(expr, Dim):
        return expr
    total: IntExpr = 0
    for mono, coefficient in expr.terms:
        term: IntExpr = coefficient
        for atom in mono:
            if isinstance(atom, Mod):
                left, right = without_mod(atom.left), without_mod(atom.right)
                term = term * (left - right * floordiv(left, right))
            else:
                term = term * Dim((((atom,), 1),))
        total = total + term
    return total
