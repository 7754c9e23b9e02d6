"""Non-maximum suppression: boxes without those that overlap a better one too much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dims import symbol
from ..dtype import INT32, INT64
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.compose import F, Value
from ..graph.operator import Pattern, Sample
from ..graph.type_rules import require_shape, same_dtype
from ..graph.types import TensorType
from ..loop.expr import Expr, const, index, op, read, select
from ..loop.kinds import LoopKind, Scope
from ..loop.nest import Accumulate, Alloc, At, If, Loop, Stmt, Store
from ..loop.prim import Buffer
from ..loop.tensor import Tensor
from .declare import Body, attr, composite, primitive
from .sampling import floats, sample

_MOST = attr("places in the result of each row of boxes")
_OVERLAP = attr("the intersection over the union from which on a box is left out", 0.5)


def _sorted_rule(boxes: TensorType, most: Any, **_: Any) -> TensorType:
    if boxes.rank != 3 or boxes.shape[-1] != 4 or not boxes.dtype.is_float:
        raise LoopwrightTypeError(f"boxes are float[batch, boxes, 4], not {boxes.short}")
    if not isinstance(most, int) or most < 0:
        raise LoopwrightValueError(f"{most} boxes")
    return TensorType((boxes.shape[0], most), INT64)


def _kept(boxes: Any, most: int, overlap: float) -> Any:
    """Returns the places of boxes that no better one, which comes first, overlaps too much."""
    result = np.full((len(boxes), most), -1, np.int64)
    for row, corners in enumerate(boxes):
        sizes = corners[:, 2:] - corners[:, :2]
        areas = sizes[:, 0] * sizes[:, 1]
        left, count = np.ones(len(corners), bool), 0
        for place in range(len(corners)):
            if not left[place] or count == most:
                continue
            result[row, count] = place
            count += 1
            low = np.maximum(corners[place, :2], corners[:, :2])
            high = np.minimum(corners[place, 2:], corners[:, 2:])
            width, height = np.maximum(high - low, 0).T
            common = width * height
            limit = boxes.dtype.type(overlap) * (areas[place] + areas - common)
            left &= ~(common > limit)
    return result


def _boxes(rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "float32") -> Any:
    first = floats(rng, (*shape, 2), dtype, 0, 4)
    return np.concatenate([first, first + floats(rng, (*shape, 2), dtype, 0.5, 3)], -1)


@primitive(
    "keep_boxes",
    Pattern.OPAQUE,
    rule=_sorted_rule,
    reference=_kept,
    samples=lambda rng: [
        sample(_boxes(rng, (2, 30)), most=8),
        sample(_boxes(rng, (1, 40), "float64"), most=40, overlap=0.1),
        sample(_boxes(rng, (3, 5)), most=9, overlap=0.9),
        sample(_boxes(rng, (2, 5)), most=0),
        sample(_boxes(rng, (2, 0)), most=3),
    ],
)
def _keep_boxes(
    _out: TensorType, boxes: Tensor, *, most: int = _MOST, overlap: float = _OVERLAP
) -> Body:
    """The places of boxes that no earlier kept one overlaps too much, int64; then -1.

    ``boxes`` of floats: least and greatest corners, the best box of each row first.

        fn (%boxes: Tensor[(2, 30, 4), float32]) -> Tensor[(2, 8), int64] {
          keep_boxes(%boxes, most=8)
        }
    """
    rows, size = boxes.shape[:2]
    dtype = boxes.dtype
    r, i, j = symbol("r"), symbol("i"), symbol("j")
    # Columns of the corners, the area, and 1 while a box is left: all contiguous along the boxes.
    columns = Buffer("columns", (rows, 5, size), dtype)
    left = Buffer("left", (rows, size), INT32)

    def column(n: Any, box: Any) -> Expr:
        return read("columns", (r, n, box), dtype)

    def common(n: int) -> Expr:
        """The length that the boxes i and j share along an axis."""
        low = op("maximum", column(n, i), column(n, j))
        high = op("minimum", column(n + 2, i), column(n + 2, j))
        return op("maximum", op("subtract", high, low), const(0.0, dtype))

    def statements(name: str) -> Sequence[Stmt]:
        n, c, f, a = symbol("n"), symbol("c"), symbol("f"), symbol("a")
        if 0 in (rows, most):
            return []
        fill = Loop(LoopKind.FOR, "f", most, (Store(name, (r, f), const(-1, INT64)),))
        if size == 0:
            return [Loop(LoopKind.FOR, "r", rows, (fill,))]
        copied = [Store("columns", (r, n, c), boxes(r, c, n))]
        sides = [op("subtract", column(side + 2, a), column(side, a)) for side in range(2)]
        count = read("count", (0,), INT64)
        shared = op("multiply", common(0), common(1))
        both = op("subtract", op("add", column(4, i), column(4, j)), shared)
        apart = op("less_equal", shared, op("multiply", const(overlap, dtype), both))
        still = select(apart, read("left", (r, j), INT32), const(0, INT32))
        free = op("not_equal", read("left", (r, i), INT32), const(0, INT32))
        keep = At.of(
            "q",
            most,
            count,
            Store(name, (r, symbol("q")), index(i)),
            Loop(LoopKind.FOR, "j", size, (Store("left", (r, j), still),)),
        )
        body = (
            fill,
            Alloc(Buffer("count", (1,), INT64), Scope.STACK),
            Store("count", (0,), const(0, INT64)),
            Loop(LoopKind.FOR, "n", 4, (Loop(LoopKind.FOR, "c", size, tuple(copied)),)),
            Loop(
                LoopKind.FOR,
                "a",
                size,
                (
                    Store("columns", (r, 4, a), op("multiply", *sides)),
                    Store("left", (r, a), const(1, INT32)),
                ),
            ),
            Loop(
                LoopKind.FOR,
                "i",
                size,
                (If(free, (keep, Accumulate("count", (0,), "sum", const(1, INT64)))),),
            ),
        )
        return [Loop(LoopKind.FOR, "r", rows, body)]

    return Body(statements, (columns, left))


def _rule(boxes: TensorType, scores: TensorType, most: Any, **_: Any) -> TensorType:
    same_dtype([boxes, scores])
    result = _sorted_rule(boxes, most)
    error = LoopwrightTypeError(f"one score for each box: {scores.short} for {boxes.short}")
    require_shape(scores.shape, boxes.shape[:2], error)
    return result


def _reference(boxes: Any, scores: Any, most: int, overlap: float, least_score: float) -> Any:
    order = np.argsort(-scores, axis=-1, kind="stable")
    low = np.minimum(boxes[..., :2], boxes[..., 2:])
    high = np.maximum(boxes[..., :2], boxes[..., 2:])
    corners = np.take_along_axis(np.concatenate([low, high], -1), order[..., None], 1)
    places = _kept(corners, most, overlap)
    chosen = np.take_along_axis(order, np.maximum(places, 0), 1)
    good = np.take_along_axis(scores, chosen, 1) > scores.dtype.type(least_score)
    return np.where((places >= 0) & good, chosen, -1).astype(np.int64)


def _samples(rng: np.random.Generator) -> Sequence[Sample]:
    return [
        sample(_boxes(rng, (2, 30)), floats(rng, (2, 30)), most=8, least_score=-0.5),
        sample(_boxes(rng, (1, 9))[..., ::-1].copy(), floats(rng, (1, 9)), most=9, overlap=0.2),
    ]


@composite(
    "nn.non_max_suppression",
    Pattern.OPAQUE,
    rule=_rule,
    reference=_reference,
    samples=_samples,
)
def _non_max_suppression(
    boxes: Value,
    scores: Value,
    *,
    most: int = _MOST,
    overlap: float = _OVERLAP,
    least_score: float = attr("the score above which a box counts", float("-inf")),
) -> Value:
    """The places of the best boxes that overlap no better one too much, int64; then -1.

    ``boxes`` of floats hold two opposite corners of each box, ``scores`` a number for each. The
    best comes first, of equal ones the first. A box is left out if its intersection with a better
    one that is kept is more than ``overlap`` of their union. The number of boxes that are kept is
    that of the results that are not -1.

        fn (
          %boxes: Tensor[(2, 30, 4), float32],
          %scores: Tensor[(2, 30), float32]
        ) -> Tensor[(2, 8), int64] {
          nn.non_max_suppression(%boxes, %scores, most=8)
        }
    """
    rows, size = scores.shape
    first, second = (
        F.strided_slice(boxes, begin=(0, 0, n), end=(rows, size, n + 2), strides=(1, 1, 1))
        for n in (0, 2)
    )
    corners = F.concatenate(F.minimum(first, second), F.maximum(first, second), axis=2)
    order = F.argsort_rows(scores, descending=True)

    def chosen(x: Value, places: Value) -> Value:
        """The elements of each row of ``x`` at these places."""
        at = F.reshape(places, newshape=(*places.shape, 1))
        return F.nn.gather_nd(x, at, batch_dims=1)

    places = F.keep_boxes(chosen(corners, order), most=most, overlap=overlap)
    boxes_kept = chosen(order, F.maximum(places, 0))
    good = F.greater(chosen(scores, boxes_kept), least_score)
    good = F.logical_and(F.greater_equal(places, 0), good)
    return F.where(good, boxes_kept, -1)
