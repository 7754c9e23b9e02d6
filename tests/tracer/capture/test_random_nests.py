"""Random nests of loops over elements: what they compute and write is what Python does."""

from __future__ import annotations

import pytest
from random_nests import outcome, text_of


@pytest.mark.parametrize("seed", range(24))
def test_random_nests(seed: int) -> None:
    assert outcome(seed) in ("right", "beyond"), text_of(seed)
