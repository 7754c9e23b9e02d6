"""Normalisations: layer_norm, rms_norm, batch_norm (inference)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dims import product
from ..errors import LoopwrightTypeError
from ..graph.builder import Builder
from ..graph.nodes import Atom
from ..graph.operator import Attr, Operator, Pattern, Sample, register
from ..graph.types import TensorType, Type
from .compose import call, scalar, tensor_type
from .rules import (
    Attrs,
    normalise_axes,
    normalise_axis,
    require_float,
    same_dtype,
    tensors,
)
from .sampling import floats

__all__: list[str] = []

_AXIS = Attr("axis", "axis or axes over which to normalise", -1)
_EPSILON = Attr("epsilon", "added to the variance", 1e-5)


def _infer_row(name: str, params: Sequence[str]) -> Any:
    """The type rule of x and parameters that have the sizes of the axes normalised."""

    def infer(types: tuple[Type, ...], attrs: Attrs) -> Type:
        operands = x, *rest = tensors(name, types, len(params))
        same_dtype(name, operands)
        require_float(name, operands)
        sizes = tuple(x.shape[a] for a in normalise_axes(name, attrs["axis"], x.rank, x))
        for label, parameter in zip(params[1:], rest, strict=True):
            _check_shape(name, label, parameter, sizes, x)
        return x

    return infer


def _check_shape(
    name: str, label: str, parameter: TensorType, sizes: tuple[Any, ...], x: TensorType
) -> None:
    if parameter.shape != sizes:
        wanted = ", ".join(map(str, sizes))
        raise LoopwrightTypeError(
            f"{name}: {label} of {x.short} has the shape ({wanted}) of the axes normalised, "
            f"not {parameter.short}"
        )


def _along(b: Builder, parameter: Atom, axes: Sequence[int], rank: int) -> Atom:
    """A parameter with one axis per entry of ``axes``, put where it broadcasts over the rest."""
    own = list(axes)
    for axis in range(min(own, default=0), rank):
        if axis not in axes:
            parameter = call(b, "expand_dims", parameter, axis=axis - min(own))
    return parameter


def _scaled_by_root(b: Builder, x: Atom, axes: tuple[int, ...], epsilon: float) -> Atom:
    """``x`` divided by the root of its mean square along ``axes``."""
    kind = tensor_type(x)
    total = call(b, "sum", call(b, "multiply", x, x), axis=axes, keepdims=True)
    count = scalar(b, product(kind.shape[a] for a in axes), kind.dtype)
    square = call(b, "divide", total, count)
    root = call(b, "rsqrt", call(b, "add", square, scalar(b, epsilon, kind.dtype)))
    return call(b, "multiply", x, root)


def _decompose_layer_norm(b: Builder, args: Sequence[Atom], attrs: Attrs) -> Atom:
    x, gamma, beta = args
    kind = tensor_type(x)
    axes = normalise_axes("nn.layer_norm", attrs["axis"], kind.rank)
    centred = call(b, "subtract", x, call(b, "mean", x, axis=axes, keepdims=True))
    unit = _scaled_by_root(b, centred, axes, attrs["epsilon"])
    scaled = call(b, "multiply", unit, _along(b, gamma, axes, kind.rank))
    return call(b, "add", scaled, _along(b, beta, axes, kind.rank))


def _reference_layer_norm(arrays: Sequence[Any], attrs: Attrs) -> Any:
    x, gamma, beta = (a.astype(np.float64) for a in arrays)
    axes = tuple(sorted(a % x.ndim for a in np.atleast_1d(attrs["axis"])))
    shape = [size if a in axes else 1 for a, size in enumerate(x.shape)]
    if x.size == 0:
        return arrays[0]
    spread = np.sqrt(x.var(axis=axes, keepdims=True) + attrs["epsilon"])
    unit = (x - x.mean(axis=axes, keepdims=True)) / spread
    return (unit * gamma.reshape(shape) + beta.reshape(shape)).astype(arrays[0].dtype)


def _samples_row(count: int) -> Any:
    def samples(rng: np.random.Generator) -> list[Sample]:
        def sample(shape: tuple[int, ...], axes: Any, dtype: str = "float32") -> Sample:
            own = tuple(shape[a] for a in (axes if isinstance(axes, tuple) else (axes,)))
            rest = tuple(floats(rng, own, dtype) for _ in range(count))
            return Sample((floats(rng, shape, dtype), *rest), {"axis": axes})

        return [
            sample((5, 33), -1),
            sample((2, 3, 16), 2, "float64"),
            sample((2, 5, 7), (1, 2)),
            sample((4, 3, 5), 1),
            sample((2, 5, 3), (0, 2)),
            sample((3, 1), -1),
            sample((0, 4), -1),
        ]

    return samples


register(
    Operator(
        name="nn.layer_norm",
        doc="""``(x - mean) / sqrt(variance + epsilon) * gamma + beta`` along axes.

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
""",
        params=("x", "gamma", "beta"),
        attrs=(_AXIS, _EPSILON),
        pattern=Pattern.REDUCTION,
        infer=_infer_row("nn.layer_norm", ("x", "gamma", "beta")),
        decompose=_decompose_layer_norm,
        reference=_reference_layer_norm,
        samples=_samples_row(2),
    )
)


def _decompose_rms_norm(b: Builder, args: Sequence[Atom], attrs: Attrs) -> Atom:
    x, gamma = args
    rank = tensor_type(x).rank
    axes = normalise_axes("nn.rms_norm", attrs["axis"], rank)
    unit = _scaled_by_root(b, x, axes, attrs["epsilon"])
    return call(b, "multiply", unit, _along(b, gamma, axes, rank))


def _reference_rms_norm(arrays: Sequence[Any], attrs: Attrs) -> Any:
    x, gamma = (a.astype(np.float64) for a in arrays)
    axes = tuple(sorted(a % x.ndim for a in np.atleast_1d(attrs["axis"])))
    shape = [size if a in axes else 1 for a, size in enumerate(x.shape)]
    if x.size == 0:
        return arrays[0]
    root = np.sqrt(np.square(x).mean(axis=axes, keepdims=True) + attrs["epsilon"])
    return (x / root * gamma.reshape(shape)).astype(arrays[0].dtype)


register(
    Operator(
        name="nn.rms_norm",
        doc="""``x / sqrt(mean(x * x) + epsilon) * gamma`` along axes.

