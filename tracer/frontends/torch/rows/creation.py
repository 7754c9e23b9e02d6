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


@aten("full.default", "new_full.default")
def _full(*args: Any, **kwargs: Any) -> Value:
    """The last two positions are the sizes and the value."""
    return filled(args[-2], args[-1])


@aten("full_like.default")
def _full_like(self: Value, fill_value: Any, **kwargs: Any) -> Value:
    return filled(self.shape, fill_value)


@aten(
    "zeros.default",
    "empty.memory_format",
    "new_zeros.default",
    "new_empty.default",
    "empty_permuted.default",
)
def _zeros(*args: Any, **kwargs: Any) -> Value:
    sizes = args[1] if isinstance(args[0], np.ndarray | np.generic) else args[0]
    return filled(sizes, 0.0)


@aten("empty_strided.default", "new_empty_strided.default")
def _empty_strided(*args: Any, **kwargs: Any) -> Value:
    return filled(args[-2], 0.0)


@aten("ones.default")
def _ones(size: Sequence[int], **kwargs: Any) -> Value:
    return filled(size, 1.0)


@aten("new_ones.default")
def _new_ones(self: Value, size: Sequence[int], **kwargs: Any) -> Value:
    return filled(size, 1.0)


@aten("zeros_like.default", "empty_like.default")
def _zeros_like(self: Value, **kwargs: Any) -> Value:
    return filled(self.shape, 0.0)


@aten("ones_like.default")
def _ones_like(self: Value, **kwargs: Any) -> Value:
    return filled(self.shape, 1.0)


@aten("scalar_tensor.default")
def _scalar_tensor(s: Any, **kwargs: Any) -> Value:
    return np.asarray(s)


@aten("arange.default")
def _arange(end: Any, **kwargs: Any) -> Value:
    return _counted(0, end, 1)


@aten("arange.start")
def _arange_start(start: Any, end: Any, **kwargs: Any) -> Value:
    return _counted(start, end, 1)


@aten("arange.start_step")
def _arange_step(start: Any, end: Any, step: Any = 1, **kwargs: Any) -> Value:
    return _counted(start, end, step)


@aten("prims.iota.default")
def _iota(length: int, *, start: int, step: int, **kwargs: Any) -> Value:
    return _counted(0, length, 1) * step + start


@aten("eye.default")
def _eye(n: int, **kwargs: Any) -> Value:
    return np.eye(n)


@aten("eye.m")
def _eye_m(n: int, m: int, **kwargs: Any) -> Value:
    return np.eye(n, m)


@aten("tril.default")
def _tril(self: Value, diagonal: int = 0) -> Value:
    return np.tril(self, diagonal)


@aten("triu.default")
def _triu(self: Value, diagonal: int = 0) -> Value:
    return np.triu(self, diagonal)
