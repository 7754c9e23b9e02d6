"""Vectorising map of operators: what one computes for one row, computed for many rows at once.

A value is *stacked* if it has a leading axis of one row each, and *whole* if all rows share it. An
operator's declaration may say what it is on stacks of its operands (``batch=``). Views, elementwise
operators, and all that stay what they are with an axis added need not say it; any other tensor
expression becomes a stage with that axis. Blocks are the work of ``vmap_blocks.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..dataclass import dataclass
from ..dims import IntExpr, symbol
from ..errors import LoopwrightError
from ..loop.expr import Expr, IndexLike, read
from ..loop.prim import Axis, Buffer, PrimFunc, Stage
from ..loop.tensor import Map, Reduction, Statements, Tensor
from ..traits import Trait
from .builder import Builder
from .nodes import Atom, Call, tensor_type
from .operator import OPERATORS, Pattern
from .types import TensorType, TupleType, Type


def stacked_type(type: Type, count: Any) -> Type:
    """Returns the type of ``count`` rows of a type."""
    if isinstance(type, TupleType):
        return TupleType(tuple(stacked_type(field, count) for field in type.fields))
    assert isinstance(type, TensorType)
    return TensorType((count, *type.shape), type.dtype)


@dataclass(frozen=True, slots=True)
class Batch:
    """Operands of one call. ``batched`` says which have a leading axis of ``count`` rows, and
    ``shape`` is that of the result of one row. With ``complete``, forms are wanted that passes
    over loops leave alone."""

    call: Call
    args: Sequence[Atom]
    batched: Sequence[bool]
    count: Any
    shape: tuple[Any, ...]
    builder: Builder
    complete: bool = False

    @property
    def attrs(self) -> Mapping[str, Any]:
        return self.call.attrs

    def emit(self, name: str, *args: Atom, **attrs: Any) -> Atom:
        return self.builder.emit(OPERATORS[name], args, attrs, span=self.call.span)

    def shape_of(self, n: int) -> tuple[Any, ...]:
        """Returns the shape of one row of an operand."""
        shape = tensor_type(self.args[n]).shape
        return shape[1:] if self.batched[n] else shape

    def rank(self, n: int) -> int:
        """Returns the number of axes of one row of an operand."""
        return len(self.shape_of(n))

    def axes(self, axis: Any, n: int = 0) -> tuple[int, ...]:
        """Returns axes of one row of an operand (an int, a tuple, None for all) as axes of all."""
        rank = self.rank(n)
        axes = range(rank) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        return tuple(a % rank + 1 for a in axes)

    def reshaped(self, atom: Atom, shape: Sequence[Any]) -> Atom:
        shape = tuple(shape)
        same = tensor_type(atom).shape == shape
        return atom if same else self.emit("reshape", atom, newshape=shape)

    def stacked(self, n: int) -> Atom:
        """Returns an operand as a stack: one that all rows share is repeated."""
        if self.batched[n]:
            return self.args[n]
        return self.emit("broadcast_to", self.args[n], shape=(self.count, *self.shape_of(n)))

    def aligned(self, n: int, rank: int) -> Atom:
        """Returns an operand whose rows broadcast as if it had ``rank`` axes besides the first."""
        atom = self.args[n]
        if not self.batched[n]:
            return atom
        row = self.shape_of(n)
        return self.reshaped(atom, (self.count, *[1] * (rank - len(row)), *row))


def batched_call(batch: Batch) -> Atom | None:
    """Emits ``batch.call`` for all rows at once; None if its operator has no form for that."""
    op, attrs = batch.call.operator, batch.attrs
    if op.batch is not None:
        return op.batch(batch)
    if Trait.VIEW in op.traits:
        return batch.reshaped(batch.args[0], (batch.count, *batch.shape))
    if op.compute is None or not op.params:
        return None
    args = batch.args
    if op.pattern <= Pattern.BROADCAST and set(attrs) <= {"dtype", "a_min", "a_max"}:
        args = [batch.aligned(n, len(batch.shape)) for n in range(len(args))]
    elif op.pattern == Pattern.REDUCTION and set(attrs) == {"axis", "keepdims"} and batch.rank(0):
        attrs = {**attrs, "axis": batch.axes(attrs["axis"])}
    else:
        return None
    return batch.builder.emit(op, args, attrs, span=batch.call.span)


# -- forms that need no rule ----------------------------------------------------------------------


def derived_call(batch: Batch, type: Type) -> Atom | None:
    """Emits ``batch.call``, whose result for one row is of ``type``, by a form that follows from
    its declaration; None if none does."""
    op, attrs, args = batch.call.operator, batch.attrs, batch.args
    if op.compute is not None and isinstance(type, TensorType) and Trait.BYTES not in op.traits:
        return _same(batch, type) or _stage(batch, type)
    if op.decompose is None:
        return None
    first_alone = batch.batched[0] and not any(batch.batched[1:])
    if op.pattern <= Pattern.INJECTIVE and "axis" not in attrs:
        args, moved = [batch.aligned(n, len(batch.shape)) for n in range(len(args))], attrs
    elif "axis" in attrs and first_alone and not op.params[0].startswith("*"):
        moved = _moved(batch)
    else:
        return None
    try:
        result = op.infer(tuple(a.type for a in args), op.complete_attrs(moved))
    except LoopwrightError:  # such as that of argmax along all axes but one
        return None
    if result != stacked_type(type, batch.count):
        return None
    return batch.builder.emit(op, args, moved, span=batch.call.span)


def _moved(batch: Batch) -> dict[str, Any]:
    """Returns the attributes, with axes of one row of the first operand as axes of all."""

    def moved(axes: Any) -> Any:
        after = batch.axes(axes)
        return after[0] if isinstance(axes, int) else after

    names = ("axis", "axes", "axis1", "axis2")
    return {k: moved(v) if k in names else v for k, v in batch.attrs.items()}


_ROW = symbol("row")


def _row(batch: Batch, type: TensorType) -> Map | Reduction | None:
    """Returns the tensor expression of the row ``_ROW``; None if it keeps a state."""
    leading = [(_ROW,) if many else () for many in batch.batched]
    shapes = [batch.shape_of(n) for n in range(len(batch.args))]
    meaning = _expression(batch, type, batch.attrs, shapes, leading, 0)
    return None if isinstance(meaning, Statements) else meaning


def _expression(
    batch: Batch,
    type: TensorType,
    attrs: Mapping[str, Any],
    shapes: Sequence[tuple[Any, ...]],
    leading: Sequence[tuple[IntExpr, ...]],
    repeated: int,
) -> Map | Reduction | Statements:
    """Returns the operator's tensor expression on operands of ``shapes``, which read the batch's
    with ``leading`` indices in front. Their last axes are those of one row if ``repeated``."""

    def operand(n: int) -> Tensor:
        dtype = tensor_type(batch.args[n]).dtype
        dropped = repeated if not batch.batched[n] else 0

        def element(*i: IndexLike) -> Expr:
            return read(f"x{n}", (*leading[n], *i[dropped:]), dtype)

        return Tensor(shapes[n], dtype, element)

    op = batch.call.operator
    assert op.compute is not None
    return op.compute([operand(n) for n in range(len(shapes))], attrs, type)


def _same(batch: Batch, type: TensorType) -> Atom | None:
    """Emits the operator itself, with axes moved or not, if its tensor expression for all rows
    is that for one row with an axis added."""
    op, row, wanted = batch.call.operator, _row(batch, type), stacked_type(type, batch.count)
    if row is None or not isinstance(wanted, TensorType):
        return None
    numbers = range(len(batch.args))
    dtypes = [tensor_type(a).dtype for a in batch.args]
    none = [() for _ in numbers]
    for repeated in range(1 if all(batch.batched) else 2):
        shapes = [
            (batch.count, *batch.shape_of(n)) if many or repeated else batch.shape_of(n)
            for n, many in enumerate(batch.batched)
        ]
        types = tuple(TensorType(s, dtype) for s, dtype in zip(shapes, dtypes, strict=True))
        for attrs in (batch.attrs, _moved(batch)):
            try:
                fits = op.infer(types, attrs) == wanted
            except LoopwrightError:  # it may be for operands of one rank alone
                continue
            if fits and _agree(
                row, _expression(batch, wanted, attrs, shapes, none, repeated), type.rank
            ):
                args = [batch.stacked(n) for n in numbers] if repeated else batch.args
                return batch.builder.emit(op, args, attrs, span=batch.call.span)
    return None


def _agree(row: Map | Reduction, every: Map | Reduction | Statements, rank: int) -> bool:
    """True if an element of ``every`` in the row ``_ROW`` is that of ``row``."""
    at = [symbol(f"i{n}") for n in range(rank)]
    if isinstance(row, Reduction):
        if not isinstance(every, Reduction):
            return False
        at += [symbol(f"k{n}") for n in range(len(row.over))]
        same = (row.over, row.combiner) == (every.over, every.combiner)
        return same and every.element(_ROW, *at) is row.element(*at)
    return isinstance(every, Map) and every.element(_ROW, *at) is row.element(*at)


def _stage(batch: Batch, type: TensorType) -> Atom | None:
    """Emits the operator's tensor expression with an axis added, as a stage of its own; None if it
    has symbolic sizes or complex numbers, or keeps a state."""
    types = [type, *(tensor_type(a) for a in batch.args)]
    constant = all(isinstance(size, int) for t in types for size in t.shape)
    row = _row(batch, type)
    if row is None or not constant or any(t.dtype.is_complex for t in types):
        return None
    extents = row.over if isinstance(row, Reduction) else ()
    combiner = row.combiner if isinstance(row, Reduction) else None
    axes = (Axis("row", batch.count), *(Axis(f"i{n}", s) for n, s in enumerate(type.shape)))
    over = tuple(Axis(f"k{n}", size) for n, size in enumerate(extents))
    element = row.element(*(symbol(a.name) for a in (*axes[1:], *over)))
    out = Buffer("out", (batch.count, *type.shape), type.dtype)
    params = tuple(Buffer(f"x{n}", t.shape, t.dtype) for n, t in enumerate(types[1:]))
    from ..loop.workload import workload_text  # loaded when it is first needed

    body = PrimFunc("rows", params, ("out",), (Stage(out, axes, element, over, combiner),))
    name = "stage.map" if combiner is None else "stage.reduce"
    return batch.emit(name, *batch.args, body=workload_text(body))
