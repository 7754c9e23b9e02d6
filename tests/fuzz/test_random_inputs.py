"""Random arguments of every kind and layout: ``inputs_run.py`` runs many more of them."""

from __future__ import annotations

import numpy as np
import pytest
from input_check import failures
from random_inputs import LAYOUTS, Session, described, difference


@pytest.mark.parametrize("first", range(0, 20, 10))
def test_random_inputs(first: int) -> None:
    for seed in range(first, first + 10):
        session = Session(seed)
        assert not failures(session), f"{session}"


def test_a_call_is_the_same_each_time_on_other_memory() -> None:
    for seed in range(20):
        one, other = Session(seed).call(1), Session(seed).call(1)
        assert described([*one.args, one.kwargs]) == described([*other.args, other.kwargs])
        assert not difference([*one.args, one.kwargs], [*other.args, other.kwargs])


def test_layouts_hold_the_same_values() -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    for name, layout in LAYOUTS.items():
        wanted = np.broadcast_to(values[:1], (3, 4)) if name == "spread" else values
        assert not difference(layout(values.copy()), wanted.copy()), name


def test_differences_are_seen() -> None:
    x = np.zeros(3, np.float32)
    assert "result.1" in difference([x, x + 1], [x, x])
    assert difference([x], (x,))
    assert difference(x.astype(np.float64), x)
    assert difference({"a": x}, {"b": x})
