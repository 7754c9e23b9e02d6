"""Programs that ``torch.export`` made with dynamic shapes: one compile for all of their sizes."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest
import torch
from torch import nn


class Attention(nn.Module):
    """Places counted to the length, a causal mask, a number that is a size, two results."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(50, 16), nn.Embedding(64, 16)
        self.mix = nn.Linear(16, 48)
        self.register_buffer("kinds", torch.ones(1, 64))

    def forward(self, x):
        batch, n = x.shape
        h = self.tokens(x) + self.places(torch.arange(n))
        parts = self.mix(h).view(batch, n, 3, 4, 4).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        h = mixed.transpose(1, 2).reshape(batch, n, 16) + self.kinds[:, :n, None]
        return h / n, h.mean(1)


class Images(nn.Module):
    """A convolution, and a view of symbolic height and width."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x):
        h = torch.relu(self.conv(x))
        return h.flatten(2).transpose(1, 2) + torch.zeros(x.shape[2] * x.shape[3], 1)


def test_a_batch_and_a_length() -> None:
    torch.manual_seed(0)
    model = Attention().eval()
    sizes = {0: torch.export.Dim("batch", min=2, max=8), 1: torch.export.Dim("n", min=2, max=64)}
    example = (torch.zeros(3, 7, dtype=torch.int64),)
    program = torch.export.export(model, example, dynamic_shapes=(sizes,), strict=False)
    f = lw.from_torch(program)
    for batch, n in ((3, 7), (2, 2), (8, 64), (5, 33)):
        x = torch.randint(0, 50, (batch, n))
        for result, wanted in zip(f(x), model(x), strict=True):
            torch.testing.assert_close(result, wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises(lw.LoopwrightError):
        f(torch.zeros(3, 65, dtype=torch.int64))


def test_a_height_and_a_width() -> None:
    torch.manual_seed(0)
    model = Images().eval()
    sizes = {2: torch.export.Dim("h", min=3, max=64), 3: torch.export.Dim("w", min=3, max=64)}
    example = (torch.zeros(1, 3, 8, 9),)
    program = torch.export.export(model, example, dynamic_shapes=(sizes,), strict=False)
    f = lw.from_torch(program)
    for h, w in ((8, 9), (3, 64), (17, 4)):
        x = np.random.default_rng(h).standard_normal((1, 3, h, w)).astype(np.float32)
        with torch.no_grad():
            wanted = model(torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(f(x), wanted, rtol=1e-4, atol=1e-5)
