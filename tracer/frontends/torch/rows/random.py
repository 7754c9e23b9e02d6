"""Random numbers. PyTorch's generator draws them before each call, in the order of the graph, so
that ``torch.manual_seed`` has its usual meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ..table import Value, aten

_Draw = Callable[..., Value]


def _numbers(draw: _Draw, shape: Sequence[int], dtype: Any, normal: bool) -> Value:
    def fill(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.normal_() if normal else tensor.uniform_()

    return draw(shape, dtype or torch.get_default_dtype(), fill)


@aten("rand.default", draws=True)
def _rand(draw: _Draw, size: Sequence[int], *, dtype: Any = None) -> Value:
    return _numbers(draw, size, dtype, normal=False)


@aten("randn.default", draws=True)
def _randn(draw: _Draw, size: Sequence[int], *, dtype: Any = None) -> Value:
    return _numbers(draw, size, dtype, normal=True)


@aten("rand_like.default", draws=True)
def _rand_like(draw: _Draw, self: Value, *, dtype: Any = None) -> Value:
    return _numbers(draw, self.shape, dtype or _torch_dtype(self), normal=False)


@aten("randn_like.default", draws=True)
def _randn_like(draw: _Draw, self: Value, *, dtype: Any = None) -> Value:
    return _numbers(draw, self.shape, dtype or _torch_dtype(self), normal=True)


@aten("randperm.default", draws=True)
def _randperm(draw: _Draw, n: int) -> Value:
    return draw((n,), torch.int64, lambda tensor: torch.randperm(n, out=tensor))


@aten("bernoulli.p", draws=True)
def _bernoulli_p(draw: _Draw, self: Value, p: float = 0.5) -> Value:
    return draw(self.shape, _torch_dtype(self), lambda tensor: tensor.bernoulli_(p))


@aten("bernoulli.default", draws=True)
def _bernoulli(draw: _Draw, self: Value) -> Value:
    return _numbers(draw, self.shape, _torch_dtype(self), normal=False) < self


@aten("native_dropout.default", draws=True)
def _dropout(draw: _Draw, input: Value, p: float, train: bool | None) -> tuple[Value, Value]:
    """The second result is the mask."""
    if train is False or p == 0:
        return input, np.ones(input.shape, bool)
    if p == 1:
        return np.zeros(input.shape, input.dtype), np.zeros(input.shape, bool)
    mask = draw(input.shape, torch.bool, lambda tensor: tensor.bernoulli_(1 - p))
    return np.where(mask, input * (1 / (1 - p)), 0), mask


def _torch_dtype(value: Value) -> torch.dtype:
    return torch.from_numpy(np.empty(0, value.dtype)).dtype
