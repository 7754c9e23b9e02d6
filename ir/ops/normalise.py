"""Normalisations: layer_norm, rms_norm, batch_norm (inference)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dims import product
from ..errors import LoopwrightTypeError
from ..graph.compose import F, Value
from ..graph.operator import Pattern, Sample
from ..graph.type_rules import normalise_axes, normalise_axis, require_shape
from ..graph.types import TensorType
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
