"""NumPy's statistics on traced arrays: covariances, and reductions without nan."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.dims import Dim
from ...ir.dtype import FLOAT64
from ...ir.errors import LoopwrightValueError
from ...ir.graph.requirements import greater, require
from ..core.dispatch import FUNCTIONS, implements
from ..core.emitting import dtype_argument, emit, lift, one_array
from ..core.proxy import Proxy
from .creation import number
from .elementwise import where
from .reductions import spread
from .shaping import atleast_2d


@implements(np.cov)
def _cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    x = lift(m)
    if x.ndim > 2 or (y is not None and lift(y).ndim > 2):
        raise LoopwrightValueError("m has more than 2 dimensions")
    if dtype is None:
        dtype = FUNCTIONS[np.result_type](x, np.float64, *([] if y is None else [lift(y)]))
    x = lift(atleast_2d(x), dtype_argument(dtype))
    if not rowvar and lift(m).ndim != 1:
        x = x.T
    if y is not None:
        other = lift(atleast_2d(y), dtype_argument(dtype))
        message = "cov: a vector, or as many rows"
        transposed = not rowvar and require(other.shape[0], "!=", 1, message)
        x = FUNCTIONS[np.concatenate]([x, other.T if transposed else other])
    ddof = (0 if bias else 1) if ddof is None else ddof
    count = x.shape[1]
    if fweights is None and aweights is None:
        product = _products(x, None, np.mean(x, 1, keepdims=True))
        if isinstance(count, Dim):
            return one_array(
                lift(np.squeeze(product / number(greater(count - ddof, 0), x.type.dtype)))
            )
        c = product / max(count - ddof, 0) if count > ddof else product * math.nan
        return one_array(lift(np.squeeze(c)))
    weights = [lift(w, FLOAT64) for w in (fweights, aweights) if w is not None]
    weight = weights[0] if len(weights) == 1 else weights[0] * weights[1]
    total = np.sum(weight)
    product = _products(x, weight, np.sum(x * weight, 1, keepdims=True) / total)
    if ddof == 0 or aweights is None:
        factor = total - ddof
    else:
        factor = total - ddof * np.sum(weight * weights[-1]) / total
    return one_array(lift(np.squeeze(product / np.maximum(factor, 0.0))))


def _products(x: Proxy, weight: Proxy | None, mean: Any) -> Any:
    centred = x - mean
    return np.matmul(centred, np.conj((centred if weight is None else centred * weight).T))


@implements(np.corrcoef)
def _corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    c = _cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return c / c
    diagonal: Any = np.diagonal(c)
    deviation = np.sqrt(diagonal.real)
    r: Any = c / deviation[:, None] / deviation[None, :]
    if r.type.dtype.is_complex:
        return emit("complex", np.clip(r.real, -1, 1), np.clip(r.imag, -1, 1))
    return np.clip(r, -1, 1)


def _filled(a: Any, value: float) -> Proxy:
    """``a`` with ``value`` in the place of nan."""
    x = lift(a)
    return where(np.isnan(x), value, x) if x.type.dtype.is_inexact else x


implements(np.nanvar)(spread(False, skips_nan=True))
implements(np.nanstd)(spread(True, skips_nan=True))


def _without_nan(function: Callable[..., Any], instead: float) -> Callable[..., Any]:
    def call(a: Any, *args: Any, **kwargs: Any) -> Any:
        return function(_filled(a, instead), *args, **kwargs)

    vars(call)["__signature__"] = inspect.signature(FUNCTIONS[function])
    return call


implements(np.nansum)(_without_nan(np.sum, 0))
implements(np.nanprod)(_without_nan(np.prod, 1))
implements(np.nancumsum)(_without_nan(np.cumsum, 0))
implements(np.nancumprod)(_without_nan(np.cumprod, 1))
implements(np.nanargmax)(_without_nan(np.argmax, -math.inf))
implements(np.nanargmin)(_without_nan(np.argmin, math.inf))
