"""Functions by element: NumPy's under the names and with the parameters of the standard."""

from __future__ import annotations

from typing import Any

import numpy as np

from .eager import compiled, define

define(
    globals(),
    """
    abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor
    isfinite isinf isnan log log10 log1p log2 logical_not negative positive reciprocal round sign
    signbit sin sinh sqrt square tan tanh trunc(x, /)
        As ``numpy.{}``, on arrays and Python numbers.
    add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign
    divide equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and
    logical_or logical_xor maximum minimum multiply nextafter not_equal pow remainder
    subtract(x1, x2, /)
        As ``numpy.{}``, on arrays and Python numbers.
    where(condition, x1, x2, /)
        Returns elements of ``x1`` where ``condition`` is true, and of ``x2`` elsewhere.
    """,
)


@compiled
def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """Returns ``x`` with what is below ``min`` or above ``max`` replaced by it, in x's dtype."""
    if min is not None:
        x = np.astype(np.maximum(x, min), x.dtype)
    if max is not None:
        x = np.astype(np.minimum(x, max), x.dtype)
    return np.copy(x) if min is None and max is None else x


def real(x: Any, /) -> Any:
    """Returns the real part, a view."""
    return np.real(x)


def imag(x: Any, /) -> Any:
    """Returns the imaginary part, a view."""
    return np.imag(x)
