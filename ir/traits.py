"""Traits: facts about scalar and tensor operators that passes rely on."""

from __future__ import annotations

from enum import Flag, auto


class Trait(Flag):
    """A fact about an operator that holds for all operands; without it, passes assume nothing.

    >>> Trait.VIEW in Trait.VIEW | Trait.IGNORES_ZERO_SIGN
    True
    """

    NONE = 0

    COMMUTATIVE = auto()
    """``f(x, y)`` is ``f(y, x)`` to the last bit; see EITHER_ZERO for the one exception."""

    EITHER_ZERO = auto()
    """If the operands are 0 and -0, the result may be either, whatever their order."""

    IGNORES_ZERO_SIGN = auto()
    """The result is the same for 0 and -0 as an element of any operand."""

    NEVER_NEGATIVE_ZERO = auto()
    """No element of the result is -0."""

    JUMPS = auto()
    """A small change of an operand may change the result by much: rounding, comparing."""

    EXACT = auto()
    """The result needs no rounding: it is an operand, its opposite, an integer beside it."""

    POSITIVE_DOMAIN = auto()
    """Random operands must be positive: elsewhere most results are nan."""

    CANCELS = auto()
    """The result may be much smaller than the operands, whose rounding errors then show."""

    MOVES = auto()
    """Each element of the result is an element of an operand, converted if dtypes differ, or a
    constant; only a ``reduction`` among the attributes computes."""

    PICKS = auto()
    """Each element of the result is an element of the first operand. It MOVES."""

    REARRANGES = auto()
    """The result has each element of the operand once. It PICKS."""

    VIEW = auto()
    """The elements stay where they are in row-major memory; only the shape changes. It
    REARRANGES."""

    LINEAR = auto()
    """``f(a * x + b * y)`` is ``a * f(x) + b * f(y)``, but for rounding, where x and y are all
    operands: sums, differences."""

    MULTILINEAR = auto()
    """It is LINEAR in each operand while the others stay: products, contractions."""

    PASSES_NAN = auto()
    """An element of the result is NaN if an element is that it is computed from."""

    LIBRARY = auto()
    """A library computes it, by a call that may raise: there is no tensor expression, and it is not
    moved to where it would not have been made."""

    WIDENS = auto()
    """Operands that are only stored, such as halves, are widened where it computes with them, by
    the operators that it consists of."""

    SETS_SIZE = auto()
    """It gives a symbolic size its value, from there to the end of the block."""

    UNSET = auto()
    """The result is memory of its own, whose elements may be anything until they are written."""

    BYTES = auto()
    """The result is the operand's memory, read as elements of another dtype."""


def with_implied(traits: Trait) -> Trait:
    """Returns traits with those that follow from them.

    >>> Trait.MOVES in with_implied(Trait.VIEW)
    True
    """
    for trait, implied in (
        (Trait.VIEW, Trait.REARRANGES),
        (Trait.REARRANGES, Trait.PICKS),
        (Trait.PICKS, Trait.MOVES),
    ):
        if trait in traits:
            traits |= implied
    return traits
