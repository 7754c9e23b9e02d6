"""Softmax and its logarithm: the greatest element of a row is subtracted, so that no exponential
overflows.

A long row that is the only one is cut into pieces, each with a greatest element of its own, so that
a piece is read once and all threads have some; the sums are joined at the end ("Online normalizer
calculation for softmax", Milakov and Gimelshein, 2018).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..dims import as_int, product
from ..errors import LoopwrightValueError
from ..graph.compose import F, Value
from ..graph.operator import Operator, Pattern, Sample
from ..graph.type_rules import normalise_axis
from ..graph.types import TensorType
from ..traits import Trait
from .declare import attr, composite, in_float64
from .sampling import floats, sample


def _rule(x: TensorType, axis: int) -> TensorType:
    axis = normalise_axis(axis, x.rank, x)
    if x.shape[axis] == 0 and x.size != 0:
        raise LoopwrightValueError(f"{x.short} has no element along axis {axis}")
    return x


def _reference(logarithm: bool) -> Callable[..., Any]:
    def reference(x: Any, axis: int) -> Any:
        if x.size == 0:
            return x
        total = np.logaddexp.reduce(x, axis=axis, keepdims=True)
        return x - total if logarithm else np.exp(x - total)

    return in_float64(reference)


def _samples(rng: np.random.Generator) -> list[Sample]:
    masked = floats(rng, (4, 7))
    masked[:, 3:5] = -np.inf
    broken = floats(rng, (3, 4))
    broken[1, 2] = np.nan
    return [
        sample(floats(rng, (8, 33))),
        sample(floats(rng, (3, 5, 2), "float64"), axis=1),
        sample(floats(rng, (2, 3), "float32", 80, 120), axis=0),
        sample(masked, axis=-1),
        sample(broken, axis=-1),
        sample(floats(rng, (4, 1)), axis=1),
        sample(floats(rng, (0, 3))),
        sample(floats(rng, (3, 0))),
    ]


def _piece(x: Value, axis: int) -> int | None:
    """Returns the length of the pieces of a single long row, None for other rows."""
    if not all(isinstance(size, int) for size in x.shape):
        return None
    size, limits = as_int(product(x.shape)), x.builder.limits
    if x.shape[axis] != size or size <= limits.longest_lone_row:
        return None
    lengths = range(limits.softmax_piece, limits.softmax_shortest_piece - 1, -1)
    return next((p for p in lengths if size % p == 0), None)


def _shifted(x: Value, axis: int) -> tuple[Value, tuple[int, ...]]:
    """Returns ``x`` minus its greatest element, and the axis as a tuple."""
    axes = (axis % x.rank,)
    return x - F.max(x, axis=axes, keepdims=True), axes


def _joined(x: Value, piece: int) -> tuple[Value, Value, Value, Value]:
    """Returns, for a row x: ``exp(x - m)`` [pieces, elements] with the greatest element m of each
    piece, the greatest of all [1, 1], the weights of the pieces [1, pieces], the sum [1, 1]."""
    count = as_int(product(x.shape)) // piece
    rows = F.reshape(x, newshape=(count, piece))
    # A piece of minus infinities becomes zeros, whatever finite number is subtracted.
    lowest = float(np.finfo(x.dtype.numpy).min)
    tops = F.maximum(F.max(rows, axis=(1,), keepdims=True), lowest)
    powers = F.exp(rows - tops)
    sums = F.sum(powers, axis=(1,), keepdims=True)
    tops, sums = (F.reshape(a, newshape=(1, count)) for a in (tops, sums))
    top = F.max(tops, axis=(1,), keepdims=True)
    weights = F.exp(tops - top)
    total = F.sum(sums * weights, axis=(1,), keepdims=True)
    return powers, top, weights, total


def _declare(name: str, text: str, traits: Trait) -> Callable[[Callable[..., Value]], Operator]:
    return composite(
        name,
        Pattern.REDUCTION,
        rule=_rule,
        reference=_reference("log" in name),
        samples=_samples,
        traits=traits,
        doc=f"""{text}.

``x`` of rank 1 or more, float32 or float64; the result has the same type. The greatest element is
subtracted first. LoopwrightTypeError for another dtype, LoopwrightValueError for an axis out of
range.

    fn (%x: Tensor[(64, 10), float32]) -> Tensor[(64, 10), float32] {{
      {name}(%x, axis=0)
    }}
""",
    )


_AXIS = attr("the axis along which the probabilities sum to 1", -1)


@_declare("nn.softmax", "exp(x) divided by its sum along an axis", Trait.IGNORES_ZERO_SIGN)
def _softmax(x: Value, *, axis: int = _AXIS) -> Value:
    if 0 in x.shape:
        return x
    piece = _piece(x, axis)
    if piece is not None:
        powers, _, weights, total = _joined(x, piece)
        shares = F.reshape(weights / total, newshape=(powers.shape[0], 1))
        return F.reshape(powers * shares, newshape=x.shape)
    shifted, axes = _shifted(x, axis)
    powers = F.exp(shifted)
    return powers / F.sum(powers, axis=axes, keepdims=True)


@_declare("nn.log_softmax", "The logarithm of softmax, without its overflow", Trait.NONE)
def _log_softmax(x: Value, *, axis: int = _AXIS) -> Value:
    if 0 in x.shape:
        return x
    piece = _piece(x, axis)
    if piece is not None:
        ones = (1,) * x.rank
        _, top, _, total = _joined(x, piece)
        top, total = (F.reshape(a, newshape=ones) for a in (top, total))
        return x - top - F.log(total)
    shifted, axes = _shifted(x, axis)
    return shifted - F.log(F.sum(F.exp(shifted), axis=axes, keepdims=True))
