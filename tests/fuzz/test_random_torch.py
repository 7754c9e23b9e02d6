"""Random modules of PyTorch agree with eager float64; ``torch_run.py`` runs hundreds."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest

pytest.importorskip("torch")

import loopwright as lw
import torch
from random_torch import draw_module, mistakes

sys.path.insert(0, str(Path(__file__).parent))


@pytest.mark.parametrize("seed", range(8))
def test_random_modules(seed: int) -> None:
    module, inputs, single, double = draw_module(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compiled = lw.from_torch(module, tuple(inputs), threads=1)
        except lw.UnsupportedError as error:
            assert "needs what is not supported" in str(error)
            return
    assert not mistakes(compiled(*inputs), single, double), str(module)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [13, 22])
def test_random_operators(seed: int) -> None:
    pytest.importorskip("expecttest")
    from torch_operators_run import report

    kind, text = report(seed)
    assert kind.startswith(("right", "refused")), text


def test_tables_that_are_constants_are_looked_up_by_traced_indices() -> None:
    table = torch.arange(12.0).reshape(4, 3)

    class Lookup(torch.nn.Module):
        def forward(self, x):
            index = x.long()
            picked = table[index], table.index_select(0, index)
            return (torch.nn.functional.embedding(index, table), *picked)

    x = torch.tensor([3.0, 0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = lw.from_torch(Lookup(), (x,))
    for given, wanted in zip(compiled(x), Lookup()(x), strict=True):
        assert torch.equal(given, wanted)
