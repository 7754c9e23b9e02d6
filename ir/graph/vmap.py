"""Vectorising map of operators: what one computes for one row, computed for many rows at once.

A value is *stacked* if it has a leading axis of one row each, and *whole* if all rows share it. An
operator's declaration may say what it is on stacks of its operands (``batch=``). Views, elementwise
operators, and all that stay what they are with an axis added need not say it; any other tensor
expression becomes a stage with that axis. Blocks are the work of ``vmap_blocks.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ..dataclass import dataclass
from ..dims import symbol
from ..errors import LoopwrightError
from ..loop.expr import IndexLike, read
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
        return _by_expression(batch, type)
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
    attrs = {k: moved(v) if k in names else v for k, v in batch.attrs.items()}
    return {k: v + 1 if k == "batch_dims" else v for k, v in attrs.items()}


_ROW = symbol("row")
_Place: TypeAlias = Callable[[tuple[IndexLike, ...]], tuple[IndexLike, ...]]


def _by_expression(batch: Batch, type: TensorType) -> Atom | None:
    """Emits the operator itself, with axes moved or not, if its tensor expression for all rows is
    that for one row with an axis added; else that expression, as a stage of its own. None if it
    keeps a state, or if the stage would have symbolic sizes or complex numbers."""
    op, many, numbers = batch.call.operator, batch.batched, range(len(batch.args))
    dtypes = [tensor_type(a).dtype for a in batch.args]

    def expression(
        type: TensorType, attrs: Mapping[str, Any], shapes: Sequence[Any], places: Sequence[_Place]
    ) -> Map | Reduction | Statements:
        """Returns that of operands of ``shapes``, whose elements are those of the batch's."""

        def operand(n: int) -> Tensor:
            return Tensor(shapes[n], dtypes[n], lambda *i: read(f"x{n}", places[n](i), dtypes[n]))

        assert op.compute is not None
        return op.compute([operand(n) for n in numbers], attrs, type)

    rows = [batch.shape_of(n) for n in numbers]
    row = expression(type, batch.attrs, rows, [_in_row if m else tuple for m in many])
    if isinstance(row, Statements):
        return None
    combiner = row.combiner if isinstance(row, Reduction) else None
    over = row.over if isinstance(row, Reduction) else ()
    at = [symbol(f"i{n}") for n in range(type.rank)] + [symbol(f"k{n}") for n in range(len(over))]
    element, out = row.element(*at), (batch.count, *type.shape)
    wanted = TensorType(out, type.dtype)
    for repeated in range(1 if all(many) else 2):  # what all rows share, if need be
        places = [_without_row if repeated and not m else tuple for m in many]
        shapes = [(batch.count, *s) if m or repeated else s for m, s in zip(many, rows)]
        types = tuple(TensorType(s, dtype) for s, dtype in zip(shapes, dtypes))
        for attrs in (batch.attrs, _moved(batch)):
            try:
                if op.infer(types, attrs) != wanted:
                    continue
            except LoopwrightError:  # it may be for operands of one rank alone
                continue
            every = expression(wanted, attrs, shapes, places)
            form = (every.over, every.combiner) if isinstance(every, Reduction) else ((), None)
            if isinstance(every, Statements) or form != (over, combiner):
                continue
            if every.element(_ROW, *at) is element:
                args = [batch.stacked(n) for n in numbers] if repeated else batch.args
                return batch.builder.emit(op, args, attrs, span=batch.call.span)
    operands = [tensor_type(a) for a in batch.args]
    params = tuple(Buffer(f"x{n}", x.shape, x.dtype) for n, x in enumerate(operands))
    sizes = [*out, *over, *(size for p in params for size in p.shape)]
    if any(d.is_complex for d in dtypes) or not all(isinstance(s, int) for s in sizes):
        return None
    from ..loop.workload import workload_text  # loaded when it is first needed

    axes = [Axis(str(s), extent) for s, extent in zip([_ROW, *at], [*out, *over], strict=True)]
    count = len(out)
    stage = Stage(
        Buffer("out", out, type.dtype), tuple(axes[:count]), element, tuple(axes[count:]), combiner
    )
    body = workload_text(PrimFunc("rows", params, ("out",), (stage,)))
    name = "stage.map" if combiner is None else "stage.reduce"
    return batch.emit(name, *batch.args, body=body)


def _in_row(at: tuple[IndexLike, ...]) -> tuple[IndexLike, ...]:
    return _ROW, *at


def _without_row(at: tuple[IndexLike, ...]) -> tuple[IndexLike, ...]:
    return at[1:]
