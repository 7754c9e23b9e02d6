"""Batching rules that declarations name: what an operator is on stacks of its operands.

They are for ``lw.vmap`` (``ir/graph/vmap.py``). Passes over loops use the rules that stand beside
the operators. None means that this case has no form but the one that is derived.
"""

from __future__ import annotations

import string

from ..dims import product
from ..graph.compose import F, Value, limited
from ..graph.nodes import Atom, tensor_type
from ..graph.vmap import Batch


def folded(batch: Batch) -> Atom:
    """The operator works on each row of the first axis by itself: all rows are on that axis."""
    args = [_joined(batch, batch.stacked(n), 0) for n in range(len(batch.args))]
    result = batch.emit(batch.call.operator.name, *args, **batch.attrs)
    return batch.reshaped(result, (batch.count, *batch.shape))


def stacked(batch: Batch) -> Atom:
    """All operands are stacks: the axis along which the operator works is one further, and of the
    new axis, all is taken."""
    whole = {"begin": 0, "strides": 1, "pad_width": (0, 0)}
    attrs = {k: (whole[k], *v) if k in whole else v for k, v in batch.attrs.items()}
    if "axis" in attrs:
        attrs["axis"] = batch.axes(attrs["axis"])[0]
    args = [batch.stacked(n) for n in range(len(batch.args))]
    return batch.emit(batch.call.operator.name, *args, **attrs)


def images(batch: Batch) -> Atom | None:
    """Images of all rows are a longer batch; kernels of all rows are groups of channels."""
    if not any(batch.batched[1:]):
        args = _joined(batch, batch.args[0], 0), *batch.args[1:]
        result = batch.emit(batch.call.operator.name, *args, **batch.attrs)
        return batch.reshaped(result, (batch.count, *batch.shape))
    groups = batch.attrs.get("groups", 0)
    if "transpose" in batch.call.operator.name or not isinstance(batch.count, int):
        return None
    last = batch.rank(0) - 1
    channel = 1 if batch.attrs.get("data_layout", "C").startswith("NC") else last
    out = 0 if batch.attrs.get("kernel_layout", "").startswith("OI") else last
    shared = groups == 1 and not batch.batched[0]
    x = batch.args[0] if shared else _joined(batch, batch.stacked(0), channel)
    w = _joined(batch, batch.stacked(1), out)
    attrs = {**batch.attrs, "groups": 1 if shared else groups * batch.count}
    result = batch.emit(batch.call.operator.name, x, w, **attrs)
    return _parted(batch, result, channel)


def _joined(batch: Batch, stack: Atom, axis: int) -> Atom:
    """Returns a stack whose rows are joined along an axis."""
    shape = tensor_type(stack).shape[1:]
    order = [*range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1)]
    moved = batch.emit("transpose", stack, axes=tuple(order)) if axis else stack
    return batch.reshaped(moved, (*shape[:axis], batch.count * shape[axis], *shape[axis + 1 :]))


def _parted(batch: Batch, joined: Atom, axis: int) -> Atom:
    """Returns the stack of results that are joined along an axis."""
    shape = batch.shape
    parts = batch.reshaped(joined, (*shape[:axis], batch.count, *shape[axis:]))
    rest = [n for n in range(len(shape) + 1) if n != axis]
    return batch.emit("transpose", parts, axes=(axis, *rest)) if axis else parts


def contracted(batch: Batch) -> Atom:
    """A product over one more letter, which the result has."""
    operands, _, result = batch.attrs["equation"].partition("->")
    letter = next(a for a in string.ascii_letters if a not in batch.attrs["equation"])
    terms = [
        letter * many + term for term, many in zip(operands.split(","), batch.batched, strict=True)
    ]
    return batch.emit("contract", *batch.args, equation=f"{','.join(terms)}->{letter}{result}")


def _row_numbers(batch: Batch, rank: int) -> Atom:
    """Returns the number of each row, with axes of size 1 behind it."""
    numbers = batch.emit("arange", start=0, stop=batch.count, step=1, dtype="int64")
    return batch.reshaped(numbers, (batch.count, *[1] * (rank - 1)))


def scattered_rows(batch: Batch) -> Atom:
    """Places in an array of all rows begin with the number of the row."""
    places = batch.emit("cast", batch.stacked(1), dtype="int64")
    shape = tensor_type(places).shape
    numbers = _row_numbers(batch, len(shape))
    numbers = batch.emit("broadcast_to", numbers, shape=(*shape[:-1], 1))
    places = batch.emit("concatenate", numbers, places, axis=-1)
    args = batch.stacked(0), places, batch.stacked(2)
    return batch.emit("nn.scatter_nd", *args, **batch.attrs)


