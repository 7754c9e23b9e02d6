"""Normalisations: layer_norm, rms_norm, batch_norm (inference), softmax and its logarithm.

Softmax subtracts the greatest element of a row first, so that no exponential overflows. A long row
that is the only one is cut into pieces, each with a greatest element of its own, so that a piece is
read once and all threads have some; the sums are joined at the end ("Online normalizer calculation
for softmax", Milakov and Gimelshein, 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dims import as_int, product
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.compose import F, Value
from ..graph.operator import Operator, Pattern, Sample
from ..graph.type_rules import normalise_axes, normalise_axis, require_shape
from ..graph.types import TensorType
from ..traits import Trait
from .declare import attr, composite, in_float64
from .sampling import floats, sample

_AXIS = attr("axis or axes over which to normalise", -1)
_EPSILON = attr("added to the variance", 1e-5)


def _row_rule(x: TensorType, *scales: TensorType, axis: Any, **_: Any) -> TensorType:
    """The type of x; the scales have the sizes of the axes that are normalised."""
    sizes = tuple(x.shape[a] for a in normalise_axes(axis, x.rank, x))
    for label, scale in zip(("gamma", "beta"), scales, strict=False):
        wanted = f"{label} of {x.short} has the shape ({', '.join(map(str, sizes))})"
        error = LoopwrightTypeError(f"{wanted} of the axes normalised, not {scale.short}")
        require_shape(scale.shape, sizes, error)
    return x


def _along(scale: Value, axes: Sequence[int], rank: int) -> Value:
    """A scale with one axis per entry of ``axes``, put where it broadcasts over the rest."""
    for axis in range(min(axes, default=0), rank):
        if axis not in axes:
            scale = F.expand_dims(scale, axis=axis - min(axes))
    return scale


def _scaled_by_root(x: Value, axes: tuple[int, ...], epsilon: float) -> Value:
    """``x`` divided by the root of its mean square along ``axes``."""
    square = F.sum(x * x, axis=axes, keepdims=True) / product(x.shape[a] for a in axes)
    return x * F.rsqrt(square + epsilon)


def _row_shape(x: Any, axis: Any) -> tuple[tuple[int, ...], list[int]]:
    """The axes that are normalised, and the shape of a scale that broadcasts over the others."""
    axes = tuple(sorted(a % x.ndim for a in np.atleast_1d(axis)))
    return axes, [size if a in axes else 1 for a, size in enumerate(x.shape)]


def _layer_norm_reference(x: Any, gamma: Any, beta: Any, axis: Any, epsilon: float) -> Any:
    axes, shape = _row_shape(x, axis)
    if x.size == 0:
        return x
    spread = np.sqrt(x.var(axis=axes, keepdims=True) + epsilon)
    unit = (x - x.mean(axis=axes, keepdims=True)) / spread
    return unit * gamma.reshape(shape) + beta.reshape(shape)


def _row_samples(count: int) -> Callable[[np.random.Generator], list[Sample]]:
    """Samples with ``count`` scales."""

    def samples(rng: np.random.Generator) -> list[Sample]:
        def drawn(shape: tuple[int, ...], axes: Any, dtype: str = "float32") -> Sample:
            scale_shape = tuple(shape[a] for a in (axes if isinstance(axes, tuple) else (axes,)))
            scales = tuple(floats(rng, scale_shape, dtype) for _ in range(count))
            return sample(floats(rng, shape, dtype), *scales, axis=axes)

        return [
            drawn((5, 33), -1),
            drawn((2, 3, 16), 2, "float64"),
            drawn((2, 5, 7), (1, 2)),
            drawn((4, 3, 5), 1),
            drawn((2, 5, 3), (0, 2)),
            drawn((3, 1), -1),
            drawn((0, 4), -1),
        ]

    return samples


@composite(
    "nn.layer_norm",
    Pattern.REDUCTION,
    rule=_row_rule,
    reference=in_float64(_layer_norm_reference),
    samples=_row_samples(2),
)
def _layer_norm(
    x: Value, gamma: Value, beta: Value, *, axis: Any = _AXIS, epsilon: float = _EPSILON
) -> Value:
    """``(x - mean) / sqrt(variance + epsilon) * gamma + beta`` along axes.

    ``x`` of rank 1 or more, float32 or float64; ``gamma`` and ``beta`` of its dtype, with the sizes
    of the axes normalised; the result has the type of ``x``. LoopwrightTypeError where shapes or
    dtypes do not fit, LoopwrightValueError for an axis out of range. (J. Ba and others, "Layer
    normalization", 2016.)

        fn (
          %x: Tensor[(64, 10), float32],
          %gamma: Tensor[(10), float32],
          %beta: Tensor[(10), float32]
        ) -> Tensor[(64, 10), float32] {
          nn.layer_norm(%x, %gamma, %beta)
        }
    """
    axes = normalise_axes(axis, x.rank)
    unit = _scaled_by_root(x - F.mean(x, axis=axes, keepdims=True), axes, epsilon)
    return unit * _along(gamma, axes, x.rank) + _along(beta, axes, x.rank)


def _rms_norm_reference(x: Any, gamma: Any, axis: Any, epsilon: float) -> Any:
    axes, shape = _row_shape(x, axis)
    if x.size == 0:
        return x
    return x / np.sqrt(np.square(x).mean(axis=axes, keepdims=True) + epsilon) * gamma.reshape(shape)


@composite(
    "nn.rms_norm",
    Pattern.REDUCTION,
    rule=_row_rule,
    reference=in_float64(_rms_norm_reference),
    samples=_row_samples(1),
)
def _rms_norm(x: Value, gamma: Value, *, axis: Any = _AXIS, epsilon: float = _EPSILON) -> Value:
    """``x / sqrt(mean(x * x) + epsilon) * gamma`` along axes.

    ``x`` of rank 1 or more, float32 or float64; ``gamma`` of its dtype, with the sizes of the axes
    normalised; the result has the type of ``x``. LoopwrightTypeError where shapes or dtypes do not
    fit, LoopwrightValueError for an axis out of range.

        fn (%x: Tensor[(8, 9), float32], %gamma: Tensor[(9), float32]) -> Tensor[(8, 9), float32] {
          nn.rms_norm(%x, %gamma, epsilon=1e-06)
        }
    """
    axes = normalise_axes(axis, x.rank)
    return _scaled_by_root(x, axes, epsilon) * _along(gamma, axes, x.rank)


def _batch_norm_rule(x: TensorType, *parameters: TensorType, axis: int, **_: Any) -> TensorType:
    size = x.shape[normalise_axis(axis, x.rank, x)]
    for label, parameter in zip(("gamma", "beta", "mean", "var"), parameters, strict=True):
        wanted = f"{label} of {x.short} has the shape ({size}) of axis {axis % x.rank}"
        error = LoopwrightTypeError(f"{wanted}, not {parameter.short}")
        require_shape(parameter.shape, (size,), error)
    return x


def _batch_norm_reference(x: Any, *parameters: Any, axis: int, epsilon: float) -> Any:
    shape = [1] * x.ndim
    shape[axis] = -1 if x.shape[axis] else 0
    gamma, beta, mean, var = (p.reshape(shape) for p in parameters)
    return gamma * (x - mean) / np.sqrt(var + epsilon) + beta


def _batch_norm_samples(rng: np.random.Generator) -> list[Sample]:
    def drawn(shape: tuple[int, ...], axis: int, dtype: str = "float32", **more: Any) -> Sample:
        gamma, beta, mean = (floats(rng, (shape[axis],), dtype) for _ in range(3))
        var = floats(rng, (shape[axis],), dtype, 0.1, 2)
        return sample(floats(rng, shape, dtype), gamma, beta, mean, var, axis=axis, **more)

    return [
        drawn((2, 3, 5, 7), 1),
        drawn((2, 5, 4, 3), -1, "float64", epsilon=1e-3),
        drawn((6, 9), 1),
        drawn((4,), 0),
        drawn((1, 1, 2, 2), 1),
        drawn((0, 3, 2, 2), 1),
    ]


@composite(
    "nn.batch_norm",
    Pattern.BROADCAST,
    rule=_batch_norm_rule,
    reference=in_float64(_batch_norm_reference),
    samples=_batch_norm_samples,
)
def _batch_norm(
    x: Value,
    gamma: Value,
    beta: Value,
    mean: Value,
    var: Value,
    *,
    axis: int = attr("the axis of the channels", 1),
    epsilon: float = _EPSILON,
) -> Value:
    """``(x - mean) / sqrt(var + epsilon) * gamma + beta`` per channel, for inference.

    ``x`` of rank 1 or more, float32 or float64; the other operands are 1-D, of its dtype and of the
    size of ``axis``; the result has the type of ``x``. LoopwrightTypeError where shapes or dtypes
    do not fit, LoopwrightValueError for an axis out of range. (S. Ioffe and C. Szegedy, 2015.)

        fn (
          %x: Tensor[(1, 8, 5, 5), float32],
          %gamma: Tensor[(8), float32],
          %beta: Tensor[(8), float32],
          %mean: Tensor[(8), float32],
          %var: Tensor[(8), float32]
        ) -> Tensor[(1, 8, 5, 5), float32] {
          nn.batch_norm(%x, %gamma, %beta, %mean, %var)
        }
    """
    # One factor and one summand per channel, which are constants when the parameters are.
    axes = (axis % x.rank,)
    factor = gamma * F.rsqrt(var + epsilon)
    summand = beta - mean * factor
    return x * _along(factor, axes, x.rank) + _along(summand, axes, x.rank)


def _softmax_rule(x: TensorType, axis: int) -> TensorType:
    axis = normalise_axis(axis, x.rank, x)
    if x.shape[axis] == 0 and x.size != 0:
        raise LoopwrightValueError(f"{x.short} has no element along axis {axis}")
    return x


def _softmax_reference(logarithm: bool) -> Callable[..., Any]:
    def reference(x: Any, axis: int) -> Any:
        if x.size == 0:
            return x
        total = np.logaddexp.reduce(x, axis=axis, keepdims=True)
        return x - total if logarithm else np.exp(x - total)

    return in_float64(reference)


def _softmax_samples(rng: np.random.Generator) -> list[Sample]:
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


def _softmax_operator(
    name: str, text: str, traits: Trait
) -> Callable[[Callable[..., Value]], Operator]:
    return composite(
        name,
        Pattern.REDUCTION,
        rule=_softmax_rule,
        reference=_softmax_reference("log" in name),
        samples=_softmax_samples,
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


_SOFTMAX_AXIS = attr("the axis along which the probabilities sum to 1", -1)


@_softmax_operator("nn.softmax", "exp(x) divided by its sum along an axis", Trait.IGNORES_ZERO_SIGN)
def _softmax(x: Value, *, axis: int = _SOFTMAX_AXIS) -> Value:
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


@_softmax_operator("nn.log_softmax", "The logarithm of softmax, without its overflow", Trait.NONE)
def _log_softmax(x: Value, *, axis: int = _SOFTMAX_AXIS) -> Value:
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
