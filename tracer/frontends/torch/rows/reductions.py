"""Reductions and scans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .....ir.errors import UnsupportedError
from .... import nn
from ....core.emitting import lift
from ..table import Value, aten
from ..tensors import is_float


def _axes(dim: Any) -> Any:
    """Returns NumPy's axes: None for all, also where no axis is given."""
    if dim is None or isinstance(dim, int):
        return dim
    return tuple(dim) or None


def _whole(dim: Any, self: Value) -> Any:
    """As ``_axes``; a tensor without axes has none to reduce."""
    return None if not self.ndim else _axes(dim)


def accumulated(x: Value) -> Value:
    """Returns ``x`` to be reduced, traced if NumPy would add up its elements in bfloat16."""
    return x if is_float(x) == (x.dtype.kind == "f") else lift(x)


def _reduction(function: Callable[..., Value]) -> Callable[..., Value]:
    def reduced(self: Value, dim: Any = None, keepdim: bool = False) -> Value:
        return function(accumulated(self), axis=_whole(dim, self), keepdims=keepdim)

    return reduced


for _names, _function in {
    ("sum.default", "sum.dim_IntList"): np.sum,
    ("mean.default", "mean.dim"): np.mean,
    ("prod.default", "prod.dim_int"): np.prod,
}.items():
    aten(*_names, promote="result")(_reduction(_function))

for _names, _function in {
    ("amax.default", "max.default"): np.max,
    ("amin.default", "min.default"): np.min,
    ("argmax.default",): np.argmax,
    ("argmin.default",): np.argmin,
    ("any.default", "any.dim", "any.dims"): np.any,
    ("all.default", "all.dim", "all.dims"): np.all,
}.items():
    aten(*_names)(_reduction(_function))


def _with_place(value: Callable[..., Value], place: Callable[..., Value]) -> Callable[..., Value]:
    def extreme(self: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
        axis = _whole(dim, self)
        return value(self, axis=axis, keepdims=keepdim), place(self, axis=axis, keepdims=keepdim)

    return extreme


aten("max.dim")(_with_place(np.max, np.argmax))
aten("min.dim")(_with_place(np.min, np.argmin))


@aten("var.correction", "var.dim")
def _variance(
    self: Value,
    dim: Any = None,
    unbiased: bool = True,
    correction: Any = None,
    keepdim: bool = False,
) -> Value:
    ddof = int(unbiased) if correction is None else correction
    return np.var(accumulated(self), axis=_whole(dim, self), ddof=ddof, keepdims=keepdim)


@aten("var_mean.correction")
def _var_mean(
    self: Value, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[Value, Value]:
    mean = np.mean(accumulated(self), axis=_whole(dim, self), keepdims=keepdim)
    return _variance(self, dim, True, correction, keepdim), mean


def _along(function: Callable[..., Value], of_one: Callable[..., Value]) -> Callable[..., Value]:
    """A function of one axis; ``of_one`` gives the result of a tensor without axes."""

    def along(self: Value, dim: int) -> Value:
        return function(self, dim) if self.ndim else of_one(self)

    return along


_HALF = ("half_to_float",)  # the result's dtype says the same
aten("_softmax.default", promote="result", ignores=_HALF)(_along(nn.softmax, np.ones_like))
aten("_log_softmax.default", promote="result", ignores=_HALF)(_along(nn.log_softmax, np.zeros_like))
aten("cumsum.default", promote="result")(_along(np.cumsum, np.positive))
aten("cumprod.default", promote="result")(_along(np.cumprod, np.positive))


@aten("logcumsumexp.default")
def _logcumsumexp(self: Value, dim: int) -> Value:
    if self.dtype.kind == "c":
        raise UnsupportedError("logcumsumexp of complex numbers is not supported")
    return np.logaddexp.accumulate(self, axis=dim) if self.ndim else self


def _cumulative(ufunc: Any) -> Callable[..., tuple[Value, Value]]:
    """The extremum so far, and where it is: the last of several; nan is one."""

    def extremes(self: Value, dim: int) -> tuple[Value, Value]:
        if not self.ndim:
            return self, np.zeros((), np.int64)
        values = ufunc.accumulate(self, axis=dim)
        at = np.arange(self.shape[dim]).reshape([-1] + [1] * ((self.ndim - 1 - dim) % self.ndim))
        reached = np.logical_or(self == values, self != self)
        return values, np.maximum.accumulate(np.where(reached, at, 0), axis=dim)

    return extremes


aten("cummax.default")(_cumulative(np.maximum))
aten("cummin.default")(_cumulative(np.minimum))
