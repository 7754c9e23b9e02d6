"""Bounds on the difference between two correct computations of the same tensor.

Let ``u`` be half the distance from 1 to the next float (2**-24 in float32, 2**-53 in float64).

*Elementwise.* Every operation rounds once, and the elementary functions are within 2 ulp, that is
4 ``u``. A chain of ``operations`` steps that magnify no error is therefore within
``4 * operations * u`` of the exact value, and so is the other side: the relative part allows both.

*Reductions.* A sum of ``n`` terms may be taken in any order. Rounding errors of a sum behave like
a random walk (N. Higham and T. Mary, "A new approach to probabilistic rounding error analysis",
SIAM J. Sci. Comput. 41, 2019): with probability above ``1 - 2 * exp(-w*w/2)`` per element the
relative error of a sum of terms of one sign is at most ``w * sqrt(n) * u``. Where signs differ,
the partial sums are as large as ``scale * sqrt(n)`` for terms of size ``scale``, hence the
absolute error is at most ``w * n * u * scale``. ``w = 6`` leaves 3e-8 per element.

*Sums of compiled code* are taken in blocks, whatever the schedule (``ir/loop/block_sums.py``): of
``n`` terms none passes more than ``64 + 17 * log(n, 16)`` additions, in the tile of a product
``256 + 129 * log(n, 128)``, and each rounds by ``u`` at most. That is the growth of pairwise sums,
and rounding errors that differ in sign keep it below the bound that NumPy's pairwise
sums have.

Integers and bools are exact.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

from .dtype import DType

WALK_WIDTH = 6.0


class Tolerance(NamedTuple):
    """``|a - b| <= atol + rtol * |b|``, the rule of ``np.testing.assert_allclose``."""

    rtol: float
    atol: float


def tolerance(
    dtype: DType, reduction_length: int = 0, *, operations: int = 8, scale: float = 1.0
) -> Tolerance:
    """The tolerance of a result of ``dtype`` that sums ``reduction_length`` terms (0: none).

    ``operations`` is the number of elementwise steps in a row, ``scale`` the size of one term.

    >>> from loopwright.ir.dtype import FLOAT32, INT32
    >>> tolerance(INT32, 1000)
    Tolerance(rtol=0.0, atol=0.0)
    >>> round(tolerance(FLOAT32, 1024).rtol * 2**24)
    224
    """
    dtype = dtype.part  # of complex numbers the modulus counts, whose bound is that of a part
    if not dtype.is_float:
        return Tolerance(0.0, 0.0)
    unit = 2.0 ** -(dtype.fraction_bits + 1)
    smallest = 2.0 ** (1 - dtype.exponent_bias - dtype.fraction_bits)
    rtol = unit * (4 * operations + WALK_WIDTH * sqrt(reduction_length))
    atol = unit * WALK_WIDTH * reduction_length * scale
    return Tolerance(rtol, atol + operations * smallest)
