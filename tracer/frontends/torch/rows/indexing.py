"""Gathers and scatters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....emitting import lift
from ....proxy import Proxy
from ..table import Value, aten

__all__ = ["lift_for"]


def lift_for(x: Value, *indices: Value) -> Value:
    """Returns ``x``, traced if one of the ``indices`` is: NumPy's arrays take only arrays."""
    return lift(x) if any(type(i) is Proxy for i in indices) else x


@aten("embedding.default")
def _embedding(
    weight: Value,
    indices: Value,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    return np.take(lift_for(weight, indices), indices, axis=0)


@aten("index_select.default")
def _index_select(self: Value, dim: int, index: Value) -> Value:
    return np.take(lift_for(self, index), index, axis=dim) if self.ndim else self


@aten("index.Tensor", "_unsafe_index.Tensor")
def _index(self: Value, indices: Sequence[Value | None]) -> Value:
    traced = lift_for(self, *(i for i in indices if i is not None))
    return traced[tuple(slice(None) if i is None else i for i in indices)]


@aten("gather.default")
def _gather(self: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Value:
    if not self.ndim:
        return np.broadcast_to(self, index.shape)
    axis = dim % self.ndim
    part = tuple(slice(None) if a == axis else slice(0, s) for a, s in enumerate(index.shape))
    return np.take_along_axis(self[part], index, axis=axis)
