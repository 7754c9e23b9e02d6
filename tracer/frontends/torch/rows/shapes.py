"""Operators that arrange elements: views, joins, pads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .....ir.dims import LARGEST_SIZE, Dim
from .....ir.errors import UnsupportedError
from .... import nn
from ....core.runtime_checks import check
from ..derivatives import pulled_back
from ..table import Stored, Value, aten
from ..tensors import numpy_dtype


@aten(
    "alias.default",
    "detach.default",
    "detach_copy.default",
    "lift_fresh_copy.default",
    "lift_fresh.default",
    "contiguous.default",
    "clone.default",
)
def _same(self: Value) -> Value:
    return self


@aten("view.default", "_unsafe_view.default", "view_copy.default")
def _view(self: Value, size: Sequence[int]) -> Value:
    return np.reshape(self, tuple(size))


@aten("reshape.default")
def _reshape(self: Value, shape: Sequence[int]) -> Value:
    return np.reshape(self, tuple(shape))


@aten("permute.default")
def _permute(self: Value, dims: Sequence[int]) -> Value:
    return np.transpose(self, tuple(dims)) if dims else self


@aten("expand.default", ignores=("implicit",))  # for tracers
def _expand(self: Value, size: Sequence[int]) -> Value:
    kept = len(size) - self.ndim
    shape = [self.shape[i - kept] if s == -1 else s for i, s in enumerate(size)]
    return np.broadcast_to(self, tuple(shape))


@aten("squeeze.dim", "squeeze.dims")
def _squeeze(self: Value, dim: Any) -> Value:
    dims = [dim] if isinstance(dim, int) else dim
    axes = {d % max(self.ndim, 1) for d in dims}
    shape = (s for a, s in enumerate(self.shape) if a not in axes or s != 1)
    return np.reshape(self, tuple(shape))


def _bounds(length: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Returns a slice's bounds counted from the front, inside of the axis."""
    first, last, _ = slice(start, end).indices(length)
    return first, max(first, last)


def _along(axis: int, part: Any) -> Any:
    """Returns an index that takes ``part`` of one axis, and the others whole."""
    return (slice(None),) * axis + (part,)


