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
        if len(values) != ufunc.nin or not any(type(v) is Proxy for v in values):
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


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    math.sin: _function(np.sin, math.sin, "n"),
    math.cos: _function(np.cos, math.cos, "n"),
    math.tan: _function(np.tan, math.tan, "n"),
    math.asin: _function(np.arcsin, math.asin, "n"),
    math.acos: _function(np.arccos, math.acos, "n"),
    math.atan: _function(np.arctan, math.atan, ""),
    math.sinh: _function(np.sinh, math.sinh, "o"),
    math.cosh: _function(np.cosh, math.cosh, "o"),
    math.tanh: _function(np.tanh, math.tanh, ""),
    math.asinh: _function(np.arcsinh, math.asinh, ""),
    math.acosh: _function(np.arccosh, math.acosh, "n"),
    math.atanh: _function(np.arctanh, math.atanh, "nd"),
    math.exp: _function(np.exp, math.exp, "o"),
    math.expm1: _function(np.expm1, math.expm1, "o"),
    math.exp2: _function(np.exp2, math.exp2, "o"),
    math.log: _function(np.log, math.log, "nd"),
    math.log2: _function(np.log2, math.log2, "nd"),
    math.log10: _function(np.log10, math.log10, "nd"),
    math.log1p: _function(np.log1p, math.log1p, "nd"),
    math.sqrt: _function(np.sqrt, math.sqrt, "n"),
    math.cbrt: _function(np.cbrt, math.cbrt, ""),
    math.fabs: _function(np.fabs, math.fabs, ""),
    math.degrees: _function(np.degrees, math.degrees, "o"),
    math.radians: _function(np.radians, math.radians, ""),
    math.atan2: _function(np.arctan2, math.atan2, ""),
    math.hypot: _function(np.hypot, math.hypot, "o"),
    math.copysign: _function(np.copysign, math.copysign, ""),
    math.fmod: _function(np.fmod, math.fmod, "n"),
    math.pow: _function(np.power, math.pow, "no"),
    math.isnan: _predicate(np.isnan, math.isnan),
    math.isinf: _predicate(np.isinf, math.isinf),
    math.isfinite: _predicate(np.isfinite, math.isfinite),
}
"""Ours for functions of the module."""
