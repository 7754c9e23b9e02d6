"""Modules of bfloat16 through ``from_torch`` and ``torch.compile``."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest

torch = pytest.importorskip("torch")

ml_dtypes = pytest.importorskip("ml_dtypes")

from loopwright.doors.torch_model import backend  # noqa: E402


class Block(torch.nn.Module):
    """A layer of a transformer, and a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.TransformerEncoderLayer(32, 4, 64, 0.0, "gelu", batch_first=True)
        self.conv = torch.nn.Conv2d(8, 16, 3, padding=1)

    def forward(self, x: Any, image: Any) -> Any:
        return self.layer(x) * 0.5 + 1, torch.relu(self.conv(image)).mean((2, 3))


def block() -> tuple[Any, tuple[Any, ...]]:
    torch.manual_seed(0)
    return Block().eval().bfloat16(), (
        torch.randn(2, 9, 32, dtype=torch.bfloat16),
        torch.randn(2, 8, 7, 5, dtype=torch.bfloat16),
    )


def check(results: Any, module: Any, args: tuple[Any, ...]) -> None:
    """Results are as near as PyTorch's own to those of float64 on the same weights."""
    exact = module.double()(*(a.double() for a in args))
    for result, right in zip(results, exact, strict=True):
        assert result.dtype is torch.bfloat16
        worst = (result.double() - right).abs().max() / right.abs().max()
        assert 0 < worst < 2**-6


def test_a_module_of_bfloat16_keeps_its_dtype() -> None:
    module, args = block()
    f = lw.from_torch(module, args)
    with torch.no_grad():
        check(f(*args), module, args)


def test_arrays_come_in_and_go_out_as_well() -> None:
    module = torch.nn.Linear(16, 4).bfloat16()
    x = torch.randn(3, 16, dtype=torch.bfloat16)
    array = x.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    result = lw.from_torch(module, (x,))(array)
    assert isinstance(result, np.ndarray) and result.dtype == ml_dtypes.bfloat16
    right = module(x).detach().double().numpy()
    np.testing.assert_allclose(result.astype(np.float64), right, rtol=2**-7, atol=2**-7)


def test_a_graph_of_torch_compile() -> None:
    module, args = block()
    with torch.no_grad():
        results = torch.compile(module, backend=backend)(*args)
        check(results, module, args)


def test_precision_is_an_option_of_the_importer() -> None:
    module, x = torch.nn.Linear(64, 32).eval(), torch.randn(8, 64)
    f = lw.from_torch(module, (x,), precision="bf16")
    with torch.no_grad():
        off = (f(x) - module(x)).abs().max()
    assert 0 < off < 0.05
    assert "bfloat16" in f.lower(x).as_text("kernels")


def test_a_result_that_is_a_constant_keeps_its_dtype() -> None:
    class Pair(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x + 1, torch.full((2,), 3.0, dtype=torch.bfloat16) * 2

    x = torch.ones(2, dtype=torch.bfloat16)
    for result, wanted in zip(lw.from_torch(Pair(), (x,))(x), Pair()(x), strict=True):
        assert result.dtype is torch.bfloat16 and torch.equal(result, wanted)
