"""Tensors from nothing but sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .....ir.dims import Dim
from ....numpy.creation import arange, full
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


aten("full.default", "new_full.default", ignores=_NEW)(
    lambda size, fill_value: filled(size, fill_value)
)
aten("full_like.default")(lambda self, fill_value: filled(self.shape, fill_value))
aten(
    "zeros.default",
    "empty.memory_format",
    "new_zeros.default",
    "new_empty.default",
    "_efficientzerotensor.default",
    "empty_permuted.default",
    "empty_strided.default",
    "new_empty_strided.default",
    ignores=_PLACED,
)(lambda size: filled(size, 0.0))


@aten("scalar_tensor.default")
def _scalar_tensor(s: Any) -> Value:
    return np.asarray(s)


@aten("prims.iota.default", ignores=("requires_grad",))  # gradients are graphs of their own
def _iota(length: int, *, start: int, step: int) -> Value:
    return _counted(0, length, 1) * step + start
