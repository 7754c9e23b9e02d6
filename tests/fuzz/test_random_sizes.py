"""A sample of ``tests/fuzz/sizes_run.py``: one compile against NumPy at several sizes."""

from __future__ import annotations

import pytest
from random_sizes import draw_sized, failure


@pytest.mark.parametrize("seed", range(7, 15))
def test_random_programs_over_sizes(seed: int) -> None:
    text = failure(draw_sized(seed), seed)
    if text.startswith("refused"):
        pytest.skip(text.splitlines()[0])
    assert not text, f"{text}\n{draw_sized(seed)}"
