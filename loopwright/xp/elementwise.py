"""Functions by element: NumPy's under the names and with the parameters of the standard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .eager import compiled

# fmt: off
# fmt: on


def _unary(of_numpy: Callable[..., Any]) -> Callable[..., Any]:
    def function(x: Any, /) -> Any:
        return of_numpy(x)

    return function


def _binary(of_numpy: Callable[..., Any]) -> Callable[..., Any]:
    def function(x1: Any, x2: Any, /) -> Any:
        return of_numpy(x1, x2)

    return function


def _named(
    names: str, kind: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Iterator[Callable[..., Any]]:
    for name in names.split():
        function = kind(getattr(np, name))
        function.__name__ = function.__qualname__ = name
        function.__doc__ = f"As ``numpy.{name}``, on arrays and Python numbers."
        yield compiled(function)


# fmt: off
(
    abs, acos, acosh, asin, asinh, atan, atanh, bitwise_invert, ceil, conj, cos, cosh, exp, expm1,
    floor, isfinite, isinf, isnan, log, log10, log1p, log2, logical_not, negative, positive,
    reciprocal, round, sign, signbit, sin, sinh, sqrt, square, tan, tanh, trunc,
) = _named(
    """
    abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor
    isfinite isinf isnan log log10 log1p log2 logical_not negative positive reciprocal round sign
    signbit sin sinh sqrt square tan tanh trunc
    """, _unary
)
(
    add, atan2, bitwise_and, bitwise_left_shift, bitwise_or, bitwise_right_shift, bitwise_xor,
    copysign, divide, equal, floor_divide, greater, greater_equal, hypot, less, less_equal,
    logaddexp, logical_and, logical_or, logical_xor, maximum, minimum, multiply, nextafter,
    not_equal, pow, remainder, subtract,
) = _named(
    """
    add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign
    divide equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and
    logical_or logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract
    """, _binary
)
# fmt: on


@compiled
def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """Returns ``x`` with what is below ``min`` or above ``max`` replaced by it, in x's dtype."""
    if min is not None:
        x = np.astype(np.maximum(x, min), x.dtype)
    if max is not None:
        x = np.astype(np.minimum(x, max), x.dtype)
    return np.copy(x) if min is None and max is None else x


@compiled
def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    """Returns elements of ``x1`` where ``condition`` is true, and of ``x2`` elsewhere."""
    return np.where(condition, x1, x2)


def real(x: Any, /) -> Any:
    """Returns the real part, a view."""
    return np.real(x)


def imag(x: Any, /) -> Any:
    """Returns the imaginary part, a view."""
    return np.imag(x)
