"""Converters of operators that belong to no family: determinants, bits, optimisers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....ir.errors import LoopwrightTypeError, LoopwrightValueError
from ...nn.apply import apply_as_given
from .table import Value, converter
from .tensors import numpy_dtype

LARGEST_DETERMINANT = 64
"""Rows of a matrix whose determinant is computed, step by step in one piece of code."""


@converter("Det", since=11)
def _det(x: Value) -> Value:
    """The product of the pivots of an elimination, the greatest of a column each."""
    size = x.shape[-1]
    if x.ndim < 2 or x.shape[-2] != size or size > LARGEST_DETERMINANT:
        raise LoopwrightValueError(f"a determinant of {x.shape}")
    product = np.ones(x.shape[:-2], x.dtype)
    rest = x
    for left in range(size, 0, -1):
        place = np.argmax(np.abs(rest[..., :, 0]), axis=-1)[..., None, None]
        rows = np.arange(left)[:, None]
        top = np.take_along_axis(rest, np.broadcast_to(place, (*rest.shape[:-2], 1, left)), -2)
        # The first row goes where the top one was.
        rest = np.where(rows == place, rest[..., :1, :], rest)[..., 1:, :]
        pivot = top[..., 0, 0]
        product = product * np.where(place[..., 0, 0] == 0, pivot, -pivot)
        if left > 1:
            factor = rest[..., :, :1] / np.where(pivot == 0, 1, pivot)[..., None, None]
            rest = rest[..., :, 1:] - factor * top[..., :, 1:]
    return product


@converter("BitCast", since=26)
def _bit_cast(x: Value, *, to: int) -> Value:
    source, target = np.dtype(x.dtype), numpy_dtype(to)
    if source.itemsize != target.itemsize:
        raise LoopwrightTypeError(f"elements of {source} have other sizes than those of {target}")
    if source == target:
        return x
    if source.kind == "f":
        return apply_as_given("bits", x).astype(target)
    whole = x.astype(f"u{source.itemsize}")
    return apply_as_given("from_bits", whole) if target.kind == "f" else whole.astype(target)


# Optimisers: one step for each of several tensors, with plain arithmetic.

_TRAINING = "ai.onnx.preview.training"


def _each(
    step: Callable[..., tuple[Value, ...]], parts: int, rate: Value, count: Value, *xs: Value
) -> tuple[Value, ...]:
    """Applies a step to the tensors, which stand by kind: all of one, then all of the next."""
    tensors = len(xs) // parts
    groups = [[xs[kind * tensors + n] for kind in range(parts)] for n in range(tensors)]
    results = [step(rate, count, *group) for group in groups]
    return tuple(result[kind] for kind in range(parts - 1) for result in results)


@converter("Adagrad", since=1, domain=_TRAINING)
def _adagrad(
    rate: Value,
    count: Value,
    *xs: Value,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> Value:
    def step(
        rate: Value, count: Value, x: Value, slope: Value, squares: Value
    ) -> tuple[Value, ...]:
        rate = rate / (1 + count.astype(np.float32) * np.float32(decay_factor))
        slope = np.float32(norm_coefficient) * x + slope
        squares = squares + slope * slope
        return x - rate * slope / (np.sqrt(squares) + np.float32(epsilon)), squares

    return _each(step, 3, rate, count, *xs)


@converter("Momentum", since=1, domain=_TRAINING)
def _momentum(
    rate: Value,
    count: Value,
    *xs: Value,
    alpha: float,
    beta: float,
    mode: str,
    norm_coefficient: float,
) -> Value:
    def step(rate: Value, count: Value, x: Value, slope: Value, speed: Value) -> tuple[Value, ...]:
        slope = np.float32(norm_coefficient) * x + slope
        share = np.where(count > 0, np.float32(beta), np.float32(1))
        speed = np.float32(alpha) * speed + share * slope
        move = slope + np.float32(alpha) * speed if mode == "nesterov" else speed
        return x - rate * move, speed

    return _each(step, 3, rate, count, *xs)


@converter("Adam", since=1, domain=_TRAINING)
def _adam(
    rate: Value,
    count: Value,
    *xs: Value,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> Value:
    def step(
        rate: Value, count: Value, x: Value, slope: Value, mean: Value, squares: Value
    ) -> tuple[Value, ...]:
        slope = np.float32(norm_coefficient) * x + slope
        mean = np.float32(alpha) * mean + np.float32(1 - alpha) * slope
        squares = np.float32(beta) * squares + np.float32(1 - beta) * slope * slope
        times = count.astype(np.float32)
        scale = np.sqrt(1 - np.float32(beta) ** times) / (1 - np.float32(alpha) ** times)
        rate = rate * np.where(count > 0, scale, np.float32(1))
        x = x - rate * mean / (np.sqrt(squares) + np.float32(epsilon))
        return np.float32(1 - norm_coefficient_post) * x, mean, squares

    return _each(step, 4, rate, count, *xs)
