"""Operators on stacks of operands: one call instead of one for each row of a leading axis.

An operand is *batched* if it has that axis, and whole if all rows share it. The table at the end
has the operators that have such a form; elementwise ones need no entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..dataclass import dataclass
from ..traits import Trait
from .builder import Builder
from .nodes import Atom, Call, tensor_type
from .operator import OPERATORS, Operator, Pattern


@dataclass(frozen=True, slots=True)
class Batch:
    """Operands of one call. ``batched`` says which have a leading axis of ``count`` rows, and
    ``shape`` is that of the result of one row."""

    call: Call
    args: Sequence[Atom]
    batched: Sequence[bool]
    count: int
    shape: tuple[Any, ...]
    builder: Builder

    def emit(self, name: str, args: Sequence[Atom], **attrs: Any) -> Atom:
        return self.builder.emit(OPERATORS[name], args, attrs, span=self.call.span)

    def rank(self, n: int) -> int:
        """Returns the number of axes of one row of an operand."""
        return len(_shape(self.args[n])) - self.batched[n]

    def reshaped(self, atom: Atom, shape: Sequence[Any]) -> Atom:
        shape = tuple(shape)
        return atom if _shape(atom) == shape else self.emit("reshape", (atom,), newshape=shape)

    def aligned(self, n: int, rank: int) -> Atom:
        """Returns an operand whose rows broadcast as if it had ``rank`` axes besides the first."""
        atom = self.args[n]
        if not self.batched[n]:
            return atom
        shape = _shape(atom)
        return self.reshaped(atom, (shape[0], *[1] * (rank - self.rank(n)), *shape[1:]))


def batched_call(batch: Batch) -> Atom | None:
    """Emits ``batch.call`` for all rows at once; None if its operator has no form for that."""
    op = batch.call.op
    if not isinstance(op, Operator):
        return None
    if Trait.VIEW in op.traits:
        return batch.reshaped(batch.args[0], (batch.count, *batch.shape))
    if op.name in _FORMS:
        return _FORMS[op.name](batch)
    if op.compute is None or not op.params:
        return None
    if op.pattern <= Pattern.BROADCAST and set(batch.call.attrs) <= {"dtype", "a_min", "a_max"}:
        args = [batch.aligned(n, len(batch.shape)) for n in range(len(batch.args))]
        return batch.builder.emit(op, args, batch.call.attrs, span=batch.call.span)
    if op.pattern == Pattern.REDUCTION and set(batch.call.attrs) == {"axis", "keepdims"}:
        return _reduction(batch, op)
    return None


def _shape(atom: Atom) -> tuple[Any, ...]:
    return tensor_type(atom).shape


def _axes(axis: Any, rank: int) -> tuple[int, ...]:
    axes = range(rank) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return tuple(a % rank for a in axes)


def _reduction(batch: Batch, op: Operator) -> Atom | None:
    axis, rank = batch.call.attrs["axis"], batch.rank(0)
    single = op.name in ("argmax", "argmin")
    if not rank or (single and axis is None):
        return None
    axes = tuple(a + 1 for a in _axes(axis, rank))
    attrs = {"axis": axes[0] if single else axes, "keepdims": batch.call.attrs["keepdims"]}
    return batch.builder.emit(op, batch.args, attrs, span=batch.call.span)


def _matmul(batch: Batch) -> Atom | None:
    (a, b), (many_a, many_b) = batch.args, batch.batched
    rank_a, rank_b = batch.rank(0), batch.rank(1)
    if rank_a == 1 and rank_b == 2 and many_a and not many_b:
        return batch.emit("nn.matmul", (a, b))  # rows of a matrix
    if many_b and not many_a and rank_a == 2 and rank_b == 1:
        return batch.emit("nn.matmul", (b, batch.emit("transpose", (a,), axes=(1, 0))))
    if rank_a == 2 and rank_b == 2 and many_a and not many_b:
        count, rows, inner = _shape(a)
        product = batch.emit("nn.matmul", (batch.reshaped(a, (count * rows, inner)), b))
        return batch.reshaped(product, (count, *batch.shape))
    # A vector is a matrix of one row on the left, of one column on the right.
    shape_a, shape_b = _shape(a), _shape(b)
    if rank_a == 1:
        a = batch.reshaped(a, (*shape_a[:-1], 1, shape_a[-1]))
    if rank_b == 1:
        b = batch.reshaped(b, (*shape_b, 1))
    rank = max(rank_a, rank_b, 2)
    pair = Batch(batch.call, (a, b), batch.batched, batch.count, batch.shape, batch.builder)
    product = batch.emit("nn.matmul", (pair.aligned(0, rank), pair.aligned(1, rank)))
    return batch.reshaped(product, (batch.count, *batch.shape))


def _transpose(batch: Batch) -> Atom:
    rank, axes = batch.rank(0), batch.call.attrs["axes"]
    order = range(rank)[::-1] if axes is None else _axes(axes, rank)
    return batch.emit("transpose", batch.args, axes=(0, *(a + 1 for a in order)))


def _broadcast_to(batch: Batch) -> Atom:
    shape = (batch.count, *batch.shape)
    return batch.emit("broadcast_to", (batch.aligned(0, len(batch.shape)),), shape=shape)


def _strided_slice(batch: Batch) -> Atom:
    attrs = batch.call.attrs
    begin, end, strides = (attrs[name] for name in ("begin", "end", "strides"))
    attrs = {"begin": (0, *begin), "end": (batch.count, *end), "strides": (1, *strides)}
    return batch.emit("strided_slice", batch.args, **attrs)


def _reverse(batch: Batch) -> Atom:
    axes = _axes(batch.call.attrs["axis"], batch.rank(0))
    return batch.emit("reverse", batch.args, axis=tuple(a + 1 for a in axes))


def _concatenate(batch: Batch) -> Atom:
    parts = [
        arg
        if batch.batched[n]
        else batch.emit("broadcast_to", (arg,), shape=(batch.count, *_shape(arg)))
        for n, arg in enumerate(batch.args)
    ]
    axis = batch.call.attrs["axis"] % len(batch.shape)
    return batch.emit("concatenate", parts, axis=axis + 1)


def _take(batch: Batch) -> Atom | None:
    (x, indices), axis = batch.args, batch.call.attrs["axis"]
    mode = batch.call.attrs["mode"]
    if axis is None or batch.batched[0] == batch.batched[1]:
        return None
    axis %= batch.rank(0)
    if batch.batched[0]:
        return batch.emit("take", (x, indices), axis=axis + 1, mode=mode)
    if batch.rank(1):
        return None
    rows = batch.emit("take", (x, indices), axis=axis, mode=mode)
    order = (axis, *(n for n in range(batch.rank(0)) if n != axis))
    return batch.emit("transpose", (rows,), axes=order) if axis else rows


def _call_library(batch: Batch) -> Atom | None:
    from ..library.lookup import library_function  # few programs need the table

    ranks = library_function(batch.call.attrs["function"]).ranks
    if ranks is None:
        return None
    count = range(len(batch.args))
    most = max(batch.rank(n) - ranks[n] for n in count)
    args = [batch.aligned(n, most + ranks[n]) for n in count]
    return batch.emit("call_library", args, **batch.call.attrs)


_Form: TypeAlias = Callable[[Batch], "Atom | None"]

_FORMS: dict[str, _Form] = {
    "broadcast_to": _broadcast_to,
    "call_library": _call_library,
    "concatenate": _concatenate,
    "nn.matmul": _matmul,
    "reverse": _reverse,
    "strided_slice": _strided_slice,
    "take": _take,
    "transpose": _transpose,
}
