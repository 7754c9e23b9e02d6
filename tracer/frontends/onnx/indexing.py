"""Converters of gathers, scatters, orders and scans."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import nn
from ...nn.apply import apply_as_given
from ...numpy.creation import arange
from .table import Value, converter, known, known_ints

# Gathers and scatters.


@converter("Gather", since=1)
def gathered(data: Value, indices: Value, *, axis: int = 0) -> Value:
    """Returns slices of ``data`` along ``axis``; an index outside of it is the nearest inside."""
    return apply_as_given("take", data, indices, axis=axis, mode="clip")


@converter("GatherElements", since=11)
def _gather_elements(data: Value, indices: Value, *, axis: int = 0) -> Value:
    axis = axis % data.ndim
    part = tuple(
        slice(None) if n == axis else slice(0, size) for n, size in enumerate(indices.shape)
    )
    size = data.shape[axis]
    places = np.clip(np.where(indices < 0, indices + size, indices), 0, size - 1)
    return np.take_along_axis(data[part], places, axis)


@converter("GatherND", since=11)
def _gather_nd(data: Value, indices: Value, *, batch_dims: int = 0) -> Value:
    return nn.gather_nd(data, indices, batch_dims)


@converter("Scatter", since=9)
@converter("ScatterElements", since=11)
def _scatter_elements(
    data: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none"
) -> Value:
    return nn.scatter_elements(data, indices, updates, axis, reduction)


@converter("ScatterND", since=11)
def _scatter_nd(data: Value, indices: Value, updates: Value, *, reduction: str = "none") -> Value:
    return nn.scatter_nd(data, indices, updates, reduction)


@converter("TensorScatter", since=24)
def _tensor_scatter(
    past: Value, update: Value, first: Value = None, *, axis: int = -2, mode: str = "linear"
) -> Value:
    """Writes ``update`` into a cache from places along ``axis`` on, one for each of the batch."""
    axis = axis % past.ndim
    cache, new = np.moveaxis(past, axis, 1), np.moveaxis(update, axis, 1)
    batch, count = new.shape[:2]
    first = np.zeros(batch, np.int64) if first is None else first
    places = np.reshape(first, (batch, 1)) + arange(count)
    if mode == "circular":
        places = places % cache.shape[1]
    numbers = np.broadcast_to(arange(batch)[:, None], (batch, count))
    written = nn.scatter_nd(cache, np.stack([numbers, places], axis=-1), new)
    return np.moveaxis(written, 1, axis)


@converter("ReverseSequence", since=10)
def _reverse_sequence(
    x: Value, lengths: Value, *, batch_axis: int = 1, time_axis: int = 0
) -> Value:
    batch, time = batch_axis % x.ndim, time_axis % x.ndim
    steps = arange(x.shape[time]).reshape([-1 if n == time else 1 for n in range(x.ndim)])
    ends = np.reshape(lengths, [-1 if n == batch else 1 for n in range(x.ndim)])
    places = np.where(steps < ends, ends - 1 - steps, steps)
    return np.take_along_axis(x, np.broadcast_to(places, x.shape), time)


# Orders and scans.


# sorted: where the order is open, that of the values will do.
@converter("TopK", since=10, ignores=("sorted",), attributes=(1, {"k": "k"}))
def _top_k(
    x: Value,
    k: Value,
    *,
    axis: int = -1,
    largest: int = 1,
) -> Value:
    """The elements come in order even where the model does not ask for one."""
    (count,) = known_ints(k, "K")
    return nn.top_k(x, count, axis, bool(largest))


def _scan(name: str) -> Any:
    def converted(x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Value:
        (along,) = known_ints(axis, "axis")
        return apply_as_given(name, x, axis=along, exclusive=bool(exclusive), reverse=bool(reverse))

    return converted


converter("CumSum", since=11)(_scan("cumsum"))
converter("CumProd", since=26)(_scan("cumprod"))


# The size of these results is one that data decides.


@converter("NonZero", since=9)
def _non_zero(x: Value) -> Value:
    return np.stack(np.nonzero(np.reshape(x, x.shape or (1,))))[: x.ndim]


@converter("Compress", since=9)
def _compress(x: Value, condition: Value, *, axis: int | None = None) -> Value:
    return np.compress(condition, x, axis)


@converter("Unique", since=11)
def _unique(
    x: Value,
    *,
    axis: int | None = None,
    sorted: int = 1,
) -> Value:
    if axis is not None and x.ndim > 1:
        x = known(x, "X")  # of parts of more than one element
    parts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    values, first, inverse, counts = parts[0], parts[1], parts[2].reshape(-1), parts[3]
    if not sorted:
        order = np.argsort(first)
        values = np.take(values, order, axis=axis or 0)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    return values, first, inverse, counts


@converter("NonMaxSuppression", since=10)
def _non_max_suppression(
    boxes: Value,
    scores: Value,
    most: Value = None,
    overlap: Value = None,
    least: Value = None,
    *,
    center_point_box: int = 0,
) -> Value:
    limit = known_ints(most, "max_output_boxes_per_class")[0] if most is not None else 0
    threshold = float(known(overlap, "iou_threshold").item()) if overlap is not None else 0.0
    lowest = float(known(least, "score_threshold").item()) if least is not None else -np.inf
    batches, kinds, count = scores.shape
    corners = _corners(boxes) if center_point_box else boxes
    chosen = nn.non_max_suppression(
        np.repeat(corners, kinds, axis=0),
        np.reshape(scores, (batches * kinds, count)),
        most=min(limit, count) if isinstance(count, int) else limit,
        overlap=threshold,
        least_score=lowest,
    )
    row = np.arange(batches * kinds)[:, None] + np.zeros_like(chosen)
    table = np.stack([row // max(kinds, 1), row % max(kinds, 1), chosen], axis=-1)
    return np.reshape(table, (-1, 3))[np.reshape(chosen, (-1,)) >= 0]


def _corners(boxes: Value) -> Value:
    """Returns the corners of boxes given by centre and size."""
    half = boxes[..., 2:] / 2
    return np.concatenate([boxes[..., :2] - half, boxes[..., :2] + half], -1)
