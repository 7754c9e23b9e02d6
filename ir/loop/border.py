"""What stands behind the border of an image: conditions on indices in the values that are reduced.

A padded convolution reads ``where(inside, x[..], 0)``, a padded pool the least value instead of 0.
Where the condition is known not to hold, nothing is accumulated.
"""

from __future__ import annotations

from collections.abc import Iterator

from .expr import Const, Expr, Op
from .scalar import COMBINERS

__all__ = ["guarded_parts", "is_skipped"]


def guarded_parts(value: Expr, combiner: str) -> Iterator[tuple[Op, object]]:
    """The ``where`` in an accumulated value that may leave nothing to accumulate, each with the
    constant that it must give for that.

    ``value`` itself, with the identity of the combiner; a factor of a product that is summed, with
    zero. (A product of zero and infinity is not made, which is what skipping it means.)
    """
    if isinstance(value, Op) and value.name == "where":
        yield value, COMBINERS[combiner].identity(value.dtype)
    if isinstance(value, Op) and value.name == "multiply" and combiner == "sum":
        for factor in value.args:
            if isinstance(factor, Op) and factor.name == "where":
                yield factor, 0


def is_skipped(before: Expr, after: Expr, combiner: str) -> bool:
    """True if ``after``, which is ``before`` with its conditions worked out, adds nothing."""
    for guarded, neutral in guarded_parts(before, combiner):
        if guarded is before:
            left: Expr = after
        else:
            assert isinstance(before, Op)
            if not isinstance(after, Op) or after.name != "multiply":
                continue
            left = after.args[before.args.index(guarded)]
        if isinstance(left, Const) and left.value == neutral:
            return True
    return False
