"""Ufuncs of ``scipy.special`` on traced arrays.

A few are compositions of operators, which fuse with what stands around them. All others are calls
of SciPy's own, so their values are SciPy's to the last bit. SciPy is not imported here: a program
that has one of its functions has it already.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.library.special import PREFIX
from ..core.dispatch import UFUNCS
from ..core.emitting import call_library, choose, emit, kind_of, lift, promoted, ufunc_dtypes
from ..core.proxy import Proxy
from .ufuncs import with_options


def _xlogy(x: Any, y: Any) -> Any:
    return choose(np.logical_and(x == 0, np.logical_not(np.isnan(y))), 0, x * np.log(y))


def _xlog1py(x: Any, y: Any) -> Any:
    return choose(np.logical_and(x == 0, np.logical_not(np.isnan(y))), 0, x * np.log1p(y))


def _entr(x: Any) -> Any:
    return choose(x < 0, -np.inf, -_xlogy(x, x))


def _rel_entr(x: Any, y: Any) -> Any:
    inside = choose(np.logical_and(x > 0, y > 0), x * np.log(x / y), np.inf)
    inside = choose(np.logical_and(x == 0, y >= 0), 0, inside)
    return choose(np.logical_or(np.isnan(x), np.isnan(y)), x + y, inside)


def _kl_div(x: Any, y: Any) -> Any:
    inside = choose(np.logical_and(x > 0, y > 0), x * np.log(x / y) - x + y, np.inf)
    inside = choose(np.logical_and(x == 0, y >= 0), y, inside)
    return choose(np.logical_or(np.isnan(x), np.isnan(y)), x + y, inside)


def _huber(delta: Any, r: Any) -> Any:
    size = abs(r)
    near = choose(size <= delta, 0.5 * r * r, delta * (size - 0.5 * delta))
    return choose(delta < 0, np.inf, near)


_COMPOSED: dict[str, Callable[..., Any]] = {
    "cbrt": np.cbrt,
    "entr": _entr,
    "erf": lambda x: emit("erf", x),
    "exp10": lambda x: np.power(10.0, x),
    "exp2": np.exp2,
    "expit": lambda x: emit("sigmoid", x),
    "expm1": np.expm1,
    "huber": _huber,
    "kl_div": _kl_div,
    "log1p": np.log1p,
    "log_expit": lambda x: -np.logaddexp(0.0, -x),
    "rel_entr": _rel_entr,
    "xlog1py": _xlog1py,
    "xlogy": _xlogy,
}
"""Compositions by name; operands are floats of one dtype."""


def _composition(ufunc: np.ufunc, body: Callable[..., Any]) -> Callable[..., Any]:
    def call(*operands: Any) -> Any:
        parts = promoted(ufunc, *operands)[0]
        if any(p.type.dtype.is_complex for p in parts):
            return _called(ufunc)(*operands)
        return body(*parts)

    return call


def _called(ufunc: np.ufunc) -> Callable[..., Any]:
    def call(*operands: Any) -> Any:
        dtypes = ufunc_dtypes(ufunc, tuple(kind_of(o) for o in operands))
        parts: list[Proxy] = [lift(o, d) for o, d in zip(operands, dtypes, strict=False)]
        results = call_library(f"{PREFIX}{ufunc.__name__}", *parts)
        return results[0] if ufunc.nout == 1 else tuple(results)

    return call


def _enter(module: Any) -> None:
    for name, ufunc in vars(module).items():
        if isinstance(ufunc, np.ufunc) and ufunc not in UFUNCS and ufunc.signature is None:
            body = _COMPOSED.get(name)
            made = _called(ufunc) if body is None else _composition(ufunc, body)
            made.__name__ = made.__qualname__ = name
            UFUNCS[ufunc] = with_options(made)


_enter(sys.modules["scipy.special"])
