"""Gathers and scatters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .....ir.errors import UnsupportedError
from .... import nn
from ....core.emitting import lift
from ....core.proxy import Proxy
from ....core.runtime_checks import check
from ....numpy.data_sizes import argwhere, flatnonzero
from ..derivatives import pulled_back
from ..table import Value, aten
from ..tensors import is_float


def lift_for(x: Value, *indices: Value) -> Value:
    """Returns ``x``, traced if one of the ``indices`` is: NumPy's arrays take only arrays."""
    return lift(x) if any(type(i) is Proxy for i in indices) else x


@aten(
    "embedding.default",
    ignores=("padding_idx", "scale_grad_by_freq", "sparse"),  # they are about gradients
)
def _embedding(weight: Value, indices: Value) -> Value:
    return np.take(lift_for(weight, indices), indices, axis=0)


@aten("embedding_dense_backward.default")
def _embedding_backward(
    grad_output: Value,
    indices: Value,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> Value:
    if scale_grad_by_freq:
        raise UnsupportedError("embedding with scale_grad_by_freq")
    if padding_idx >= 0:
        grad_output = np.where(np.expand_dims(indices == padding_idx, -1), 0, grad_output)
    weight = np.zeros((num_weights, grad_output.shape[-1]), grad_output.dtype)
    return pulled_back(lambda w: _embedding(w, indices), grad_output, weight)[0]


def _refuse_masks(indices: Sequence[Value | None]) -> None:
    if any(i is not None and i.dtype == np.bool_ for i in indices):
        raise UnsupportedError("the size of x[mask] depends on data", hint="torch.where")


def _masked_put(self: Value, axis: int, mask: Value, values: Value, accumulate: bool) -> Value:
    """The k-th of the places where the mask is true gets the k-th of the values."""
    behind = self.ndim - axis - mask.ndim
    at = values.ndim - 1 - behind
    if at >= 0:
        count, inner = values.shape[at], (1,) * mask.ndim
        if count != 1:
            total = np.sum(mask)
            message = f"{count} values for {{}} places where a mask is true"
            check(total != count, IndexError, message, total)
            if not count:
                return self
            place = np.clip(np.cumsum(np.reshape(mask, (-1,))) - 1, 0, count - 1)
            values, inner = np.take(lift_for(values, place), place, axis=at), mask.shape
        front, back = values.shape[:at], values.shape[at + 1 :]
        values = np.reshape(values, (*front, *inner, *back))
    wide = np.reshape(mask, (*mask.shape, *(1,) * behind))
    return np.where(wide, self + values if accumulate else values, self)


@aten("index.Tensor", "_unsafe_index.Tensor")
def _index(self: Value, indices: Sequence[Value | None]) -> Value:
    """A mask chooses as many elements as it has places that are true."""
    traced = lift_for(self, *(i for i in indices if i is not None))
    return traced[tuple(slice(None) if i is None else i for i in indices)]


@aten("index_put.default", "_unsafe_index_put.default")
def _index_put(
    self: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False
) -> Value:
    """Indexed axes go to the front; the indices of an element are the last axis of the places."""
    if not self.ndim:
        one = np.reshape(self, (1,))
        return np.reshape(_index_put(one, [np.zeros(1, np.int64)], values, accumulate), ())
    axes = [a for a, i in enumerate(indices) if i is not None]
    given = [i for i in indices if i is not None]
    if len(given) == 1 and given[0].dtype == np.bool_:
        return _masked_put(self, axes[0], given[0], values, accumulate)
    _refuse_masks(indices)
    shape = np.broadcast_shapes(*(tuple(i.shape) for i in given))
    rest = [a for a in range(self.ndim) if a not in axes]
    order = (*axes, *rest)
    places = np.stack([np.broadcast_to(i, shape) for i in given], axis=-1)
    # The result of indexing has the indexed axes where they stand together, else in front.
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    front = axes[0] if together else 0
    sizes = [self.shape[a] for a in rest]
    target = (*sizes[:front], *shape, *sizes[front:])
    wide = np.broadcast_to(values, target)
    indexed = tuple(range(front, front + len(shape)))
    moved = np.moveaxis(wide, indexed, tuple(range(len(shape))))
    reduction = "add" if accumulate else "none"
    result = nn.scatter_nd(np.transpose(self, order), places, moved, reduction=reduction)
    return np.transpose(result, tuple(np.argsort(order).tolist()))


@aten("gather.default", ignores=("sparse_grad",))  # is about the gradient
def _gather(self: Value, dim: int, index: Value) -> Value:
    if not self.ndim:
        return np.broadcast_to(self, index.shape)
    axis = dim % self.ndim
    part = tuple(slice(None) if a == axis else slice(0, s) for a, s in enumerate(index.shape))
    return np.take_along_axis(self[part], index, axis=axis)


def _scattered(self: Value, dim: int, index: Value, src: Value, reduction: str) -> Value:
    if not self.ndim:
        one = np.reshape(self, (1,)), np.reshape(index, (1,)), np.reshape(src, (1,))
        return np.reshape(_scattered(one[0], 0, one[1], one[2], reduction), ())
    if not index.size:
        return self
    part = src[tuple(slice(0, size) for size in index.shape)]
    return nn.scatter_elements(self, index, part, axis=dim % self.ndim, reduction=reduction)


@aten("scatter.src")
def _scatter(self: Value, dim: int, index: Value, src: Value) -> Value:
    return _scattered(self, dim, index, src, "none")


@aten("scatter.value")
def _scatter_value(self: Value, dim: int, index: Value, value: Any) -> Value:
    return _scattered(self, dim, index, np.full(index.shape, value, self.dtype), "none")


@aten("scatter.reduce")
def _scatter_joined(self: Value, dim: int, index: Value, src: Value, *, reduce: str) -> Value:
    return _scattered(self, dim, index, src, {"add": "add", "multiply": "mul"}[reduce])


@aten("scatter.value_reduce")
def _scatter_joined_value(self: Value, dim: int, index: Value, value: Any, *, reduce: str) -> Value:
    return _scatter_joined(self, dim, index, np.full(index.shape, value, self.dtype), reduce=reduce)


@aten("scatter_add.default")
def _scatter_add(self: Value, dim: int, index: Value, src: Value) -> Value:
    return _scattered(self, dim, index, src, "add")


_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "add"}


