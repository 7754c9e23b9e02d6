"""Operators on complex numbers, as compositions of operators on real and imaginary parts.

``split_complex`` asks for the rule of an operator. One that moves elements or is linear treats both
parts alike, and a product is four of parts; the others have rules in a table, and one without
refuses complex operands::

    @on_pairs("multiply")
    def multiply(x: Pair, y: Pair) -> Pair:
        return Pair(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)

A rule has the operator's operands and attributes: complex operands arrive as pairs, others as they
are; an operator without operands has the graph's builder instead. Special values (infinities, nan,
signs of zeros) are NumPy's, those of C99's Annex G. The error of a function is bounded relative to
the modulus of its result, not to each part.

``table`` holds the rules, ``arithmetic``, ``orders``, ``functions`` and ``products`` fill it.
"""

from . import arithmetic, functions, orders, products  # noqa: F401  (each fills the table)
from .table import INTERLEAVED_RULES, Pair, is_composed, pair_rule, require_pair_rule

__all__ = ["INTERLEAVED_RULES", "Pair", "is_composed", "pair_rule", "require_pair_rule"]
