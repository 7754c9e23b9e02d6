"""Operators that read or write elements at computed places."""

from __future__ import annotations

import numpy as np

from ...emitting import lift
from ...trace import active
from .table import Value, converter

__all__: list[str] = []


def _operand(x: Value) -> Value:
    """``x`` as what NumPy dispatches on: its functions look at their first operand alone."""
    return x if active() is None else lift(x)


@converter("Gather", since=1)
def _gather(data: Value, indices: Value, *, axis: int = 0) -> Value:
    return np.take(_operand(data), indices, axis=axis)


@converter("GatherElements", since=11)
def _gather_elements(data: Value, indices: Value, *, axis: int = 0) -> Value:
    return np.take_along_axis(_operand(data), indices, axis)
