"""The true results that the elementary functions are compared with.

float32 functions are compared with float64 ones (NumPy's, ``math.erf``), which are a billion times
as fine; float64 functions with mpmath, point by point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["exact_errors", "oracle", "ulp_errors"]

Array = np.ndarray[Any, Any]

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: Array) -> Array:
    t = np.exp(-np.abs(x))
    return np.where(x < 0, t, 1.0) / (1.0 + t)


_NUMPY: dict[str, Callable[..., Array]] = {
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _erf,
    "exp_weight": np.exp,
    "sigmoid": _sigmoid,
    "truncate_mod": np.fmod,
    "floor_mod": np.mod,
}


def oracle(name: str) -> Callable[..., Array]:
    """The function in float64, accurate to about one unit in the last place of float64."""
    return _NUMPY.get(name) or getattr(np, name)


def ulp_errors(got: Array, true: Array) -> Array:
    """Errors of float32 results against float64 truth, in ulps of float32."""
    info = np.finfo(np.float32)
    limit = 2.0**info.maxexp
    # An infinite result where the truth is finite counts as the first number out of range.
    true = np.where(np.isinf(true), true, np.clip(true, -limit, limit))
    _, exponent = np.frexp(true)
    ulp = np.ldexp(1.0, np.maximum(exponent, info.minexp + 1) - 1 - info.nmant)
    computed = got.astype(np.float64)
    near = np.abs(np.clip(computed, -limit, limit) - true) / ulp
    same = (computed == true) & (np.signbit(computed) == np.signbit(true))
    error = np.where(np.isfinite(true), near, np.where(same, 0.0, np.inf))
    error = np.where((true == 0) & ~same, np.inf, error)
    error = np.where(np.isnan(true), np.where(np.isnan(got), 0.0, np.inf), error)
    return np.where(np.isnan(got) & ~np.isnan(true), np.inf, error)


def exact_errors(name: str, got: Array, *operands: Array) -> Array:
    """Errors of float64 results in ulps, the truth by mpmath with 160 bits.

    Where NumPy's result is NaN, infinite or zero (special values, domain errors), the result must
    be the same, sign included.
    """
    import mpmath

    with np.errstate(all="ignore"):
        expected = oracle(name)(*operands)
    special = ~np.isfinite(expected) | (expected == 0)
    same = (got == expected) & (np.signbit(got) == np.signbit(expected))
    same |= np.isnan(got) & np.isnan(expected)
    errors = np.where(special, np.where(same, 0.0, np.inf), np.inf)
    with mpmath.workprec(160):
        true = _exact(name)
        for i in np.flatnonzero(~special & np.isfinite(got)):
            value = mpmath.mpf(float(expected[i]))
            if all(np.isfinite(x[i]) and x[i] != 0 for x in operands):
                value = true(*(mpmath.mpf(float(x[i])) for x in operands))
            ulp = mpmath.mpf(2) ** (max(mpmath.frexp(value)[1], -1021) - 53)
            errors[i] = float(abs(mpmath.mpf(float(got[i])) - value) / ulp)
    return errors


def _exact(name: str) -> Callable[..., Any]:
    import mpmath as mp

    table: dict[str, Callable[..., Any]] = {
        "exp2": lambda x: mp.mpf(2) ** x,
        "log2": lambda x: mp.log(x, 2),
        "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
        "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    }
    return table.get(name) or getattr(mp, name)