``x`` of rank 1 or more, float32 or float64; ``gamma`` of its dtype, with the sizes of the axes
normalised; the result has the type of ``x``. LoopwrightTypeError where shapes or dtypes do not
fit, LoopwrightValueError for an axis out of range.

    fn (%x: Tensor[(8, 10), float32], %gamma: Tensor[(10), float32]) -> Tensor[(8, 10), float32] {
      nn.rms_norm(%x, %gamma, epsilon=1e-06)
    }
""",
        params=("x", "gamma"),
        attrs=(_AXIS, _EPSILON),
        pattern=Pattern.REDUCTION,
        infer=_infer_row("nn.rms_norm", ("x", "gamma")),
        decompose=_decompose_rms_norm,
        reference=_reference_rms_norm,
        samples=_samples_row(1),
    )
)

_BATCH_PARAMS = ("x", "gamma", "beta", "mean", "var")


def _infer_batch_norm(types: tuple[Type, ...], attrs: Attrs) -> Type:
    name = "nn.batch_norm"
    operands = x, *rest = tensors(name, types, len(_BATCH_PARAMS))
    same_dtype(name, operands)
    require_float(name, operands)
    axis = normalise_axis(name, attrs["axis"], x.rank, x)
    for label, parameter in zip(_BATCH_PARAMS[1:], rest, strict=True):
        if parameter.shape != (x.shape[axis],):
            raise LoopwrightTypeError(
                f"{name}: {label} of {x.short} has the shape ({x.shape[axis]}) of axis {axis}, "
                f"not {parameter.short}"
            )
    return x


def _decompose_batch_norm(b: Builder, args: Sequence[Atom], attrs: Attrs) -> Atom:
    """One factor and one summand per channel, which are constants when the parameters are."""
    x, gamma, beta, mean, var = args
    kind = tensor_type(x)
    axes = (attrs["axis"] % kind.rank,)
    safe = call(b, "add", var, scalar(b, attrs["epsilon"], kind.dtype))
    factor = call(b, "multiply", gamma, call(b, "rsqrt", safe))
    summand = call(b, "subtract", beta, call(b, "multiply", mean, factor))
    scaled = call(b, "multiply", x, _along(b, factor, axes, kind.rank))
    return call(b, "add", scaled, _along(b, summand, axes, kind.rank))


def _reference_batch_norm(arrays: Sequence[Any], attrs: Attrs) -> Any:
    x, *rest = (a.astype(np.float64) for a in arrays)
    shape = [1] * x.ndim
    shape[attrs["axis"]] = -1 if x.shape[attrs["axis"]] else 0
    gamma, beta, mean, var = (p.reshape(shape) for p in rest)
    return (gamma * (x - mean) / np.sqrt(var + attrs["epsilon"]) + beta).astype(arrays[0].dtype)


def _samples_batch_norm(rng: np.random.Generator) -> list[Sample]:
    def sample(shape: tuple[int, ...], axis: int, dtype: str = "float32", **more: Any) -> Sample:
        gamma, beta, mean = (floats(rng, (shape[axis],), dtype) for _ in range(3))
        var = floats(rng, (shape[axis],), dtype, 0.1, 2)
        return Sample((floats(rng, shape, dtype), gamma, beta, mean, var), {"axis": axis, **more})

    return [
        sample((2, 3, 5, 7), 1),
        sample((2, 5, 4, 3), -1, "float64", epsilon=1e-3),
        sample((6, 9), 1),
        sample((4,), 0),
        sample((1, 1, 2, 2), 1),
        sample((0, 3, 2, 2), 1),
    ]


register(
    Operator(
        name="nn.batch_norm",
        doc="""``(x - mean) / sqrt(var + epsilon) * gamma + beta`` per channel, for inference.

``x`` of rank 1 or more, float32 or float64; the other operands are 1-D, of its dtype and of the
size of ``axis``; the result has the type of ``x``. LoopwrightTypeError where shapes or dtypes do
not fit, LoopwrightValueError for an axis out of range. (S. Ioffe and C. Szegedy, 2015.)

    fn (
      %x: Tensor[(1, 8, 5, 5), float32],
      %gamma: Tensor[(8), float32],
      %beta: Tensor[(8), float32],
      %mean: Tensor[(8), float32],
      %var: Tensor[(8), float32]
    ) -> Tensor[(1, 8, 5, 5), float32] {
      nn.batch_norm(%x, %gamma, %beta, %mean, %var)
    }
""",
        params=_BATCH_PARAMS,
        attrs=(Attr("axis", "the axis of the channels", 1), _EPSILON),
        pattern=Pattern.BROADCAST,
        infer=_infer_batch_norm,
        decompose=_decompose_batch_norm,
        reference=_reference_batch_norm,
        samples=_samples_batch_norm,
    )
)
