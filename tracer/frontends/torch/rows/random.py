"""Random numbers. PyTorch's generator draws them before each call, in the order of the graph, so
that ``torch.manual_seed`` has its usual meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .....ir.errors import UnsupportedError
from .... import nn
from ..table import Value, aten
from ..tensors import torch_dtype

_Draw = Callable[..., Value]


def _numbers(fill: Callable[[torch.Tensor], torch.Tensor]) -> _Draw:
    def numbers(draw: _Draw, self: Value = None, size: Any = None, dtype: Any = None) -> Value:
        kind = torch.get_default_dtype() if self is None else torch_dtype(self.dtype)
        return draw(self.shape if size is None else size, dtype or kind, fill)

    return numbers


aten("rand.default", "rand_like.default", draws=True)(_numbers(lambda x: x.uniform_()))
aten("randn.default", "randn_like.default", draws=True)(_numbers(lambda x: x.normal_()))


@aten("randperm.default", draws=True)
def _randperm(draw: _Draw, n: int) -> Value:
    return draw((n,), torch.int64, lambda tensor: torch.randperm(n, out=tensor))


@aten("bernoulli.p", draws=True)
def _bernoulli_p(draw: _Draw, self: Value, p: float = 0.5) -> Value:
    return draw(self.shape, torch_dtype(self.dtype), lambda tensor: tensor.bernoulli_(p))


@aten("bernoulli.default", draws=True)
def _bernoulli(draw: _Draw, self: Value) -> Value:
    return draw(self.shape, torch_dtype(self.dtype), lambda tensor: tensor.uniform_()) < self


@aten("native_dropout.default", draws=True)
def _dropout(draw: _Draw, input: Value, p: float, train: bool | None) -> tuple[Value, Value]:
    """The second result is the mask."""
    if train is False or p == 0:
        return input, np.ones(input.shape, bool)
    if p == 1:
        return np.zeros(input.shape, input.dtype), np.zeros(input.shape, bool)
    mask = draw(input.shape, torch.bool, lambda tensor: tensor.bernoulli_(1 - p))
    return np.where(mask, input * (1 / (1 - p)), 0), mask


def _enter_fill(name: str, method: str) -> None:
    """A tensor's ``method``, which fills it with numbers of a distribution."""

    def filled(draw: _Draw, self: Value, *how: Any, **options: Any) -> Value:
        options.pop("generator", None)

        def fill(tensor: torch.Tensor) -> torch.Tensor:
            return getattr(tensor, method)(*how, **options)

        return draw(self.shape, torch_dtype(self.dtype), fill)

    aten(name, draws=True)(filled)


for _name in ("cauchy", "exponential", "geometric", "log_normal", "uniform"):
    _enter_fill(f"{_name}.default", f"{_name}_")
_enter_fill("normal_functional.default", "normal_")
for _overload in ("default", "from", "to"):
    _enter_fill(f"random.{_overload}", "random_")


@aten("normal.Tensor_Tensor", "normal.Tensor_float", "normal.float_Tensor", draws=True)
def _normal(draw: _Draw, mean: Value, std: Value = 1.0) -> Value:
    shape = np.broadcast_shapes(np.shape(mean), np.shape(std))
    kind = torch_dtype((std if isinstance(mean, float) else mean).dtype)
    return draw(shape, kind, lambda tensor: tensor.normal_()) * std + mean


@aten("randint_like.default", "randint_like.low_dtype", draws=True)
def _randint_like(draw: _Draw, self: Value, high: int, low: int = 0, dtype: Any = None) -> Value:
    kind = dtype or torch_dtype(self.dtype)
    return draw(self.shape, kind, lambda tensor: tensor.random_(low, high))


@aten("multinomial.default", draws=True)
def _multinomial(draw: _Draw, self: Value, num_samples: int, replacement: bool = False) -> Value:
    """As PyTorch draws without replacement, or one: the greatest quotients by exponential ones."""
    if replacement and num_samples > 1:
        raise UnsupportedError("multinomial with replacement: how many numbers depends on data")
    waits = draw(self.shape, torch_dtype(self.dtype), lambda tensor: tensor.exponential_(1))
    return nn.top_k(self / waits, num_samples)[1]


@aten("rrelu_with_noise_functional.default")
def _rrelu(
    self: Value,
    noise: Value,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
) -> tuple[Value, Value]:
    if training:
        raise UnsupportedError("rrelu while training: how many numbers it draws depends on data")
    return np.where(self > 0, self, self * ((lower + upper) / 2)), noise
