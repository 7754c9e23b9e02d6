"""Functions of the module ``math`` on traced numbers, with the errors that Python raises."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.emitting import lift
from ..core.proxy import Proxy
from ..core.runtime_checks import check


def _function(ufunc: Any, plain: Callable[..., Any], failures: str) -> Callable[..., Any]:
    """Returns ``plain`` for traced numbers.

    The result may be NaN where no operand is (n), or infinite where all operands are finite: an
    overflow (o), or an error of the domain (d).
    """

    def call(*values: Any) -> Any:
        scalars = all(np.ndim(v) == 0 for v in values)
        if len(values) != ufunc.nin or not scalars or not any(type(v) is Proxy for v in values):
            if plain is math.log and len(values) == 2:
                return FUNCTIONS[math.log](values[0]) / FUNCTIONS[math.log](values[1])
            return plain(*values)
        operands = [lift(v).astype(np.float64) for v in values]
        result = ufunc(*operands)
        if "n" in failures:
            wrong = np.isnan(result)
            for operand in operands:
                wrong = wrong & ~np.isnan(operand)
            check(wrong, ValueError, "math domain error")
        if "o" in failures or "d" in failures:
            wrong = np.isinf(result)
            for operand in operands:
                wrong = wrong & np.isfinite(operand)
            error = OverflowError if "o" in failures else ValueError
            check(wrong, error, "math range error" if "o" in failures else "math domain error")
        return Proxy(lift(result).atom, result.owner, float)

    return call


def _predicate(ufunc: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
    def call(value: Any) -> Any:
        if type(value) is not Proxy:
            return plain(value)
        return Proxy(lift(ufunc(value)).atom, value.owner, bool)

    return call


_FAILURES = {
    "": "atan tanh asinh cbrt fabs radians atan2 copysign",
    "n": "sin cos tan asin acos acosh sqrt fmod",
    "nd": "atanh log log2 log10 log1p",
    "no": "pow",
    "o": "sinh cosh exp expm1 exp2 degrees hypot",
}
"""Functions that NumPy has by the same names, by how they may fail."""

FUNCTIONS: dict[Any, Callable[..., Any]] = {
    getattr(math, name): _function(getattr(np, name), getattr(math, name), failures)
    for failures, names in _FAILURES.items()
    for name in names.split()
} | {
    plain: _predicate(getattr(np, plain.__name__), plain)
    for plain in (math.isnan, math.isinf, math.isfinite)
}
"""Ours for functions of the module."""
