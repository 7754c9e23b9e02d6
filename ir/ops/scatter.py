"""Scatters: elements of an array replaced by, or combined with, updates at indices from data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dims import IntExpr, as_int, product, symbol
from ..dtype import INT64
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.compose import F, Value, at_indices, scalar, taken_along
from ..graph.operator import Pattern, Sample
from ..graph.requirements import demand
from ..graph.type_rules import ANY, normalise_axis, require_shape
from ..graph.types import TensorType
from ..loop.expr import Expr, cast, const, index, op, select
from ..loop.kinds import LoopKind
from ..loop.nest import Accumulate, At, Loop, Stmt, Store
from ..loop.scalar import COMBINERS
from ..loop.tensor import Tensor, copied, loops
from ..traits import Trait
from .declare import Body, attr, composite, primitive
from .sampling import floats, ints, sample, truths

if TYPE_CHECKING:
    from ..graph.derivatives.rules import Step, Transposition

REDUCTIONS = {"none": "", "add": "sum", "mul": "prod", "min": "min", "max": "max"}
"""The combiner of each way to join an update with what is there; none replaces it."""

_REDUCTION = attr("how an update joins the element: none, add, mul, min, max", "none")


def counted_from_end(place: Expr, size: IntExpr) -> Expr:
    """Returns an index from data as int64, a negative one counted from the end."""
    place = cast(place, INT64)
    below = op("less", place, const(0, INT64))
    return select(below, op("add", place, index(size)), place)


def join(reduction: str, out: str, at: tuple[IntExpr, ...], value: Expr) -> Stmt:
    """Returns the statement that joins a value to an element."""
    combiner = REDUCTIONS[reduction]
    return Accumulate(out, at, combiner, value) if combiner else Store(out, at, value)


def _check(x: TensorType, indices: TensorType, updates: TensorType, reduction: Any) -> None:
    if not indices.dtype.is_integer:
        raise LoopwrightTypeError(f"indices are integers, not {indices.short}")
    if updates.dtype != x.dtype:
        raise LoopwrightTypeError(f"updates of {updates.short} for elements of {x.short}")
    if reduction not in REDUCTIONS:
        raise LoopwrightValueError(f"reduction {reduction!r} is none of {', '.join(REDUCTIONS)}")


_WHY = "products and extremes of what is there and the updates"


def _scatter_tangent(step: Step) -> Value:
    """A scatter that replaces or adds is linear in the operand and the updates."""
    if step.attrs["reduction"] not in ("none", "add"):
        raise step.refused()
    x, updates = (step.moved(n) for n in (0, 2))
    return step.again(x, step.x(1), updates)


def _transpose_scatter(step: Transposition) -> None:
    """An update gets what stands at its place, nothing if that is out of range; elements that were
    replaced get 0. Of several updates for one element, the last gets all of it."""
    replaces, op = step.attrs["reduction"] == "none", step.call.operator
    updates = step.x(2)

    def scatter(x: Value, indices: Value, updates: Value) -> Value:
        atoms = [each.atom for each in (x, indices, updates)]
        return Value(step.builder, step.builder.emit(op, atoms, step.attrs))

    if not replaces:
        step.add(0, step.ct)
    elif step.linear[0]:
        step.add(0, scatter(step.ct, step.x(1), updates.full(updates.shape, 0)))
    if not step.linear[2]:
        return
    made, inside = _at_updates(step, step.ct)
    if replaces:
        number = F.reshape(made.iota((product(made.shape),), 0), newshape=made.shape)
        writer, _ = _at_updates(step, scatter(number.full(step.ct.shape, -1), step.x(1), number))
        inside = F.logical_and(inside, F.equal(writer, number))
    step.add(2, F.where(inside, made, made.full((), 0)))


def _at_updates(step: Transposition, x: Value) -> tuple[Value, Value]:
    """Returns the elements of ``x`` that the updates are for, and which are within ``x``."""
    indices = F.cast(step.x(1), dtype="int64")
    rows = "axis" not in step.attrs
    axis = 0 if rows else step.attrs["axis"] % x.rank
    at: list[Value] = []
    inside: Value | None = None
    for n in range(as_int(indices.shape[-1])) if rows else (axis,):
        each = (
            F.take(indices, Value(step.builder, scalar(step.builder, n, INT64)), axis=-1)
            if rows
            else indices
        )
        each = F.where(F.less(each, 0), each + x.shape[n], each)
        fits = F.logical_and(F.greater_equal(each, 0), F.less(each, x.shape[n]))
        inside = fits if inside is None else F.logical_and(inside, fits)
        at.append(each)
    assert inside is not None
    if not rows:
        return taken_along(x, at[0], axis), inside
    return at_indices(x, at), F.expand_dims(inside, axis=1)


# -- scatter_elements ---------------------------------------------------------------------------


def _elements_rule(
    x: TensorType, indices: TensorType, updates: TensorType, axis: Any, reduction: Any
) -> TensorType:
    _check(x, indices, updates, reduction)
    error = LoopwrightTypeError(
        f"indices {indices.short}, updates {updates.short} and {x.short} do not fit: the first "
        "two have one shape, and all the same rank"
    )
    if indices.rank != x.rank or x.rank == 0:
        raise error
    require_shape(indices.shape, updates.shape, error)
    axis = normalise_axis(axis, x.rank, x)
    for n, (size, whole) in enumerate(zip(indices.shape, x.shape, strict=True)):
        message = f"{indices.short} is longer than {x.short} on axis {n}"
        if n != axis and not demand(size, "<=", whole, message):
            raise LoopwrightValueError(message)
    return x


def scattered(x: Any, at: tuple[Any, ...], updates: Any, reduction: str) -> Any:
    """Returns ``x`` with updates joined in order at one index per axis, without those outside."""
    at = np.broadcast_arrays(*at)
    inside = np.ones(at[0].shape, bool)
    place: list[Any] = []
    for indices, size in zip(at, x.shape, strict=False):
        counted = np.where(indices < 0, indices + size, indices)
        inside &= (counted >= 0) & (counted < size)
        place.append(counted)
    chosen = tuple(p[inside] for p in place)
    result = x.copy()
    if reduction == "none":
        result[chosen] = updates[inside]
    else:
        COMBINERS[REDUCTIONS[reduction]].numpy.at(result, chosen, updates[inside])
    return result


def _elements_reference(x: Any, indices: Any, updates: Any, axis: int, reduction: str) -> Any:
    at = list(np.indices(indices.shape, sparse=True))
    at[axis] = indices.astype(np.int64)
    return scattered(x, tuple(at), updates, reduction)


def _elements_samples(rng: np.random.Generator) -> Sequence[Sample]:
    def drawn(dtype: str, shape: tuple[int, ...], part: tuple[int, ...], **attrs: Any) -> Sample:
        make = floats if dtype.startswith("f") else ints
        places = ints(rng, part, "int64", -4, 4)
        return sample(make(rng, shape, dtype), places, make(rng, part, dtype), **attrs)

    return [
        drawn("float32", (4, 5), (4, 5), axis=1),
        drawn("float32", (5, 3, 4), (9, 2, 4), axis=0, reduction="add"),
        drawn("float64", (5,), (11,), reduction="max"),
        drawn("int32", (4, 6), (3, 9), axis=-1, reduction="mul"),
        drawn("int8", (4, 6), (2, 2), axis=1, reduction="min"),
        drawn("float32", (3, 4), (0, 4), axis=1),
        sample(truths(rng, (3, 4)), ints(rng, (3, 2), "int32", 0, 3), truths(rng, (3, 2)), axis=1),
    ]


@primitive(
    "nn.scatter_elements",
    Pattern.OPAQUE,
    batch="stacked",
    traits=Trait.MOVES,
    tangent=_scatter_tangent,
    not_differentiable=_WHY,
    transpose=_transpose_scatter,
    rule=_elements_rule,
    reference=_elements_reference,
    samples=_elements_samples,
)
def _scatter_elements(
    _out: TensorType,
    x: Tensor,
    indices: Tensor,
    updates: Tensor,
    *,
    axis: int = attr("the axis along which the indices choose", 0),
    reduction: str = _REDUCTION,
) -> Body:
    """``x`` with ``updates[i, j]`` joined to ``x[indices[i, j], j]``, for axis 0, in order.

    ``x`` of any dtype, integer ``indices`` and ``updates`` of one shape and the rank of ``x``.
    Negative indices count from the end; an update whose index is out of range is left out. The
    last of several for one element wins, unless they are joined.

        fn (
          %x: Tensor[(5, 4), float32],
          %indices: Tensor[(3, 4), int64],
          %updates: Tensor[(3, 4), float32]
        ) -> Tensor[(5, 4), float32] {
          nn.scatter_elements(%x, %indices, %updates, reduction="add")
        }
    """
    axis = axis % len(x.shape)
    at = [symbol(f"i{n}") for n in range(len(x.shape))]

    def statements(name: str) -> Sequence[Stmt]:
        place = tuple(symbol("k") if n == axis else i for n, i in enumerate(at))
        store = join(reduction, name, place, updates(*at))
        chosen = counted_from_end(indices(*at), x.shape[axis])
        here = At.of("k", x.shape[axis], chosen, store)
        return [*copied(name, x), *loops("i", indices.shape, here)]

    return Body(statements)


# -- scatter_nd ---------------------------------------------------------------------------------


def _nd_reference(x: Any, indices: Any, updates: Any, reduction: str) -> Any:
    return scattered(x, tuple(np.moveaxis(indices.astype(np.int64), -1, 0)), updates, reduction)


def _rows_rule(
    x: TensorType, indices: TensorType, updates: TensorType, reduction: Any
) -> TensorType:
    _check(x, indices, updates, reduction)
    count, rank = indices.shape if indices.rank == 2 else (None, 0)
    error = LoopwrightTypeError(f"{x.short}, {indices.short} and {updates.short} do not fit")
    if count is None or rank != x.rank - 1:
        raise error
    require_shape(updates.shape, (count, x.shape[-1]), error)
    return x


@primitive(
    "scatter_rows",
    Pattern.OPAQUE,
    batch="scattered_rows",
    traits=Trait.MOVES,
    tangent=_scatter_tangent,
    not_differentiable=_WHY,
    transpose=_transpose_scatter,
    rule=_rows_rule,
    reference=_nd_reference,
    samples=lambda rng: [
        sample(floats(rng, (6, 5)), ints(rng, (9, 1), "int64", -7, 6), floats(rng, (9, 5))),
        sample(
            floats(rng, (3, 4, 33)),
            ints(rng, (9, 2), "int32", -3, 3),
            floats(rng, (9, 33)),
            reduction="add",
        ),
        sample(
            ints(rng, (5, 1), "uint8"),
            ints(rng, (4, 1), "uint8", 0, 4),
            ints(rng, (4, 1), "uint8"),
            reduction="max",
        ),
    ],
)
def _scatter_rows(
    _out: TensorType, x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = _REDUCTION
) -> Body:
    """``x`` with ``updates[m]`` joined to the row ``x[indices[m, 0], ...]``, in order.

    A row is the last axis of ``x``; see nn.scatter_nd, which becomes this.

        fn (
          %x: Tensor[(6, 5), float32],
          %indices: Tensor[(9, 1), int64],
          %updates: Tensor[(9, 5), float32]
        ) -> Tensor[(6, 5), float32] {
          scatter_rows(%x, %indices, %updates, reduction="add")
        }
    """
    count, rank = indices.shape
    m, j = symbol("m"), symbol("j")

    def statements(name: str) -> Sequence[Stmt]:
        place = (*(symbol(f"k{n}") for n in range(as_int(rank))), j)
        row: Stmt = Loop(
            LoopKind.FOR, "j", x.shape[-1], (join(reduction, name, place, updates(m, j)),)
        )
        for n in reversed(range(as_int(rank))):
            chosen = counted_from_end(indices(m, n), x.shape[n])
            row = At.of(f"k{n}", x.shape[n], chosen, row)
        return [*copied(name, x), Loop(LoopKind.FOR, "m", count, (row,))]

    return Body(statements)


def _nd_rule(x: TensorType, indices: TensorType, updates: TensorType, reduction: Any) -> TensorType:
    _check(x, indices, updates, reduction)
    depth = indices.shape[-1] if indices.rank else None
    if not isinstance(depth, int) or not 0 < depth <= x.rank:
        raise LoopwrightTypeError(
            f"the last axis of {indices.short} is not a place in {x.short}: it holds one index for "
            "each of the first axes"
        )
    error = LoopwrightTypeError(
        f"updates of {updates.short} do not fit the places {indices.short} in {x.short}"
    )
    require_shape(updates.shape, (*indices.shape[:-1], *x.shape[depth:]), error)
    return x


@composite(
    "nn.scatter_nd",
    Pattern.OPAQUE,
    batch="scattered_rows",
    traits=Trait.MOVES,
    rule=_nd_rule,
    reference=_nd_reference,
    dtypes=ANY,
    samples=lambda rng: [
        sample(
            floats(rng, (4, 5, 6)),
            ints(rng, (2, 3, 2), "int64", -5, 4),
            floats(rng, (2, 3, 6)),
            reduction="add",
        ),
        sample(floats(rng, (4, 3)), ints(rng, (5, 2), "int32", 0, 2), floats(rng, (5,))),
        sample(ints(rng, (7,)), ints(rng, (9, 1), "int64", 0, 6), ints(rng, (9,)), reduction="mul"),
        sample(floats(rng, (4, 3)), ints(rng, (0, 1), "int64", 0, 2), floats(rng, (0, 3))),
    ],
)
def _scatter_nd(x: Value, indices: Value, updates: Value, *, reduction: str = _REDUCTION) -> Value:
    """``x`` with ``updates[m]`` joined to ``x[indices[m, 0], indices[m, 1], ...]``, in order.

    ``x`` of any dtype; integer ``indices``, whose last axis holds one index for each of the first
    axes of ``x``; ``updates`` of the other axes of ``indices``, then the rest of ``x``. Negative
    indices count from the end; an update whose place is out of range is left out. The last of
    several for one place wins, unless they are joined.

        fn (
          %x: Tensor[(9, 4), float32],
          %indices: Tensor[(5, 1), int64],
          %updates: Tensor[(5, 4), float32]
        ) -> Tensor[(9, 4), float32] {
          nn.scatter_nd(%x, %indices, %updates, reduction="add")
        }
    """
    depth = as_int(indices.shape[-1])
    count, row = product(indices.shape[:-1]), product(x.shape[depth:])
    scattered = F.scatter_rows(
        F.reshape(x, newshape=(*x.shape[:depth], row)),
        F.reshape(indices, newshape=(count, depth)),
        F.reshape(updates, newshape=(count, row)),
        reduction=reduction,
    )
    return F.reshape(scattered, newshape=x.shape)