def updated(batch: Batch) -> Atom | None:
    """Windows include all rows; where indices differ, the number of the row is one of them."""
    attrs, rank = batch.attrs, batch.rank(0)
    places = range(2, 2 + len(attrs["axes"]))
    if any(batch.batched[places.stop :]):
        return None
    depth = max((batch.rank(n) for n in places), default=0)
    rest = depth + rank - len(places)
    value = batch.aligned(1, rest) if batch.batched[1] else batch.args[1]
    starts = batch.args[places.stop :]
    moved = {k: tuple(a + 1 for a in attrs[k]) for k in ("axes", "starts")}
    if not any(batch.batched[n] for n in places) and depth == 0:
        if attrs["sizes"]:
            whole = {"begin": 0, "strides": 1, "sizes": batch.count}
            moved |= {k: (first, *attrs[k]) for k, first in whole.items()}
        args = batch.stacked(0), value, *batch.args[2:]
        return batch.emit("index_update", *args, **{**attrs, **moved})
    numbers = _row_numbers(batch, depth + 1)
    indices = [batch.aligned(n, depth) for n in places]
    moved["axes"] = (0, *moved["axes"])
    args = batch.stacked(0), value, numbers, *indices, *starts
    return batch.emit("index_update", *args, **{**attrs, **moved})


def taken(batch: Batch) -> Atom:
    """Indices of all rows into one array are more indices; into arrays of their own, they are
    places behind the axis of the rows."""
    axis, row, (x, indices) = batch.attrs["axis"], batch.shape_of(0), batch.args
    if axis is None:
        axis, row = 0, (product(row),)
        x = batch.reshaped(x, (*[batch.count] * batch.batched[0], *row))
    axis %= len(row)
    if not batch.batched[0]:
        attrs = {**batch.attrs, "axis": axis}
        rank = tensor_type(indices).rank
        order = [axis, *range(axis), *range(axis + 1, len(row) + rank - 1)]
        return _ordered(batch, batch.emit("take", x, indices, **attrs), order)
    if not batch.batched[1]:
        return batch.emit("take", x, indices, **{**batch.attrs, "axis": axis + 1})
    depth = batch.rank(1)
    x = _ordered(batch, x, [0, axis + 1, *(n + 1 for n in range(len(row)) if n != axis)])
    places = batch.emit("cast", indices, dtype="int64")
    if batch.attrs["mode"] == "wrap":
        size = batch.emit("full", shape=(), fill_value=row[axis], dtype="int64")
        places = batch.emit("floor_mod", places, size)
    places = batch.reshaped(places, (*tensor_type(places).shape, 1))
    made = batch.emit("nn.gather_nd", x, places, batch_dims=1)
    before = [depth + 1 + n for n in range(axis)]
    after = [depth + 1 + n for n in range(axis, len(row) - 1)]
    return _ordered(batch, made, [0, *before, *range(1, depth + 1), *after])


def _ordered(batch: Batch, atom: Atom, order: list[int]) -> Atom:
    return atom if order == sorted(order) else batch.emit("transpose", atom, axes=tuple(order))


def sliced(batch: Batch) -> Atom | None:
    """Slices that begin elsewhere in each row are gathers."""
    if not any(batch.batched[1:]):
        return None
    row, axes, sizes = batch.shape_of(0), batch.attrs["axes"], batch.attrs["sizes"]
    places: list[Atom] = []
    for n, (axis, size, stride) in enumerate(zip(axes, sizes, batch.attrs["strides"])):
        last = row[axis] - (size - 1) * stride - 1 if size != 0 else 0
        start = limited(Value(batch.builder, batch.stacked(n + 1)), last, row[axis])
        start = F.reshape(start, newshape=(batch.count, *[1] * len(axes), 1))
        steps = start.iota((1, *sizes, 1), n + 1) * stride
        places.append((start + steps).atom)
    indices = batch.emit("concatenate", *places, axis=-1)
    order = [*axes, *(n for n in range(len(row)) if n not in axes)]
    x = _ordered(batch, batch.stacked(0), [0, *(n + 1 for n in order)])
    made = batch.emit("nn.gather_nd", x, indices, batch_dims=1)
    return _ordered(batch, made, [0, *(order.index(n) + 1 for n in range(len(row)))])


def small_systems(batch: Batch) -> Atom:
    """Stacks of matrices are one longer stack, along the second axis of the result."""
    args = [_joined(batch, batch.stacked(n), 0) for n in range(len(batch.args))]
    return _parted(batch, batch.emit(batch.call.operator.name, *args, **batch.attrs), 1)


def recurrent(batch: Batch) -> Atom | None:
    """The sequences of all rows are one batch, unless the weights differ."""
    fixed = [1, 2] + [4 + (batch.attrs["cell"] == "lstm")] * bool(batch.attrs["peepholes"])
    if any(batch.batched[n] for n in fixed):
        return None
    args = [
        arg if n in fixed else _joined(batch, batch.stacked(n), int(n == 0))
        for n, arg in enumerate(batch.args)
    ]
    return _parted(batch, batch.emit("recurrence", *args, **batch.attrs), 1)
