"""Weights of integers in graphs that ``torch.export`` makes."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.ao.quantization.fx._decomposed")  # registers the operators


class Groups(torch.nn.Module):
    def __init__(self, bits: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
        codes = torch.randint(low, high + 1, (40, 128), generator=generator, dtype=torch.int8)
        self.register_buffer("codes", codes)
        self.register_buffer("scales", torch.rand(40, 4, generator=generator) + 0.5)
        self.register_buffer("zeros", torch.randint(-4, 4, (40, 4), generator=generator).float())
        self.range = low, high

    def forward(self, x):
        dequantise = torch.ops.quantized_decomposed.dequantize_per_channel_group
        given = (*self.range, torch.int8, 32, torch.float32)
        weights = dequantise(self.codes, self.scales, self.zeros, *given)
        return torch.nn.functional.linear(x, weights)


class Channels(Groups):
    def forward(self, x):
        dequantise = torch.ops.quantized_decomposed.dequantize_per_channel
        scales, zeros = self.scales[:, 0].double(), self.zeros[:, 0].long()
        weights = dequantise(self.codes, scales, zeros, 0, *self.range, torch.int8)
        return torch.nn.functional.linear(x, weights.float())


class Bytes(Groups):
    def forward(self, x):
        return torch.ops.aten._weight_int8pack_mm(x, self.codes, self.scales[:, 0].contiguous())


@pytest.mark.parametrize("kind", [Groups, Channels, Bytes])
@pytest.mark.parametrize("bits", [4, 8])
def test_weights_stay_integers(kind, bits) -> None:
    model, x = kind(bits).eval(), torch.randn(3, 128, generator=torch.Generator().manual_seed(1))
    module = lw.from_torch(torch.export.export(model, (x,)))
    wanted = model(x).numpy()
    got = np.asarray(module(x.numpy()))
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())
