"""Models that are trained in two ways: their outputs, gradients and buffers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch

__all__ = ["assert_trained_alike"]


def assert_trained_alike(
    model: torch.nn.Module,
    compile: Callable[[torch.nn.Module], Callable[[torch.Tensor], torch.Tensor]],
    side: int,
    batches: Sequence[int],
) -> None:
    """Checks that a compiled model gives PyTorch's results and gradients for batches of images of 3
    channels, step by step and with the same random numbers, and leaves the same buffers."""
    theirs = copy.deepcopy(model)
    f = compile(model)
    for step, batch in enumerate(batches):
        x = torch.randn(batch, 3, side, side)
        results = []
        for each in (f, theirs):
            leaf = x.clone().requires_grad_()
            torch.manual_seed(step)
            y = each(leaf)
            y.square().sum().backward()
            results.append((y.detach(), leaf.grad))
        torch.testing.assert_close(*map(list, results), rtol=1e-4, atol=1e-5)
    for a, b in zip(model.parameters(), theirs.parameters()):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(list(model.buffers()), list(theirs.buffers()), rtol=1e-4, atol=1e-5)
