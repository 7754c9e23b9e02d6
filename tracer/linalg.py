"""``np.linalg`` on traced arrays: LAPACK's routines as library calls, and what is made of them.

NumPy computes in double precision and rounds to the operands' dtype, and so does this.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.dtype import DTYPES, DType
from ..ir.errors import LoopwrightTypeError
from .dispatch import implements
from .emitting import call_library, common_strong, lift
from .proxy import Proxy

__all__: list[str] = []


def _call(function: str, *operands: Proxy, **options: Any) -> list[Proxy]:
    """Emits the call of a library function of ``np.linalg``; returns its results."""
    return call_library(f"numpy.linalg.{function}", *operands, **options)


def _wide(*values: Any) -> tuple[DType, list[Proxy]]:
    """Returns the dtype of results, and the operands in the one LAPACK computes in."""
    parts = common_strong(*values)
    dtype = parts[0].type.dtype
    if not dtype.is_float:
        dtype = DTYPES["float64"]
    return dtype, [lift(p, DTYPES["float64"]) for p in parts]


def _square(name: str, a: Proxy) -> None:
    if a.ndim < 2:
        raise LoopwrightTypeError(f"np.linalg.{name} takes matrices, not {a.type.short}")
    if a.shape[-1] != a.shape[-2]:
        raise LoopwrightTypeError(f"np.linalg.{name} takes square matrices, not {a.type.short}")


@implements(np.linalg.solve)
def _solve(a: Any, b: Any) -> Proxy:
    dtype, (matrix, right) = _wide(a, b)
    _square("solve", matrix)
    if right.ndim == 1:
        result = _call("solve", matrix, right[:, None])[0][..., 0]
    else:
        (result,) = _call("solve", matrix, right)
    return lift(result, dtype)
