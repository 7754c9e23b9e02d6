"""Operators on complex numbers, as compositions of operators on real and imaginary parts.

``split_complex`` asks this table. An operator that is not in it refuses complex operands::

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
from .table import COMPOSED, INTERLEAVED_RULES, PAIR_RULES, Pair, require_pair_rule

__all__ = ["COMPOSED", "INTERLEAVED_RULES", "PAIR_RULES", "Pair", "require_pair_rule"]
