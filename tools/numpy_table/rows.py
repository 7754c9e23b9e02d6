"""A row of the table: functions of NumPy's, uses of them that are tested, and their limits.

A use is Python text. Its free names stand for arguments that a test draws, so the letter says what
a function takes: ``np.hypot(f, g)`` is tried on float arrays that broadcast against each other. A
digit is the least rank (``x2``: any dtype, two axes or more). ``{f}`` stands for the row's name.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ARGUMENTS", "Reason", "Row", "reason", "row"]

ARGUMENTS = {
    "x, y": "arrays of any dtype; the second broadcasts to the first",
    "f, g, h": "arrays of floats",
    "p, q": "positive floats",
    "u": "floats between -1 and 1",
    "o": "floats above 1",
    "a": "floats, some of them nan",
    "e": "floats, some of them nan, infinite or -0",
    "i, j": "integers of every width",
    "n": "positive integers",
    "b, c": "bools",
    "v, w": "vectors of floats of one length",
    "sv": "a sorted vector of distinct floats, as long as v",
    "iv": "a vector of integers",
    "m, mt": "matrices of floats that can be multiplied",
    "s": "a square matrix of floats",
    "idx": "integers that index the last axis of the first array",
    "axis, axes, keep, k, dt": "an axis, axes or None, a bool, a small integer, a dtype",
}
"""The names of arguments in uses, as the page explains them."""


@dataclass(frozen=True, slots=True)
class Row:
    """Functions that are supported in the same way."""

    names: tuple[str, ...]
    uses: tuple[str, ...]
    limits: str

    def uses_of(self, name: str) -> tuple[str, ...]:
        """Returns the uses of one of the row's functions."""
        spelt = name.replace("ndarray.", "")
        return tuple(use.replace("{f}", spelt) for use in self.uses)


@dataclass(frozen=True, slots=True)
class Reason:
    """Functions that are not supported, and why."""

    why: str
    names: tuple[str, ...]


def row(names: str, *uses: str, limits: str = "") -> Row:
    """Returns a row for ``names``, which are separated by spaces.

    >>> row("np.sin np.cos", "{f}(x)").uses_of("np.cos")
    ('np.cos(x)',)
    """
    return Row(tuple(names.split()), uses, limits)


def reason(why: str, names: str) -> Reason:
    """Returns the reason why the functions of some ``names`` are not supported."""
    return Reason(why, tuple(names.split()))
