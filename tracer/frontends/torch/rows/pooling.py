"""Pooling, forward and backward, along one to three spatial axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .....ir.errors import UnsupportedError
from .... import nn
from ....core.emitting import lift
from ..derivatives import pulled_back
from ..table import Value, aten
from ..tensors import is_float


def per_axis(value: Any, rank: int) -> tuple[int, ...]:
    """Returns an attribute with one int per axis; one int stands for all."""
    given = (value,) if isinstance(value, int) else tuple(value)
    return given * rank if len(given) == 1 else given


def _batched(x: Value, rank: int) -> Value:
    return x if x.ndim == rank + 2 else np.expand_dims(x, 0)


def _unbatched(result: Value, like: Value, rank: int) -> Value:
    return result if like.ndim == rank + 2 else np.squeeze(result, 0)


def _divisors(
    sizes: Sequence[int],
    counts: Sequence[int],
    window: Sequence[int],
    step: Sequence[int],
    pads: Sequence[int],
    count_include_pad: bool,
) -> Any:
    """Returns how many elements each window holds. What lies behind the padding never counts."""
    total: Any = np.ones((), np.int64)
    for axis, (size, count, k, s, p) in enumerate(zip(sizes, counts, window, step, pads)):
        begin = np.arange(count) * s - p
        end = np.minimum(begin + k, size + p)
        if not count_include_pad:
            begin, end = np.maximum(begin, 0), np.minimum(end, size)
        total = total * (end - begin).reshape([-1 if a == axis else 1 for a in range(len(sizes))])
    return total


def _avg_pool(rank: int) -> Any:
    def avg_pool(
        self: Value,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Value:
        if not is_float(self):
            raise UnsupportedError("avg_pool of integers is not supported")
        window = per_axis(kernel_size, rank)
        step, pads = per_axis(stride or window, rank), per_axis(padding, rank)
        sizes = self.shape[-rank:]
        if ceil_mode and all(
            isinstance(size, int) for size in sizes
        ):  # what is behind never counts
            window = tuple(min(k, n + 2 * p) for k, n, p in zip(window, sizes, pads))
        result = nn.avg_pool(
            _batched(self, rank),
            window,
            strides=step,
            padding=pads,
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
        )
        if divisor_override is not None:
            where = (sizes, result.shape[-rank:], window, step, pads)
            counts = _divisors(*where, count_include_pad)
            result = result * (counts / divisor_override).astype(self.dtype)
        return _unbatched(result, self, rank)

    return avg_pool


for _rank in (1, 2, 3):
    aten(f"avg_pool{_rank}d.default")(_avg_pool(_rank))


@aten("avg_pool2d_backward.default", "avg_pool3d_backward.default")
def _avg_pool_backward(grad_output: Value, self: Value, kernel_size: Any, *how: Any) -> Value:
    pool = _avg_pool(len(kernel_size))
    return pulled_back(lambda x: pool(x, kernel_size, *how), grad_output, self)[0]


def _pooled(
    pool: Any,
    self: Value,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    rank = len(kernel_size)
    window = per_axis(kernel_size, rank)
    return pool(
        _batched(self, rank),
        window,
        strides=per_axis(stride or window, rank),
        padding=per_axis(padding, rank),
        dilation=per_axis(dilation, rank),
        ceil_mode=ceil_mode,
    )


@aten("max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def _max_pool(self: Value, kernel_size: Any, *how: Any) -> tuple[Value, Value]:
    values, places = _pooled(nn.max_pool_with_indices, self, kernel_size, *how)
    rank = len(kernel_size)
    return _unbatched(values, self, rank), _unbatched(places, self, rank)


@aten("max_pool2d_with_indices_backward.default", "max_pool3d_with_indices_backward.default")
def _max_pool_backward(
    grad_output: Value,
    self: Value,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: Value,
) -> Value:
    """Returns the gradient of an element's window where the index is its own, if windows do not
    overlap; else the rule finds the indices again."""
    rank = len(kernel_size)
    window, sizes = per_axis(kernel_size, rank), self.shape[-rank:]
    counts = grad_output.shape[-rank:]
    together = per_axis(stride or window, rank) == window and not any(per_axis(padding, rank))
    if together and sizes == tuple(n * k for n, k in zip(counts, window)):
        outer = self.shape[:-rank]
        places = np.arange(math.prod(sizes)).reshape(sizes)

        def spread(x: Value) -> Value:
            apart = np.reshape(x, (*outer, *(m for n in counts for m in (n, 1))))
            pairs = (m for pair in zip(counts, window) for m in pair)
            return np.reshape(np.broadcast_to(apart, (*outer, *pairs)), self.shape)

        return np.where(spread(indices) == places, spread(grad_output), 0)

    def values(x: Value) -> Value:
        pooled = _pooled(nn.max_pool, x, kernel_size, stride, padding, dilation, ceil_mode)
        return _unbatched(pooled, x, rank)

    return pulled_back(values, grad_output, self)[0]


for _rank in (2, 3):
    aten(f"adaptive_max_pool{_rank}d_backward.default")(
        lambda grad_output, self, indices, rank=_rank: _to_places(grad_output, self, indices, rank)
    )


def _to_places(grad_output: Value, self: Value, indices: Value, rank: int) -> Value:
    """Each gradient goes to the place that was the greatest of its window."""
    size = math.prod(self.shape[-rank:])
    images = math.prod(self.shape) // max(size, 1)
    zeros = np.zeros((images, size), grad_output.dtype)
    places, grads = np.reshape(indices, (images, -1)), np.reshape(grad_output, (images, -1))
    result = nn.scatter_elements(zeros, places, grads, axis=1, reduction="add")
    return np.reshape(result, self.shape)


def _adaptive_avg_pool(rank: int) -> Any:
    def adaptive_avg_pool(self: Value, output_size: Any) -> Value:
        sizes = per_axis(output_size, rank)
        if all(size == 1 for size in sizes):
            return np.mean(self, axis=tuple(range(-rank, 0)), keepdims=True)
        return _unbatched(nn.adaptive_avg_pool(_batched(self, rank), sizes), self, rank)

    return adaptive_avg_pool


aten("_adaptive_avg_pool2d.default")(_adaptive_avg_pool(2))
aten("_adaptive_avg_pool3d.default")(_adaptive_avg_pool(3))
aten("adaptive_avg_pool1d.default")(_adaptive_avg_pool(1))


def _reach(size: int, count: int) -> Any:
    """Returns the places that each of ``count`` windows of an axis covers, a row each. A window
    that is shorter than the longest has its last place several times."""
    begin = np.arange(count) * size // count
    end = -(-(np.arange(count) + 1) * size // count)
    longest = int(np.max(end - begin, initial=0))
    return np.minimum(begin[:, None] + np.arange(longest), end[:, None] - 1)


@aten("adaptive_max_pool2d.default")
def _adaptive_max_pool(self: Value, output_size: Any) -> tuple[Value, Value]:
    rows, columns = (_reach(s, n) for s, n in zip(self.shape[-2:], per_axis(output_size, 2)))
    places = rows[:, None, :, None] * self.shape[-1] + columns[:, None, :]
    places = places.reshape(len(rows), len(columns), -1)
    windows = np.take(np.reshape(self, (*self.shape[:-2], -1)), places, axis=-1)
    greatest = np.argmax(windows, axis=-1)
    chosen = np.take_along_axis(windows, greatest[..., None], axis=-1)
    reached = np.broadcast_to(lift(places), windows.shape)
    where = np.take_along_axis(reached, greatest[..., None], axis=-1)
    return np.squeeze(chosen, -1), np.squeeze(where, -1)


def _adaptive_avg_pool_backward(rank: int) -> Any:
    pool = _adaptive_avg_pool(rank)

    def backward(grad_output: Value, self: Value) -> Value:
        sizes = grad_output.shape[-rank:]
        return pulled_back(lambda x: pool(x, sizes), grad_output, self)[0]

    return backward


for _rank in (2, 3):
    aten(f"_adaptive_avg_pool{_rank}d_backward.default")(_adaptive_avg_pool_backward(_rank))
