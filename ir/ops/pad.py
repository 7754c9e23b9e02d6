"""``nn.pad``: a border around a tensor, as an index map with a condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dims import IntExpr, int_max
from ..dtype import BOOL
from ..errors import LoopwrightValueError
from ..graph.compose import F, Value, cut
from ..graph.operator import Pattern, Sample
from ..graph.requirements import demand
from ..graph.type_rules import is_size, require_fits
from ..graph.types import TensorType
from ..loop import tensor
from ..loop.expr import Expr, IndexLike, const, op, select
from ..traits import Trait
from .declare import Element, PerAxis, attr, primitive
from .sampling import floats, ints, sample, truths

if TYPE_CHECKING:
    from ..graph.derivatives.rules import Step, Transposition

_PAD_MODES = ("constant", "edge", "reflect")


def both(left: Expr, right: Expr) -> Expr:
    """``left and right``; ``right`` alone where ``left`` is the constant True."""
    return right if left is const(True, BOOL) else op("logical_and", left, right)


def _nearest(at: IndexLike, size: IntExpr) -> IndexLike:
    return tensor.index_max(0, tensor.index_min(at, size - 1))


def _reflected(at: IndexLike, size: IntExpr) -> IndexLike:
    """The index of a reflection, which has the period ``2 * size - 2``."""
    if size == 1:
        return 0
    period = int_max(1, 2 * size - 2)
    forward = tensor.index_mod(at, period)
    return tensor.index_min(forward, tensor.index_sub(period, forward))


_PAD_INDEX: dict[str, Callable[[IndexLike, IntExpr], IndexLike]] = {
    "constant": lambda at, _size: at,
    "edge": _nearest,
    "reflect": _reflected,
}


def _pad_tangent(step: Step) -> Value:
    """The border of zeros, or of the elements that are repeated."""
    return step.again(step.moved(), pad_value=0)


def _transpose_pad(step: Transposition) -> None:
    """The inner part; along an axis whose elements are repeated, each gets its copies."""
    ct, widths, mode = step.ct, step.attrs["pad_width"], step.attrs["mode"]
    for axis, (before, after) in enumerate(widths):
        size = step.shape()[axis]
        if (before, after) == (0, 0):
            continue
        if mode == "constant":
            ct = cut(ct, axis, before, before + size)
            continue
        at = ct.iota((size + before + after,), 0) - before
        if mode == "edge":
            at = F.minimum(F.maximum(at, 0), size - 1)
        else:
            period = int_max(1, 2 * size - 2)
            at = F.floor_mod(at, period)
            at = F.minimum(F.minimum(at, period - at), size - 1)
        shape = (*ct.shape[:axis], size, *ct.shape[axis + 1 :])
        front = (axis, *(n for n in range(ct.rank) if n != axis))
        ct = F.index_update(
            ct.full(shape, 0), F.transpose(ct, axes=front), at, axes=(axis,), reduction="add"
        )
    step.add(0, ct)


def _pad_rule(x: TensorType, pad_width: Any, pad_value: Any, mode: Any) -> TensorType:
    if mode not in _PAD_MODES:
        raise LoopwrightValueError(f"mode {mode!r} is none of {', '.join(_PAD_MODES)}")
    if len(pad_width) != x.rank:
        raise LoopwrightValueError(f"needs a pair of widths per axis of {x.short}")
    require_fits("pad_value", pad_value, x.dtype)
    sizes: list[IntExpr] = []
    for axis, pair in enumerate(pad_width):
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(map(is_size, pair)):
            raise LoopwrightValueError(f"{pair!r} on axis {axis} is not a pair of widths")
        before, after = pair
        if any(isinstance(w, int) and w < 0 for w in pair):
            raise LoopwrightValueError(
                f"width {min(pair)} on axis {axis} of {x.short} is negative",
                hint="slice the operand",
            )
        message = f"{mode} has nothing to repeat in {x.short}"
        if mode != "constant" and pair != (0, 0) and not demand(1, "<=", x.shape[axis], message):
            raise LoopwrightValueError(message)
        sizes.append(x.shape[axis] + before + after)
    return TensorType(tuple(sizes), x.dtype)


def _pad_reference(x: Any, pad_width: Any, pad_value: Any, mode: Any) -> Any:
    keywords = {"constant_values": pad_value} if mode == "constant" else {}
    return np.pad(x, pad_width, mode, **keywords) if x.ndim else x


def _pad_samples(rng: np.random.Generator) -> list[Sample]:
    def drawn(x: Any, *widths: tuple[int, int], **attrs: Any) -> Sample:
        return sample(x, pad_width=widths, **attrs)

    return [
        drawn(floats(rng, (3, 5)), (1, 2), (0, 3)),
        drawn(floats(rng, (1, 4, 4, 2)), (0, 0), (1, 1), (1, 1), (0, 0), pad_value=-1.5),
        drawn(floats(rng, (3,), "float64"), (2, 0), pad_value=float("-inf")),
        drawn(ints(rng, (2, 3), "int8"), (0, 0), (1, 0), pad_value=-128),
        drawn(truths(rng, (2,)), (1, 1), pad_value=True),
        drawn(floats(rng, (0, 2)), (2, 1), (0, 0), pad_value=7),
        drawn(floats(rng, (3, 4)), (2, 1), (0, 5), mode="edge"),
        drawn(ints(rng, (5, 4), "int64"), (2, 4), (3, 0), mode="reflect"),
        drawn(floats(rng, (3,)), (7, 8), mode="reflect"),
        drawn(floats(rng, (1, 2)), (2, 2), (1, 1), mode="reflect"),
        drawn(floats(rng, (0, 2)), (0, 0), (1, 1), mode="edge"),
        drawn(floats(rng, ())),
    ]


@primitive(
    "nn.pad",
    Pattern.INJECTIVE,
    batch="stacked",
    traits=Trait.MOVES,
    tangent=_pad_tangent,
    transpose=_transpose_pad,
    rule=_pad_rule,
    reference=_pad_reference,
    samples=_pad_samples,
)
def _pad(
    out: TensorType,
    x: tensor.Tensor,
    *,
    pad_width: PerAxis = attr("per axis, how many elements in front and behind"),
    pad_value: Any = attr("the constant", 0),
    mode: Any = attr("constant, edge or reflect", "constant"),
) -> Element:
    """A border around the tensor: a constant, the nearest element, or its reflection.

    ``x`` of any shape and dtype. ``reflect`` does not repeat the outermost element and goes on to
    and fro where the border is wider than the axis. LoopwrightValueError for a negative width, an
    unknown mode or an empty axis that has nothing to repeat, LoopwrightTypeError for a value the
    dtype cannot hold.

        fn (%x: Tensor[(2, 3), float32]) -> Tensor[(4, 5), float32] {
          nn.pad(%x, pad_width=[[1, 1], [0, 2]], mode="edge")
        }
    """
    inside = _PAD_INDEX[mode]

    def element(*i: IndexLike) -> Expr:
        padded = [pair != (0, 0) for pair in pad_width]
        source = [
            tensor.index_sub(at, before) for at, (before, _) in zip(i, pad_width, strict=True)
        ]
        if mode != "constant":
            return x(
                *(
                    inside(at, size) if pad else at
                    for at, size, pad in zip(source, x.shape, padded, strict=True)
                )
            )
        condition: Expr = const(True, BOOL)
        for at, size, pad in zip(source, x.shape, padded, strict=True):
            if pad:
                condition = both(condition, tensor.index_within(at, 0, size))
        return select(condition, x(*source), const(pad_value, out.dtype))

    return element
