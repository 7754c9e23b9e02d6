"""Reductions, scans and sorts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import nn
from ..table import Value, aten


def _axes(dim: Any) -> Any:
    """Returns NumPy's axes: None for all, also where no axis is given."""
    if dim is None or isinstance(dim, int):
        return dim
    return tuple(dim) or None


def _whole(dim: Any, self: Value) -> Any:
    """As ``_axes``; a tensor without axes has none to reduce."""
    return None if not self.ndim else _axes(dim)


@aten("sum.default", promote="result")
def _sum_all(self: Value) -> Value:
    return np.sum(self)


@aten("sum.dim_IntList", promote="result")
def _sum(self: Value, dim: Any, keepdim: bool = False) -> Value:
    return np.sum(self, axis=_whole(dim, self), keepdims=keepdim)


@aten("mean.default", promote="result")
def _mean_all(self: Value) -> Value:
    return np.mean(self)


@aten("mean.dim", promote="result")
def _mean(self: Value, dim: Any, keepdim: bool = False) -> Value:
    return np.mean(self, axis=_whole(dim, self), keepdims=keepdim)


@aten("prod.default", promote="result")
def _prod_all(self: Value) -> Value:
    return np.prod(self)


@aten("prod.dim_int", promote="result")
def _prod(self: Value, dim: int, keepdim: bool = False) -> Value:
    return np.prod(self, axis=_whole(dim, self), keepdims=keepdim)


@aten("amax.default")
def _amax(self: Value, dim: Sequence[int] = (), keepdim: bool = False) -> Value:
    return np.max(self, axis=_whole(dim, self), keepdims=keepdim)


@aten("amin.default")
def _amin(self: Value, dim: Sequence[int] = (), keepdim: bool = False) -> Value:
    return np.min(self, axis=_whole(dim, self), keepdims=keepdim)


@aten("max.default")
def _max_all(self: Value) -> Value:
    return np.max(self)


@aten("min.default")
def _min_all(self: Value) -> Value:
    return np.min(self)


@aten("argmax.default")
def _argmax(self: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return np.argmax(self, axis=_whole(dim, self), keepdims=keepdim)


@aten("argmin.default")
def _argmin(self: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return np.argmin(self, axis=_whole(dim, self), keepdims=keepdim)


@aten("max.dim")
def _max(self: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    axis = _whole(dim, self)
    return np.max(self, axis=axis, keepdims=keepdim), np.argmax(self, axis=axis, keepdims=keepdim)


@aten("min.dim")
def _min(self: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    axis = _whole(dim, self)
    return np.min(self, axis=axis, keepdims=keepdim), np.argmin(self, axis=axis, keepdims=keepdim)


@aten("any.default")
def _any_all(self: Value) -> Value:
    return np.any(self)


@aten("any.dim", "any.dims")
def _any(self: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return np.any(self, axis=_whole(dim, self), keepdims=keepdim)


@aten("all.default")
def _all_all(self: Value) -> Value:
    return np.all(self)


@aten("all.dim", "all.dims")
def _all(self: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return np.all(self, axis=_whole(dim, self), keepdims=keepdim)


def _variance(self: Value, dim: Any, correction: Any, keepdim: bool) -> Value:
    return np.var(
        self,
        axis=_whole(dim, self),
        ddof=1 if correction is None else correction,
        keepdims=keepdim,
    )


@aten("var.correction")
def _var(self: Value, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Value:
    return _variance(self, dim, correction, keepdim)


@aten("var.dim")
def _var_dim(self: Value, dim: Any, unbiased: bool = True, keepdim: bool = False) -> Value:
    return _variance(self, dim, int(unbiased), keepdim)


@aten("var_mean.correction")
def _var_mean(
    self: Value, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[Value, Value]:
    mean = np.mean(self, axis=_whole(dim, self), keepdims=keepdim)
    return _variance(self, dim, correction, keepdim), mean


_HALF = ("half_to_float",)  # the result's dtype says the same


@aten("_softmax.default", promote="result", ignores=_HALF)
def _softmax(self: Value, dim: int) -> Value:
    return nn.softmax(self, dim) if self.ndim else np.ones_like(self)


@aten("_log_softmax.default", promote="result", ignores=_HALF)
def _log_softmax(self: Value, dim: int) -> Value:
    return nn.log_softmax(self, dim) if self.ndim else np.zeros_like(self)


@aten("logsumexp.default")
def _logsumexp(self: Value, dim: Any, keepdim: bool = False) -> Value:
    axes = _whole(dim, self)
    top = np.max(self, axis=axes, keepdims=True)
    shift = np.where(np.isfinite(top), top, 0)
    total = np.log(np.sum(np.exp(self - shift), axis=axes, keepdims=True)) + shift
    return total if keepdim else np.squeeze(total, axis=axes)


@aten("cumsum.default", promote="result")
def _cumsum(self: Value, dim: int) -> Value:
    return np.cumsum(self, axis=dim) if self.ndim else self


@aten("cumprod.default", promote="result")
def _cumprod(self: Value, dim: int) -> Value:
    return np.cumprod(self, axis=dim) if self.ndim else self
