"""Random modules with operators that only PyTorch can run agree with eager float64, and so do their
gradients; ``python tests/fuzz/test_torch_partitions.py 0 500`` runs as many."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest

pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import torch
from foreign_torch import FOREIGN, WRITING
from loopwright.doors.torch_model import backend
from random_torch import RandomModule, draw_module, mistakes
from torch import Tensor


def _compiled(module: RandomModule) -> torch.nn.Module:
    torch._dynamo.reset()
    return torch.compile(module, backend=backend, fullgraph=True, options={"threads": 1})


def _gradients(module: torch.nn.Module, inputs: list[Tensor]) -> list[Tensor]:
    leaves = [x.clone().requires_grad_() for x in inputs]
    results = [y for y in module(*leaves) if y.requires_grad]
    total = sum((y * torch.linspace(-1, 1, y.numel()).view(y.shape)).sum() for y in results)
    if not results:
        return []
    total.backward()
    return [x.grad for x in leaves if x.grad is not None]


def wrong(seed: int) -> str:
    """What is wrong with the results of a module of that seed, or nothing."""
    module, inputs, single, double = draw_module(seed, foreign=FOREIGN | WRITING)
    text = mistakes(_compiled(module)(*inputs), single, double)
    return text and f"seed {seed}: {text}\n{module}"


def wrong_gradients(seed: int) -> str:
    """What is wrong with the gradients of a module of that seed, or nothing."""
    module, inputs, *_ = draw_module(seed, foreign=FOREIGN)
    low, high = (_gradients(module, [x.to(d) for x in inputs]) for d in (torch.float, torch.double))
    if not all(torch.allclose(a.double(), b, rtol=1e-3, atol=1e-3) for a, b in zip(low, high)):
        return ""  # a rounding decides
    text = mistakes(_gradients(_compiled(module), inputs), low, high)
    return text and f"gradients of seed {seed}: {text}\n{module}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(6))
def test_random_modules_in_parts(seed: int) -> None:
    assert not wrong(seed)
    assert not wrong_gradients(seed)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for n in range(*map(int, sys.argv[1:])):
        for check in (wrong, wrong_gradients):
            try:
                said = check(n)
            except Exception as error:
                said = f"{check.__name__} of seed {n}: {type(error).__name__}: {error}"
            if said:
                print(said[:1500], flush=True)
