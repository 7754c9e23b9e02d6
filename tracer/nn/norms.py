"""Normalisations over axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.dtype import float_for
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError
from ..core.argument_conversion import Axes, by_numpy, checked
from ..core.emitting import common_dtype, emit, lift
from ..core.trace import active
from .apply import apply


@checked
def layer_norm(
    x: Any, gamma: Any = None, beta: Any = None, axis: Axes = -1, epsilon: float = 1e-5
) -> Any:
    """``(x - mean) / sqrt(variance + epsilon) * gamma + beta`` with the moments along ``axis``.

    ``axis`` is one axis or several that follow each other, ``(1, 2)``. ``gamma`` and ``beta`` have
    the sizes of these axes; left out, they are ones and zeros. Ba, Kiros and Hinton, "Layer
    Normalization" (2016).

    >>> nn.layer_norm(np.float32([1, 3])).round(3).tolist()
    [-1.0, 1.0]
    """
    return _over_axes("nn.layer_norm", x, axis, [(gamma, 1.0), (beta, 0.0)], epsilon)


@checked
def rms_norm(x: Any, gamma: Any = None, axis: Axes = -1, epsilon: float = 1e-5) -> Any:
    """``x / sqrt(mean(x * x) + epsilon) * gamma`` with the mean along ``axis``.

    ``axis`` as in ``layer_norm``. ``gamma`` has the sizes of these axes; left out, it is ones.
    Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019).

    >>> nn.rms_norm(np.float32([1, 1])).round(3).tolist()
    [1.0, 1.0]
    """
    return _over_axes("nn.rms_norm", x, axis, [(gamma, 1.0)], epsilon)


def _over_axes(
    name: str, x: Any, axis: int | Sequence[int], scales: list[tuple[Any, float]], epsilon: float
) -> Any:
    """Returns a norm of ``x``; several axes that follow each other are merged into one for it."""
    shape = tuple(np.shape(x))
    axes = _axes(name, axis, len(shape))
    sizes = shape[axes[0] : axes[-1] + 1]
    operands = [x, *(_scale(x, sizes, given, value) for given, value in scales)]
    if len(axes) == 1:
        return apply(name, *operands, axis=axes[0], epsilon=epsilon)
    for operand in operands[1:]:
        if tuple(np.shape(operand)) != sizes:
            raise LoopwrightTypeError(
                f"{name}: a scale over the axes {axes} has their sizes {sizes}, "
                f"not {tuple(np.shape(operand))}"
            )
    merged = math.prod(sizes)
    flat = [np.reshape(x, (*shape[: axes[0]], merged, *shape[axes[-1] + 1 :]))]
    flat += [np.reshape(o, (merged,)) for o in operands[1:]]
    return np.reshape(apply(name, *flat, axis=axes[0], epsilon=epsilon), shape)


def _axes(name: str, axis: int | Sequence[int], rank: int) -> tuple[int, ...]:
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    axes = tuple(sorted(a + rank if a < 0 else a for a in given))
    if not axes or axes[0] < 0 or axes[-1] >= rank:
        raise LoopwrightValueError(f"{name}: axis {axis} is out of range for {rank} axes")
    if axes != tuple(range(axes[0], axes[0] + len(axes))):
        raise LoopwrightValueError(
            f"{name}: the axes {axis} do not follow each other", hint="np.moveaxis before and after"
        )
    return axes


def _scale(x: Any, sizes: tuple[Any, ...], given: Any, value: float) -> Any:
    if given is not None:
        return given
    dtype = float_for(common_dtype(x))
    if all(isinstance(s, int) for s in sizes):
        return np.full(sizes, value, dtype.numpy)
    return emit("full", shape=sizes, fill_value=value, dtype=str(dtype))


def normalised(x: Any, axes: Sequence[int], epsilon: float) -> tuple[Any, Any, Any]:
    """Returns ``x`` with mean 0 and variance 1 along ``axes``, the mean, and the variance."""
    mean = np.mean(x, axis=tuple(axes), keepdims=True)
    centred = x - mean
    variance = np.mean(centred * centred, axis=tuple(axes), keepdims=True)
    return centred * apply("rsqrt", variance + np.asarray(epsilon, x.dtype)), mean, variance


@checked
def group_norm(
    x: Any, groups: int, gamma: Any = None, beta: Any = None, epsilon: float = 1e-5
) -> Any:
    """Layer normalisation of each of ``groups`` groups of the channels of ``(n, c, *sizes)``.

    ``gamma`` and ``beta`` have one element per channel; left out, they are ones and zeros. Wu and
    He, "Group Normalization" (2018). Raises LoopwrightTypeError where shapes do not fit.

    >>> import numpy as np
    >>> from loopwright import nn
    >>> nn.group_norm(np.float32([[[1, 3], [5, 9]]]), 2).round(2).tolist()
    [[[-1.0, 1.0], [-1.0, 1.0]]]
    """
    return _by_groups("group_norm", x, groups, gamma, beta, epsilon)


@checked
def instance_norm(x: Any, gamma: Any = None, beta: Any = None, epsilon: float = 1e-5) -> Any:
    """Normalisation of each channel of each image ``(n, c, *sizes)``: as many groups as channels.

    Arguments as of ``group_norm``. Ulyanov and others, "Instance Normalization" (2016).

    >>> import numpy as np
    >>> from loopwright import nn
    >>> nn.instance_norm(np.float32([[[1, 3], [5, 9]]])).round(2).tolist()
    [[[-1.0, 1.0], [-1.0, 1.0]]]
    """
    channels = np.shape(x)[1] if np.ndim(x) > 1 else 1
    return _by_groups("instance_norm", x, channels, gamma, beta, epsilon)


def _by_groups(name: str, x: Any, groups: int, gamma: Any, beta: Any, epsilon: float) -> Any:
    x = _floats(x)
    shape = tuple(np.shape(x))
    if len(shape) < 2 or groups < 1 or shape[1] % groups:
        raise LoopwrightTypeError(
            f"{name}: the channels of an array of shape {shape} do not divide into {groups} groups"
        )
    each = shape[1] // groups
    blocks = np.reshape(x, (shape[0], groups, each, math.prod(shape[2:])))
    unit, _, _ = normalised(blocks, (2, 3), epsilon)
    for scale, join in ((gamma, np.multiply), (beta, np.add)):
        if scale is None:
            continue
        if tuple(np.shape(scale)) != (shape[1],):
            raise LoopwrightTypeError(
                f"{name}: a scale of {shape[1]} channels has the shape {tuple(np.shape(scale))}"
            )
        unit = join(unit, np.reshape(scale, (1, groups, each, 1)))
    return np.reshape(unit, shape)


@checked
def batch_norm_training(x: Any, gamma: Any, beta: Any, axis: int = 1, epsilon: float = 1e-5) -> Any:
    """Batch normalisation by the statistics of the batch: (result, mean, variance) per channel.

    ``axis`` is that of the channels; ``gamma`` and ``beta`` have its size. The variance divides by
    the number of elements. Ioffe and Szegedy, "Batch Normalization" (2015).

    >>> import numpy as np
    >>> from loopwright import nn
    >>> y, mean, variance = nn.batch_norm_training(np.float32([[1], [3]]), np.ones(1), np.zeros(1))
    >>> mean.tolist(), variance.tolist()
    ([2.0], [1.0])
    """
    x = _floats(x)
    (axis,) = _axes("batch_norm_training", axis, np.ndim(x))
    others = [a for a in range(np.ndim(x)) if a != axis]
    shape = [1] * np.ndim(x)
    shape[axis] = np.shape(x)[axis]
    unit, mean, variance = normalised(x, others, epsilon)
    result = by_numpy(np.multiply, unit, by_numpy(np.reshape, gamma, shape))
    result = by_numpy(np.add, result, by_numpy(np.reshape, beta, shape))
    return result, np.reshape(mean, (-1,)), np.reshape(variance, (-1,))


@checked
def local_response_norm(
    x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    """``x / (k + alpha / size * sum of squares) ** beta`` over ``size`` neighbouring channels.

    ``x`` is ``(n, c, *sizes)``; the channels from ``c - (size - 1) // 2`` on count, as far as there
    are any. Krizhevsky and others, "ImageNet Classification" (2012).

    >>> import numpy as np
    >>> from loopwright import nn
    >>> nn.local_response_norm(np.float32([[3, 4]]), 3, alpha=3, beta=0.5, k=0).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    x = _floats(x)
    if np.ndim(x) < 2 or size < 1:
        raise LoopwrightValueError(
            f"local_response_norm: {size} of the channels of {np.ndim(x)} axes"
        )
    shape = tuple(np.shape(x))
    squares = np.reshape(x * x, (shape[0], 1, shape[1], math.prod(shape[2:])))
    before = (size - 1) // 2
    total = apply(
        "nn.sum_pool2d",
        squares,
        pool_size=(size, 1),
        strides=(1, 1),
        padding=(before, 0, size - 1 - before, 0),
    )
    scale = np.asarray(k, x.dtype) + np.reshape(total, shape) * np.asarray(alpha / size, x.dtype)
    return x / scale ** np.asarray(beta, x.dtype)


@checked
def lp_normalize(x: Any, p: float = 2, axis: int = -1, epsilon: float = 0.0) -> Any:
    """``x`` over its ``p``-norm along ``axis``, which counts as ``epsilon`` at least.

    >>> import numpy as np
    >>> from loopwright import nn
    >>> nn.lp_normalize(np.float64([3, 4])).tolist()
    [0.6, 0.8]
    """
    if not p > 0:
        raise LoopwrightValueError(f"lp_normalize: p is a number above 0, not {p}")
    x = _floats(x)
    (axis,) = _axes("lp_normalize", axis, np.ndim(x))
    powers = x * x if p == 2 else np.abs(x) if p == 1 else np.abs(x) ** np.asarray(p, x.dtype)
    total = np.sum(powers, axis=axis, keepdims=True)
    if p != 1:
        total = np.sqrt(total) if p == 2 else total ** np.asarray(1 / p, x.dtype)
    return x / (np.maximum(total, np.asarray(epsilon, x.dtype)) if epsilon else total)


def _floats(x: Any) -> Any:
    """``x`` as floats, which integers become."""
    dtype = float_for(common_dtype(x))
    return np.asarray(x, dtype.numpy) if active() is None else lift(x, dtype)
