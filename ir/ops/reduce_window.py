"""``reduce_window``: the reduction over windows of any rank to which pooling is lowered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import LoopwrightValueError
from ..graph.operator import Pattern, Sample
from ..graph.types import TensorType
from ..loop.expr import Expr, IndexLike
from ..loop.tensor import Tensor, index_add, index_mul
from .declare import Element, PerAxis, Reduce, attr, primitive
from .sampling import floats, ints, sample
from .window import window_count, window_span


def spans(window: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """Returns the number of elements from the first to the last of a window on each axis."""
    return [window_span(w, d) for w, d in zip(window, dilation, strict=True)]


def _reduce_window_rule(x: TensorType, combiner: str, **per_axis: Any) -> TensorType:
    if combiner not in ("max", "min", "sum"):
        raise LoopwrightValueError(f"combiner {combiner!r} is none of max, min, sum")
    for label, values in per_axis.items():
        if len(values) != x.rank or any(not isinstance(v, int) or v < 1 for v in values):
            raise LoopwrightValueError(
                f"{label} {values!r} is not one positive int per axis of {x.short}"
            )
    window, strides, dilation = per_axis.values()
    sizes = tuple(
        size if (whole, stride) == (1, 1) else window_count(size, span, stride, x)
        for size, whole, stride, span in zip(
            x.shape, window, strides, spans(window, dilation), strict=True
        )
    )
    return TensorType(sizes, x.dtype)


def _reduce_window_reference(
    x: Any, combiner: str, window: Any, strides: Any, dilation: Any
) -> Any:
    moving = [axis for axis, size in enumerate(window) if size > 1]
    reach = spans(window, dilation)
    view: Any = np.lib.stride_tricks.sliding_window_view
    windows = view(x, tuple(reach[axis] for axis in moving), axis=moving) if moving else x
    steps = tuple(slice(None, None, s) for s in strides)
    taken = windows[steps + tuple(slice(None, None, dilation[a]) for a in moving)]
    axes = tuple(range(x.ndim, x.ndim + len(moving)))
    if combiner == "sum":
        return np.sum(taken, axis=axes, dtype=x.dtype)
    return taken.max(axes) if combiner == "max" else taken.min(axes)


def _reduce_window_samples(rng: np.random.Generator) -> list[Sample]:
    def drawn(x: Any, window: tuple[int, ...], combiner: str, **attrs: Any) -> Sample:
        ones = (1,) * len(window)
        given = {"combiner": combiner, "window": window, "strides": ones, "dilation": ones}
        return sample(x, **{**given, **attrs})

    return [
        drawn(floats(rng, (2, 9, 7)), (1, 3, 2), "max", strides=(1, 2, 1)),
        drawn(floats(rng, (11,), "float64"), (3,), "sum", strides=(2,), dilation=(3,)),
        drawn(ints(rng, (5, 6), "int8", -128, 127), (2, 6), "sum"),
        drawn(ints(rng, (4, 4), "uint8", 0, 255), (2, 2), "min", strides=(2, 2)),
        drawn(floats(rng, (5, 3)), (1, 1), "max", strides=(2, 1)),
        drawn(np.array([1, np.nan, 3, -np.inf, 5], "float32"), (2,), "max"),
        drawn(floats(rng, (0, 4)), (1, 2), "max"),
    ]


@primitive(
    "reduce_window",
    Pattern.CONTRACTION,
    dtypes="iuf",
    rule=_reduce_window_rule,
    reference=_reduce_window_reference,
    samples=_reduce_window_samples,
)
def _reduce_window(
    out: TensorType,
    x: Tensor,
    *,
    combiner: Any = attr("max, min or sum"),
    window: PerAxis = attr("size of the window per axis"),
    strides: PerAxis = attr("distance of neighbouring windows per axis"),
    dilation: PerAxis = attr("distance of the elements of a window per axis"),
) -> Element | Reduce:
    """The greatest element, the least one or the sum of every window.

    ``x`` of any shape, integers or floats; a window has a size, a stride and a dilation on each
    axis. The result has the dtype of ``x``, and windows stand only where they fit.
    LoopwrightValueError for a window larger than an axis, LoopwrightTypeError for bool.

        fn (%x: Tensor[(9, 8), float32]) -> Tensor[(3, 6), float32] {
          reduce_window(%x, combiner="max", window=[3, 3], strides=[3, 1], dilation=[1, 1])
        }
    """
    moving = [axis for axis, size in enumerate(window) if size > 1]

    def element(*i: IndexLike) -> Expr:
        at = [index_mul(n, stride) for n, stride in zip(i, strides, strict=False)]
        for axis, n in zip(moving, i[out.rank :], strict=True):
            at[axis] = index_add(at[axis], index_mul(n, dilation[axis]))
        return x(*at)

    over = tuple(window[axis] for axis in moving)
    return Reduce(combiner, over, element) if moving else element
