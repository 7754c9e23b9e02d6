"""Tensors from nothing but sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .....ir.dims import Dim
from ....creation import arange, full
from ..table import Value, aten


def filled(sizes: Sequence[Any], value: Any) -> Value:
    """Returns an array filled with ``value``; sizes may be symbolic."""
    symbolic = any(isinstance(size, Dim) for size in sizes)
    return (full if symbolic else np.full)(tuple(sizes), value)


def _counted(start: Any, end: Any, step: Any) -> Value:
    symbolic = any(isinstance(each, Dim) for each in (start, end, step))
    return (arange if symbolic else np.arange)(start, end, step)


_NEW = ("self",)  # gives its dtype, which the result has already
_PLACED = ("self", "stride", "physical_layout")  # the order of axes in memory is the importer's


@aten("full.default", "new_full.default", ignores=_NEW)
def _full(size: Sequence[int], fill_value: Any) -> Value:
    return filled(size, fill_value)


@aten("full_like.default")
def _full_like(self: Value, fill_value: Any) -> Value:
    return filled(self.shape, fill_value)


@aten(
    "zeros.default",
    "empty.memory_format",
    "new_zeros.default",
    "new_empty.default",
    "empty_permuted.default",
    "empty_strided.default",
    "new_empty_strided.default",
    ignores=_PLACED,
)
def _zeros(size: Sequence[int]) -> Value:
    return filled(size, 0.0)


@aten("ones.default", "new_ones.default", ignores=_NEW)
def _ones(size: Sequence[int]) -> Value:
    return filled(size, 1.0)


@aten("zeros_like.default", "empty_like.default")
def _zeros_like(self: Value) -> Value:
    return filled(self.shape, 0.0)


@aten("ones_like.default")
def _ones_like(self: Value) -> Value:
    return filled(self.shape, 1.0)


@aten("scalar_tensor.default")
def _scalar_tensor(s: Any) -> Value:
    return np.asarray(s)


@aten("arange.default")
def _arange(end: Any) -> Value:
    return _counted(0, end, 1)


@aten("arange.start")
def _arange_start(start: Any, end: Any) -> Value:
    return _counted(start, end, 1)


@aten("arange.start_step")
def _arange_step(start: Any, end: Any, step: Any = 1) -> Value:
    return _counted(start, end, step)


@aten("prims.iota.default", ignores=("requires_grad",))  # gradients are graphs of their own
def _iota(length: int, *, start: int, step: int) -> Value:
    return _counted(0, length, 1) * step + start


@aten("eye.default")
def _eye(n: int) -> Value:
    return np.eye(n)


@aten("eye.m")
def _eye_m(n: int, m: int) -> Value:
    return np.eye(n, m)


@aten("tril.default")
def _tril(self: Value, diagonal: int = 0) -> Value:
    return np.tril(self, diagonal)


@aten("triu.default")
def _triu(self: Value, diagonal: int = 0) -> Value:
    return np.triu(self, diagonal)