@aten("scatter_reduce.two")
def _scatter_reduce(
    self: Value, dim: int, index: Value, src: Value, reduce: str, *, include_self: bool = True
) -> Value:
    """Without ``include_self`` an element that is written to starts at the neutral value."""
    if self.dtype == np.bool_:  # a sum or a product of ones and zeros
        ints = self.astype(np.int64), src.astype(np.int64)
        return _scatter_reduce(ints[0], dim, index, ints[1], reduce, include_self=include_self)
    start = self
    ones = np.ones(index.shape, self.dtype)
    touched = _scattered(np.zeros(self.shape, self.dtype), dim, index, ones, "add")
    if not include_self:
        least, most = (
            (-np.inf, np.inf)
            if is_float(self)
            else (np.iinfo(self.dtype).min, np.iinfo(self.dtype).max)
        )
        neutral = {"sum": 0, "mean": 0, "prod": 1, "amax": least, "amin": most}[reduce]
        start = np.where(touched > 0, np.asarray(neutral, self.dtype), self)
    result = _scattered(start, dim, index, src, _REDUCTIONS[reduce])
    if reduce != "mean":
        return result
    count = np.maximum(touched + 1 if include_self else touched, 1)
    return result / count if is_float(self) else np.floor_divide(result, count)


@aten("index_reduce.default")
def _index_reduce(
    self: Value, dim: int, index: Value, source: Value, reduce: str, *, include_self: bool = True
) -> Value:
    """Each index is that of a whole row."""
    if not self.ndim:
        index = np.reshape(index, ())
        return _scatter_reduce(self, 0, index, source, reduce, include_self=include_self)
    column = np.reshape(index, [-1] + [1] * ((source.ndim - 1 - dim) % source.ndim))
    wide = np.broadcast_to(column, source.shape)
    return _scatter_reduce(self, dim, wide, source, reduce, include_self=include_self)


@aten("index_add.default")
def _index_add(self: Value, dim: int, index: Value, source: Value, *, alpha: Any = 1) -> Value:
    source = source if alpha == 1 else source * alpha
    if not self.ndim:
        return self + np.sum(source)
    return _index_put(self, [None] * (dim % self.ndim) + [index], source, True)


@aten("masked_scatter.default")
def _masked_scatter(self: Value, mask: Value, source: Value) -> Value:
    """The k-th element where the mask is true is the k-th of the source."""
    shape = np.broadcast_shapes(self.shape, mask.shape)
    mask = np.broadcast_to(mask, shape)
    flat = np.reshape(mask, (-1,))
    place = np.where(flat, np.cumsum(flat.astype(np.int64)), 0)
    parts = [np.zeros(1, self.dtype), np.reshape(source, (-1,))]
    taken = np.take(lift(np.concatenate([lift(part) for part in parts])), place)
    return np.where(mask, np.reshape(taken, shape), self)


@aten("masked_scatter_backward.default")
def _masked_scatter_backward(grad_output: Value, mask: Value, sizes: Sequence[int]) -> Value:
    """The gradients where the mask is true, in their order, and zeros behind them."""
    mask = np.broadcast_to(mask, grad_output.shape)
    place = flatnonzero(mask, size=math.prod(sizes), fill_value=-1)
    flat = np.reshape(grad_output, (-1,))
    taken = np.take(lift_for(flat, place), np.maximum(place, 0)) if flat.size else np.zeros(0)
    return np.reshape(np.where(place < 0, 0, taken), tuple(sizes))


@aten("masked_select.default")
def _masked_select(self: Value, mask: Value) -> Value:
    shape = np.broadcast_shapes(self.shape, mask.shape)
    flat, chosen = (np.reshape(np.broadcast_to(x, shape), (-1,)) for x in (self, mask))
    return lift_for(flat, chosen)[chosen]


@aten("nonzero.default")
def _nonzero(self: Value) -> Value:
    return np.argwhere(self) if self.ndim else np.argwhere(np.reshape(self, (1,)))[:, :0]


@aten("nonzero_static.default")
def _nonzero_static(self: Value, *, size: int, fill_value: int = -1) -> Value:
    if not self.ndim:
        return np.zeros((size, 0), np.int64)
    return argwhere(self, size=size, fill_value=fill_value)


@aten("put.default")
def _put(self: Value, index: Value, source: Value, accumulate: bool = False) -> Value:
    flat = np.reshape(self, (-1,))
    put = _index_put(flat, [np.reshape(index, (-1,))], np.reshape(source, (-1,)), accumulate)
    return np.reshape(put, self.shape)
