"""Normalisations over axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.dtype import float_for
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError
from ..emitting import common_dtype, emit
from ..parameters import Axes, checked
from .apply import apply

__all__ = ["layer_norm", "rms_norm"]


@checked
def layer_norm(
    x: Any, gamma: Any = None, beta: Any = None, axis: Axes = -1, epsilon: float = 1e-5
) -> Any:
    """``(x - mean) / sqrt(variance + epsilon) * gamma + beta`` with the moments along ``axis``.

    ``axis`` is one axis or several that follow each other, ``(1, 2)``. ``gamma`` and ``beta`` have
    the sizes of these axes; left out, they are ones and zeros. Ba, Kiros and Hinton, "Layer
    Normalization" (2016).
    """
    return _over_axes("nn.layer_norm", x, axis, [(gamma, 1.0), (beta, 0.0)], epsilon)


@checked
def rms_norm(x: Any, gamma: Any = None, axis: Axes = -1, epsilon: float = 1e-5) -> Any:
    """``x / sqrt(mean(x * x) + epsilon) * gamma`` with the mean along ``axis``.

    ``axis`` as in ``layer_norm``. ``gamma`` has the sizes of these axes; left out, it is ones.
    Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019).
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
