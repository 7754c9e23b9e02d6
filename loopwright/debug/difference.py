"""The difference of a computed array from the right one, and the element where it is greatest."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.dataclass import dataclass
from ..ir.dtype import Array

SHOWN = 4
"""Number of elements of which both values are kept: the worst one and the first ones."""


@dataclass(frozen=True, slots=True)
class Place:
    """One element: its index, the computed value, the right one.

    >>> lw.debug.Place((0,), 1.0, 1.5).index
    (0,)
    """

    index: tuple[int, ...]
    got: Any
    right: Any

    def __str__(self) -> str:
        where = f"[{', '.join(map(str, self.index))}]" if self.index else "the number"
        return f"{where}: compiled {_number(self.got)}, right {_number(self.right)}"


@dataclass(frozen=True, slots=True)
class Difference:
    """The error of a computed array. ``error`` is the greatest of all elements, relative to the
    element and the size of the whole (their root mean square); ``bound`` is the error allowed.
    ``wrong`` counts the elements beyond it, ``nans`` those of them where only one side is finite.
    ``span`` is the smallest box that holds all wrong elements: the first and the last index along
    each axis.

    >>> lw.debug.compare(lw.compile(np.exp), np.ones(3)).results[0].wrong
    0
    """

    size: int
    wrong: int
    error: float
    bound: float
    nans: int = 0
    places: tuple[Place, ...] = ()
    span: tuple[tuple[int, int], ...] = ()

    @property
    def differs(self) -> bool:
        """True if any element is beyond the tolerance."""
        return self.wrong > 0

    def __str__(self) -> str:
        if not self.differs:
            return f"greatest error {self.error:.2g}, {self.bound:.2g} allowed"
        text = f"{self.wrong} of {self.size} elements are wrong"
        if self.nans:
            text += f", {self.nans} of them by NaN or infinity"
        if np.isfinite(self.error):
            text += f", greatest error {self.error:.2g} where {self.bound:.2g} is allowed"
        return text


def difference(got: Array, right: Array, narrow: Array, bound: float) -> Difference:
    """Compares ``got`` with ``right`` (in float64) and ``narrow`` (in the function's dtypes).

    An element is right if it is near to either: where rounding decides (a comparison, a ``floor``)
    or overflows, the exact result is not what any float32 code gives. NaN equals NaN, infinities
    equal those of the same sign; integers and bools are exact.
    """
    got, right, narrow = np.atleast_1d(got), np.atleast_1d(right), np.atleast_1d(narrow)
    if got.shape != right.shape:
        return Difference(got.size, got.size, np.inf, bound)
    error = np.minimum(_errors(got, right), _errors(got, narrow))
    bad = error > bound
    wrong = int(np.count_nonzero(bad))
    worst = float(error.max(initial=0.0))
    if not wrong:
        return Difference(got.size, 0, worst, bound)
    indices = np.argwhere(bad)
    finite = error[bad & np.isfinite(error)]
    flat = int(np.argmax(error))
    places_shown = [np.unravel_index(flat, got.shape), *indices[:SHOWN]]
    unique = dict.fromkeys(tuple(int(i) for i in index) for index in places_shown)
    places = tuple(Place(i, got[i], right[i]) for i in unique)[:SHOWN]
    span = tuple((int(a), int(b)) for a, b in zip(indices.min(axis=0), indices.max(axis=0)))
    largest = float(finite.max()) if finite.size else worst
    return Difference(got.size, wrong, largest, bound, wrong - finite.size, places, span)


def _errors(got: Array, right: Array) -> Array:
    """Returns each element's relative error (float64); inf where only one side is finite."""
    if right.dtype.kind != "f" or got.dtype.kind != "f":
        return np.where(got == right, 0.0, 1.0)
    wanted, given = right.astype(np.float64), got.astype(np.float64)
    with np.errstate(all="ignore"):
        finite = np.isfinite(wanted)
        size = float(np.sqrt(np.mean(np.square(wanted[finite])))) if finite.any() else 0.0
        error = np.abs(given - wanted) / (np.abs(wanted) + size)
        error[given == wanted] = 0.0
        error[np.isnan(given) & np.isnan(wanted)] = 0.0
        error[np.isnan(error)] = np.inf
    return error


def _number(value: Any) -> str:
    return f"{float(value):.7g}" if np.asarray(value).dtype.kind == "f" else str(value)
