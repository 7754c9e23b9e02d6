"""Random numbers. PyTorch's generator draws them before each call, in the order of the graph, so
that ``torch.manual_seed`` has its usual meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..table import Value, aten
from ..tensors import tensor_of

_Draw = Callable[..., Value]


def _numbers(fill: Callable[[torch.Tensor], torch.Tensor]) -> _Draw:
    def numbers(draw: _Draw, self: Value = None, size: Any = None, dtype: Any = None) -> Value:
        kind = torch.get_default_dtype() if self is None else _torch_dtype(self)
        return draw(self.shape if size is None else size, dtype or kind, fill)

    return numbers


aten("rand.default", "rand_like.default", draws=True)(_numbers(lambda x: x.uniform_()))
aten("randn.default", "randn_like.default", draws=True)(_numbers(lambda x: x.normal_()))


@aten("randperm.default", draws=True)
def _randperm(draw: _Draw, n: int) -> Value:
    return draw((n,), torch.int64, lambda tensor: torch.randperm(n, out=tensor))


@aten("bernoulli.p", draws=True)
def _bernoulli_p(draw: _Draw, self: Value, p: float = 0.5) -> Value:
    return draw(self.shape, _torch_dtype(self), lambda tensor: tensor.bernoulli_(p))


@aten("bernoulli.default", draws=True)
def _bernoulli(draw: _Draw, self: Value) -> Value:
    return draw(self.shape, _torch_dtype(self), lambda tensor: tensor.uniform_()) < self


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
    return tensor_of(np.empty(0, value.dtype)).dtype