@aten("slice.Tensor")
def _slice(
    self: Value, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Value:
    axis = dim % self.ndim
    if any(isinstance(each, Dim) for each in (self.shape[axis], start, end)):
        end = None if isinstance(end, int) and end >= LARGEST_SIZE else end
        return self[_along(axis, slice(start or None, end, step))]
    first, last = _bounds(self.shape[axis], start, end)
    return self[_along(axis, slice(first, last, step))]


@aten("select.int")
def _select(self: Value, dim: int, index: int) -> Value:
    return self[_along(dim % self.ndim, index)]


@aten("slice_scatter.default")
def _slice_scatter(
    self: Value,
    src: Value,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    """Each position is in the slice, at a place that is known, or keeps its element."""
    axis = dim % self.ndim
    length = self.shape[axis]
    first, last = _bounds(length, start, end)
    positions = range(first, last, step)
    if not positions:
        return self
    if step == 1:
        parts = [self[_along(axis, slice(0, first))], src, self[_along(axis, slice(last, length))]]
        return np.concatenate([p for p in parts if p.shape[axis]], axis=axis)
    place, inside = np.zeros(length, np.int64), np.zeros(length, bool)
    place[positions], inside[positions] = np.arange(len(positions)), True
    mask = inside.reshape([-1 if a == axis else 1 for a in range(self.ndim)])
    return np.where(mask, np.take(src, place, axis=axis), self)


@aten("select_scatter.default")
def _select_scatter(self: Value, src: Value, dim: int, index: int) -> Value:
    axis = dim % self.ndim
    at = index % self.shape[axis]
    return _slice_scatter(self, np.expand_dims(src, axis), axis, at, at + 1)


@aten("cat.default")
def _cat(tensors: Sequence[Value], dim: int = 0) -> Value:
    """Tensors of one axis without elements are left out, whatever the rank of the others is."""
    full = [t for t in tensors if t.ndim != 1 or t.shape[0] != 0]
    return np.concatenate(full or list(tensors[:1]), axis=dim)


aten("stack.default")(lambda tensors, dim=0: np.stack(list(tensors), axis=dim))


@aten("split_with_sizes.default")
def _split_with_sizes(self: Value, split_sizes: Sequence[int], dim: int = 0) -> list[Value]:
    axis, start, parts = dim % self.ndim, 0, list[Value]()
    for size in split_sizes:
        parts.append(self[_along(axis, slice(start, start + size))])
        start += size
    return parts


@aten("flip.default")
def _flip(self: Value, dims: Sequence[int]) -> Value:
    return np.flip(self, tuple(dims)) if dims and self.ndim else self


@aten("roll.default")
def _roll(self: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    return np.roll(self, tuple(shifts), tuple(dims)) if dims else np.roll(self, shifts[0])


@aten("diagonal.default", "diagonal_copy.default")
def _diagonal(self: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    return np.diagonal(self, offset, dim1, dim2)


@aten("diagonal_scatter.default")
def _diagonal_scatter(
    self: Value, src: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    """Every row has one element of the diagonal, or none."""
    first, second = dim1 % self.ndim, dim2 % self.ndim
    moved = np.moveaxis(self, (first, second), (-2, -1))
    rows, columns = moved.shape[-2:]
    place = np.clip(np.arange(rows) - max(-offset, 0), 0, max(src.shape[-1] - 1, 0))
    wide = np.expand_dims(np.take(src, place, axis=-1), -1)
    result = np.where(np.eye(rows, columns, offset, dtype=bool), wide, moved)
    return np.moveaxis(result, (-2, -1), (first, second))


def _pads(pad: Sequence[int], rank: int) -> list[tuple[int, int]]:
    """Returns PyTorch's widths, last axis first, as NumPy's."""
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    return [(0, 0)] * (rank - len(pairs)) + pairs[::-1]


def _cut(x: Value, pads: list[tuple[int, int]]) -> tuple[Value, list[tuple[int, int]]]:
    """Returns ``x`` without the elements that negative widths cut off, and the other widths."""
    if not any(w < 0 for pair in pads for w in pair):
        return x, pads
    cut = tuple(slice(max(0, -a), s - max(0, -b)) for s, (a, b) in zip(x.shape, pads))
    return x[cut], [(max(0, a), max(0, b)) for a, b in pads]


@aten("constant_pad_nd.default")
def _constant_pad(self: Value, pad: Sequence[int], value: float = 0) -> Value:
    self, pads = _cut(self, _pads(pad, self.ndim))
    if not any(w for pair in pads for w in pair):
        return self
    return np.pad(self, pads, constant_values=value)


@aten("reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default")
def _reflection_pad(self: Value, padding: Sequence[int]) -> Value:
    return nn.pad(self, _pads(padding, self.ndim), mode="reflect")


@aten("replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default")
def _replication_pad(self: Value, padding: Sequence[int]) -> Value:
    positions = [
        np.clip(np.arange(-before, size + after), 0, size - 1)
        for size, (before, after) in zip(self.shape, _pads(padding, self.ndim))
    ]
    for axis, place in enumerate(positions):
        if not np.array_equal(place, np.arange(self.shape[axis])):
            self = np.take(self, place, axis=axis)
    return self


for _rank in (1, 2, 3):
    aten(f"replication_pad{_rank}d_backward.default")(
        lambda grad_output, self, padding: pulled_back(
            lambda x: _replication_pad(x, padding), grad_output, self
        )[0]
    )


@aten("unfold.default")
def _unfold(self: Value, dimension: int, size: int, step: int) -> Value:
    """Windows of one axis; their elements are a new last axis."""
    if not self.ndim:
        return np.reshape(self, (size,))
    axis = dimension % self.ndim
    count = (self.shape[axis] - size) // step + 1
    starts = np.arange(count)[:, None] * step + np.arange(size)
    return np.moveaxis(np.take(self, starts, axis=axis), axis + 1, -1)


def _addresses(size: Sequence[int], stride: Sequence[int], offset: int) -> Any:
    """Returns where each element of a tensor lies in its storage."""
    address = np.full((), offset)
    for axis, (length, step) in enumerate(zip(size, stride)):
        shape = [-1 if a == axis else 1 for a in range(len(size))]
        address = address + (np.arange(length) * step).reshape(shape)
    return np.broadcast_to(address, tuple(size))


@aten("view.dtype")
def _view_dtype(self: Value, dtype: Any) -> Value:
    """The bytes of the last axis, which is contiguous, as elements of another dtype."""
    return self.view(numpy_dtype(dtype))


@aten("as_strided.default", memory=True, ignores=("self",))
def _as_strided(
    memory: Sequence[Stored],
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Value:
    """Elements by their places in the storage of ``self``. If that is a view of a part of it,
    the tensor that it was taken from has the others."""
    offset = memory[0].offset if storage_offset is None else storage_offset
    numbers = (*size, *stride, offset)
    if not all(isinstance(n, int) for m in memory for n in (*numbers, *m.size, *m.stride)):
        raise UnsupportedError("as_strided with symbolic sizes is not supported")
    wanted = _addresses(size, stride, offset)
    for base in memory:
        held, first = np.unique(_addresses(base.size, base.stride, base.offset), return_index=True)
        index = np.searchsorted(held, wanted)
        if wanted.size and (not held.size or index.max() == held.size):
            continue
        if wanted.size and not np.array_equal(held[index], wanted):
            continue
        place = first[index] if wanted.size else np.zeros(wanted.shape, np.int64)
        if place.size == base.value.size and np.array_equal(place.ravel(), np.arange(place.size)):
            return np.reshape(base.value, tuple(size))
        flat = np.reshape(base.value, (-1,))
        return np.take(flat, place) if place.size else np.zeros(wanted.shape, flat.dtype)
    raise UnsupportedError("as_strided reads memory outside of the tensor")


@aten("resize.default", memory=True, ignores=("self",))
def _resize(memory: Sequence[Stored], size: Sequence[int]) -> Value:
    """The first elements of the storage, row by row, from where the tensor begins; a tensor that
    has the size stays as it is."""
    if tuple(size) == memory[0].size:
        return memory[0].value
    steps = [math.prod(size[axis + 1 :]) for axis in range(len(size))]
    return _as_strided(memory, size, steps)


@aten("as_strided_scatter.default", memory=True, ignores=("self",))
def _as_strided_scatter(
    memory: Sequence[Stored],
    src: Value,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Value:
    """``self`` with the elements of ``src`` where they have the same place in the storage."""
    target = memory[0]
    offset = target.offset if storage_offset is None else storage_offset
    if not all(isinstance(n, int) for n in (*size, *stride, offset, *target.size, *target.stride)):
        raise UnsupportedError("as_strided with symbolic sizes is not supported")
    written, order = np.unique(_addresses(size, stride, offset), return_index=True)
    held = _addresses(target.size, target.stride, target.offset)
    if written.size != math.prod(size) or np.unique(held).size != held.size:
        raise UnsupportedError("as_strided writes elements that share a place in memory")
    if not written.size:
        return target.value
    index = np.minimum(np.searchsorted(written, held), written.size - 1)
    taken = np.take(np.reshape(src, (-1,)), order[index])
    return np.where(written[index] == held, taken, target.value)


@aten(
    "_assert_tensor_metadata.default",
    "_assert_scalar.default",
    "sym_constrain_range.default",
    "sym_constrain_range_for_size.default",
)
def _assertion(*args: Any, **kwargs: Any) -> None:
    """Sizes and dtypes are those of the tensors at hand."""


@aten("_assert_async.msg")
def _assert_async(self: Value, assert_msg: str) -> None:
    check(np.logical_not(self), RuntimeError, assert_msg.replace("{", "{{").replace("}", "}}"))


@aten("_linalg_check_errors.default", ignores=("is_matrix",))
def _check_errors(info: Value, api_name: str) -> None:
    check(
        info != 0, RuntimeError, f"{api_name}: LAPACK fails for a matrix, with the code {{}}", info
    )
