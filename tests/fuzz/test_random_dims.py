"""A sample of ``tests/fuzz/dims_run.py``: random statements about sizes."""

from __future__ import annotations

import random

import pytest
from random_dims import draw_statement, verdict


@pytest.mark.parametrize("chunk", range(4))
def test_no_proof_is_wrong(chunk: int) -> None:
    decided = 0
    for seed in range(chunk * 250, chunk * 250 + 250):
        rng = random.Random(seed)
        proved, message = verdict(rng, draw_statement(rng))
        assert not message, f"seed {seed}: {message}"
        decided += proved is not None
    assert decided > 100
