"""Operators that only PyTorch can run, by construction: their bodies are opaque to a compiler.

All are linear and their own adjoints, so that their gradients are themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["FOREIGN", "WRITING", "by_memory", "noisy"]


def _scaled(x: Tensor) -> Tensor:
    return x * 2


def _reversed_axes(x: Tensor) -> Tensor:
    """Its last axis is the slowest in memory."""
    order = list(range(x.dim()))[::-1]
    return (x * 0.5).permute(order).contiguous().permute(order)


def _with_gaps(x: Tensor) -> Tensor:
    """Every other element of its memory."""
    wide = torch.zeros(*x.shape, 2, dtype=x.dtype)
    wide[..., 1] = x
    return wide[..., 1]


def _expanded(x: Tensor) -> Tensor:
    """One number everywhere, of strides 0."""
    return (x.sum() / max(1, x.numel())).expand(x.shape)


def _declare(function: Callable[[Tensor], Tensor], fake: Callable[[Tensor], Tensor]) -> Any:
    name = f"foreign::{function.__name__.strip('_')}"
    op = torch.library.custom_op(name, function, mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_fake(fake)
    op.register_autograd(lambda ctx, grad: op(grad))
    return op


FOREIGN: dict[str, Callable[[Tensor], Tensor]] = {
    function.__name__.strip("_"): _declare(function, function)
    for function in (_scaled, _reversed_axes, _with_gaps, _expanded)
}
"""By name."""


def _by_memory(x: Tensor) -> Tensor:
    """``x`` plus a number that says how it lies in memory."""
    places = [stride for size, stride in zip(x.shape, x.stride()) if size > 1]
    return x + sum((n + 2) * stride for n, stride in enumerate(places)) + x.storage_offset()


def _noisy(x: Tensor) -> Tensor:
    """``x`` plus a number of PyTorch's generator."""
    return x + torch.rand(())


by_memory = _declare(_by_memory, torch.empty_like)
noisy = _declare(_noisy, torch.empty_like)


@torch.library.custom_op("foreign::halve_", mutates_args=("x",))
def halve_(x: Tensor) -> None:
    x.mul_(0.5)


def _half_written(x: Tensor) -> Tensor:
    """Every other element on the last axis is halved, through a view."""
    y = x * 1.5
    halve_(y[..., ::2] if y.dim() else y)
    return y


WRITING: dict[str, Callable[[Tensor], Tensor]] = {"half_written": _half_written}
"""Functions that write into views of what they compute. They have no gradients."""
