"""Tensors with elements replaced: of a slice (``strided_set``), or at indices from data.

::

    x[i, :, j] = v       axes = (0, 2), indices i and j, of one shape or broadcast
    x[2:9:3, i] = v      axes = (1,), and a window (begin 2, stride 3, size 3) on the other axis
    x[i : i + 4] = v     starts = (0,): the window of that axis begins at an operand

The kernel of ``index_update`` begins as ``x`` and writes only what changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dims import IntExpr, int_max, product, symbol
from ..dtype import BOOL
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.compose import F, Value, at_indices, broadcast, cut, unbroadcast
from ..graph.operator import Pattern, Sample
from ..graph.requirements import demand
from ..graph.type_rules import Shape, broadcast_read, is_size, joined_shape, same_dtype
from ..graph.types import TensorType
from ..loop.expr import Const, Expr, IndexLike, const, index, select
from ..loop.kinds import LoopKind
from ..loop.nest import At, Loop, Stmt
from ..loop.scalar import COMBINERS
from ..loop.tensor import Tensor, index_div, index_less, index_mod, index_sub, index_within
from ..traits import Trait
from .declare import Body, Element, PerAxis, attr, primitive
from .pad import both
from .sampling import floats, ints, sample, truths
from .scatter import REDUCTIONS, counted_from_end, join, scattered

if TYPE_CHECKING:
    from ..graph.derivatives.rules import Step, Transposition


def _transpose_set(step: Transposition) -> None:
    """Zeros where the elements were replaced; what stands there is for the new ones."""
    begin, strides = step.attrs["begin"], step.attrs["strides"]
    value = step.zeros(1)
    step.add(0, F.strided_set(step.ct, value, begin=begin, strides=strides))
    end = tuple(
        b + (size - 1) * s + 1 if size != 0 else b
        for b, s, size in zip(begin, strides, value.shape, strict=True)
    )
    step.add(1, F.strided_slice(step.ct, begin=begin, end=end, strides=strides))


def _end(first: IntExpr, stride: int, size: IntExpr) -> IntExpr:
    return first + (size - 1) * stride + 1 if size != 0 else first


def _strided_set_rule(x: TensorType, value: TensorType, begin: Any, strides: Any) -> TensorType:
    same_dtype((x, value))
    if not len(begin) == len(strides) == x.rank == value.rank:
        raise LoopwrightValueError(
            f"needs one begin, one stride and one size of {value.short} per axis of {x.short}"
        )
    for axis, (first, stride, size) in enumerate(zip(begin, strides, value.shape, strict=True)):
        if not is_size(first) or not isinstance(stride, int) or stride < 1:
            raise LoopwrightValueError(
                f"begin {first} and stride {stride} on axis {axis} are no slice"
            )
        message = f"{value.short} from {first} by {stride} leaves axis {axis} of {x.short}"
        last = first + (size - 1) * stride
        fits = size == 0 or demand(0, "<=", first, message)
        if not fits or (size != 0 and not demand(last, "<", x.shape[axis], message)):
            raise LoopwrightTypeError(message)
    return x


def _strided_set_reference(x: Any, value: Any, begin: Any, strides: Any) -> Any:
    result = np.array(x)
    key = tuple(
        slice(first, _end(first, stride, size), stride)
        for first, stride, size in zip(begin, strides, value.shape, strict=True)
    )
    result[key] = value
    return result


def _strided_set_samples(rng: np.random.Generator) -> list[Sample]:
    def drawn(x: Any, value: Any, *slices: tuple[int, int]) -> Sample:
        begin, strides = zip(*slices, strict=True)
        return sample(x, value, begin=begin, strides=strides)

    return [
        drawn(floats(rng, (7, 9)), floats(rng, (2, 9)), (3, 1), (0, 1)),
        drawn(floats(rng, (7, 9)), floats(rng, (7, 5)), (0, 1), (0, 2)),
        drawn(floats(rng, (7, 9), "float64"), floats(rng, (3, 2), "float64"), (1, 2), (4, 3)),
        drawn(ints(rng, (5, 3, 4), "int8"), ints(rng, (1, 3, 1), "int8"), (4, 7), (0, 1), (2, 1)),
        drawn(ints(rng, (6,), "uint8"), ints(rng, (6,), "uint8"), (0, 1)),
        drawn(truths(rng, (4,)), truths(rng, (1,)), (2, 1)),
        drawn(floats(rng, (4, 3)), floats(rng, (0, 3)), (2, 1), (0, 1)),
        sample(floats(rng, ()), floats(rng, ()), begin=(), strides=()),
    ]


@primitive(
    "strided_set",
    Pattern.INJECTIVE,
    batch="stacked",
    traits=Trait.MOVES,
    linear=slice(2),
    transpose=_transpose_set,
    rule=_strided_set_rule,
    reference=_strided_set_reference,
    samples=_strided_set_samples,
)
def _strided_set(
    _out: TensorType,
    x: Tensor,
    value: Tensor,
    *,
    begin: PerAxis = attr("first index per axis"),
    strides: PerAxis = attr("step per axis, 1 or more"),
) -> Element:
    """``x`` with its elements at a slice replaced by those of ``value``.

    ``x`` of any shape and dtype, ``value`` of its dtype and rank: on each axis its elements go to
    ``begin``, ``begin + strides``, and so on. The result has the type of ``x``. LoopwrightTypeError
    where dtypes differ or the slice leaves ``x``, LoopwrightValueError for a stride below 1.

        fn (%x: Tensor[(5, 6), float32], %v: Tensor[(2, 6), float32]) -> Tensor[(5, 6), float32] {
          strided_set(%x, %v, begin=[1, 0], strides=[1, 1])
        }
    """
    axes = [*zip(begin, strides, value.shape, x.shape, strict=True)]

    def element(*i: IndexLike) -> Expr:
        inside: Expr = const(True, BOOL)
        source: list[IndexLike] = []
        for at, (first, stride, size, whole) in zip(i, axes, strict=True):
            offset = index_sub(at, first)
            if stride == 1 or size == 1:
                if size != whole:
                    inside = both(inside, index_within(offset, 0, size))
            else:
                inside = both(inside, index_within(offset, 0, (size - 1) * stride + 1))
                inside = both(inside, index_less(index_mod(offset, stride), 1))
                offset = index_div(offset, stride)
            source.append(offset)
        if any(size == 0 for size in value.shape):
            return x(*i)
        return select(inside, value(*source), x(*i))

    return element


def _rest(rank: int, axes: Sequence[int]) -> list[int]:
    return [axis for axis in range(rank) if axis not in axes]


def _check_axes(x: TensorType, axes: Any, count: int, what: str) -> None:
    valid = isinstance(axes, tuple) and all(isinstance(a, int) and 0 <= a < x.rank for a in axes)
    if not valid or len(set(axes)) != len(axes):
        raise LoopwrightValueError(f"{what} {axes} are no axes of {x.short}")
    if len(axes) > count:
        raise LoopwrightTypeError(f"an operand is missing for one of the {what} {axes}")


def _check_integers(indices: Sequence[TensorType]) -> None:
    for each in indices:
        if not each.dtype.is_integer:
            raise LoopwrightTypeError(f"indices are integers, not {each.short}")


def _rule(
    x: TensorType,
    value: TensorType,
    *indices: TensorType,
    axes: Any,
    starts: Any,
    begin: Any,
    strides: Any,
    sizes: Any,
    reduction: Any,
) -> TensorType:
    _check_axes(x, axes, len(indices), "axes")
    _check_axes(x, starts, len(indices) - len(axes), "starts")
    _check_integers(indices)
    if len(indices) != len(axes) + len(starts) or set(axes) & set(starts):
        raise LoopwrightTypeError(f"{len(indices)} indices for the axes {axes} and {starts}")
    if value.dtype != x.dtype:
        raise LoopwrightTypeError(f"elements of {value.short} for {x.short}")
    if reduction not in REDUCTIONS:
        raise LoopwrightValueError(f"reduction {reduction!r} is none of {', '.join(REDUCTIONS)}")
    if any(start.rank for start in indices[len(axes) :]):
        raise LoopwrightTypeError("the start of a window is a scalar")
    rest = _rest(x.rank, axes)
    if not len(begin) == len(strides) == len(sizes) or len(sizes) not in (0, len(rest)):
        raise LoopwrightValueError(
            f"needs a begin, a stride and a size for each of the axes {rest} of {x.short}, or none"
        )
    for axis, first, stride, size in zip(rest, begin, strides, sizes):
        last = first + (size - 1) * stride
        message = f"{size} elements from {first} by {stride} leave axis {axis} of {x.short}"
        inside = demand(0, "<=", first, message) and demand(0, "<=", size, message)
        if size != 0 and inside:
            inside = demand(last, "<", x.shape[axis], message)
        if not inside or stride < 1:
            raise LoopwrightValueError(message)
    places = _joined_shape([i.shape for i in indices[: len(axes)]])
    wanted = (*places, *(sizes or (x.shape[axis] for axis in rest)))
    if _joined_shape([value.shape, wanted]) != wanted:
        raise LoopwrightTypeError(f"{value.short} does not broadcast to the index's {wanted}")
    return x


def _update_tangent(step: Step) -> Value:
    """An update that replaces or adds is linear in both; products and extremes are not."""
    if step.attrs["reduction"] not in ("none", "add"):
        raise step.refused()
    x, value = (step.moved(n) for n in range(2))
    return step.again(x, value, *(step.x(n) for n in range(2, len(step.call.args))))


def _transpose_update(step: Transposition) -> None:
    """An update gets what stands at its place; elements that were replaced get 0. Of several
    updates for one element, the last gets all of it."""
    attrs, value = step.attrs, step.x(1)
    indices = [step.x(n) for n in range(2, len(step.args))]
    if attrs["reduction"] != "none":
        step.add(0, step.ct)
    elif step.linear[0]:
        zero = value.full((1,) * value.rank, 0)
        step.add(0, F.index_update(step.ct, zero, *indices, **attrs))
    if not step.linear[1]:
        return
    made = _at_places(step.ct, indices, attrs)
    if attrs["reduction"] == "none" and any(i.rank for i in indices):
        shape = made.shape
        number = F.reshape(made.iota((product(shape),), 0), newshape=shape)
        none = number.full(step.ct.shape, -1)
        writer = _at_places(F.index_update(none, number, *indices, **attrs), indices, attrs)
        made = F.where(F.equal(writer, number), made, made.full((), 0))
    step.add(1, unbroadcast(made, value.shape))


def _at_places(x: Value, indices: Sequence[Value], attrs: Mapping[str, Any]) -> Value:
    """Returns the elements of ``x`` that an update with such attributes is for."""
    axes, starts = attrs["axes"], attrs["starts"]
    rest = _rest(x.rank, axes)
    windows = [*zip(attrs["begin"], attrs["strides"], attrs["sizes"])]
    windows = windows or [(0, 1, x.shape[axis]) for axis in rest]
    chosen = dict(zip([*axes, *starts], indices, strict=True))
    for axis, (first, stride, size) in zip(rest, windows, strict=True):
        if axis in starts:
            where = {"axes": (axis,), "sizes": (size,), "strides": (stride,)}
            x = F.dynamic_slice(x, chosen[axis], **where)
        elif (first, stride, size) != (0, 1, x.shape[axis]):
            x = cut(x, axis, first, _end(first, stride, size), stride)
    if not axes:
        return x
    places = _joined_shape([i.shape for i in indices[: len(axes)]])
    at = [broadcast(F.cast(i, dtype="int64"), places) for i in indices[: len(axes)]]
    return at_indices(F.transpose(x, axes=(*axes, *rest)), at)


def _joined_shape(shapes: Sequence[Shape]) -> Shape:
    def refuse(left: IntExpr, right: IntExpr) -> LoopwrightTypeError:
        text = ", ".join(map(str, shapes))
        return LoopwrightTypeError(f"{text} do not broadcast, sizes {left} and {right} differ")

    return joined_shape(shapes, refuse) if shapes else ()


def _reference(
    x: Any,
    value: Any,
    *indices: Any,
    axes: Sequence[int],
    starts: Sequence[int],
    begin: Sequence[int],
    strides: Sequence[int],
    sizes: Sequence[int],
    reduction: str,
) -> Any:
    rest = _rest(x.ndim, axes)
    window = [*zip(begin, strides, sizes)] or [(0, 1, x.shape[axis]) for axis in rest]
    places = np.broadcast_shapes(*(i.shape for i in indices[: len(axes)]))
    shape = (*places, *(size for _, _, size in window))
    if not x.ndim:
        return np.array(_joined(x, value, reduction))
    if 0 in shape:
        return x.copy()
    at: list[Any] = [None] * x.ndim
    for axis, chosen in zip(axes, indices):
        at[axis] = np.broadcast_to(chosen, places).reshape((*places, *[1] * len(rest)))
    for n, (axis, (first, stride, size)) in enumerate(zip(rest, window, strict=True)):
        line = first + stride * np.arange(size)
        if axis in starts:
            first = int(indices[len(axes) + starts.index(axis)])
            first = first + x.shape[axis] if first < 0 else first
            reached = first + (size - 1) * stride
            inside = first >= 0 and reached < x.shape[axis]
            line = first + stride * np.arange(size) if inside else np.full(size, x.shape[axis])
        at[axis] = line.reshape(*[1] * (len(places) + n), size, *[1] * (len(rest) - n - 1))
    at = [np.broadcast_to(i, shape).astype(np.int64) for i in at]
    return scattered(x, tuple(at), np.broadcast_to(value, shape), reduction)


def _joined(x: Any, value: Any, reduction: str) -> Any:
    value = value.reshape(())
    return value if reduction == "none" else COMBINERS[REDUCTIONS[reduction]].numpy(x, value)


def _samples(rng: np.random.Generator) -> list[Sample]:
    def place(*shape: int, low: int = -4, high: int = 4) -> Any:
        return ints(rng, shape, "int64", low, high)

    return [
        sample(floats(rng, (6, 5)), floats(rng, (5,)), place(), axes=(0,)),
        sample(floats(rng, (6,)), floats(rng, ()), place(), axes=(0,), reduction="add"),
        sample(floats(rng, (6, 5)), floats(rng, ()), place(), place(), axes=(0, 1)),
        sample(
            ints(rng, (4, 3, 5), "int32"),
            ints(rng, (7, 3), "int32"),
            place(7),
            place(),
            axes=(0, 2),
            reduction="mul",
        ),
        sample(
            floats(rng, (4, 9), "float64"),
            floats(rng, (2, 1, 3), "float64"),
            place(2, 6),
            axes=(0,),
            begin=(2,),
            strides=(3,),
            sizes=(3,),
            reduction="max",
        ),
        sample(
            floats(rng, (40, 3)),
            floats(rng, (16, 2)),
            place(low=0, high=30),
            starts=(0,),
            begin=(0, 1),
            strides=(1, 1),
            sizes=(16, 2),
        ),
        sample(
            ints(rng, (5, 9), "uint8"),
            ints(rng, (), "uint8"),
            place(3),
            place(low=-9, high=9),
            axes=(0,),
            starts=(1,),
            begin=(0,),
            strides=(2,),
            sizes=(4,),
            reduction="min",
        ),
        sample(
            truths(rng, (4, 6)), truths(rng, (4, 1)), begin=(0, 2), strides=(1, 2), sizes=(4, 2)
        ),
        sample(floats(rng, ()), floats(rng, ()), reduction="add"),
        sample(floats(rng, (4, 3)), floats(rng, (0, 3)), place(0), axes=(0,)),
    ]


@primitive(
    "index_update",
    Pattern.OPAQUE,
    batch="updated",
    traits=Trait.MOVES,
    tangent=_update_tangent,
    not_differentiable="products and extremes of what is there and the updates",
    transpose=_transpose_update,
    rule=_rule,
    reference=_reference,
    samples=_samples,
)
def _index_update(
    _out: TensorType,
    x: Tensor,
    value: Tensor,
    *indices: Tensor,
    axes: Any = attr("the axes of the first indices", ()),
    starts: Any = attr("the axes whose windows begin at the other indices", ()),
    begin: Any = attr("first index per axis without an index", ()),
    strides: Any = attr("step per axis without an index, 1 or more", ()),
    sizes: Any = attr("number of elements per axis without an index; all if empty", ()),
    reduction: str = attr("how an update joins the element: none, add, mul, min, max", "none"),
) -> Body:
    """``x`` with ``value`` joined to its elements at an index, in order.

    ``x`` of any dtype; ``value`` of its dtype, broadcast to the shape of the indices (which are
    broadcast against each other), then the other axes of ``x`` or the windows on them. Indices are
    integers; negative ones count from the end, and an update whose place is out of range is left
    out; so is a window that begins at an operand and does not fit. The last of several for one
    element wins, unless they are joined. LoopwrightTypeError where dtypes or shapes do not fit,
    LoopwrightValueError for windows that leave ``x``.

        fn (
          %x: Tensor[(6, 5), float32],
          %v: Tensor[(5), float32],
          %i: Tensor[(), int64]
        ) -> Tensor[(6, 5), float32] {
          index_update(%x, %v, %i, axes=[0])
        }
    """
    rank = len(x.shape)
    rest = _rest(rank, axes)
    given, begins = indices[: len(axes)], indices[len(axes) :]
    places = _joined_shape([i.shape for i in given])
    windows = [*zip(begin, strides, sizes)] or [(0, 1, x.shape[axis]) for axis in rest]
    outer: list[IntExpr] = [symbol(f"i{n}") for n in range(len(places))]
    inner: list[IntExpr] = [
        symbol(f"j{n}") if size != 1 else 0 for n, (_, _, size) in enumerate(windows)
    ]

    def statements(name: str) -> Sequence[Stmt]:
        where: list[IntExpr] = [0] * rank
        for axis in axes:
            where[axis] = symbol(f"k{axis}")
        for axis, j, (first, stride, _) in zip(rest, inner, windows, strict=True):
            where[axis] = (symbol(f"k{axis}") if axis in starts else first) + j * stride
        body: Stmt = join(reduction, name, tuple(where), broadcast_read(value, [*outer, *inner]))
        for n in reversed(range(len(rest))):
            if windows[n][2] != 1:
                body = Loop(LoopKind.FOR, f"j{n}", windows[n][2], (body,))
        for axis, each in reversed([*zip(axes, given, strict=True)]):
            chosen = _place(broadcast_read(each, outer), x.shape[axis])
            body = At.of(f"k{axis}", x.shape[axis], chosen, body)
        for n in reversed(range(len(places))):
            body = Loop(LoopKind.FOR, f"i{n}", places[n], (body,))
        for axis, start in reversed([*zip(starts, begins, strict=True)]):
            _, stride, size = windows[rest.index(axis)]
            chosen = _place(start(), x.shape[axis])
            fitting = x.shape[axis] - (size - 1) * stride if size != 0 else 0
            body = At.of(f"k{axis}", int_max(0, fitting), chosen, body)
        return [body]

    return Body(statements, begins_as=x)


def _place(value: Expr, size: IntExpr) -> Expr:
    """Returns an index as int64, counted from the front."""
    if isinstance(value, Const):
        return index(int(value.value) + size if value.value < 0 else int(value.value))
    return counted_from_end(value, size)
