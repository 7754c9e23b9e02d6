"""What tests of PyTorch share."""

from __future__ import annotations

import pytest


@pytest.fixture
def fresh_dynamo() -> None:
    """Nothing is compiled yet, and random numbers are the same in every test."""
    import torch

    torch._dynamo.reset()
    torch.manual_seed(0)
